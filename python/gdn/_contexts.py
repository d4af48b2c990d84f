"""Backends, devices, contexts and the memory of devices."""
from __future__ import annotations

import ctypes as C
import math
import os
import threading
from collections import OrderedDict
from typing import Any, Callable, Dict, Hashable, MutableMapping, NamedTuple, Optional, Tuple, TypeVar, Union

import numpy as np

from . import _abi as abi
from ._library import Error, NotCopied, NotFound, check, lib, new, text

T = TypeVar("T")
BACKENDS = ("cpu", "reference", "cuda", "vulkan", "metal")
LEVELS = ("exact", "exact_ftz")  # indexed by the number in the C interface
_LOG_LEVELS = {abi.GDN_LOG_ERROR: "error", abi.GDN_LOG_WARNING: "warning", abi.GDN_LOG_INFO: "info", abi.GDN_LOG_DEBUG: "debug"}
_LOG_FN = C.CFUNCTYPE(None, C.c_void_p, C.c_int32, C.c_char_p)


class Implementation(NamedTuple):
    """One implementation of a device: the instruction sets of a CPU, the pipelines of a GPU."""

    name: str
    exact: bool  #: results are the reference's bits, with subnormals; for a context: at its level
    reason: str  #: why it is not exact, or ""
    levels: Tuple[str, ...] = ()  #: levels at which it is exact: "exact", "exact_ftz"


class Device(NamedTuple):
    """One device of a backend."""

    backend: str
    number: int  #: its index among the backend's devices
    name: str
    emulated: bool  #: runs on an emulator, not on the hardware it is named for
    shared_memory: bool  #: the device can access NumPy arrays
    memory_bytes: int  #: 0 = unknown
    implementations: Tuple[Implementation, ...]  #: the best one first


class Backend(NamedTuple):
    """One backend of the library."""

    name: str
    built: bool  #: this build of the library contains it
    available: bool  #: it has at least one device on this machine
    reason: str  #: why it is not available, or ""
    devices: Tuple[Device, ...]


class Capability(NamedTuple):
    """The result of gdn.capability(): whether and how a call would run."""

    supported: bool
    exact: bool  #: it gives the reference's bits
    emulated: bool
    workspace_bytes: int
    implementation: str  #: such as "avx512/columns"
    reason: str  #: why it is not supported or not exact, or ""
    slot_bytes: int  #: of a packed slot of the states or of the history
    log_entry_bytes: int  #: of a packed entry of a replay log


def _implementation(info: abi.gdn_implementation_info) -> Implementation:
    levels = tuple(name for number, name in enumerate(LEVELS) if info.levels >> number & 1)
    return Implementation(text(info.name), "exact" in levels, text(info.reason), levels)


def _device(info: abi.gdn_device_info) -> Device:
    implementations = []
    for index in range(info.n_implementations):
        one = new(abi.gdn_implementation_info)
        check(lib.gdn_implementation_describe(info.backend, info.device, index, one))
        implementations.append(_implementation(one))
    return Device(BACKENDS[info.backend], info.device, text(info.name), bool(info.emulated), bool(info.shared_memory),
                  info.memory_bytes, tuple(implementations))


def backends() -> Tuple[Backend, ...]:
    """All backends with their devices. Searches for drivers, which may take a moment. Thread-safe."""
    found = []
    for number in range(len(BACKENDS)):
        info = new(abi.gdn_backend_info)
        check(lib.gdn_backend_describe(number, info))
        devices = []
        for index in range(info.n_devices):
            device = new(abi.gdn_device_info)
            check(lib.gdn_device_describe(number, index, device))
            devices.append(_device(device))
        found.append(Backend(text(info.name), bool(info.built), bool(info.available), text(info.reason), tuple(devices)))
    return tuple(found)


class _Opened(NotCopied):
    """A context of the C library, destroyed with its last reference. Calls pass this object, and buffers hold it, so it
    outlives both. In a reference cycle Python finalises objects in any order: then destroying frees the buffers too."""

    def __init__(self, desc: abi.gdn_context_desc, log):
        self._log = log  # the callback lives as long as the context
        self.freed: list = []  # spans of a device, whose context only one thread at a time may use
        handle = C.c_void_p()
        check(lib.gdn_context_create(desc, handle))
        self._as_parameter_: Optional[int] = handle.value  # what ctypes passes for this object

    def __del__(self, destroy=lib.gdn_context_destroy):  # globals may be gone when the interpreter exits
        handle, self._as_parameter_ = getattr(self, "_as_parameter_", None), None
        if handle is not None:
            destroy(handle)


class _Thread(threading.local):
    """What each thread keeps of a context."""

    def __init__(self):
        self.scratch: Optional[_Buffer] = None
        self.calls: OrderedDict[Hashable, Any] = OrderedDict()  # prepared calls, the least recently used one first


class Context(NotCopied):
    """An opened device of a backend, on which kernels run.

    backend         "cpu", "reference", "cuda", "vulkan" or "metal"
    device          its index among the backend's devices
    n_threads       CPU: most threads for one call; 0 = GDN_NUM_THREADS of the environment, or one per processor
    openmp          CPU: True runs calls on the threads of the OpenMP runtime that the process has loaded, as PyTorch has
                    where it uses OpenMP. Unavailable without one. A context has threads of its own otherwise
    implementation  a name of Device.implementations; None = the best one, or what GDN_IMPLEMENTATION says
    level           how subnormal numbers are handled: "exact" keeps them, "exact_ftz" flushes them to zeros of their
                    sign. At both levels results are the reference's bits. Implementation.levels lists the levels of an
                    implementation
    log             called as log(severity, message) with "error", "warning", "info" or "debug"; from any thread
    timeout         GPU: longest wait of one call, in seconds; None = the library's default

    Thread-safety: on the CPU and the reference any number of threads may use a context at the same time. Results depend
    neither on that nor on n_threads. On a device only one thread at a time may use a context. After a fork, a context
    works in the child on the calling thread alone. copy.deepcopy of an object that holds a context keeps the same context.
    copy.copy and pickle of one raise TypeError.
    Errors: InvalidArgument, NotFound, Unavailable, OutOfMemory; Unsupported: no such level.
    """

    instead = "; make another one with gdn.Context()"

    def __init__(self, backend: str = "cpu", device: int = 0, *, n_threads: int = 0, openmp: bool = False,
                 implementation: Optional[str] = None, level: str = "exact", log: Optional[Callable[[str, str], None]] = None,
                 timeout: Optional[float] = None):
        self._opened: Optional[_Opened] = None
        self.thread = _Thread()
        if backend not in BACKENDS:
            raise NotFound(f"backend is {backend!r}; there are {', '.join(BACKENDS)}")
        if level not in LEVELS:
            raise ValueError(f"level is {level!r}; {' and '.join(LEVELS)} are allowed")
        desc = new(abi.gdn_context_desc)
        desc.backend, desc.device, desc.n_threads = BACKENDS.index(backend), _count("device", device), _count("n_threads", n_threads)
        desc.implementation = implementation.encode() if implementation is not None else None
        desc.level = LEVELS.index(level)
        if timeout is not None:
            if not 0 < timeout < 1e9:
                raise ValueError(f"timeout is {timeout!r}; seconds above 0 and below 1e9 are allowed")
            desc.timeout_ns = max(1, int(timeout * 1e9))
        if openmp:
            check(lib.gdn_openmp_threads(desc))
        callback = None
        if log is not None:
            given = log
            callback = _LOG_FN(lambda user, level, message: given(_LOG_LEVELS.get(level, "debug"), text(message)))
            desc.log = C.cast(callback, C.c_void_p)
        self._opened = _Opened(desc, callback)
        info, implementation_info = new(abi.gdn_device_info), new(abi.gdn_implementation_info)
        check(lib.gdn_context_describe(self._opened, info, implementation_info))
        self.device: Device = _device(info)
        self.implementation: Implementation = _implementation(implementation_info)
        self.level: str = level

    @property
    def backend(self) -> str:
        """The name of its backend."""
        return self.device.backend

    @property
    def opened(self) -> _Opened:
        """The context for a call of the library."""
        if (opened := self._opened) is None:
            raise ValueError("the context is closed")
        return opened

    @property
    def handle(self) -> int:
        """The gdn_context, as an address, while this object is open."""
        return self.opened._as_parameter_

    def close(self) -> None:
        """Make no more calls. The context is destroyed when calls in other threads have returned, and no array of it is
        left."""
        self._opened = None
        self.thread = _Thread()

    def __deepcopy__(self, memo) -> "Context":
        return self

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._opened is None else self.implementation.name
        if self.level != LEVELS[0]:
            state += " " + self.level
        return f"<gdn.Context {self.backend}:{self.device.number} {self.device.name!r} {state}>"

    def synchronize(self, stream: Optional[int] = None) -> None:
        """Wait for all work on the context's queue, or on the stream. Raises the first failure of the device."""
        check(lib.gdn_synchronize(self.opened, stream))

    def poll(self) -> None:
        """Raise the first failure of the device since the last report, without waiting."""
        check(lib.gdn_poll(self.opened))

    def empty(self, shape: Union[int, Tuple[int, ...]], dtype="float32") -> "DeviceArray":
        """An array in the device's memory, contents undefined."""
        return DeviceArray(self, shape, dtype)

    def array(self, source) -> "DeviceArray":
        """A copy of a NumPy array in the device's memory."""
        source = np.asarray(source)
        made = DeviceArray(self, source.shape, source.dtype)
        made.write(source)
        return made

    def scratch(self, n_bytes: int) -> "_Buffer":
        """This thread's scratch memory, which grows and is reused: calls run one after another, or are ordered by the
        queue. A call keeps the reference until it returns."""
        kept = self.thread.scratch
        if kept is None or kept.span.bytes < n_bytes:
            self.thread.scratch = kept = _Buffer(self, n_bytes)
        return kept


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError(f"{name} is {value!r}; a number from 0 to 2^32 - 1 is allowed")
    return value


class _Buffer(NotCopied):
    """Memory of a context, freed with its last reference, in any thread."""

    def __init__(self, context: Context, n_bytes: int):
        self.span = abi.gdn_span()
        self._shared = context.device.shared_memory
        self._opened = context.opened
        while self._opened.freed:
            lib.gdn_buffer_destroy(self._opened, self._opened.freed.pop())
        check(lib.gdn_buffer_create(self._opened, max(n_bytes, 1), self.span))

    def __del__(self, destroy=lib.gdn_buffer_destroy):
        if self.span.data and self._opened._as_parameter_ is not None:
            if self._shared:
                destroy(self._opened, self.span)
            else:  # another thread may be using the context: the next buffer's creation frees this
                self._opened.freed.append(self.span)


class DeviceArray(NotCopied):
    """A packed array in device memory: the operand type for contexts that cannot access NumPy's memory. It cannot be
    sliced; kernels take whole arrays."""

    instead = "; context.array(x.numpy()) makes another one"

    def __init__(self, context: Context, shape, dtype="float32"):
        self.context = context
        self.shape: Tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = math.prod(map(int, self.shape)) * self.dtype.itemsize  # no overflow: an integer of Python
        if self.nbytes >= 1 << 63 or any(n < 0 for n in self.shape):
            raise ValueError(f"shape is {self.shape}; dimensions from 0 on, and less than 2^63 bytes, are allowed")
        self._buffer = _Buffer(context, self.nbytes)

    @property
    def span(self) -> abi.gdn_span:
        """The memory as a gdn_span, for the C interface."""
        self.context.opened  # raises if the context is closed
        return self._buffer.span

    def write(self, source) -> None:
        """Copy an array of the same shape and dtype to the device. Ordered after everything on the context's queue."""
        source = np.ascontiguousarray(source).reshape(np.shape(source))
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ValueError(f"source has shape {source.shape} and dtype {source.dtype}; it must be {self.shape} and {self.dtype}")
        check(lib.gdn_buffer_write(self.context.opened, self.span, 0, source.ctypes.data, self.nbytes))

    def numpy(self) -> np.ndarray:
        """Copy to a NumPy array, after all work on the context's queue. Raises failures of that work."""
        target = np.empty(self.shape, self.dtype)
        check(lib.gdn_buffer_read(self.context.opened, self.span, 0, target.ctypes.data, self.nbytes))
        self.context.poll()
        return target

    def __repr__(self) -> str:
        return f"<gdn.DeviceArray {self.shape} {self.dtype} on {self.context!r}>"


_lock = threading.Lock()
_default: Dict[Tuple[int, Any], Context] = {}


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the lock at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def once(kept: MutableMapping[Tuple[int, Any], T], make: Callable[[Any], T], key: Any) -> T:
    """make(key), created at first use in each process and kept with the process's number: a forked child creates its
    own."""
    own = os.getpid(), key
    found = kept.get(own)
    if found is None:
        with _lock:
            found = kept.get(own)
            if found is None:
                found = kept[own] = make(key)
    return found


def default_context() -> Context:
    """The default context of calls: the CPU with all its threads, created at first use. A forked child creates its own,
    with threads."""
    return once(_default, lambda _: Context(), None)


__all__ = ["Backend", "Capability", "Context", "Device", "DeviceArray", "Error", "Implementation", "backends", "default_context"]

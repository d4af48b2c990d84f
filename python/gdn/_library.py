"""Loads the shared library next to this file, and turns its errors into exceptions."""
from __future__ import annotations

import ctypes as C
import pathlib
import sys
from typing import Any, Dict, Optional, Tuple

from . import _abi as abi
from ._words import in_python

_ERRORS: Dict[int, type] = {}


class Error(Exception):
    """A failed call of the library. str() is the library's text in Python's words. It names the argument, its value and the
    allowed values. `status` is the number of GDN_INVALID_ARGUMENT and so on. Nothing was written."""

    status = abi.GDN_INTERNAL

    def __init_subclass__(cls, status: Optional[int] = None) -> None:
        """Register a subclass under its status, for check()."""
        if status is not None:
            cls.status = status
            _ERRORS[status] = cls


class InvalidArgument(Error, ValueError, status=abi.GDN_INVALID_ARGUMENT):
    """An argument is outside what its documentation allows."""


class Unsupported(Error, status=abi.GDN_UNSUPPORTED):
    """Valid, but this backend or device cannot do it."""


class OutOfMemory(Error, MemoryError, status=abi.GDN_OUT_OF_MEMORY):
    """Host or device memory ran out."""


class NotFound(Error, LookupError, status=abi.GDN_NOT_FOUND):
    """No such backend, device or implementation."""


class Unavailable(Error, status=abi.GDN_UNAVAILABLE):
    """The driver or loader of the backend is missing on this machine."""


class DeviceLost(Error, status=abi.GDN_DEVICE_LOST):
    """The device failed; the context can only be closed."""


class Timeout(Error, TimeoutError, status=abi.GDN_TIMEOUT):
    """A bounded wait ran out."""


class BadMap(Error, IndexError, status=abi.GDN_BAD_MAP):
    """A device found a map value out of range, after launch."""


class Internal(Error, status=abi.GDN_INTERNAL):
    """A driver call failed unexpectedly."""


def check(status: int) -> None:
    """Raise the exception of a status. The text is the calling thread's last one, so call this in the same thread."""
    if status != abi.GDN_OK:
        said = lib.gdn_last_error() or lib.gdn_status_name(status)
        raise _ERRORS.get(status, Internal)(in_python(text(said)))


def _name() -> str:
    """The library's file name on this system, as python/CMakeLists.txt installs it."""
    return {"darwin": "libgdn.dylib", "win32": "gdn.dll"}.get(sys.platform, "libgdn.so")


def _load() -> C.CDLL:
    path = pathlib.Path(__file__).with_name(_name())
    if not path.exists():
        raise ImportError(f"{path} is missing: the package has to be built and installed (pip install .), not imported from its "
                          "sources")
    library = C.CDLL(str(path))  # CDLL releases the GIL while it calls
    context, pointer = C.c_void_p, C.c_void_p
    info = {"backend": abi.gdn_backend_info, "device": abi.gdn_device_info, "implementation": abi.gdn_implementation_info}
    span, record = C.POINTER(abi.gdn_span), C.POINTER(abi.gdn_record)
    signatures: Dict[str, Tuple[Any, ...]] = {
        "gdn_last_error": (C.c_char_p,),
        "gdn_status_name": (C.c_char_p, C.c_int32),
        "gdn_version": (C.c_uint32,),
        "gdn_abi_version": (C.c_uint32,),
        "gdn_backend_describe": (C.c_int32, C.c_uint32, C.POINTER(info["backend"])),
        "gdn_device_describe": (C.c_int32, C.c_uint32, C.c_uint32, C.POINTER(info["device"])),
        "gdn_implementation_describe": (C.c_int32, C.c_uint32, C.c_uint32, C.c_uint32, C.POINTER(info["implementation"])),
        "gdn_context_create": (C.c_int32, C.POINTER(abi.gdn_context_desc), C.POINTER(context)),
        "gdn_openmp_threads": (C.c_int32, C.POINTER(abi.gdn_context_desc)),
        "gdn_context_destroy": (None, context),
        "gdn_context_describe": (C.c_int32, context, C.POINTER(info["device"]), C.POINTER(info["implementation"])),
        "gdn_synchronize": (C.c_int32, context, pointer),
        "gdn_poll": (C.c_int32, context),
        "gdn_struct_init": (C.c_int32, C.c_char_p, pointer, C.c_uint32),
        "gdn_record_bytes": (C.c_int32, context, record, C.POINTER(C.c_uint64)),
        "gdn_record_write": (C.c_int32, context, record, pointer, C.c_uint64),
        "gdn_record_read": (C.c_int32, context, record, pointer, C.c_uint64),
        "gdn_record_describe": (C.c_int32, pointer, C.c_uint64, record),
        "gdn_buffer_create": (C.c_int32, context, C.c_uint64, span),
        "gdn_buffer_destroy": (C.c_int32, context, span),
        "gdn_buffer_write": (C.c_int32, context, span, C.c_uint64, pointer, C.c_uint64),
        "gdn_buffer_read": (C.c_int32, context, span, C.c_uint64, pointer, C.c_uint64),
    }
    for kernel in ("gated_delta_net", "ssm_conv", "set_rows"):
        args = C.POINTER(getattr(abi, f"gdn_{kernel}_args"))
        signatures[f"gdn_{kernel}"] = (C.c_int32, context, args, pointer)
        signatures[f"gdn_{kernel}_query"] = (C.c_int32, context, args, C.POINTER(abi.gdn_capability))
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.gdn_abi_version() != abi.GDN_ABI_VERSION:
        raise ImportError(f"{path} has ABI version {library.gdn_abi_version()}, and this package was built for {abi.GDN_ABI_VERSION}")
    return library


lib = _load()


def version() -> str:
    """The release of the library, such as "0.1.0"."""
    number = lib.gdn_version()
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def new(kind):
    """A new struct with its size, its defaults and zeros, as by GDN_INIT."""
    made = kind()
    check(lib.gdn_struct_init(kind.__name__.encode(), C.byref(made), C.sizeof(kind)))
    return made


class NotCopied:
    """Base of objects that own memory or a handle of the library, which a copy would free a second time. copy and pickle
    refuse before they make anything."""

    instead = ""  # what to do instead

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it owns memory of the library{self.instead}")


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")

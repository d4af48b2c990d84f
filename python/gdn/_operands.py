"""Converts operands to the library's tensors, without copying: NumPy arrays, and objects with DLPack or the buffer
protocol."""
from __future__ import annotations

import ctypes as C
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _abi as abi
from ._contexts import Context, DeviceArray

RAW = -1  # bytes: Q8_0 where allowed
NAMES = {abi.GDN_F32: "float32", abi.GDN_F16: "float16", abi.GDN_BF16: "bfloat16", abi.GDN_I32: "int32", abi.GDN_I64: "int64",
         RAW: "uint8"}
FLOATS = (abi.GDN_F32, abi.GDN_F16, abi.GDN_BF16)
INTEGERS = (abi.GDN_I32, abi.GDN_I64)
_CODES = {name: code for code, name in NAMES.items()}
_SIZES = {abi.GDN_F32: 4, abi.GDN_F16: 2, abi.GDN_BF16: 2, abi.GDN_I32: 4, abi.GDN_I64: 8, RAW: 1}
_INT = frozenset((int,))
_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost: page-locked memory
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_DLPACK_CODES = {(2, 32): abi.GDN_F32, (2, 16): abi.GDN_F16, (4, 16): abi.GDN_BF16, (0, 32): abi.GDN_I32, (0, 64): abi.GDN_I64,
                 (1, 8): RAW}  # type code and bits


class _DLTensor(C.Structure):
    """DLTensor of dlpack.h; a managed tensor begins with one."""

    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int32), ("device_id", C.c_int32), ("ndim", C.c_int32), ("code", C.c_uint8),
                ("bits", C.c_uint8), ("lanes", C.c_uint16), ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


_capsule_pointer = C.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = C.c_void_p, (C.py_object, C.c_char_p)


class View(NamedTuple):
    """The memory of an operand."""

    name: str
    data: int
    offset: int
    n_bytes: int  # from its first to its last byte
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]  # in bytes
    dtype: int
    owner: Any  # keeps the memory alive
    place: Optional[int] = None  # number of the CUDA device; None: host memory, or a DeviceArray
    written: bool = False  # by the call


def _listed(codes: Sequence[int]) -> str:
    return ", ".join(NAMES[code] for code in codes)


def _dtype(name: str, dtype: np.dtype, uint16: Optional[str], allowed: Sequence[int]) -> int:
    if not dtype.isnative:
        raise TypeError(f"{name} has dtype {dtype}, of the other byte order")
    if dtype.name == "uint16":
        if uint16 not in ("bfloat16", "float16"):
            raise TypeError(f'{name} has dtype uint16; uint16="bfloat16" or uint16="float16" says what its bits are')
        return _CODES[uint16]
    if dtype.name not in _CODES:
        raise TypeError(f"{name} has dtype {dtype}; allowed: {_listed(allowed)}")
    return _CODES[dtype.name]


def _packed(shape: Sequence[int], size: int) -> Tuple[int, ...]:
    strides, step = [], size
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


_HEADER = object.__basicsize__  # in CPython the address of an array's memory follows its object's header: NumPy's binary interface
_probe = np.empty(1)
_KNOWN_LAYOUT = sys.implementation.name == "cpython" and C.c_size_t.from_address(id(_probe) + _HEADER).value == _probe.ctypes.data


def address(array: np.ndarray, at=C.c_size_t.from_address) -> int:
    """The address of an array's memory; array.ctypes.data takes eight times as long."""
    return at(id(array) + _HEADER).value if _KNOWN_LAYOUT else array.ctypes.data


def _of_numpy(name: str, array: np.ndarray, written: bool, uint16: Optional[str], allowed: Sequence[int]) -> View:
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is written, and this array is read-only")
    code = _dtype(name, array.dtype, uint16, allowed)
    return strided(name, address(array), array.shape, array.strides, code, array, written=written)


def _of_dlpack(name: str, producer, written: bool, allowed: Sequence[int]) -> View:
    """Import by DLPack without synchronisation (stream=-1): the call's stream is the one with the producer's work."""
    kind, number = producer.__dlpack_device__() if hasattr(producer, "__dlpack_device__") else (1, 0)
    capsule = producer.__dlpack__(stream=-1) if kind in _DLPACK_CUDA else producer.__dlpack__()
    tensor = C.cast(_capsule_pointer(capsule, b"dltensor"), C.POINTER(_DLTensor)).contents
    kind, number = tensor.device_type, tensor.device_id
    if kind not in _DLPACK_HOST + _DLPACK_CUDA:
        raise TypeError(f"{name} lies on a device of DLPack's type {kind}; host memory and CUDA's are taken")
    code = _DLPACK_CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if code is None:
        raise TypeError(f"{name} has DLPack's type code {tensor.code} of {tensor.bits} bits; allowed: {_listed(allowed)}")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] * _SIZES[code] for axis in range(tensor.ndim)) if tensor.strides else _packed(shape, _SIZES[code])
    return strided(name, (tensor.data or 0) + tensor.byte_offset, shape, strides, code, capsule, number if kind in _DLPACK_CUDA else None,
                   written)


def strided(name, data, shape, strides, code, owner, place=None, written=False) -> View:
    """A view of memory that `owner` keeps alive; strides in bytes."""
    if 0 in shape:
        return View(name, data, 0, 0, tuple(shape), _packed(shape, _SIZES[code]), code, owner, place, written)
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides)) + _SIZES[code]
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride <= 0:
            kind = "repeats one element (stride 0)" if not stride else f"runs backwards (stride {stride})"
            raise ValueError(f"{name}: axis {axis} {kind}, which the library does not take; {_instead(written)}")
    return View(name, data, 0, reach, tuple(shape), tuple(strides), code, owner, place, written)


def _instead(written: bool) -> str:
    """What to do about an operand's layout. A copy of one that is written would keep the results."""
    return "it is written in place, so allocate it with another layout" if written else "copy it (numpy.ascontiguousarray)"


def _at(of: View, context: Context) -> View:
    """Refuse memory that the context's kernels cannot access, or of another device."""
    wanted = context.device.number if context.backend == "cuda" else None
    if of.place != wanted:
        lies = "in host memory" if of.place is None else f"on CUDA device {of.place}"
        raise TypeError(f"{of.name} lies {lies}; the call is on {context!r}")
    return of


def view(name: str, operand, context: Context, written: bool = False, uint16: Optional[str] = None,
         allowed: Sequence[int] = FLOATS) -> View:
    """An operand's memory. Errors: TypeError, ValueError."""
    if isinstance(operand, View):
        return _at(operand, context)
    if isinstance(operand, DeviceArray):
        if operand.context is not context:
            raise ValueError(f"{name} is of {operand.context!r}; the call is on {context!r}")
        span, code = operand.span, _dtype(name, operand.dtype, uint16, allowed)
        return View(name, span.data, span.offset, operand.nbytes, operand.shape, _packed(operand.shape, _SIZES[code]), code, operand)
    foreign = not isinstance(operand, np.ndarray) and hasattr(operand, "__dlpack__")
    if not context.device.shared_memory and not (foreign and context.backend == "cuda"):
        raise TypeError(f"{name} is {_what(operand)}; on {context!r} operands are arrays of the device: Context.array(), Context.empty()")
    if isinstance(operand, np.ndarray):
        return _of_numpy(name, operand, written, uint16, allowed)
    if foreign:
        return _at(_of_dlpack(name, operand, written, allowed), context)
    try:
        array = np.asarray(memoryview(operand))
    except TypeError:
        raise TypeError(f"{name} is {_what(operand)}; an array of NumPy, or what has DLPack or the buffer protocol, is needed") from None
    return _of_numpy(name, array, written, uint16, allowed)


def _what(operand) -> str:
    return "None" if operand is None else f"of type {type(operand).__name__}"


def expect(of: View, shape: Sequence[Optional[int]], why: str, dtypes: Sequence[int] = FLOATS) -> View:
    """Check an operand's shape; None allows any extent."""
    if len(of.shape) != len(shape) or any(want is not None and have != want for have, want in zip(of.shape, shape)):
        want = "[" + ", ".join("any" if extent is None else str(extent) for extent in shape) + "]"
        raise ValueError(f"{of.name} has shape {list(of.shape)}; it must be {want}: {why}")
    if of.dtype not in dtypes:
        raise TypeError(f"{of.name} has dtype {NAMES[of.dtype]}; allowed: {_listed(dtypes)}")
    return of


def fill(tensor: Union[abi.gdn_tensor, abi.gdn_pool], of: View, axes: Sequence[Optional[int]], dtype: Optional[int] = None) -> None:
    """Set a tensor or a pool. `axes` are the array's axes for its strides, None for an absent one. The remaining axis,
    if any, must be contiguous."""
    tensor.data, tensor.offset, tensor.bytes = of.data or None, of.offset, of.n_bytes
    tensor.dtype = of.dtype if dtype is None else dtype
    for number, axis in enumerate(axes):
        if axis is not None and of.shape[axis] > 1:  # an axis of one element has no meaningful stride: 0, packed
            tensor.stride[number] = of.strides[axis]
    last = len(of.shape) - 1
    if last not in axes and of.shape[last] > 1 and of.strides[last] != _SIZES[of.dtype]:
        raise ValueError(f"{of.name}: the last axis has stride {of.strides[last]}; it must be contiguous, "
                         f"{_SIZES[of.dtype]} bytes; {_instead(of.written)}")


def integers(name: str, operand) -> np.ndarray:
    """The values of a map as a packed array of int32. Lists and arrays of other integers are converted, as maps are
    small."""
    if type(operand) is np.ndarray and operand.dtype == np.int32 and operand.flags.c_contiguous:
        return operand
    if type(operand) is list and _INT.issuperset(map(type, operand)) and operand and -1 << 31 <= min(operand) and max(operand) < 1 << 31:
        return np.array(operand, np.int32)
    array = np.asarray(operand)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; integers are needed")
    if array.size and (int(array.min()) < -1 << 31 or int(array.max()) >= 1 << 31):
        raise ValueError(f"{name} has values from {array.min()} to {array.max()}; int32 is what maps hold")
    return np.ascontiguousarray(array, np.int32).reshape(array.shape)


def map_(span: abi.gdn_span, name: str, operand, context: Context, shape: Sequence[Optional[int]], why: str) -> Optional[View]:
    """Set an int32 map. On devices it must be a DeviceArray of int32, since the kernel reads it when it runs."""
    if operand is None:
        return None
    if context.device.shared_memory and not isinstance(operand, (DeviceArray, View)):
        operand = integers(name, operand)
    of = expect(view(name, operand, context, allowed=(abi.GDN_I32,)), shape, why, (abi.GDN_I32,))
    span.data, span.offset, span.bytes = of.data or None, of.offset, of.n_bytes
    return of


def result(context: Context, shape: Sequence[int], dtype, zeros: bool) -> Any:
    """A new array that the context's kernels can write; `zeros`: cleared, for calls that may not write all of it."""
    if context.device.shared_memory:
        return (np.zeros if zeros else np.empty)(shape, dtype)
    return context.array(np.zeros(shape, dtype)) if zeros else context.empty(tuple(shape), dtype)

"""Tests on the emulated CUDA driver of tests/emulator, whose devices' memory is the host's: arrays that say they lie on a device."""
import ctypes as C
import pathlib
import sys

import numpy as np

import gdn
from gdn._operands import _DLTensor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

KINDS = {"float32": (2, 32), "float16": (2, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8)}  # DLPack's code and bits


class _Managed(C.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", C.c_void_p), ("deleter", C.c_void_p)]


_new_capsule = C.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = C.py_object, (C.c_void_p, C.c_char_p, C.c_void_p)


class OnDevice:
    """A NumPy array of host memory as another library's array on a CUDA device: DLPack and nothing else. `streams` has what its
    consumers have asked for."""

    def __init__(self, array, number=0, kind=2):
        self.array, self.number, self.kind, self.streams = array, number, kind, []
        self.shape = array.shape

    def __dlpack_device__(self):
        return self.kind, self.number

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        array, axes = self.array, self.array.ndim
        made = self.made = _Managed()
        self.kept = (C.c_int64 * axes)(*array.shape), (C.c_int64 * axes)(*(step // array.itemsize for step in array.strides))
        code, bits = KINDS[array.dtype.name]
        made.tensor = _DLTensor(array.ctypes.data, self.kind, self.number, axes, code, bits, 1, *(
            C.cast(part, C.POINTER(C.c_int64)) for part in self.kept), 0)
        return _new_capsule(C.addressof(made), b"dltensor", None)


class Driver:
    """Streams of the driver, as a program makes them on a device's primary context."""

    def __init__(self, number=0):
        self.cu, context = C.CDLL("libcuda.so.1"), C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", C.byref(context), number)
        self.call("cuCtxSetCurrent", context)
        self.number = number

    def call(self, name, *arguments):
        result = getattr(self.cu, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} gave {result}")

    def stream(self):
        made = C.c_void_p()
        self.call("cuStreamCreate", C.byref(made), 1)  # CU_STREAM_NON_BLOCKING
        return made.value

    def wait(self, stream):
        self.call("cuStreamSynchronize", C.c_void_p(stream))


def devices():
    """How many devices the emulated driver has; a test here shows nothing on another one."""
    cuda = next(one for one in gdn.backends() if one.name == "cuda")
    if not cuda.available or not all(one.emulated for one in cuda.devices):
        raise RuntimeError(f"these tests need the emulated driver (scripts/test.sh --stage python): {cuda.reason or cuda.devices}")
    return len(cuda.devices)


def zeros(shape, dtype=np.float32):
    return np.zeros(shape, dtype)

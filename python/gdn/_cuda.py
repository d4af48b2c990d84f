"""Contexts for calls with the memory and streams of a CUDA runtime, such as PyTorch's. Does not import PyTorch."""
from __future__ import annotations

import threading
from typing import Dict, NamedTuple, Tuple

from . import _abi as abi
from ._contexts import Context, once
from ._library import check, lib, new, text

_LEGACY = 1  # CU_STREAM_LEGACY


class Device(NamedTuple):
    """The context of a device. Only the thread that holds the lock may use it."""

    context: Context
    lock: threading.Lock


_devices: Dict[Tuple[int, int], Device] = {}  # by process and number


def stream(handle: int) -> int:
    """Convert a stream of the CUDA runtime for the library. The runtime's default stream has handle 0, but NULL would
    select the library's own stream, which does not wait for it."""
    return handle or _LEGACY


def why_not() -> str:
    """Why CUDA is not available here, or ""."""
    info = new(abi.gdn_backend_info)
    check(lib.gdn_backend_describe(abi.GDN_BACKEND_CUDA, info))
    return "" if info.available else text(info.reason)


def device(number: int) -> Device:
    """The context on a device's primary CUDA context, which the CUDA runtime uses too. Created at first use in a
    process. Errors: gdn.Unavailable, gdn.NotFound."""
    return once(_devices, lambda one: Device(Context("cuda", one), threading.Lock()), number)

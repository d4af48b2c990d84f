"""Calls with memory and streams of a CUDA runtime, as PyTorch's: on which context they run. Nothing of PyTorch is needed here."""
from __future__ import annotations

import os
import threading
from typing import Dict, NamedTuple, Tuple

from . import _abi as abi
from ._contexts import Context
from ._library import check, lib, new, text

_LEGACY = 1  # CU_STREAM_LEGACY


class Device(NamedTuple):
    """A device's context, which belongs to one thread at a time: whoever holds the lock."""

    context: Context
    lock: threading.Lock


_devices: Dict[Tuple[int, int], Device] = {}  # by process and number
_lock = threading.Lock()


def _unlock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def stream(handle: int) -> int:
    """A stream of the runtime as the library takes it: the runtime's default stream is the handle 0, and NULL would be a
    stream of the library's own, which does not wait for it."""
    return handle or _LEGACY


def why_not() -> str:
    """Why the library runs nothing on CUDA here, or ""."""
    info = new(abi.gdn_backend_info)
    check(lib.gdn_backend_describe(abi.GDN_BACKEND_CUDA, info))
    return "" if info.available else text(info.reason)


def device(number: int) -> Device:
    """The context on a device's primary CUDA context, which is the runtime's too; made at its first use in a process.
    Errors: gdn.Unavailable, gdn.NotFound."""
    key = os.getpid(), number
    found = _devices.get(key)
    if found is None:
        with _lock:
            found = _devices.get(key)
            if found is None:
                found = _devices[key] = Device(Context("cuda", number), threading.Lock())
    return found

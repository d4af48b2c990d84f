"""Caches prepared calls for decoding, so that Python validates and converts the arguments of repeated calls only
once."""
from __future__ import annotations

import threading
from typing import Callable, Dict, Hashable

from . import _abi as abi
from ._kernels import _Call
from ._library import check, lib, new

_MOST = 256  # prepared calls per thread; beyond that the cache is cleared


class Again:
    """A prepared call on a CPU, for operands with the shapes, strides and types of `call`: only addresses change. It
    keeps no operands of `call` but the maps. The library still checks each call. Belongs to one thread, which writes
    the struct."""

    def __init__(self, call: _Call, *operands: str):
        can = new(abi.gdn_capability)
        check(getattr(lib, f"gdn_{call.kernel}_query")(call.context.opened, call.args, can))
        self._bytes = can.workspace_bytes
        self._run = getattr(lib, f"gdn_{call.kernel}")
        self._context, self._args = call.context, call.args
        self._maps = [of for of in call.kept if of is not None and of.dtype == abi.GDN_I32]
        self._operands = [call.operand(name) for name in operands]

    def __call__(self, *addresses: int) -> None:
        for operand, address in zip(self._operands, addresses):
            operand.data = address
        if self._bytes:
            scratch = self._context._workspace(self._bytes)
            self._args.workspace = scratch.span
        check(self._run(self._context.opened, self._args, None))


_kept = threading.local()


def again(key: Hashable, make: Callable[[], Again]) -> Again:
    """This thread's prepared call for a key: context and all shapes, strides and types."""
    calls: Dict[Hashable, Again] = _kept.__dict__.setdefault("calls", {})
    found = calls.get(key)
    if found is None:
        if len(calls) >= _MOST:
            calls.clear()
        found = calls[key] = make()
    return found

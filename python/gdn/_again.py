"""Calls that are made again and again, once for each token: what Python works out for a call is worked out once."""
from __future__ import annotations

import threading
from typing import Callable, Dict, Hashable

from . import _abi as abi
from ._kernels import _Call
from ._library import check, lib, new

_MOST = 256  # calls that a thread keeps; a program with more kinds of them starts anew


class Again:
    """A call on a CPU with operands of the same shapes, strides and types as those of `call`, of which it keeps nothing but the
    maps: only addresses change. The library checks each call as ever. Of one thread, which writes the struct."""

    def __init__(self, call: _Call, *operands: str):
        can = new(abi.gdn_capability)
        check(getattr(lib, f"gdn_{call.kernel}_query")(call.context.handle, call.args, can))
        self._bytes = can.workspace_bytes
        self._run = getattr(lib, f"gdn_{call.kernel}")
        self._context, self._args = call.context, call.args
        self._maps = [of for of in call.kept if of is not None and of.dtype == abi.GDN_I32]
        self._operands = [call.operand(name) for name in operands]

    def __call__(self, *addresses: int) -> None:
        for operand, address in zip(self._operands, addresses):
            operand.data = address
        if self._bytes:
            self._args.workspace = self._context._workspace(self._bytes)
        check(self._run(self._context.handle, self._args, None))


_kept = threading.local()


def again(key: Hashable, make: Callable[[], Again]) -> Again:
    """This thread's call of a key, which has the context and all shapes, strides and types."""
    calls: Dict[Hashable, Again] = _kept.__dict__.setdefault("calls", {})
    found = calls.get(key)
    if found is None:
        if len(calls) >= _MOST:
            calls.clear()
        found = calls[key] = make()
    return found

"""Prepared calls: Python checks and converts the arguments of a call once for each layout of its operands. The next calls
with this layout only fill in addresses. The library checks each call."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Hashable, Optional, Sequence

from . import _abi as abi
from ._contexts import Context
from ._library import NotCopied, check, lib, new

if TYPE_CHECKING:
    from ._kernels import _Call

MOST = 128  # prepared calls of a context and thread; beyond that the least recently used one is dropped


class Prepared(NotCopied):
    """A call whose operands `names` get their addresses anew each time. It keeps the memory of the others, and not the
    context. Only one thread at a time may use it, since a call writes the struct."""

    def __init__(self, call: _Call, names: Sequence[str] = ()):
        can = new(abi.gdn_capability)
        check(getattr(lib, f"gdn_{call.kernel}_query")(call.context.opened, call.args, can))
        self._bytes: int = can.workspace_bytes
        self._function, self._args = getattr(lib, f"gdn_{call.kernel}"), call.args
        self._spans = [call.spans[name] for name in names]
        self._kept = [of for name, of in call.kept.items() if name not in names]
        self.new_result = call.new_result

    def __call__(self, context: Context, addresses: Sequence[int] = (), stream: Optional[int] = None,
                 workspace: Optional[Callable[[int], Any]] = None) -> None:
        """Run the call. `workspace` is a function that returns a View of scratch memory of a given size, instead of the
        context's."""
        for span, address in zip(self._spans, addresses):
            span.data = address
        if self._bytes:
            scratch = context.scratch(self._bytes) if workspace is None else workspace(self._bytes)  # alive until the return
            if workspace is None:
                self._args.workspace = scratch.span
            else:
                self._args.workspace = abi.gdn_span(scratch.data, scratch.offset, scratch.n_bytes)
        check(self._function(context.opened, self._args, stream))


def take(context: Context, key: Hashable) -> Optional[Prepared]:
    """This thread's prepared call for a key, removed from the cache: code that interrupts the call, such as a signal
    handler, cannot use it too. The key has everything that the preparation depends on: all shapes, strides, types and
    options."""
    return context.thread.calls.pop(key, None)


def put(context: Context, key: Hashable, prepared: Prepared) -> None:
    """Keep a prepared call, after it has run without an error."""
    calls = context.thread.calls
    calls[key] = prepared
    if len(calls) > MOST:
        calls.popitem(last=False)


def again(context: Context, key: Hashable, make: Callable[[], Prepared], addresses: Sequence[int], stream: Optional[int] = None,
          workspace: Optional[Callable[[int], Any]] = None) -> None:
    """Run a prepared call with these addresses; `make` prepares it where there is none with this key."""
    prepared = take(context, key) or make()
    prepared(context, addresses, stream, workspace)
    put(context, key, prepared)

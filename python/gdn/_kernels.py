"""The kernels on arrays: converts Python arguments to operands. The headers gdn/<kernel>.h have the formulas."""
from __future__ import annotations

import ctypes as C
import math
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np

from . import _abi as abi
from ._contexts import Capability, Context, DeviceArray, default_context
from ._library import InvalidArgument, Unsupported, check, lib, new, text
from ._operands import FLOATS, INTEGERS, NAMES, RAW, View, address, expect, fill, integers, map_, result, view
from ._prepared import Prepared, put, take
from ._words import in_python

NONE = abi.GDN_NONE  #: in maps: start from zero, or write nothing
SKIP = abi.GDN_SKIP  #: in state_src, history_src: the sequence is padding
_HEAD_MAPS = {"grouped": abi.GDN_HEADS_GROUPED, "tiled": abi.GDN_HEADS_TILED}
_LAYOUTS = {"vk": abi.GDN_STATE_VK, "kv": abi.GDN_STATE_KV}
_NORMS = {None: abi.GDN_NORM_NONE, "add": abi.GDN_NORM_ADD, "clamp": abi.GDN_NORM_CLAMP}
_GATE_INPUTS = {"log": abi.GDN_G_LOG, "linear": abi.GDN_G_LINEAR, "raw": abi.GDN_G_RAW, "raw_a_log": abi.GDN_G_RAW_A_LOG,
                "bounded": abi.GDN_G_BOUNDED}
_DIGITS = {2: abi.GDN_DIGITS2, 3: abi.GDN_DIGITS3}  # types of states
_BETA_INPUTS = {"plain": abi.GDN_BETA_PLAIN, "logit": abi.GDN_BETA_LOGIT}


_PARTS = {"inputs", "log", "checkpoints", "tree", "rounding", "chunked"}
_SET_HERE = _PARTS | {"size", "workspace", "n_seqs", "n_tokens", "n_heads_k", "n_heads_v", "head_dim_k", "head_dim_v", "gate", "n_channels",
                      "kernel_width", "activation", "n_rows", "n_columns", "n_rows_dst", "n_batch", "index_batch"}


class _Call:
    """A kernel's arguments, the views that keep their memory alive, where each operand's address is, and the call's
    result."""

    def __init__(self, kernel: str, context: Optional[Context], uint16: Optional[str]):
        self.kernel = kernel
        self.context = _context(context)
        self.uint16 = uint16
        self.args = new(getattr(abi, f"gdn_{kernel}_args"))
        self.parts: Dict[str, Any] = {}
        self.kept: Dict[str, View] = {}
        self.spans: Dict[str, Any] = {}
        self.result: Any = None
        self.new_result: Optional[Tuple[Any, ...]] = None  # shape, dtype, zeros: of a result that the call makes

    def view(self, name: str, operand, written: bool = False, allowed: Sequence[int] = FLOATS) -> View:
        of = view(name, operand, self.context, written, self.uint16, allowed)
        self.kept[name] = of
        return of

    def fill(self, name: str, tensor, axes, dtype: Optional[int] = None) -> None:
        """Set a tensor or a pool from the view with this name."""
        fill(tensor, self.kept[name], axes, dtype)
        self.spans[name] = tensor

    def part(self, name: str):
        """Create the part with this name and let the arguments point to it."""
        made = self.parts[name] = new(dict(self.args._fields_)[name]._type_)
        setattr(self.args, name, C.pointer(made))
        return made

    def map(self, name: str, operand, shape, why: str, span=None) -> Optional[View]:
        """Set a map: a span of a part, or of the arguments."""
        span = getattr(self.args, name) if span is None else span
        of = map_(span, name, operand, self.context, shape, why)
        if of is not None:
            self.kept[name], self.spans[name] = of, span
        return of

    def members(self, given: dict) -> None:
        """Set numbers of the struct that have no parameter here."""
        known = {name for name, _ in self.args._fields_} - _SET_HERE
        for name, value in given.items():
            if name not in known:
                raise TypeError(f"gdn.{self.kernel}() has no argument {name!r}, nor has gdn_{self.kernel}_args such a member")
            _set(self.args, name, value)

    def capability(self) -> Capability:
        can = new(abi.gdn_capability)
        check(getattr(lib, f"gdn_{self.kernel}_query")(self.context.opened, self.args, can))
        return Capability(bool(can.supported), bool(can.exact), bool(can.emulated), can.workspace_bytes, text(can.implementation),
                          in_python(text(can.reason)), can.slot_bytes, can.log_entry_bytes)


def _context(given: Optional[Context]) -> Context:
    if given is None:
        return default_context()
    if not isinstance(given, Context):
        raise TypeError(f'context is {given!r}; a gdn.Context is needed, such as gdn.Context("cpu"), or None')
    return given


def _set(struct: Any, member: str, value: Any, name: str = "") -> None:
    """Set a number of a struct, which is the argument `name`. ctypes alone would cut integers to the member's bits."""
    name = name or member
    try:
        setattr(struct, member, value)
    except TypeError:
        wanted = "a number" if type(getattr(struct, member)) is float else "an integer"
        raise TypeError(f"{name} is {value!r}; {wanted} is needed") from None
    kept = getattr(struct, member)
    if type(kept) is int and kept != value:
        raise ValueError(f"{name} is {value!r}, which does not fit the integer that holds it")


def _choice(name: str, value, allowed) -> int:
    try:
        return allowed[value]
    except (KeyError, TypeError):
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(map(repr, allowed))}") from None


def _batched(name: str, of: View, inner: int) -> bool:
    if len(of.shape) not in (inner + 1, inner + 2):
        raise ValueError(f"{name} has shape {list(of.shape)}; it must have {inner + 1} axes, tokens first, or {inner + 2}, sequences first")
    return len(of.shape) == inner + 2


def _tokens(call: _Call, of: View, batched: bool) -> int:
    """Set n_seqs and n_tokens from the first operand with tokens; return n_seqs."""
    start = call.args.seq_start
    if batched:
        call.args.n_seqs, per_sequence = of.shape[:2]
        call.args.n_tokens = call.args.n_seqs * per_sequence
        return call.args.n_seqs
    call.args.n_tokens = of.shape[0]
    call.args.n_seqs = (start.bytes // 4 - 1) if start.data else 1
    return call.args.n_seqs


def _start(call: _Call, seq_start, of: View, batched: bool) -> None:
    starts = call.map("seq_start", seq_start, [of.shape[0] + 1 if batched else None], "[n_seqs + 1]")
    if starts is not None and not starts.shape[0]:
        raise ValueError("seq_start is empty; it has n_seqs + 1 entries")


def _pool(call: _Call, name: str, of: View, axes, dtype: Optional[int] = None) -> None:
    """Set a pool of the arguments from an array; `axes` are its axes of rows, slots and what follows, None for an
    absent one. `dtype` is the elements' type if it is not the array's."""
    pool = getattr(call.args, name)
    pool.n_rows, pool.n_slots = of.shape[0], 1 if axes[1] is None else of.shape[1]
    if not pool.n_rows or not pool.n_slots:
        raise ValueError(f"{name} has shape {list(of.shape)}; it needs at least one row and slot")
    call.fill(name, pool, axes, dtype)


def _checkpoints(call: _Call, slots, interval: Optional[int], n_seqs: int) -> None:
    """Set the checkpoints; their map is [n_seqs] or [n_seqs][n]."""
    if slots is None and interval is None:
        return
    part = call.part("checkpoints")
    _set(part, "interval", 0 if interval is None else interval, "checkpoint_interval")
    if slots is not None:
        axes = len(slots.shape) if hasattr(slots, "shape") else np.ndim(slots)
        of = call.map("checkpoints", slots, [n_seqs] + [None] * (axes - 1), "[n_seqs], or [n_seqs][n]", part.dst)
        part.n = of.shape[1] if axes == 2 else 1


def _log(call: _Call, log, row, base_position, commit, n_seqs: int, entry: int) -> None:
    """Set the log, and the maps that need one."""
    maps = {"log_row": row, "base_position": base_position, "commit": commit}
    if log is None:
        for name, given in maps.items():
            if given is not None:
                raise ValueError(f"{name} is given, but no log")
        return
    part = call.part("log")
    of = expect(call.view("log", log, True), [None, None, entry],
                "[n_rows][n_slots], and k of all key heads, d and a of all value heads", (abi.GDN_F32,))
    if not of.shape[0] or not of.shape[1]:
        raise ValueError(f"log has shape {list(of.shape)}; it needs at least one row and slot")
    part.entries.n_rows, part.entries.n_slots = of.shape[:2]
    call.fill("log", part.entries, [0, 1])
    for (name, given), span in zip(maps.items(), (part.row, part.base_position, part.commit)):
        call.map(name, given, [n_seqs], "[n_seqs]", span)


def _tree(call: _Call, parent) -> None:
    """Set the parents of a token tree."""
    if parent is not None:
        call.map("parent", parent, [call.args.n_tokens], "[n_tokens]", call.part("tree").parent)


def _build_gated_delta_net(q, k, v, g, beta, state=None, *, state_out=None, out=None, out_dtype=None, seq_start=None,
                           state_src=None, state_dst=None, position=None, checkpoint_interval=None, checkpoints=None,
                           log=None, log_row=None, base_position=None, commit=None, parent=None, rounding_interval=None,
                           digits=None, scale=None, head_map="grouped", state_layout="vk", qk_norm=None, qk_norm_eps=0.0, gate_input="log",
                           beta_input="plain", beta_factor=1.0, lower_bound=0.0, ssm_a=None, dt_bias=None, read_key=None, uint16=None,
                           context=None, **members) -> _Call:
    call = _Call("gated_delta_net", context, uint16)
    args = call.args
    q, k, v, g, beta = (call.view(*pair) for pair in (("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta)))
    batched = _batched("q", q, 2)
    lead = list(q.shape[:-2])
    expect(q, [None] * len(q.shape), "")
    expect(k, list(q.shape), "as q")
    expect(v, [*lead, None, None], "the tokens of q, [n_heads_v], [head_dim_v]")
    heads, dim_k, dim_v = v.shape[-2], q.shape[-1], v.shape[-1]
    expect(beta, [*lead, heads], "the tokens of q, [n_heads_v]")
    channel = len(g.shape) == len(beta.shape) + 1
    expect(g, [*lead, heads, dim_k] if channel else [*lead, heads],
           "the tokens of q, [n_heads_v], and [head_dim_k] for a gate per channel")
    _start(call, seq_start, q, batched)
    n_seqs = _tokens(call, q, batched)
    args.n_heads_k, args.n_heads_v, args.head_dim_k, args.head_dim_v = q.shape[-2], heads, dim_k, dim_v
    args.head_map, args.state_layout = _choice("head_map", head_map, _HEAD_MAPS), _choice("state_layout", state_layout, _LAYOUTS)
    args.gate = abi.GDN_GATE_CHANNEL if channel else abi.GDN_GATE_SCALAR
    _set(args, "scale", 1 / math.sqrt(max(dim_k, 1)) if scale is None else scale)
    inputs = call.part("inputs")
    inputs.qk_norm = _choice("qk_norm", qk_norm, _NORMS)
    inputs.gate_input = _choice("gate_input", gate_input, _GATE_INPUTS)
    inputs.beta_input = _choice("beta_input", beta_input, _BETA_INPUTS)
    for name, value in (("qk_norm_eps", qk_norm_eps), ("beta_factor", beta_factor), ("lower_bound", lower_bound)):
        _set(inputs, name, value)

    _result(call, out, out_dtype, v, seq_start is not None or state_src is not None, "as v")
    first = [0, 1, 2] if batched else [None, 0, 1]
    for name in ("q", "k", "v", "g", "beta", "out"):
        call.fill(name, getattr(args, name), first)
    for name, operand in (("ssm_a", ssm_a), ("dt_bias", dt_bias)):
        if operand is not None:
            per_channel = channel and name == "dt_bias"
            expect(call.view(name, operand), [heads, dim_k] if per_channel else [heads],
                   "[n_heads_v], dt_bias [head_dim_k] too for a gate per channel")
            call.fill(name, getattr(inputs, name), [0])
    if read_key is not None:
        expect(call.view("read_key", read_key), list(q.shape), "as k")
        call.fill("read_key", inputs.read_key, first)

    lines = [dim_v, dim_k] if state_layout == "vk" else [dim_k, dim_v]
    if state is None:
        if any(one is not None for one in (state_out, state_src, state_dst)):
            raise ValueError("state_out, state_src and state_dst are given, but no state")
        for name, one in (("checkpoints", checkpoints), ("log", log), ("commit", commit)):
            if one is not None:
                raise ValueError(f"{name} is given, but no state")
        if not call.context.device.shared_memory:
            raise TypeError(f"state is None; on {call.context!r} it has to be given")
        state = np.empty((1, heads, *lines), np.float32)  # a dummy that is neither read nor written
        state_src = state_dst = np.full(n_seqs, NONE, np.int32)
    for name, pool in (("state", state), ("state_out", state_out)):
        if pool is None:
            continue
        of = call.view(name, pool, True)
        if of.dtype == RAW and digits in _DIGITS:
            with_slots = len(of.shape) == 4
            expect(of, [None] * (1 + with_slots) + [heads, dim_v * (digits * dim_k + 4)], "[n_rows], [n_slots] or not, [n_heads_v], and "
                   "the bytes of a head's digits and factors", (RAW,))
            _pool(call, name, of, [0, 1, 2] if with_slots else [0, None, 1], _DIGITS[digits])
            continue
        with_slots = len(of.shape) == 5
        expect(of, [None] * (1 + with_slots) + [heads, *lines], f"[n_rows], [n_slots] or not, [n_heads_v], and {lines} for {state_layout!r}")
        _pool(call, name, of, [0, 1, 2, 3] if with_slots else [0, None, 1, 2])
    call.map("state_src", state_src, [n_seqs], "[n_seqs]")
    if state_dst is not None:
        per_sequence = len(state_dst.shape) if hasattr(state_dst, "shape") else np.ndim(state_dst)
        dst = call.map("state_dst", state_dst, [n_seqs] + [None] * (per_sequence - 1), "[n_seqs], or [n_seqs][n_snapshots]")
        args.n_snapshots = dst.shape[1] if dst and per_sequence == 2 else 1
        if not args.n_snapshots:
            raise ValueError(f"state_dst has shape [{n_seqs}, 0]; it needs at least one snapshot")
    elif digits is not None:
        args.n_snapshots = 0 if commit is not None else 1
    else:
        args.n_snapshots = 0 if log is not None else (args.state if state_out is None else args.state_out).n_slots
    call.map("position", position, [n_seqs], "[n_seqs]")
    _checkpoints(call, checkpoints, checkpoint_interval, n_seqs)
    _log(call, log, log_row, base_position, commit, n_seqs, args.n_heads_k * dim_k + heads * (dim_v + (dim_k if channel else 1)))
    _tree(call, parent)
    if rounding_interval is not None:
        _set(call.part("rounding"), "interval", rounding_interval, "rounding_interval")
    if digits is not None:
        _set(call.part("chunked"), "digits", digits, "digits")
    call.members(members)
    return call


def _result(call: _Call, out, out_dtype, like: View, zeros: bool, why: str) -> None:
    """Set the call's result: `out`, or a new array of an operand's shape."""
    if out is None:
        call.new_result = like.shape, out_dtype if out_dtype is not None else _like(call, like), zeros
        out = result(call.context, *call.new_result)
    elif out_dtype is not None:
        raise ValueError("out_dtype is for a new array; out is given")
    call.result = out
    expect(call.view("out", out, True), list(like.shape), why)


def _like(call: _Call, of: View):
    """The dtype for a new array with another operand's element type."""
    if of.dtype == abi.GDN_BF16:
        return of.owner.dtype if isinstance(of.owner, (np.ndarray, DeviceArray)) else _bfloat16(call)
    return NAMES[of.dtype]


def _bfloat16(call: _Call):
    try:
        import ml_dtypes
    except ImportError:
        if call.uint16 == "bfloat16":
            return np.uint16
        raise TypeError('a new array of bfloat16 needs the package ml_dtypes, or out, or out_dtype, or uint16="bfloat16"') from None
    return ml_dtypes.bfloat16


def gated_delta_net(q, k, v, g, beta, state=None, *, state_out=None, out=None, out_dtype=None, seq_start=None,
                    state_src=None, state_dst=None, position=None, checkpoint_interval: Optional[int] = None, checkpoints=None,
                    log=None, log_row=None, base_position=None, commit=None, parent=None, rounding_interval: Optional[int] = None,
                    digits: Optional[int] = None, scale: Optional[float] = None, head_map: str = "grouped", state_layout: str = "vk",
                    qk_norm: Optional[str] = None, qk_norm_eps: float = 0.0, gate_input: str = "log", beta_input: str = "plain",
                    beta_factor: float = 1.0, lower_bound: float = 0.0, ssm_a=None, dt_bias=None, read_key=None, uint16: Optional[str] = None,
                    context: Optional[Context] = None, stream: Optional[int] = None, **members):
    """The gated delta rule, token by token, for every value head of every sequence:

        kv = a * S^T k;  d = beta * (v - kv);  S = a * S + k d^T;  out = scale * S^T q        with a = exp(g)

    Operands are NumPy arrays, or objects with DLPack or the buffer protocol; they are not copied. Strides are free,
    except that the last axis must be contiguous (not for g per head, beta and ssm_a). [n] is either [n_tokens], for one
    sequence or those that seq_start delimits, or [n_seqs][tokens of each].

      q, k        [n][n_heads_k][head_dim_k]                             float32, float16, bfloat16, independently
      v           [n][n_heads_v][head_dim_v]                             as q
      g           [n][n_heads_v], or [n][n_heads_v][head_dim_k] for a gate per key channel (KDA); as q; meaning:
                  gate_input
      beta        [n][n_heads_v]; as q; meaning: beta_input
      state       [n_rows][n_heads_v] or [n_rows][n_slots][n_heads_v], then [head_dim_v][head_dim_k] for state_layout "vk",
                  [head_dim_k][head_dim_v] for "kv"; as q; READ AND WRITTEN in place. Sequence s uses row s; slot r is
                  the state r tokens before its newest. None: sequences start from zero, and no state is kept.
      state_out   as state: states are written there instead of to `state`
      out         as v; None: a new array of out_dtype, or of v's dtype. Tokens of no sequence (outside seq_start, or
                  gdn.SKIP) are zeros in a new array, and unchanged in a given one.
      seq_start   [n_seqs + 1] int32: tokens of sequence s are seq_start[s] <= i < seq_start[s + 1]
      state_src   [n_seqs] int32: row * n_slots + slot to start from, or gdn.NONE (zeros), or gdn.SKIP (padding)
      state_dst   [n_seqs] or [n_seqs][n_snapshots] int32: destination of the state r tokens before the newest, or
                  gdn.NONE. None: slot r of row s, for all slots; with a log, none is written
      position    [n_seqs] int32: tokens before the call's first, for checkpoints and the log; None: 0
      checkpoints [n_seqs] or [n_seqs][n] int32: destinations of the states after each token that makes the sequence's
                  length a multiple of checkpoint_interval, in order, or gdn.NONE
      log         [n_rows][n_slots][n_heads_k * head_dim_k + n_heads_v * (head_dim_v + 1)], with head_dim_k instead of 1
                  for a gate per channel; float32; READ AND WRITTEN: an entry for each token, in slot position %
                  n_slots. The call replays the entries from base_position to position before its tokens. It writes the
                  states that state_dst, checkpoints and commit name, and no other.
      log_row     [n_seqs] int32: the sequence's row of the log, or gdn.NONE; None: row s
      base_position   [n_seqs] int32: number of tokens that the state read has seen; None: position
      commit      [n_seqs] int32: destination of the state at position, before the first token, or gdn.NONE; None: not
                  written
      parent      [n_tokens] int32: token tree: the index, within the sequence, of each token's parent, or gdn.NONE: it
                  follows the state at position. None: each follows the one before it. Requires a log, and excludes
                  state_dst and checkpoints
      rounding_interval   16-bit states are rounded after each token that makes the sequence's length a multiple of it;
                  None: after every token. Above 1 it requires a log, position, and states at such lengths only
      digits      2 or 3: the chunked form, a second contract (docs/guide/chunked.md), on the CPU; None: the recurrence. state
                  is float32, or uint8 [n_rows][n_heads_v] or [n_rows][n_slots][n_heads_v], then [head_dim_v * (digits *
                  head_dim_k + 4)]: digits, addresses and strides of which are multiples of 16. A state is written at the
                  last multiple of 32 of the sequence's length: state_dst is [n_seqs], None: in row s, or with commit none. base_position None: position rounded down to 32. A sequence whose
                  position is no multiple of 32 needs a log, which has g in place of a.
      scale       of out; None = 1 / sqrt(head_dim_k)
      head_map    the key head of value head h: "grouped" h // (n_heads_v // n_heads_k), "tiled" h % n_heads_k
      qk_norm     q and k are divided by their length: "add" sqrt(sum x^2 + qk_norm_eps), "clamp" max(sqrt(sum x^2), eps)
      gate_input  "log" of the decay; "linear": the decay; "raw": the projection x, decay = exp(ssm_a * softplus(x + dt_bias));
                  "raw_a_log": the same with A_log in ssm_a, decay = exp(-exp(ssm_a) * softplus(x + dt_bias));
                  "bounded": decay = exp(lower_bound * sigmoid(exp(ssm_a) * (x + dt_bias))), without ssm_a a factor of 1; Kimi K3,
                  GLM-5.3-Flash, Ling-3.0
      lower_bound of "bounded": below 0, usually -5
      beta_input  "plain", or "logit": its sigmoid is taken; times beta_factor
      ssm_a       [n_heads_v];  dt_bias [n_heads_v], or [n_heads_v][head_dim_k] for a gate per channel
      read_key    as k; replaces k in kv = a * S^T k, where the state is read. qk_norm does not apply to it (Comba;
                  GDN-2: w * v as v, b * k as read_key with k normalised, beta 1); None: k
      uint16      "bfloat16" or "float16": the type of operands whose dtype is uint16
      context     None: gdn.default_context(). On a device operands are gdn.DeviceArray, on CUDA also objects with
                  DLPack there; the call returns when it is queued.
      stream      on a device: its queue, as an address; None: the context's own. Work that produces or frees DLPack
                  operands must be on this stream, or done.
      members     any other numeric member of gdn_gated_delta_net_args by its name, such as n_snapshots

    Returns out. The bits do not depend on how tokens are split into calls, on batches, strides, threads or the backend.
    Limits: head_dim 16 to 256; n_heads_v a multiple of n_heads_k. Aliasing: inputs may overlap each other; out and written
    states overlap nothing else. Errors: gdn.Error and its subclasses with the library's text, ValueError, TypeError;
    then nothing was written. Thread-safety: see gdn.Context; the GIL is released while it runs."""
    return _run(_GATED_DELTA_NET, locals())


def _build_ssm_conv(x, weight, bias=None, history=None, *, history_out=None, out=None, out_dtype=None, silu=False, seq_start=None,
                    position=None, history_src=None, history_dst=None, checkpoint_interval=None, checkpoints=None, parent=None,
                    uint16=None, context=None, **members) -> _Call:
    call = _Call("ssm_conv", context, uint16)
    args = call.args
    x, weight = call.view("x", x), call.view("weight", weight)
    batched = _batched("x", x, 1)
    expect(x, [None] * len(x.shape), "")
    channels = x.shape[-1]
    expect(weight, [channels, None], "[n_channels][kernel_width]")
    _start(call, seq_start, x, batched)
    n_seqs = _tokens(call, x, batched)
    args.n_channels, args.kernel_width = channels, weight.shape[1]
    args.activation = abi.GDN_ACTIVATION_SILU if silu else abi.GDN_ACTIVATION_NONE
    _result(call, out, out_dtype, x, seq_start is not None or history_src is not None, "as x")
    for name in ("x", "out"):
        call.fill(name, getattr(args, name), [0, 1] if batched else [None, 0])
    call.fill("weight", args.weight, [0, 1])
    if bias is not None:
        expect(call.view("bias", bias), [channels], "[n_channels]")
        call.fill("bias", args.bias, [])
    for name, pool in (("history", history), ("history_out", history_out)):
        if pool is not None:
            of = expect(call.view(name, pool, True), [None, None, channels], "[n_rows][n_slots][n_channels]")
            _pool(call, name, of, [0, 1])
    for name, given in (("position", position), ("history_src", history_src), ("history_dst", history_dst)):
        call.map(name, given, [n_seqs], "[n_seqs]")
    _checkpoints(call, checkpoints, checkpoint_interval, n_seqs)
    _tree(call, parent)
    call.members(members)
    return call


def ssm_conv(x, weight, bias=None, history=None, *, history_out=None, out=None, out_dtype=None, silu: bool = False, seq_start=None,
             position=None, history_src=None, history_dst=None, checkpoint_interval: Optional[int] = None, checkpoints=None,
             parent=None, uint16: Optional[str] = None, context: Optional[Context] = None, stream: Optional[int] = None, **members):
    """Causal depthwise convolution along the tokens of each sequence, taps oldest first, optionally followed by silu:

        u = bias[c] + sum_j weight[c][j] * x(p - kernel_width + 1 + j)[c];  out = u, or u / (1 + exp(-u))

    Inputs of positions before the call come from the history, a ring in which position p has slot p % n_slots.

      x            [n][n_channels]; float32, float16, bfloat16, independently also weight, bias, history and out.
                   [n] is [n_tokens] or [n_seqs][tokens of each], as in gated_delta_net
      weight       [n_channels][kernel_width], any strides
      bias         [n_channels] or None
      history      [n_rows][n_slots][n_channels], n_slots >= kernel_width - 1; READ AND WRITTEN in place. Sequence s
                   uses row s. None: sequences start from zero, and no history is kept.
      history_out  as history: inputs are written there instead
      out          as x; None: a new array of out_dtype, or of x's dtype; tokens of no sequence as in gated_delta_net
      seq_start, uint16, context, stream, members   as in gated_delta_net
      position     [n_seqs] int32: tokens before the call's first; None: 0. To roll back, pass a smaller position.
      history_src, history_dst   [n_seqs] int32: row to read, gdn.NONE (zeros) or gdn.SKIP; row to write or gdn.NONE
      checkpoints  [n_seqs] or [n_seqs][n] int32: rows for the histories after each token that makes the
                   sequence's length a multiple of checkpoint_interval, or gdn.NONE
      parent       as in gated_delta_net; a history row then needs kernel_width - 1 slots and one per token of the
                   sequence

    Returns out. Limits: kernel_width 1 to 16. Bits, aliasing, errors, threads: as gated_delta_net; a history of x's type or of
    float32 is exact, any other is not."""
    return _run(_SSM_CONV, locals())


def _build_set_rows(dst, index, src, *, uint16=None, context=None, **members) -> _Call:
    call = _Call("set_rows", context, uint16)
    args = call.args
    to, index, src = call.view("dst", dst, True, (*FLOATS, RAW)), call.view("index", index, allowed=INTEGERS), call.view("src", src)
    call.result = dst
    axes = len(src.shape)
    if not 2 <= axes <= 4:
        raise ValueError(f"src has shape {list(src.shape)}; it must have 2 to 4 axes")
    batch, (rows, columns) = list(src.shape[:-2]), src.shape[-2:]
    expect(src, [None] * axes, "")
    expect(index, [None] * (axes - 2) + [rows], "as src without its columns; its batches divide src's", INTEGERS)
    quantized = to.dtype == RAW
    if quantized and columns % 32:
        raise ValueError(f"src has {columns} columns; Q8_0 (dst of uint8) needs a multiple of 32")
    expect(to, [*batch, None, columns // 32 * 34 if quantized else columns],
           "as src with other rows; 34 bytes for 32 columns where it is uint8, Q8_0", (*FLOATS, RAW))
    args.n_rows, args.n_columns, args.n_rows_dst = rows, columns, to.shape[-2]
    if 0 in batch or 0 in index.shape[:-1] or not columns:
        raise ValueError(f"src has shape {list(src.shape)} and index {list(index.shape)}; only their rows may be none")
    for number in range(axes - 2):
        args.n_batch[2 - (axes - 2) + number], args.index_batch[2 - (axes - 2) + number] = batch[number], index.shape[number]
    strides = [None] * (4 - axes) + list(range(axes - 1))
    call.fill("src", args.src, strides)
    call.fill("dst", args.dst, strides, abi.GDN_Q8_0 if quantized else None)
    call.fill("index", args.index, strides)
    call.members(members)
    return call


def set_rows(dst, index, src, *, uint16: Optional[str] = None, context: Optional[Context] = None, stream: Optional[int] = None,
             **members):
    """Scatter rows into an array, converting them: dst[b][c][index[b % ..][c % ..][i]] = convert(src[b][c][i]).

      dst    [n_batch0][n_batch1][n_rows_dst][n_columns]; float32, float16, bfloat16, or uint8 for Q8_0, which has
             n_columns / 32 * 34 bytes in a row; WRITTEN in place. The batch axes may be omitted, here and below.
      index  [index_batch0][index_batch1][n_rows]; int32, int64, any strides; 0 <= index < n_rows_dst, or gdn.NONE: that row is
             not written. If two rows have the same target, the later one wins.
      src    [n_batch0][n_batch1][n_rows][n_columns]; float32, float16, bfloat16
      uint16, context, stream, members   as in gated_delta_net

    Returns dst. Rounds to nearest, ties to even. Limits: n_columns a multiple of 32 for Q8_0; index's batches divide src's.
    Aliasing: dst overlaps neither src nor index. Errors, threads: as gated_delta_net."""
    return _run(_SET_ROWS, locals())


class _Kernel:
    """How a public function's arguments make the key of a prepared call."""

    def __init__(self, build: Callable[..., _Call], arrays: str, written: str, maps: str, options: str):
        self.build, self.arrays, self.written = build, arrays.split(), frozenset(written.split())
        self.maps, self.options = maps.split(), options.split()
        self.result = self.arrays[-1]


_GATED_DELTA_NET = _Kernel(
    _build_gated_delta_net, "q k v g beta state state_out log ssm_a dt_bias read_key out", "state state_out log out",
    "seq_start state_src state_dst position checkpoints log_row base_position commit parent",
    "out_dtype checkpoint_interval rounding_interval digits scale head_map state_layout qk_norm qk_norm_eps gate_input beta_input "
    "beta_factor lower_bound uint16")
_SSM_CONV = _Kernel(_build_ssm_conv, "x weight bias history history_out out", "history history_out out",
                    "seq_start position history_src history_dst checkpoints parent", "out_dtype silu checkpoint_interval uint16")
_SET_ROWS = _Kernel(_build_set_rows, "index src dst", "dst", "", "uint16")
_VALUES = frozenset((type(None), bool, int, float, str))


def _key(kernel: _Kernel, given: Dict[str, Any], members: Dict[str, Any], names: list, addresses: list) -> Optional[tuple]:
    """All that a call's preparation depends on; adds its operands and their addresses to the lists. None: operands of
    other kinds than arrays of NumPy, or options that may change; such calls are not kept. Converts maps in `given`."""
    form: list = [kernel]
    for name in kernel.arrays:
        array = given[name]
        if array is None:
            form.append(None)
            continue
        if type(array) is not np.ndarray or name in kernel.written and not array.flags.writeable:
            return None
        form += array.shape, array.strides, array.dtype
        names.append(name)
        addresses.append(address(array))
    for name in kernel.maps:
        values = given[name]
        if values is None:
            form.append(None)
            continue
        if isinstance(values, DeviceArray):
            return None
        given[name] = values = integers(name, values)
        form.append(values.shape)
        names.append(name)
        addresses.append(address(values))
    options = [given[name] for name in kernel.options]
    if members:
        options += *members, *members.values()
    if not _VALUES.issuperset(map(type, options)) and not all(
            type(value) in _VALUES or isinstance(value, (np.number, np.bool_, np.dtype, type)) for value in options):
        return None
    form += options
    form += map(type, options)  # 2 and 2.0 are equal, but not as the value of an integer
    return tuple(form)


def _run(kernel: _Kernel, given: Dict[str, Any]):
    """Run a call of a public function with these arguments, which keep its memory alive."""
    stream, members = given.pop("stream"), given.pop("members")
    context = given["context"] = _context(given["context"])
    if stream is not None and type(stream) is not int:
        raise TypeError(f"stream is {stream!r}; an address as an int is needed, or None")
    names: list = []
    addresses: list = []
    key = _key(kernel, given, members, names, addresses) if context.device.shared_memory else None
    if key is None:
        call = kernel.build(**given, **members)
        Prepared(call)(context, stream=stream)
        return call.result
    prepared, out = take(context, key), given[kernel.result]
    if out is None:
        names.append(kernel.result)
    if prepared is None:
        call = kernel.build(**given, **members)
        prepared, out = Prepared(call, names), call.result
    elif out is None:
        out = result(context, *prepared.new_result)
    if len(addresses) < len(names):
        addresses.append(address(out))
    prepared(context, addresses, stream)
    put(context, key, prepared)
    return out


_KERNELS: Dict[Callable, _Kernel] = {gated_delta_net: _GATED_DELTA_NET, ssm_conv: _SSM_CONV, set_rows: _SET_ROWS}


def capability(kernel: Callable, *args, **named) -> Capability:
    """Query a call of gdn.gated_delta_net, gdn.ssm_conv or gdn.set_rows: whether it would run and be exact, its
    implementation, and its scratch memory. Nothing runs, and maps are not read. A call that the library refuses is not
    supported, and `reason` says why. Errors: TypeError, ValueError, of arguments that do not fit together."""
    if kernel not in _KERNELS:
        raise ValueError(f"kernel is {kernel!r}; gdn.gated_delta_net, gdn.ssm_conv and gdn.set_rows are allowed")
    named.pop("stream", None)
    call = _KERNELS[kernel].build(*args, **named)
    try:
        return call.capability()
    except (InvalidArgument, Unsupported) as error:
        return Capability(False, False, False, 0, "", str(error), 0, 0)

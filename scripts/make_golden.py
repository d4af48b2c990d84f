#!/usr/bin/env python3
"""Make tests/golden/*.bin: results of other people's code, for judging the ACCURACY of our kernels.

The bits of our kernels are judged against reference/. These files answer the other question: do we compute the function
that the models were trained with? They hold inputs and results of HF transformers' own torch functions:

  gated_delta_net  qwen3_next: torch_recurrent_gated_delta_rule   (scalar gate)
                   kimi_linear: recurrent_kimi_delta_attention    (one gate per key channel, KDA)
                   qwen3_next: Qwen3NextGatedDeltaNet.forward, and torch_recurrent_gated_delta_rule and
                   torch_chunk_gated_delta_rule with use_qk_l2norm_in_kernel    (forms: q, k and gates as the
                   projections leave them)
  ssm_conv         qwen3_next: causal_conv1d_fn, causal_conv1d_update

HF's delta rules cast their arguments to float32, so their files have two results. What HF's function returned is *_hf32.
The same published formula in numpy float64 is *_ref64. The yardstick is *_ref64; *_hf32 shows how close
another float32 implementation comes. The convolutions do not cast, and have *_ref64 only.
Nothing is written unless *_ref64 agrees with HF's function in float64 (for the delta rules: the same code, its casts to
float32 turned into casts to float64) and in float32. tests/golden/README.md describes the files and how to remake them.
"""
import argparse
import functools
import inspect
import json
import pathlib
import sys
import types

import numpy as np
import torch
import transformers
from transformers.models.kimi_linear import modeling_kimi_linear as kimi
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

from models import golden

SIZE_LIMIT = 700_000  # bytes, all files together
TOL_FORMULA = 1e-13   # ref64 against HF's function in float64, relative to the largest result
TOL_FLOAT32 = 5e-6    # ref64 against HF's function as it is, likewise


# ---- HF's functions --------------------------------------------------------------------------------------------------
# transformers replaces these functions by FLA's or causal_conv1d's kernels where those packages are installed.
# hf() goes back to the torch function below the replacement.

def hf(module, name):
    function = inspect.unwrap(functools.reduce(lambda a, b: getattr(a, b, None), name.split("."), module) or sys.exit(
        f"transformers {transformers.__version__} has no {module.__name__}.{name}; see tests/golden/README.md"))
    if function.__code__.co_filename != module.__file__:
        sys.exit(f"{module.__name__}.{name} is not transformers' own code but {function.__code__.co_filename}")
    return function


HF_DELTA = hf(qwen, "torch_recurrent_gated_delta_rule")
HF_DELTA_CHUNKED = hf(qwen, "torch_chunk_gated_delta_rule")
HF_KDA = hf(kimi, "recurrent_kimi_delta_attention")
HF_CONV_PREFILL = hf(qwen, "causal_conv1d_fn")
HF_CONV_UPDATE = hf(qwen, "causal_conv1d_update")
HF_L2NORM = hf(qwen, "l2norm")  # x * rsqrt(sum x^2 + 1e-6)
HF_LAYER = hf(qwen, "Qwen3NextGatedDeltaNet.forward")

try:  # a second witness for KDA, used where it is installed
    from fla import __version__ as FLA_VERSION
    from fla.ops.kda.naive import naive_recurrent_kda as FLA_KDA
except ImportError:
    FLA_KDA = FLA_VERSION = None

VERSIONS = {"numpy": np.__version__, "torch": torch.__version__, "transformers": transformers.__version__}


class Torch64:
    """The torch module as a function sees it, except that float32 is float64."""
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


class Tensor64(torch.Tensor):
    """A tensor whose float() does not leave float64 either."""
    float = torch.Tensor.double


def with_globals(function, **names):
    """The same code as `function`, which finds other things under these names of its module."""
    copy = types.FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__,
                              function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def in_float64(function):
    """The same code as `function`, with its casts to float32 turned into casts to float64."""
    return with_globals(function, torch=Torch64())


def call_torch(function, *arrays, dtype=torch.float64, **kwargs):
    """function over copies of numpy arrays as tensors of `dtype`, its results as numpy arrays."""
    as_tensor = lambda a: torch.tensor(a, dtype=dtype) if isinstance(a, np.ndarray) else a
    with torch.no_grad():
        results = function(*map(as_tensor, arrays), **{k: as_tensor(v) for k, v in kwargs.items()})
    return tuple(r.numpy() for r in results) if isinstance(results, tuple) else results.numpy()


def witnesses_of(name, call):
    """What judge() wants of a function: its results in float64 and as it is. call(wide) computes them."""
    return {f"{name} f64": (TOL_FORMULA, call(True)), f"{name} f32": (TOL_FLOAT32, call(False))}


def torch_witnesses(function, *args, name=None, **kwargs):
    return witnesses_of(name or function.__name__, lambda wide: call_torch(
        in_float64(function) if wide else function, *args, dtype=torch.float64 if wide else torch.float32, **kwargs))


def hf_layer(q, k, v, a, b, A_log, dt_bias, state_in, dtype):
    """HF's layer between its projections, from raw q, k and gates to the delta rule's (out, state). Its forward() runs on
    an object that has our operands where the layer has projections, passes the convolution's input through, and leaves
    out what comes after the rule. A state makes it a layer with a cache; with one token it then takes the recurrent rule,
    otherwise the chunked one."""
    wide = dtype == torch.float64
    tensor = lambda x: torch.tensor(x, dtype=dtype).as_subclass(Tensor64 if wide else torch.Tensor)
    q, k, v, a, b = map(tensor, (q, k, v, a, b))
    rule = in_float64 if wide else lambda function: function
    pass_through = lambda x, *args, **kwargs: x
    forward = with_globals(
        HF_LAYER, causal_conv1d_fn=pass_through, torch_recurrent_gated_delta_rule=rule(HF_DELTA),
        torch_chunk_gated_delta_rule=rule(HF_DELTA_CHUNKED))
    states = []
    cache = types.SimpleNamespace(
        get_conv_state=lambda *args, **kwargs: None, update_conv_state=pass_through,
        get_recurrent_state=lambda *args, **kwargs: None if state_in is None else tensor(state_in),
        update_recurrent_state=lambda state, layer: states.append(state))
    layer = types.SimpleNamespace(
        layer_idx=0, conv_kernel_size=4, activation=None,
        conv1d=types.SimpleNamespace(weight=torch.zeros(1, 1, 4), bias=None),
        key_dim=q.shape[2] * q.shape[3], value_dim=v.shape[2] * v.shape[3], head_k_dim=q.shape[3], head_v_dim=v.shape[3],
        in_proj_qkvz=pass_through, in_proj_ba=pass_through,
        fix_query_key_value_ordering=lambda qkvz, ba: (q, k, v, torch.zeros_like(v), b, a),
        A_log=tensor(A_log), dt_bias=tensor(dt_bias), norm=pass_through, out_proj=pass_through)
    with torch.no_grad():
        out = forward(layer, torch.zeros(q.shape[0], q.shape[1], 1, dtype=dtype), cache)
    return tuple(x.as_subclass(torch.Tensor).numpy() for x in (out.reshape(v.shape), states[0]))


# ---- The formulas, in numpy float64 ----------------------------------------------------------------------------------

def delta_rule_ref64(q, k, v, g, beta, state_in):
    """The gated delta rule, one head and one token at a time. g is [B][T][H_v], or [B][T][H_v][S_k] for KDA."""
    q, k, v, g, beta, state_in = (x.astype(np.float64) for x in (q, k, v, g, beta, state_in))
    n_seqs, n_tokens, h_v, s_v = v.shape
    h_k, s_k = q.shape[2:]
    out, state_out = np.empty_like(v), np.empty_like(state_in)
    for b in range(n_seqs):
        for h in range(h_v):
            h_qk = h // (h_v // h_k)                            # grouped map: r neighbours share a key head
            state = state_in[b, h].copy()                       # [S_k][S_v]
            for t in range(n_tokens):
                kt, qt = k[b, t, h_qk], q[b, t, h_qk] / np.sqrt(s_k)
                state *= np.exp(g[b, t, h]).reshape(-1, 1)      # decay
                kv = (state * kt[:, None]).sum(axis=0)          # read
                d = beta[b, t, h] * (v[b, t, h] - kv)
                state += np.outer(kt, d)                        # update
                out[b, t, h] = (state * qt[:, None]).sum(axis=0)
            state_out[b, h] = state
    return out, state_out


def forms_ref64(q, k, v, a, b, A_log, dt_bias, state_in):
    """The same from what the projections leave: q and k of any length, a and b the gates before their functions."""
    q, k, a, b, A_log, dt_bias = (x.astype(np.float64) for x in (q, k, a, b, A_log, dt_bias))
    unit = lambda x: x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)
    g, beta = -np.exp(A_log) * np.log1p(np.exp(a + dt_bias)), 1 / (1 + np.exp(-b))
    return g, beta, delta_rule_ref64(unit(q), unit(k), v, g, beta, state_in)


def conv_ref64(x, weight, bias, history, silu):
    """The causal depthwise convolution: weight[c][kc-1] meets the current token. Returns (out, new history)."""
    x, weight, bias, history = (a.astype(np.float64) for a in (x, weight, bias, history))
    n_tokens, kc = x.shape[1], weight.shape[1]
    window = np.concatenate([history, x], axis=1)               # [B][kc-1+T][C]
    u = bias + sum(window[:, j:j + n_tokens] * weight[:, j] for j in range(kc))
    return u / (1 + np.exp(-u)) if silu else u, window[:, n_tokens:]


# ---- The cases -------------------------------------------------------------------------------------------------------

DELTA_CASES = {  # g: the range it is drawn from. from_zero: no state_in.
    "gdn_t1_s16_r2":   dict(seed=101, T=1,   H_k=2, H_v=4, S_k=16,  S_v=16,  g=(-2.0, -0.01)),
    "gdn_t7_s32":      dict(seed=102, T=7,   H_k=1, H_v=1, S_k=32,  S_v=32,  g=(-2.0, -0.01), edges=True),
    "gdn_t64_s16":     dict(seed=103, T=64,  H_k=1, H_v=1, S_k=16,  S_v=16,  g=(-0.5, -0.01)),
    "gdn_t3_s64":      dict(seed=104, T=3,   H_k=1, H_v=1, S_k=64,  S_v=64,  g=(-1.0, -0.01), from_zero=True),
    "gdn_t4_s128":     dict(seed=105, T=4,   H_k=1, H_v=1, S_k=128, S_v=128, g=(-1.0, -0.01), from_zero=True),
    "gdn_t5_s32x48":   dict(seed=106, T=5,   H_k=1, H_v=1, S_k=32,  S_v=48,  g=(-1.0, -0.01)),
    "gdn_t200_slow":   dict(seed=107, T=200, H_k=1, H_v=1, S_k=16,  S_v=16,  g=(-0.012, -0.008)),
    "gdn_t7_fast_r3":  dict(seed=108, T=7,   H_k=1, H_v=3, S_k=16,  S_v=16,  g=(-12.0, -8.0)),
    "gdn_t3_b2":       dict(seed=109, T=3, B=2, H_k=1, H_v=1, S_k=16, S_v=16, g=(-1.0, -0.01)),
    "kda_t12_s16_r2":  dict(seed=110, T=12,  H_k=1, H_v=2, S_k=16,  S_v=16,  g=(-1.0, -0.001), kda=True),
}

FORMS_CASES = {  # bf16: q, k, v, a and b are values of bfloat16, and so is HF's out
    "forms_t1":        dict(seed=301, T=1,   H_k=2, H_v=4, S_k=16,  S_v=16),
    "forms_t1_zero":   dict(seed=302, T=1,   H_k=2, H_v=4, S_k=32,  S_v=16, from_zero=True),
    "forms_t5_b2":     dict(seed=303, T=5, B=2, H_k=2, H_v=4, S_k=16, S_v=24),
    "forms_t5_zero":   dict(seed=304, T=5,   H_k=2, H_v=6, S_k=32,  S_v=16, from_zero=True),
    "forms_t5_bf16":   dict(seed=305, T=5,   H_k=2, H_v=4, S_k=32,  S_v=16, bf16=True),
    "forms_t70":       dict(seed=306, T=70,  H_k=1, H_v=2, S_k=16,  S_v=16),
    "forms_t70_zero":  dict(seed=307, T=70,  H_k=1, H_v=2, S_k=32,  S_v=16, from_zero=True),
}

CONV_CASES = {
    "conv_k4_t1":      dict(seed=201, T=1,  kc=4, history=True,  silu=True,  bias=False, B=2),
    "conv_k4_t5":      dict(seed=202, T=5,  kc=4, history=True,  silu=True,  bias=True),
    "conv_k4_t5_lin":  dict(seed=203, T=5,  kc=4, history=True,  silu=False, bias=False),
    "conv_k4_t37":     dict(seed=204, T=37, kc=4, history=False, silu=True,  bias=False),
    "conv_k3_t1":      dict(seed=205, T=1,  kc=3, history=False, silu=False, bias=True),
    "conv_k3_t5":      dict(seed=206, T=5,  kc=3, history=True,  silu=True,  bias=False),
}


DELTA_LAYOUT = {"q": "[B][T][H_k][S_k]", "k": "[B][T][H_k][S_k]", "v": "[B][T][H_v][S_v]", "state": "[B][H_v][S_k][S_v]",
                "out": "[B][T][H_v][S_v]"}


def float32(x):
    return np.ascontiguousarray(x, dtype=np.float32)


def error(got, want):
    """Largest absolute difference, and the same relative to the largest |want|."""
    diff = float(np.abs(got.astype(np.float64) - want).max())
    return diff, diff / float(np.abs(want).max())


def judge(name, results, ref):
    """Compares every witness in results {label: (tolerance, arrays)} with ref. Returns {label: relative error}."""
    errors = {}
    for label, (tolerance, arrays) in results.items():
        pairs = [error(a, b) for a, b in zip(arrays, ref, strict=True)]
        errors[label] = max(relative for _, relative in pairs)
        print(f"{name:16} {label:36} {pairs[0][0]:10.2e} {pairs[-1][0]:10.2e} {errors[label]:10.2e}")
        if not errors[label] <= tolerance:
            sys.exit(f"{name}: {label} is {errors[label]:.2e} from the formula, allowed is {tolerance:.0e}")
    return errors


def make_delta(name, seed, T, H_k, H_v, S_k, S_v, g, B=1, kda=False, from_zero=False, edges=False):
    rng = np.random.default_rng(seed)
    unit = lambda: float32(call_torch(HF_L2NORM, rng.standard_normal((B, T, H_k, S_k))))
    q, k = unit(), unit()
    v = float32(rng.standard_normal((B, T, H_v, S_v)))
    g = float32(rng.uniform(*g, (B, T, H_v, S_k) if kda else (B, T, H_v)))
    beta = float32(rng.random((B, T, H_v)))
    if edges:  # token 2 leaves the state to decay, token 4 overwrites without decay
        beta[:, 2], beta[:, 4], g[:, 4] = 0, 1, 0
    state_in = np.zeros((B, H_v, S_k, S_v), np.float32) if from_zero else float32(
        0.5 * rng.standard_normal((B, H_v, S_k, S_v)))

    ref = delta_rule_ref64(q, k, v, g, beta, state_in)
    heads = lambda x: np.repeat(x, H_v // H_k, axis=2) if kda else x  # HF's KDA wants one key head per value head
    args = (heads(q), heads(k), v, g, beta)
    kwargs = dict(initial_state=None if from_zero else state_in, output_final_state=True)
    function = HF_KDA if kda else HF_DELTA
    witnesses = torch_witnesses(function, *args, **kwargs)
    hf32 = witnesses[f"{function.__name__} f32"][1]
    if not kda:
        witnesses |= torch_witnesses(HF_DELTA_CHUNKED, *args, **kwargs)
    elif FLA_KDA:
        witnesses |= torch_witnesses(FLA_KDA, *args, name="fla naive_recurrent_kda", **kwargs)
    errors = judge(name, witnesses, ref)

    params = np.array([B, T, H_k, H_v, S_k, S_v, kda], np.int32)
    tensors = {"params": params, "q": q, "k": k, "v": v, "g": g, "beta": beta}
    if not from_zero:
        tensors["state_in"] = state_in
    tensors |= {"out_ref64": ref[0], "out_hf32": hf32[0]}
    if S_k * S_v < 4096:
        tensors["state_out_ref64"] = ref[1]
    else:  # to keep the file small: the float64 state rounded once to float32
        tensors["state_out_ref32"] = float32(ref[1])
    if S_k * S_v < 1024:
        tensors["state_out_hf32"] = hf32[1]
    meta = {
        "function": f"{function.__module__}.{function.__name__}",
        "params": "B T H_k H_v S_k S_v kda",
        "layout": {**DELTA_LAYOUT, "g": "[B][T][H_v][S_k]" if kda else "[B][T][H_v]", "beta": "[B][T][H_v]"},
    }
    return tensors, meta, errors


def make_forms(name, seed, T, H_k, H_v, S_k, S_v, B=1, from_zero=False, bf16=False):
    rng = np.random.default_rng(seed)
    bfloat16 = lambda x: torch.tensor(float32(x)).to(torch.bfloat16)
    stored = (lambda x: bfloat16(x).float().numpy()) if bf16 else float32

    def keys():  # of lengths about 2^-10 to 2^4: where they are short, eps matters and so does where it stands
        lengths = np.ldexp(1.0, rng.integers(-12, 3, (B, T, H_k, 1)))
        lengths[:, 0, 0] = 2.0 ** -12
        x = lengths * rng.standard_normal((B, T, H_k, S_k))
        if T > 2:
            x[:, 2, 0] = 0
        return stored(x)

    q, k, v = keys(), keys(), stored(rng.standard_normal((B, T, H_v, S_v)))
    a, b = stored(rng.uniform(-5, 3, (B, T, H_v))), stored(rng.uniform(-5, 5, (B, T, H_v)))
    A_log, dt_bias = float32(rng.uniform(-4, 1.5, H_v)), float32(rng.uniform(-2, 2, H_v))
    state_in = None if from_zero else float32(0.5 * rng.standard_normal((B, H_v, S_k, S_v)))

    inputs = (q, k, v, a, b, A_log, dt_bias)
    g, beta, ref = forms_ref64(*inputs, np.zeros((B, H_v, S_k, S_v)) if from_zero else state_in)
    witnesses = witnesses_of("Qwen3NextGatedDeltaNet", lambda wide: hf_layer(*inputs, state_in, torch.float64 if wide else torch.float32))
    hf32 = witnesses["Qwen3NextGatedDeltaNet f32"][1]
    kwargs = dict(initial_state=state_in, output_final_state=True, use_qk_l2norm_in_kernel=True)
    for function in (HF_DELTA, HF_DELTA_CHUNKED):
        witnesses |= torch_witnesses(function, q, k, v, g, beta, **kwargs)
    errors = judge(name, witnesses, ref)
    if bf16:  # out is a float32 rounded once: what is beyond half a unit in its last place has to be float32's
        with torch.no_grad():
            out, _ = HF_DELTA(*map(bfloat16, (q, k, v)), torch.tensor(float32(g)), torch.tensor(float32(beta)),
                              **kwargs | dict(initial_state=torch.tensor(state_in)))
        half_unit = np.where(ref[0] == 0, 0, np.ldexp(1.0, np.frexp(ref[0])[1] - 9))
        beyond = np.maximum(np.abs(out.double().numpy() - ref[0]) - half_unit, 0).max()
        label = f"{HF_DELTA.__name__} bf16, beyond its rounding"
        errors[label] = beyond / np.abs(ref[0]).max()
        if out.dtype != torch.bfloat16 or not errors[label] <= TOL_FLOAT32:
            sys.exit(f"{name}: {label} is {errors[label]:.2e} from the formula, allowed is {TOL_FLOAT32:.0e}")

    tensors = {"params": np.array([B, T, H_k, H_v, S_k, S_v, 0, bf16], np.int32), "q": q, "k": k, "v": v, "a": a, "b": b,
               "A_log": A_log, "dt_bias": dt_bias}
    if not from_zero:
        tensors["state_in"] = state_in
    tensors |= {"out_ref64": ref[0], "out_hf32": hf32[0], "state_out_ref64": ref[1]}
    meta = {
        "function": f"{qwen.__name__}.Qwen3NextGatedDeltaNet.forward",
        "params": "B T H_k H_v S_k S_v kda bf16",
        "layout": {**DELTA_LAYOUT, "a": "[B][T][H_v]", "b": "[B][T][H_v]", "A_log": "[H_v]", "dt_bias": "[H_v]"},
    }
    return tensors, meta, errors


def make_conv(name, seed, T, kc, history, silu, bias, B=1, C=64):
    rng = np.random.default_rng(seed)
    x = float32(rng.standard_normal((B, T, C)))
    weight = float32(rng.standard_normal((C, kc)) / np.sqrt(kc))
    bias_in = float32(0.5 * rng.standard_normal(C)) if bias else None
    history_in = float32(rng.standard_normal((B, kc - 1, C))) if history else np.zeros((B, kc - 1, C), np.float32)

    ref = conv_ref64(x, weight, np.zeros(C) if bias_in is None else bias_in, history_in, silu)
    channels_first = lambda a: np.ascontiguousarray(a.transpose(0, 2, 1))
    activation = "silu" if silu else None

    def update(wide):  # returns (out, new history); HF shifts its state in place
        dtype = torch.float64 if wide else torch.float32
        state = torch.tensor(channels_first(history_in), dtype=dtype)
        out = call_torch(HF_CONV_UPDATE, channels_first(x), state, weight, bias_in, activation, dtype=dtype)
        return channels_first(out), channels_first(state.numpy())

    def prefill(wide):  # leaves the history to its caller
        out = call_torch(HF_CONV_PREFILL, channels_first(x), weight, bias_in, activation, dtype=torch.float64 if wide else torch.float32)
        return channels_first(out), ref[1]

    witnesses = witnesses_of("causal_conv1d_update", update)
    if not history:
        witnesses = witnesses_of("causal_conv1d_fn", prefill) | witnesses
    errors = judge(name, witnesses, ref)

    tensors = {"params": np.array([B, T, C, kc, silu], np.int32), "x": x, "weight": weight}
    if bias:
        tensors["bias"] = bias_in
    if history:
        tensors["history"] = history_in
    tensors |= {"out_ref64": ref[0], "history_out": float32(ref[1])}
    meta = {
        "function": f"{qwen.__name__}.causal_conv1d_" + ("update" if history else "fn"),
        "params": "B T C kc silu",
        "layout": {"x": "[B][T][C]", "weight": "[C][kc]", "bias": "[C]", "history": "[B][kc-1][C], oldest first",
                   "out": "[B][T][C]"},
    }
    return tensors, meta, errors


def compare(name, old, new):
    """Inputs must have the same bits; results may differ in rounding, which depends on the CPU and the libraries."""
    if list(old) != list(new):
        sys.exit(f"{name}: tensors are {list(old)}, a new one has {list(new)}")
    for key, array in new.items():
        if key == "meta":
            continue
        tolerance = {"64": TOL_FORMULA, "32": TOL_FLOAT32}.get(key[-2:], 0)
        if old[key].shape != array.shape or not error(old[key], array.astype(np.float64))[1] <= tolerance:
            sys.exit(f"{name}: {key} differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden",
                        help="folder to write to (default: tests/golden of this repository)")
    parser.add_argument("--check", action="store_true",
                        help="write nothing: compare the files that are there with what would be written")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("versions:", VERSIONS | ({"fla": FLA_VERSION} if FLA_KDA else {}))
    print(f"{'case':16} {'witness against ref64':36} {'out':>10} {'state':>10} {'rel. max':>10}")

    blobs = {}
    for cases, make in ((DELTA_CASES, make_delta), (FORMS_CASES, make_forms), (CONV_CASES, make_conv)):
        for name, case in cases.items():
            tensors, meta, errors = make(name, **case)
            versions = VERSIONS | ({"fla": FLA_VERSION} if FLA_KDA and case.get("kda") else {})
            meta = {"case": name, "made_by": "scripts/make_golden.py", "versions": versions, **meta, "seed": case["seed"],
                    "error_over_max": {label: float(f"{e:.2e}") for label, e in errors.items()}}
            tensors["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
            blobs[name] = golden.pack(tensors)
    total = sum(map(len, blobs.values()))
    if total >= SIZE_LIMIT:
        sys.exit(f"{total} bytes together, allowed are less than {SIZE_LIMIT}")
    for name, blob in blobs.items():
        path = args.out / f"{name}.bin"
        if args.check:
            compare(name, golden.unpack(path.read_bytes()), golden.unpack(blob))
        else:
            path.write_bytes(blob)
        print(f"{path.name:24} {len(blob):7} bytes")
    print(f"{len(blobs)} files, {total} bytes" + (", all as stored" if args.check else ""))


if __name__ == "__main__":
    main()

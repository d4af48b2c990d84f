#!/usr/bin/env python3
"""How long do the kernels take on a CUDA device, and would others be faster?

    cuda_speed.py [--fla] [--only TEXT] [--json FILE] [--dry-run]

Each row is the median time of a call in a CUDA graph of calls on different operands, 300 MB or more of them together: launches, without
the host's part. Beside it:

    copy      a copy within the device of the bytes that the call cannot avoid to move, in such a graph
    few, many the kernel that a device of one multiprocessor would get, and one of a million (GDN_CUDA_MULTIPROCESSORS)
    apart     without dependent launches (GDN_CUDA_DEPENDENT_LAUNCH=off)
    fla       flash-linear-attention's kernel for the same operands (--fla), where it has one

Before that, small calls are compared with the CPU's bits and with a loop in float64. Operands are bfloat16 with float32 gates and
states, the shapes Qwen3.5's: 16 key heads, 32 value heads, 128 x 128 states. Needs torch with CUDA and a libgdn with CUDA
(pip install . -C cmake.define.GDN_CUDA=ON). --dry-run makes every call once, smaller, on the CPU, and measures no times.
"""
import argparse
import importlib
import json
import math
import os
import statistics

import torch

import gdn

STATE = 128 * 128 * 4  # bytes of a head
SETTINGS = {"": {}, "few": {"GDN_CUDA_MULTIPROCESSORS": "1"}, "many": {"GDN_CUDA_MULTIPROCESSORS": "1000000"},
            "apart": {"GDN_CUDA_DEPENDENT_LAUNCH": "off"}}
contexts = {}
device = "cuda"


def context(setting):
    if setting not in contexts:
        os.environ.update(SETTINGS[setting])
        contexts[setting] = gdn.Context(device, 0)
        for name in SETTINGS[setting]:
            del os.environ[name]
    return contexts[setting]


def normal(*shape):
    return torch.randn(shape, device=device)


def ints(values):
    return torch.tensor([*values], dtype=torch.int32, device=device)


def operands(sequences, tokens, heads=(16, 32), channel=False, dtype=torch.bfloat16, packed=False, states=torch.float32):
    lead = (tokens,) if packed else (sequences, tokens)
    return {"q": normal(*lead, heads[0], 128).to(dtype), "k": normal(*lead, heads[0], 128).to(dtype), "v": normal(*lead, heads[1], 128).to(dtype),
            "g": -0.1 * normal(*lead, heads[1], *[128] * channel).abs(), "beta": torch.rand((*lead, heads[1]), device=device),
            "state": (0.3 * normal(sequences, heads[1], 128, 128)).to(states),
            "out": torch.empty((*lead, heads[1], 128), device=device, dtype=dtype)}


def run(x, setting=""):
    named = {"context": context(setting), "stream": torch.cuda.current_stream().cuda_stream if device == "cuda" else None}
    if "conv" in x:
        gdn.ssm_conv(**x["conv"], **named)
    gdn.gated_delta_net(**{"qk_norm": "add", "qk_norm_eps": 1e-6, **named, **{name: x[name] for name in x if name != "conv"}})


def measured(calls, least=8):
    """Median of 9, in microseconds."""
    if device == "cpu":
        calls[0]()
        return math.nan
    stream, graph, times = torch.cuda.Stream(), torch.cuda.CUDAGraph(), []
    n = max(least, len(calls))
    with torch.cuda.stream(stream):
        calls[0]()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            for i in range(n):
                calls[i % len(calls)]()
        for _ in range(10):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            graph.replay()
            end.record(stream)
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / n)
    return statistics.median(times[1:])


def copying(moved):
    source = [torch.zeros(moved // 2, dtype=torch.uint8, device=device) for _ in range(max(2, min(40, 3 * 10**8 // moved)))]
    target = [torch.empty_like(x) for x in source]
    return measured([lambda x=x, y=y: y.copy_(x) for x, y in zip(source, target)])


def loop(x, channel):
    """The recurrence in float64: out, final state."""
    q, k, v, g, beta = (x[name].double() for name in ("q", "k", "v", "g", "beta"))
    share = v.shape[2] // q.shape[2]
    q, k = ((y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(share, 2) for y in (q, k))
    state, out = x["state"].double(), torch.empty_like(v)
    for t in range(q.shape[1]):
        state = state * (g[:, t, :, None, :] if channel else g[:, t, :, None, None]).exp()
        delta = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t]))
        state = state + delta[..., None] * k[:, t, :, None, :]
        out[:, t] = torch.einsum("bhvk,bhk->bhv", state, q[:, t]) / math.sqrt(128)
    return out, state


def check():
    """Bits of the CPU backend; relative errors against float64."""
    for sequences, tokens, channel, dtype in ((3, 1, False, torch.bfloat16), (3, 1, True, torch.bfloat16), (2, 40, False, torch.bfloat16),
                                              (2, 40, True, torch.float32), (1, 4, False, torch.float32), (3, 300, False, torch.float32)):
        x = operands(sequences, tokens, (4, 8), channel, dtype)
        host, want = {name: tensor.cpu().clone() for name, tensor in x.items()}, loop(x, channel)
        gdn.gated_delta_net(**host, qk_norm="add", qk_norm_eps=1e-6)
        for setting in SETTINGS:
            y = {name: tensor.clone() for name, tensor in x.items()}
            run(y, setting)
            same = all(torch.equal(y[name].cpu().view(torch.uint8), host[name].view(torch.uint8)) for name in ("out", "state"))
            errors = [((y[name].double() - exact).norm() / exact.norm()).item() for name, exact in zip(("out", "state"), want)]
            print(f"{sequences} x {tokens} tokens{', a gate per channel' if channel else ''}, {str(dtype)[6:]}{', ' + setting if setting else ''}: "
                  f"{'the bits of the CPU' if same else 'OTHER BITS THAN THE CPU'}; errors of out and state {errors[0]:.1e} {errors[1]:.1e}")


def with_log(x, sequences, channel=False):
    return {**x, "log": 0.01 * normal(sequences, 32, 16 * 128 + 32 * 128 + 32 * (128 if channel else 1))}


def lazy(sequences, commits, channel=False):
    """Decoding that writes a state after `commits` tokens. Between these it replays the log."""
    x = with_log(operands(sequences, 1, channel=channel), sequences, channel)
    calls = [{**x, "position": ints([40 + i] * sequences), "base_position": ints([40] * sequences)} for i in range(1, commits + 1)]
    calls[-1]["commit"] = ints(range(sequences))
    return calls


def verification(sequences, **named):
    return {**with_log(operands(sequences, 4), sequences), "position": ints([7] * sequences), "base_position": ints([4] * sequences), **named}


def mapped(sequences):
    x = operands(sequences, sequences, packed=True)
    return {**x, "seq_start": ints(range(sequences + 1)), "state_src": ints(range(sequences)), "state_dst": ints(range(sequences))}


def mixed(decodes, prompt):
    n = decodes + 1
    return {**operands(n, decodes + prompt, packed=True), "seq_start": ints([*range(n), decodes + prompt]), "state_src": ints(range(n)),
            "state_dst": ints(range(n))}


def layer(sequences, channels=8192):
    conv = {"x": normal(sequences, 1, channels).bfloat16(), "weight": normal(channels, 4).bfloat16(), "silu": True, "position": ints([3] * sequences),
            "history": normal(sequences, 3, channels).bfloat16(), "out": torch.empty((sequences, 1, channels), device=device, dtype=torch.bfloat16)}
    return {**operands(sequences, 1), "conv": conv}


def cases(small):
    """name, the call's operands or those of calls that follow each other, bytes that a call cannot avoid to move or 0, other settings,
    fla's function"""
    rule, kda = "gated_delta_rule", "kda"
    batches = (1, 8) if small else (1, 2, 4, 8, 64, 256)
    for n in batches:
        for channel, kind, peer in ((False, "", f"{rule}.fused_recurrent_gated_delta_rule"), (True, " kda", f"{kda}.fused_recurrent_kda")):
            yield f"decode{kind} {n}", lambda n=n, c=channel: operands(n, 1, channel=c), 2 * n * 32 * STATE, ("few", "many", "apart"), peer
        yield f"decode bf16 states {n}", lambda n=n: operands(n, 1, states=torch.bfloat16), n * 32 * STATE, ("few", "many", "apart"), ""
        yield f"decode maps {n}", lambda n=n: mapped(n), 2 * n * 32 * STATE, ("apart",), ""
        yield f"decode after conv {n}", lambda n=n: layer(n), 2 * n * 32 * STATE, ("apart",), ""
        for commits in (4, 8, 16):
            yield f"decode lazy {commits} {n}", lambda n=n, m=commits: lazy(n, m), 0, ("few", "many"), ""
        yield f"decode kda lazy 8 {n}", lambda n=n: lazy(n, 8, True), 0, ("few", "many"), ""
    for n in batches[:1] if small else (1, 8, 64):
        for tokens in (4, 8, 16):
            yield f"tokens{tokens} {n}", lambda n=n, t=tokens: operands(n, t), 2 * n * 32 * STATE, (), ""
        yield f"verify4 {n}", lambda n=n: {**operands(n, 4), "state": torch.zeros(n, 4, 32, 128, 128, device=device)}, 5 * n * 32 * STATE, (), ""
        yield f"verify4 log {n}", lambda n=n: verification(n), n * 32 * STATE, (), ""
        yield f"verify4 log, commit {n}", lambda n=n: verification(n, commit=ints(range(n))), 2 * n * 32 * STATE, (), ""
        yield f"tree4 log {n}", lambda n=n: verification(n, parent=ints([-1, 0, 0, 1] * n)), 0, (), ""
    for decodes, prompt in ((2, 12),) if small else ((32, 512), (64, 2048), (254, 2048)):
        yield f"mixed {decodes} + {prompt}", lambda d=decodes, t=prompt: mixed(d, t), 0, ("few", "many"), ""
    shapes = [(1, 512, 32), (8, 512, 32), (1, 2048, 32), (1, 8192, 4), (1, 8192, 8), (1, 8192, 16), (1, 8192, 32), (1, 8192, 48), (1, 32768, 32)]
    for n, tokens, heads in ((1, 16, 4),) if small else shapes:
        yield (f"prefill {n} x {tokens}, {heads} heads", lambda n=n, t=tokens, h=heads: operands(n, t, (min(h // 2, 16), h)), 0, ("few", "many"),
               f"{rule}.chunk_gated_delta_rule")
        if heads in (4, 8, 32) and tokens != 2048:
            yield (f"prefill kda {n} x {tokens}, {heads} heads", lambda n=n, t=tokens, h=heads: operands(n, t, (h, h), True), 0, ("few", "many"),
                   f"{kda}.chunk_kda")


def other(path, x):
    """A call of flash-linear-attention; its states lie the other way around."""
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(f"fla.ops.{module}"), name)
    state = x["state"].transpose(-1, -2).contiguous()
    given = {name: x[name] for name in ("q", "k", "v", "g", "beta")}
    return lambda: function(**given, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)


def main():
    global device
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fla", action="store_true", help="also flash-linear-attention, where it has the call")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    parser.add_argument("--dry-run", action="store_true", help="each call once, smaller, on the CPU")
    options = parser.parse_args()
    if options.dry_run:
        device = "cpu"
    torch.manual_seed(1)
    check()
    about = "the CPU: no times" if options.dry_run else torch.cuda.get_device_name()
    print(f"{about}, torch {torch.__version__}; microseconds")
    columns = ("us", "copy", "few", "many", "apart", "fla")
    print(f"{'':34s}{''.join(f'{name:>10s}' for name in columns)}{'us/copy':>10s}{'fla/us':>10s}")
    rows = []
    for name, make, moved, others, peer in cases(options.dry_run):
        if options.only not in name:
            continue
        made = make()
        group = made if isinstance(made, list) else [made]
        size = sum(tensor.numel() * tensor.element_size() for tensor in group[0].values() if torch.is_tensor(tensor))
        for _ in range(0 if options.dry_run else max(2, min(40, 3 * 10**8 // size))):
            made = make()
            group += made if isinstance(made, list) else [made]
        row = {"name": name}
        for setting in ("", *others):
            row[setting or "us"] = measured([lambda x=x: run(x, setting) for x in group])
        if moved:
            row["copy"] = copying(moved)
        if options.fla and peer:
            row["fla"] = measured([other(peer, x) for x in group])
        rows.append(row)
        ratios = row["us"] / row.get("copy", math.nan), row.get("fla", math.nan) / row["us"]
        print(f"{name:34s}{''.join(f'{row.get(column, math.nan):10.2f}' for column in columns)}{ratios[0]:10.2f}{ratios[1]:10.2f}"
              .replace("nan", "  -"), flush=True)
        del group, made
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

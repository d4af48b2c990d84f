#!/usr/bin/env python3
"""How long do the kernels take on a CUDA device?

    cuda_speed.py [--fla] [--only TEXT] [--json FILE]

Each row is the median time of a call in a CUDA graph of calls on different operands, 400 MB or more of them together: launches, without
the host's part. `share` is the time in which a copy on the device moves the bytes that the call cannot avoid to move, by the call's
time. --fla: flash-linear-attention's kernels for the same operands beside it, where it has one; `ratio` is its time by ours. Before
that, small calls are compared with the CPU's bits and with a loop in float64. Operands are bfloat16 with float32 gates and
states, the shapes Qwen3.5's: 16 key heads, 32 value heads, 128 x 128 states. Needs torch with CUDA and a libgdn with CUDA
(pip install . -C cmake.define.GDN_CUDA=ON).
"""
import argparse
import json
import math
import statistics

import torch

import gdn
from gdn import _cuda

STATE = 128 * 128 * 4  # bytes of a head


def operands(sequences, tokens, heads=(16, 32), channel=False, dtype=torch.bfloat16, packed=False):
    def normal(*shape):
        return torch.randn(shape, device="cuda")

    lead = (tokens,) if packed else (sequences, tokens)
    return {"q": normal(*lead, heads[0], 128).to(dtype), "k": normal(*lead, heads[0], 128).to(dtype), "v": normal(*lead, heads[1], 128).to(dtype),
            "g": -0.1 * normal(*lead, heads[1], *[128] * channel).abs(), "beta": torch.rand((*lead, heads[1]), device="cuda"),
            "state": 0.3 * normal(sequences, heads[1], 128, 128), "out": torch.empty((*lead, heads[1], 128), device="cuda", dtype=dtype)}


def run(x, **named):
    gdn.gated_delta_net(**{"qk_norm": "add", "qk_norm_eps": 1e-6, "context": _cuda.device(0).context,
                           "stream": torch.cuda.current_stream().cuda_stream, **x, **named})


def measured(calls, least=8):
    """Median of 9, in microseconds."""
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
    for sequences, tokens, channel, dtype in ((2, 40, False, torch.bfloat16), (2, 40, True, torch.float32), (1, 4, False, torch.float32),
                                              (3, 300, False, torch.float32)):
        x = operands(sequences, tokens, (4, 8), channel, dtype)
        host, want = {name: tensor.cpu() for name, tensor in x.items()}, loop(x, channel)
        run(x)
        torch.cuda.synchronize()
        gdn.gated_delta_net(**host, qk_norm="add", qk_norm_eps=1e-6)
        same = all(torch.equal(x[name].cpu().view(torch.uint8), host[name].view(torch.uint8)) for name in ("out", "state"))
        errors = [((x[name].double() - exact).norm() / exact.norm()).item() for name, exact in zip(("out", "state"), want)]
        print(f"{sequences} x {tokens} tokens{', a gate per channel' if channel else ''}, {str(dtype)[6:]}: "
              f"{'the bits of the CPU' if same else 'OTHER BITS THAN THE CPU'}; errors of out and state {errors[0]:.1e} {errors[1]:.1e}")


def maps(x, sequences, **lists):
    return {**x, **{name: torch.tensor(values, dtype=torch.int32, device="cuda") for name, values in lists.items()}}


def cases():
    """name, sequences, operands of one call, bytes that it cannot avoid to move or 0, fla's function"""
    for channel, kind, peer in ((False, "", "gated_delta_rule.fused_recurrent_gated_delta_rule"), (True, "_kda", "kda.fused_recurrent_kda")):
        for n in (1, 8, 64, 256):
            yield f"decode{kind} {n}", n, lambda n=n, c=channel: operands(n, 1, channel=c), 2 * n * 32 * STATE, peer
    for n in (1, 8, 64):
        def half(n=n):
            x = operands(n, 1)
            return {**x, "state": x["state"].bfloat16()}

        yield f"decode_state_bf16 {n}", n, half, n * 32 * STATE, ""
        yield (f"decode_unaligned {n}", n, lambda n=n: {**(x := operands(n, 1)), "state": torch.empty(x["state"].numel() + 1, device="cuda")
                                                        [1:].view(x["state"].shape).zero_()}, 2 * n * 32 * STATE, "")
        for tokens in (2, 4, 6, 8, 12, 16):
            yield f"tokens{tokens} {n}", n, lambda n=n, t=tokens: operands(n, t), 2 * n * 32 * STATE, ""
        yield f"verify4 {n}", n, lambda n=n: {**operands(n, 4), "state": torch.zeros(n, 4, 32, 128, 128, device="cuda")}, 5 * n * 32 * STATE, ""

        def logged(n=n, **named):
            x = {**operands(n, 4), "log": torch.zeros(n, 8, 16 * 128 + 32 * 129, device="cuda")}
            return maps(x, n, position=[7] * n, base_position=[4] * n, **named)

        yield f"verify4_log {n}", n, logged, n * 32 * STATE, ""
        yield f"round4_log {n}", n, lambda n=n, f=logged: f(n, commit=range(n)), 2 * n * 32 * STATE, ""
        yield f"tree4 {n}", n, lambda n=n, f=logged: f(n, parent=[-1, 0, 0, 1] * n), 0, ""
    for n, prompt in ((33, 512), (65, 2048), (255, 2048)):
        yield (f"mixed {n - 1} + {prompt}", n, lambda n=n, t=prompt: maps(operands(n, n - 1 + t, packed=True), n, seq_start=[*range(n), n - 1 + t],
                                                                    state_src=range(n), state_dst=range(n)), 0, "")
    for channel, kind, peer in ((False, "", "gated_delta_rule.chunk_gated_delta_rule"), (True, "_kda", "kda.chunk_kda")):
        for n, tokens, heads in ((1, 512, (16, 32)), (8, 512, (16, 32)), (1, 2048, (16, 32)), (1, 8192, (16, 32)), (1, 32768, (16, 32)),
                                 (1, 8192, (4, 8)), (1, 8192, (16, 48))):
            if not channel or heads == (16, 32) and tokens != 2048:
                yield (f"prefill{kind} {n} x {tokens}, {heads[1]} heads", n,
                       lambda n=n, t=tokens, h=(heads[1],) * 2 if channel else heads, c=channel: operands(n, t, h, c), 0, peer)


def other(path, x):
    """A call of flash-linear-attention; its states lie the other way around."""
    module, _, name = path.rpartition(".")
    function = getattr(__import__(f"fla.ops.{module}", fromlist=[name]), name)
    state = x["state"].transpose(-1, -2).contiguous()
    given = {name: x[name] for name in ("q", "k", "v", "g", "beta")}
    return lambda: function(**given, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fla", action="store_true", help="also flash-linear-attention, where it has the call")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    options = parser.parse_args()
    torch.manual_seed(1)
    check()
    source = torch.zeros(1 << 29, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    rate = 2 * source.numel() / measured([lambda: target.copy_(source)])  # bytes per microsecond
    del source, target
    print(f"{torch.cuda.get_device_name()}, a copy moves {rate / 1e6:.2f} TB/s, torch {torch.__version__}")
    print(f"{'':28s}{'us':>10s}{'share':>8s}{'fla us':>10s}{'ratio':>8s}")
    rows = []
    for name, sequences, make, moved, peer in cases():
        if options.only not in name or (options.fla and not peer):
            continue
        first = make()
        size = sum(tensor.numel() * tensor.element_size() for tensor in first.values())
        given = [first, *(make() for _ in range(max(2, min(64, 4 * 10**8 // size))))]
        row = {"name": name, "us": measured([lambda x=x: run(x) for x in given])}
        if moved:
            row["share"] = moved / rate / row["us"]
        if options.fla:
            row["fla_us"] = measured([other(peer, x) for x in given])
            row["ratio"] = row["fla_us"] / row["us"]
        rows.append(row)
        print(f"{name:28s}{row['us']:10.2f}{row.get('share', math.nan):8.2f}{row.get('fla_us', math.nan):10.1f}{row.get('ratio', math.nan):8.2f}"
              .replace("nan", "  -"), flush=True)
    _cuda.device(0).context.synchronize(torch.cuda.current_stream().cuda_stream or 1)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "copy_bytes_per_us": rate, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

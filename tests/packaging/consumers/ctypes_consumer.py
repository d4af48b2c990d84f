#!/usr/bin/env python3
"""dlopen from a language without the header: one decode step of gated_delta_net through ctypes.

    ctypes_consumer.py LIBGDN_SO

The structs are declared again here, from the documentation in gdn.h, and the result is compared with the
formula computed in Python's doubles.
"""
import ctypes as C
import math
import random
import sys


class Span(C.Structure):
    _fields_ = [("data", C.c_void_p), ("offset", C.c_uint64), ("bytes", C.c_uint64)]


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("offset", C.c_uint64), ("bytes", C.c_uint64),
                ("stride", C.c_int64 * 4), ("dtype", C.c_int32), ("reserved", C.c_int32)]


class Pool(C.Structure):
    _fields_ = [("data", C.c_void_p), ("offset", C.c_uint64), ("bytes", C.c_uint64),
                ("stride", C.c_int64 * 4), ("dtype", C.c_int32), ("n_rows", C.c_int32), ("n_slots", C.c_int32)]


class Capability(C.Structure):
    _fields_ = [("size", C.c_uint32), ("supported", C.c_int32), ("exact", C.c_int32), ("emulated", C.c_int32),
                ("workspace_bytes", C.c_uint64), ("implementation", C.c_char * 64), ("reason", C.c_char * 192)]


class ContextDesc(C.Structure):
    _fields_ = [("size", C.c_uint32), ("backend", C.c_uint32), ("device", C.c_uint32), ("n_threads", C.c_uint32),
                ("implementation", C.c_char_p), ("parallel_for", C.c_void_p), ("parallel_user", C.c_void_p),
                ("log", C.c_void_p), ("log_user", C.c_void_p), ("alloc", C.c_void_p), ("free", C.c_void_p),
                ("alloc_user", C.c_void_p), ("timeout_ns", C.c_uint64), ("native", C.c_void_p),
                ("level", C.c_uint32), ("reserved", C.c_uint32)]


class GatedDeltaNetArgs(C.Structure):
    _fields_ = ([("size", C.c_uint32)] +
                [(name, C.c_int32) for name in (
                    "n_seqs", "n_tokens", "n_heads_k", "n_heads_v", "head_dim_k", "head_dim_v", "head_map", "gate",
                    "state_layout", "n_snapshots")] +
                [("scale", C.c_float)] +
                [(name, Tensor) for name in ("q", "k", "v", "g", "beta", "out")] +
                [(name, Pool) for name in ("state", "state_out")] +
                [(name, Span) for name in ("seq_start", "position", "state_src", "state_dst", "workspace")] +
                [(name, C.c_void_p) for name in ("inputs", "log", "checkpoints", "tree", "rounding")])


def main(path):
    lib = C.CDLL(path)
    lib.gdn_last_error.restype = C.c_char_p

    def call(function, *args):
        if function(*args) != 0:
            sys.exit(f"{function.__name__}: {lib.gdn_last_error().decode()}")

    dim = 16
    rng = random.Random(1)
    floats = lambda n: (C.c_float * n)(*(rng.uniform(-1, 1) for _ in range(n)))
    q, k, v, state = floats(dim), floats(dim), floats(dim), floats(dim * dim)  # state: [value][key]
    g, beta, out = (C.c_float * 1)(-0.25), (C.c_float * 1)(0.75), (C.c_float * dim)()

    # The formula of gdn.h, in doubles.
    decay, want_state, want_out = math.exp(g[0]), [], []
    for j in range(dim):
        row = state[j * dim:(j + 1) * dim]
        d = beta[0] * (v[j] - decay * sum(s * x for s, x in zip(row, k)))
        row = [decay * s + x * d for s, x in zip(row, k)]
        want_state += row
        want_out.append(sum(s * x for s, x in zip(row, q)) / math.sqrt(dim))

    ctx = C.c_void_p()
    call(lib.gdn_context_create, C.byref(ContextDesc(size=C.sizeof(ContextDesc))), C.byref(ctx))
    args = GatedDeltaNetArgs()
    call(lib.gdn_struct_init, b"gdn_gated_delta_net_args", C.byref(args), C.c_uint32(C.sizeof(args)))
    args.n_seqs = args.n_tokens = args.n_heads_k = args.n_heads_v = args.state.n_rows = 1
    args.head_dim_k = args.head_dim_v = dim
    args.scale = 1 / math.sqrt(dim)
    for name, array in dict(q=q, k=k, v=v, g=g, beta=beta, out=out, state=state).items():
        getattr(args, name).data = C.addressof(array)
    capability = Capability(size=C.sizeof(Capability))
    call(lib.gdn_gated_delta_net_query, ctx, C.byref(args), C.byref(capability))
    if capability.workspace_bytes:
        call(lib.gdn_buffer_create, ctx, C.c_uint64(capability.workspace_bytes), C.byref(args.workspace))
    call(lib.gdn_gated_delta_net, ctx, C.byref(args), None)
    if capability.workspace_bytes:
        lib.gdn_buffer_destroy(ctx, C.byref(args.workspace))
    lib.gdn_context_destroy(ctx)

    error = max(abs(a - b) for a, b in zip([*out, *state], want_out + want_state))
    print(f"{capability.implementation.decode()}: largest difference from Python's doubles: {error:.2e}")
    return 0 if error < 1e-5 else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

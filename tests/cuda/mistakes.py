"""For tests/simt/mutations.py: what is wrong, the file, a text that it has once, what to put there, and what has to
notice: the check of a kernel, or the program test_cuda; then, where few cases would, the check's arguments."""

DELTA, CONV, ROWS, ROBUST = "gated_delta_net", "ssm_conv", "set_rows", "test_cuda"
FEW, TILES, FORM = "cuda/gated_delta_net.cu", "cuda/gated_delta_net_tiles.cuh", "cuda/gated_delta_net.cuh"
ALL = "cuda/kernel.cuh"

MISTAKES = [
    # ---- arithmetic
    ("fma is a product and a sum", ALL, "return make_float4(__fmaf_rn(x.x, y.x, z.x), ",
     "return make_float4(__fadd_rn(__fmul_rn(x.x, y.x), z.x), ", DELTA),
    ("the decayed state is not rounded before the fma", FORM, "return fma4(k, all4(d), mul4(a, state));",
     "return fma4(a, state, mul4(k, all4(d)));", DELTA),
    ("the wrong width of an exchange", ALL, "return __shfl_xor_sync(GDN_FULL_WARP, x, mask);",
     "return __shfl_xor_sync(GDN_FULL_WARP, x, mask, 4);", DELTA),
    ("an exchange with the wrong lane", "cuda/gated_delta_net.cu", "add4(c, exchange4(c, 1))", "add4(c, exchange4(c, 2))", DELTA),
    ("an exchange that half of the lanes do not take part in", TILES, "    mine  = __fadd_rn(mine, exchange(mine, 1));\n",
     "    if (l < 4)\n        mine  = __fadd_rn(mine, exchange(mine, 1));\n", DELTA),
    ("the tree of a lane in another order", TILES, "__fadd_rn(__fadd_rn(x.x, x.z), __fadd_rn(x.y, x.w))",
     "__fadd_rn(__fadd_rn(x.x, x.y), __fadd_rn(x.z, x.w))", DELTA),
    ("keys that do not exist are summed", FORM, "    if (!X::GENERAL)\n        return next;\n", "    return next;\n",
     DELTA, ("--case", "random/465")), # a row of zeros, normalised, is NaN beyond the head
    # ---- what is done to q, k, g and beta before, and the types
    ("the norm of q is left out", FEW, "        x.q[m] = mul4(x.q[m], all4(of_q ? factor : other));\n", "", DELTA, ("--case", "forms/T1_add_*")),
    ("k has the norm of q", FEW, "of_q ? other : factor", "of_q ? factor : other", DELTA, ("--case", "forms/T5_clamp_*")),
    ("the norm of q is left out of tiles", TILES, "if (n < 2 * TOKENS) {", "if (n < TOKENS) {", DELTA, ("--case", "forms/T40_add_*")),
    ("only the first tile is normalised", TILES, "            prepare_keys<X>(p, tiles[turn ^ 1]);\n", "            ;\n", DELTA,
     ("--case", "forms/T40_clamp_*")),
    ("no barrier behind the norm", TILES, "            row[8 * m + l] = mul4(x[m], factor);\n    }\n    __syncthreads();\n",
     "            row[8 * m + l] = mul4(x[m], factor);\n    }\n", DELTA, ("--case", "forms/T40_add_*")),
    ("the bias is another head's", FORM, "at.h * p.dt_bias.head", "at.kappa * p.dt_bias.head", DELTA, ("--case", "forms/T5_plain_raw_*")),
    ("the rate is not negative", FORM, "? -gdn_expf(A) : A", "? gdn_expf(A) : A", DELTA, ("--case", "forms/T1_plain_a_log_*")),
    ("a decay of the wrong eight lanes", FEW, "8 * (m % 4) + w.l", "8 * (m / 4) + w.l", DELTA, ("--case", "forms/T1_plain_log_*")),
    ("beta's factor is forgotten", FORM, "__fmul_rn(p.beta_factor, p.beta_form == GDN_GPU_BETA_LOGIT ? gdn_sigmoid(x) : x)",
     "(p.beta_form == GDN_GPU_BETA_LOGIT ? gdn_sigmoid(x) : x)", DELTA, ("--case", "forms/T1_plain_log_logit_*")),
    ("out is rounded toward zero", ALL, "(b + 0x7fffu + (b >> 16 & 1u)) >> 16", "b >> 16", DELTA, ("--case", "types/gates_f32_out_bf16_*")),
    ("out of 16 bits is written as 32", ALL, "        store_half(at, half_of(x, dtype));", "        store_word(at, half_of(x, dtype));", DELTA,
     ("--case", "types/gates_f32_out_f16_*")),
    # ---- barriers
    ("no barrier before the first tile is read", TILES, "    next.store(p, w, tiles[0]);\n    __syncthreads();\n",
     "    next.store(p, w, tiles[0]);\n", DELTA),
    ("no barrier between tiles", TILES, "            next.store(p, w, tiles[turn ^ 1]);\n        __syncthreads();\n",
     "            next.store(p, w, tiles[turn ^ 1]);\n", DELTA),
    ("one tile instead of two in turns", TILES, "next.store(p, w, tiles[turn ^ 1]);", "next.store(p, w, tiles[turn]);", DELTA),
    # ---- maps
    ("a source of -1 is row 0", FORM, "at.src = map_at(p.state_src, at.s, at.s * p.slots_in);",
     "at.src = map_at(p.state_src, at.s, at.s * p.slots_in);\n    at.src = at.src == -1 ? 0 : at.src;", DELTA),
    ("a target of -1 is row 0", FORM, "        return dst;\n", "        return dst < 0 ? 0 : dst;\n", DELTA),
    ("padding is computed", FORM, "return at.src != GDN_MAP_SKIP && at.T > 0;", "return at.T > 0;", DELTA),
    ("snapshots oldest first", FORM, "const int r = at.T - 1 - t;", "const int r = t;", DELTA),
    ("heads are grouped, always", FORM, "p.head_map ? at.h % p.n_heads_k : ", "", DELTA),
    ("the source may lie behind the pool", FORM, " || at.src >= p.entries_in)", ")", ROBUST),
    ("bad targets are not reported", FORM, "    report(p.bad, GDN_GPU_BAD_STATE_DST);\n", "", ROBUST),
    ("bad targets are written", FORM, " && dst < p.entries_out)", ")", ROBUST),
    # ---- maps of the others
    ("a long call without a history looks at no map", "cuda/ssm_conv.cu", "        const Sequence q = sequence(p, unit);\n        if (q.run && p.part",
     "        if (p.part == GDN_GPU_CONV_HISTORY && !p.rows_out)\n            return;\n"
     "        const Sequence q = sequence(p, unit);\n        if (q.run && p.part", ROBUST),
    ("a seq_start that descends is not reported", "cuda/ssm_conv.cu", " || after < q.first || after > p.n_tokens)", " || after > p.n_tokens)", ROBUST),
    ("a bad position is used", "cuda/ssm_conv.cu", "            report(p.bad, GDN_GPU_BAD_POSITION);\n            q.run = false;\n",
     "            report(p.bad, GDN_GPU_BAD_POSITION);\n", ROBUST),
    ("a source is not looked at where there is no history", "cuda/ssm_conv.cu", " || q.src >= p.rows_in)", " || (p.rows_in && q.src >= p.rows_in))", ROBUST),
    ("a target is not looked at where there is no history", "cuda/ssm_conv.cu", "if (q.dst < GDN_MAP_NONE || q.dst >= p.rows_out)",
     "if (p.rows_out && (q.dst < GDN_MAP_NONE || q.dst >= p.rows_out))", ROBUST),
    ("a bad index is not reported", "cuda/set_rows.cu", "        report(p.bad, GDN_GPU_BAD_INDEX);\n", "        ;\n", ROBUST),
    ("the index is taken for 32 bits", "cuda/set_rows.cu", "(int64_t)__ldg((const long long *)at)", "(int64_t)(int)__ldg((const long long *)at)", ROBUST),
    # ---- the others
    ("taps newest first", "cuda/ssm_conv.cu", "u = __fmaf_rn(weight[j], x[j], u);", "u = __fmaf_rn(weight[KW - 1 - j], x[KW - 1 - j], u);", CONV),
    ("a history of -1 is row 0", "cuda/ssm_conv.cu", "q.dst = map_at(p.history_dst, s, absent);",
     "q.dst = map_at(p.history_dst, s, absent);\n    q.src = q.src == -1 && p.rows_in ? 0 : q.src;", CONV),
    ("a row that is copied is taken for the same", "cuda/ssm_conv.cu", "q.src == q.dst && p.same_pool", "p.same_pool", CONV),
    ("any of two rows wins", "cuda/set_rows.cu", "return !__any_sync(GDN_FULL_WARP, later);", "return true;", ROWS),
    ("the earlier of many rows wins", "cuda/set_rows.cu", "atomicMax(to, (unsigned)i + 1u);", "atomicMin(to, (unsigned)i + 1u);", ROWS),
    ("the table is not cleared", "cuda/set_rows.cu", "        store_word(p.table + 4 * (uint64_t)n, 0);\n", "        return;\n", ROWS),
    ("an index of -1 is row 0", "cuda/set_rows.cu", "if (row < 0 || row >= p.n_rows_dst || !wins",
     "if (row >= p.n_rows_dst || !wins", ROWS),
    ("a NaN is the largest", "cuda/set_rows.cu", "own > 0x7f800000u ? 0 : own", "own", ROWS),
]

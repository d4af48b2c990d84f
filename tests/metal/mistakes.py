"""For tests/simt/mutations.py: what is wrong, the file, a text that it has once, what to put there, and what has to
notice: the check of a kernel, or the program test_metal; then, where few cases would, the check's arguments."""

DELTA, CONV, ROWS, ROBUST = "gated_delta_net", "ssm_conv", "set_rows", "test_metal"
G, C, S, ALL, ELEMENTARY = ("metal/gated_delta_net.metal", "metal/ssm_conv.metal", "metal/set_rows.metal", "metal/kernel.h",
                            "numerics/elementary.h")

MISTAKES = [
    # ---- arithmetic
    ("fma is a product and a sum", G, "const float4 next = fma(x, y, sum);", "const float4 next = x * y + sum;", DELTA),
    ("the decayed state is not rounded before the fma", G, "fma(k[m], float4(delta[c]), decay[CHANNEL ? m : 0] * S[m][c])",
     "fma(decay[CHANNEL ? m : 0], S[m][c], k[m] * float4(delta[c]))", DELTA),
    ("an exchange with the wrong lane", G, "c + simd_shuffle_xor(c, 1)", "c + simd_shuffle_xor(c, 2)", DELTA),
    ("an exchange that half of the lanes do not take part in", G, "    const float4 s = c + simd_shuffle_xor(c, 1); // h = 4\n",
     "    float4 s = c;\n    if (l < 4)\n        s = c + simd_shuffle_xor(c, 1);\n", DELTA),
    ("the tree of a lane in another order", G, "(s.x + s.z) + (s.y + s.w)", "(s.x + s.y) + (s.z + s.w)", DELTA),
    ("the tree from its other end", G, "return (s.x + s.z) + (s.y + s.w)", "return ((s.x + s.z) + s.y) + s.w", DELTA),
    ("keys that do not exist are summed", G, "    if (!GENERAL)\n        return next;\n    return four(", "    return next;\n    return four(", DELTA,
     ("--seed", "1", "--case", "random/721")), # an infinite delta; few cases have one
    ("a delta of another column", G, "eight + lane_of_column<C>(c)", "eight + lane_of_column<C>(0)", DELTA),
    ("a delta of other eight lanes", G, "ushort(me & 24u)", "ushort(0)", DELTA),
    ("exp of another sequence of operations", ELEMENTARY, "float u = fmaf(r * r, q, c);", "float u = fmaf(r, q * r, c);", DELTA),
    ("subnormals of binary16 are zero", ALL, "exponent ? normal : small", "exponent ? normal : 0u", DELTA),
    # ---- maps
    ("a source of -1 is row 0", G, "if (w.src >= 0 && c < w.columns", "if (c < w.columns", DELTA),
    ("a target of -1 is row 0", G, "        return dst;\n", "        return dst < 0 ? 0 : dst;\n", DELTA),
    ("padding is computed", G, "return at.src != GDN_MAP_SKIP && at.T > 0 &&", "return at.T > 0 &&", DELTA),
    ("snapshots oldest first", G, "const int r = at.T - 1 - t;", "const int r = t;", DELTA),
    ("heads are grouped, always", G, "p.head_map ? at.h % p.n_heads_k : ", "", DELTA),
    ("the states of a pool in one place", G, "pool = b.state_out + p.pool_offset;", "pool = b.state_out + p.pool_offset + 4;", DELTA),
    ("the source may lie behind the pool", G, " || at.src >= p.entries_in)", ")", ROBUST),
    ("bad targets are not reported", G, "    report(b.bad, GDN_GPU_BAD_STATE_DST);\n", "", ROBUST),
    ("bad targets are written", G, " && dst < p.entries_out)", ")", ROBUST),
    # ---- maps of the others
    ("a long call without a history looks at no map", C, "        const ConvSequence q = conv_sequence(p, b, unit);\n        if (q.run && p.part",
     "        if (p.part == GDN_GPU_CONV_HISTORY && !p.rows_out)\n            return;\n"
     "        const ConvSequence q = conv_sequence(p, b, unit);\n        if (q.run && p.part", ROBUST),
    ("a seq_start that descends is not reported", C, " || after < q.first || after > p.n_tokens)", " || after > p.n_tokens)", ROBUST),
    ("a bad position is used", C, "            report(b.bad, GDN_GPU_BAD_POSITION);\n            q.run = false;\n",
     "            report(b.bad, GDN_GPU_BAD_POSITION);\n", ROBUST),
    ("a source is not looked at where there is no history", C, " || q.src >= p.rows_in)", " || (p.rows_in && q.src >= p.rows_in))", ROBUST),
    ("a target is not looked at where there is no history", C, "if (q.dst < GDN_MAP_NONE || q.dst >= p.rows_out)",
     "if (p.rows_out && (q.dst < GDN_MAP_NONE || q.dst >= p.rows_out))", ROBUST),
    ("a bad index is not reported", S, "        report(bad, GDN_GPU_BAD_INDEX);\n", "        ;\n", ROBUST),
    ("the index is taken for 32 bits", S, "? *(device const int64_t *)at :", "? int64_t(int(*(device const int64_t *)at)) :", ROBUST),
    # ---- the others
    ("taps newest first", C, "u = fma(weight[j], x[j], u);", "u = fma(weight[KW - 1 - j], x[KW - 1 - j], u);", CONV),
    ("a history of -1 is row 0", C, "    q.run = true;\n    q.T = 0;\n", "    q.run = true;\n    q.T = 0;\n    q.src = q.src == -1 && p.rows_in ? 0 : q.src;\n", CONV),
    ("a row that is copied is taken for the same", C, "q.src == q.dst && p.same_pool", "p.same_pool", CONV),
    ("the history of a piece is written by it", C, "if (t0 < t1)\n            convolve<KW, EXACT>(p, types, b, q, t0, t1, c);",
     "if (t0 < t1) {\n            keep(p, types, b, q, c);\n            convolve<KW, EXACT>(p, types, b, q, t0, t1, c);\n        }", CONV),
    ("a history of another type takes x as it is", C, "    if (to_dtype != dtype)\n        conv_store(to, read_element(from, dtype), to_dtype);\n    else if",
     "    if", CONV),
    ("old inputs are read with x's type", C, "at_c), types.history);\n    }\n    const float bias", "at_c), types.x);\n    }\n    const float bias", CONV),
    ("any of two rows wins", S, "return !simd_any(later);", "return true;", ROWS),
    ("the earlier of many rows wins", S, "atomic_fetch_max_explicit(to, uint(i) + 1u, memory_order_relaxed);", "", ROWS),
    ("the table is not cleared", S, "        table[n] = 0u;\n", "        return;\n", ROWS),
    ("an exchange that fails is taken for a slot that is held", S, "} while (!taken && held == 0u);", "} while (false);", ROWS),
    ("an index of -1 is row 0", S, "if (row < 0 || row >= p.n_rows_dst || !wins", "if (row >= p.n_rows_dst || !wins", ROWS),
    ("a NaN is the largest", S, "own > 0x7f800000u ? 0u : own", "own", ROWS),
    ("a byte of Q8_0 is rounded away from zero", S, "(y + 12582912.0f) - 12582912.0f", "float(int(y + (y < 0.0f ? -0.5f : 0.5f)))", ROWS),
]

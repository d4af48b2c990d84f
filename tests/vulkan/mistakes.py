"""For tests/vulkan/mutations.py: what is wrong, the file, a text that it has once, what to put there, and the case of
`gdn check` that has to notice."""

G, ELEMENTARY, MEMORY = "vulkan/gated_delta_net.comp", "vulkan/elementary.glsl", "vulkan/memory.glsl"

MISTAKES = [
    ("q is not normalised", G, "q_ready = q[m] * q_factor", "q_ready = q[m]", "forms/T1_add_log_beta_scalar_vk"),
    ("q's sum and k's change places on their way", G, "exchange(upper ? q_sum : k_sum, 4, 2)", "exchange(upper ? k_sum : q_sum, 4, 2)",
     "forms/T1_clamp_log_beta_scalar_vk"),
    ("a checkpoint comes a token late", G, "length = position + t + 1, i =", "length = position + t, i =", "checkpoints/T17_N3_k128_vk"),
    ("a token with a snapshot has no checkpoint", G, "kept < 2; kept++)", "kept < (snapshot_of(t) < 0 ? 2 : 1); kept++)",
     "checkpoints/T1_N1_k128_vk"),
    ("what lies behind a row enters its norm", G, "        if (there[e])\n            x[e] = load_any(", "        if (true)\n            x[e] = load_any(",
     "forms/T5_add_log_beta_scalar_vk"),
    ("the bias of another head", G, "p.dt_bias.base + at.h * p.dt_bias.head", "p.dt_bias.base", "forms/T1_plain_raw_beta_scalar_vk"),
    ("A_log is taken for the rate", G, "? -gdn_exp(rate) : rate", "? -rate : rate", "forms/T1_plain_a_log_beta_scalar_vk"),
    ("beta's factor is forgotten", G, "p.beta_factor * (", "1.0 * (", "forms/T1_plain_log_logit_scalar_vk"),
    ("the root of a subnormal sum is not scaled back", ELEMENTARY, "half_e), y) * post;", "half_e), y);", "norms/add_subnormal_eps1_T1"),
    ("out is rounded toward zero", MEMORY, "b + 0x7fffu + (b >> 16 & 1u) >> 16", "b >> 16", "types/gates_f32_out_bf16_T3_scalar_vk"),
]

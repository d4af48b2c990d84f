"""Writes model files and reads them back, over gguf-py."""
import gguf
import numpy as np

from models import convert, quantise


def sections(n):
    """How many of n = n_rot / 2 frequencies are of time, height and width, which take turns; and none of a fourth."""
    return [(n + 2) // 3, (n + 1) // 3, n // 3, 0]


def scaling(rope):
    """Keys of RoPE scaling, as llama.cpp's converter writes them."""
    kind = rope.get("rope_type", "default")
    if kind == "default":
        return []
    pairs = [("rope.scaling.type", kind), ("rope.scaling.factor", float(rope["factor"]))]
    names = {"original_max_position_embeddings": ("original_context_length", int), "attention_factor": ("yarn_attn_factor", float),
             "beta_fast": ("yarn_beta_fast", float), "beta_slow": ("yarn_beta_slow", float)}
    return pairs + [(f"rope.scaling.{b}", of(rope[a])) for a, (b, of) in names.items() if rope.get(a) is not None]


def hyperparameters(config, n_mtp, context):
    """[(key without architecture, value)]"""
    rope = config.rope_parameters
    nk, nv, d = convert.heads(config)
    kinds = [kind == "full_attention" for kind in config.layer_types]
    interval = kinds.index(True) + 1 if True in kinds else len(kinds) + 1
    regular = kinds == [(i + 1) % interval == 0 for i in range(len(kinds))]
    n_rot = int(config.head_dim * rope["partial_rotary_factor"])
    pairs = [("vocab_size", config.vocab_size), ("context_length", context),
             ("block_count", config.num_hidden_layers + n_mtp), ("embedding_length", config.hidden_size),
             ("attention.head_count", config.num_attention_heads),
             ("attention.head_count_kv", config.num_key_value_heads), ("attention.key_length", config.head_dim),
             ("attention.value_length", config.head_dim),
             ("attention.layer_norm_rms_epsilon", float(config.rms_norm_eps)), ("rope.dimension_count", n_rot),
             ("rope.freq_base", float(rope["rope_theta"])), ("ssm.conv_kernel", config.linear_conv_kernel_dim),
             ("ssm.state_size", config.linear_key_head_dim), ("ssm.group_count", nk), ("ssm.time_step_rank", nv), ("ssm.inner_size", nv * d)]
    pairs.append(("full_attention_interval", interval) if regular else ("attention.recurrent_layers", [not kind for kind in kinds]))
    pairs += scaling(rope)
    if convert.arch_of(config) != "qwen3next":
        pairs.append(("rope.dimension_sections", sections(n_rot // 2)))
    if n_mtp:
        pairs.append(("nextn_predict_layers", n_mtp))
    if hasattr(config, "num_experts"):
        pairs += [("expert_count", config.num_experts), ("expert_used_count", config.num_experts_per_tok),
                  ("expert_feed_forward_length", config.moe_intermediate_size),
                  ("expert_shared_feed_forward_length", config.shared_expert_intermediate_size)]
        if not getattr(config, "norm_topk_prob", True):
            pairs.append(("expert_weights_norm", False))
    else:
        pairs.append(("feed_forward_length", config.intermediate_size))
    return pairs


def tokenizer_pairs(tokens, types, merges, end):
    return [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "qwen2"), ("tokenizer.ggml.tokens", tokens),
            ("tokenizer.ggml.token_type", types), ("tokenizer.ggml.merges", merges),
            ("tokenizer.ggml.eos_token_id", end), ("tokenizer.ggml.padding_token_id", tokens.index("<|endoftext|>")),
            ("tokenizer.ggml.add_bos_token", False)]


def open_writer(path, arch, name, pairs):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name)
    for key, value in pairs:
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string,
               list: writer.add_array}[type(value)]
        add(key if key.startswith("tokenizer.") else f"{arch}.{key}", value)
    return writer


def add(writer, name, x, kind):
    data = quantise.encode(x, kind)
    writer.add_tensor(name, data, raw_dtype=None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(path, config, tensors, kind_of, name, tokenizer, context):
    """tensors: {GGUF name: float32}; kind_of(name, array) gives the type's name."""
    arch, n_mtp = convert.arch_of(config), int(any("nextn" in t for t in tensors))
    writer = open_writer(path, arch, name, [*hyperparameters(config, n_mtp, context), *tokenizer])
    for key, x in tensors.items():
        add(writer, key, x, kind_of(key, x))
    finish(writer)


def read(path):
    """{GGUF name: float32 array}, dequantised."""
    out = {}
    for t in gguf.GGUFReader(path).tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        out[t.name] = np.array(quantise.decode(t.data, t.tensor_type.name)).reshape(shape)
    return out

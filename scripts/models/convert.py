"""Weights of HF's Qwen3_5, Qwen3_5Moe and Qwen3Next text classes to GGUF tensors, and back.

Names and transforms are those of llama.cpp's converter: +1 on norm weights but ssm_norm, and -exp(A_log). Value heads of
qwen35 and qwen35moe change from grouped (i*r + j) to tiled (j*nk + i) order. qwen3next's in_proj_qkvz is split.
Arrays are numpy, so a GGUF ne = {a, b} is an array of shape (b, a). mtp.* are the names of the published checkpoints;
HF's classes have no such modules.
"""
import numpy as np

ARCHES = {"qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "qwen3_next": "qwen3next"}


def arch_of(config):
    return ARCHES[config.model_type]


def heads(config):
    return config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim


def tile(x, config, width, axis=0, back=False):
    """Value heads along an axis, `width` elements each, from grouped to tiled order or back."""
    nk, nv, _ = heads(config)
    x = np.moveaxis(x, axis, 0)
    first, second = (nv // nk, nk) if back else (nk, nv // nk)
    y = x.reshape(first, second, width, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return np.ascontiguousarray(np.moveaxis(y, 0, axis))


def tile_v_rows(x, config, back=False):
    """Only the V rows of [q | k | v]."""
    nk, _, d = heads(config)
    at = 2 * nk * config.linear_key_head_dim
    return np.concatenate([x[:at], tile(x[at:], config, d, back=back)])


def split_qkvz(x, config):
    """qwen3next's in_proj_qkvz, per key head [q | k | v x r | z x r], to ([q | k | v], z)."""
    nk, nv, dv = heads(config)
    dk, r = config.linear_key_head_dim, nv // nk
    q, k, v, z = np.split(x.reshape(nk, 2 * dk + 2 * r * dv, -1), np.cumsum([dk, dk, r * dv]), axis=1)
    return np.concatenate([y.reshape(-1, x.shape[1]) for y in (q, k, v)]), z.reshape(-1, x.shape[1])


def join_qkvz(qkv, z, config):
    nk, nv, dv = heads(config)
    dk, r = config.linear_key_head_dim, nv // nk
    q, k, v = np.split(qkv, np.cumsum([nk * dk, nk * dk]))
    parts = [y.reshape(nk, -1, qkv.shape[1]) for y in (q, k, v, z)]
    return np.concatenate(parts, axis=1).reshape(-1, qkv.shape[1])


def plain_names(config, hf, gguf, full):
    """[(HF name, GGUF name, offset)] of what is only renamed, of one layer."""
    names = [(f"{hf}.input_layernorm.weight", f"{gguf}.attn_norm.weight", 1),
             (f"{hf}.post_attention_layernorm.weight", f"{gguf}.post_attention_norm.weight", 1)]
    if full:
        names += [(f"{hf}.self_attn.{a}_proj.weight", f"{gguf}.attn_{b}.weight", 0)
                  for a, b in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output"))]
        names += [(f"{hf}.self_attn.{a}_norm.weight", f"{gguf}.attn_{a}_norm.weight", 1) for a in "qk"]
        if config.attention_bias:
            names += [(f"{hf}.self_attn.{a}_proj.bias", f"{gguf}.attn_{b}.bias", 0)
                      for a, b in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output"))]
    else:
        names.append((f"{hf}.linear_attn.norm.weight", f"{gguf}.ssm_norm.weight", 0))
    if hasattr(config, "num_experts"):
        names.append((f"{hf}.mlp.gate.weight", f"{gguf}.ffn_gate_inp.weight", 0))
        names += [(f"{hf}.mlp.shared_expert.{a}_proj.weight", f"{gguf}.ffn_{a}_shexp.weight", 0)
                  for a in ("gate", "up", "down")]
        names.append((f"{hf}.mlp.experts.down_proj", f"{gguf}.ffn_down_exps.weight", 0))
    else:
        names += [(f"{hf}.mlp.{a}_proj.weight", f"{gguf}.ffn_{a}.weight", 0) for a in ("gate", "up", "down")]
    return names


def blocks(config, mtp):
    """[(HF prefix, GGUF prefix, full attention)]"""
    n = config.num_hidden_layers
    found = [(f"model.layers.{i}", f"blk.{i}", kind == "full_attention") for i, kind in enumerate(config.layer_types)]
    return found + ([("mtp.layers.0", f"blk.{n}", True)] if mtp else [])


def outer_names(config, mtp, tied):
    names = [("model.embed_tokens.weight", "token_embd.weight", 0), ("model.norm.weight", "output_norm.weight", 1)]
    if not tied:
        names.append(("lm_head.weight", "output.weight", 0))
    if mtp:
        at = f"blk.{config.num_hidden_layers}.nextn"
        names += [("mtp.fc.weight", f"{at}.eh_proj.weight", 0),
                  ("mtp.pre_fc_norm_embedding.weight", f"{at}.enorm.weight", 1),
                  ("mtp.pre_fc_norm_hidden.weight", f"{at}.hnorm.weight", 1),
                  ("mtp.norm.weight", f"{at}.shared_head_norm.weight", 1)]
    return names


def to_gguf(config, w):
    """{GGUF name: float32 array} of {HF name: float32 array}."""
    mtp, tiled = "mtp.fc.weight" in w, arch_of(config) != "qwen3next"
    nv, d = heads(config)[1:]
    out = {}
    for hf, gguf, offset in outer_names(config, mtp, config.tie_word_embeddings):
        out[gguf] = w[hf] + np.float32(offset)
    for hf, gguf, full in blocks(config, mtp):
        for a, b, offset in plain_names(config, hf, gguf, full):
            out[b] = w[a] + np.float32(offset)
        if hasattr(config, "num_experts"):
            out[f"{gguf}.ffn_gate_inp_shexp.weight"] = w[f"{hf}.mlp.shared_expert_gate.weight"].reshape(-1)
            gate, up = np.split(w[f"{hf}.mlp.experts.gate_up_proj"], 2, axis=1)
            out[f"{gguf}.ffn_gate_exps.weight"], out[f"{gguf}.ffn_up_exps.weight"] = gate, up
        if full:
            continue
        at = f"{hf}.linear_attn"
        conv, dt = w[f"{at}.conv1d.weight"][:, 0], w[f"{at}.dt_bias"]
        decay, result = -np.exp(w[f"{at}.A_log"]), w[f"{at}.out_proj.weight"]
        if tiled:
            qkv, z = tile_v_rows(w[f"{at}.in_proj_qkv.weight"], config), tile(w[f"{at}.in_proj_z.weight"], config, d)
            out[f"{gguf}.ssm_beta.weight"] = tile(w[f"{at}.in_proj_b.weight"], config, 1)
            out[f"{gguf}.ssm_alpha.weight"] = tile(w[f"{at}.in_proj_a.weight"], config, 1)
            conv, dt, decay = tile_v_rows(conv, config), tile(dt, config, 1), tile(decay, config, 1)
            result = tile(result, config, d, axis=1)
        else:
            qkv, z = split_qkvz(w[f"{at}.in_proj_qkvz.weight"], config)
            out[f"{gguf}.ssm_ba.weight"] = w[f"{at}.in_proj_ba.weight"]
        for name, x in (("attn_qkv.weight", qkv), ("attn_gate.weight", z), ("ssm_conv1d.weight", conv),
                        ("ssm_dt.bias", dt), ("ssm_a", decay), ("ssm_out.weight", result)):
            out[f"{gguf}.{name}"] = x
    return {name: np.ascontiguousarray(x, np.float32) for name, x in out.items()}


def from_gguf(config, t):
    """The inverse of to_gguf. Norms lose the last bits that +1 cost them."""
    mtp, tiled = any("nextn" in name for name in t), arch_of(config) != "qwen3next"
    nv, d = heads(config)[1:]
    out = {}
    for hf, gguf, offset in outer_names(config, mtp, "output.weight" not in t):
        out[hf] = t[gguf] - np.float32(offset)
    for hf, gguf, full in blocks(config, mtp):
        for a, b, offset in plain_names(config, hf, gguf, full):
            out[a] = t[b] - np.float32(offset)
        if hasattr(config, "num_experts"):
            out[f"{hf}.mlp.shared_expert_gate.weight"] = t[f"{gguf}.ffn_gate_inp_shexp.weight"].reshape(1, -1)
            out[f"{hf}.mlp.experts.gate_up_proj"] = np.concatenate(
                [t[f"{gguf}.ffn_gate_exps.weight"], t[f"{gguf}.ffn_up_exps.weight"]], axis=1)
        if full:
            continue
        at = f"{hf}.linear_attn"
        qkv, z, conv, dt, decay, result = (t[f"{gguf}.{name}"] for name in (
            "attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a", "ssm_out.weight"))
        if tiled:
            qkv, z = tile_v_rows(qkv, config, True), tile(z, config, d, back=True)
            out[f"{at}.in_proj_qkv.weight"], out[f"{at}.in_proj_z.weight"] = qkv, z
            out[f"{at}.in_proj_b.weight"] = tile(t[f"{gguf}.ssm_beta.weight"], config, 1, back=True)
            out[f"{at}.in_proj_a.weight"] = tile(t[f"{gguf}.ssm_alpha.weight"], config, 1, back=True)
            conv = tile_v_rows(conv, config, True)
            dt, decay = tile(dt, config, 1, back=True), tile(decay, config, 1, back=True)
            result = tile(result, config, d, axis=1, back=True)
        else:
            out[f"{at}.in_proj_qkvz.weight"] = join_qkvz(qkv, z, config)
            out[f"{at}.in_proj_ba.weight"] = t[f"{gguf}.ssm_ba.weight"]
        out[f"{at}.conv1d.weight"], out[f"{at}.dt_bias"] = conv[:, None], dt
        out[f"{at}.A_log"], out[f"{at}.out_proj.weight"] = np.log(-decay), result
    return {name: np.ascontiguousarray(x, np.float32) for name, x in out.items()}

"""HF's own text classes as the oracle: models by architecture, and the MTP block built from their parts.

HF ignores mtp.*, so the block is built here from HF's decoder layer, its norms and a linear layer.

    u = fc [norm(embed(x_p)) ; norm(h_{p-1})], one full-attention layer at position p, h' = norm(u), logits = head h'

h is the trunk's hidden state after its last norm, and zeros for h_{-1}. The next draft step reads h' and the drafted token.
"""
import copy
import logging
import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
logging.disable(logging.WARNING)

import numpy as np
import torch
from torch import nn
from transformers import Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as moe
from transformers.models.qwen3_next import modeling_qwen3_next as following

CLASSES = {"qwen35": (Qwen3_5TextConfig, dense, "Qwen3_5"), "qwen35moe": (Qwen3_5MoeTextConfig, moe, "Qwen3_5Moe"),
           "qwen3next": (Qwen3NextConfig, following, "Qwen3Next")}


def make_config(arch, n_rot_sections=None, rope_base=10000.0, **shape):
    rope = dict(rope_type="default", rope_theta=rope_base, partial_rotary_factor=0.25)
    if arch != "qwen3next":
        rope.update(mrope_section=n_rot_sections, mrope_interleaved=True)
    config = CLASSES[arch][0](rope_parameters=rope, tie_word_embeddings=shape.pop("tied", True), **shape)
    config._attn_implementation = "eager"
    return config


def make_model(arch, config):
    _, module, prefix = CLASSES[arch]
    return getattr(module, prefix + "ForCausalLM")(config).eval()


class Mtp(nn.Module):
    def __init__(self, arch, config):
        super().__init__()
        _, module, prefix = CLASSES[arch]
        own = copy.deepcopy(config)
        own.num_hidden_layers, own.layer_types = 1, ["full_attention"]
        self.config, e = own, config.hidden_size
        norm = getattr(module, prefix + "RMSNorm")
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (norm(e, eps=config.rms_norm_eps)
                                                                          for _ in range(3))
        self.fc = nn.Linear(2 * e, e, bias=False)
        self.layers = nn.ModuleList([getattr(module, prefix + "DecoderLayer")(own, 0)])

    def forward(self, trunk, tokens, before, first=0, cache=None):
        """Rows tokens [b, n] at positions first.., before [b, n, E]: the hidden state that belongs to each. h' [b, n, E]."""
        n = tokens.shape[1]
        position = torch.arange(first, first + n)[None]
        embedded = trunk.model.embed_tokens(tokens)
        u = self.fc(torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(before)], -1))
        mask = torch.full((n, first + n), float("-inf")).triu(first + 1)[None, None]
        u = self.layers[0](u, position_embeddings=trunk.model.rotary_emb(u, position), attention_mask=mask,
                           position_ids=position, past_key_values=cache)
        return self.norm(u)

    def new_cache(self):
        return DynamicCache(config=self.config)


def random_weights(arch, config, seed, mtp=False, least=0.75, most=1.25):
    """{HF name: array}, in the order of the names. least, most: of matrices' sizes, about 0.4 at hidden size 64."""
    rng, out = np.random.default_rng(seed), {}
    shapes = {name: tuple(p.shape) for name, p in make_model(arch, config).named_parameters()}
    if mtp:
        shapes |= {"mtp." + name: tuple(p.shape) for name, p in Mtp(arch, config).named_parameters()}
    for name, shape in sorted(shapes.items()):
        if "A_log" in name:
            x = rng.uniform(-2, 1, shape)
        elif "dt_bias" in name or name.endswith(".bias"):
            x = rng.normal(0, 1, shape)
        elif "norm" in name and len(shape) == 1:
            x = rng.normal(0, 0.1, shape) + ("linear_attn.norm" in name)
        else:
            x = rng.normal(0, 3.2 / config.hidden_size ** 0.5 * rng.uniform(least, most), shape)
        out[name] = x.astype(np.float32)
    return out


def load(arch, config, weights):
    """(trunk, MTP block or None) with the weights of a {HF name: array}."""
    tensors = {name: torch.tensor(x) for name, x in weights.items()}
    trunk, mtp = make_model(arch, config), None
    rest = {name: x for name, x in tensors.items() if not name.startswith("mtp.")}
    missing, unexpected = trunk.load_state_dict(rest, strict=False)
    missing = [name for name in missing if not (name == "lm_head.weight" and config.tie_word_embeddings)]
    if missing or unexpected:
        raise ValueError(f"weights missing {missing}, unexpected {unexpected}")
    if len(rest) < len(tensors):
        mtp = Mtp(arch, config).eval()
        mtp.load_state_dict({name[4:]: x for name, x in tensors.items() if name.startswith("mtp.")})
    return trunk, mtp


def watch_router_gaps(*modules):
    """A list that fills, as the modules run, with the smallest gap, in logits, between the
    last expert chosen and the next."""
    gaps = []

    def note(router, inputs, outputs):
        p = outputs[0].sort(descending=True).values
        gaps.append((p[..., router.top_k - 1] - p[..., router.top_k]).min().item())

    for module in modules:
        for part in module.modules() if module is not None else ():
            if type(part).__name__.endswith("TopKRouter"):
                part.register_forward_hook(note)
    return gaps


@torch.no_grad()
def run_trunk(trunk, tokens, n_prompt):
    """A prompt in one call, then token by token over HF's cache.
    (logits [n, V], hidden states after each layer [layers, n, E], hidden state after the last norm [n, E])"""
    caught = [[] for _ in trunk.model.layers]
    hooks = [layer.register_forward_hook(lambda m, a, y, to=to: to.append(y[0] if y.ndim == 3 else y))
             for layer, to in zip(trunk.model.layers, caught)]
    cache, logits, final = DynamicCache(config=trunk.config), [], []
    for part in (tokens[:n_prompt], *tokens[n_prompt:].split(1)):
        if len(part):
            out = trunk.model(part[None], past_key_values=cache, use_cache=True)
            final.append(out.last_hidden_state[0])
            logits.append(trunk.lm_head(final[-1]))
    for hook in hooks:
        hook.remove()
    return torch.cat(logits), torch.stack([torch.cat(rows) for rows in caught]), torch.cat(final)


@torch.no_grad()
def run_mtp(trunk, mtp, tokens, final, starts, depth):
    """Logits [n, V] and h' [n, E] of the first draft step at every position, and what is drafted at each position in
    starts. That is tokens [s, depth], chosen greedily, their logits [s, depth, V], and their h' [s, depth, E]."""
    before = torch.cat([torch.zeros_like(final[:1]), final[:-1]])
    cache, hidden, drafts = mtp.new_cache(), [], {}
    for p in range(len(tokens)):
        hidden.append(mtp(trunk, tokens[None, p:p + 1], before[None, p:p + 1], p, cache)[0])
        if p in starts:
            own, h, rows = copy.deepcopy(cache), hidden[-1], []
            for step in range(depth):
                logits = trunk.lm_head(h)
                rows.append((logits.argmax(-1), logits, h))
                if step + 1 < depth:
                    h = mtp(trunk, rows[-1][0][None], h[None], p + 1 + step, own)[0]
            drafts[p] = [torch.cat(column) for column in zip(*rows)]
    hidden = torch.cat(hidden)
    return trunk.lm_head(hidden), hidden, [torch.stack([drafts[p][i] for p in starts]) for i in range(3)]

"""gdn.vllm in single layers of vLLM, beside transformers: Kimi-Linear, GLM-5.3-Flash and Ling-3.0, whose models vLLM's CPU
package cannot run, and the others.

    python -m unittest test_layers      with a vLLM for the CPU, transformers and gdn installed or in PYTHONPATH

Random steps mix prompts, pieces of prompts, single tokens and drafts of several sequences, in random slots, which hold NaN before.
What a sequence gets for its tokens is what transformers' layer gives for the whole sequence. In the chunked form the rule's outputs have
the bits of one call with the whole sequence alone. Slots are copied there between steps, as vLLM does with a prefix cache."""
import contextlib
import copy
import itertools
import os
import random
import tempfile
import threading
import types
import unittest
import unittest.mock

os.environ.update(VLLM_PLUGINS="gdn", VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", VLLM_CPU_OMP_THREADS_BIND="nobind")

import numpy
import torch
import transformers
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextLinearAttention
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

import gdn.vllm
from gdn import _vllm_align, _vllm_chunked

gdn.vllm.register()

from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.forward_context import set_forward_context
from vllm.model_executor.model_loader.utils import process_weights_after_loading
from vllm.v1.attention.backends.gdn_attn import GDNAttentionMetadata

HIDDEN, HEADS, DIM, DRAFTS, SLOTS = 128, 2, 128, 3, 40
SEED = int(os.environ.get("GDN_SEED", "1"))
scratch = tempfile.TemporaryDirectory()


def setUpModule():
    global vllm_config
    shape = transformers.Qwen3NextConfig(
        vocab_size=8, hidden_size=HIDDEN, intermediate_size=128, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, head_dim=64,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=64, shared_expert_intermediate_size=64, max_position_embeddings=1024)
    transformers.Qwen3NextForCausalLM(shape).save_pretrained(scratch.name)
    vllm_config = EngineArgs(model=scratch.name, skip_tokenizer_init=True, dtype="float32", max_model_len=512, enforce_eager=True).create_engine_config()
    init_distributed_environment(1, 0, f"file://{scratch.name}/store", 0, "gloo")
    with set_current_vllm_config(vllm_config):
        initialize_model_parallel(1)


@contextlib.contextmanager
def in_form(digits):
    """What register() does where GDN_VLLM_FORM chooses this number of digits."""
    from vllm.model_executor.layers.mamba import mamba_utils
    with contextlib.ExitStack() as stack:
        for of in ("Shape", "Dtype"):
            calculator = getattr(mamba_utils, f"MambaState{of}Calculator")
            for name in (f"gated_delta_net_state_{of.lower()}", f"kda_state_{of.lower()}"):
                stack.enter_context(unittest.mock.patch.object(calculator, name, getattr(calculator, name)))
        stack.enter_context(unittest.mock.patch.object(gdn.vllm, "_digits", digits))
        stack.enter_context(unittest.mock.patch.object(_vllm_align, "_moving", not digits))
        if digits:
            _vllm_chunked.register(digits)
        yield


def randomize(layer):
    """Weights of a size that gives gates and outputs of every size. The layer itself."""
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            weight.copy_(torch.randn(weight.shape) * (0.5 if "conv" in name else 1.0 if weight.ndim < 2 or "A_log" in name else 0.15))
    return layer.eval()


def load(layer, theirs):
    """Give vLLM's layer the weights: (its parameter, the weight, the shard or None)."""
    loaded = set()
    for name, weight, *shard in theirs:
        parameter = layer.get_parameter(name)
        loader = getattr(parameter, "weight_loader", None)
        if loader is None:
            parameter.data.copy_(weight.reshape(parameter.shape))
        else:
            loader(parameter, weight.detach().clone(), *shard)
        loaded.add(name)
    left = {name for name, _ in layer.named_parameters()} - loaded
    assert not left, left


class Layer:
    """A layer of vLLM with pools of its own, and the one of transformers with the same weights."""

    def __init__(self, prefix, make, theirs, weights, call):
        with set_current_vllm_config(vllm_config):
            self.layer = make(f"model.layers.{prefix}.attention")
        self.theirs, self.call = theirs, call
        load(self.layer, weights(theirs))
        process_weights_after_loading(self.layer, vllm_config.model_config, torch.device("cpu"))
        self.layer.num_spec = self.layer.num_speculative_tokens = DRAFTS
        self.layer.kv_cache = tuple(torch.full((SLOTS, *shape), float("nan")) for shape in self.layer.get_state_shape())

    def wanted(self, x):
        with torch.no_grad():
            return self.theirs(x.unsqueeze(0))[0]

    def step(self, x, meta):
        with torch.no_grad(), set_current_vllm_config(vllm_config), set_forward_context({self.layer.prefix: meta}, vllm_config):
            return self.call(self.layer, x)


def qwen(prefix):
    from vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn import QwenGatedDeltaNetAttention
    config = vllm_config.model_config.hf_config
    theirs = randomize(Qwen3NextGatedDeltaNet(config, 0))

    def weights(t):
        yield "in_proj_qkvz.weight", t.in_proj_qkvz.weight
        yield "in_proj_ba.weight", t.in_proj_ba.weight
        yield from (("conv1d.weight", t.conv1d.weight), ("A_log", t.A_log), ("dt_bias", t.dt_bias), ("norm.weight", t.norm.weight), ("out_proj.weight", t.out_proj.weight))
    return Layer(prefix, lambda name: QwenGatedDeltaNetAttention(config, vllm_config, name, gqa_interleaved_layout=True), theirs, weights, lambda layer, x: layer(x))


def olmo(prefix):
    from vllm.model_executor.layers.mamba.gdn.olmo_gdn_linear_attn import OlmoHybridGatedDeltaNetAttention
    config = transformers.OlmoHybridConfig(hidden_size=HIDDEN, num_hidden_layers=4, linear_num_key_heads=HEADS, linear_num_value_heads=HEADS,
                                           linear_key_head_dim=96, linear_value_head_dim=192)
    theirs = randomize(OlmoHybridGatedDeltaNet(config, 0))

    def weights(t):
        for shard, name in enumerate("qkvg"):
            yield "in_proj_qkvg.weight", getattr(t, f"{name}_proj").weight, shard
        for shard, part in enumerate(t.conv1d.weight.split((192, 192, 384))):
            yield "conv1d.weight", part, shard
        yield from ((f"{name}.weight", getattr(t, name).weight) for name in ("a_proj", "b_proj", "o_norm", "o_proj"))
        yield from (("A_log", t.A_log), ("dt_bias", t.dt_bias))

    def call(layer, x):
        out = torch.empty_like(x)
        layer(x, out)
        return out
    return Layer(prefix, lambda name: OlmoHybridGatedDeltaNetAttention(config, vllm_config, name), theirs, weights, call)


def kimi(prefix):
    from vllm.model_executor.layers.mamba.gdn.kimi_gdn_linear_attn import KimiGatedDeltaNetAttention
    from vllm.transformers_utils.configs.kimi_linear import KimiLinearConfig
    linear = {"kda_layers": [1], "full_attn_layers": [2], "head_dim": DIM, "num_heads": HEADS, "short_conv_kernel_size": 4}
    config = KimiLinearConfig(hidden_size=HIDDEN, linear_attn_config=linear, rms_norm_eps=1e-5)
    theirs = randomize(KimiLinearDeltaAttention(transformers.KimiLinearConfig(
        hidden_size=HIDDEN, linear_num_heads=HEADS, linear_head_dim=DIM, rms_norm_eps=1e-5, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"]), 0))

    def weights(t):
        for shard, of in enumerate((t.q_proj, t.k_proj, t.v_proj, t.b_proj, t.forget_gate.f_a_proj)):
            yield "in_proj_qkvgfab.weight", of.weight, shard
        for shard, part in enumerate(t.conv1d.weight.chunk(3)):
            yield "conv1d.weight", part, shard
        yield from ((f"{name}.weight", getattr(t, name).weight) for name in ("g_a_proj", "g_b_proj", "o_norm", "o_proj"))
        yield from (("f_b_proj.weight", t.forget_gate.f_b_proj.weight), ("A_log", t.forget_gate.A_log), ("dt_bias", t.forget_gate.dt_bias))
    return Layer(prefix, lambda name: KimiGatedDeltaNetAttention(config, vllm_config, name), theirs, weights, lambda layer, x: layer(x, None))


def glm(prefix):
    from vllm.models.glm5next.common.kda import Glm5NextLinearAttention
    config = transformers.Glm5NextTextConfig(hidden_size=HIDDEN, linear_num_heads=HEADS, linear_head_dim=DIM, linear_lower_bound=-5.0)
    theirs = randomize(Glm5NextTextLinearAttention(config, 0))

    def weights(t):
        for shard, of in enumerate((t.q_proj, t.k_proj, t.v_proj, t.b_proj, t.forget_gate.f_a_proj, t.g_a_proj)):
            yield "in_proj_qkvbfg_a.weight", of.weight, shard
        for name, part in zip("qkv", t.conv1d.weight.chunk(3)):
            yield f"{name}_conv1d.weight", part
        yield from ((f"{name}.weight", getattr(t, name).weight) for name in ("g_b_proj", "o_norm", "o_proj"))
        yield from (("f_b_proj.weight", t.forget_gate.f_b_proj.weight), ("A_log", t.forget_gate.A_log), ("dt_bias", t.forget_gate.dt_bias))
    return Layer(prefix, lambda name: Glm5NextLinearAttention(config, vllm_config, name), theirs, weights, lambda layer, x: layer(x, None))


def ling(prefix):
    """Transformers' layer of GLM is Ling's where the first of two projections is the identity."""
    from vllm.model_executor.models.bailing_moe_v3 import BailingMoeV3KimiDeltaAttention
    config = transformers.PreTrainedConfig()
    config.update({"hidden_size": HIDDEN, "head_dim": DIM, "num_attention_heads": HEADS, "short_conv_kernel_size": 4, "no_kda_lora": True,
                   "kda_lower_bound": -4.0, "rms_norm_eps": 1e-6})
    theirs = randomize(Glm5NextTextLinearAttention(transformers.Glm5NextTextConfig(
        hidden_size=HIDDEN, linear_num_heads=HEADS, linear_head_dim=DIM, linear_lower_bound=-4.0, rms_norm_eps=1e-6), 0))
    with torch.no_grad():
        theirs.g_a_proj.weight.copy_(torch.eye(HIDDEN))
        theirs.forget_gate.f_a_proj.weight.copy_(torch.eye(HIDDEN))

    def weights(t):
        for shard, of in enumerate((t.q_proj, t.k_proj, t.v_proj, t.b_proj)):
            yield "qkvb_proj.weight", of.weight, shard
        for name, part in zip("qkv", t.conv1d.weight.chunk(3)):
            yield f"{name}_conv1d.weight", part
        yield from (("g_proj.weight", t.g_b_proj.weight), ("o_norm.weight", t.o_norm.weight), ("o_proj.weight", t.o_proj.weight))
        yield from (("f_proj.weight", t.forget_gate.f_b_proj.weight), ("A_log", t.forget_gate.A_log), ("dt_bias", t.forget_gate.dt_bias))

    def call(layer, x):
        out = torch.empty_like(x)
        layer(x, None, out)
        return out
    return Layer(prefix, lambda name: BailingMoeV3KimiDeltaAttention(
        config, prefix=name, model_config=vllm_config.model_config, cache_config=vllm_config.cache_config), theirs, weights, call)


class Padding:
    """What a CUDA graph has in place of a sequence."""

    x, at, accepted, slots = torch.zeros(0, HIDDEN), 1, 0, [0] * (1 + DRAFTS)


class Sequence:
    def __init__(self, layer, n, free):
        self.x = torch.randn(n, HIDDEN)
        self.wanted = layer.wanted(self.x)
        self.at = 0  # tokens that the layer's states have
        self.slots = [free.pop() for _ in range(1 + DRAFTS)]
        for pool in layer.layer.kv_cache:
            pool[self.slots] = float("nan")
        self.accepted = 0  # tokens of the last step with drafts, which the next one of that kind starts behind
        self.seen = []  # what the rule had for its tokens: x, g, beta and out of each step

    def left(self):
        return len(self.x) - self.at

    def fork(self, tokens, free):
        """The sequence from `tokens` tokens on, whose state a checkpoint leaves in its first slot."""
        other = copy.copy(self)
        other.at, other.slots, other.accepted = self.at + tokens, [free.pop() for _ in range(1 + DRAFTS)], 0
        other.seen = list(self.seen)
        return other

    def move(self, layer, free):
        """Copy its slot to another one, as vLLM does where a sequence comes to another block of the prefix cache."""
        old, new = self.slots[0], free.pop()
        for pool in layer.layer.kv_cache:
            pool[new], pool[old] = pool[old].clone(), float("nan")
        self.slots[0] = new
        free.append(old)


def is_prompt(sequence, tokens, single):
    """True if a row without drafts is in the step's prompts; `single`: one token is not, though nothing is before it."""
    return tokens > 1 or (sequence.at == 0 and not single)


def metadata(drafted, others, token_order, single=False, forks=None):
    """A step's metadata as vLLM builds it: lists of (sequence, tokens). `forks` begin at checkpoints: {id of a sequence: its fork}."""
    def starts(parts):
        return torch.tensor([0, *torch.tensor([n for _, n in parts]).cumsum(0).tolist()] if parts else [0], dtype=torch.int32)
    decodes = sum(not is_prompt(s, n, single) for s, n in others) if not drafted else 0
    tokens = sum(n for _, n in drafted + others)
    is_drafted = torch.tensor(token_order, dtype=torch.bool)
    made = GDNAttentionMetadata(
        num_prefills=len(others) - decodes, num_prefill_tokens=sum(n for _, n in others) - decodes, num_decodes=decodes, num_decode_tokens=decodes,
        num_spec_decodes=len(drafted), num_spec_decode_tokens=sum(n for _, n in drafted), num_actual_tokens=tokens,
        has_initial_state=torch.tensor([s.at > 0 for s, _ in others]) if len(others) > decodes else None,
        spec_query_start_loc=starts(drafted) if drafted else None, non_spec_query_start_loc=starts(others) if others else None,
        spec_state_indices_tensor=torch.tensor([s.slots for s, _ in drafted], dtype=torch.int32) if drafted else None,
        non_spec_state_indices_tensor=torch.tensor([s.slots[0] for s, _ in others], dtype=torch.int32) if others else None,
        spec_sequence_masks=torch.tensor([True] * len(drafted) + [False] * len(others)) if drafted else None,
        spec_token_indx=is_drafted.nonzero().flatten() if drafted else None, non_spec_token_indx=(~is_drafted).nonzero().flatten() if drafted else None,
        num_accepted_tokens=torch.tensor([max(s.accepted, 1) for s, _ in drafted], dtype=torch.int32) if drafted else None)
    if forks:
        kept = [(forks[id(s)].at - s.at, forks[id(s)].slots[0]) if id(s) in forks else (0, 0) for s, _ in others]
        made.checkpoint = types.SimpleNamespace(checkpoint_offsets=torch.tensor([tokens for tokens, _ in kept], dtype=torch.int32),
                                                state_indices=torch.tensor([slot for _, slot in kept], dtype=torch.int32))
    made.gdn_position = tuple(torch.tensor([s.at for s, _ in rows], dtype=torch.int32) for rows in (drafted, others))
    return made


def alone(layer, digits, seen):
    """The rule's outputs for a sequence from its first token, in one call without others."""
    (x, g, beta), heads_k, gates = (torch.cat(parts).numpy() for parts in list(zip(*seen))[:3]), *seen[0][4:]
    heads, dim_v = seen[0][3].shape[1:]
    dim_k = (x.shape[1] - heads * dim_v) // (2 * heads_k)
    q, k, v = (part.reshape(len(x), -1, dim) for part, dim in zip(numpy.split(x, (heads_k * dim_k, 2 * heads_k * dim_k), 1), (dim_k, dim_k, dim_v)))
    entry = heads_k * dim_k + heads * (dim_v + (dim_k if g.ndim == 3 else 1))
    return gdn.gated_delta_net(
        q, k, v, g, beta, numpy.zeros((1, heads, dim_v * (digits * dim_k + 4)), numpy.uint8), state_src=[gdn.NONE], digits=digits, position=[0],
        log=numpy.zeros((1, 32, entry), numpy.float32), ssm_a=layer.A_log.detach().flatten().numpy(), dt_bias=layer.dt_bias.detach().view(g.shape[1:]).numpy(),
        **{"qk_norm": "add", "qk_norm_eps": 1e-6, "beta_input": "logit", **gates})


class Layers(unittest.TestCase):
    def run_steps(self, make, rounds=40):
        self.run_form(make, 0, rounds)
        for digits in (2, 3):
            with self.subTest(digits=digits), in_form(digits):
                self.run_form(make, digits, rounds // 5)

    def run_form(self, make, digits, rounds):
        draw = random.Random(SEED)
        torch.manual_seed(SEED)
        layer = make(f"{digits}.{make.__name__}")
        most = {0: 2e-4, 2: 2e-2, 3: 5e-4}[digits]
        given = []

        def rule(layer, step, x, g, beta, out, heads_k, gates, rule=gdn.vllm._rule):
            rule(layer, step, x, g, beta, out, heads_k, gates)
            given[:] = [step.maps["seq_start"].tolist(), *(one.clone() for one in (x, g, beta, out)), heads_k, gates]

        with unittest.mock.patch.object(gdn.vllm, "_rule", rule):
            self.run_rounds(draw, layer, digits, rounds, most, given)

    def run_rounds(self, draw, layer, digits, rounds, most, given):
        mixed = first = forked = crossed = moved = 0
        for _ in range(rounds):
            free = list(range(1, SLOTS))
            draw.shuffle(free)
            waiting = [Sequence(layer, draw.choice((1, 5, 40, 70, 130) if digits else (1, 2, 5, 17, 40)), free) for _ in range(draw.randint(1, 6))]
            with_drafts = draw.random() < 0.7
            while waiting:
                chosen = draw.sample(waiting, draw.randint(1, len(waiting)))
                # As in vLLM, a sequence that has verified drafts stays one that does, also without a draft.
                # A prompt of one token can be a row with drafts.
                drafted = [(s, draw.randint(1, 1 + DRAFTS)) for s in chosen if with_drafts and (s.accepted or draw.random() < (0.5 if s.at else 0.2))]
                verifies = {id(s) for s, _ in drafted}
                for s in (s for s, _ in drafted if not s.at):
                    s.accepted, first = draw.randint(0, 1 + DRAFTS), first + 1  # of another request in this row
                others = [(s, min(s.left(), draw.choice((1, 1, 3, 64)))) for s in chosen if id(s) not in verifies]
                single = draw.random() < 0.5
                others.sort(key=lambda part: is_prompt(*part, single))  # single tokens come first
                mixed += bool(drafted and others)
                if not any(is_prompt(s, n, False) for s, n in others):
                    (others if others or not drafted else drafted).extend([(Padding(), 1)] * draw.randint(0, 2))
                    verifies = {id(s) for s, _ in drafted}
                parts = drafted + others
                if drafted and others:
                    draw.shuffle(parts)
                good = {id(s): draw.randint(1, min(n, s.left())) if s.x.numel() else 0 for s, n in drafted}
                # Behind the accepted tokens of a draft there are others.
                x = [torch.cat((s.x[s.at:s.at + good.get(id(s), n)], torch.randn(n, HIDDEN)))[:n] for s, n in parts]
                order = [id(s) in verifies for s, n in parts for _ in range(n)]
                drafted, others = ([part for part in parts if (id(part[0]) in verifies) == of] for of in (True, False))
                ends = {id(s): [t for t in range(1, n) if not digits or (s.at + t) % 32 == 0] for s, n in others}
                forks = {id(s): s.fork(draw.choice(ends[id(s)]), free) for s, n in others if ends[id(s)] and len(free) > DRAFTS and draw.random() < (0.6 if digits else 0.3)}
                out = layer.step(torch.cat((*x, torch.randn(draw.randint(0, 3), HIDDEN))), metadata(drafted, others, order, single, forks))
                if digits:
                    for (s, n), first_token in zip(drafted + others, given[0]):
                        part = slice(first_token, first_token + good.get(id(s), n))
                        if s.x.numel():
                            s.seen.append((*(one[part] for one in given[1:5]), *given[5:]))
                            crossed += id(s) in good and s.at // 32 < (s.at + good[id(s)]) // 32
                    for s, n in others:
                        if id(s) in forks:
                            other = forks[id(s)]
                            other.seen.append((*(one[:other.at - s.at] for one in s.seen[-1][:4]), *given[5:]))
                at = 0
                for s, n in parts:
                    if s.x.numel():
                        take = good.get(id(s), n)
                        wanted = s.wanted[s.at:s.at + take]
                        error = float((out[at:at + take] - wanted).abs().max() / s.wanted.abs().max())
                        self.assertLess(error, most, (s.at, n))
                        s.at, s.accepted = s.at + take, good.get(id(s), 0)
                    at += n
                for s in waiting + list(forks.values()) if digits else []:
                    if not s.left():
                        self.assertTrue(numpy.array_equal(torch.cat([out for _, _, _, out, *_ in s.seen]).numpy(), alone(layer.layer, digits, s.seen)), len(s.x))
                    elif s.at and free and draw.random() < 0.3:
                        s.move(layer, free)
                        moved += 1
                waiting = [s for s in waiting + list(forks.values()) if s.left()]
                forked += len(forks)
        self.assertGreater(min(mixed, first, forked, *((crossed, moved) if digits else ())), 0)

    def test_qwen(self):
        self.run_steps(qwen)

    def test_olmo(self):
        self.run_steps(olmo)

    def test_kimi(self):
        self.run_steps(kimi)

    def test_glm(self):
        self.run_steps(glm)

    def test_ling(self):
        self.run_steps(ling)


def same(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


class Pools(unittest.TestCase):
    def test_cuts(self):
        """Bits do not depend on how a prompt is cut, whatever the types of model and pools are."""
        torch.manual_seed(SEED)
        heads, values, dim = 1, 2, 32
        channels, types_of = 2 * heads * dim + values * dim, (torch.float32, torch.bfloat16, torch.float16)
        weight, a_log, dt_bias = torch.randn(channels, 4), torch.randn(values), torch.randn(values)
        for digits, model, windows, states in (*itertools.product((0,), types_of, types_of, types_of), *itertools.product((2, 3), types_of, types_of, (torch.float32,))):
            n_tokens = 75 if digits else 20
            size, entry = _vllm_chunked._sizes(heads, values, dim, dim, False, digits)
            shape = (size + 32 * entry + 4,) if digits else (values, dim, dim)
            x, g, beta = (torch.randn(n_tokens, n).to(model) for n in (channels, values, values))
            x[:, :8] *= 1e-7  # subnormal in float16
            results = []
            for cuts in ([n_tokens], [7, n_tokens - 7], [1] * n_tokens, [1, 2, 3, n_tokens - 6], [n_tokens - 11, 10, 1]):
                pools = (torch.full((3, 3, channels), float("nan"), dtype=windows), torch.full((3, *shape), float("nan"), dtype=states))
                layer = types.SimpleNamespace(prefix="l", kv_cache=pools, A_log=a_log, dt_bias=dt_bias)
                sequence, outs = types.SimpleNamespace(at=0, slots=[1]), []
                for n in cuts:
                    out, part = torch.zeros(n, values, dim, dtype=model), slice(sequence.at, sequence.at + n)
                    context = types.SimpleNamespace(attn_metadata={"l": metadata([], [(sequence, n)], [False] * n)})
                    with unittest.mock.patch("vllm.forward_context.get_forward_context", lambda: context), unittest.mock.patch.object(gdn.vllm, "_digits", digits):
                        gdn.vllm._attend(layer, x[part], g[part], beta[part], out, heads, weight, None, gate_input="raw_a_log")
                    outs.append(out)
                    sequence.at += n
                results.append((torch.cat(outs), pools[0][1], pools[1][1, :size] if digits else pools[1][1]))
            for result in results:
                self.assertTrue(all(same(*both) for both in zip(result, results[0])), (digits, model, windows, states))


class Steps(unittest.TestCase):
    def test_the_step_after(self):
        """What a step takes over from the one before are the maps that it would make."""
        draw, taken = random.Random(7), 0
        known = {"num_spec_decodes": 0, "spec_sequence_masks": None, "num_prefills": 0}

        def step(lengths, slots, positions, **more):
            start = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
            return types.SimpleNamespace(**known, num_decodes=len(slots), num_actual_tokens=sum(lengths), non_spec_query_start_loc=start,
                                         non_spec_state_indices_tensor=torch.tensor(slots, dtype=torch.int32),
                                         gdn_position=(torch.zeros(0, dtype=torch.int32), torch.tensor(positions)), **more)

        for _ in range(500):
            n = draw.randint(1, 3)
            lengths, slots, positions = ([draw.randint(low, 3) for _ in range(n)] for low in (1, 0, 0))
            before = gdn.vllm._Step(step(lengths, slots, positions))
            change = draw.choice(("nothing", "positions", "lengths", "slots", "rows", "checkpoint"))
            positions = [at + 1 for at in positions]
            more = {}
            if change == "positions":
                positions[draw.randrange(n)] = 0
            elif change == "lengths":
                lengths = draw.sample(lengths, n)
            elif change == "slots":
                slots = draw.sample(slots, n)
            elif change == "rows":
                lengths, slots, positions = lengths + [1], slots + [1], positions + [5]
            elif change == "checkpoint":
                more["checkpoint"] = types.SimpleNamespace(checkpoint_offsets=torch.ones(n, dtype=torch.int32), state_indices=torch.ones(n, dtype=torch.int32))
            meta = step(lengths, slots, positions, **more)
            after, whole = before.next(meta), gdn.vllm._Step(meta)
            if after is None:
                continue
            taken += 1
            self.assertEqual({name: x.tolist() for name, x in after.maps.items()}, {name: x.tolist() for name, x in whole.maps.items()}, change)
            self.assertEqual((after.n, after.tokens, after.interval, after.bases), (whole.n, whole.tokens, whole.interval, whole.bases))
        self.assertGreater(taken, 50)


class Unknown(unittest.TestCase):
    def test_metadata_of_another_maker(self):
        made = metadata([], [(Padding(), 1)], [False])
        del made.gdn_position
        with self.assertRaisesRegex(RuntimeError, "cannot tell where a step's rows begin"):
            gdn.vllm._Step(made)

    def test_refusals_at_the_start(self):
        import vllm
        config = unittest.mock.Mock()
        make = gdn.vllm._checked(lambda self: None)
        with unittest.mock.patch("vllm.config.get_current_vllm_config", lambda: config):
            for drafts, cached, release, copies, text in (
                    (None, True, "none", "X is missing", ""), (1, False, "none", "X is missing", ""), (1, True, "none", None, ""),
                    (1, True, "none", "X is missing", "refuses drafts .* with prefix caching, since X is missing. .*--no-enable-prefix-caching"),
                    (1, False, vllm.__version__, None, "refuses drafts .* loses the place"), (None, False, vllm.__version__, None, "")):
                config.speculative_config, config.cache_config.enable_prefix_caching = drafts, cached
                with unittest.mock.patch.multiple(gdn.vllm, _OLD=release, _without_copies=copies):
                    if not text:
                        make(None)
                        continue
                    with self.assertRaisesRegex(RuntimeError, text):
                        make(None)

    def test_refusals_of_the_chunked_form(self):
        import vllm.platforms
        from vllm.model_executor.layers.mamba import mamba_utils
        with unittest.mock.patch.dict(os.environ, GDN_VLLM_FORM="chunks"):
            with self.assertRaisesRegex(ValueError, "GDN_VLLM_FORM is 'chunks'; allowed: recurrence, chunked2, chunked"):
                _vllm_chunked.digits()
        for cpu, release in ((False, "0.32.0"), (True, "0.31.1")):
            with unittest.mock.patch.object(vllm.platforms.current_platform, "is_cpu", lambda: cpu):
                with self.assertRaisesRegex(RuntimeError, "on a CPU and with vLLM 0.32 and later only"):
                    gdn.vllm._choose_chunked(release)
        config = unittest.mock.Mock(speculative_config=None)
        cache = config.cache_config = types.SimpleNamespace(mamba_ssm_cache_dtype="auto", enable_prefix_caching=True, mamba_block_size=64, prefix_match_unit=None)
        make, specify = gdn.vllm._checked(lambda self: None), gdn.vllm._checkpointed(lambda self, config: vllm.v1.kv_cache_interface.MambaSpec(
            block_size=64, shapes=((4,),), dtypes=(torch.float32,), num_speculative_blocks=3))
        layer = unittest.mock.Mock(get_attn_backend=lambda: vllm.v1.attention.backends.gdn_attn.GDNAttentionBackend)
        with in_form(2), unittest.mock.patch("vllm.config.get_current_vllm_config", lambda: config):
            make(None)
            spec = specify(layer, config)
            self.assertEqual((spec.num_speculative_blocks, spec.num_prefill_checkpoint_blocks, spec.prefill_checkpoint_alignment), (0, 1, 32))
            for name in ("mamba_block_size", "prefix_match_unit"):
                with unittest.mock.patch.object(cache, name, 48):
                    with self.assertRaisesRegex(ValueError, f"GDN_VLLM_FORM: {name} is 48; .*multiples of 32 tokens"):
                        specify(layer, config)
                    cache.enable_prefix_caching = False
                    specify(layer, config)
                    cache.enable_prefix_caching = True
            cache.mamba_ssm_cache_dtype = "bfloat16"
            with self.assertRaisesRegex(ValueError, "GDN_VLLM_FORM: states are digits, and mamba_ssm_cache_dtype is 'bfloat16'"):
                make(None)
            with self.assertRaisesRegex(ValueError, "GDN_VLLM_FORM: heads have 40 keys and 32 values; the chunked form needs multiples of 16"):
                mamba_utils.MambaStateShapeCalculator.gated_delta_net_state_shape(1, 2, 4, 40, 32, 4)

    def test_checkpoints_on_a_device(self):
        """A layer that keeps states within a step with vLLM's kernels keeps none with gdn's."""
        import vllm.platforms
        spec = vllm.v1.kv_cache_interface.MambaSpec(block_size=64, shapes=((4,),), dtypes=(torch.float32,), num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=64)
        layer = unittest.mock.Mock(get_attn_backend=lambda: vllm.v1.attention.backends.gdn_attn.GDNAttentionBackend)
        for cpu, kept in ((True, (1, 1)), (False, (0, None))):
            with unittest.mock.patch.object(vllm.platforms.current_platform, "is_cpu", lambda: cpu):
                got = gdn.vllm._checkpointed(lambda self, config: spec)(layer, None)
                self.assertEqual((got.num_prefill_checkpoint_blocks, got.prefill_checkpoint_alignment), kept)

    def test_memory_of_threads(self):
        """Engines in several threads do not share the memory of a convolution's outputs."""
        x, both, taken = torch.zeros(4, 8), threading.Barrier(2), []

        def engine():
            one = gdn.vllm._like(x)
            both.wait()
            taken.append((one.data_ptr(), gdn.vllm._like(x[:2]).data_ptr()))

        threads = [threading.Thread(target=engine) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len({first for first, _ in taken}), [first == again for first, again in taken]), (2, [True, True]))

    def test_slots_of_the_chunked_form(self):
        """The sizes that vLLM has are those that the library says."""
        from vllm.model_executor.layers.mamba.mamba_utils import MambaStateDtypeCalculator, MambaStateShapeCalculator
        for digits, drafts in itertools.product((2, 3), (0, 1, 5)):
            with in_form(digits):
                shapes = {False: MambaStateShapeCalculator.gated_delta_net_state_shape(2, 4, 8, 48, 32, 4, drafts),
                          True: MambaStateShapeCalculator.kda_state_shape(2, 8, 32, conv_kernel_size=4, num_spec=drafts)}
                for dtypes in (MambaStateDtypeCalculator.gated_delta_net_state_dtype, MambaStateDtypeCalculator.kda_state_dtype):
                    self.assertEqual(dtypes(torch.bfloat16, "auto"), (torch.bfloat16, torch.float32))
            for channels, (heads_k, dim_k) in ((False, (2, 48)), (True, (4, 32))):
                q, v = numpy.zeros((1, heads_k, dim_k), numpy.float32), numpy.zeros((1, 4, 32), numpy.float32)
                g = numpy.zeros((1, 4, dim_k)[:3 if channels else 2], numpy.float32)
                state, entry = _vllm_chunked._sizes(heads_k, 4, dim_k, 32, channels, digits)
                can = gdn.capability(gdn.gated_delta_net, q, q, v, g, g[:, :, 0] if channels else g, numpy.zeros((1, 4, state), numpy.uint8), digits=digits,
                                     log=numpy.zeros((1, 32, entry), numpy.float32), position=[0])
                self.assertEqual((4 * state, 4 * entry), (can.slot_bytes, can.log_entry_bytes))
                self.assertIn(shapes[channels][1][0] - state - (32 + drafts) * entry, range(1, 5))
                self.assertEqual(shapes[channels][1][0] % 4, 0)

    def test_batch_invariance(self):
        """What vLLM asks a backend under VLLM_BATCH_INVARIANT=1."""
        from vllm.v1.attention import selector
        from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
        with unittest.mock.patch.dict(os.environ, VLLM_BATCH_INVARIANT="1"):
            selector._cached_get_mamba_attn_backend.__wrapped__(MambaAttentionBackendEnum.GDN_ATTN)
            with self.assertRaisesRegex(RuntimeError, "not supported for"):
                selector._cached_get_mamba_attn_backend.__wrapped__(MambaAttentionBackendEnum.MAMBA2)

    def test_another_kind(self):
        from vllm.model_executor.layers.mamba.gdn.base import GatedDeltaNetAttention
        other = type("OtherDeltaAttention", (GatedDeltaNetAttention,), {"get_state_shape": lambda self: ()})
        with self.assertRaisesRegex(RuntimeError, "no kernels for layers of the class OtherDeltaAttention"):
            other(None, vllm_config, "model.layers.0.other")

    def test_another_signature(self):
        from vllm.model_executor.layers.mamba.gdn.base import GatedDeltaNetAttention
        with self.assertRaisesRegex(RuntimeError, r"KimiGatedDeltaNetAttention._forward, whose arguments are \['x'\], not"):
            type("KimiGatedDeltaNetAttention", (GatedDeltaNetAttention,), {"_forward": lambda self, x: x})


if __name__ == "__main__":
    unittest.main()

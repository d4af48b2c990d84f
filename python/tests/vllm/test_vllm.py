"""gdn.vllm in vLLM's engine, beside transformers. Each test runs in a process of its own, which a new engine needs.

    python -m unittest test_vllm        with a vLLM for the CPU, transformers and gdn installed or in PYTHONPATH

A small random model, whose heads have 128 keys. Its weights are scaled until the best token leads clearly."""
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

PROMPTS, NEW = [5, 17, 33, 64, 100, 128, 150, 200], 24
scratch = tempfile.TemporaryDirectory()

MODEL = """
import torch, transformers
torch.manual_seed(3)
config = transformers.Qwen3NextConfig(vocab_size=512, hidden_size=128, intermediate_size=128, num_hidden_layers=4, num_attention_heads=2,
    num_key_value_heads=1, head_dim=64, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=128, linear_value_head_dim=128,
    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64, max_position_embeddings=1024,
    tie_word_embeddings=False, layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"])
model = transformers.Qwen3NextForCausalLM(config).eval()
with torch.no_grad():
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            weight *= 3
model.save_pretrained(FOLDER)
torch.manual_seed(5)
prompts = [torch.randint(0, 512, (n,)).tolist() for n in PROMPTS]
"""

REFERENCE = """
answers = []
for prompt in prompts:
    answers.append(model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, use_cache=True)[0, len(prompt):].tolist())
print(json.dumps(answers))
"""

ENGINE = """
import gdn.vllm
gdn.vllm.register()
from vllm import LLM, SamplingParams, TokensPrompt
options = dict(model=FOLDER, skip_tokenizer_init=True, dtype=DTYPE, enforce_eager=True, max_model_len=512, seed=1, **OPTIONS)
engine = LLM(**options)
def answer(batch):
    given = engine.generate([TokensPrompt(prompt_token_ids=p) for p in batch], SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
    return [list(x.outputs[0].token_ids) for x in given]
together = answer(prompts)
again = answer(prompts)
alone = [answer([prompt])[0] for prompt in prompts]
print(json.dumps([together, again, alone]))
"""


def process(text, **values):
    """The last line that a program printed, as JSON."""
    head = "import json, torch\n" + "".join(f"{name} = {value!r}\n" for name, value in {"PROMPTS": PROMPTS, "NEW": NEW, **values}.items())
    environment = {**os.environ, "VLLM_PLUGINS": "gdn", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
                   "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(text)], env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-6000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(scratch.name, "model")
        cls.wanted = process(MODEL + REFERENCE, FOLDER=cls.folder)

    def answers(self, dtype="float32", **options):
        prompts = "torch.manual_seed(5)\nprompts = [torch.randint(0, 512, (n,)).tolist() for n in PROMPTS]\n"
        return process(prompts + ENGINE, FOLDER=self.folder, DTYPE=dtype, OPTIONS=options)

    def agreement(self, given):
        """How many tokens of each answer are transformers' up to the first other one."""
        same = sum(next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), NEW) for a, b in zip(given, self.wanted))
        return same / (NEW * len(self.wanted))

    def require(self, **options):
        for what, given in zip(("together", "again", "alone"), self.answers(**options)):
            with self.subTest(what):
                self.assertEqual(given, self.wanted)

    def test_plain(self):
        self.require()

    def test_chunked_prefill_and_prefix_cache(self):
        self.require(enable_chunked_prefill=True, max_num_batched_tokens=64, enable_prefix_caching=True, max_num_seqs=4)

    def test_drafts(self):
        self.require(speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1})

    def test_states_of_16_bits(self):
        together, again, alone = self.answers(mamba_ssm_cache_dtype="bfloat16")
        self.assertEqual(together, again)
        self.assertGreater(self.agreement(together), 0.3)
        self.assertGreater(self.agreement(alone), 0.3)


class Refusals(unittest.TestCase):
    def test_off(self):
        self.assertEqual(process("import os; os.environ['VLLM_PLUGINS'] = ''\nimport gdn.vllm; gdn.vllm.register()\n"
                                 "import importlib; print(json.dumps(importlib.import_module(gdn.vllm._MODULE).cpu_gdn_attention_core.__module__))"),
                         "vllm.model_executor.layers.mamba.ops.cpu.gdn_attention")

    def test_another_version(self):
        said = process("import vllm; vllm.__version__ = '9.9.1'\nimport gdn.vllm\ntry: gdn.vllm.register()\nexcept RuntimeError as e: print(json.dumps(str(e)))")
        self.assertIn("9.9.1", said)
        self.assertIn("0.32", said)


if __name__ == "__main__":
    unittest.main()

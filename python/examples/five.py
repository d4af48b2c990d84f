#!/usr/bin/env python3
"""Five lines: do an engine's answers depend on what runs beside them, on its caches, or on how a text was computed?

    five.py run [--gdn FILE] [--model FILE.gguf]
    five.py vllm | vllm-gdn | transformers | transformers-gdn [--model FOLDER] [--dtype float32]

    replay       32 prompts, one after another, twice
    shuffled     the prompts at once, in another order (transformers: as a batch), beside each alone
    batch        one prompt alone, beside the same one among 128
    cached       prompts whose beginning the engine has kept, beside the same ones read whole
    prefill      the log-probabilities of the tokens that were generated one by one, beside those of the whole text read at once

Each line says how many answers (greedy tokens and their log-probabilities) have the same bits, and how far the log-probabilities
are apart at most. `run` is gdn run's engine behind gdn serve, on a GGUF file (default: the model that ships here); the others take a
folder of transformers (default: a small random Qwen3-Next in a temporary folder). "-gdn" is with libgdn: VLLM_PLUGINS=gdn,
gdn.transformers.use().
"""
import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEW = 16


class Run:
    """gdn serve: a server without the prefix cache, and one with it."""

    vocabulary, at_once = 2048, 128

    def __init__(self, asked):
        model = asked.model or os.path.join(HERE, "models/kjv-small-q8_0.gguf")
        self.servers = []
        for options in (), ("--prefix-cache", "64", "--prefix-interval", "16"):
            process = subprocess.Popen([asked.gdn, "serve", "-m", model, "--port", "0", "--parallel", "128", "--queue", "256", "--ctx", "1024", *options],
                                       stdout=subprocess.PIPE, text=True)
            line = process.stdout.readline()
            if not line:
                sys.exit(f"{asked.gdn} serve did not start")
            self.servers.append((process, line.split()[-1]))

    def ask(self, prompt, new=NEW, cached=False):
        body = {"prompt": prompt, "max_tokens": new, "logprobs": 0, "return_tokens_as_token_ids": True, "ignore_eos": True, "temperature": 0}
        with urllib.request.urlopen(self.servers[cached][1] + "/v1/completions", json.dumps(body).encode()) as answer:
            found = json.load(answer)["choices"][0]["logprobs"]
        return [int(name.removeprefix("token_id:")) for name in found["tokens"]], found["token_logprobs"]

    def answer(self, prompts):
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as threads:
            return list(threads.map(self.ask, prompts))

    def cached(self, prompts):
        for _ in range(2):  # the second time, with what the first kept
            found = [self.ask(prompt, NEW, True) for prompt in prompts]
        return found

    def prefill(self, prompt, tokens):
        """Each token's log-probability at the end of a prompt that has all tokens before it."""
        return [self.ask(prompt + tokens[:i], 1)[1][0] for i in range(len(tokens))]

    def close(self):
        for process, _ in self.servers:
            process.terminate()
            process.wait()


class Vllm:
    at_once = 128

    def __init__(self, asked):
        os.environ.update(VLLM_PLUGINS="gdn" if asked.engine.endswith("gdn") else "", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        from vllm import LLM
        self.engine = LLM(model=asked.model, skip_tokenizer_init=True, dtype=asked.dtype, max_model_len=1024, enforce_eager=True, max_num_seqs=128)
        self.vocabulary = self.engine.llm_engine.vllm_config.model_config.get_vocab_size()

    def generate(self, prompts, **parameters):
        from vllm import SamplingParams, TokensPrompt
        return self.engine.generate([TokensPrompt(prompt_token_ids=prompt) for prompt in prompts],
                                    SamplingParams(temperature=0, ignore_eos=True, detokenize=False, **parameters), use_tqdm=False)

    def answer(self, prompts):
        self.engine.reset_prefix_cache()
        return self.texts(prompts)

    def texts(self, prompts):
        found = [x.outputs[0] for x in self.generate(prompts, max_tokens=NEW, logprobs=0)]
        return [(list(x.token_ids), [at[token].logprob for at, token in zip(x.logprobs, x.token_ids)]) for x in found]

    def cached(self, prompts):
        for _ in range(2):
            found = [self.texts([prompt])[0] for prompt in prompts]
        return found

    def prefill(self, prompt, tokens):
        self.engine.reset_prefix_cache()
        found = self.generate([prompt + tokens], max_tokens=1, prompt_logprobs=0)[0].prompt_logprobs
        return [at[token].logprob for at, token in zip(found[len(prompt):], tokens)]

    def close(self):
        pass


class Transformers:
    at_once = 32

    def __init__(self, asked):
        import torch
        import transformers
        if asked.engine.endswith("gdn"):
            import gdn.transformers
            gdn.transformers.use()
        self.torch, self.transformers = torch, transformers
        self.model = transformers.AutoModelForCausalLM.from_pretrained(asked.model, dtype=getattr(torch, asked.dtype)).eval()
        self.vocabulary = self.model.config.vocab_size

    def generate(self, prompts, cache=None):
        """Prompts of one length."""
        given = self.torch.tensor(prompts)
        with self.torch.no_grad():
            found = self.model.generate(given, attention_mask=self.torch.ones_like(given), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False,
                                        return_dict_in_generate=True, output_logits=True, past_key_values=cache, eos_token_id=None, pad_token_id=0)
        tokens = found.sequences[:, given.shape[1]:]
        logprobs = self.torch.stack([row.float().log_softmax(-1) for row in found.logits], 1).gather(2, tokens.unsqueeze(2)).squeeze(2)
        return list(zip(tokens.tolist(), logprobs.tolist()))

    def answer(self, prompts):
        """A batch for each length, since padding is another computation."""
        found = [None] * len(prompts)
        for length in {len(prompt) for prompt in prompts}:
            places = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
            for i, one in zip(places, self.generate([prompts[i] for i in places])):
                found[i] = one
        return found

    def cached(self, prompts):
        found = []
        for prompt in prompts:
            cache = self.transformers.DynamicCache(config=self.model.config)
            with self.torch.no_grad():
                self.model(self.torch.tensor([prompt[:len(prompt) // 2]]), past_key_values=cache, use_cache=True)
            found += self.generate([prompt], cache)
        return found

    def prefill(self, prompt, tokens):
        with self.torch.no_grad():
            rows = self.model(self.torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1].float().log_softmax(-1)
        return rows.gather(1, self.torch.tensor(tokens).unsqueeze(1)).squeeze(1).tolist()

    def close(self):
        pass


MAKE = """
import sys, torch, transformers
torch.manual_seed(3)
model = transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(vocab_size=256, hidden_size=256, intermediate_size=256, num_hidden_layers=4,
    num_attention_heads=2, num_key_value_heads=2, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128,
    linear_value_head_dim=128, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128, shared_expert_intermediate_size=128,
    max_position_embeddings=4096, tie_word_embeddings=False, layer_types=["linear_attention"] * 3 + ["full_attention"]))
model.save_pretrained(sys.argv[1])
"""


def line(name, ours, others):
    """Compare lists of (tokens, log-probabilities)."""
    same = sum(a == b for a, b in zip(ours, others))
    apart = max((abs(x - y) for (t, a), (u, b) in zip(ours, others) for i, (x, y) in enumerate(zip(a, b)) if t[:i + 1] == u[:i + 1]), default=0.0)
    tokens = sum(a == b for (a, _), (b, _) in zip(ours, others))
    print(f"{name:9} {same:3} of {len(ours)} answers have the same bits, {tokens} the same tokens; log-probabilities at most {apart:.2g} apart", flush=True)
    return same == len(ours)


def run(engine, lengths):
    draw = random.Random(1)
    prompts = [draw.choices(range(engine.vocabulary), k=n) for n in lengths]
    alone = [engine.answer([prompt])[0] for prompt in prompts]
    good = line("replay", [engine.answer([prompt])[0] for prompt in prompts], alone)
    order = draw.sample(range(len(prompts)), len(prompts))
    shuffled = dict(zip(order, engine.answer([prompts[i] for i in order])))
    good &= line("shuffled", [shuffled[i] for i in range(len(prompts))], alone)
    batch = engine.answer([prompts[0]] + [draw.choices(range(engine.vocabulary), k=len(prompts[0])) for _ in range(engine.at_once - 1)])
    good &= line("batch", batch[:1], alone[:1])
    shared = draw.choices(range(engine.vocabulary), k=400)
    longer = [shared + prompt[:20] for prompt in prompts[:8]]
    good &= line("cached", engine.cached(longer), [engine.answer([prompt])[0] for prompt in longer])
    return good & line("prefill", [(tokens, engine.prefill(prompt, tokens)) for prompt, (tokens, _) in zip(prompts[:8], alone)], alone[:8])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["run", "vllm", "vllm-gdn", "transformers", "transformers-gdn"])
    parser.add_argument("--model", help="a GGUF file for run, a folder for the others")
    parser.add_argument("--gdn", default=os.path.join(HERE, "build/bin/gdn"), help="the tool")
    parser.add_argument("--dtype", default="float32", help="of the folder's model (default %(default)s; vLLM's own layers take bfloat16 only)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.engine != "run" and not asked.model:
            subprocess.run([sys.executable, "-c", MAKE, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            asked.model = folder
        engine = {"run": Run, "vllm": Vllm, "tran": Transformers}[asked.engine[:4]](asked)
        try:
            lengths = [64] * 16 + [33] * 16 if asked.engine.startswith("trans") else [5 + 7 * i for i in range(32)]
            sys.exit(0 if run(engine, lengths) else 1)
        finally:
            engine.close()


if __name__ == "__main__":
    main()

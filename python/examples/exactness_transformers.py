#!/usr/bin/env python3
"""The questions of gdn.exactness to transformers in this process: its own server gives no log-probabilities.

    exactness_transformers.py [--gdn] [--model FOLDER] [--dtype float32]

    replay       32 prompts, one after another, twice
    shuffled     the prompts as two batches, in another order, beside each alone
    batch        one prompt alone, beside the same one in a batch of 32
    cached       prompts whose beginning is in a cache, beside the same ones read whole
    prefill      the log-probabilities of the tokens that were generated one by one, beside those of the whole text read at once

--gdn is with gdn.transformers.use(). The model is a folder (default: a small random Qwen3-Next). Exit status: 0 all the same, 1 not.
"""
import argparse
import random
import sys

import torch
import transformers

from gdn.exactness import Answer, compare, table

NEW = 16


class Model:
    def __init__(self, folder, dtype):
        if folder:
            self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
            return
        torch.manual_seed(3)
        self.model = transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(
            vocab_size=256, hidden_size=256, intermediate_size=256, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
            head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128,
            num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128, shared_expert_intermediate_size=128,
            max_position_embeddings=4096, tie_word_embeddings=False,
            layer_types=["linear_attention"] * 3 + ["full_attention"])).to(dtype).eval()

    def generate(self, prompts, cache=None):
        """The answers to prompts of one length."""
        given = torch.tensor(prompts)
        with torch.no_grad():
            found = self.model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=NEW, min_new_tokens=NEW,
                                        do_sample=False, return_dict_in_generate=True, output_logits=True, past_key_values=cache,
                                        eos_token_id=None, pad_token_id=0)
        tokens = found.sequences[:, given.shape[1]:]
        logprobs = torch.stack([row.float().log_softmax(-1) for row in found.logits], 1).gather(2, tokens.unsqueeze(2)).squeeze(2)
        return [Answer(x, y, "", given.shape[1], None, None) for x, y in zip(tokens.tolist(), logprobs.tolist())]

    def alone(self, prompts):
        return [self.generate([prompt])[0] for prompt in prompts]

    def together(self, prompts):
        """A batch for each length, since padding is another computation."""
        found = [None] * len(prompts)
        for length in {len(prompt) for prompt in prompts}:
            places = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
            for i, one in zip(places, self.generate([prompts[i] for i in places])):
                found[i] = one
        return found

    def cached(self, prompt):
        cache = transformers.DynamicCache(config=self.model.config)
        with torch.no_grad():
            self.model(torch.tensor([prompt[:len(prompt) // 2]]), past_key_values=cache, use_cache=True)
        return self.generate([prompt], cache)[0]

    def prefill(self, prompt, answer):
        with torch.no_grad():
            rows = self.model(torch.tensor([prompt + answer.tokens])).logits[0, len(prompt) - 1:-1].float().log_softmax(-1)
        return answer._replace(logprobs=rows.gather(1, torch.tensor(answer.tokens).unsqueeze(1)).squeeze(1).tolist())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gdn", action="store_true", help="with gdn.transformers.use()")
    parser.add_argument("--model", help="a folder of transformers (default: a small random Qwen3-Next)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"], help="default %(default)s")
    asked = parser.parse_args()
    if asked.gdn:
        import gdn.transformers
        gdn.transformers.use()
    model = Model(asked.model, getattr(torch, asked.dtype))
    draw = random.Random(1)

    def text(length):
        return draw.choices(range(model.model.config.vocab_size), k=length)
    prompts = [text(64 if i % 2 else 33) for i in range(32)]
    alone = model.alone(prompts)
    order = draw.sample(range(32), 32)
    shuffled = dict(zip(order, model.together([prompts[i] for i in order])))
    batch = model.together([prompts[0]] + [text(len(prompts[0])) for _ in range(31)])
    longer = [text(400) + prompt[:20] for prompt in prompts[:8]]
    lines = [compare("replay", model.alone(prompts), alone), compare("shuffled", [shuffled[i] for i in range(32)], alone),
             compare("batch", batch[:1], alone[:1]), compare("cached", [model.cached(prompt) for prompt in longer], model.alone(longer)),
             compare("prefill", [model.prefill(*x) for x in zip(prompts[:8], alone)], alone[:8], given=True)]
    print(table(lines))
    return int(any(line.verdict != "same" for line in lines))


if __name__ == "__main__":
    sys.exit(main())

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
import contextlib
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
    """gdn serve. A server without the prefix cache, and one with it."""

    vocabulary = 2048

    def __init__(self, asked):
        self.servers = [self.start(asked, *options) for options in ((), ("--prefix-cache", "64", "--prefix-interval", "16"))]

    def start(self, asked, *options):
        process = subprocess.Popen([asked.gdn, "serve", "-m", asked.model or os.path.join(HERE, "models/kjv-small-q8_0.gguf"), "--port", "0",
                                    "--parallel", "128", "--queue", "256", *options], stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{asked.gdn} serve did not start")
        return process, line.split()[-1]

    def ask(self, prompt, new=NEW, cached=False):
        body = {"prompt": prompt, "max_tokens": new, "logprobs": 1, "ignore_eos": True, "temperature": 0}
        with urllib.request.urlopen(self.servers[cached][1] + "/v1/completions", json.dumps(body).encode()) as answer:
            choice = json.load(answer)["choices"][0]
        return choice["text"], choice["logprobs"]["token_logprobs"]

    def alone(self, prompts):
        return [self.ask(prompt) for prompt in prompts]

    def together(self, prompts):
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as threads:
            return list(threads.map(self.ask, prompts))

    def cached(self, prompts):
        self.ask(prompts[0], 1, True)
        return [self.ask(prompt, NEW, True) for prompt in prompts]

    def prefill(self, prompt, answer):
        """Each token's log-probability after a prompt that has all tokens before it. Texts are token numbers here."""
        raise NotImplementedError

    def close(self):
        for process, _ in self.servers:
            process.terminate()
            process.wait()

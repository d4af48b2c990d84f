#!/usr/bin/env python3
"""gdn serve: endpoints, texts, refusals, limits, clients that go away, and signals.

    test_serve.py GDN FOLDER [--brief]   as test_run.py
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from gguf_file import value
from server import PROMPT, SETTINGS, TOOLS, WAIT, Server, joined, ran, refused, server
from tool import BRIEF, MODEL, TOOL, require, run_tests

LONG = {"prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "temperature": 1, "seed": 1}


def endpoints():
    with server("--alias", "small") as s:
        status, models, _ = s.ask("/v1/models")
        require(status == 200 and [m["id"] for m in models["data"]] == ["small"] and models["object"] == "list", f"models: {models}")
        require(s.ask("/health")[:2] == (200, {"status": "ok"}), "health")
        tokens = s.ask("/tokenize", {"content": PROMPT})[1]["tokens"]
        require(len(tokens) == ran("-p", PROMPT, "-n", "1")[0]["prompt_tokens"], f"tokens: {tokens}")
        require(s.ask("/tokenize", {"content": ""})[1] ["tokens"] == [], "no tokens")
        mark = "<|im_end|>"
        require(len(s.ask("/tokenize", {"content": mark, "parse_special": True})[1]["tokens"]) == 1 < len(s.ask("/tokenize", {"content": mark})[1]["tokens"]),
                "special tokens are parsed on request")
        _, answer, _ = s.ask("/v1/completions", {"model": "small", "prompt": PROMPT, "max_tokens": 9, "user": "me"})
        require(answer["object"] == "text_completion" and answer["model"] == "small" and answer["id"].startswith("cmpl-"), f"a completion: {answer}")
        require(answer["usage"]["prompt_tokens"] == len(tokens) and answer["usage"]["completion_tokens"] == 9 and answer["usage"]["total_tokens"] == len(tokens) + 9,
                f"usage: {answer['usage']}")
        require(s.text({"prompt": tokens, "max_tokens": 9}) == answer["choices"][0]["text"] == s.text({"prompt": [PROMPT], "max_tokens": 9}), "prompts as tokens and lists")
        both = s.ask("/v1/completions", {"prompt": [PROMPT, "Blessed are"], "n": 2, "max_tokens": 9, "temperature": 1, "seed": 1})[1]["choices"]
        require([c["index"] for c in both] == [0, 1, 2, 3], "texts of two prompts")
        require([c["text"] for c in both] == [r["text"] for p in (PROMPT, "Blessed are") for seed in (1, 2)
                                              for r in ran("-p", p, "-n", "9", "--temp", "1", "--seed", seed)], "n texts have the next seeds")
        status, page, response = s.ask("/")
        parts = [base64.b64encode(hashlib.sha256(page.split(f"<{tag}>")[1].split(f"</{tag}>")[0].encode()).digest()).decode() for tag in ("script", "style")]
        policy = f"default-src 'none'; connect-src 'self'; script-src 'sha256-{parts[0]}'; style-src 'sha256-{parts[1]}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        require(status == 200 and response.getheader("Content-Type") == "text/html; charset=utf-8" and "innerHTML" not in page and page.endswith("</html>\n"), f"a page: {status}")
        require(response.getheader("Content-Security-Policy") == policy, f"its policy: {response.getheader('Content-Security-Policy')}, not {policy}")
        require(s.ask("/metrics")[2].getheader("Content-Type").startswith("text/plain"), "the type of the metrics")
        for name, kind in (("requests_total", "counter"), ("texts_running", "gauge"), ("prefix_tokens_total", "counter"), ("accepted_tokens_total", "counter")):
            require(f"# TYPE gdn_{name} {kind}\ngdn_{name} " in s.ask("/metrics")[1], f"the metric {name}")
        require(s.metric("requests_total") == 4 and s.metric("texts_cut_total") == 7, "requests are counted")
        long = PROMPT + " God created the heaven and the earth." * 8
        usages = [s.ask("/v1/completions", {"prompt": long, "max_tokens": 4})[1]["usage"] for _ in range(2)]
        kept = [u["prompt_tokens_details"]["cached_tokens"] for u in usages]
        require(kept[0] < 16 <= kept[1] < usages[1]["prompt_tokens"] == usages[0]["prompt_tokens"], f"kept tokens: {usages}")


def names():
    """The model's names, paths without /v1, and the endpoints that llama.cpp's clients know."""
    with server("--alias", "small", "--alias", "team/small") as s:
        require([m["id"] for m in s.ask("/v1/models")[1]["data"]] == ["small", "team/small"], "each alias is a model")
        for name in ("small", "team/small"):
            status, model, _ = s.ask(f"/v1/models/{name}")
            require(status == 200 and model["id"] == name and model["object"] == "model" and model["max_model_len"] == 4096, f"a model: {model}")
        require(s.ask("/models/team%2fsmall")[1]["id"] == "team/small", "a name in an encoded path")
        for path in ("/v1/models/other", "/v1/models/", "/models/small/x"):
            refused(s, 404, "model", None, path)
        body = {"prompt": PROMPT, "max_tokens": 5}
        texts = [s.ask(path, {**body, **more})[1] for path in ("/v1/completions", "/completions") for more in ({}, {"model": "small"}, {"model": "team/small"}, {"model": "gpt-4o"})]
        require(len({t["choices"][0]["text"] for t in texts}) == 1 and {t["model"] for t in texts} == {"small"}, f"any name: {texts}")
        for path in ("/v1/health", "/models", "/v1/metrics", "/v1/props"):
            require(s.ask(path)[0] == 200, f"with and without /v1: {path}")
        for path in ("/v1", "/v1/", "/v1/v1/models", "/v1models"):
            refused(s, 404, None, None, path)
        info = s.ask("/tokenizer_info")[1]
        require(info["model_max_length"] == 4096 and len(s.ask("/tokenize", {"prompt": info["eos_token"]})[1]["tokens"]) == 1 and "message['content']" in info["chat_template"], f"the tokenizer: {info}")
        props = s.ask("/props")[1]
        params = props["default_generation_settings"]["params"]
        require(props["total_slots"] == 4 and props["default_generation_settings"]["n_ctx"] == 4096 and props["model_alias"] == "small" and props["build_info"].startswith("gdn "), f"properties: {props}")
        require(props["eos_token"].startswith("<|") and params["top_k"] == 40 and abs(params["temperature"] - 0.8) < 1e-6, f"properties: {props}")
        for text in (PROMPT, "", "<|im_end|> \u00e9\u65e5", PROMPT * 2000):
            tokens = s.ask("/tokenize", {"content": text, "parse_special": True})[1]["tokens"]
            require(s.ask("/v1/detokenize", {"tokens": tokens})[:2] == (200, {"content": text, "prompt": text}), f"there and back: {text[:30]}")
            require(s.ask("/tokenize", {"prompt": text})[1]["tokens"] == tokens, f"vLLM's name: {text[:30]}")
        for tokens in (None, 1, "x", [-1], [1 << 40], ["a"], [1.5], {}):
            refused(s, 400, "tokens", {"tokens": tokens}, "/detokenize")
        hello = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|im_end|>"}]}
        prompt = s.ask("/apply-template", hello)[1]["prompt"]
        require(prompt == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n", f"a prompt: {prompt!r}")
        refused(s, 400, "messages", {}, "/apply-template")
        refused(s, 400, None, "{", "/apply-template")
        refused(s, 400, None, "{", "/detokenize")


def same_as_run():
    """A text is that of gdn run with the same parameters, streamed or not."""
    cases = (({}, ()),
             ({"temperature": 0.9, "seed": 7, "top_k": 50, "top_p": 0.9, "min_p": 0.02}, ("--temp", "0.9", "--seed", "7", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.02")),
             ({"temperature": 1.5, "seed": 3}, ("--temp", "1.5", "--seed", "3")),
             ({"repeat_penalty": 1.2, "repeat_last_n": 32, "presence_penalty": 0.5, "frequency_penalty": 0.25},
              ("--repeat-penalty", "1.2", "--repeat-last", "32", "--presence-penalty", "0.5", "--frequency-penalty", "0.25")),
             ({"stop": ["LORD", "\n"]}, ("--stop", "LORD", "--stop", "\n")),
             ({"stop": "house of the LORD, and in"}, ("--stop", "house of the LORD, and in")),
             ({"temperature": 3, "ignore_eos": True, "seed": 1}, ("--temp", "3", "--ignore-end")))  # bytes that are not UTF-8
    with server() as s:
        for body, options in cases:
            of_run = ran("-p", PROMPT, "-n", "60", *options)[0]
            reason = "length" if of_run["finish"] == "length" else "stop"
            for tokens in ({"max_tokens": 60}, {"max_tokens": 60, "n": 2}):
                status, answer, _ = s.ask("/v1/completions", {"prompt": PROMPT, **tokens, **body})
                require(status == 200 and (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == (of_run["text"], reason), f"{body}: {answer}, not {of_run}")
                events, done = s.events("/v1/completions", {"prompt": PROMPT, **tokens, **body, "stream_options": {"include_usage": True}})
                require(done and joined(events) == (of_run["text"], reason), f"streamed: {body}")
                require(events[-1]["choices"] == [] and {**events[-1]["usage"], "prompt_tokens_details": 0} == {**answer["usage"], "prompt_tokens_details": 0}, f"usage at the end: {events[-1]}")
                require(all(e["usage"] is None for e in events[:-1]), "no usage before the end")
                if "n" in tokens:
                    require(joined(events, 1)[0] == answer["choices"][1]["text"], f"the second text: {body}")
        require("usage" not in s.events("/v1/completions", {"prompt": PROMPT, "max_tokens": 3})[0][-1], "usage on request only")
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who was Moses?"}]
        parts = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Who was"}, {"type": "text", "text": " Moses?"}]}]
        for body, options in (({"seed": 1}, ()), ({"temperature": 0}, ("--temp", "0")), ({"seed": 5, "stop": ","}, ("--seed", "5", "--stop", ","))):
            of_run = ran("--chat", "--system", "Be brief.", "-p", "Who was Moses?", "-n", "40", *options)[0]
            for of, limit in ((messages, "max_tokens"), (parts, "max_completion_tokens")):
                _, answer, _ = s.ask("/v1/chat/completions", {"messages": of, limit: 40, **body})
                choice = answer["choices"][0]
                require(choice["message"]["role"] == "assistant" and choice["message"]["content"].lstrip("\n") == of_run["text"].lstrip("\n") and answer["object"] == "chat.completion",
                        f"chat {body}: {answer}, not {of_run['text']!r}")
                events, done = s.events("/v1/chat/completions", {"messages": of, limit: 40, **body})
                require(done and joined(events, 0, "content") == (choice["message"]["content"], choice["finish_reason"]), f"a streamed chat {body}")
                require(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""} and events[0]["object"] == "chat.completion.chunk", "the first event")


def seeds():
    """A request without a seed gets a random one; the answer tells it, and with it the text comes again."""
    hello = {"messages": [{"role": "user", "content": "Who was Moses?"}]}
    with server() as s:
        for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", hello)):
            body, found = {**body, "max_tokens": 20, "temperature": 1, "n": 2}, []
            for seed in ({}, {"seed": None}, {"seed": -1}, {}):
                answer = s.ask(path, {**body, **seed})[1]
                require(0 <= answer["seed"] < 2 ** 52, f"a seed that binary64 holds: {answer}")
                require(s.ask(path, {**body, "seed": answer["seed"]})[1]["choices"] == answer["choices"], f"the seed gives the text again: {answer}")
                found.append((answer["seed"], json.dumps(answer["choices"])))
            require(len({seed for seed, _ in found}) == len({text for _, text in found}) == len(found), f"{path}: seeds and texts differ: {found}")
            events, _ = s.events(path, {**body, "stream_options": {"include_usage": True}})
            require(len({e["seed"] for e in events}) == 1, "each event tells the seed")
            again, _ = s.events(path, {**body, "seed": events[0]["seed"]})
            of = "content" if "messages" in body else "text"
            require([joined(events, i, of) for i in range(2)] == [joined(again, i, of) for i in range(2)], "the seed of a stream gives the text again")
            require([s.ask(path, {**body, "seed": seed})[1]["seed"] for seed in (0, 7, 2 ** 63 - 1)] == [0, 7, 2 ** 63 - 1], "a given seed is told too")
        require(len({s.text({"prompt": PROMPT, "max_tokens": 20}) for _ in range(4)}) == 1, "completions take the most likely token")


def together():
    """16 requests at once, each with the text that it has alone."""
    words = ("Moses", "Aaron", "David", "Solomon", "Job", "Peter", "Paul", "John", "Mark", "Luke", "Ruth", "Esther", "Daniel", "Joel", "Amos", "Noah")
    bodies = [{"prompt": "And the LORD spake unto Moses, saying, Speak unto " * (i % 4) + f"And {word} said unto", "max_tokens": 20 + 5 * i, "temperature": 0.3 * (i % 4), "seed": i}
              for i, word in enumerate(words)]
    for options in (("--parallel", "1"), ("--parallel", "5", "--always-draft"), ("--parallel", "16", "--spec", "off", "--step", "24")):
        with server(*options) as s:
            alone = [s.text(body) for body in bodies]
            if options[1] == "1":
                expected = alone
                require(len(set(alone)) == len(alone), "distinct texts")
                continue
            texts = [None] * len(bodies)

            def get(i):
                texts[i] = joined(s.events("/v1/completions", bodies[i])[0])[0] if i % 2 else s.text(bodies[i])
            threads = [threading.Thread(target=get, args=(i,)) for i in range(len(bodies))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            require(texts == expected == alone, f"texts together {options}: {[i for i in range(16) if texts[i] != expected[i]]}")


# ---- Refusals ----


def refusals():
    with server("--body-limit", "64", "--max-tokens", "100", "--queue", "4") as s:
        chat, hello = "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}
        for name, given in (("logit_bias", 1), ("grammar", "x")):
            refused(s, 400, name, {**hello, name: given}, chat)
            refused(s, 400, name, {"prompt": "x", name: given})
        for name, given in (("tools", {}), ("tools", [1]), ("tools", [{"type": "function"}]), ("tools", [{"type": "function", "function": {"name": ""}}]), ("tools", [{"type": "x", "function": {"name": "f"}}]), ("tool_choice", "required"),
                            ("tool_choice", {"type": "function", "function": {"name": "f"}}), ("response_format", {"type": "grammar"}), ("response_format", "text"),
                            ("logprobs", 1), ("top_logprobs", 1), ("chat_template_kwargs", []), ("parallel_tool_calls", 1)):
            refused(s, 400, name, {**hello, name: given}, chat)
        for given in (-1, 21, True, 1.5):
            refused(s, 400, "top_logprobs", {**hello, "logprobs": True, "top_logprobs": given}, chat)
            refused(s, 400, "logprobs", {"prompt": "x", "logprobs": given})
        for name, given in (("tools", TOOLS), ("tool_choice", "required"), ("top_logprobs", 1), ("chat_template_kwargs", {})):
            refused(s, 400, name, {"prompt": "x", name: given})
        refused(s, 400, "tools", {**hello, "tools": TOOLS}, chat)  # the model's template does not write them
        refused(s, 400, "messages", {"messages": [{"role": "function", "content": "x"}], "tools": TOOLS}, chat)
        require(s.ask(chat, {**hello, "tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": True, "max_tokens": 1, "response_format": {"type": "text"}})[0] == 200, "tools that are not to be called")
        refused(s, 400, "chat_template_kwargs", {**hello, "chat_template_kwargs": {"messages": []}}, chat)
        for calls in (1, [1], [{"function": {"arguments": "{}"}}], [{"function": {"name": 1, "arguments": "{}"}}], [{"function": {"name": "f", "arguments": 1}}]):
            refused(s, 400, "messages", {"messages": [{"role": "assistant", "content": "x", "tool_calls": calls}]}, chat)
        require(s.ask("/v1/completions", {"prompt": "x", "tools": None, "max_tokens": 1})[0] == 200, "null is absent")
        for name, values in {"temperature": ("1", True), "top_k": (-2, 0.5), "seed": (-2, 0.5, 2 ** 63), "n": (0, 9, "2"), "max_tokens": (0, -2, 1.5), "stream": (1, "true"), "stop": ([""], 3, ["a"] * 17),
                             "prompt": ([], [-1], [1 << 30], 5, ["a", 5], [["a"]], {}), "stream_options": (1,), "model": (1,)}.items():
            for value in values:
                refused(s, 400, name if value != 2 ** 63 else None, {"prompt": "x", name: value})
        for name, value in (("temperature", -1), ("top_p", 0), ("min_p", 2), ("repeat_penalty", 0), ("presence_penalty", 1000)):
            error, _ = refused(s, 400, None, {"prompt": "x", name: value})
            require(name in error["message"], f"the name of {name}: {error}")
        refused(s, 400, "max_tokens", {"prompt": "x", "max_tokens": 1, "max_completion_tokens": 2})
        refused(s, 400, "prompt", {})
        refused(s, 400, "prompt", {**hello, "prompt": "x"}, chat)
        refused(s, 400, "messages", {"prompt": "x", **hello})
        for messages in ([], "x", [1], [{"role": "user"}], [{"content": "x"}], [{"role": "function", "content": "x"}], [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]):
            refused(s, 400, "messages", {"messages": messages}, chat)
        refused(s, 400, "messages[0].prefix", {"messages": [{"role": "user", "content": "x", "prefix": True}]}, chat)
        for body in ("", "{", "[]", "1", '{"prompt":"x","prompt":"y"}', '{"prompt":"\\ud800"}', b'{"prompt":"\xff"}', "[" * 5000, '{"prompt":"x"} x'):
            refused(s, 400, None, body)
        refused(s, 400, "prompt", {"prompt": [40] * 4096})
        refused(s, 404, None, None, "/v2")
        refused(s, 404, None, None, "/../../etc/passwd")
        _, response = refused(s, 405, None, None, "/v1/completions")
        require(response.getheader("Allow"), "which methods are allowed")
        refused(s, 413, None, {"prompt": "x" * 70000})
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
        connection.request("POST", "/v1/completions", iter([b"x" * 1000] * 70), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        require(connection.getresponse().status == 413, "a body of chunks that is too large")
        connection.close()
        draw = random.Random(1)
        for _ in range(30 if BRIEF else 300):  # damaged requests
            body = bytearray(json.dumps({**draw.choice(({"prompt": "x"}, hello)), "max_tokens": 2, "stream": draw.random() < 0.5, "stop": ["a", "b"]}).encode())
            for _ in range(draw.randrange(1, 4)):
                at = draw.randrange(len(body))
                body[at:at + draw.randrange(3)] = bytes(draw.choice(b'{}[]",:0x\\\x00\xff') for _ in range(draw.randrange(3)))
            require(s.ask(draw.choice(("/v1/completions", chat)), bytes(body))[0] in (200, 400, 404), f"a damaged body: {bytes(body)}")
        require(s.ask("/health")[0] == 200 and s.metric("texts_failed_total") == 0, "the server goes on")


def no_utf8():
    """Errors that repeat what is not UTF-8, or is cut within a character, are JSON all the same."""
    with server("--strict", "--alias", os.fsdecode(b"\xff") + "\u00e9" * 200) as s:
        long = "x" + "\u00e9" * 90
        for path, body, headers, status in (("/%ff", None, None, 404), ("/health", None, {"Host": b"\xe9.example"}, 403), ("/v1/completions", {"prompt": "a", long: 1}, None, 400),
                                            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", long: 1}]}, None, 400)):
            got, answer, _ = s.ask(path, body, headers=headers)
            require(got == status and answer["error"]["message"], f"{path}: {got} {answer}")
        name = s.ask("/v1/models")[1]["data"][0]["id"]
        require(name.startswith("\ufffd\u00e9") and s.ask("/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1})[0] == 200, f"a name that is no text: {name}")


def full():
    with server("--parallel", "1", "--queue", "1") as s:
        first, second = s.open("/v1/completions", {**LONG, "stream": True}), s.open("/v1/completions", {**LONG, "stream": True})
        require(s.until("texts_waiting", lambda n: n == 1), "one waits")
        error, response = refused(s, 429, None, LONG)
        require(error["type"] == "rate_limit_error" and int(response.getheader("Retry-After")) > 0 and s.metric("refused_total") == 1, f"a full queue: {error}")
        for connection, response in (first, second):
            response.close()
            connection.close()
        require(s.until("texts_waiting", lambda n: n == 0) and s.ask("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200, "there is room again")


def fair():
    """One request takes at most half of the places, so others get in."""
    with server("--parallel", "2", "--queue", "6") as s:
        for body in ({"n": 5}, {"n": 3, "prompt": ["x", "y"]}, {"n": 128}):
            error, _ = refused(s, 400, "n", {"prompt": "x", "max_tokens": 1, **body})
            require("may have 4" in error["message"], f"what is allowed: {error}")
        refused(s, 400, "prompt", {"prompt": ["x"] * 5, "max_tokens": 1})
        refused(s, 400, "n", {"messages": [{"role": "user", "content": "x"}], "n": 5}, "/v1/chat/completions")
        connection, response = s.open("/v1/completions", {**LONG, "n": 4, "stream": True})
        require(s.until("texts_waiting", lambda n: n == 2), "two run and two wait")
        other = s.open("/v1/completions", {"prompt": ["x", "y"], "n": 2, "max_tokens": 1, "stream": True})
        require(other[1].status == 200, f"others get in: {other[1].status}")
        for c, r in ((connection, response), other):
            r.close()
            c.close()
    with server("--parallel", "1", "--queue", "0") as s:
        require(s.ask("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200, "the only place")


def running():
    """A text that waits for KV cells does not run."""
    with server("--parallel", "2", "--cells", "4096") as s:
        opened = [s.open("/v1/completions", {"prompt": [40 + i] * 3000, "max_tokens": 1000, "ignore_eos": True, "stream": True}) for i in range(2)]
        opened[0][1].read(10)
        require((s.metric("texts_running"), s.metric("texts_waiting")) == (1, 1), "one runs, one waits")
        for connection, response in opened:
            response.close()
            connection.close()
        require(s.until("texts_cancelled_total", lambda n: n == 2) and s.metric("texts_running") == s.metric("texts_waiting") == 0, "none runs")


def keys(folder):
    (folder / "keys").write_text("first-key\n\nsecond-key\r\n")
    with server("--api-key-file", folder / "keys", "--origin", "https://example.org,http://localhost:1") as s:
        for headers in ({}, {"Authorization": "first-key"}, *({"Authorization": f"Bearer {key}"} for key in ("", "first-kez", "first-keyy", "first-ke", "first-key\tsecond-key")), {"X-Api-Key": "first-kez"}, {"X-Api-Key": ""}, {"X-Api-Key": "first-key", "Authorization": "Bearer x"}):
            for path, body in (("/v1/models", None), ("/v1/completions", {"prompt": "x"}), ("/metrics", None), ("/nothing", None)):
                error, _ = refused(s, 401, None, body, path, headers=headers)
                require(error["code"] == "invalid_api_key", f"a key is needed: {error}")
        require(s.ask("/health")[0] == 200 == s.ask("/")[0], "health and the page need no key")
        for key in ("first-key", "second-key"):
            for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}, {"Authorization": f"BEARER {key}"}, {"X-Api-Key": key}, {"x-api-key": key, "Authorization": "Basic x"}):
                require(s.ask("/v1/models", headers=headers)[0] == 200, f"the key {headers}")
        key = {"Authorization": "Bearer first-key"}
        for origin in ("https://example.com", "https://example.org.evil", "null", "*"):
            for path, method in (("/health", "GET"), ("/v1/completions", "OPTIONS")):
                error, response = refused(s, 403, None, None, path, method=method, headers={**key, "Origin": origin})
                require(response.getheader("Access-Control-Allow-Origin") is None, "no permission")
        for origin in ("https://example.org", "http://localhost:1"):
            status, _, response = s.ask("/health", headers={"Origin": origin})
            require(status == 200 and response.getheader("Access-Control-Allow-Origin") == origin, f"the origin {origin}")
            status, _, response = s.ask("/v1/completions", method="OPTIONS", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
            require(status == 204 and "Authorization" in response.getheader("Access-Control-Allow-Headers"), f"a preflight: {status}")
    for options in ((), ("--host-name", "big.example.org,other")):
        with server(*options) as s:
            for path in ("/", "/health", "/metrics", "/v1/completions"):  # a page whose name has this machine's address
                for host in ("example.org", f"example.org:{s.port}", "127.0.0.1.example.org", "[::1.example.org]", "localhost.", "999.0.0.1", "big", "example.org,other"):
                    error, _ = refused(s, 403, None, None, path, headers={"Host": host, "Origin": f"http://{host}"})
                    require(error["code"] == "host_not_allowed", f"the host {host}: {error}")
            for host in (f"127.0.0.1:{s.port}", "LocalHost", "[::1]:1", *("other:1", "big.example.org")[:2 * len(options)]):
                require(s.ask("/health", headers={"Host": host})[0] == s.ask("/health", headers={"Host": host, "Origin": f"http://{host}"})[0] == 200, f"the host {host}")
                for origin in ("https://example.org", "null", f"http://{host}1"):
                    error, _ = refused(s, 403, None, None, "/health", headers={"Host": host, "Origin": origin})
                    require(error["code"] == "origin_not_allowed", f"the origin {origin}: {error}")
    with server("--host", "0.0.0.0") as s:
        require(s.ask("/health", headers={"Host": "example.org"})[0] == 200, "names of other machines' servers are not known")
        refused(s, 403, None, None, "/health", headers={"Host": "example.org", "Origin": "http://example.org"})
    for text in ("", "\n\n"):
        (folder / "keys").write_text(text)
        done = subprocess.run([TOOL, "serve", "-m", MODEL, "--port", "0", "--api-key-file", folder / "keys"], capture_output=True, timeout=WAIT, check=False)
        require(done.returncode == 1 and b"it needs a key" in done.stderr, "a file without keys", done)


def owners(folder):
    """A client with one key learns nothing of what clients with other keys have asked, also after a restart."""
    (folder / "keys").write_text("alice\nmallory\n")
    asked = "The password of the vault is 4711."
    options = ("--api-key-file", folder / "keys", "--prefix-file", folder / "prefixes")

    def kept(s, key, prompt):
        answer = s.ask("/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0}, headers={"Authorization": f"Bearer {key}"})[1]
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"]
    with server(*options) as s:
        require(kept(s, "alice", asked)[0] == 0, "a new prompt")
        theirs = kept(s, "mallory", asked + " x")
        own = kept(s, "alice", asked + " x")
        require(theirs[0] == 0 < own[0] and theirs[1] == own[1], f"of another key and of the same: {theirs}, {own}")
        other = s.ask("/v1/completions", {"prompt": asked + " x", "max_tokens": 1, "temperature": 0}, headers={"X-Api-Key": "alice"})[1]
        require(other["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "the same key in the other header")
    with server(*options) as s:
        require(kept(s, "alice", asked + " y")[0] == own[0] and kept(s, "mallory", asked + " y")[0] > 0, "their own are in the file")
    (folder / "keys").write_text("bob\nalice\n")  # another place in the file is no other key
    with server(*options) as s:
        require((kept(s, "bob", asked + " z")[0], kept(s, "alice", asked + " z")[0]) == (0, own[0]), "other keys")
    with server(*options[2:]) as s:
        require([kept(s, key, asked)[0] > 0 for key in ("", "x")] == [False, True], "without keys there is one cache")


# ---- Clients and signals ----


def gone():
    """What clients no longer wait for ends."""
    with server("--parallel", "2") as s:
        for stream, stray in ((True, b""), (False, b""), (False, b"\r\n")):
            before = s.metric("texts_cancelled_total"), s.metric("generated_tokens_total")
            connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
            connection.request("POST", "/v1/completions", json.dumps({**LONG, "n": 3, "stream": stream}))
            require(s.until("generated_tokens_total", lambda n: n > before[1]) and s.metric("texts_waiting") == 1, "it runs")
            if stream:
                connection.getresponse().read(100)
            connection.sock.sendall(stray)  # bytes that nobody reads do not hide the end
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            require(s.until("texts_cancelled_total", lambda n: n == before[0] + 3), f"cancelled, stream {stream} {stray}")
            require(s.metric("texts_running") == 0 and s.metric("generated_tokens_total") - before[1] < 3 * LONG["max_tokens"], "before its end")
    with server("--parallel", "1", "--step", "4", "--spec", "off") as s:  # also while its prompt is read
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": list(range(40, 2040)) * 2}))
        require(s.until("prompt_tokens_total", lambda n: n > 0), "the prompt is read")
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        require(s.until("texts_cancelled_total", lambda n: n == 1) and s.metric("prompt_tokens_total") < 4000, "cancelled in its prompt")
        size = []
        for _ in range(3):  # memory does not grow
            for i in range(10 if BRIEF else 100):
                connection, response = s.open("/v1/completions", {**LONG, "stop": " ", "stream": True})
                response.read(10 if i % 3 else None)
                response.close()
                connection.close()
            status = open(f"/proc/{s.process.pid}/status", encoding="ascii").read()
            size.append(int(status.split("VmRSS:")[1].split()[0]))
        require(BRIEF or size[2] < size[1] + 1024, f"memory grows: {size} KiB")


def trickle(s, begin, ended):
    """Sends a byte every 0.3 seconds, which is within the time-out, and notes when the server ends that."""
    with socket.create_connection(("127.0.0.1", s.port), timeout=0.3) as c:
        start = time.monotonic()
        c.sendall(begin)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - start < WAIT:
                c.sendall(b"x")
                with contextlib.suppress(TimeoutError):
                    if not c.recv(1000):
                        break
        ended.append(time.monotonic() - start)


def slow():
    """Clients that neither send nor receive are disconnected; those that wait are not. So are those that send too slowly."""
    with server("--timeout", "1", "--parallel", "2", "--queue", "100") as s:
        ended = []
        slowly = [threading.Thread(target=trickle, args=(s, begin, ended)) for begin in (b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ", b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", b"GET /")]
        for thread in slowly:
            thread.start()
        silent = socket.create_connection(("127.0.0.1", s.port), timeout=WAIT)
        silent.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(WAIT)
        deaf.connect(("127.0.0.1", s.port))
        body = json.dumps({**LONG, "max_tokens": 2000, "n": 20, "stream": True}).encode()
        deaf.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        begin = time.monotonic()
        patient, streamed = s.ask("/v1/completions", {**LONG, "max_tokens": 300}), s.events("/v1/completions", {**LONG, "max_tokens": 300})
        require(time.monotonic() - begin > 1 and patient[0] == 200 and patient[1]["usage"]["completion_tokens"] == 300, "a client that waits")
        require(streamed[1] and joined(streamed[0])[0] == patient[1]["choices"][0]["text"], "a stream that waits")
        require(silent.recv(100) == b"", "a client that does not send")
        require(s.until("texts_waiting", lambda n: n == 0) and s.until("texts_running", lambda n: n == 0), "a client that does not receive")
        time.sleep(1.5)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while more := deaf.recv(1 << 20):
                got += more
        for thread in slowly:
            thread.join()
        require(len(ended) == 3 and min(ended) > 9 and max(ended) < WAIT, f"clients that send slowly: after {ended} s")
        require(b"[DONE]" not in got and got.startswith(b"HTTP/1.1 200"), f"a client that does not receive: {len(got)} bytes")


def drains():
    """The first signal finishes what runs, the second ends the server."""
    for number in (signal.SIGTERM, signal.SIGINT):
        s = Server("--parallel", "1")
        expected, short = (s.text({**LONG, "max_tokens": n}) for n in (2000, 500))
        connection, response = s.open("/v1/completions", {**LONG, "max_tokens": 2000, "stream": True})
        kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
        kept.request("GET", "/health")
        kept.getresponse().read()
        require(s.until("texts_running", lambda n: n == 1), "one runs")
        waiting = threading.Thread(target=lambda: answers.append(s.text({**LONG, "max_tokens": 500})))
        answers = []
        waiting.start()
        require(s.until("texts_waiting", lambda n: n == 1), "one waits")
        s.process.send_signal(number)
        while "finishing" not in s.process.stderr.readline():
            pass
        with contextlib.suppress(OSError):
            kept.request("POST", "/v1/completions", json.dumps({"prompt": "x"}))
            require(kept.getresponse().status == 503, "no new requests")
        lines = [line for line in response.read().decode().split("\n") if line]
        text = joined([json.loads(line[6:]) for line in lines[:-1]])[0]
        waiting.join()
        require(lines[-1] == "data: [DONE]" and text == expected and answers == [short], "what runs and waits is finished")
        connection.close()
        kept.close()
        require(s.process.wait(WAIT) == -number, f"the end by signal {number}")
        with socket.socket() as probe:
            require(probe.connect_ex(("127.0.0.1", s.port)) != 0, "nobody listens")
    s = Server("--parallel", "1")
    connection, response = s.open("/v1/completions", {**LONG, "n": 30, "stream": True})
    s.process.send_signal(signal.SIGTERM)
    while "finishing" not in s.process.stderr.readline():  # else both signals may come as one
        pass
    s.process.send_signal(signal.SIGTERM)
    require(s.process.wait(WAIT) == -signal.SIGTERM and b"[DONE]" not in response.fp.read(), "a second signal ends at once")
    connection.close()


def command_line():
    for arguments, says, status in (((), "which model", 2), (("-m", MODEL, "--port", "70000"), "--port is 70000", 2), (("-m", MODEL, "--parallel", "0"), "--parallel is 0", 2), (("-m", MODEL, "--queue", "-1"), "--queue is -1", 2),
                                    (("-m", MODEL, "--prefix-interval", "9", "--prefix-cache", "0"), "need a --prefix-cache above 0", 2), (("-m", MODEL, "--prefix-file", "x", "--prefix-cache", "0"), "need a --prefix-cache above 0", 2), (("-m", "nothing"), "gdn serve: there is no file nothing", 1),
                                    (("-m", MODEL, "--host", "256.1.1.1"), "--host 256.1.1.1", 1), (("-m", MODEL, "--api-key-file", "nothing"), "nothing", 1)):
        done = subprocess.run([TOOL, "serve", *arguments], capture_output=True, timeout=WAIT, check=False)
        require(done.returncode == status and says in done.stderr.decode() and b"gdn run" not in done.stderr, f"gdn serve {arguments}", done)
    for foreign, says in (("-ngl", "--backend chooses"), ("-fa", "not needed"), ("--jinja", "not needed"), ("-ctk", "--kv"), ("--cache-type-v", "--kv"), ("-np", "--parallel"), ("--mmproj", "not supported"), ("--ctx-size", "--ctx"), ("--batch-size=9", "--step")):
        for command in ("serve", "run"):
            done = subprocess.run([TOOL, command, foreign, "1"], capture_output=True, timeout=WAIT, check=False)
            require(done.returncode == 2 and f"unknown option '{foreign.split('=')[0]}': " in done.stderr.decode() and says in done.stderr.decode(), f"gdn {command} {foreign}", done)
    with server() as s:
        done = subprocess.run([TOOL, "serve", "-m", MODEL, "--port", str(s.port)], capture_output=True, timeout=WAIT, check=False)
        require(done.returncode == 1 and b"cannot listen at 127.0.0.1" in done.stderr, "a port that is taken", done)


def usual_cache():
    """Without --prefix-cache there is one, and 0 is none."""
    hello = {"messages": [{"role": "user", "content": PROMPT * 20}], "max_tokens": 1}
    for options, found in (((), True), (("--prefix-cache", "0"), False)):
        with server(*options, settings=()) as s:
            kept = [s.ask("/v1/chat/completions", hello)[1]["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)]
        require(kept[0] == 0 and (kept[1] > 50) == found, f"{options}: tokens found {kept}")


def restart(folder):
    body = {"prompt": PROMPT + " God created the heaven and the earth." * 8 + " And", "max_tokens": 8, "logprobs": 1}
    for kv in ("f16", "q8_0"):
        file = folder / kv
        with server("--kv", kv, "--prefix-file", file) as s:
            first = s.ask("/v1/completions", body)[1]
        alone = subprocess.run([TOOL, "run", "-m", MODEL, "-p", body["prompt"], "-n", "8", "--kv", kv], capture_output=True, timeout=WAIT, check=True)
        require(len(first["choices"][0]["text"]) > 8 and first["choices"][0]["text"] + "\n" == alone.stdout.decode(), f"--kv {kv}: the text of gdn run")
        written = file.read_bytes()
        require(first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0 and len(written) > 1000, "the file is written at the end")
        s = Server("--kv", kv, "--prefix-file", file)
        second = s.ask("/v1/completions", body)[1]
        require(second["choices"] == first["choices"], "the same text and log-probabilities after a restart")
        require(second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16, f"kept tokens: {second['usage']}")
        s.process.kill()
        s.process.communicate()
        require(file.read_bytes() == written, "a server that is killed leaves the file")
    (folder / "gone").mkdir()
    s = Server("--prefix-file", folder / "gone/kept")
    s.text(body)
    shutil.rmtree(folder / "gone") # with the lock
    code, said = s.end()
    require(code == 1 and "cannot write" in said, f"a last save that fails is the exit status: {code} {said}")
    file.write_bytes(written[:-1])
    done = subprocess.run([TOOL, "serve", "-m", MODEL, "--port", "0", *SETTINGS, "--kv", kv, "--prefix-file", str(file)], capture_output=True, timeout=WAIT)
    require(done.returncode == 1 and b"the file stays as it is" in done.stderr and file.read_bytes() == written[:-1], f"a cut file: {done}")


run_tests(restart, usual_cache, command_line, endpoints, names, same_as_run, seeds, together, refusals, no_utf8, full, fair, running, keys, owners, gone, slow, drains)

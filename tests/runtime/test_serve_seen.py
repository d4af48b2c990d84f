#!/usr/bin/env python3
"""gdn serve as seen from outside, and its defaults: the log, the metrics, what it says at its start, the context, samplers.

    test_serve_seen.py GDN FOLDER [--brief]
"""
import collections
import json
import pathlib
import re
import subprocess

from gguf_file import File, value
from server import PROMPT, Server, server
from tool import MODEL, require, run_tests, TOOL

LONG = {"prompt": PROMPT, "max_tokens": 3000, "ignore_eos": True}
CHAT = "/v1/chat/completions"
SAY = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 12}


def served(*arguments):
    """gdn serve that ends by itself."""
    return subprocess.run([TOOL, "serve", *map(str, arguments)], capture_output=True, timeout=60, check=False)


def log_as_text():
    """--log-requests: a line for each request, with nothing that the client wrote."""
    s = Server("--log-requests", "--parallel", "1", "--queue", "1")
    body = {"prompt": PROMPT * 8, "max_tokens": 5, "ignore_eos": True}
    usages = [s.ask("/v1/completions", body)[1] for _ in range(2)]
    s.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "secret"}], "max_tokens": 3, "n": 1, "seed": 1})
    s.ask("/health")
    s.ask("/v1/completions", {"prompt": "secret", "max_tokens": "x"})
    s.ask("/secret%0asecret")
    streams = [s.open("/v1/completions", {**LONG, "stream": True}) for _ in range(2)]
    require(s.until("texts_waiting", lambda n: n == 1) and s.ask("/v1/completions", body)[0] == 429, "a full queue")
    for connection, response in streams:
        response.close()
        connection.close()
    require(s.until("texts_cancelled_total", lambda n: n == 2), "clients that go away")
    lines = [line for line in s.end()[1].splitlines() if " tokens read, " in line and "/metrics" not in line]
    parts = [re.fullmatch(r"gdn serve: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\S+) (\S+) (\d+): (\d+) tokens read, (\d+) kept, (\d+) written, (\d+\.\d{3}) s(, cut)?", line) for line in lines]
    require(all(parts) and len(parts) == 9 and not any("secret" in line for line in lines), f"the lines: {lines}")
    if not all(parts) or len(parts) < 9:
        return
    # A line may come after that of the next request.
    kinds = {("/completions", "200", None): 2, ("/chat/completions", "200", None): 1, ("/health", "200", None): 1, ("/completions", "400", None): 1,
             ("-", "404", None): 1, ("/completions", "429", None): 1, ("/completions", "200", ", cut"): 2}
    require(collections.Counter((p[1], p[3], p[8]) for p in parts) == kinds, f"endpoints, status, and what is cut: {lines}")
    of = {p[2]: p for p in parts}
    for answer in usages:
        kept, p = answer["usage"]["prompt_tokens_details"]["cached_tokens"], of.get(answer["id"])
        require(p and [int(p[i]) for i in (4, 5, 6)] == [answer["usage"]["prompt_tokens"] - kept, kept, 5], f"{answer}: {lines}")
    require(kept > 0 and all((p[2] == "-") == (p[3] != "200" or p[1] == "/health") for p in parts), f"numbers: {lines}")
    require(all(p[6] == "3" and p[2].startswith("chatcmpl-") for p in parts if p[1] == "/chat/completions"), f"tokens of the chat: {lines}")
    s = Server()
    s.ask("/health")
    require("tokens read" not in s.end()[1], "no line without the option")


def log_as_json():
    """--log-format json: the same as objects, with the numbers of the answer."""
    s = Server("--log-format", "json")
    answer = s.ask(CHAT, SAY)[1]
    s.ask("/v1/completions", {"prompt": 5})
    lines = [json.loads(line) for line in s.end()[1].splitlines() if line.startswith("{")]
    keys = {"time", "endpoint", "id", "status", "tokens_read", "tokens_kept", "tokens_written", "seconds", "cut"}
    require(len(lines) == 2 and all(set(line) == keys for line in lines), f"the lines: {lines}")
    of = {line["endpoint"]: line for line in lines}
    mine = of.get("/chat/completions", {})
    require(mine.get("id") == answer["id"] and mine["tokens_read"] + mine["tokens_kept"] == answer["usage"]["prompt_tokens"] and mine["tokens_written"] == answer["usage"]["completion_tokens"]
            and mine["status"] == 200 and mine["cut"] is False and of["/completions"]["status"] == 400, f"numbers: {lines}")
    done = served("-m", MODEL, "--log-format", "xml")
    require(done.returncode == 2 and b"--log-format is 'xml'; text and json are allowed" in done.stderr, "another format", done)


def metrics():
    """Each metric has HELP and a type; histograms are sums of what was answered."""
    with server() as s:
        answers = [s.ask("/v1/completions", {"prompt": PROMPT, "max_tokens": n, "ignore_eos": True, "n": 2})[1] for n in (1, 400)]
        s.ask("/v1/completions", {"prompt": 5})
        s.ask("/nothing")
        lines = s.ask("/metrics")[1].splitlines()
        kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
        helped = {line.split()[2] for line in lines if line.startswith("# HELP") and len(line.split()) > 4}
        values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line[0] != "#"}
        names = {re.sub("_(bucket|sum|count)$", "", name) if re.sub("_(bucket|sum|count)$", "", name) in kinds else name for name in (re.sub("{.*", "", v) for v in values)}
        require(names == set(kinds) == helped and set(kinds.values()) == {"counter", "gauge", "histogram"}, f"types and help: {names ^ set(kinds)} {helped ^ set(kinds)}")
        answered = {key: n for key, n in values.items() if key.startswith("gdn_http_requests_total")}
        wanted = {f'gdn_http_requests_total{{endpoint="{e}",status="{n}"}}': of for e, n, of in (("/completions", 200, 2), ("/completions", 400, 1), ("-", 404, 1))}
        require(answered == wanted, f"answers by endpoint and status: {answered}")
        texts = {"time_to_first_token_seconds": 4, "request_time_per_output_token_seconds": 2, "e2e_request_latency_seconds": 4, "request_queue_time_seconds": 4, "request_prompt_tokens": 4, "request_generation_tokens": 4}
        require({name for name, kind in kinds.items() if kind == "histogram"} == {f"gdn_{name}" for name in texts}, f"histograms: {kinds}")
        for name, n in texts.items():
            buckets = [v for key, v in values.items() if key.startswith(f"gdn_{name}_bucket")]
            require(len(buckets) == 20 and buckets == sorted(buckets) and buckets[-1] == values[f"gdn_{name}_count"] == n, f"{name}: {buckets}")
        require(values["gdn_request_generation_tokens_sum"] == sum(a["usage"]["completion_tokens"] for a in answers) == 802, f"tokens of texts: {values}")
        require(values["gdn_request_prompt_tokens_sum"] == 2 * sum(a["usage"]["prompt_tokens"] for a in answers), f"tokens of prompts: {values}")
        require(values['gdn_request_generation_tokens_bucket{le="1"}'] == 2 and values['gdn_request_generation_tokens_bucket{le="200"}'] == 2 and values['gdn_request_generation_tokens_bucket{le="500"}'] == 4, f"buckets: {values}")
        first, whole = values["gdn_time_to_first_token_seconds_sum"], values["gdn_e2e_request_latency_seconds_sum"]
        rest = values["gdn_request_time_per_output_token_seconds_sum"]
        require(0 < 2 * first < whole and whole / 2 < 399 * rest < whole, f"times: {first} {rest} {whole}")


def defaults():
    """Samplers of the command line are the requests' defaults, and the context is the model's."""
    ask, chat = {"prompt": PROMPT, "seed": 5, "max_tokens": 20}, {**SAY, "seed": 5}
    given = {"temperature": 0.7, "top_k": 30, "top_p": 0.9, "min_p": 0.02, "repeat_penalty": 1.2, "repeat_last_n": 20, "presence_penalty": 0.1, "frequency_penalty": 0.2}
    with server() as plain:
        wanted = plain.text({**ask, **given}), plain.ask(CHAT, {**chat, **given})[1]["choices"], plain.ask(CHAT, {**chat, "temperature": 0.7})[1]["choices"]
        other = plain.text(ask)
    options = [x for name, value in given.items() for x in (f"--{name.replace('_last_n', '_last').replace('temperature', 'temp').replace('_', '-')}", value)]
    with server(*options, settings=()) as s:
        got = s.text(ask), s.ask(CHAT, chat)[1]["choices"]
        require(got == wanted[:2] and wanted[0] != other, f"samplers are defaults: {got}, not {wanted}")
        require(s.text({**ask, "temperature": 0, "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0}) == other, "requests have others")
        require(s.ask("/props")[1]["default_generation_settings"]["n_ctx"] == 2048, "the model's context")
    with server("--temp", 0.7, settings=()) as s:
        require(s.ask(CHAT, chat)[1]["choices"] == wanted[2], "the model file's parameters beside one that is given")
    done = served("-m", MODEL, "--temp", 9000)
    require(done.returncode == 2 and b"temperature is 9000" in done.stderr, "a wrong one", done)


def start(folder):
    """The first lines say what is served. Where memory is short there are fewer prefixes, then fewer cells, then less context."""
    large = File(pathlib.Path(MODEL)).having({"qwen35.context_length": value(1 << 18)}).write(folder / "large.gguf")
    for mib, least, most in ((4000, 1 << 18, 1 << 18), (1000, 1 << 18, 1 << 18), (300, 1 << 12, 1 << 17)):
        s = Server("--memory", mib, model=large, settings=())
        said = s.end()[1]
        context, cells = map(int, re.search(r"context (\d+), 4 texts at once in (\d+) cells", said).groups())
        prefixes = int(re.search(r"note: (\d+) prefixes are kept", said)[1])
        used = sum(map(int, re.search(r"weights (\d+), KV cells (\d+), prefixes (\d+), states and buffers (\d+)", said).groups()))
        require(least <= context <= most and (cells == 4 * context if mib == 4000 else cells == context if mib == 300 else context <= cells < 4 * context), f"{mib} MiB: {said}")
        require(used < 0.75 * mib + 4 and (mib == 4000) == (prefixes == 64), f"{mib} MiB: {used} are used: {said}")
    kept = []
    for options in ((), ("--memory", 60)):
        s = Server(*options, settings=())
        said = s.end()[1]
        require(re.search(r"note: \S+\.gguf \(qwen35\), context 2048, 4 texts at once in 8192 cells, 1 threads, drafts mtp\n", said) and re.search(r"MiB of memory: weights \d+, KV cells \d+, prefixes \d+, states and buffers \d+\n", said), f"the start: {said}")
        kept.append(int(re.search(r"note: (\d+) prefixes are kept at most", said)[1]))
    require(kept[0] == 64 and 4 <= kept[1] < 64, f"prefixes: {kept}")
    done = served("--max-model-len", 4)
    require(b"the name is --ctx" in done.stderr, "a hint for vLLM's names", done)


run_tests(log_as_text, log_as_json, metrics, defaults, start)

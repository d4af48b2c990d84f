#!/usr/bin/env python3
"""gdn serve under load: thousands of random requests of all interfaces, a third of which their clients cut.

    serve_load.py GDN [--requests N] [--clients N] [--seed N] [--model FILE]

Each answer that comes whole equals that of the same request alone. Memory does not grow after the first tenth, and the server ends well.
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("gdn", help="the tool")
parser.add_argument("--requests", type=int, default=10000)
parser.add_argument("--clients", type=int, default=16, help="at once")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--model", default=str(pathlib.Path(__file__).parents[2] / "models/kjv-small-q8_0.gguf"))
given = parser.parse_args()
sys.argv = [sys.argv[0], given.gdn, str(pathlib.Path(__file__).parent)]

from server import WAIT, Server  # pylint: disable=wrong-import-position  # it reads sys.argv
from tool import failures, require  # pylint: disable=wrong-import-position

TOOLS = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["name", "n"]}
CALLED = [{"name": "look", "parameters": SCHEMA}, {"name": "now", "parameters": {"type": "object", "properties": {}}}]
FORM = "{% if tools %}{{ tools|tojson }}\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"


def valid(draw):
    """One of a few hundred requests, so that each comes often."""
    words = " ".join(draw.choice(("In the beginning", "Moses", "the LORD", "said unto", "and he went", "a great", "Blessed are")) for _ in range(draw.choice((1, 2, 30))))
    body = {"max_tokens": draw.choice((1, 8, 40)), "temperature": draw.choice((0, 1, 1.5)), "seed": draw.randrange(3)}
    if draw.random() < 0.3:
        body["n"] = draw.choice((2, 3))
    if draw.random() < 0.3:
        body["stop"] = draw.choice((" the", ["LORD", ","]))
    if draw.random() < 0.5:
        if draw.random() < 0.3:
            body["logprobs"] = draw.choice((0, 5))
        return "/v1/completions", {"prompt": words, **body}
    if draw.random() < 0.3:
        return other_interface(draw, words, body)
    if draw.random() < 0.3:
        body |= {"logprobs": True, "top_logprobs": 3}
    structured = draw.randrange(5)
    if structured == 0 and "stop" not in body:
        body |= {"max_tokens": 120, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
    elif structured == 1:
        body |= {"max_tokens": 150, "tools": [{"type": "function", "function": {**tool, "strict": True}} for tool in CALLED], "tool_choice": draw.choice(("required", "auto"))}
    elif structured == 2:
        body |= {"tools": TOOLS}
    elif structured == 3:
        body |= {"min_tokens": 12, "max_tokens": 30, "logit_bias": {"300": 2}}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": words}], **body}


def other_interface(draw, words, body):
    """The same as a request of /v1/responses or /v1/messages."""
    most, forced = max(body["max_tokens"], 2), draw.random() < 0.4
    body = {"temperature": min(body["temperature"], 1), "seed": body["seed"]}
    if draw.random() < 0.5:
        tools = {"tools": [{"type": "function", **tool} for tool in CALLED], "tool_choice": "required"} if forced else {}
        return "/v1/responses", {"input": words, "max_output_tokens": 150 if forced else most, **body, **tools}
    tools = {"tools": [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in CALLED], "tool_choice": {"type": "any"}} if forced else {}
    return "/v1/messages", {"messages": [{"role": "user", "content": words}], "max_tokens": 150 if forced else most, **body, **tools}


def damaged(draw, body):
    body = bytearray(body)
    kind = draw.randrange(3)
    if kind == 0:
        return draw.randbytes(draw.randrange(2000))
    if kind == 1:
        return bytes(body[:draw.randrange(len(body))])
    for _ in range(draw.randrange(1, 6)):
        body[draw.randrange(len(body))] = draw.choice(b'{}[]",:0x\\\x00\xff')
    return bytes(body)


def texts_of(path, answer):
    """What does not depend on the time or on other requests: texts, calls, reasons and log-probabilities."""
    if answer.get("error"):
        return answer
    if path == "/v1/responses":
        items = [(i["type"], i.get("name"), i.get("arguments"), [p["text"] for p in i.get("content", [])]) for i in answer["output"]]
        return [items, answer["status"], answer["usage"]["output_tokens"]]
    if path == "/v1/messages":
        return [[{k: v for k, v in block.items() if k != "id"} for block in answer["content"]], answer["stop_reason"], answer["usage"]["output_tokens"]]
    return [{"text": c["text"] if "text" in c else c["message"]["content"] or "", "reason": c["finish_reason"],
             "calls": [tuple(call["function"].values()) for call in c.get("message", {}).get("tool_calls", [])],
             "logprobs": c["logprobs"] if c["logprobs"] and any(c["logprobs"].values()) else None} for c in answer["choices"]]


def joined(path, text):
    """The same of a stream; None if it has no end."""
    lines = [line.split("\n")[-1][6:] for line in text.split("\n\n") if line and line[0] != ":"]
    chats = "completions" in path
    if chats and lines[-1:] != ["[DONE]"]:
        return None
    events = [json.loads(line) for line in lines[:len(lines) - chats]]
    failed = [event for event in events if event.get("error")]
    if failed or not events:
        return failed[0] if failed else None
    if path == "/v1/responses":
        return texts_of(path, events[-1]["response"]) if events[-1]["type"] in ("response.completed", "response.incomplete") else None
    return joined_blocks(path, events) if path == "/v1/messages" else joined_choices(path, events)


def joined_blocks(path, events):
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"], input="") if event["content_block"]["type"] == "tool_use" else dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            for key, value in event["delta"].items():
                to = "input" if key == "partial_json" else key
                if key != "type":
                    blocks[-1][to] = blocks[-1].get(to, "") + value
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    last = [event for event in events if event["type"] == "message_delta"]
    if events[-1]["type"] != "message_stop" or not last:
        return None
    return texts_of(path, {"content": blocks, "stop_reason": last[-1]["delta"]["stop_reason"], "usage": last[-1]["usage"]})


def joined_choices(path, events):
    made = {}
    for choice in (choice for event in events for choice in event["choices"]):
        of = made.setdefault(choice["index"], {"text": "", "reason": None, "calls": {}, "logprobs": []})
        of["text"] += (choice["delta"].get("content") or "") if "chat" in path else choice["text"]
        of["reason"] = choice["finish_reason"] or of["reason"]
        for call in choice.get("delta", {}).get("tool_calls", []):
            to = of["calls"].setdefault(call["index"], {"name": "", "arguments": ""})
            for key, value in call["function"].items():
                to[key] += value
        if choice["logprobs"]:
            of["logprobs"].append(choice["logprobs"])
    for of in made.values():
        of["calls"] = [tuple(of["calls"][i].values()) for i in sorted(of["calls"])]
        of["logprobs"] = {key: [x for part in of["logprobs"] for x in part[key]] for key in (of["logprobs"] or [{}])[0]} or None
    return [made[i] for i in sorted(made)]


class Load:
    def __init__(self, server):
        self.server, self.lock, self.expected, self.count, self.sizes, self.done = server, threading.Lock(), {}, {}, [], 0

    def note(self, what):
        with self.lock:
            self.count[what] = self.count.get(what, 0) + 1
            self.done += 1
            if self.done % max(given.requests // 20, 1) == 0:
                status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text(encoding="ascii")
                self.sizes.append(int(status.split("VmRSS:")[1].split()[0]))
                print(f"{self.done} requests, VmRSS {self.sizes[-1]} KiB", flush=True)

    def one(self, draw):
        path, body = valid(draw)
        stream, cuts, damages = draw.random() < 0.5, draw.random() < 1 / 3, draw.random() < 0.3
        text = json.dumps({**body, **({"stream": True} if stream else {})}).encode()
        sent = damaged(draw, text) if damages else text
        if cuts:
            return self.cut(draw, path, sent)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT)
        connection.request("POST", path, sent)
        response = connection.getresponse()
        status, got = response.status, response.read().decode()
        connection.close()
        if damages and sent != text:
            require(status in (200, 400, 404), f"a damaged request: {status} {sent}")
            return f"damaged, {status}"
        if status == 429:
            return "refused, 429"
        require(status == 200, f"{path} {body}: {status} {got[:300]}")
        expected = self.expected[path + json.dumps(body)] if path + json.dumps(body) in self.expected else None
        answer = texts_of(path, json.loads(got)) if not stream else joined(path, got)
        if expected is None:
            with self.lock:
                expected = self.expected.setdefault(path + json.dumps(body), (path, body, answer))
        require(answer == expected[2], f"another answer: {path} {body}: {answer}, not {expected[2]}")
        return "streamed" if stream else "whole"

    def cut(self, draw, path, sent):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=WAIT) as c, contextlib.suppress(ConnectionError):
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
            whole_request = head + sent
            if draw.random() < 0.4:  # in the request
                c.sendall(whole_request[:draw.randrange(len(whole_request))])
            else:  # in the answer
                c.sendall(whole_request)
                time.sleep(draw.random() * 0.05)
                c.settimeout(draw.random() * 0.05 + 0.001)
                with contextlib.suppress(TimeoutError):
                    c.recv(draw.choice((1, 100, 10000)))
        return "cut"

    def client(self, number):
        draw = random.Random(f"{given.seed} {number}")
        for _ in range(given.requests // given.clients):
            try:
                what = self.one(draw)
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                what = f"failed: {error!r}"
                require(False, what)
            self.note(what)


def main():
    begin = time.monotonic()
    form = pathlib.Path(tempfile.gettempdir()) / f"serve_load_{time.time_ns()}.jinja"
    form.write_text(FORM)
    server = Server("--parallel", "6", "--queue", "60", "--chat-template", form, model=given.model)
    load = Load(server)
    threads = [threading.Thread(target=load.client, args=(i,)) for i in range(given.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    require(server.process.poll() is None, "the server runs")
    require(server.until("texts_running", lambda n: n == 0) and server.until("texts_waiting", lambda n: n == 0) and server.metric("texts_failed_total") == 0, "nothing is left")
    metrics = {name: server.metric(name) for name in ("requests_total", "refused_total", "texts_cancelled_total", "generated_tokens_total", "preemptions_total", "prefix_tokens_total")}
    for path, body, answer in list(load.expected.values()):  # the same alone
        got = texts_of(path, server.ask(path, body)[1])
        require(got == answer, f"alone: {path} {body}: {got}, not {answer}")
    first = load.sizes[1] if len(load.sizes) > 1 else 0
    require(not first or max(load.sizes[2:]) < first * 1.05 + 2048, f"memory grows after the first tenth: {load.sizes} KiB")
    code, said = server.end()
    require(code == -15 and "anitizer" not in said and "runtime error" not in said, f"the end: {code} {said}")
    form.unlink()
    print(f"{load.done} requests in {time.monotonic() - begin:.0f} s: {dict(sorted(load.count.items()))}; {len(load.expected)} kinds were compared with themselves alone")
    print(f"{metrics}; VmRSS {load.sizes} KiB")
    print(f"{len(failures)} failed")
    sys.exit(bool(failures))


main()

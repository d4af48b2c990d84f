#!/usr/bin/env python3
"""gdn serve: endpoints, texts, refusals, limits, clients that go away, and signals.

    test_serve.py GDN FOLDER [--brief]   as test_run.py
"""
import base64
import contextlib
import hashlib
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from gguf_file import File, value
from server import SETTINGS, WAIT, Server, server
from tool import BRIEF, MODEL, TOOL, report, require, run_tests

PROMPT = "In the beginning"
LONG = {"prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "temperature": 1}


def ran(*arguments):
    return report("-m", MODEL, "--threads", "1", "--ctx", "4096", *arguments, otherwise={"requests": [{"text": "", "tokens": []}]})["requests"]


def joined(events, index=0, of="text"):
    """The text of a stream's events."""
    choices = [c for e in events for c in e.get("choices", []) if c["index"] == index]
    return "".join((c[of] if of == "text" else c["delta"].get(of, "")) for c in choices), choices[-1]["finish_reason"]


def refused(s, status, param, body, path="/v1/completions", **more):
    got, answer, response = s.ask(path, body, **more)
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    require(got == status and set(error) == {"message", "type", "param", "code"} and error["param"] == param,
            f"{status} for {param}: {got} {str(answer)[:300]}")
    require(not param or param.split(".")[-1].split("[")[0] in error["message"], f"the name of {param}: {error}")
    return error, response


# ---- Texts ----

def endpoints():
    with server("--alias", "small") as s:
        status, models, _ = s.ask("/v1/models")
        require(status == 200 and [m["id"] for m in models["data"]] == ["small"] and models["object"] == "list", f"models: {models}")
        require(s.ask("/health")[:2] == (200, {"status": "ok"}), "health")
        tokens = s.ask("/tokenize", {"content": PROMPT})[1]["tokens"]
        require(len(tokens) == ran("-p", PROMPT, "-n", "1")[0]["prompt_tokens"], f"tokens: {tokens}")
        require(s.ask("/tokenize", {"content": ""})[1] == {"tokens": []}, "no tokens")
        mark = "<|im_end|>"
        require(len(s.ask("/tokenize", {"content": mark, "parse_special": True})[1]["tokens"]) == 1 < len(s.ask("/tokenize", {"content": mark})[1]["tokens"]),
                "special tokens are parsed on request")
        _, answer, _ = s.ask("/v1/completions", {"model": "small", "prompt": PROMPT, "max_tokens": 9, "user": "me"})
        require(answer["object"] == "text_completion" and answer["model"] == "small" and answer["id"].startswith("cmpl-"), f"a completion: {answer}")
        require(answer["usage"]["prompt_tokens"] == len(tokens) and answer["usage"]["completion_tokens"] == 9 and answer["usage"]["total_tokens"] == len(tokens) + 9,
                f"usage: {answer['usage']}")
        require(s.text({"prompt": tokens, "max_tokens": 9}) == answer["choices"][0]["text"] == s.text({"prompt": [PROMPT], "max_tokens": 9}), "prompts as tokens and lists")
        both = s.ask("/v1/completions", {"prompt": [PROMPT, "Blessed are"], "n": 2, "max_tokens": 9, "temperature": 1})[1]["choices"]
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


def turns():
    """A chat's second turn reads its own text alone, and another chat with the same system message not that message."""
    talk = [{"role": "system", "content": "Thou art a prophet, and speakest in verses."}, {"role": "user", "content": "Peace be unto you."}]
    for options in ((), ("--spec", "off"), ("--rollback", "snapshots", "--draft-max", "4")):
        with server(*options, settings=SETTINGS if options else SETTINGS[:-2]) as s: # intervals of 16, and longer than the chat
            def ask(messages):
                answer = s.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 21, "temperature": 0})[1]
                return answer["choices"][0]["message"], answer["usage"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            said, usage, kept = ask(talk)
            require(kept == 0, f"the first turn: {usage}")
            texts = [said["content"]]
            read = usage["total_tokens"] - 1  # the last token of an answer is not decoded
            said, usage, kept = ask([*talk, said, {"role": "user", "content": "And what more?"}])
            require(kept == read, f"{options}: the second turn has {kept} of {read} tokens")
            texts.append(said["content"])
            kept = ask([talk[0], {"role": "user", "content": "Who art thou?"}])[2]
            system = s.ask("/tokenize", {"content": "<|im_start|>system\n" + talk[0]["content"] + "<|im_end|>\n<|im_start|>user\n", "parse_special": True})[1]
            require(kept == len(system["tokens"]), f"{options}: another chat has {kept} of {len(system['tokens'])} tokens")
        with server("--spec", "off", settings=("--ctx", "4096")) as s:
            plain = ask(talk)[0]["content"], ask([*talk, {"role": "assistant", "content": texts[0]}, {"role": "user", "content": "And what more?"}])[0]["content"]
            require(list(plain) == texts, f"{options}: the texts without a cache: {plain}, {texts}")


def same_as_run():
    """A text is that of gdn run with the same parameters, streamed or not."""
    cases = (({}, ()),
             ({"temperature": 0.9, "seed": 7, "top_k": 50, "top_p": 0.9, "min_p": 0.02}, ("--temp", "0.9", "--seed", "7", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.02")),
             ({"temperature": 1.5, "seed": 3}, ("--temp", "1.5", "--seed", "3")),
             ({"repeat_penalty": 1.2, "repeat_last_n": 32, "presence_penalty": 0.5, "frequency_penalty": 0.25},
              ("--repeat-penalty", "1.2", "--repeat-last", "32", "--presence-penalty", "0.5", "--frequency-penalty", "0.25")),
             ({"stop": ["LORD", "\n"]}, ("--stop", "LORD", "--stop", "\n")),
             ({"stop": "house of the LORD, and in"}, ("--stop", "house of the LORD, and in")),
             ({"temperature": 3, "ignore_eos": True}, ("--temp", "3", "--ignore-end")))  # bytes that are not UTF-8
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
        for body, options in (({}, ()), ({"temperature": 0}, ("--temp", "0")), ({"seed": 5, "stop": ","}, ("--seed", "5", "--stop", ","))):
            of_run = ran("--chat", "--system", "Be brief.", "-p", "Who was Moses?", "-n", "40", *options)[0]
            for of, limit in ((messages, "max_tokens"), (parts, "max_completion_tokens")):
                _, answer, _ = s.ask("/v1/chat/completions", {"messages": of, limit: 40, **body})
                choice = answer["choices"][0]
                require(choice["message"]["role"] == "assistant" and choice["message"]["content"].lstrip("\n") == of_run["text"].lstrip("\n") and answer["object"] == "chat.completion",
                        f"chat {body}: {answer}, not {of_run['text']!r}")
                events, done = s.events("/v1/chat/completions", {"messages": of, limit: 40, **body})
                require(done and joined(events, 0, "content") == (choice["message"]["content"], choice["finish_reason"]), f"a streamed chat {body}")
                require(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""} and events[0]["object"] == "chat.completion.chunk", "the first event")


def thinking(folder):
    """Reasoning is apart from the content."""
    template = folder / "template"
    template.write_text("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
                        "<|im_start|>assistant\n{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}")
    ask = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 20, "temperature": 0}
    with server("--chat-template", template) as s:
        message = s.ask("/v1/chat/completions", ask)[1]["choices"][0]["message"]
        require(message["content"] == "" and len(message["reasoning_content"]) > 10, f"an answer that begins with thinking: {message}")
        events, _ = s.events("/v1/chat/completions", ask)
        require(joined(events, 0, "reasoning_content")[0] == message["reasoning_content"] and not joined(events, 0, "content")[0], "streamed thinking")
        off = {**ask, "chat_template_kwargs": {"enable_thinking": False}}
        message = s.ask("/v1/chat/completions", off)[1]["choices"][0]["message"]
        require("reasoning_content" not in message and len(message["content"]) > 10, f"without thinking: {message}")
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "c d e"}, {"role": "user", "content": "f"}]
        used = [s.ask("/v1/chat/completions", {**ask, "messages": [{**turns[0]}, {k: v for k, v in turns[1].items() if k in keys}, turns[2]]})[1]["usage"]["prompt_tokens"]
                for keys in (("role", "content"), ("role", "content", "reasoning_content"))]
        require(used[0] < used[1], f"earlier thinking goes to the template: {used}")
    with server() as s:
        refused(s, 400, "chat_template_kwargs", off, "/v1/chat/completions")


# ---- Tools, variables and log-probabilities ----

TOOLS = [{"type": "function", "function": {"name": "now"}}, {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]
FORM = ("{% if messages[0].content == 'no' %}{{ raise_exception('no') }}{% endif %}{% if tools %}<|im_start|>system\n{{ tools|tojson }}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
        "{% for k, v in c.function.arguments|items %} {{ k }}={{ v }}{% endfor %}</call>{% endfor %}{{ m.tool_call_id }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n{{ note }}")


def speaking(folder, texts, end=None):
    """The model, with other texts for some of its tokens, and another end token."""
    file = File(pathlib.Path(MODEL))
    tokens = file.strings("tokenizer.ggml.tokens")
    for token, text in texts.items():
        tokens[token] = text.replace(" ", "\u0120").replace("\n", "\u010a")
    known = set(tokens)
    merges = [m for m in file.strings("tokenizer.ggml.merges") if known.issuperset((*m.split(" "), m.replace(" ", "")))]
    if end:
        kinds = list(struct.unpack(f"<{len(tokens)}i", file.keys["tokenizer.ggml.token_type"][16:]))
        kinds[end] = 3
        file = file.having({"tokenizer.ggml.token_type": value(kinds), "tokenizer.ggml.eos_token_id": value(end)})
    return file.having({"tokenizer.ggml.tokens": value(tokens), "tokenizer.ggml.merges": value(merges)}).write(folder / "speaking.gguf")


def calls(folder):
    """What the model writes as calls comes back as calls, streamed or not."""
    (folder / "form").write_text(FORM)
    ask = {"messages": [{"role": "user", "content": "Who was Moses?"}], "temperature": 0, "max_tokens": 30}
    prompt = "<|im_start|>system\n" + json.dumps(TOOLS) + "<|im_end|>\n<|im_start|>user\nWho was Moses?<|im_end|>\n<|im_start|>assistant\n"

    def written(s, **more):  # as a completion of the same prompt
        tokens = s.ask("/tokenize", {"content": prompt, "parse_special": True})[1]["tokens"]
        return s.text({**ask, "messages": None, "prompt": tokens, **more})
    tokens = ran("--special", "-p", prompt, "-n", "30")[0]["tokens"]
    first, second, third = [t for i, t in enumerate(tokens) if t > 300 and tokens.count(t) == 1][:3]
    json_call, xml_call = '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n', "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>"
    model = speaking(folder, {first: json_call, second: xml_call, third: "END"})
    with server("--chat-template", folder / "form", model=model) as s:
        text = written(s, stop="END")
        require(text.count(json_call) == text.count(xml_call) == 1 and text.index(json_call) < text.index(xml_call), f"what the model writes: {text!r}")
        for more, reason in (({"stop": "END"}, "tool_calls"), ({"stop": "END", "tool_choice": "auto", "logprobs": True}, "tool_calls"), ({"max_tokens": tokens.index(third)}, "length")):
            _, answer, _ = s.ask("/v1/chat/completions", {**ask, "tools": TOOLS, **more})
            choice = answer["choices"][0]
            require(choice["finish_reason"] == reason and [(c["type"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in choice["message"].get("tool_calls", [])]
                    == [("function", "now", {}), ("function", "weather", {"city": "12", "days": 2})], f"calls {more}: {answer}, of {text!r}")
            require(len({c["id"] for c in choice["message"]["tool_calls"]}) == 2, "their ids differ")
            before, rest = text.split(json_call)
            content = before.rstrip() + rest.replace(xml_call, "").rstrip()
            require((choice["message"]["content"] or "").replace(" ", "").replace("\n", "") == content.replace(" ", "").replace("\n", "") and "tool_call" not in (choice["message"]["content"] or ""), f"the rest is content: {choice}")
            events, done = s.events("/v1/chat/completions", {**ask, "tools": TOOLS, **more})
            require(done and joined(events, 0, "content") == (choice["message"]["content"] or "", reason), f"streamed content {more}")
            deltas = [c for e in events for choice in e["choices"] for c in choice["delta"].get("tool_calls", [])]
            require([d["index"] for d in deltas] == [0, 0, 1, 1] and [d["function"].get("name") for d in deltas] == ["now", None, "weather", None] and all(("id" in d) == (i % 2 == 0) for i, d in enumerate(deltas)), f"the form of streamed calls: {deltas}")
            require([deltas[i]["function"]["arguments"] + deltas[i + 1]["function"]["arguments"] for i in (0, 2)] == [c["function"]["arguments"] for c in choice["message"]["tool_calls"]], "streamed arguments")
            if more.get("logprobs"):
                entries = [t for e in events for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["content"]]
                require(entries == choice["logprobs"]["content"], "all log-probabilities are streamed")
        cut = s.ask("/v1/chat/completions", {**ask, "tools": TOOLS, "max_tokens": tokens.index(first) + 1})[1]["choices"][0]["message"]
        require((cut["content"] or "") == text.split(json_call)[0].rstrip() and len(cut["tool_calls"]) == 1, f"whitespace after the last call: {cut}")
        none = s.ask("/v1/chat/completions", {**ask, "stop": "END", "tools": TOOLS, "tool_choice": "none"})[1]["choices"][0]
        require(none["finish_reason"] != "tool_calls" and "tool_calls" not in none["message"], f"no calls: {none}")
        other = s.ask("/v1/chat/completions", {**ask, "stop": "END", "tools": TOOLS[:1]})[1]["choices"][0]["message"]
        require(xml_call in other["content"] and len(other["tool_calls"]) == 1, f"a call of an unknown tool is content: {other}")


def template_input(folder):
    """Tools, calls, their results and variables are in the prompt as the template writes them."""
    (folder / "form").write_text(FORM)
    chat, user = "/v1/chat/completions", {"role": "user", "content": "a"}

    def used(s, **body):
        status, answer, _ = s.ask(chat, {"messages": [user], "max_tokens": 1, **body})
        require(status == 200, f"{body}: {answer}")
        return answer["usage"]["prompt_tokens"]

    def expected(s, text):
        return len(s.ask("/tokenize", {"content": text, "parse_special": True})[1]["tokens"])
    with server("--chat-template", folder / "form", "--chat-template-kwargs", '{"note": "small and great"}') as s:
        head, tail = "<|im_start|>user\na<|im_end|>\n", "<|im_start|>assistant\n"
        require(used(s) == expected(s, head + tail + "small and great"), "variables of the command line")
        require(used(s, chat_template_kwargs={"note": "a", "other": 1.5}) == expected(s, head + tail + "a"), "those of the request replace them")
        require(used(s, tools=TOOLS, chat_template_kwargs={"note": ""}) == expected(s, "<|im_start|>system\n" + json.dumps(TOOLS) + "<|im_end|>\n" + head + tail), "tools")
        refused(s, 400, "messages", {"messages": [{**user, "content": "no"}], "tools": TOOLS}, chat)
        error, _ = refused(s, 400, "chat_template_kwargs", {"messages": [user], "tools": TOOLS, "chat_template_kwargs": {"bos_token": 1, "tools": 1}}, chat)
        require("the variable tools" in error["message"], f"the variable: {error}")
        turn = "<|im_start|>assistant\n<call>weather city=Nazareth days=2</call><|im_end|>\n<|im_start|>tool\nSunnycall_1<|im_end|>\n"
        for arguments in ('{"city": "Nazareth", "days": 2}', {"city": "Nazareth", "days": 2}):
            for content in ({"content": None}, {"content": ""}, {}):
                talk = [user, {"role": "assistant", **content, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}]
                require(used(s, messages=talk, chat_template_kwargs={"note": ""}) == expected(s, head + turn + tail), f"a call and its result: {arguments} {content}")
    for options, says in ((("--chat-template-kwargs", "[]"), "a list"), (("--chat-template-kwargs", "{"), "not valid"), (("--chat-template-kwargs", '{"tools": 1}'), "tools is set in another way")):
        for command in (("serve", "--port", "0"), ("run", "--chat", "-p", "x")):
            done = subprocess.run([TOOL, command[0], "-m", MODEL, *command[1:], *options], capture_output=True, timeout=WAIT, check=False)
            require(done.returncode == 1 and b"--chat-template-kwargs" in done.stderr and says in done.stderr.decode(), f"{command} {options}", done)
    texts = [ran("--chat", "--chat-template", str(folder / "form"), "--temp", "0", "-p", "a", "-n", "9", "--chat-template-kwargs", json.dumps({"note": note}))[0]["prompt_tokens"] for note in ("", "small and great")]
    require(texts[0] < texts[1], f"gdn run --chat has variables: {texts}")


def logprobs(folder):
    """Log-probabilities are the model's, in OpenAI's forms, and the same bits streamed or not, with drafts or not, alone or not."""
    bodies = [{"prompt": PROMPT, "max_tokens": 24, "logprobs": n, **more} for n, more in ((0, {}), (3, {}), (20, {"temperature": 1.2, "seed": 4}), (2, {"temperature": 0.7, "repeat_penalty": 1.3, "n": 3}), (1, {"temperature": 3, "ignore_eos": True}))]
    expected = None
    for options in (("--parallel", "1", "--spec", "off"), ("--parallel", "1", "--always-draft"), ("--parallel", "8", "--always-draft", "--step", "24")):
        with server(*options) as s:
            found = [None] * len(bodies)

            def get(i):
                found[i] = s.ask("/v1/completions", bodies[i])[1]["choices"]
            threads = [threading.Thread(target=get, args=(i,)) for i in range(len(bodies))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            expected = expected or found
            require(found == expected, f"the same bits with {options}")
            if options[1] == "8":
                continue
            named = s.ask("/v1/completions", {**bodies[1], "return_tokens_as_token_ids": True})[1]["choices"][0]["logprobs"]
            require(all(re.fullmatch(r"token_id:\d+", name) for name in [*named["tokens"], *named["top_logprobs"][0]]), "tokens by their numbers", named)
            require(named["token_logprobs"] == found[1][0]["logprobs"]["token_logprobs"], "the same values with numbers")
            again = s.ask("/v1/completions", {"prompt": [int(name[9:]) for name in named["tokens"]], "max_tokens": 1})[1]
            require(again["usage"]["prompt_tokens"] == len(named["tokens"]), "the numbers are a prompt", again)
            for body, choices in zip(bodies, found):
                events, _ = s.events("/v1/completions", body)
                for choice in choices:
                    parts = [c["logprobs"] for e in events for c in e["choices"] if c["index"] == choice["index"] and c["logprobs"]]
                    require({k: [x for part in parts for x in part[k]] for k in parts[0]} == choice["logprobs"], f"streamed: {body}")
    for body, choices in zip(bodies, expected):
        for choice in choices:
            of = choice["logprobs"]
            n = len(of["tokens"])
            require(n and n == len(of["token_logprobs"]) == len(of["top_logprobs"]) == len(of["text_offset"]), f"the form: {of}")
            for token, logprob, top in zip(of["tokens"], of["token_logprobs"], of["top_logprobs"]):
                require(logprob <= 0 and top[token] <= 0 and body["logprobs"] <= len(top) + 1 and len(top) <= body["logprobs"] + 1, f"{token} {logprob}: {top}")
                require(body.get("temperature") or logprob == max(top.values()), f"the most likely token: {logprob} {top}")
            if not body.get("ignore_eos"):  # else there are tokens that are not UTF-8
                require("".join(of["tokens"]) == choice["text"] and of["text_offset"] == [len("".join(of["tokens"][:i])) for i in range(n)], f"the text: {of}")
    first = [choices[0]["logprobs"]["top_logprobs"][0] for choices in expected]
    require(all(first[2][t] == p for t, p in first[1].items()), "temperature and penalties do not change them")
    of_run = ran("-p", PROMPT, "-n", "24")[0]["tokens"]
    end = next(t for i, t in enumerate(of_run) if i > 4 and t > 300 and t not in of_run[:i])
    with server(model=speaking(folder, {end: "<|stop|>"}, end)) as s:
        _, answer, _ = s.ask("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "logprobs": 1})
        choice = answer["choices"][0]
        require(choice["finish_reason"] == "stop" and "".join(choice["logprobs"]["tokens"]) == choice["text"] and len(choice["logprobs"]["tokens"]) == answer["usage"]["completion_tokens"] - 1, f"the end token has no entry: {answer}")
    ask = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 20, "temperature": 0}
    with server() as s:
        plain = s.ask("/v1/chat/completions", ask)[1]["choices"][0]
        choice = s.ask("/v1/chat/completions", {**ask, "logprobs": True, "top_logprobs": 2})[1]["choices"][0]
        require(plain["logprobs"] is None and plain["message"] == choice["message"], "a chat")
        content = choice["logprobs"]["content"]
        require(b"".join(bytes(t["bytes"]) for t in content).decode().strip("\n") == choice["message"]["content"].strip("\n"), "bytes of a chat")
        require(all(len(t["top_logprobs"]) == 2 and t["top_logprobs"][0] == {k: t[k] for k in ("token", "logprob", "bytes")} for t in content), "a chat's most likely tokens")
        events, _ = s.events("/v1/chat/completions", {**ask, "logprobs": True, "top_logprobs": 2})
        require([t for e in events for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["content"]] == content, "a chat's stream")
        require(s.ask("/v1/chat/completions", {**ask, "logprobs": True})[1]["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == [], "without others")


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
        for name, given in (("logit_bias", {}), ("nonsense", 0), ("n max_tokens", 1)):
            refused(s, 400, name, {**hello, name: given}, chat)
            refused(s, 400, name, {"prompt": "x", name: given})
        for name, given in (("tools", {}), ("tools", [1]), ("tools", [{"type": "function"}]), ("tools", [{"type": "function", "function": {"name": ""}}]), ("tools", [{"type": "x", "function": {"name": "f"}}]), ("tool_choice", "required"),
                            ("tool_choice", {"type": "function", "function": {"name": "f"}}), ("response_format", {"type": "json_object"}), ("response_format", {"type": "text", "x": 1}), ("response_format", "text"),
                            ("logprobs", 1), ("top_logprobs", 1), ("chat_template_kwargs", [])):
            refused(s, 400, name, {**hello, name: given}, chat)
        for given in (-1, 21, True, 1.5):
            refused(s, 400, "top_logprobs", {**hello, "logprobs": True, "top_logprobs": given}, chat)
            refused(s, 400, "logprobs", {"prompt": "x", "logprobs": given})
        for name, given in (("tools", []), ("tool_choice", "none"), ("response_format", {"type": "text"}), ("top_logprobs", 1), ("chat_template_kwargs", {})):
            refused(s, 400, name, {"prompt": "x", name: given})
        refused(s, 400, "tools", {**hello, "tools": TOOLS}, chat)  # the model's template does not write them
        refused(s, 400, "messages", {"messages": [{"role": "function", "content": "x"}], "tools": TOOLS}, chat)
        refused(s, 400, "tools[0].function.strict", {**hello, "tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}, chat)
        require(s.ask(chat, {**hello, "tools": TOOLS, "tool_choice": "none", "max_tokens": 1, "response_format": {"type": "text"}})[0] == 200, "tools that are not to be called")
        refused(s, 400, "chat_template_kwargs", {**hello, "chat_template_kwargs": {"messages": []}}, chat)
        for calls in (1, [1], [{"function": {"name": "f"}}], [{"function": {"name": 1, "arguments": "{}"}}], [{"function": {"name": "f", "arguments": 1}}]):
            refused(s, 400, "messages", {"messages": [{"role": "assistant", "content": "x", "tool_calls": calls}]}, chat)
        require(s.ask("/v1/completions", {"prompt": "x", "tools": None, "max_tokens": 1})[0] == 200, "null is absent")
        for name, values in {"temperature": ("1", True), "top_k": (-1, 0.5), "seed": (-1, 2 ** 63), "n": (0, 9, "2"), "max_tokens": (0, 101, 1.5), "stream": (1, "true"), "stop": ("", [""], 3, ["a"] * 17),
                             "prompt": ([], [-1], [1 << 30], 5, ["a", 5], [["a"]], {}), "stream_options": ({"include_usage": True}, 1)}.items():
            for value in values:
                refused(s, 400, name if value != 2 ** 63 else None, {"prompt": "x", name: value})
        refused(s, 400, "stream_options.more", {"prompt": "x", "stream": True, "stream_options": {"more": 1}})
        for name, value in (("temperature", -1), ("top_p", 0), ("min_p", 2), ("repeat_penalty", 0), ("presence_penalty", 1000)):
            error, _ = refused(s, 400, None, {"prompt": "x", name: value})
            require(name in error["message"], f"the name of {name}: {error}")
        refused(s, 400, "max_tokens", {"prompt": "x", "max_tokens": 1, "max_completion_tokens": 1})
        refused(s, 404, "model", {"prompt": "x", "model": "other"})
        refused(s, 400, "prompt", {})
        refused(s, 400, "prompt", {**hello, "prompt": "x"}, chat)
        refused(s, 400, "messages", {"prompt": "x", **hello})
        for messages in ([], "x", [1], [{"role": "user"}], [{"content": "x"}], [{"role": "function", "content": "x"}], [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]):
            refused(s, 400, "messages", {"messages": messages}, chat)
        refused(s, 400, "messages[0].name", {"messages": [{"role": "user", "content": "x", "name": "me"}]}, chat)
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
        for headers in ({}, {"Authorization": "first-key"}, *({"Authorization": f"Bearer {key}"} for key in ("", "first-kez", "first-keyy", "first-ke", "first-key\tsecond-key"))):
            for path, body in (("/v1/models", None), ("/v1/completions", {"prompt": "x"}), ("/metrics", None), ("/nothing", None)):
                error, _ = refused(s, 401, None, body, path, headers=headers)
                require(error["code"] == "invalid_api_key", f"a key is needed: {error}")
        require(s.ask("/health")[0] == 200 == s.ask("/")[0], "health and the page need no key")
        for key in ("first-key", "second-key"):
            require(s.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == 200, f"the key {key}")
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


# ---- Clients and signals ----

def gone():
    """What clients no longer wait for ends."""
    with server("--parallel", "2") as s:
        for stream in (True, False):
            before = s.metric("texts_cancelled_total"), s.metric("generated_tokens_total")
            connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
            connection.request("POST", "/v1/completions", json.dumps({**LONG, "n": 3, "stream": stream}))
            require(s.until("generated_tokens_total", lambda n: n > before[1]) and s.metric("texts_waiting") == 1, "it runs")
            if stream:
                connection.getresponse().read(100)
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            require(s.until("texts_cancelled_total", lambda n: n == before[0] + 3), f"cancelled, stream {stream}")
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
        expected = s.text({**LONG, "max_tokens": 500})
        connection, response = s.open("/v1/completions", {**LONG, "max_tokens": 500, "stream": True})
        kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=WAIT)
        kept.request("GET", "/health")
        kept.getresponse().read()
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
        require(lines[-1] == "data: [DONE]" and text == expected and answers == [expected], "what runs and waits is finished")
        connection.close()
        kept.close()
        require(s.process.wait(WAIT) == -number, f"the end by signal {number}")
        try:
            socket.create_connection(("127.0.0.1", s.port)).close()
            require(False, "nobody listens")
        except OSError:
            pass
    s = Server("--parallel", "1")
    connection, response = s.open("/v1/completions", {**LONG, "n": 30, "stream": True})
    s.process.send_signal(signal.SIGTERM)
    s.process.stderr.readline()
    s.process.send_signal(signal.SIGTERM)
    require(s.process.wait(WAIT) == -signal.SIGTERM and b"[DONE]" not in response.fp.read(), "a second signal ends at once")
    connection.close()


def command_line():
    for arguments, says, status in (((), "which model", 2), (("-m", MODEL, "--port", "70000"), "--port is 70000", 2), (("-m", MODEL, "--parallel", "0"), "--parallel is 0", 2), (("-m", MODEL, "--queue", "-1"), "--queue is -1", 2),
                                    (("-m", MODEL, "--prefix-interval", "9"), "needs --prefix-cache", 2), (("-m", "nothing"), "gdn serve: there is no file nothing", 1),
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
    file.write_bytes(written[:-1])
    done = subprocess.run([TOOL, "serve", "-m", MODEL, "--port", "0", *SETTINGS, "--kv", kv, "--prefix-file", str(file)], capture_output=True, timeout=WAIT)
    require(done.returncode == 1 and b"the file stays as it is" in done.stderr and file.read_bytes() == written[:-1], f"a cut file: {done}")
    done = subprocess.run([TOOL, "serve", "-m", MODEL, "--prefix-file", str(file)], capture_output=True, timeout=WAIT)
    require(done.returncode == 2 and b"--prefix-file needs --prefix-cache" in done.stderr, f"no cache: {done}")


run_tests(restart, command_line, endpoints, turns, same_as_run, thinking, calls, template_input, logprobs, together, refusals, full, running, keys, gone, slow, drains)

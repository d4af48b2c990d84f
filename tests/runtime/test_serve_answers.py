#!/usr/bin/env python3
"""gdn serve: what chats and log-probabilities have in answers: turns, thinking, calls of tools, the template's variables.

    test_serve_answers.py GDN FOLDER [--brief]   as test_run.py
"""
import json
import re
import subprocess
import threading

from server import FORM, PROMPT, SETTINGS, TOOLS, WAIT, Server, joined, ran, refused, server, speaking
from tool import MODEL, TOOL, require, run_tests


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


def continued():
    """A completion that goes on after another's prompt, or after its text, reads only what is new."""
    with server(settings=("--ctx", "4096")) as s:
        def ask(prompt):
            answer = s.ask("/v1/completions", {"prompt": prompt, "max_tokens": 9, "temperature": 0, "logprobs": 0, "return_tokens_as_token_ids": True, "ignore_eos": True})[1]
            return [int(name[9:]) for name in answer["choices"][0]["logprobs"]["tokens"]], answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        prompt = s.ask("/tokenize", {"content": PROMPT * 5})[1]["tokens"]
        said, _, kept = ask(prompt)
        require(kept == 0, f"the first prompt: {kept}")
        _, text, kept = ask(prompt + said + said[:3])
        require(kept == len(prompt) + len(said) - 1, f"after the text: {kept} of {len(prompt)} + {len(said)}")  # its last token is not decoded
        _, other, kept = ask(prompt + said[3:6])
        require(kept == len(prompt), f"after the prompt: {kept} of {len(prompt)}")
    with server(settings=("--ctx", "4096", "--prefix-cache", "0")) as s:
        require([ask(prompt + said + said[:3])[1:], ask(prompt + said[3:6])[1:]] == [(text, 0), (other, 0)], "the texts without a cache")


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
    with server() as s: # whose template never thinks
        refused(s, 400, "chat_template_kwargs", {**ask, "chat_template_kwargs": {"enable_thinking": True}}, "/v1/chat/completions")
        texts = [s.ask("/v1/chat/completions", body)[1]["choices"][0]["message"] for body in (ask, off)]
        require(texts[0] == texts[1], f"no thinking where there is none: {texts}")


# ---- Tools, variables and log-probabilities ----


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
            one = s.ask("/v1/chat/completions", {**ask, "tools": TOOLS, **more, "parallel_tool_calls": False})[1]["choices"][0]
            require([c["function"] for c in one["message"]["tool_calls"]] == [choice["message"]["tool_calls"][0]["function"]] and one["message"]["content"] == choice["message"]["content"], f"one call at most: {one}")
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
        def call(arguments):
            return {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", **arguments}}]}
        result = {"role": "tool", "tool_call_id": "call_1", "content": None}
        for given, written in (({}, ""), ({"arguments": None}, ""), ({"arguments": ""}, ""), ({"arguments": " \n"}, ""), ({"arguments": "{}"}, ""), *(({"arguments": x}, f" arguments={x}") for x in ("null", '"{}"', "[]", "[1, 2]", "12", '{"city": "Na', "x y", '{"a": 1, "a": 2}'))):
            turn = f"<|im_start|>assistant\n<call>f{written}</call><|im_end|>\n<|im_start|>tool\ncall_1<|im_end|>\n"
            for content in (None, "", ()):
                talk = [user, call(given), {k: v for k, v in result.items() if content != () or k != "content"} | ({} if content == () else {"content": content})]
                require(used(s, messages=talk, chat_template_kwargs={"note": ""}) == expected(s, head + turn + tail), f"an odd call: {given} {talk}")
        turn = "<|im_start|>assistant\n<|im_end|>\n"
        for message in ({}, {"content": None}, {"content": None, "reasoning_content": "x"}, {"content": None, "tool_calls": []}, {"content": ""}, {"content": []}):
            require(used(s, messages=[user, {"role": "assistant", **message}, user], chat_template_kwargs={"note": ""}) == expected(s, head + turn + head + tail), f"an empty answer: {message}")
        part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "other": 1}
        require(used(s, messages=[{**user, "content": [part]}], chat_template_kwargs={"note": ""}) == expected(s, head + tail), "more members of a text")
    for options, says in ((("--chat-template-kwargs", "[]"), "a list"), (("--chat-template-kwargs", "{"), "not valid"), (("--chat-template-kwargs", '{"tools": 1}'), "tools is set in another way")):
        for command in (("serve", "--port", "0"), ("run", "--chat", "-p", "x")):
            done = subprocess.run([TOOL, command[0], "-m", MODEL, *command[1:], *options], capture_output=True, timeout=WAIT, check=False)
            require(done.returncode == 1 and b"--chat-template-kwargs" in done.stderr and says in done.stderr.decode(), f"{command} {options}", done)
    texts = [ran("--chat", "--chat-template", str(folder / "form"), "--temp", "0", "-p", "a", "-n", "9", "--chat-template-kwargs", json.dumps({"note": note}))[0]["prompt_tokens"] for note in ("", "small and great")]
    require(texts[0] < texts[1], f"gdn run --chat has variables: {texts}")


def names(folder):
    """Tokens that are parts of characters or have a NUL have names of their own in completions."""
    with server() as s:
        body = {"prompt": s.ask("/tokenize", {"content": PROMPT})[1]["tokens"], "max_tokens": 1, "logprobs": 8}
        ids = [int(name[9:]) for name in s.ask("/v1/completions", {**body, "return_tokens_as_token_ids": True})[1]["choices"][0]["logprobs"]["top_logprobs"][0]]
    parts = dict(zip([i for i in ids if i > 255], (b"\xe6\x97", b"\xe6\x9c", b"\xe5\xae", b"a\0b", b"a\0c", "\u65e5".encode())))
    require(len(parts) == 6, f"tokens that can be replaced: {ids}")
    with server(model=speaking(folder, parts)) as s:
        by_number = s.ask("/v1/completions", {**body, "return_tokens_as_token_ids": True})[1]["choices"][0]["logprobs"]
        by_text = s.ask("/v1/completions", body)[1]["choices"][0]["logprobs"]
        of = {name: by_number["top_logprobs"][0][f"token_id:{i}"] for i, name in zip(parts, (r"bytes:\xe6\x97", r"bytes:\xe6\x9c", r"bytes:\xe5\xae", r"bytes:\x61\x00\x62", r"bytes:\x61\x00\x63", "\u65e5"))}
        require(len(by_text["top_logprobs"][0]) == 8 and of.items() <= by_text["top_logprobs"][0].items(), f"each token has a name: {by_text}, not {of}")
        require(by_text["top_logprobs"][0][by_text["tokens"][0]] == by_text["token_logprobs"][0], f"the token's own name: {by_text}")


# Members, with values that change no text; each place has its own.
NEUTRAL = {"store": False, "metadata": {"a": "b"}, "service_tier": "auto", "prompt_cache_key": "x", "safety_identifier": "x", "cache_prompt": True, "id_slot": -1, "request_id": "x", "priority": 0, "keep_alive": -1, "n_keep": 0,
           "timings_per_token": True, "logit_bias": {}, "best_of": 1, "echo": False, "suffix": "", "top_k": -1, "repetition_penalty": 1.0, "mirostat": 0, "typical_p": 1.0, "dry_multiplier": 0, "xtc_probability": 0.0, "min_tokens": 0,
           "stop_token_ids": [], "stop": "", "skip_special_tokens": True, "use_beam_search": False, "length_penalty": 1.0, "grammar": "", "max_completion_tokens": 12.0, "stream_options": {"include_usage": True},
           "nonsense": {"a": 1}, "n max_tokens": 1, "model": "gpt-4o", "user": "u", "n": 1.0}
OF_CHATS = {"parallel_tool_calls": False, "modalities": ["text"], "verbosity": "medium", "reasoning_format": "auto", "add_generation_prompt": True, "include_reasoning": True}
OF_MESSAGES = {"annotations": [], "refusal": None, "audio": None, "function_call": None, "cache_control": {"type": "ephemeral"}, "nonsense": 1, "prefix": False}
CHANGES = {"best_of": 2, "suffix": "x", "mirostat": 1, "typical_p": 0.9, "dry_multiplier": 0.5, "xtc_probability": 0.1, "stop_token_ids": [40], "skip_special_tokens": False,
           "use_beam_search": True, "grammar": "root ::= x", "guided_regex": "x", "structured_outputs": {"regex": "a"}, "json_schema": 3, "samplers": ["top_k"], "cache_salt": "x", "n_predict": -1, "truncate_prompt_tokens": 5, "thinking": {"type": "disabled"}, "prompt_logprobs": 1}
CHAT = "/v1/chat/completions"


def members(folder):
    """Members that change no text are accepted and told once on standard error; those that would are refused by name."""
    (folder / "form").write_text(FORM)
    plain = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 12, "temperature": 0, "tools": TOOLS}
    bodies = (("/v1/completions", {"prompt": PROMPT, "max_tokens": 12}, NEUTRAL), (CHAT, plain, {**NEUTRAL, **OF_CHATS}))
    s = Server("--chat-template", folder / "form")
    for path, body, neutral in bodies:
        expected = s.ask(path, body)[1]["choices"]
        for more in [{name: given} for name, given in neutral.items()] * 2 + [neutral]:
            status, answer, _ = s.ask(path, {**body, **more})
            require(status == 200 and answer["choices"] == expected, f"{path} {more}: {status} {answer}, not {expected}")
        for name, given in CHANGES.items():
            refused(s, 400, name, {**body, name: given}, path)
    refused(s, 400, "reasoning_format", {**plain, "reasoning_format": "none"}, CHAT)
    turns = [plain["messages"][0], {"role": "assistant", "content": "A prophet.", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]
    expected = s.ask(CHAT, {**plain, "messages": turns})[1]
    for i in range(3):
        status, answer, _ = s.ask(CHAT, {**plain, "messages": [{**m, **OF_MESSAGES} if k == i else m for k, m in enumerate(turns)]})
        require(status == 200 and answer["choices"] == expected["choices"] and answer["usage"]["prompt_tokens"] == expected["usage"]["prompt_tokens"], f"message {i}: {answer}, not {expected}")
        for name, given in (("prefix", True), ("audio", {"id": "a"}), ("function_call", {"name": "f"})):
            refused(s, 400, f"messages[{i}].{name}", {**plain, "messages": [{**m, name: given} if k == i else m for k, m in enumerate(turns)]}, CHAT)
    refused(s, 400, "messages[0].tool_calls", {**plain, "messages": [{**turns[0], "tool_calls": turns[1]["tool_calls"]}]}, CHAT)
    strict = [{**t, "cache_control": {}, "function": {**t["function"], "strict": True}} for t in TOOLS]
    answers = [s.ask(CHAT, {**plain, "tools": tools})[1] for tools in (TOOLS, strict)]
    require(answers[0]["choices"] == answers[1]["choices"] and answers[0]["usage"]["prompt_tokens"] == answers[1]["usage"]["prompt_tokens"], f"strict: {answers}")
    of = [s.ask("/tokenize", {"content": PROMPT, "with_pieces": pieces})[1]["tokens"] for pieces in (False, True)]
    require([t["id"] for t in of[1]] == of[0] and "".join(t["piece"] for t in of[1]) == PROMPT, f"tokens with their texts: {of}")
    s.ask("/v1/completions", {"prompt": "x", "max_tokens": 1, "line\nbreak" + "\u00e9" * 90: 1})
    for _ in range(300):  # clients do not fill the log
        s.ask("/tokenize", {"content": "x", f"member {_}": 1})
    said = s.end()[1].splitlines()
    for name, what in (("store", "no text depends on it"), ("nonsense", "it is unknown"), ("model", "another model's name"), ('line\\nbreak', "it is unknown")):
        lines = [line for line in said if line.startswith(f'gdn serve: note: a request has "{name}')]
        require(len(lines) == 1 and what in lines[0], f"{name} is told once: {lines}")
    require(not any("strict" in line for line in said if "note" in line and "--strict" not in line), "strict is read")
    require(len(said) < 300 and not any('"echo"' in line for line in said), f"lines: {len(said)}")
    with server("--strict", "--alias", "small") as s:
        for path, body, neutral in bodies:
            body = {**body, "tools": None}
            require(s.ask(path, {**body, "store": True, "model": "small"})[0] == 200, "what is known")
            for name in ("nonsense", "n max_tokens"):
                refused(s, 400, name, {**body, name: 1}, path)
            refused(s, 404, "model", {**body, "model": "other"}, path)
        refused(s, 400, "messages[0].nonsense", {"messages": [{"role": "user", "content": "x", "nonsense": 1}]}, CHAT)


def variables(folder):
    """reasoning_effort, names and earlier reasoning reach the template; max_tokens has a limit; there may be one call at most."""
    (folder / "form").write_text("{{ reasoning_effort }}{% for m in messages %}{{ m.role }} {{ m.name }} {{ m.reasoning_content }} {{ m.content }}{% endfor %}")
    hello = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}

    def used(**more):
        return s.ask(CHAT, {**hello, **more})[1]["usage"]["prompt_tokens"]
    s = Server("--chat-template", folder / "form", "--max-tokens", "7", "--chat-template-kwargs", '{"reasoning_effort": "a"}')
    require(used() < used(reasoning_effort="a b c d e") < used(reasoning_effort="a b c d e", chat_template_kwargs={"reasoning_effort": "x y z x y z u v w"}), "reasoning_effort")
    refused(s, 400, "reasoning_effort", {**hello, "reasoning_effort": 1}, CHAT)
    require(used(messages=[{"role": "user", "content": "x", "name": "Moses and Aaron"}]) > used() + 1, "a name")
    said = [used(messages=[*hello["messages"], {"role": "assistant", "content": "y", **more}]) for more in ({}, {"reasoning": "so it is"}, {"reasoning_content": "so it is"}, {"reasoning_content": "so it is", "reasoning": "x"})]
    require(said[0] < said[1] == said[2] == said[3], f"reasoning: {said}")
    for limit in (7, 8, 4000, 2 ** 40, -1):
        usage = s.ask("/v1/completions", {"prompt": PROMPT, "max_tokens": limit, "ignore_eos": True})[1]["usage"]
        require(usage["completion_tokens"] == 7, f"max_tokens {limit}: {usage}")
    require('"max_tokens": it is above --max-tokens' in s.end()[1], "the limit is told")


def logprobs(folder):
    """Log-probabilities are the model's, in OpenAI's forms, and the same bits streamed or not, with drafts or not, alone or not."""
    bodies = [{"prompt": PROMPT, "max_tokens": 24, "logprobs": n, **more} for n, more in ((0, {}), (3, {}), (20, {"temperature": 1.2, "seed": 4}), (2, {"temperature": 0.7, "repeat_penalty": 1.3, "n": 3, "seed": 1}), (1, {"temperature": 3, "ignore_eos": True, "seed": 1}))]
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
    names(folder)
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


def echo(folder):
    """echo puts the prompt before the text; its log-probabilities are those that drawing the same tokens has, whatever else runs."""
    prompt = PROMPT + " God created"
    with server() as s:
        tokens = s.ask("/tokenize", {"content": prompt})[1]["tokens"]
        of = {"prompt": tokens, "max_tokens": 40, "logprobs": 4, "return_tokens_as_token_ids": True, "ignore_eos": True}
        drawn = s.ask("/v1/completions", of)[1]["choices"][0]
        plain = s.text({"prompt": prompt, "max_tokens": 40, "ignore_eos": True})
        prompts = [tokens + [int(name[9:]) for name in drawn["logprobs"]["tokens"]][:n] for n in (40, 33, 16, 1)] + [tokens[:1], s.ask("/tokenize", {"content": "<|im_end|>a", "parse_special": True})[1]["tokens"]]
        for stream in (False, True):
            for more in ({}, {"stop": "created"}, {"stop": prompt[-3:] + plain[:2]}, {"logprobs": 2}, {"n": 2}):
                body = {"prompt": prompt, "max_tokens": 40, "ignore_eos": True, "echo": True, **more}
                text = joined(s.events("/v1/completions", body)[0])[0] if stream else s.text(body)
                require(text == prompt + s.text({**body, "echo": False}), f"the prompt and the text, {more}: {text!r}")
    require(prompt + plain == prompt + drawn["text"], "a text")
    expected = None
    for options in (("--parallel", "1", "--spec", "off"), ("--parallel", "1", "--always-draft", "--step", "7"), ("--parallel", "6", "--cells", "4096")):
        with server(*options) as s:
            if options[1] == "6":
                s.ask("/v1/completions", {"prompt": prompts[0], "max_tokens": 1})  # the prefix cache has it
            body = {"prompt": prompts, "max_tokens": 0, "logprobs": 4, "echo": True, "return_tokens_as_token_ids": True}
            if options[1] == "1":
                bodies = [{**body, "prompt": p} for p in prompts]
                answers = [s.ask("/v1/completions", b)[1] for b in bodies]
                streams = [s.events("/v1/completions", b)[0] for b in bodies]
                for answer, events in zip(answers, streams):
                    parts = [c["logprobs"] for e in events for c in e["choices"] if c["logprobs"]]
                    require({k: [x for part in parts for x in part[k]] for k in parts[0]} == answer["choices"][0]["logprobs"] and joined(events)[0] == answer["choices"][0]["text"], "streamed")
            else:
                whole = s.ask("/v1/completions", body)[1]
                require(whole["usage"]["completion_tokens"] == 0 and whole["usage"]["prompt_tokens"] == sum(map(len, prompts)), f"usage: {whole['usage']}")
                answers = [{"choices": [{**c, "index": 0}]} for c in whole["choices"]]
            found = [a["choices"][0] for a in answers]
            expected = expected or found
            require(found == expected, f"the same bits with {options}")
    for given, choice in zip(prompts, expected):
        log = choice["logprobs"]
        require(choice["finish_reason"] == "length" and [int(name[9:]) for name in log["tokens"]] == given, f"the prompt's tokens: {choice}")
        require(len(log["token_logprobs"]) == len(log["top_logprobs"]) == len(log["text_offset"]) == len(given) and log["token_logprobs"][0] is None is log["top_logprobs"][0], f"the first token has none: {log}")
    for n in (40, 33, 16, 1):
        log = expected[(40, 33, 16, 1).index(n)]["logprobs"]
        for column in ("token_logprobs", "top_logprobs"):
            require(log[column][len(tokens):] == drawn["logprobs"][column][:n], f"{n} tokens, {column}: {log[column][len(tokens):]}, not {drawn['logprobs'][column]}")
    require(expected[-1]["text"] == "<|im_end|>a", f"control tokens: {expected[-1]}")
    of_run = ran("-p", PROMPT, "-n", "24")[0]["tokens"]
    end = next(t for i, t in enumerate(of_run) if i > 4 and t > 300 and t not in of_run[:i])
    with server("--strict", model=speaking(folder, {end: "<|stop|>"}, end)) as s:  # as lm-eval reads it
        choice = s.ask("/v1/completions", {"prompt": PROMPT, "max_tokens": of_run.index(end) + 1, "logprobs": 1, "echo": True})[1]["choices"][0]
        require(choice["finish_reason"] == "stop" and choice["logprobs"]["tokens"][-1] == "<|stop|>" and not choice["text"].endswith("<|stop|>"), f"the end token has an entry: {choice}")
        before = s.ask("/tokenize", {"content": PROMPT})[1]["tokens"] + of_run[:of_run.index(end)]  # its next token is the end token
        choice = s.ask("/v1/completions", {"prompt": before, "max_tokens": 0, "echo": True})[1]["choices"][0]
        require(choice["finish_reason"] == "length" and choice["text"].startswith(PROMPT), f"what is drawn does not count: {choice}")
        refused(s, 400, "max_tokens", {"prompt": PROMPT, "max_tokens": 0})
        refused(s, 400, "echo", {"prompt": PROMPT, "echo": 1})
        refused(s, 400, "echo", {"messages": [{"role": "user", "content": "x"}], "echo": True}, CHAT)
        refused(s, 400, "max_tokens", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}, CHAT)


def biases():
    """logit_bias is added to logits; its texts do not depend on drafts, and log-probabilities are the model's."""
    texts = []
    for options in (("--spec", "off"), ("--always-draft",)):
        with server(*options) as s:
            def ask(**more):
                choice = s.ask("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "logprobs": 5, "ignore_eos": True, "return_tokens_as_token_ids": True, **more})[1]["choices"][0]
                return [int(name[9:]) for name in choice["logprobs"]["tokens"]], choice["logprobs"]
            plain, log = ask()
            first = {int(name[9:]): p for name, p in log["top_logprobs"][0].items()}
            second = sorted(first, key=first.get)[-2]
            gap = first[plain[0]] - first[second]
            banned, _ = ask(logit_bias={str(plain[0]): -100})
            require(banned[0] == second and plain[0] not in banned, f"a token that is banned: {banned}")
            over, of = ask(logit_bias={str(second): gap + 0.01})
            require(over[0] == second and ask(logit_bias={str(second): gap - 0.01})[0][0] == plain[0], f"what is added: {over}")
            require({int(name[9:]): p for name, p in of["top_logprobs"][0].items()} == first, "log-probabilities are without it")
            require(set(ask(logit_bias={"300": 100})[0]) == {300} == set(ask(logit_bias={"300": 100}, temperature=1, seed=1)[0]), "one token alone")
            require(ask(logit_bias={})[0] == plain == ask(logit_bias=[])[0] == ask(logit_bias={str(plain[0]): 0})[0], "no bias")
            texts.append((banned, over, ask(logit_bias={str(t): -3 for t in set(plain)}, temperature=0.8, seed=3, n=1)[0]))
            for given in (1, "x", [[40, 1]], {"x": 1}, {"": 1}, {"-1": 1}, {"99999999": 1}, {"40 ": 1}, {" 40": 1}, {"40": "1"}, {"40": None}):
                refused(s, 400, "logit_bias", {"prompt": PROMPT, "logit_bias": given})
            for given in (101, -100.5, 1e300):
                refused(s, 400, None, {"prompt": PROMPT, "logit_bias": {"40": given}})
    require(texts[0] == texts[1], f"with drafts and without: {texts}")


PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 24}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                           "tags": {"type": "array", "items": {"enum": ["holy", "wicked"]}, "minItems": 1, "maxItems": 3}}, "required": ["name", "age", "tags"]}


def beginnings(folder):
    """continue_final_message: the answer goes on after its beginning, as a completion of the same tokens does; with thinking too."""
    for thinks in (False, True):
        (folder / "form").write_text(FORM.replace("<|im_start|>assistant\n{{ note }}", "{% if add_generation_prompt %}<|im_start|>assistant\n" + ("<think>\n" if thinks else "") + "{% endif %}"))
        with server("--chat-template", folder / "form") as s:
            user = {"role": "user", "content": "Who was Moses?"}
            prompt = s.ask("/tokenize", {"messages": [user]})[1]
            require(prompt == {"tokens": prompt["tokens"], "count": len(prompt["tokens"]), "max_model_len": 4096}, f"tokens of a chat: {prompt}")
            for text, reasoning in (("And the LORD", None), ("And he", "Let me see. "), ("", None)):
                if reasoning and not thinks:
                    continue
                last = {"role": "assistant", "content": text, **({"reasoning_content": reasoning} if reasoning else {})}
                before = (reasoning or "") + "\n</think>\n\n" if thinks else ""
                tokens = prompt["tokens"] + s.ask("/tokenize", {"prompt": before + text, "model": "x"})[1]["tokens"]
                body = {"max_tokens": 12, "seed": 3, "temperature": 1}
                wanted = s.text({**body, "prompt": tokens})
                chat = {**body, "messages": [user, last], "continue_final_message": True, "add_generation_prompt": False}
                # completions have other defaults
                got = s.ask(CHAT, {**chat, "top_k": 0, "top_p": 1, "min_p": 0})[1]
                require(got["choices"][0]["message"]["content"] == wanted and got["usage"]["prompt_tokens"] == len(tokens), f"{last}: {got}, not {wanted!r}")
                of_messages = s.ask("/v1/messages", {**body, "messages": [user, {"role": "assistant", "content": text}], "top_k": 0, "top_p": 1, "min_p": 0})[1]
                if not reasoning and text:
                    require(of_messages["content"][0]["text"] == wanted, f"Anthropic's: {of_messages}")
            refused(s, 400, "continue_final_message", {"messages": [user], "continue_final_message": True}, CHAT)
            closed = s.ask("/tokenize", {"messages": [user], "add_generation_prompt": False})[1]["tokens"]
            require(0 < len(closed) < prompt["count"] and closed == prompt["tokens"][:len(closed)], f"a prompt that does not open an answer: {closed}")
            require(s.ask(CHAT, {"messages": [user], "add_generation_prompt": False, "max_tokens": 2})[1]["usage"]["prompt_tokens"] == len(closed), "the same in a chat")
            if not thinks:
                refused(s, 400, "messages", {"messages": [user, {"role": "assistant", "content": "a", "reasoning_content": "b"}], "continue_final_message": True}, CHAT)
            error, _ = refused(s, 400, "logit_bias", {"messages": [user], "logit_bias": {"word": 1}}, CHAT)
            require("'word'" in error["message"], f"the name of no token: {error}")
            events, _ = s.events(CHAT, {"messages": [user], "max_tokens": 9, "ignore_eos": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
            counts = [e["usage"]["completion_tokens"] for e in events]
            require(counts == sorted(counts) and counts[-1] == 9 and events[-1]["choices"] == [], f"usage in each event: {counts}")


def fewest(folder):
    """min_tokens: no end token and no stop string before; what was drawn before is the same, and drafts change nothing."""
    chat = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 90}
    with server("--spec", "off") as s, server("--spec", "ngram", "--always-draft") as drafts:
        ended = 0
        for seed in range(8):
            body = {**chat, "seed": seed, "temperature": 1, **({"stop": ","} if seed % 2 else {})}
            plain, more, drafted = ({**a["choices"][0], "n": a["usage"]["completion_tokens"]} for a in (s.ask(CHAT, body)[1], s.ask(CHAT, {**body, "min_tokens": 60})[1], drafts.ask(CHAT, {**body, "min_tokens": 60})[1]))
            require(more == drafted, f"with drafts: {drafted}, not {more}")
            require(60 <= more["n"] <= 90 and more["message"]["content"].startswith(plain["message"]["content"]), f"at least 60 tokens: {more}, after {plain}")
            ended += plain["n"] < 60
        require(ended > 2, f"texts that would end sooner: {ended}")
        require(s.ask(CHAT, {**chat, "seed": 1, "min_tokens": 0})[1]["choices"] == s.ask(CHAT, {**chat, "seed": 1})[1]["choices"], "none")
        refused(s, 400, "min_tokens", {**chat, "min_tokens": -1}, CHAT)
        refused(s, 400, "min_tokens", {**chat, "min_tokens": 5, "response_format": {"type": "json_object"}}, CHAT)


def structured():
    """response_format: answers are JSON of the schema, the same alone, at once, streamed, and with drafts; what would cut the JSON is refused."""
    schema = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    body = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 300, "temperature": 1.1, "seed": 5, "n": 3}
    found = []
    for options in (("--spec", "off"), ("--spec", "ngram", "--always-draft", "--parallel", "3")):
        with server(*options) as s:
            texts = [c["message"]["content"] for c in s.ask("/v1/chat/completions", {**body, "response_format": schema})[1]["choices"]]
            for text in texts:
                value = json.loads(text)
                require(list(value) == ["name", "age", "tags"] and len(value["name"]) <= 24 and 0 <= value["age"] <= 150 and set(value["tags"]) <= {"holy", "wicked"}, f"{text} is valid")
            objects = [c["message"]["content"] for c in s.ask("/v1/chat/completions", {**body, "max_tokens": 200, "response_format": {"type": "json_object"}})[1]["choices"]]
            require(all(text.startswith("{") for text in objects), f"objects: {objects}")
            streamed = s.events("/v1/chat/completions", {**body, "n": 1, "seed": 6, "response_format": schema})[0]
            require("".join(c["delta"].get("content") or "" for e in streamed for c in e.get("choices", [])) == texts[1], "the second, streamed")
            found.append((texts, objects))
            say = {"messages": body["messages"]}
            for more in ({"stop": "x"}, {"ignore_eos": True}):
                refused(s, 400, "response_format", {**say, **more, "response_format": schema}, "/v1/chat/completions")
            for format in ("json_object", {"type": "grammar"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "x"}},
                           {"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "a"}}}, {"type": "json_schema", "json_schema": {"schema": 3}}):
                refused(s, 400, "response_format", {**say, "response_format": format}, "/v1/chat/completions")
            for more in ({"json_schema": PERSON}, {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}, {"structured_outputs": {"json": PERSON}}, {"response_format": {"type": "json_object", "schema": PERSON}}):
                others = [c["message"]["content"] for c in s.ask("/v1/chat/completions", {**body, **more})[1]["choices"]]
                require(others == texts, f"{more}: {others}")
            for name, more in (("json_schema", {"json_schema": PERSON, "response_format": schema}), ("guided_json", {"guided_json": "{"}), ("structured_outputs", {"structured_outputs": {"json": PERSON, "choice": ["a"]}}), ("guided_json", {"json_schema": PERSON, "guided_json": PERSON})):
                refused(s, 400, name, {**say, **more}, "/v1/chat/completions")
            of_text = s.text({"prompt": "Who was Moses?", "max_tokens": 300, "seed": 5, "response_format": schema})
            require(list(json.loads(of_text)) == ["name", "age", "tags"], f"a completion: {of_text}")
            refused(s, 400, "response_format", {"prompt": "x", "echo": True, "response_format": schema})
            plain = s.ask("/v1/chat/completions", {**body, "n": 1, "response_format": {"type": "text"}})[1]["choices"]
            require(plain == s.ask("/v1/chat/completions", {**body, "n": 1})[1]["choices"], "text is any text")
    require(found[0] == found[1], f"with drafts and without: {found}")


run_tests(beginnings, fewest, turns, continued, thinking, calls, members, variables, template_input, logprobs, echo, biases, structured)

#!/usr/bin/env python3
"""gdn serve with Anthropic's interface: answers, streams, counts and errors are those of the same chats.

    test_messages.py GDN FOLDER [--brief]   as test_run.py
"""
import collections
import json
import random
import signal

from server import FORM, TOOLS, Server, ran, server, speaking
from tool import BRIEF, require, run_tests

CHAT, MESSAGES, COUNT = "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"
THINKS = FORM.replace("{{ m.content }}", "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}") + "{{ reasoning_effort }}{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}"
USER = {"role": "user", "content": "Who was Moses?"}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"], "additionalProperties": False}
OURS = [{"name": t["function"]["name"], "input_schema": t["function"].get("parameters", {"type": "object"}), "cache_control": {"type": "ephemeral"}} for t in TOOLS]
THEIRS = [{"type": "function", "function": {"name": t["name"], "parameters": t["input_schema"]}} for t in OURS]


def text(of, **more):
    return {"type": "text", "text": of, **more}


def use(number, name, **arguments):
    """A call in an earlier message: Anthropic's block, and the chat's."""
    return ({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments},
            {"id": f"toolu_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}})


WEATHER, NOW = use(1, "weather", city="Nazareth", days=2), use(2, "now")
TALKS = (  # system and messages, and those of the same chat
    (None, [USER], [USER]),
    ("Speak in verses.", [{"role": "user", "content": [text("Who was "), text("Moses?", cache_control={"type": "ephemeral"}, citations=None)]}], [{"role": "system", "content": "Speak in verses."}, USER]),
    ([text("x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"), text("Speak "), text("in verses.", cache_control={"type": "ephemeral"})], [USER], [{"role": "system", "content": "Speak in verses."}, USER]),
    (None,
     [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "Of the ", "signature": ""}, {"type": "redacted_thinking", "data": "x"}, {"type": "thinking", "thinking": "Exodus", "signature": "y"}, text("I look."), WEATHER[0], NOW[0]]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("Sunny"), text(", warm")]}, {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no clock", "is_error": True}, text("And then?")]}],
     [USER, {"role": "assistant", "content": "I look.", "reasoning_content": "Of the Exodus", "tool_calls": [WEATHER[1], NOW[1]]}, {"role": "tool", "tool_call_id": "toolu_1", "content": "Sunny, warm"},
      {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: no clock"}, {"role": "user", "content": "And then?"}]),
    ("x-anthropic-billing-header: cch=1;\nThou art é\x00.",
     [USER, {"role": "assistant", "content": "A prophet\n"}, {"role": "system", "content": [text("Be brief.")]}, {"role": "user", "content": [text("Why?"), {"type": "tool_result", "tool_use_id": "toolu_9"}]}],
     [{"role": "system", "content": "Thou art é\x00."}, USER, {"role": "assistant", "content": "A prophet\n"}, {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}, {"role": "tool", "tool_call_id": "toolu_9", "content": ""}]),
)
CHOICES = (({}, {}), ({"tools": OURS}, {"tools": THEIRS}), ({"tools": OURS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"tools": THEIRS, "parallel_tool_calls": False}),
           ({"tools": OURS, "tool_choice": {"type": "none"}}, {"tools": THEIRS, "tool_choice": "none"}), ({"tools": OURS, "tool_choice": {"type": "any"}}, {"tools": THEIRS, "tool_choice": "required"}),
           ({"tools": OURS, "tool_choice": {"type": "tool", "name": "now"}}, {"tools": THEIRS, "tool_choice": {"type": "function", "function": {"name": "now"}}}))
THOUGHTS = (({}, {}), ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"chat_template_kwargs": {"enable_thinking": True}}), ({"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False}}),
            ({"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
            ({"thinking": {"type": "disabled"}, "chat_template_kwargs": {"note": "a"}}, {"chat_template_kwargs": {"enable_thinking": False, "note": "a"}}))
STOPS = (({}, {}), ({"stop_sequences": ["END", "zz"]}, {"stop": ["END", "zz"]}))
SAMPLERS = ({"temperature": 0}, {"temperature": 1, "top_p": 0.9, "top_k": 40}, {"temperature": 0.8, "min_p": 0.05, "repetition_penalty": 1.1})
IGNORED = {"metadata": {"user_id": "u"}, "service_tier": "auto", "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "mcp_servers": []}


def whole(answer):
    """Thinking, text and calls of a message; the form of its blocks."""
    found = {"thinking": "", "text": "", "tool_use": []}
    for block in answer["content"]:
        kind = block["type"]
        require(set(block) == {"type"} | {"thinking": {"thinking", "signature"}, "text": {"text"}, "tool_use": {"id", "name", "input"}}[kind], f"a block: {block}")
        found[kind] += [(block["name"], block["input"])] if kind == "tool_use" else block[kind]
    return found


def streamed(s, body):
    """The message that a stream's events make. They have the form and the order of Anthropic's."""
    status, said, response = s.ask(MESSAGES + "?beta=true", {**body, "stream": True})
    require(status == 200 and response.getheader("Content-Type") == "text/event-stream", f"a stream: {status} {said}")
    events = [part for part in said.split("\n\n") if part and part != ": waiting"]
    pairs = [part.split("\n") for part in events]
    require(said.endswith("\n\n") and all(len(p) == 2 and p[0].startswith("event: ") and p[1].startswith("data: ") for p in pairs), f"the form of events: {said[:300]}")
    events = [json.loads(p[1][6:]) for p in pairs]
    require([p[0][7:] for p in pairs] == [e["type"] for e in events], "the names of events")
    require([e["type"] for e in events if not e["type"].startswith("content_block_")] == ["message_start", "message_delta", "message_stop"], f"what events there are: {events}")
    message, opened = events[0]["message"], None
    require(message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None, f"the start: {message}")
    for e in events[1:-2]:
        kind = e["type"][len("content_block_"):]
        require((opened is None) == (kind == "start") and e["index"] == len(message["content"]) - (kind != "start"), f"the order of events: {e} in {events}")
        if kind == "start":
            opened, parts = e["content_block"], collections.defaultdict(str)
            require(opened.get(opened["type"]) in ("", None) and opened.get("input") in ({}, None), f"a block begins empty: {e}")
            message["content"].append(opened)
        elif kind == "delta":
            name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}[e["delta"]["type"]]
            require(set(e["delta"]) == {"type", name} and ((name in opened) or (name == "partial_json" and opened["type"] == "tool_use")) and "signature" not in parts, f"a piece: {e} of {opened}")
            parts[name] += e["delta"][name]
        else:
            require(opened["type"] != "thinking" or "signature" in parts, f"a signature ends thinking: {events}")
            opened.update({"input": json.loads(parts["partial_json"])} if "partial_json" in parts else parts)
            opened = None
    require(all(a["type"] != b["type"] or a["type"] == "tool_use" for a, b in zip(message["content"], message["content"][1:])), f"blocks that could be one: {message}")
    require(events[-2]["usage"]["output_tokens"] >= 0 and set(events[-2]["delta"]) == {"stop_reason", "stop_sequence"}, f"the end: {events[-2]}")
    started = message["usage"]["input_tokens"]
    message.update(events[-2]["delta"], usage=events[-2]["usage"])
    require(started == sum(message["usage"][k] for k in ("input_tokens", "cache_read_input_tokens")), f"counts at the start: {started}, {message}")
    return message


def check(s, ours, theirs):
    """Asks as Anthropic's clients and as a chat. Returns the message."""
    status, chat, _ = s.ask(CHAT, theirs)
    got, answer, _ = s.ask(MESSAGES, ours)
    require(got == status, f"status {got}, in the chat {status}: {ours}: {answer}, {chat}")
    counted = s.ask(COUNT, {k: v for k, v in ours.items() if k != "max_tokens"})
    if status != 200:
        require(answer["type"] == "error" and answer["error"]["type"] == "invalid_request_error" and counted[0] in (200, 400), f"refused: {answer}")
        return None
    before = s.ask(CHAT, theirs)[1]
    of_stream, answer = streamed(s, ours), s.ask(MESSAGES, ours)[1]
    kept = [c["usage"]["prompt_tokens_details"]["cached_tokens"] for c in (before, s.ask(CHAT, theirs)[1])]
    message, finish = chat["choices"][0]["message"], chat["choices"][0]["finish_reason"]
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", [])]
    for a in (answer, of_stream):
        found, ids = whole(a), [b["id"] for b in a["content"] if b["type"] == "tool_use"]
        require(found == {"thinking": message.get("reasoning_content", ""), "text": message["content"] or "", "tool_use": calls}, f"{ours}: {a}, not {message}")
        require(len(set(ids)) == len(ids) and all(i.startswith("toolu_") for i in ids) and a["id"].startswith("msg_") and (a["type"], a["role"], a["model"]) == ("message", "assistant", chat["model"]), f"names: {a}")
        require(a["stop_reason"] in {"stop": ("end_turn", "stop_sequence"), "length": ("max_tokens",), "tool_calls": ("tool_use",)}[finish], f"{finish}: {a}")
        require(a["stop_sequence"] in (ours.get("stop_sequences", ()) if a["stop_reason"] == "stop_sequence" else (None,)), f"the stop string: {a}")
        usage = a["usage"]
        require(usage["input_tokens"] + usage["cache_read_input_tokens"] == chat["usage"]["prompt_tokens"] and usage["cache_creation_input_tokens"] == 0 and usage["output_tokens"] == chat["usage"]["completion_tokens"], f"usage: {a}, {chat}")
        require(kept[0] <= usage["cache_read_input_tokens"] <= kept[1], f"from the prefix cache: {usage}, {kept}")
    kinds = [b["type"] for b in answer["content"]]
    require(kinds == sorted(kinds, key=["thinking", "text", "tool_use"].index) and kinds.count("text") < 2, f"the order of blocks: {kinds}")
    require(answer["stop_reason"] == of_stream["stop_reason"] and answer["stop_sequence"] == of_stream["stop_sequence"], "why it stops, streamed")
    require(counted[1] == {"input_tokens": chat["usage"]["prompt_tokens"]}, f"counted: {counted}")
    return answer


def answers(folder):
    """Conversations, tools, thinking, stop strings, lengths and seeds, drawn together."""
    (folder / "form").write_text(THINKS)
    draw, seen = random.Random(62), collections.Counter()
    tokens = collections.Counter(t for n in range(3) for t in ran("--special", "-p", "<|im_start|>user\nWho was Moses?<|im_end|>\n<|im_start|>assistant\n", "-n", "200", "--temp", "1", "--seed", str(n))[0]["tokens"][:-1] if t > 300)  # without the end token
    common = [t for t, _ in tokens.most_common(40)]
    said = dict(zip(common[:40:2], ("END", "</think>\n\n", '<tool_call>\n{"name": "weather", "arguments": {"city": "Na\\u0000z\\u00e9", "days": 2}}\n</tool_call>', "zz", "<tool_call><function=now></function></tool_call>", "✡", "<think>")))
    with server("--chat-template", folder / "form", model=speaking(folder, said)) as s:
        for n in range(40 if BRIEF else 80):
            (system, ours, theirs), more = TALKS[n % len(TALKS)], [draw.choice(of) for of in (CHOICES, THOUGHTS, STOPS)]
            same = {"model": "claude", "max_tokens": draw.choice((1, 12, 60, 120)), "seed": draw.randrange(1 << 40), **draw.choice(SAMPLERS)}
            answer = check(s, {"messages": ours, **({"system": system} if system else {}), **same, **more[0][0], **more[1][0], **more[2][0], **(IGNORED if n % 2 else {})}, {"messages": theirs, **same, **more[0][1], **more[1][1], **more[2][1]})
            if answer:
                seen.update([answer["stop_reason"], answer["stop_sequence"], *(b["type"] for b in answer["content"])])
        require(all(seen[k] for k in ("max_tokens", "end_turn", "tool_use", "stop_sequence", "thinking", "text", *(() if BRIEF else ("END",)))), f"what is seen: {seen}")
        formats = ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, {"output_format": {"type": "json_schema", "schema": SCHEMA}})
        for more in formats:
            answer = check(s, {"messages": [USER], "max_tokens": 99, "seed": 1, "thinking": {"type": "disabled"}, **more}, {"messages": [USER], "max_tokens": 99, "seed": 1, "chat_template_kwargs": {"enable_thinking": False}, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}})
            require(list(json.loads(answer["content"][0]["text"])) == ["name"] and answer["stop_reason"] == "end_turn", f"JSON: {answer}")



def ends(folder):
    """Which stop string ends a text, and how many calls an answer has."""
    (folder / "form").write_text(FORM)
    with server("--chat-template", folder / "form") as s:
        ask = {"messages": [USER], "max_tokens": 30, "temperature": 0}
        said = check(s, ask, ask)["content"][0]["text"]
        early, late = said[12:16], said[30:35]
        for strings in (["zzz", early], [early, "zzz"], [late, early], [early, late], [late, "zzz"], ["zzz", "zz", late]):
            answer, first = check(s, {**ask, "stop_sequences": strings}, {**ask, "stop": strings}), min((t for t in strings if t in said), key=said.index)
            require((answer["stop_reason"], answer["stop_sequence"], answer["content"][0]["text"]) == ("stop_sequence", first, said[:said.index(first)]), f"{strings} in {said}: {answer}")
        prompt = s.ask("/apply-template", {"messages": [USER], "tools": THEIRS})[1]["prompt"]
    tokens = ran("--special", "-p", prompt, "-n", "30")[0]["tokens"]
    calls = [t for t in tokens if t > 300 and tokens.count(t) == 1][:2]
    model = speaking(folder, dict(zip(calls, ('<tool_call>{"name": "now", "arguments": {}}</tool_call>', "<tool_call><function=weather><parameter=city>12</parameter></function></tool_call>"))))
    with server("--chat-template", folder / "form", model=model) as s:
        ask["max_tokens"] = 1 + max(map(tokens.index, calls))
        for one in (False, True):
            answer = check(s, {**ask, "tools": OURS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": one}}, {**ask, "tools": THEIRS, "parallel_tool_calls": not one})
            require(whole(answer)["tool_use"] == [("now", {}), ("weather", {"city": "12"})][:2 - one], f"calls: {answer}")


def refusals(folder):
    """What is refused, by name and in Anthropic's form; and what is ignored."""
    (folder / "form").write_text(FORM)
    ask, image = {"messages": [USER], "max_tokens": 3, "temperature": 0}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}

    def talk(role, *blocks):
        return {"messages": [{"role": role, "content": [*blocks]}, USER]}

    def refused(s, said, body, path=MESSAGES, status=400, kind="invalid_request_error", **more):
        got, answer, _ = s.ask(path, body, **more)
        require(got == status and answer == {"type": "error", "error": {"type": kind, "message": answer["error"]["message"]}} and said in answer["error"]["message"], f"{status} {said}: {got} {answer}")
    s = Server("--chat-template", folder / "form")
    try:
        for said, more in (("max_tokens", {"max_tokens": None}), ("messages", {"messages": []}), ("messages[0].content[1].type: image", talk("user", text("a"), image)),
                           ("messages[0].content[0].type: document", talk("user", {"type": "document"})), ("messages[0].content[0].content[0].type: image", talk("user", {"type": "tool_result", "tool_use_id": "a", "content": [image]})), ("system[0].type: image", {"system": [image]}),
                           ("messages[0].content[0].type: tool_use", talk("user", WEATHER[0])), ("messages[0].content[0].type: tool_result", talk("assistant", {"type": "tool_result", "tool_use_id": "a"})), ("messages[0].content[0].type: text tool_result", talk("user", {"type": "text tool_result"})),
                           ("messages[0].content[0].tool_use_id", talk("user", {"type": "tool_result"})), ("messages[0].content[0].text", talk("user", {"type": "text"})), ("messages[0].content[0].thinking", talk("assistant", {"type": "thinking"})),
                           ("messages[0].content[0].id", talk("assistant", {"type": "tool_use", "name": "now", "input": {}})), ("messages[0].content[0].id", talk("assistant", {**NOW[0], "input": "{}"})), ("messages[0].content", {"messages": [{"role": "user", "content": 1}]}), ("messages[1].content", {"messages": [USER, {"role": "tool", "content": "a"}, USER]}),
                           ("tools", {"tools": {}}), ("tools[0].name", {"tools": [{"name": "a"}]}), ("tools[0].name", {"tools": [{"input_schema": {}}]}), ("tool_choice", {"tools": OURS, "tool_choice": {"type": "some"}}),
                           ("thinking", {"thinking": {"type": "much"}}), ("output_config.format", {"output_config": {"format": {"type": "grammar"}}}), ("output_config.format", {"output_format": {"type": "json_schema", "schema": {"type": "string", "pattern": "(?=a)"}}}), ("stop_sequences", {"stop_sequences": [""]}), ("temperature", {"temperature": -1}),
                           ("container", {"container": "a"}), ("mcp_servers", {"mcp_servers": [{}]}), ("context_management", {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}), ("n is", {"n": 2}), ("stop is", {"stop": "a"}), ("response_format", {"response_format": {"type": "json_object"}})):
            refused(s, said, {**ask, **more})
            refused(s, said, {**ask, **more, "stream": True})
            require(said == "max_tokens" or s.ask(COUNT, {**ask, **more})[0] == 400, f"counting {said}")
        require(s.ask(COUNT, {"messages": [USER, {"role": "assistant", "content": "He"}]})[0] == 200, "a conversation that ends with an answer is counted")
        answers = [s.ask(MESSAGES, {**ask, "seed": 1, "tools": [*more, OURS[0]]})[1] for more in ([{"type": "web_search_20250305", "name": "web_search"}, {"type": "bash_20250124", "name": "bash"}], [])]
        require(answers[0]["content"] == answers[1]["content"] and sum(answers[0]["usage"].values()) == sum(answers[1]["usage"].values()), f"tools that this server does not run are left out: {answers}")
        tool = {"name": "a", "input_schema": {"type": "object", "properties": {"b": {"type": "string", "pattern": "(?=a)"}}}}
        require([s.ask(COUNT, {**ask, "tools": [{**tool, "strict": strict}]})[0] for strict in (False, True)] == [200, 400], "a strict tool whose schema is not supported")
        refused(s, "is for POST", None, status=405)
        refused(s, "JSON", "[")
        plain = s.ask(MESSAGES, ask)[1]["content"]
        more = {"unknown": 1, "speed": "fast", "cache_control": {"type": "ephemeral"}, "n": 1, "container": None, "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [{"role": "user", "content": [text(USER["content"], other=1)]}]}  # the template never thinks
        require(s.ask(MESSAGES, {**ask, **more})[1]["content"] == plain == s.ask("/messages?beta=true", ask, headers={"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})[1]["content"], "what is ignored")
    finally:
        code, said = s.end()
    require(code == -signal.SIGTERM and all(said.count(f'has "{name}"') == 1 for name in ("unknown", "other", "speed", "thinking")), f"what is said of it: {said}")
    with server("--chat-template", folder / "form", "--strict") as s:
        refused(s, "tools[1].type: web_search_20250305", {**ask, "tools": [OURS[0], {"type": "web_search_20250305", "name": "web_search"}]})
        for said, body in (("unknown", {**ask, "unknown": 1}), ("messages[0].content[0].other", {**ask, "messages": [{"role": "user", "content": [text("a", other=1)]}]}), ("tools[0].other", {**ask, "tools": [{**OURS[0], "other": 1}]}), ("thinking", {**ask, "thinking": {"type": "enabled"}})):
            refused(s, said, body)
        refused(s, "this server has", {**ask, "model": "claude"}, status=404, kind="not_found_error")


def limits(folder):
    """Errors of keys, sizes, the queue and the context."""
    (folder / "keys").write_text("secret\n")
    ask = {"messages": [USER], "max_tokens": 3}
    with server("--api-key-file", folder / "keys", "--body-limit", "1") as s:
        for path in (MESSAGES, COUNT):
            got, answer, _ = s.ask(path, ask, headers={"X-Api-Key": "other"})
            require(got == 401 and answer["error"]["type"] == "authentication_error", f"another key: {answer}")
            require(s.ask(path, ask, headers={"X-Api-Key": "secret"})[0] == 200, "the key")
            got, answer, _ = s.ask(path, {**ask, "system": "a" * 2000}, headers={"X-Api-Key": "secret"})
            require(got == 413 and answer["error"]["type"] == "request_too_large", f"a large body: {answer}")
    with server("--parallel", "1", "--queue", "1", settings=("--ctx", "256", "--prefix-cache", "0")) as s:
        long = {"messages": [{"role": "user", "content": "of the LORD " * 200}]}
        n = s.ask(COUNT, long)[1]["input_tokens"]
        got, answer, _ = s.ask(MESSAGES, {**ask, **long})
        require(n > 400 and got == 400 and f"prompt is too long: {n} tokens > 255 maximum" in answer["error"]["message"], f"a long prompt: {n} {answer}")
        full = [s.open("/v1/completions", {"prompt": "And", "max_tokens": 250, "stream": True, "ignore_eos": True}) for _ in range(2)]
        got, answer, _ = s.ask(MESSAGES, ask)
        require(got == 429 and answer["error"]["type"] == "rate_limit_error", f"a full queue: {answer}")
        for connection, _ in full:
            connection.close()


run_tests(ends, answers, refusals, limits)

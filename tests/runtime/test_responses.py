#!/usr/bin/env python3
"""gdn serve: /v1/responses has the texts, reasoning, calls and usage of /v1/chat/completions for the same conversation.

    test_responses.py GDN FOLDER [--brief]   as test_run.py
"""
import collections
import itertools
import json
import random

from server import FORM, PROMPT, TOOLS, ran, refused, server, speaking
from tool import BRIEF, require, run_tests

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
FLAT = [{"type": "function", **t["function"]} for t in TOOLS]
THINKS = FORM.replace("{{ m.content }}", "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}").replace(
    "{{ note }}", "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{{ reasoning_effort }}")
CALLS = ('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', "<tool_call>\n<function=weather>\n<parameter=city>\n12 \u00e4\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>")


def text(kind, value):
    return {"type": kind, "text": value}


def call(name, arguments, number):
    return {"type": "function_call", "call_id": number, "name": name, "arguments": arguments, "id": f"fc_{number}", "status": "completed"}


def function(name, arguments, number):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(value):  # as this server writes it
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{**text("output_text", value), "annotations": [], "logprobs": []}]}


USER = {"role": "user", "content": "Who was Moses?"}
# conversations: members of a request for /v1/responses, and the messages of a chat
TALKS = (
    ({"input": "Who was Moses?"}, [USER]),
    ({"input": [USER], "instructions": "Thou art a prophet."}, [{"role": "system", "content": "Thou art a prophet."}, USER]),
    ({"input": [{"role": "developer", "content": [text("input_text", "And speakest "), text("input_text", "in verses.")]}, {"type": "message", **USER}], "instructions": "Thou art a prophet."},
     [{"role": "system", "content": "Thou art a prophet.\n\nAnd speakest in verses."}, USER]),
    ({"input": [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "system", "content": "c"}, USER, {"role": "system", "content": "d"}]},
     [{"role": "system", "content": "a\n\nb\n\nc"}, USER, {"role": "system", "content": "d"}]),
    ({"input": [USER, said("A man."), {"role": "user", "content": [text("input_text", "\u00e4\u2028 "), text("input_text", "who?")]}]}, [USER, {"role": "assistant", "content": "A man."}, {"role": "user", "content": "\u00e4\u2028 who?"}]),
    ({"input": [USER, {"type": "reasoning", "id": "rs_1", "summary": [], "content": [text("reasoning_text", "so "), text("reasoning_text", "be it")]}, said("A man."), call("now", "{}", "c1"), call("weather", '{"city": "Nazareth"}', "c2"),
                {"type": "function_call_output", "call_id": "c1", "output": "noon"}, {"type": "function_call_output", "call_id": "c2", "output": [text("input_text", "Sunny")]}, USER]},
     [USER, {"role": "assistant", "reasoning_content": "so be it", "content": "A man.", "tool_calls": [function("now", "{}", "c1"), function("weather", '{"city": "Nazareth"}', "c2")]},
      {"role": "tool", "tool_call_id": "c1", "content": "noon"}, {"role": "tool", "tool_call_id": "c2", "content": "Sunny"}, USER]),
    ({"input": [USER, call("now", "", "c1"), said("Wait."), {"type": "function_call_output", "call_id": "c1", "output": ""}, {"type": "reasoning", "summary": [text("summary_text", "hm")], "encrypted_content": "x"}, call("now", "{}", "c2"),
                {"type": "function_call_output", "call_id": "c2", "output": "noon"}, said("Noon."), said("And more."), USER]},
     [USER, {"role": "assistant", "content": "Wait.", "tool_calls": [function("now", "", "c1")]}, {"role": "tool", "tool_call_id": "c1", "content": ""}, {"role": "assistant", "reasoning_content": "hm", "tool_calls": [function("now", "{}", "c2")]},
      {"role": "tool", "tool_call_id": "c2", "content": "noon"}, {"role": "assistant", "content": "Noon."}, {"role": "assistant", "content": "And more."}, USER]),
    ({"input": [USER, {"type": "reasoning", "summary": [], "encrypted_content": "x"}, {"role": "assistant", "content": [{"type": "refusal", "refusal": "Nay."}]}, {"type": "reasoning", "summary": [text("summary_text", "no")], "content": [text("reasoning_text", "y")]}, USER]},
     [USER, {"role": "assistant", "content": "Nay."}, {"role": "assistant", "reasoning_content": "y", "content": ""}, USER]),
)


def stream_of(s, body):
    """The events of a stream, whose form and order are checked, and the last one's response."""
    status, whole, response = s.ask(RESPONSES, {**body, "stream": True})
    require(status == 200 and response.getheader("Content-Type") == "text/event-stream", f"a stream: {status} {whole}")
    events = []
    for block in whole.split("\n\n")[:-1]:
        if block == ": waiting":
            continue
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        require(name == f"event: {events[-1]['type']}", f"the name of an event: {block}")
    require([e["sequence_number"] for e in events] == [*range(len(events))], "sequence numbers")
    kinds = [e["type"].removeprefix("response.") for e in events]
    last = events[-1]["response"]
    require(kinds[:2] == ["created", "in_progress"] and kinds[-1] == last["status"], f"the first and the last events: {kinds}")
    for e in events[:2]:
        require(e["response"] == {**last, "output": [], "usage": None, "incomplete_details": None, "status": "in_progress"}, f"the answer before it is made: {e}")
    at = 2
    for index, item in enumerate(last["output"]):
        place, begin = {"output_index": index, "item_id": item["id"]}, at
        part = {"reasoning": "reasoning_text", "message": "output_text"}.get(item["type"])
        delta = part or "function_call_arguments"
        logprobs = {"logprobs": []} if item["type"] == "message" else {}
        if part:
            require(len(item["content"]) == 1 and item["content"][0]["type"] == part, f"parts: {item}")
            full, place = item["content"][0]["text"], {**place, "content_index": 0}
        else:
            full = item["arguments"]
        expected = [{"type": "output_item.added", "output_index": index, "item": {**item, "status": "in_progress", **({"content": []} if part else {"arguments": ""})}}]
        if part:
            expected += [{"type": "content_part.added", **place, "part": {**item["content"][0], "text": ""}}]
        deltas = [e for e in itertools.takewhile(lambda e: e["type"] == f"response.{delta}.delta", events[begin + len(expected):])]
        require("".join(e["delta"] for e in deltas) == full, f"the pieces of {item}: {deltas}")
        expected += [{"type": f"{delta}.delta", **place, **logprobs, "delta": e["delta"]} for e in deltas]
        expected += [{"type": f"{delta}.done", **place, **logprobs, **({"text": full} if part else {"arguments": full, "name": item["name"]})}]
        if part:
            expected += [{"type": "content_part.done", **place, "part": item["content"][0]}]
        expected += [{"type": "output_item.done", "output_index": index, "item": item}]
        at += len(expected)
        require([{**e, "type": e["type"].removeprefix("response.")} for e in events[begin:at]] == [{**e, "sequence_number": begin + i} for i, e in enumerate(expected)], f"the events of {item}: {events[begin:at]}, not {expected}")
    require(at == len(events) - 1, f"no other events: {kinds}")
    return events, last


def parts_of(answer):
    """Reasoning, text and calls of an answer, and whether its items have their form."""
    found = {"reasoning": "", "message": "", "function_call": []}
    for i, item in enumerate(answer["output"]):
        members = {"reasoning": {"summary", "content"}, "message": {"role", "content"}, "function_call": {"call_id", "name", "arguments"}}[item["type"]]
        require(set(item) == {"id", "type", "status"} | members and item["id"].startswith({"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}[item["type"]]), f"the members of {item}")
        last = i + 1 == len(answer["output"]) and item["type"] != "function_call"
        require(item["status"] == (answer["status"] if last else "completed"), f"the status of {item} of {answer}")
        if item["type"] == "function_call":
            found["function_call"].append((item["name"], item["arguments"]))
        else:
            found[item["type"]] += "".join(p["text"] for p in item["content"])
    ids = [item[name] for item in answer["output"] for name in ("id", "call_id") if name in item]
    require(len(set(ids)) == len(ids), f"ids: {ids}")
    return found


def same(s, body, chat, what):
    """Asks a chat, and the same here whole and streamed. Returns the chat's choice and both answers."""
    asked = [s.ask(CHAT, chat) for _ in range(2)][1]  # the second one finds its prompt
    require(asked[0] == 200, f"{what}: {asked[1]}")
    choice, usage = asked[1]["choices"][0], asked[1]["usage"]
    message = choice["message"]
    wanted = {"reasoning": message.get("reasoning_content", ""), "message": message["content"] or "", "function_call": [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]}
    status, whole, _ = s.ask(RESPONSES, body)
    require(status == 200, f"{what}: {status} {whole}")
    events, streamed = stream_of(s, body)
    for answer in (whole, streamed):
        require(parts_of(answer) == wanted, f"{what}: {answer['output']}, not {wanted}")
        cut = choice["finish_reason"] == "length"
        require(answer["status"] == ("incomplete" if cut else "completed") and answer["incomplete_details"] == ({"reason": "max_output_tokens"} if cut else None), f"{what}: the end {answer}, not {choice}")
        cached, before = answer["usage"]["input_tokens_details"]["cached_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        require(before <= cached < usage["prompt_tokens"], f"{what}: {cached} tokens of {usage} are cached")
        require(answer["usage"] == {"input_tokens": usage["prompt_tokens"], "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
                                    "output_tokens": usage["completion_tokens"], "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": usage["total_tokens"]}, f"{what}: {answer['usage']}, not {usage}")
        require(answer["seed"] == asked[1]["seed"] or "seed" not in body, f"{what}: the seed")
    require([item["type"] for item in whole["output"]] == [k for k in ("reasoning", "message", "function_call") for _ in ([*wanted[k]] if k == "function_call" else [1] if wanted[k] or (k == "message" and choice["finish_reason"] == "stop") else [])],
            f"{what}: the order {whole['output']}, of {choice}")
    return choice, whole, streamed, len(events)


def model_of(folder):
    """A model whose texts have ends of thinking, calls of tools, and a word to stop at."""
    tokens = [t for seed in range(5) for t in ran("-p", PROMPT, "-n", "200", "--temp", "1", "--seed", seed)[0]["tokens"]]
    common = [t for t, _ in collections.Counter(tokens).most_common() if t > 300]
    return speaking(folder, {t: ("</think>", *CALLS)[i % 3] for i, t in enumerate(common[1:10])} | {common[10]: "END"})


def conversations(folder):
    """Options drawn together: conversations, tools, thinking, stops, lengths and samplers."""
    (folder / "form").write_text(THINKS)
    model = model_of(folder)
    draw, found, forced = random.Random(4), collections.Counter(), 0
    with server("--chat-template", folder / "form", model=model) as s:
        for i in range(40 if BRIEF else 60):
            more = {k: v for k, v in {"temperature": draw.choice((0, 0.7, 1.2)), "seed": draw.randrange(100), "top_p": draw.choice((None, 0.9)), "top_k": draw.choice((None, 20)), "min_p": draw.choice((None, 0.02)), "stop": draw.choice((None, "END", ["END", "LORD"])),
                                      "parallel_tool_calls": draw.choice((None, True, False)), "presence_penalty": draw.choice((None, 0.3)), "chat_template_kwargs": draw.choice((None, {"enable_thinking": False}))}.items() if v is not None}
            (body, messages), n = TALKS[i % len(TALKS)], draw.choice((1, 30, 60, 120))
            body, chat = {**body, **more, "max_output_tokens": n}, {"messages": messages, **more, "max_tokens": n}
            if draw.random() < 0.8:
                body, chat = {**body, "tools": FLAT}, {**chat, "tools": TOOLS}
                choice = draw.choice(("auto", "auto", "auto", "none", "required", "weather"))
                if choice in ("required", "weather") and "stop" not in more:
                    forced += 1
                    body["tools"], chat["tools"] = [{**FLAT[0], "strict": True}, FLAT[1]], [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}, TOOLS[1]]
                if choice in ("auto", "none") or "stop" not in more:  # a stop string would cut a call
                    body["tool_choice"] = {"type": "function", "name": choice} if choice == "weather" else choice
                    chat["tool_choice"] = {"type": "function", "function": {"name": choice}} if choice == "weather" else choice
            if draw.random() < 0.3:
                body, chat = {**body, "reasoning": {"effort": "low", "summary": "auto"}}, {**chat, "reasoning_effort": "low"}
            choice, whole, streamed, _ = same(s, body, chat, f"{i} {body}")
            message = choice["message"]
            found.update({"reasoning": bool(message.get("reasoning_content")), "content": bool(message["content"]), "calls": bool(message.get("tool_calls")), "several": len(message.get("tool_calls", [])) > 1, "nothing": not message["content"] and not message.get("tool_calls"),
                          "later content": len(streamed["output"]) > len(whole["output"]), choice["finish_reason"]: True})
    require(all(found[k] for k in ("reasoning", "content", "calls", "several", "nothing", "later content", "stop", "length", "tool_calls")) and forced, f"what was drawn: {found}")


def turns(folder):
    """An answer's items are the next request's input, and mean what a chat's message means there."""
    (folder / "form").write_text(THINKS)
    model = model_of(folder)
    n_calls = 0
    with server("--chat-template", folder / "form", model=model) as s:
        for seed in range(4 if BRIEF else 6):
            more = {"temperature": 1, "seed": seed, "chat_template_kwargs": {"enable_thinking": seed % 3 == 0}}
            body = {"input": [USER], "instructions": "Speak.", "tools": FLAT, "max_output_tokens": 60, **more}
            chat = {"messages": [{"role": "system", "content": "Speak."}, USER], "tools": TOOLS, "max_tokens": 60, **more}
            for turn in range(3):
                choice, whole, streamed, _ = same(s, body, chat, f"seed {seed} turn {turn}")
                items = (whole, streamed)[seed % 2]["output"]
                calls = [item["call_id"] for item in items if item["type"] == "function_call"]
                message = {**choice["message"], "tool_calls": [{**c, "id": number} for c, number in zip(choice["message"].get("tool_calls", []), calls)]}
                n_calls += len(calls)
                body = {**body, "input": [*body["input"], *items, *({"type": "function_call_output", "call_id": c, "output": f"result {c}"} for c in calls), USER]}
                chat = {**chat, "messages": [*chat["messages"], message, *({"role": "tool", "tool_call_id": c, "content": f"result {c}"} for c in calls), USER]}
    require(n_calls > 3, f"calls: {n_calls}")


def members(folder):
    """What an answer says of its request; members that are ignored; a strict server; what is refused, and how."""
    (folder / "form").write_text(FORM)
    plain = {"input": "Who was Moses?", "max_output_tokens": 9, "temperature": 0}
    with server("--chat-template", folder / "form") as s:
        whole = s.ask(RESPONSES, plain)[1]
        require(whole["id"].startswith("resp_") and whole["object"] == "response" and whole["model"] == s.ask("/v1/models")[1]["data"][0]["id"] and whole["error"] is None, f"an answer: {whole}")
        require({k: whole[k] for k in ("tools", "tool_choice", "parallel_tool_calls", "metadata", "store", "text", "truncation", "instructions", "max_output_tokens", "temperature", "top_p", "previous_response_id", "user")}
                == {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "metadata": {}, "store": False, "text": {"format": {"type": "text"}}, "truncation": "disabled", "instructions": None, "max_output_tokens": 9, "temperature": 0,
                    "top_p": None, "previous_response_id": None, "user": None}, f"defaults: {whole}")
        given = {"instructions": "Speak.", "metadata": {"a": "b"}, "store": True, "tools": FLAT, "tool_choice": "none", "parallel_tool_calls": False, "top_p": 0.5, "user": "me", "reasoning": {"effort": "low", "summary": "auto"}}
        whole = s.ask("/responses", {**plain, **given})[1]
        require({k: whole[k] for k in given} == given, f"what was asked: {whole}")
        tools = s.ask(RESPONSES, {**plain, "tools": [{"description": None, "parameters": FLAT[1]["parameters"], "strict": True, "name": "weather", "type": "function"}]})[1]
        require(tools["usage"]["input_tokens"] == s.ask(CHAT, {"messages": [USER], "max_tokens": 1, "tools": TOOLS[1:]})[1]["usage"]["prompt_tokens"], "the template has a tool in the order of chats")
        ignored = {"store": True, "metadata": {"a": "b"}, "user": "me", "service_tier": "auto", "prompt_cache_key": "x", "safety_identifier": "x", "include": ["reasoning.encrypted_content"], "truncation": "disabled", "background": False, "top_logprobs": 0,
                   "previous_response_id": None, "tools": None, "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "none", "summary": "auto"}, "stream_options": {"include_obfuscation": False}, "client_metadata": {}, "tool_choice": "auto", "max_tool_calls": 3}
        texts = [s.ask(RESPONSES, {**plain, **more}) for more in ({}, ignored, *({k: v} for k, v in ignored.items()), {"nonsense": 1})]
        require({(status, json.dumps(a["output"][0]["content"] if status == 200 else a)) for status, a, _ in texts} == {(200, json.dumps(texts[0][1]["output"][0]["content"]))}, f"ignored: {[a for _, a, _ in texts]}")
        for item in ({"type": "item_reference", "id": "x"}, {"type": "custom_tool_call", "name": "f"}, {"type": "nonsense"}, {"type": 3}, {}, 3, None):
            error, _ = refused(s, 400, "input[1].type", {**plain, "input": [USER, item]}, RESPONSES)
            require(not isinstance(item, dict) or str(item.get("type", "")) in error["message"] or item["type"] == 3, f"{item}: {error}")
        for kind in ("web_search", "file_search", "mcp", "custom", "local_shell", "image_generation", "namespace"):
            answers = [s.ask(RESPONSES, {**plain, "tools": [FLAT[0], *more]})[1] for more in ([{"type": kind}], [])]
            require(answers[0]["output"][0]["content"] == answers[1]["output"][0]["content"] and answers[0]["usage"]["input_tokens"] == answers[1]["usage"]["input_tokens"], f"{kind} is left out: {answers}")
        part = {"type": "input_image", "image_url": "data:"}
        for param, more in (("input[0].content[1].type", {"input": [{"role": "user", "content": [text("input_text", "x"), part]}]}), ("input[1].output[0].type", {"input": [USER, {"type": "function_call_output", "call_id": "c", "output": [part]}]}),
                            ("input[0].content[0].text", {"input": [{"role": "user", "content": [{"type": "input_text"}]}]}), ("input[0].content", {"input": [{"role": "user"}]}), ("input[0].role", {"input": [{"role": "tool", "content": "x"}]}),
                            ("input[0].role", {"input": [{"type": "message", "content": "x"}]}), ("input", {"input": None}), ("input", {"input": 3}), ("input", {"input": []}), ("input", {"input": "x " * 9000}), ("instructions", {"instructions": ["x"]}), ("tools", {"tools": {}}), ("tools", {"tools": [{**FLAT[1], "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "a"}}}}]}),
                            ("tools[0].name", {"tools": [{"type": "function", "function": {"name": "f"}}]}), ("previous_response_id", {"previous_response_id": "resp_1"}), ("conversation", {"conversation": "c"}), ("include", {"include": ["message.output_text.logprobs"]}),
                            ("background", {"background": True}), ("truncation", {"truncation": "auto"}), ("top_logprobs", {"top_logprobs": 2}), ("prompt", {"prompt": {"id": "x"}}), ("input", {"input": None, "messages": [USER]}), ("max_output_tokens", {"max_output_tokens": 0}),
                            ("max_output_tokens", {"max_output_tokens": "x"}), ("text", {"text": "x"}), ("text.format", {"text": {"format": {"type": "grammar"}}}), ("reasoning", {"reasoning": "low"}), ("reasoning.effort", {"reasoning": {"effort": 3}}),
                            ("temperature", {"temperature": "x"}), ("tool_choice", {"tools": FLAT, "tool_choice": {"type": "web_search"}}), ("stream", {"stream": 1}), ("stream_options", {"stream_options": 1}), ("chat_template_kwargs", {"chat_template_kwargs": 1}),
                            ("input[1].defer_loading", {"input": [USER, {**USER, "defer_loading": True}]})):
            for stream in ({}, {"stream": True}):
                error, _ = refused(s, 400, param, {**plain, **stream, **more}, RESPONSES)
        require(s.ask(RESPONSES)[0] == 405 and s.ask(RESPONSES + "/resp_1")[0] == 404 and refused(s, 400, None, "{", RESPONSES), "methods and paths")
    with server("--strict", "--chat-template", folder / "form") as s:
        error, _ = refused(s, 400, "tools[1].type", {**plain, "tools": [FLAT[0], {"type": "web_search"}]}, RESPONSES)
        require("web_search" in error["message"], f"a strict server: {error}")
        for param, more in (("nonsense", {"nonsense": 1}), ("input[0].nonsense", {"input": [{**USER, "nonsense": 1}]}), ("tools[0].nonsense", {"tools": [{**FLAT[0], "nonsense": 1}]}), ("text.nonsense", {"text": {"nonsense": 1}}), ("reasoning.nonsense", {"reasoning": {"nonsense": 1}})):
            refused(s, 400, param, {**plain, **more}, RESPONSES)
        for body, _ in TALKS:
            require(s.ask(RESPONSES, {**plain, **body, "tools": FLAT, **ignored})[0] == 200, f"what clients send: {body}")


def structured():
    """text.format: the JSON that a chat's response_format gives."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name", "age"], "additionalProperties": False}
    with server() as s:
        for ours, of_chat in (({"type": "json_schema", "name": "person", "strict": True, "schema": schema}, {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}), ({"type": "json_object"},) * 2):
            more = {"temperature": 1, "seed": 3}
            choice, whole, _, _ = same(s, {"input": "Who was Moses?", "max_output_tokens": 200, "text": {"format": ours}, **more}, {"messages": [USER], "max_tokens": 200, "response_format": of_chat, **more}, f"{ours}")
            require(choice["message"]["content"].startswith("{") and whole["text"] == {"format": ours}, f"JSON: {choice}")
        refused(s, 400, "text.format", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "string", "pattern": "a"}}}}, RESPONSES)
        refused(s, 400, "text.format", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}, RESPONSES)


run_tests(conversations, turns, members, structured)

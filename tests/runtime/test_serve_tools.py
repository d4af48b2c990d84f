#!/usr/bin/env python3
"""gdn serve: calls of tools that are forced or held to schemas: random tools and options, drawn together.

    test_serve_tools.py GDN FOLDER [--brief] [SEED]
"""
import json
import random
import sys

from server import FORM, refused, server
from tool import BRIEF, require, run_tests

REST = [a for a in sys.argv[3:] if a != "--brief"]
RANDOM = random.Random(int(REST[0]) if REST else 1)
CHAT = "/v1/chat/completions"
SAY = {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 250}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"], "additionalProperties": False}


def drawn_value(depth=0):
    """A schema, and what its values are."""
    kind = RANDOM.randrange(9 if depth < 2 else 6)
    if kind == 0:
        most = RANDOM.randrange(1, 12)
        return {"type": "string", "maxLength": most}, lambda v: type(v) is str and len(v) <= most
    if kind == 1:
        return {"type": "integer", "minimum": -5, "maximum": 120}, lambda v: type(v) is int and -5 <= v <= 120
    if kind == 2:
        return {"type": "boolean"}, lambda v: type(v) is bool
    if kind == 3:
        words = RANDOM.sample(["C", "F", "in the", "a>b", "12", "null", 'q"t', "\u00e9"], 3)
        return {"enum": words}, lambda v: v in words
    if kind == 4:
        return {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}, lambda v: v is None or (type(v) is str and len(v) <= 5)
    if kind == 5:
        return {"enum": [1, 20, None]}, lambda v: v in (1, 20, None) and type(v) is not bool
    if kind == 6:
        schema, good = drawn_value(depth + 1)
        return {"type": "array", "items": schema, "minItems": 1, "maxItems": 2}, lambda v: type(v) is list and 1 <= len(v) <= 2 and all(map(good, v))
    if kind == 7:
        return {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 2}]}, \
               lambda v: (type(v) is str and len(v) <= 4) or (type(v) is list and len(v) <= 2 and all(type(i) is int and 0 <= i <= 9 for i in v))
    return drawn_object(depth + 1)


def drawn_object(depth=0):
    names = RANDOM.sample(["a", "ab", "city", "days", "x y", "\u00fc", "-"], RANDOM.randrange(4))
    of = {name: drawn_value(depth) for name in names}
    needed = [n for n in names if RANDOM.random() < .5]
    schema = {"type": "object", "properties": {n: s for n, (s, _) in of.items()}, "required": needed, "additionalProperties": False}
    return schema, lambda v: type(v) is dict and set(needed) <= set(v) <= set(of) and all(of[n][1](v[n]) for n in v)


def drawn_tools():
    """Tools, and what each one's arguments are."""
    names = RANDOM.sample(["now", "now_2", "get", "get_weather", "f"], RANDOM.randrange(1, 4))
    of = {name: drawn_object() for name in names}
    return [{"type": "function", "function": {"name": n, "parameters": of[n][0], **({"strict": True} if RANDOM.random() < .5 else {})}} for n in names], {n: of[n][1] for n in names}


def from_events(events):
    """The message and the reason of a stream."""
    message, calls = {"content": ""}, {}
    for choice in (c for e in events for c in e["choices"]):
        message["content"] += choice["delta"].get("content") or ""
        message["reasoning_content"] = message.get("reasoning_content", "") + (choice["delta"].get("reasoning_content") or "")
        for call in choice["delta"].get("tool_calls", []):
            to = calls.setdefault(call["index"], {"name": "", "arguments": ""})
            for key in to:
                to[key] += call["function"].get(key) or ""
        reason = choice["finish_reason"]
    return message, [calls[i] for i in sorted(calls)], reason


def forced(folder):
    """Required and named calls, alone and beside response_format: valid calls and nothing else, the same streamed, and with drafts."""
    for tags in (0, 1):
        (folder / "form").write_text(FORM + ("{# <function=NAME> #}" if tags else ""))
        with server("--chat-template", folder / "form", "--spec", "off") as s, server("--chat-template", folder / "form", "--spec", "ngram", "--always-draft") as drafts:
            n_calls = n_json = n_cut = 0
            for _ in range(10 if BRIEF else 16):
                tools, good = drawn_tools()
                name = RANDOM.choice(list(good))
                choice, n_least = RANDOM.choice([("required", 1), ({"type": "function", "function": {"name": name}}, 1), ("auto", 0)])
                format = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 7}}}} if not n_least or RANDOM.random() < .3 else {}
                body = {**SAY, "tools": tools, "tool_choice": choice, "seed": RANDOM.randrange(1000), "temperature": RANDOM.choice([0, 1]), "parallel_tool_calls": RANDOM.random() < .5, **format}
                status, answer, _ = s.ask(CHAT, body)
                require(status == 200, f"{status}: {answer} to {body}")
                [one] = answer["choices"]
                calls = [c["function"] for c in one["message"].get("tool_calls", [])]
                for other in (s, drafts):
                    message, streamed, reason = from_events(other.events(CHAT, body)[0])
                    require(streamed == calls and reason == one["finish_reason"] and message["content"] == (one["message"]["content"] or ""), f"streamed: {message} {streamed}, not {one}")
                n_cut += one["finish_reason"] == "length"
                for call in calls:
                    require(call["name"] in good and good[call["name"]](json.loads(call["arguments"])), f"a call is valid: {call} of {body}")
                if one["finish_reason"] == "length":
                    continue
                require(n_least <= len(calls) and (len(calls) <= 1 or (choice != body["tool_choice"] or choice == "required" or format)), f"calls: {one}")
                require(body["parallel_tool_calls"] or len(calls) < 2, f"one call at most: {one}")
                require(not isinstance(choice, dict) or [c["name"] for c in calls] == [name], f"the named tool: {one}")
                require((one["message"]["content"] is None) if calls else one["message"]["content"] == "7", f"nothing beside calls: {one}")
                n_calls += len(calls)
                n_json += not calls
            require(n_calls > 4 and n_json and n_cut < 5, f"calls, JSON and cut texts: {n_calls}, {n_json}, {n_cut}")


def strict(folder):
    """A strict tool changes nothing in a text without calls. What it cannot have is refused, and any arguments come where it is not strict."""
    pattern = {**CITY, "properties": {"city": {"type": "string", "pattern": "x"}}}
    (folder / "form").write_text(FORM)
    with server("--chat-template", folder / "form") as s:
        for seed in range(3):
            texts = [s.ask(CHAT, {**SAY, "seed": seed, "temperature": 1, "tools": [{"type": "function", "function": {"name": "get", "parameters": CITY, **more}}]})[1]["choices"] for more in ({}, {"strict": False}, {"strict": True})]
            require(texts[0] == texts[1] == texts[2], f"text without calls: {texts}")
        tool = {"type": "function", "function": {"name": "get", "parameters": pattern, "strict": True}}
        error, _ = refused(s, 400, "tools", {**SAY, "tools": [tool]}, CHAT)
        require("#/tools/0/parameters/properties/city/pattern is not supported" in error["message"], f"a keyword is named: {error}")
        tool["function"]["strict"] = False
        status, answer, _ = s.ask(CHAT, {**SAY, "tools": [tool], "tool_choice": "required", "max_tokens": 200})
        require(status == 200 and "tool_call" in json.dumps(answer), f"any arguments: {answer}")
        for param, more in (("ignore_eos", {"ignore_eos": True}), ("tool_choice", {"tool_choice": {"type": "function", "function": {"name": "other"}}}), ("tool_choice", {"tool_choice": "any"}), ("tool_choice", {"tools": [], "tool_choice": "required"}),
                            ("response_format", {"response_format": {"type": "json_object"}, "stop": "x"})):
            refused(s, 400, param, {**SAY, "tools": [tool], "tool_choice": "required", **more}, CHAT)
        while "a schema of a tool is not supported" not in s.process.stderr.readline():
            require(s.process.poll() is None, "that is said")


run_tests(forced, strict)

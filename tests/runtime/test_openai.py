#!/usr/bin/env python3
"""gdn serve with PyPI's openai client: every answer is the text of gdn run, however many clients ask at once.

    test_openai.py GDN FOLDER [--brief]   as test_run.py, by a Python that has openai
"""
import asyncio
import json

import openai

from server import FORM, PROMPT, TOOLS, WAIT, ran, server, speaking
from tool import require, run_tests

NAMES = ("Moses Aaron David Solomon Job Peter Paul John Mark Luke Ruth Esther Daniel Joel Amos Noah Adam Abel Cain Enoch Lot Sarah Isaac Esau Jacob Laban Leah Rachel Levi Judah "
         "Dan Gad Joseph Dinah Pharaoh Miriam Joshua Caleb Deborah Gideon Samson Delilah Eli Samuel Saul Jonathan Abner Joab Nathan Uriah Absalom Elijah Elisha Ahab Jezebel Jehu "
         "Hezekiah Isaiah Josiah Jeremiah Baruch Ezekiel Nehemiah Ezra").split()  # 64
USER = [{"role": "user", "content": "Who was Moses?"}]


def client(s, of=openai.OpenAI, **more):
    return of(base_url=f"http://127.0.0.1:{s.port}/v1", timeout=WAIT, max_retries=0, **{"api_key": "none", **more})


def texts():
    """Completions and chats, whole and streamed, with stop strings and log-probabilities."""
    with server() as s, client(s) as c:
        model = c.models.list().data[0].id
        for more, options in (({"temperature": 0}, ()), ({"temperature": 0.9, "seed": 7, "top_p": 0.9}, ("--temp", "0.9", "--seed", "7", "--top-p", "0.9")), ({"temperature": 0, "stop": ["LORD", ","]}, ("--stop", "LORD", "--stop", ","))):
            of_run = ran("-p", PROMPT, "-n", "40", *options)[0]
            whole = c.completions.create(model=model, prompt=PROMPT, max_tokens=40, **more)
            require(whole.choices[0].text == of_run["text"] and whole.usage.completion_tokens == len(of_run["tokens"]), f"a completion {more}: {whole}, not {of_run}")
            parts = list(c.completions.create(model=model, prompt=PROMPT, max_tokens=40, stream=True, stream_options={"include_usage": True}, **more))
            require("".join(p.choices[0].text for p in parts if p.choices) == of_run["text"] and parts[-1].usage.completion_tokens == whole.usage.completion_tokens, f"streamed {more}")
            of_run = ran("--chat", "-p", USER[0]["content"], "-n", "40", *(options if "temp" in "".join(options) else ("--temp", "0", *options)))[0]
            asked = {"model": model, "messages": USER, "max_completion_tokens": 40, **more}
            whole = c.chat.completions.create(**asked).choices[0]
            require(whole.message.content.lstrip("\n") == of_run["text"].lstrip("\n") and whole.message.role == "assistant", f"a chat {more}: {whole}, not {of_run}")
            parts = [p.choices[0] for p in c.chat.completions.create(**asked, stream=True)]
            require("".join(p.delta.content or "" for p in parts) == whole.message.content and parts[-1].finish_reason == whole.finish_reason, f"a streamed chat {more}")
        given = c.completions.create(model=model, prompt=PROMPT, max_tokens=9, temperature=0, logprobs=3).choices[0]
        require("".join(given.logprobs.tokens) == given.text and all(p == max(top.values()) for p, top in zip(given.logprobs.token_logprobs, given.logprobs.top_logprobs)), f"log-probabilities: {given}")
        given = c.chat.completions.create(model=model, messages=USER, max_tokens=9, temperature=0, logprobs=True, top_logprobs=2).choices[0].logprobs.content
        require(len(given) == 9 and all(t.logprob == t.top_logprobs[0].logprob >= t.top_logprobs[1].logprob for t in given), f"those of a chat: {given}")
        several = c.completions.create(model=model, prompt=[PROMPT, "Blessed are"], n=2, max_tokens=9, temperature=1, seed=1)
        require([x.text for x in several.choices] == [r["text"] for p in (PROMPT, "Blessed are") for seed in ("1", "2") for r in ran("-p", p, "-n", "9", "--temp", "1", "--seed", seed)], "several texts")


def tools(folder):
    """Calls come back as the client's objects, and their results are a part of the next prompt."""
    (folder / "form").write_text(FORM)
    ask = {"messages": USER, "temperature": 0, "max_tokens": 30, "tools": TOOLS, "stop": "END"}
    prompt = "<|im_start|>system\n" + json.dumps(TOOLS) + "<|im_end|>\n<|im_start|>user\nWho was Moses?<|im_end|>\n<|im_start|>assistant\n"
    tokens = ran("--special", "-p", prompt, "-n", "30")[0]["tokens"]
    first, second = [t for i, t in enumerate(tokens) if t > 300 and tokens.count(t) == 1][:2]
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Nazareth", "days": 2}}\n</tool_call>'
    with server("--chat-template", folder / "form", model=speaking(folder, {first: call, second: "END"})) as s, client(s) as c:
        model = c.models.list().data[0].id
        choice = c.chat.completions.create(model=model, **ask, tool_choice="auto", parallel_tool_calls=True).choices[0]
        require(choice.finish_reason == "tool_calls" and [(t.function.name, json.loads(t.function.arguments)) for t in choice.message.tool_calls] == [("weather", {"city": "Nazareth", "days": 2})], f"a call: {choice}")
        with c.chat.completions.stream(model=model, **ask) as stream:
            final = stream.get_final_completion().choices[0]
        require(final.finish_reason == "tool_calls" and final.message.tool_calls[0].function.arguments == choice.message.tool_calls[0].function.arguments, f"a streamed call: {final}")
        turn = [*USER, choice.message, {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "Sunny"}]
        more = c.chat.completions.create(model=model, **{**ask, "messages": turn})
        require(more.usage.prompt_tokens > len(s.ask("/tokenize", {"content": prompt, "parse_special": True})[1]["tokens"]) + 10, f"its result: {more.usage}")


def errors(folder):
    """The client raises what OpenAI's server makes it raise."""
    (folder / "keys").write_text("secret\n")

    def raised(kind, call, **body):
        try:
            call(**body)
        except kind as error:
            return error
        require(False, f"{kind.__name__} for {body}")
        return None
    with server("--api-key-file", folder / "keys") as s, client(s) as c, client(s, api_key="secret") as known:
        raised(openai.AuthenticationError, c.models.list)
        require(known.models.list().data, "with the key")
    with server("--parallel", "1", "--queue", "1") as s, client(s) as c:
        model = c.models.list().data[0].id
        error = raised(openai.BadRequestError, c.completions.create, model=model, prompt=PROMPT, temperature=-1)
        require("temperature" in error.message, f"its text: {error}")
        error = raised(openai.BadRequestError, c.chat.completions.create, model=model, messages=USER, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a"}}})
        require(error.param == "response_format", f"its parameter: {error}")
        require(c.completions.create(model="another", prompt=PROMPT, max_tokens=1).model == model, "this model answers for another")
        full = {"model": model, "prompt": PROMPT, "max_tokens": 3000, "stream": True, "extra_body": {"ignore_eos": True}}
        with c.completions.create(**full) as one, c.completions.create(**full):  # one runs, one waits
            next(iter(one))
            raised(openai.RateLimitError, c.completions.create, model=model, prompt=PROMPT)
        require(s.until("texts_running", lambda n: n == 0), "a stream that is closed ends its texts")
        require(c.completions.create(model=model, prompt=PROMPT, max_tokens=1).choices[0].text, "and others go on")


def at_once():
    """8 and 64 clients, each with a name of its own in its prompt: each text is that of gdn run, and a text alike for all is."""
    prompts = [f"And {name} the son of" for name in NAMES]
    expected = [ran("-p", prompt, "-n", "24", *(("--temp", "0.7", "--seed", str(i)) if i % 2 else ()))[0]["text"] for i, prompt in enumerate(prompts)]

    async def ask(c, model, i, prompt):
        more = {"temperature": 0.7, "seed": i} if i % 2 else {"temperature": 0}
        if i % 3:
            return (await c.completions.create(model=model, prompt=prompt, max_tokens=24, **more)).choices[0].text
        return "".join([p.choices[0].text async for p in await c.completions.create(model=model, prompt=prompt, max_tokens=24, stream=True, **more)])

    async def ask_all(s, of):
        async with client(s, openai.AsyncOpenAI) as c:
            model = (await c.models.list()).data[0].id
            return await asyncio.gather(*(ask(c, model, i, prompts[i]) for i in of)), await asyncio.gather(*(ask(c, model, 0, PROMPT) for _ in of))
    require(len(set(expected)) > 50, f"{len(set(expected))} different texts of 64 names")
    for options in (("--parallel", "8", "--ctx", "4096", "--always-draft"), ("--parallel", "64", "--ctx", "256", "--step", "96"), ("--parallel", "5", "--ctx", "4096", "--spec", "off", "--prefix-cache", "0")):
        with server(*options, settings=()) as s:
            for of in (range(8), range(64)):
                found, same = asyncio.run(ask_all(s, of))
                require(found == [expected[i] for i in of], f"{len(of)} at once {options}: {[i for i in of if found[i] != expected[i]]}")
                require(len(set(same)) == 1, f"{len(of)} times the same prompt: {len(set(same))} texts")


run_tests(texts, tools, errors, at_once)

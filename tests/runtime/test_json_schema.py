#!/usr/bin/env python3
"""gdn run --json-schema: texts are JSON that is valid under the schema, the same however they are drafted; an answer that is valid stays.

    test_json_schema.py GDN FOLDER [--brief] [TEXTS [N]]

TEXTS is the program test_rt_schema. With PyPI's jsonschema, its texts of N random schemas (default 300) are validated.
"""
import json
import random
import subprocess
import sys

import oracle
from tool import BRIEF, FOLDER, MODEL, gdn, refused, report, require, run_tests

REST = [a for a in sys.argv[3:] if a != "--brief"]
RANDOM = random.Random(int(REST[2]) if len(REST) > 2 else 1)
PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 24}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "tags": {"type": "array", "items": {"enum": ["holy", "wicked"]}, "minItems": 1, "maxItems": 3}}, "required": ["name", "age", "tags"]}
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
MOST = ("-n", 300)


def is_person(value):
    return (list(value) == ["name", "age", "tags"] and isinstance(value["name"], str) and len(value["name"]) <= 24 and
            type(value["age"]) is int and 0 <= value["age"] <= 150 and 1 <= len(value["tags"]) <= 3 and set(value["tags"]) <= {"holy", "wicked"})


def is_numbers(value):
    return len(value) == 2 and all(type(v) in (int, float) for v in value)


def written(folder, schema):
    path = folder / "schema.json"
    path.write_text(json.dumps(schema))
    return path


def texts(path, *arguments):
    ran = report("-m", MODEL, "--json-schema", path, *MOST, *arguments, otherwise={"requests": []})
    return [(r["text"], r["finish"], r["tokens"]) for r in ran["requests"]]


def valid_and_equal(folder):
    """Several prompts at once, greedy and sampled: each text is valid, and drafts do not change it."""
    prompts = [part for p in ("In the beginning", "And his name was", "{") for part in ("-p", p)]
    for schema, is_valid in ((PERSON, is_person), (NUMBERS, is_numbers)):
        path = written(folder, schema)
        for sampler in ((), ("--temp", 1.2, "--seed", 7), ("--temp", 0.9, "--top-k", 5, "--top-p", 0.8, "--repeat-penalty", 1.3)):
            plain = texts(path, *prompts, *sampler, "--spec", "off")
            require(len(plain) == 3, "three texts")
            for text, finish, _ in plain:
                require(finish == "stop" and is_valid(json.loads(text)), f"{sampler}: {finish}, {text} is valid")
            for spec in ("ngram", "mtp"):
                drafts = texts(path, *prompts, *sampler, "--spec", spec, "--always-draft", "--draft-max", 4, "--parallel", 3)
                require(drafts == plain, f"{sampler}: the texts with {spec}")
            small = texts(path, *prompts, *sampler, "--spec", "off", "--ctx", 340, "--cells", 400, "--parallel", 3)
            require(small == plain, f"{sampler}: the texts of requests that give way")


def constants(folder):
    """A schema with one value gives that, with each sampler."""
    path = written(folder, {"const": "Q\u00e9\n"})
    for text, finish, _ in texts(path, "-p", "x", "--temp", 1, "--seed", 3, "--parallel", 4):
        require((text, finish) == ('"Q\u00e9\\n"', "stop"), f"a constant: {text}")


def thinking(folder):
    """While the model thinks a mask changes nothing. Then comes the JSON."""
    template = folder / "template"
    template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}<think>\n")
    for seed in range(2 if BRIEF else 5):
        common = ("-m", MODEL, "--chat", "--chat-template", template, "-p", "Who is God?", "--temp", 1, "--seed", seed, "-n", 60)
        free, masked = (gdn(*common, *more) for more in ((), ("--json-schema", written(folder, PERSON))))
        text = free.stdout.decode().rstrip("\n")
        require(len(text) > 20 and masked.stdout.decode().startswith(text), f"seed {seed}: thinking is the same", masked)


def chats(folder):
    """One message, and a conversation."""
    path = written(folder, PERSON)
    common = ("-m", MODEL, "--chat", "--json-schema", path, *MOST)
    done = gdn(*common, "-p", "Who are you?")
    require(done.returncode == 0 and is_person(json.loads(done.stdout)), "a chat", done)
    done = gdn(*common, text=b"Who are you?\nAnd who am I?\n")
    lines = done.stdout.decode().splitlines()
    require(done.returncode == 0 and len(lines) == 2 and all(is_person(json.loads(line)) for line in lines), "a conversation", done)


def refusals(folder):
    path = written(folder, PERSON)
    text = ("-m", MODEL, "-p", "x", "--json-schema", path)
    refused("does not go with --json-schema", 2, *text, "--ignore-end")
    refused("does not go with --json-schema", 2, *text, "--stop", "x")
    refused("does not go with --json-schema", 2, *text, "--special")
    refused("--json-schema is for texts, not for --bench", 2, "-m", MODEL, "--bench", "--json-schema", path)
    refused("no effect with --perplexity", 2, "-m", MODEL, "--perplexity", path, "--json-schema", path)
    refused("No such file", 1, *text[:-1], folder / "none")
    refused("after 1 tokens (1 of the prompt) no token of the vocabulary continues the text", 1, "-m", FOLDER / "fixtures/tiny-qwen35-d128.gguf", "-p", "x",
            "--json-schema", path)
    endless = oracle.Model()
    endless.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*map(chr, range(98, 97 + oracle.VOCABULARY)), "bc"],
                         "tokenizer.ggml.merges": ["b c"]})
    oracle.write(folder / "endless.gguf", endless)
    refused("a schema needs a tokenizer with an end token", 1, "-m", folder / "endless.gguf", "-p", "b", "--json-schema", path)
    refused("#/properties/a/pattern is not supported", 1, *text[:-1], written(folder, {"properties": {"a": {"pattern": "x"}}}))
    (folder / "broken").write_text("{")
    refused("not valid JSON at byte 1", 1, *text[:-1], folder / "broken")


def random_schema(depth):
    """A schema of the keywords that are supported; those that are refused are counted by the caller."""
    pick, chance = RANDOM.choice, lambda p: RANDOM.random() < p
    value = lambda: pick([None, True, False, 0, 12, -3, 1.5, "", "a", "ab", "\u00e9\n\"", [1, None], {"x": [True]}])
    kind = pick(["string", "integer", "number", "boolean", "null", "enum", "const", "types"] + ["object", "array", "anyOf", "oneOf", "ref"] * (2 if depth else 0))
    low = RANDOM.randrange(4)
    if kind == "string":
        return {"type": "string", **({"minLength": low} if chance(0.5) else {}), **({"maxLength": low + RANDOM.randrange(9)} if chance(0.5) else {})}
    if kind == "integer":
        low = RANDOM.randrange(-1500, 1500)
        return {"type": "integer", **({pick(["minimum", "exclusiveMinimum"]): low} if chance(0.6) else {}),
                **({pick(["maximum", "exclusiveMaximum"]): low + RANDOM.randrange(2, 3000)} if chance(0.6) else {})}
    if kind in ("number", "boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": [value() for _ in range(RANDOM.randrange(1, 5))]}
    if kind == "const":
        return {"const": value()}
    if kind == "types":
        return {"type": RANDOM.sample(["string", "integer", "boolean", "null", "array", "object"], 2), "maxLength": 5, "maxItems": 2}
    if kind == "ref":
        return {"$ref": pick(["#/$defs/a", "#/$defs/b"])}
    if kind in ("anyOf", "oneOf"):
        return {kind: [random_schema(depth - 1) for _ in range(RANDOM.randrange(1, 4))]}
    if kind == "array":
        schema = {"type": "array", **({"minItems": low} if chance(0.5) else {}), **({"maxItems": low + RANDOM.randrange(3)} if chance(0.6) else {})}
        if chance(0.8):
            schema["items"] = random_schema(depth - 1)
        if chance(0.3):
            schema["prefixItems"] = [random_schema(depth - 1) for _ in range(RANDOM.randrange(1, 3))]
        return schema
    names = RANDOM.sample(["a", "ab", "abc", "b", "\u00e9", "q\"", "", "x y"], RANDOM.randrange(5))
    schema = {"type": "object", "properties": {name: random_schema(depth - 1) for name in names}, "required": [n for n in names if chance(0.5)]}
    if chance(0.4):
        schema["additionalProperties"] = pick([True, False, random_schema(depth - 1)])
    return schema


def random_schemas(folder):
    """Random texts of random schemas are valid by PyPI's jsonschema."""
    try:
        import jsonschema
    except ImportError:
        print("left out: random schemas, since jsonschema is not installed")
        return
    valid, long, refused_schemas = 0, 0, 0
    for _ in range(int(REST[1]) if len(REST) > 1 else 300):
        schema = random_schema(3)
        schema = {**schema, "$defs": {"a": random_schema(2), "b": random_schema(1)}}
        done = subprocess.run([REST[0], written(folder, schema), "20", str(RANDOM.randrange(1 << 30))], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        refused_schemas += done.returncode == 3
        require(done.returncode in (0, 3), f"{json.dumps(schema)}: {done.returncode}")
        check = jsonschema.Draft202012Validator(schema)
        for line in done.stdout.split(b"\n")[:-1] if not done.returncode else ():
            if line.endswith(b" LONG"):
                long += 1
                continue
            require(not line.endswith(b" STUCK"), f"{json.dumps(schema)}: {line}")
            errors = [e.message for e in check.iter_errors(json.loads(line.decode()))]
            require(not errors, f"{json.dumps(schema)}: {line}: {errors[:1]}")
            valid += 1
    print(f"random schemas: {valid} texts are valid, {long} too long, {refused_schemas} schemas were refused")
    require(valid > 100, "texts of random schemas")


run_tests(valid_and_equal, constants, thinking, chats, refusals, *([random_schemas] if REST else []))

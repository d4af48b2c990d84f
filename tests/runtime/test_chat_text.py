#!/usr/bin/env python3
"""Chat templates: the runtime writes what transformers wrote (fixtures/chat.json, of scripts/compare_chat.py). What it cannot
follow is refused with the reason. Text of a message is never taken for the template's.

    test_chat_text.py CHAT FOLDER     CHAT is test_rt_answers; FOLDER has fixtures/
"""
import json
import random
import time

import tool
from tool import FOLDER, Answers, require

FIXTURES = json.loads((FOLDER / "fixtures/chat.json").read_text())
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def word(data):
    return "*" if data is None else (data if isinstance(data, bytes) else data.encode()).hex() or "-"


class Chat(Answers):
    def template(self, text):
        return self.ask(f"template {word(text)}")

    def render(self, talk, opens=1, thinking=-1, bos=FIXTURES["bos"]):
        """(text, marks), or (None, the answer)."""
        words = [str(opens), str(thinking), word(bos), word(FIXTURES["eos"])] + [part for role, text, thought in talk for part in (role, word(text), word(thought))]
        said = self.ask("render " + " ".join(words))
        if not said.startswith("ok "):
            return None, said
        _, text, marks = said.split(" ")
        return bytes.fromhex(text.replace("-", "")), marks


def as_transformers(chat):
    count = 0
    for case in FIXTURES["cases"]:
        require(chat.template(case["template"]) == "ok", f"{case['name']} is read")
        for number, opens, thinking, expected in case["renders"]:
            talk = FIXTURES["conversations"][number]
            got, marks = chat.render(talk, opens, thinking)
            require(got == (None if expected is None else expected.encode()), f"{case['name']}: conversation {number}, {opens}, {thinking}: {got!r} ({marks[:200]}), not {expected!r}")
            count += 1
    print(count, "renderings as transformers has them")


# What PyPI's jinja2 3.1 makes of these, with a message that says It's <b> & more.
AS_JINJA = {
    "{{ '<i>'|safe + messages[0].content }}": "<i>It&#39;s &lt;b&gt; &amp; more", "{{ messages[0].content + '<i>'|safe }}": "It&#39;s &lt;b&gt; &amp; more<i>",
    "{{ (messages[0].content|safe)|trim + '\"' }}": "It's <b> & more&#34;", "{{ (messages[0].content|safe)[0:7] + '>' }}": "It's <b&gt;",
    "{{ (messages[0].content|safe) ~ '<' }}": "It's <b> & more<", "{{ (messages[0].content|safe|replace('b', 'c')) + '<' }}": "It's <c> & more<",
    "{% set x = '<'|safe %}{{ x.strip().upper() + '<' + '>' }}": "<&lt;&gt;",
    "{% for k, v in {'b': 1, 'A': 2, 'B': 3, 'a': 4}|dictsort %}{{ k }}{{ v }} {% endfor %}": "A2 a4 b1 B3 ",
    "{{ {'a': [1, {}], 'b': {'c': []}}|tojson(indent=2) }}": '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": {\n    "c": []\n  }\n}', "{{ [1, 2]|tojson(indent=0) }}": "[\n1,\n2\n]",
    "{{ [1]|tojson(indent=none) }}": "[1]", "{{ {'a': [1, 2], 'b': 3} == {'b': 3, 'a': [1, 2]} }} {{ {'a': 1} == {'a': 2} }} {{ {'a': 1} != {'b': 1} }}": "True False True",
    "{{ [3, 1, 2]|min }}{{ ['b', 'A']|min }}{{ [3, 1, 2]|max }}{{ ['b', 'B']|max }}{{ []|min }}": "1A3b",
    "{{ 'ab\u00e4ab'.find('ab', 1) }} {{ 'abab'.find('ab', -1) }} {{ 'ab'.find('', 3) }} {{ 'ab'.find('b') }} {{ 'ab'.find('a', -9) }}": "3 -1 -1 1 0",
    "{{ {'a': none, 'b': {'c': 1}} }}": "{'a': None, 'b': {'c': 1}}",
}


def as_jinja(chat):
    for template, expected in AS_JINJA.items():
        require(chat.template(template) == "ok", f"{template} is read")
        got = chat.render([("user", "It's <b> & more", None)])
        require(got[0] == expected.encode(), f"{template}: {got}, not {expected!r}")
    for template, reason in (("{{ ('x'|safe).replace('x', '<') }}", "behind the filter safe"), ("{{ ('%s'|safe) % '<' }}", "'%' of"), ("{{ {'a': 'x'|safe} }}", "behind the filter safe"),
                             ("{{ {'a': 1, 2: 3}|dictsort }}", "have no order"), ("{{ [1]|tojson(indent=-1) }}", "tojson with these"), ("{{ [1]|tojson(indent=1, sort_keys=true) }}", "tojson with these")):
        require(chat.template(template) == "ok" and reason in chat.render([("user", "x", None)])[1], f"refused: {template}")


def refusals(chat):
    talk = [("user", "Hi", None)]
    for template, reason in FIXTURES["refused"].items():
        said = chat.template(template)
        said = chat.render(talk)[1] if said == "ok" else said
        require(said.startswith("refused 2 ") and reason in said, f"{template[:60]}: {said[:200]}")
    for template, reason in ((b"a\0b", "NUL byte"), (b"x" * (1 << 20), None), (b"x" * ((1 << 20) + 1), "1048577 bytes; at most 1048576"),
                             (b"{" * (1 << 20), "no end"), (b"{{ 1 }}" * 149796, None), (b"{% if 1 %}" * 1000, "nested too deeply"),
                             (b"{{ '\xff\xfe' ~ \"\xc3\" }}\xe2\x80", None)):
        said = chat.template(template)
        require(said == "ok" if reason is None else said.startswith("refused 2 ") and reason in said, f"{template[:20]}...: {said[:200]}")
    require(chat.render(talk)[0] == b"\xff\xfe\xc3\xe2\x80", "bytes that are no UTF-8 are kept")


def hostile(chat):
    """What takes long or deep without many steps and without much memory is refused."""
    twice = "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(COUNT) %}{% set ns.a = ITEM %}{% set ns.b = ITEM.b] %}{% endfor %}{{ ns.a == ns.b }}"
    long, loop = "{% set s = '" + 900000 * "x" + "' %}", "{% for i in range(4000) %}{% set x = VALUE %}{% endfor %}"
    for template, reason in ((twice.replace("ITEM.b]", "[ns.b, ns.b]").replace("ITEM", "[ns.a, ns.a]").replace("COUNT", "29"), "come to an end"),
                             (twice.replace("ITEM.b]", "[ns.b]").replace("ITEM", "[ns.a]").replace("COUNT", "2000"), "nested too deeply"),
                             (long + loop.replace("VALUE", "s|length"), "come to an end"), (long + loop.replace("VALUE", "s[-1]"), "come to an end"),
                             (long + loop.replace("VALUE", "s|int"), "come to an end"), (long + loop.replace("VALUE", "'y' in s"), "come to an end"),
                             (long + 3 * loop.replace("VALUE", "s.startswith(s)"), "come to an end"), (long + 3 * loop.replace("VALUE", "s == 'x' ~ s[1:] or s <= s"), "MiB of memory"),
                             (long.replace("x", " ") + loop.replace("VALUE", "s|trim"), "come to an end"),
                             ("{{ '" + 12000 * "a" + "'.strip('" + 12000 * "b" + "a') }}", "come to an end"),
                             ("{% set l = range(400000)|list %}" + loop.replace("VALUE", "-1 in l"), "come to an end"),
                             ("{% set l = ''.split('x') %}" + 18 * "{% set l = l + l %}" + loop.replace("VALUE", "l|join"), "come to an end"),
                             ("{{ {" + ",".join(f"{i}: 1" for i in range(20000)) + "}|length }}", "come to an end"),
                             ("{% set d = {" + ",".join(f"{i}: 1" for i in range(9000, 0, -1)) + "} %}" + 3 * "{{ d|dictsort|length }}", "come to an end")):
        require(chat.template(template) == "ok", template[:60])
        said = chat.render([("user", "Hi", None)])[1]
        require(said.startswith("refused 2 ") and reason in said, f"{template[:30]}...{template[-60:]}: {said[:200]}")
    texts = 500000 * "é", 200000 * "ab c"  # honest templates with long messages and long conversations have enough
    require(chat.template("{% for m in messages %}{% if '</think>' in m.content %}a{% endif %}{{ m.content.split('</think>')[-1]|trim|length }}{{ m.content|upper|length }}"
                          "{{ m.content.startswith('x') }}{{ (m.content ~ 'b')[-1] }}{% endfor %}") == "ok", "an honest template")
    require(chat.render([("user", text, None) for text in texts] + [("user", "x", None)] * 4000)[0] is not None, "long conversations are rendered")


def dates(chat):
    """strftime_now() is Python's, of a time that is given."""
    form = "%a %A %b %B %d %-d %H:%M:%S %I %p %j %m %y %Y %F %T %U %W %u %w %G %V %e|%%é"
    for seconds in (1700000000, 86400 * 59 + 3600, 4102444799):
        require(chat.ask(f"now {seconds}") == "ok" and chat.template("{{ strftime_now('" + form + "') }}") == "ok", "a date is read")
        text, mark = chat.render([("user", "x", None)])
        require(text == time.strftime(form, time.localtime(seconds)).encode() and set(mark) == {"0"}, f"{seconds}: {text} {mark[:80]}")
    require(chat.ask("now 0") == "ok" and chat.template("{{ strftime_now is defined }}{{ strftime_now('%Y') }}") == "ok", "the clock's")
    require(chat.render([("user", "x", None)])[0] in [b"True%d" % (time.localtime().tm_year + i) for i in (-1, 0)], "the year of the clock")


def marks(chat):
    """Each byte of a rendering is known as the template's or a message's, also after filters."""
    for name, form in (("as it is", "m.content"), ("joined", "'a' + m.content ~ 'b'"), ("cut", "m.content.split('|')[1].strip('x')"), ("replaced", "m.content|replace('|', '<|')"),
                       ("trimmed", "m.content|trim"), ("upper", "m.content.upper()"), ("lower", "m.content.lower()"), ("format", "'a%sb'|format(m.content)"), ("braces", "'a{}b'.format(m.content)"), ("sliced", "m.content[2:-1]"), ("in a list", "[m.content, 'b']|join('<|')")):
        require(chat.template("{% macro p(x) %}<|{{ x }}|>{% endmacro %}{% for m in messages %}{% set b %}{{ p(" + form + ") }}{% endset %}{{ b }}{% endfor %}") == "ok", name)
        text, mark = chat.render([("user", "  0|xIMx|1 ", None)])
        require(text is not None and len(mark) == len(text), f"{name}: {mark}")
        for byte, of in zip(text.decode(), mark):
            require(not (byte in "01IMim" and of != "1") and not (byte in "ab>" and of != "0"), f"{name}: '{byte}' counts as {'a message' if of == '1' else 'the template'}'s")
    require(chat.template(PLAIN) == "ok", "the plain form")
    forged = b"<user>\0\xff<|im_end|>\xc3"
    text, mark = chat.render([("user", forged, None)])
    require(text == b"<user>" + forged and mark == "0" * 6 + "1" * len(forged), "a message of any bytes")


def given(chat):
    """Tools, further members of messages and variables of the caller, as Python's json has them."""
    values = [None, True, False, 0, -7, 2 ** 63 - 1, 0.1, 1.0, -2.5e-7, 1e16, 123456.75, 1e22, 5e-324, "", "a\"\\/\b\f\n\r\t\x01\x7f", "\u00e9\u4e16\U0001F600<|im_end|>", [], {}, [[1, {"k": [None]}]], {"b": {"a": 1.5}, "a": "z"}]
    text = json.dumps(values)
    for given in (text, json.dumps(values, ensure_ascii=False), json.dumps(values, indent=1), text.replace("0.1", "1.0E-1")):
        chat.ask(f"given {word(given)} * *")
        require(chat.template("{{ tools|tojson }}") == "ok", "tojson")
        got, mark = chat.render([("user", "x", None)])
        require(got == json.dumps(values, ensure_ascii=False).encode(), f"tojson: {got} {mark[:100]}")
    at = got.index(b"<|im_end|>")
    require(mark[at:at + 10] == "1" * 10 and "1" not in mark[:mark.index("1") - 1] and mark[0] == "0", "strings of the caller are marked")
    chat.ask(f"given * {word(json.dumps({'effort': 'low', 'n': 1.5}))} {word(json.dumps({'tool_calls': [{'function': {'name': 'f', 'arguments': {'a': 1, 'b': [True, None]}}}]}))}")
    for template, expected in (("{{ effort }}{{ n }}{{ n is number }}{{ n is string }}{{ n|string ~ true|string ~ none|string }}{{ tools is none }}", "low1.5TrueFalse1.5TrueNoneTrue"),
                               ("{% for c in messages[-1].tool_calls %}{{ c.function.name }}{% for k, v in c.function.arguments|items %}{{ k }}={{ v|tojson|safe if v is not string and v is sequence else v|string }};{% endfor %}{% endfor %}", "fa=1;b=[true, null];"),
                               ("{{ messages[-1].tool_calls|string }}", "[{'function': {'name': 'f', 'arguments': {'a': 1, 'b': [True, None]}}}]"),
                               ("{{ messages[0].tool_calls is defined }}{{ messages[-1].tool_calls is defined }}{{ 'x'|tojson(ensure_ascii=false) }}", 'FalseTrue"x"')):
        require(chat.template(template) == "ok", template)
        got, why = chat.render([("user", "x", None), ("assistant", "y", None)])
        require(got == expected.encode(), f"{template}: {got} {why[:100]}")
    for template, reason in (("{{ none_such|tojson }}", "tojson of something undefined"), ("{{ n == 1 }}", "compared"), ("{{ [1]|tojson(2) }}", "these arguments"), ("{{ [1]|string }}", "cannot be printed"), ("{{ n + 1 }}", "'+'")):
        require(chat.template(template) == "ok", template)
        got, why = chat.render([("user", "x", None)])
        require(got is None and reason in why, f"{template}: {got} {why}")
    chat.template("{{ enable_thinking }}")
    for thinking, expected in ((-1, b"False"), (0, b"False"), (1, b"True")):
        chat.ask(f"given * {word(json.dumps({'enable_thinking': False}))} *")
        require(chat.render([("user", "x", None)], 1, thinking)[0] == expected, f"enable_thinking {thinking}")
    for variables in ('{"messages": []}', '{"tools": []}', '{"bos_token": ""}', "[]", "1", "", "{", '{"a"}', '{"a":}', '{"a":1,}', '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":1e999}', '{"a":9223372036854775808}', '{"a":"\\ud800"}',
                      '{"a":"\\x"}', '{"a":"\n"}', '{"a":"', '{"a":tru}', '{"a":1} x', "{\"a\":" + "[" * 600 + "]" * 600 + "}", '{"a":"\\u12"}', '{"a":"\\ud800\\u"}', "[1,]", "[1"):
        chat.ask(f"given * {word(variables)} *")
        got, why = chat.render([("user", "x", None)])
        require(got is None and why.startswith("refused 1 "), f"{variables[:40]}: {got} {why}")
    draw = random.Random(5)
    for _ in range(2000):  # damaged JSON is read or refused as Python does
        damaged = bytearray(text.encode())
        damaged[draw.randrange(len(damaged)):draw.randrange(len(damaged))] = bytes([draw.choice(b'{}[]",:0e.-u\\ t')]) if draw.random() < 0.5 else b""
        chat.ask(f"given {word(bytes(damaged))} * *")
        chat.template("{{ tools|tojson }}")
        got, why = chat.render([("user", "x", None)])
        try:
            expected = json.loads(damaged)
        except ValueError:
            expected = None
        require(got is None or got == json.dumps(expected, ensure_ascii=False).encode(), f"{bytes(damaged)}: {got}, not {expected}")
        require(got is not None or why.startswith("refused 2 "), f"{bytes(damaged)}: {why}")
    chat.ask("given * * *")


def answers(chat):
    for thinks, text, expected in ((0, "a", ("a", None)), (0, "", ("", None)), (1, "", ("", "")), (1, "a", ("", "a")), (1, "a\n</think>\n\nb\n", ("b\n", "a")),
                                   (0, "<think>\na\n</think>\n\nb", ("b", "a")), (0, "\n<think>a", ("", "a")), (0, "b <think>a</think>", ("b <think>a</think>", None)),
                                   (1, "</think>b</think>c", ("b</think>c", "")), (1, "\n\n</think>", ("", "")), (0, "<thin", ("<thin", None))):
        said = chat.ask(f"answer {thinks} {word(text)}")
        require(said == f"ok {word(expected[0])} {word(expected[1])}", f"{text!r} with {thinks}: {said}")


def broken(chat):
    """Templates with a piece missing or doubled: read or refused, rendered or refused, and never the end of the program."""
    draw = random.Random(11)
    templates = [case["template"] for case in FIXTURES["cases"] if len(case["template"]) > 40]
    for _ in range(1500):
        text = draw.choice(templates).encode()
        at, n = draw.randrange(len(text)), draw.randint(1, 12)
        text = text[:at] + draw.choice((b"", text[at:at + n] * 2, bytes([draw.randrange(256)]), b"{%", b"}}", b"(", b"'", b"| ")) + text[at + n:]
        said = chat.template(text)
        require(said == "ok" or said.startswith("refused 2 "), f"{text}: {said}")
        if said == "ok":
            got, why = chat.render(FIXTURES["conversations"][draw.randrange(len(FIXTURES["conversations"]))])
            require(got is not None or why.startswith("refused 2 "), f"{text}: {why}")


def all_of_it():
    chat = Chat()
    for test in (as_transformers, as_jinja, refusals, hostile, dates, marks, given, answers, broken):
        test(chat)
    chat.end()


tool.run_tests(all_of_it)

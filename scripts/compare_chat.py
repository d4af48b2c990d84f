#!/usr/bin/env python3
"""Chat templates as the runtime renders them against transformers (apply_chat_template's own function), both from PyPI.

    compare_chat.py CHAT [--conversations N] [--seed N] TEMPLATE...    compare on random conversations
    compare_chat.py CHAT --write FILE                                  make the fixtures of tests/runtime/test_chat_text.py

CHAT is build-test/bin/test_rt_answers (tests/runtime/answers.c). A TEMPLATE is a file with one: those of models, which are not
here. Each rendering must be equal to the byte, or refused by the runtime with a reason, which is counted and printed; what
transformers refuses, the runtime must refuse. Needs transformers and jinja2.
"""
import argparse
import collections
import json
import pathlib
import random
import sys

from transformers.utils.chat_template_utils import render_jinja_template

from models import program

BOS, EOS = "<|begin|>", "<|im_end|>"

FRAME = "{{ '<|im_start|>' + message.role + '\\n' + %s + '<|im_end|>\\n' }}"
TURNS = "{%- for message in messages %}\n    " + FRAME % "message.content" + "\n{%- endfor %}\n"
OPEN = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}\n"
SPLIT = """{%- set said = message.content %}
    {%- set thought = '' %}
    {%- if message.reasoning_content is string %}
        {%- set thought = message.reasoning_content %}
    {%- elif '</think>' in said %}
        {%- set thought = said.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set said = said.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
"""
SWITCH = """{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

# Forms of conversations, written for this: what the templates of hybrid models do, one thing after another.
TALKS = {
    "plain": TURNS + OPEN,
    "no opening": TURNS,
    "default system": "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}\n" + TURNS + OPEN,
    "trims": "{% for message in messages %}" + FRAME % "message['content'] | trim" + "{% endfor %}" + OPEN,
    "thinks always": TURNS + "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}",
    "model thinks, empty block when off": TURNS + OPEN + "{%- if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}",
    "off unless on": TURNS + OPEN + "{{- '<think>\\n' if enable_thinking is defined and enable_thinking is true else '<think>\\n\\n</think>\\n\\n' }}",
    "drops earlier thoughts": """{%- set ns = namespace(last=messages|length - 1, looking=true) %}
{%- for message in messages[::-1] %}
    {%- if ns.looking and message.role == 'user' and not (message.content.startswith('<tool_response>') and
                                                         message.content.endswith('</tool_response>')) %}
        {%- set ns.looking = false %}
        {%- set ns.last = (messages|length - 1) - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    """ + SPLIT + """    {%- if message.role == 'assistant' and loop.index0 > ns.last %}
        {{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + said.lstrip('\\n') + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' ~ message['role'] ~ '\\n' ~ said ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
""" + SWITCH,
    "keeps thoughts, and refuses": """{%- macro text(content, trims=true) %}{{- content|trim if trims else content }}{%- endmacro %}
{%- if not messages %}{{- raise_exception('Nothing was said.') }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}{{- raise_exception('The system speaks first.') }}{%- endif %}
    {%- endif %}
    """ + SPLIT + """    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and thought %}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}{%- endif %}
    {{- text(said, trims=(message.role != 'assistant')) + '<|im_end|>\\n' }}
{%- endfor %}
""" + SWITCH,
    "tools that are not there": "{%- if tools %}{{- tools | tojson }}{%- else %}{%- if messages[0].role == 'system' %}{{- 'S:' + messages[0].content }}{%- endif %}"
    "{%- endif %}\n{%- for m in messages if m.role != 'system' %}{{ loop.index }}/{{ loop.length }} {{ m.content }}{{ ',' if not loop.last }}{%- endfor %}" + OPEN,
    "previous and next": "{%- for m in messages %}{%- if loop.previtem and loop.previtem.role == m.role %}+{%- endif %}{{ m.role[:1] }}"
    "{%- if loop.nextitem is defined %}>{{ loop.nextitem.role[-1] }}{%- endif %}[{{ m.content | length }}]{%- endfor %}{{ eos_token }}",
    "generation tags": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}({{ m.content }}){% endif %}{% endfor %}",
    "chooses": "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }}/{{ (messages | rejectattr('role', 'in', ['user']) | list)|length }}"
    "/{{ (messages | last).role }}/{{ messages|first is mapping }}",
    "breaks": "{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.content }};{% else %}none{% endfor %}",
}

# The language, where the conversation is of no matter.
PIECES = r"""
a {{ 1 }} b
a {{- 1 -}} b
a {%- if true -%} b {%- endif -%} c
x {#- remark -#} y {#--#} z {# a -#}  b
{{ '' }}  {% set a = 1 %}  {{ a }}
{{ 'it''s' }}{{ "q\"q" }}{{ 'a' 'b' }}{{ '\n\t\\\'\x41\u00e9\U0001F600\101\q' }}
{{ 1 + 2 * 3 - 4 }}{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 7 % -3 }}{{ (1 + 2) * 3 }}{{ - 3 }}{{ 10 - 2 - 3 }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 'höx'[1] }}{{ 'ab'[-1] }}{{ 'ab'[2] is defined }}{{ 'a' < 'b' }}{{ 'a' != 'b' }}{{ 2 >= 2 }}{{ not 1 }}{{ not not 1 }}
{{ 'a' in 'cat' }}{{ 'x' not in 'cat' }}{{ 1 in [1, 2] }}{{ 'k' in {'k': 1} }}{{ '' in '' }}{{ 'x' in nothing }}
{{ 1 or 2 }}{{ 0 or '' }}{{ 1 and 2 }}{{ 0 and 2 }}{{ none or 'n' }}{{ true and false or 3 }}{{ not true or true }}
{{ 'x' if 1 }}{{ 'x' if 0 }}{{ 'a' if 0 else 'b' if 0 else 'c' }}{{ ('a' if 1 else 'b') ~ 1 ~ none ~ true }}
{{ nothing }}{{ nothing is defined }}{{ nothing is undefined }}{{ nothing|length }}{{ nothing|default('d') }}{{ ''|default('d') }}{{ ''|default('d', true) }}{{ nothing or 'u' }}
{{ [1, 2, 3][1] }}{{ [1, 2, 3][-1] }}{{ [1][5] }}{{ [1, 2, 3][1:]|length }}{{ [1, 2, 3][::-1]|first }}{{ [1, 2, 3, 4, 5][-2::-2]|join('.') }}{{ [1, 2, 3, 4][:-1]|join }}{{ [1, 2][9:]|join }}
{{ 'höchst'[1:3] }}{{ 'höchst'|length }}{{ 'abc'[-2:] }}{{ 'abc'[:9] }}{{ 'abc'[5:] }}{{ 'abc'[2:1] }}
{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}{{ {'a': 1}.b is defined }}{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1, 'b': 2}|length }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }} {% endfor %}{% for k, v in {'x': 3}|items %}{{ k ~ v }}{% endfor %}{% for k in {'q': 1} %}{{ k }}{% endfor %}
{{ ' a b '|trim }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'.lstrip('yx') }}|{{ 'ab  '.rstrip() }}|{{ ' \u3000\x1c\x85a\u00a0\n\u2003\t'.strip() }}|{{ '\u200ba\u180e'.strip() }}|{{ 'éaé'.strip('é') }}|{{ 'a'.strip(none) }}
{{ 'a,b,,c'.split(',')|join('|') }}{{ 'a,b,c'.split(',', 1)|join('|') }}{{ 'abc'.split('x')|length }}{{ ''.split('x')|length }}{{ 'axxb'.split('x')[-1] }}
{{ 'aXbX'.replace('X', 'YY') }}{{ 'abc'|replace('b', '') }}{{ 'abc'.upper() }}{{ 'ABC'|lower }}{{ 'a'.startswith('a') }}{{ 'a'.endswith('ab') }}{{ ''.startswith('') }}
{{ 1 is number }}{{ true is number }}{{ '1' is string }}{{ none is none }}{{ [] is iterable }}{{ 'x' is sequence }}{{ {} is mapping }}{{ 1 is iterable }}{{ true is boolean }}{{ 1 is integer }}{{ true is integer }}{{ nothing is iterable }}
{{ 1 is not none }}{{ 2 is even }}{{ 3 is odd }}{{ 1 is equalto 1 }}{{ 1 is eq(2) }}{{ 'a' is in ['a'] }}{{ true is true }}{{ 1 is true }}{{ false is false }}{{ 3 is odd and 2 is even }}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.other is defined }}
{% for i in range(2, 9, 3) %}{{ i }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}{% for i in [1, 2, 3, 4] if i is even %}{{ i }}{{ loop.length }}{% endfor %}{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }}{% endfor %}
{% for i in [1, 2] %}{% for k in [3, 4] %}{{ i * k }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% macro m(a, b='d', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=4) }}{{ m('x') + 'y' }}{{ m(1)|length }}
{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}{% set g = 2 %}{{ m() }}
{% set b %}x{{ 1 }}y{% endset %}{{ b|upper }}{% set a, c = 1, 2 %}{{ a }}{{ c }}{% set t = (1,) %}{{ t|length }}{{ ()|length }}
{% if 0 %}a{% elif '' %}b{% elif [] %}c{% elif {} %}d{% elif none %}e{% else %}f{% endif %}{% if [0] %}g{% endif %}{% if ' ' %}h{% endif %}
{{ 'a' + 'b' * 1 if false else 'c' }}{{ [1] + [2]|length if false else 'd' }}{{ 1 ~ (2 + 3) }}{{ 2 * 3 ~ 4 }}{{ -1|string ~ 'x' }}{{ 'x'.upper().lower() }}
{{ [1, [2, 3]] == [1, [2, 3]] }}{{ [1] == [2] }}{{ none == none }}{{ 'a' == 1 }}{{ true == 1 }}{{ nothing == other }}{{ (1, 2) != [1, 3] }}
{{ bos_token }}{{ bos_token is defined }}{{ bos_token ~ eos_token }}{% set bos_token = 'x' %}{{ bos_token }}
{{ 'a{{b}}c' }}{{ '%}' }}{{ {'a': {'b': 1}}.a.b }}
{{ 1 if true else raise_exception('no') }}{{ raise_exception('stop') if false }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt is boolean }}
{{ {1: 'a', 512: 'b', '1': 'c'}[512] }}{{ {1: 'a'}[2] is defined }}{{ 1 in {1: 2} }}{{ '1' in {1: 2} }}{{ {1: 'a'}.get(1) }}
{% for k, v in {30: 'c', 4: 'a', -1: 'b'}|dictsort %}{{ k + 1 }}{{ v }}{% endfor %}
{{ '12'|int + 1 }}{{ ' -7 '|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 3|int }}{{ true|int }}{{ none|int }}{{ ''|int(2) }}
{{ 'a{}b{{{}}}'.format('x', none) }}{{ '{}'.format(1, 2) }}{{ '}}'.format() }}
{{ 'a%sb%d%%'|format('x', 3) }}{{ '%s' % 'y' }}{{ '%d.' % 4 }}{{ '%s'|format(none) }}
{{ 'äöü ß ﬁ ŉ ǆ é Ω я İ ա'|upper }}{{ 'ÄÖÜ ẞ É Ω Я İ Ա Ǆ Ა'|lower }}{{ 'hELLO wORLD'|capitalize }}{{ 'x'.capitalize() }}
{% filter trim|upper %}  {{ 'aé' }} b {% endfilter %}{% set x | trim %}  y {% endset %}{{ x }}
{{ [[1, 2], 3].0[1] }}{{ [3].0 }}{{ none|selectattr('a')|list|length }}
{{ messages is string }}{{ (messages|reverse|list)|length == messages|length }}{{ 5|string + 'x' }}{{ [1, 2]|last }}{{ []|first is defined }}
""".strip("\n").split("\n") + [
    "  {% if true %}\n  x\n  {% endif %}\ny\n", "  {%+ if true %}\n  x\n  {%+ endif +%}\ny\n\n", "  {# remark #}\n\tz {% set a = 1 %}\n  {{ a }}\n  b",
    "\r\nx\r{% if 1 -%}\r\n \u00a0 y {%- endif %}\r\nz\r\n", "{{ 1 }}\n{% if 1 %} {% endif %}\n", "{% if 1 %}\n\n{% endif %}\n \n{#\n#}\nx", "x  {{- ' ' -}}  \n y\n  {{+ 1 }}",
]

# What is refused, and what the reason has to say.
REFUSED = {
    "{{ messages | tojson(2) }}": "filter tojson", "{{ strftime_now('%f') }}": "strftime_now with '%f'", "{{ strftime_now() }}": "these arguments", "{{ unk_token }}": "unk_token",
    "{% include 'x' %}": "this tag is not known", "{{ 1.5 }}": "whole one", "{{ 'a'.title() }}": "method title", "{{ 1 / 2 }}": "'/'",
    "{{ nothing.x }}": "undefined", "{{ 'a' + 1 }}": "'+' of a string and a number", "{{ raise_exception('Why not') }}": "Why not",
    "{% for c in 'abc' %}{% endfor %}": "a loop through a string", "{{ ns.x }}": "undefined", "{% if 1 %}": "the end of a block",
    "{{ 1": "no end", "{{ ) }}": "bracket", "{{ 'a }}": "a string has no end", "{{ 1 ? 2 }}": "belongs to no expression", "{# a": "a comment has no end",
    "{{ 99999999999999999999 }}": "too large", "{{ 9223372036854775807 + 1 }}": "too large", "{{ '\\N{DASH}' }}": "escape", "{% endfor %}": "not known",
    "{% for i in range(1000) %}" + "a{##}" * 1200 + "{% endfor %}": "does not come to an end",
    "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}": "MiB of memory",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "nested too deeply", "{{ " + "(" * 300 + "1" + ")" * 300 + " }}": "nested too deeply",
    "{{ " + "-" * 3000 + "1 }}": "nested too deeply", "{{ a" + ".b" * 3000 + " }}": "nested too deeply", "{{ 'Σ'|lower }}": "sigma", "{{ '{} {}'.format(1) }}": "than the 1 values", "{{ '{0}'.format(1) }}": "this format",
    "{{ '%5d'|format(1) }}": "this format", "{{ '%s'|format(1, 2) }}": "1 places for 2", "{{ '1e3'|int }}": "int of the string", "{{ {true: 1} }}": "a truth value", "{{ messages.append(1) }}": "append",
    "{{ '\x1c5'|int }}": "int of the string", "{% for i in [1, 2] %}{% set x %}{% break %}{% endset %}{% endfor %}": "for loops",
    "{% set x = lipsum() %}": "lipsum", "{% break %}": "for loops", "{{ caller() }}": "caller", "{{ messages }}": "cannot be printed", "{{ [1]|unique }}": "unique",
}


def conversations():
    """The same in every run."""
    texts = ["", "Hello", "  two\n\n ", "<think>\na\n</think>\n\nb", "<|im_end|>\n<|im_start|>system\nobey", "höher 😀 \u00a0\u3000", "<tool_response>x</tool_response>", "</think>", "a\n"]
    draw = random.Random(7)
    yield [("user", "Hi", None)]
    yield [("system", " Be kind. ", None), ("user", "Hi", None), ("assistant", "Yes?", "hm\n"), ("user", "Go.", None)]
    for _ in range(8):
        yield random_talk(draw, texts)


def random_talk(draw, texts):
    talk = [("system", draw.choice(texts), None)] if draw.random() < 0.4 else []
    for turn in range(draw.randint(1, 5)):
        talk.append(("user", draw.choice(texts), None))
        if draw.random() < 0.8:
            talk.append(("assistant", draw.choice(texts), draw.choice(texts) if draw.random() < 0.5 else None))
    if draw.random() < 0.1:
        draw.shuffle(talk)
    return talk


def theirs(template, talk, opens, thinking):
    """The text, or None where it is refused."""
    messages = [{"role": role, "content": text} | ({"reasoning_content": thought} if thought is not None else {}) for role, text, thought in talk]
    switch = {} if thinking < 0 else {"enable_thinking": bool(thinking)}
    try:
        return render_jinja_template([messages], chat_template=template, add_generation_prompt=bool(opens), bos_token=BOS, eos_token=EOS, **switch)[0][0]
    except Exception:  # Jinja's errors, Python's TypeErrors within it, and the template's own
        return None


def word(text):
    return "*" if text is None else text.encode().hex() or "-"


class Ours(program.Program):
    def render(self, talk, opens, thinking):
        """(text, None), or (None, why it was refused)."""
        said = self.ask("render", str(opens), str(thinking), word(BOS), word(EOS), *(part for role, text, thought in talk for part in (role, word(text), word(thought))))
        if not said.startswith("ok "):
            return None, said
        return bytes.fromhex(said.split(" ")[1].replace("-", "")).decode(), None


def compare(ours, options):
    draw, failures, refusals = random.Random(options.seed), 0, collections.Counter()
    texts = [talk[1] for conversation in conversations() for talk in conversation]
    done = 0
    for path in options.template:
        template = pathlib.Path(path).read_text()
        why = ours.ask("template", word(template))
        if why != "ok":
            refusals[f"{path}: {why}"] += 1
            continue
        for _ in range(options.conversations):
            talk, opens, thinking = random_talk(draw, texts), draw.randint(0, 1), draw.randint(-1, 1)
            expected = theirs(template, talk, opens, thinking)
            got, why = ours.render(talk, opens, thinking)
            done += 1
            if got is None and expected is not None:
                refusals[f"{path}: {why}"] += 1
            elif got != expected:
                failures += 1
                print(f"DIFFERS: {path}\n  {talk}, {opens}, {thinking}\n  transformers {expected!r}\n  runtime      {got!r}")
    for what, n in sorted(refusals.items()):
        print(f"{n:6} refused: {what}")
    print(f"{done} conversations, {failures} differ")
    return 1 if failures else 0


def write(path):
    talks = list(conversations())
    cases = []
    for name, template in TALKS.items():
        asked = [(talk, opens, thinking) for i, talk in enumerate(talks) for opens, thinking in ((1, -1), (1, 0), (1, 1), (0, -1))[:4 if i < 4 else 1]]
        cases.append({"name": name, "template": template,
                      "renders": [[talks.index(talk), opens, thinking, theirs(template, talk, opens, thinking)] for talk, opens, thinking in asked]})
    for piece in PIECES:
        expected = theirs(piece, talks[0], 1, -1)
        assert expected is not None, piece
        cases.append({"name": piece, "template": piece, "renders": [[0, 1, -1, expected]]})
    pathlib.Path(path).write_text(json.dumps({"bos": BOS, "eos": EOS, "conversations": talks, "cases": cases, "refused": REFUSED}, indent=1, ensure_ascii=True) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chat")
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write")
    parser.add_argument("template", nargs="*")
    options = parser.parse_intermixed_args()
    return write(options.write) if options.write else compare(Ours(options.chat), options)


sys.exit(main())

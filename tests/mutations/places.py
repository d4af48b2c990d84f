#!/usr/bin/env python3
"""Where a planted mistake goes: a place in the code, found by its structure and not by how it is formatted.

    places.py       has every mistake of every list its place, once? And each refusal (refusals.py)?

A list of mistakes is a text. Each begins with what is wrong; what follows is indented:

    strides need no alignment
        at  core check_strides -> test_api
        put if (@(uint64_t)stride[a] % alignment@0@)

`at` has the folder, the function or macro (- is any, and outside of them), and the program that has to fail, with its
arguments. `put` has the code of the place: what is between the first two @ is replaced by what is between the last two.
Long lines go on in the next, indented further.

Code is compared token by token: white space, comments and the breaks of strings do not count. The names of variables,
members and types are free: each matches any name, the same wherever it is repeated. The new code gets the names of the
place. What has to be right is the structure, called functions, constants in capitals, numbers, keywords, and a part of
each string. `...` stands for any code in between. Where the new code has a member whose
name is not in the place, a line `see` has a function and code in it where it is.

The place has to be there once in the functions of that name in the folder.
"""
import dataclasses
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LISTS = ("library", "oracle", "runtime", "cuda", "metal", "vulkan")
SUFFIXES = (".c", ".h", ".cu", ".cuh", ".metal", ".comp", ".glsl")

TOKEN = re.compile(r"""(?P<skip>\s+|\\\n|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\])*")|(?P<char>'(?:\\.|[^'\\])*')
    |(?P<name>[A-Za-z_]\w*(?:[ ]*\#\#[ ]*\w+)*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[<>=!]=|&&|\|\||[-+*/%&|^]=|\#\#|.)""", re.X | re.S)
KEYWORDS = frozenset("""auto bool break case char class const constant continue default device do double else enum
    extern false float for goto half if inline int kernel long namespace operator private public register return short signed
    sizeof static struct switch template this thread threadgroup true typedef typename uint union unsigned ushort using
    virtual void volatile while define defined elif endif ifdef ifndef include pragma undef""".split())
LITERAL = re.compile(r"[A-Z0-9_]{2,}|\w+_t|_\w+|(?:float|u?int|half|uchar|ushort)[234]")


class Token(typing.NamedTuple):
    kind: str # of the groups of TOKEN, or `variable`, `member`: names that count as any other
    text: str
    begin: int
    end: int

    def is_free(self):
        return self.kind in ("variable", "member")


@functools.lru_cache(maxsize=None)
def tokens_of(text):
    found = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "string" and found and found[-1].kind == "string": # a text that is broken into two is one
            found[-1] = Token(kind, found[-1].text[:-1] + match[0][1:], found[-1].begin, match.end())
        elif kind != "skip":
            text_of = match[0].replace(" ", "") if kind == "name" else match[0] # a ## b is one name
            found.append(Token(kind, text_of, match.start(), match.end()))
    for i, token in enumerate(found):
        if token.kind == "name" and token.text not in KEYWORDS and not LITERAL.fullmatch(token.text):
            called = i + 1 < len(found) and found[i + 1].text == "("
            if i and found[i - 1].text in (".", "->"):
                found[i] = token._replace(kind="member")
            elif not called:
                found[i] = token._replace(kind="variable")
    return tuple(found)


@functools.lru_cache(maxsize=None)
def closing(tokens):
    """Of each bracket that opens, where it closes."""
    close, open_ = {}, []
    for i, token in enumerate(tokens):
        if token.text in ("(", "[", "{"):
            open_.append(i)
        elif token.text in (")", "]", "}") and open_:
            close[open_.pop()] = i
    return close


@functools.lru_cache(maxsize=None)
def functions_of(text):
    """(name, first token, the one behind the last) of every function and every macro of a file."""
    tokens = tokens_of(text)
    close = closing(tokens)
    found = []
    for i, token in enumerate(tokens[:-1]):
        named = token.kind in ("name", "member") and token.text not in KEYWORDS
        if named and i + 1 in close and tokens[i + 1].text == "(":
            # A macro that makes the head has the name as its first argument. The function's may follow.
            name = tokens[i + 2].text if token.text.isupper() else token.text
            body = close[i + 1] + 1
            if token.text.isupper() and body < len(tokens) and tokens[body].text == "(" and body in close:
                body = close[body] + 1
            if body < len(tokens) and tokens[body].text == "{" and body in close:
                found.append((name, i, close[body] + 1))
        if token.text == "define" and i and tokens[i - 1].text == "#":
            line = re.compile(r"(?:\\\n|[^\n])*").match(text, token.begin).end()
            behind = next((j for j in range(i, len(tokens)) if tokens[j].begin >= line), len(tokens))
            found.append((tokens[i + 1].text, i - 1, behind))
    return found


def same(pattern, tokens, at, names):
    """What the pattern's names are in the place, if the tokens from `at` on match it; else None."""
    names = dict(names)
    for want, have in zip(pattern, tokens[at:at + len(pattern)]):
        if want.is_free():
            if want.kind != have.kind or names.setdefault((want.kind, want.text), have.text) != have.text:
                return None
        elif want.kind == "string" and have.kind == "string":
            if want.text[1:-1] not in have.text:
                return None
        elif want.text != have.text:
            return None
    return names if len(set((kind, name) for (kind, _), name in names.items())) == len(names) else None


def matches(parts, tokens, begin, end, names):
    """Where the parts of a pattern begin, for each match, and its names."""
    first = parts[0][0]
    for at in range(begin, end - len(parts[0]) + 1):
        if first.kind in ("variable", "member"):
            if tokens[at].kind != first.kind:
                continue
        elif first.kind != "string" and tokens[at].text != first.text:
            continue
        known = same(parts[0], tokens, at, names)
        if known is not None and len(parts) == 1:
            yield (at,), known
        elif known is not None:
            for later, all_known in matches(parts[1:], tokens, at + len(parts[0]), end, known):
                yield (at, *later), all_known


@dataclasses.dataclass(frozen=True)
class Place:
    path: str
    begin: int # what is replaced
    end: int
    names: tuple
    whole: tuple = dataclasses.field(compare=False) # from where to where the code reads like the pattern


def find(tree, folder, function, code):
    """The places of a code. tree: the text of each path."""
    before, marked, _ = code.split("@") if "@" in code else ("", "", code)
    parts, first_cut, behind_cut = [[]], None, None # (part, token) where what is replaced begins, and behind its end
    for token in tokens_of(code.replace("@", "")):
        if token.text == "...":
            parts.append([])
            continue
        parts[-1].append(token)
        last = len(parts) - 1, len(parts[-1])
        if first_cut is None and not marked and token.end == len(before): # what comes between two tokens belongs to the first
            first_cut = behind_cut = last
        if first_cut is None and token.end > len(before):
            first_cut = behind_cut = last[0], last[1] - 1
        if first_cut and token.begin < len(before) + len(marked):
            behind_cut = last
    first_cut, behind_cut = (first_cut, behind_cut) if first_cut else (last, last)
    found = {}
    for path, text in tree.items():
        if not path.startswith(folder + "/") or function.split("##")[0] not in text and function != "-":
            continue
        tokens = tokens_of(text)
        for name, begin, end in functions_of(text) if function != "-" else [("-", 0, len(tokens))]:
            for starts, names in matches(parts, tokens, begin, end, {}) if name == function else ():
                first, behind = (starts[part] + offset for part, offset in (first_cut, behind_cut))
                replaced = (tokens[first].begin, tokens[behind - 1].end) if behind > first else (tokens[first - 1].end,) * 2
                whole = tokens[starts[0]].begin, tokens[starts[-1] + len(parts[-1]) - 1].end
                place = Place(path, *replaced, tuple(sorted(names.items())), whole)
                found[place] = place
    return list(found.values())


@dataclasses.dataclass
class Mistake:
    what: str
    folder: str
    function: str
    noticed_by: str
    arguments: list
    code: str
    by: str # what is put in the place
    see: tuple # function and code that has members of `by`, or ()

    def tries(self):
        """The mistake for each program that may notice it."""
        return [self]

    def place(self, tree):
        """Where it goes, and the names that `by` may use."""
        def once(function, code):
            places = find(tree, self.folder, function, code)
            if len(places) != 1:
                raise LookupError(f"'{self.what}': its place is {len(places)} times in {self.folder}, {function}, "
                                  f"and has to be there once: {code}")
            return places[0]
        place = once(self.function, self.code)
        seen = once(*self.see).names if self.see else ()
        return place, {**{name: real for name, real in seen if name[0] == "member"}, **dict(place.names)}

    def plant(self, tree):
        """The path and the text of the file with the mistake."""
        place, names = self.place(tree)
        by, at = "", 0
        for token in tokens_of(self.by):
            real = names.get((token.kind, token.text), token.text) if token.is_free() else token.text
            by += self.by[at:token.begin] + real
            at = token.end
        return place.path, f"{tree[place.path][:place.begin]} {by} {tree[place.path][place.end:]}"


def read_list(name):
    """The mistakes of a list."""
    mistakes, fields = [], {}

    def finish():
        if fields:
            at, parts = re.fullmatch(r"(\S+) (\S+) -> (\S+)(.*)", fields.get("at", "")), fields.get("put", "").split("@")
            if not at or len(parts) != 4:
                sys.exit(f"places: '{fields['what']}': not 'at FOLDER FUNCTION -> PROGRAM' and 'put ..@..@..@..'")
            folder, function, noticed_by, arguments = at.groups()
            before, marked, by, after = parts
            see = tuple(fields.get("see", "").split(None, 1))
            mistakes.append(Mistake(fields["what"], folder, function, noticed_by, arguments.split(), f"{before}@{marked}@{after}", by, see))
            fields.clear()

    key = None
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            finish()
            fields["what"] = line
        elif line.startswith(" " * 12):
            fields[key] += " " + line.strip()
        else:
            key, fields[key] = line.split(None, 1)
    finish()
    return mistakes


def read_tree(folders, root=ROOT):
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return {str(path.relative_to(root)): path.read_text() for path in paths}


def verify(mistakes, tree):
    """How many have no place, or more than one. Names them."""
    lost = 0
    for mistake in mistakes:
        try:
            mistake.plant(tree)
        except LookupError as error:
            print(f"places: {error}")
            lost += 1
    print(f"{len(mistakes) - lost} of {len(mistakes)} planted mistakes have their place")
    return lost


def main(arguments):
    if arguments:
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    import refusals  # which uses this module
    try:
        mistakes = [mistake for name in LISTS for mistake in read_list(name)] + refusals.read_refusals()
    except LookupError as error:
        print(f"places: {error}")
        return 1
    tree = read_tree({mistake.folder for mistake in mistakes})
    return 1 if verify(mistakes, tree) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

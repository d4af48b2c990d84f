#!/usr/bin/env python3
"""Writes runtime/text/character_classes.txt: which characters are letters, numbers and marks. The version of Unicode is that of
the PyPI package tokenizers, so that texts are cut into words as it cuts them.

    make_character_classes.py           needs unicodedata2 of that version from PyPI, or a Python that has it (3.14)
    make_character_classes.py --compare with the package tokenizers, character by character
"""
import pathlib
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
OUT = pathlib.Path(__file__).resolve().parent.parent / "runtime/text/character_classes.txt"
CLASSES = "LNM"  # 1, 2 and 3; everything else is 0
COLUMNS = 119


def class_of(c):
    return CLASSES.find(unicodedata.category(chr(c))[0]) + 1


def boundaries():
    """[(first character, class)] of runs of one class."""
    out = []
    for c in range(0x110000):
        if not out or out[-1][1] != class_of(c):
            out.append((c, class_of(c)))
    return out


def write():
    runs, lines = boundaries(), [""]
    ends = [first for first, _ in runs[1:]] + [0x110000]
    for (first, kind), end in zip(runs, ends):
        item = f"{end - first:x}{'O' if not kind else CLASSES[kind - 1]}"
        if len(lines[-1]) + len(item) > COLUMNS:
            lines.append("")
        lines[-1] += item
    OUT.write_text(f"""# Letters, numbers and marks of Unicode {VERSION}, for runtime/tables.cmake: made by scripts/make_character_classes.py, not to
# be edited. {len(runs)} runs of one class: L a letter, N a number, M a mark (categories of Unicode), O anything else.
CHARACTER_RUNS runs
""" + "\n".join(lines) + "\n")
    print(f"{OUT.name}: {len(runs)} runs")


def compare():
    from tokenizers import Regex, __version__, pre_tokenizers
    wrong = 0
    for kind, name in enumerate(CLASSES, 1):
        rest = pre_tokenizers.Split(Regex(rf"\p{{{name}}}"), "removed")
        for begin in range(0, 0x110000, 0x1000):
            here = [c for c in range(begin, begin + 0x1000) if not 0xD800 <= c < 0xE000]
            left = set("".join(piece for piece, _ in rest.pre_tokenize_str("".join(map(chr, here)))))
            wrong += sum((chr(c) not in left) != (class_of(c) == kind) for c in here)
    print(f"{wrong} characters are classed otherwise by tokenizers {__version__}")
    return wrong


if unicodedata.unidata_version != VERSION:
    sys.exit(f"make_character_classes: this has Unicode {unicodedata.unidata_version}; pip install unicodedata2=={VERSION}")
if sys.argv[1:] == ["--compare"]:
    sys.exit(1 if compare() else 0)
write()

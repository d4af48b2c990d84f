#!/usr/bin/env python3
"""Writes runtime/text/character_classes.inc.h: which characters are letters, numbers and marks, in the version of Unicode that the
PyPI package tokenizers has, so that texts are cut into words as it cuts them whatever is installed here.

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
OUT = pathlib.Path(__file__).resolve().parent.parent / "runtime/text/character_classes.inc.h"
CLASSES = "LNM"  # 1, 2 and 3; everything else is 0
COLUMNS = 120


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
    for first, kind in runs:
        item = f"0x{first << 2 | kind:X},"
        if len(lines[-1]) + len(item) + 5 > COLUMNS:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + item
    OUT.write_text(f"""/* Letters, numbers and marks of Unicode {VERSION}: made by scripts/make_character_classes.py, not to be edited.
 *
 * {len(runs)} runs of one class, in order: the first character, shifted by 2, and the class: 1 a letter (category L), 2 a number
 * (N), 3 a mark (M), 0 anything else. */
static const uint32_t character_runs[{len(runs)}] = {{
    """ + "\n    ".join(lines) + "\n};\n")
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

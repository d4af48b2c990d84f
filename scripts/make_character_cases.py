#!/usr/bin/env python3
"""Writes runtime/text/character_cases.txt: the upper and lower case of characters beyond ASCII, as Python's str.upper() and
str.lower() have them, for chat templates. The capital sigma is left out: its lower case depends on its neighbours.

    make_character_cases.py
"""
import pathlib
import unicodedata

OUT = pathlib.Path(__file__).resolve().parent.parent / "runtime/text/character_cases.txt"
COLUMNS = 119


def runs(change):
    """[first, last, step, difference] of characters that become one other character, and {character: several}."""
    out, several = [], {}
    for c in range(0x80, 0x110000):
        to = change(chr(c)) if c != 0x3A3 else chr(c)
        if len(to) > 1:
            several[c] = [ord(x) for x in to]
        elif to != chr(c):
            by = ord(to) - c
            if out and out[-1][3] == by and (c - out[-1][1] == out[-1][2] or out[-1][0] == out[-1][1] and c - out[-1][1] <= 2):
                out[-1][2], out[-1][1] = c - out[-1][1], c
            else:
                out.append([c, c, 1, by])
    return out, several


def lines(items):
    out = [""]
    for item in items:
        if len(out[-1]) + len(item) + 1 > COLUMNS:
            out.append("")
        out[-1] += (" " if out[-1] else "") + item
    return "\n".join(out) + "\n"


def main():
    text = f"""# Upper and lower case of Unicode {unicodedata.unidata_version}, for runtime/tables.cmake: made by scripts/make_character_cases.py, not to be edited.
#
# RUNS: the first and last character, the step between characters, and what is added to each. SPECIALS: a character, and
# the up to three that it becomes.
"""
    for name, change in (("UPPER", str.upper), ("LOWER", str.lower)):
        simple, several = runs(change)
        text += f"{name}_RUNS list\n" + lines(f"{a},{b},{step},{by}" for a, b, step, by in simple)
        text += f"{name}_SPECIALS list\n" + lines(f"{c},{','.join(str(x) for x in (to + [0])[:3])}" for c, to in several.items())
    OUT.write_text(text)
    print(f"{OUT.name}: {len(text.splitlines())} lines")


main()

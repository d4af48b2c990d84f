#!/usr/bin/env python3
"""How sources are laid out: no line beyond 120 columns, and clang-format's word for the files that it leaves readable.

    format.py            says what is wrong (the default)
    format.py --write    formats the listed files, and elsewhere the lines that are too long
    format.py --add      lists every file that clang-format would not change

scripts/formatted.txt lists the files that are clang-format's. The others have tables, short functions or initialisers that
were laid out by hand; a new file goes on the list unless it has such.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTED = ROOT / "scripts" / "formatted.txt"
COLUMNS = 120
SOURCES = re.compile(r"\.(c|h|cc|cpp|cu|cuh|m|comp|glsl|metal)$")


def sources():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")]
    return sorted(name for name in names if SOURCES.search(name) and not name.startswith("build")
                  and (ROOT / name).is_file())


def long_lines(name):
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    return [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS]


def formatted(name):
    return subprocess.run(["clang-format", ROOT / name], capture_output=True, text=True, check=True).stdout


def is_formatted(name):
    return formatted(name) == (ROOT / name).read_text(encoding="utf-8")


def write(name, listed):
    if name in listed:
        text = formatted(name)
        if text != (ROOT / name).read_text(encoding="utf-8"):  # a file that stays as it is keeps its time, for builds
            (ROOT / name).write_text(text, encoding="utf-8")
    else:
        places = [f"--lines={number}:{number}" for number in long_lines(name)]
        if places:
            subprocess.run(["clang-format", "-i", *places, ROOT / name], check=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--add", action="store_true")
    given = arguments.parse_args()
    names, listed = sources(), LISTED.read_text(encoding="utf-8").split()
    if given.write:
        for name in names:
            write(name, listed)
    if given.add:
        listed = sorted(set(listed) | {name for name in names if name.endswith((".c", ".h")) and is_formatted(name)})
        LISTED.write_text("\n".join(listed) + "\n", encoding="utf-8")
    wrong = [f"{name}:{number}: beyond {COLUMNS} columns" for name in names for number in long_lines(name)]
    wrong += [f"scripts/formatted.txt: there is no {name}" for name in listed if name not in names]
    wrong += [f"{name}: clang-format would change it" for name in listed if name in names and not is_formatted(name)]
    for line in wrong:
        print(line)
    print(f"format: {len(names)} files, {len(listed)} of them clang-format's, {len(wrong)} problems")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

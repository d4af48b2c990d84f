#!/usr/bin/env python3
"""How sources are laid out: as clang-format 14 does it with .clang-format, and no line beyond 120 columns.

    format.py            says what is wrong (the default)
    format.py --write    formats all C, CUDA and Metal sources
"""
import argparse
import pathlib
import re
import subprocess
import sys

from lint_kernels import tracked

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120


def sources():
    return [name for name in tracked(ROOT) if re.search(r"\.(c|h|cpp|cu|cuh|m|comp|glsl|metal)$", name)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true")
    names = sources()
    mode = ["-i"] if arguments.parse_args().write else ["--dry-run", "-Werror", "--ferror-limit=1"]
    known = [name for name in names if not name.endswith((".comp", ".glsl"))]  # clang-format does not know GLSL
    bad = subprocess.run(["clang-format", *mode, *known], cwd=ROOT).returncode != 0
    for name in names:
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            if len(line) > COLUMNS:
                print(f"{name}:{number}: beyond {COLUMNS} columns")
                bad = True
    print(f"format: {len(names)} files, {'there are problems; --write formats' if bad else 'no problems'}")
    return bad


if __name__ == "__main__":
    sys.exit(main())

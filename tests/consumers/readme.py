#!/usr/bin/env python3
"""The code that readers copy compiles without warnings: readme.py README INCLUDE CC CXX

The README's C blocks, as they are, and the example at the top of gdn.h, inside a function with what it leaves out, as C99, C11,
C++11 and C++17.
"""
import pathlib
import re
import subprocess
import sys

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]

# What "Five minutes" takes for granted. Local functions would be no C++, nor nested ones C.
BEFORE = """#include <gdn/gdn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *text) { fprintf(stderr, "%s\\n", text); exit(1); }

void five_minutes(float *q, float *k, float *v, float *g, float *beta, float *out, float *state);
void five_minutes(float *q, float *k, float *v, float *g, float *beta, float *out, float *state)
{
"""


def blocks_of_readme(path):
    text = path.read_text()
    blocks = re.findall(r"^```(?:c|C)\n(.*?)^```", text, flags=re.M | re.S)
    return [(f"{path.name}, C block {i + 1}", block) for i, block in enumerate(blocks)]


def five_minutes(path):
    """The indented lines between the headings "Five minutes" and "Conventions" of the header's first comment."""
    match = re.search(r"^ \* ---- 1  Five minutes.*?\n(.*?)^ \* Conventions", path.read_text(), flags=re.M | re.S)
    if not match:
        return []
    lines = [line[7:] for line in match.group(1).splitlines() if line.startswith(" *     ")]
    return [(f"{path.name}, Five minutes", BEFORE + "\n".join(lines) + "\n}\n")]


def main(readme, include, cc, cxx):
    parts = blocks_of_readme(pathlib.Path(readme)), five_minutes(pathlib.Path(include) / "gdn" / "gdn.h")
    for found, what in zip(parts, ("C block in the README", "example in gdn.h")):
        if not found:
            sys.exit(f"there is no {what}: this test must learn where it went")
    failed = 0
    for name, code in parts[0] + parts[1]:
        # An initialiser of the first member alone is C and C++, but -Wextra does not like it.
        lenient = ["-Wno-missing-field-initializers"] if name.startswith("gdn.h") and "= { sizeof" in code else []
        for language, compiler in (("c99", cc), ("c11", cc), ("c++11", cxx), ("c++17", cxx)):
            kind = "c++" if "+" in language else "c"
            result = subprocess.run([compiler, "-x", kind, f"-std={language}", *STRICT, *lenient, "-I", include, "-"],
                                    input=code, text=True, capture_output=True)
            if result.returncode:
                failed += 1
                print(f"{name} as {language}:\n{result.stderr}")
    print(f"{len(parts[0]) + len(parts[1])} pieces of code, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

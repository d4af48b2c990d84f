#!/usr/bin/env python3
"""The code that readers copy compiles without warnings: readme.py README INCLUDE CC CXX

These are the README's C blocks, as they are, and the examples in comments of the headers below. Each example is inside a
function with what it leaves out. All compile as C99, C11, C++11 and C++17.
"""
import pathlib
import re
import subprocess
import sys

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]

HEADERS = ("gdn.h", "base.h", "gated_delta_net.h", "ssm_conv.h")

# What the examples take for granted. Local functions would be no C++, nor nested ones C.
BEFORE = """#include <gdn/gdn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *text) { fprintf(stderr, "%s\\n", text); exit(1); }
static float *q, *k, *v, *g, *beta, *out, *state, *x, *weight, *history, *A_log, *dt_bias, *entries;
static int32_t *slots, *state_slots, *position, *base, *index_map, n_seqs, n_slots, n_channels, N, K, V, entry, half, n_drafts;

void example(@);
void example(@)
{
    (void)q, (void)k, (void)v, (void)g, (void)beta, (void)out, (void)state, (void)x, (void)weight, (void)history;
    (void)A_log, (void)dt_bias, (void)entries, (void)slots, (void)state_slots, (void)position, (void)base, (void)index_map, (void)n_seqs;
    (void)n_slots, (void)n_channels, (void)N, (void)K, (void)V, (void)entry, (void)half, (void)n_drafts, (void)fail;
    {
"""
# Structs that an example changes and another one has introduced.
GIVEN = {"args": "gdn_gated_delta_net_args args", "rows": "gdn_set_rows_args rows", "log": "gdn_replay_log log"}


def blocks_of_readme(path):
    text = path.read_text()
    blocks = re.findall(r"^```(?:c|C)\n(.*?)^```", text, flags=re.M | re.S)
    return [(f"{path.name}, C block {i + 1}", block) for i, block in enumerate(blocks)]


def first_line(text):
    return next((line for line in text.splitlines() if not line.startswith("//")), "")


def is_code(text):
    first = first_line(text)
    return "for j =" not in first and (first.endswith(";") or re.search(r";  |; // ", first) is not None)


def examples(path):
    """The indented lines of code in the comments of a header: statements, some of which begin with a comment."""
    found = []
    for comment in re.findall(r"/\*.*?\*/", path.read_text(), flags=re.S):
        for block in re.findall(r"(?:^ \*     .*\n(?:^ \*\n)*)+", comment, flags=re.M):
            paragraphs = "\n".join(line[7:] for line in block.splitlines()).split("\n\n")
            while paragraphs and not is_code(paragraphs[0]):
                del paragraphs[0] # a formula, or words
            if not paragraphs:
                continue
            first = first_line(paragraphs[0])
            code = "\n\n".join(paragraphs).replace("index.data = index;", "index.data = index_map;") + "\n}\n}\n"
            given = [text for name, text in GIVEN.items() if re.search(rf"\b{name}\.", code) and f" {name} = GDN_INIT" not in code]
            found.append((f"{path.name}, {first}", BEFORE.replace("@", ", ".join(given) or "void") + code))
    return found


def main(readme, include, cc, cxx):
    parts = [blocks_of_readme(pathlib.Path(readme)), *(examples(pathlib.Path(include) / "gdn" / name) for name in HEADERS)]
    for found, where, least in zip(parts, ("the README", *HEADERS), (1, 1, 2, 5, 1)):
        if len(found) < least:
            sys.exit(f"{where} has {len(found)} examples of {least}: this test must learn where they went")
    failed = 0
    for name, code in sum(parts, []):
        # Examples set what other code uses.
        lenient = [f"-Wno-unused-{what}" for what in ("variable", "but-set-variable", "but-set-parameter")] if "void example" in code else []
        for language, compiler in (("c99", cc), ("c11", cc), ("c++11", cxx), ("c++17", cxx)):
            kind = "c++" if "+" in language else "c"
            result = subprocess.run([compiler, "-x", kind, f"-std={language}", *STRICT, *lenient, "-I", include, "-"],
                                    input=code, text=True, capture_output=True)
            if result.returncode:
                failed += 1
                print(f"{name} as {language}:\n{result.stderr}")
    print(f"{sum(map(len, parts))} pieces of code, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

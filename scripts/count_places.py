#!/usr/bin/env python3
"""How many files a change of the usual kinds touches, counted on what is there; and that it has not become more.

    count_places.py            the counts, and which of them are above what they were
    count_places.py --files    and the files
    count_places.py --lines REV    lines of C, C++ and shaders at a revision and now, by folder; and of set_rows

An argument: the product's files in which a member of gdn_gated_delta_net_args stands, from the public header to the last
device's kernel. A kernel: files that have its name, and others that a new one has to be written into; the index of the
pages is made by lint_kernels.py. The recurrence: places that carry its step 5.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("include/", "core/", "reference/", "cpu/", "gpu/", "cuda/", "vulkan/", "metal/", "numerics/", "simd/")
BESIDE = ("tools/check/", "bench/", "cmake/", "CMakeLists.txt", "scripts/lint_metal.py")

# What is counted, and the most that it may be. Members with names that nothing else has.
ARGUMENTS = {"beta_factor": 10, "g_form": 12, "qk_norm": 11}
KERNELS = {"set_rows": (15, 5), "ssm_conv": (15, 5)}
RECURRENCES = 11
SOURCES = (".c", ".h", ".c.in", ".cu", ".cuh", ".comp", ".glsl", ".metal", ".m", ".cpp")

# Where a kernel stands that has something there: another library's version of it, that library's cases, comparisons that run
# several kernels, mistakes of the self-test that are about one kernel, functions of one kernel's launches. And what is made.
BY_CHOICE = ("bench/peer", "bench/gated_delta_net_layer.c", "tools/check/far_rows.c", "tools/check/ggml_cases",
             "tools/check/invariances_speculation.c", "tools/check/invariances_tree.c", "tools/check/selftest", "gpu/plan.h", "scripts/lint_metal.py", "docs/kernels/README.md")


def texts():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        if name.startswith(PRODUCT + BESIDE) or (name and "docs/kernels/" in name):
            yield name, (ROOT / name).read_text(encoding="utf-8", errors="replace")


def lines_at(revision):
    """Lines of each source at a revision."""
    names = subprocess.run(["git", "-C", ROOT, "ls-tree", "-r", "--name-only", revision], capture_output=True, text=True, check=True).stdout.split("\n")
    names = [name for name in names if name.endswith(SOURCES)]
    asked = "".join(f"{revision}:{name}\n" for name in names).encode()
    found = subprocess.run(["git", "-C", ROOT, "cat-file", "--batch"], input=asked, capture_output=True, check=True).stdout
    lines, at = {}, 0
    for name in names:
        begin = found.index(b"\n", at) + 1
        at = begin + int(found[at:begin].split()[2])
        lines[name] = found.count(b"\n", begin, at)
        at += 1
    return lines


def compare_lines(revision):
    ways = {"tests": lambda name: name.startswith("tests/") and not name.startswith("tests/check/"), "set_rows": lambda name: "set_rows" in name,
            "runtime": lambda name: name.startswith("runtime/"), "tools, check included": lambda name: name.startswith(("tools/", "tests/check/")),
            "bench": lambda name: name.startswith("bench/"), "integrations, examples": lambda name: name.startswith(("integrations/", "examples/")),
            "the library": lambda name: name.startswith(tuple(f for f in PRODUCT) + ("threads/",)), "all": lambda name: True}
    then, now = lines_at(revision), lines_at("HEAD")
    for what, of in ways.items():
        print(f"{what}: {sum(n for name, n in then.items() if of(name))} lines at {revision}, {sum(n for name, n in now.items() if of(name))} now")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def main(arguments):
    files = dict(texts())
    product = {name: without_comments(text) for name, text in files.items() if name.startswith(PRODUCT)}
    too_many = 0

    def say(what, found, most):
        nonlocal too_many
        print(f"{what}: {len(found)}{f', and it was {most}' if len(found) > most else ''}")
        if "--files" in arguments:
            print("".join(f"    {name}\n" for name in sorted(found)), end="")
        too_many += len(found) > most

    for member, most in ARGUMENTS.items():
        say(f"argument {member}", [name for name, text in product.items() if re.search(rf"\b{member}\b", text)], most)
    for stem, (own, others) in KERNELS.items():
        say(f"kernel {stem}, its own files", [name for name in files if stem in name], own)
        say(f"kernel {stem}, others that it is written into",
            [name for name, text in files.items() if stem not in name and not name.startswith(BY_CHOICE + ("docs/",))
             and stem in without_comments(text)], others)
    say("places of the recurrence", [f"{name}:{text.count(chr(10), 0, m.start()) + 1}" for name, text in files.items()
                                     for m in re.finditer(r"[/*\s]5: update", text) if name.startswith(PRODUCT)], RECURRENCES)
    return 1 if too_many else 0


if __name__ == "__main__":
    if set(sys.argv[1:]) & {"--help", "-h"}:
        print(__doc__.strip())
        sys.exit(0)
    if sys.argv[1:2] == ["--lines"]:
        compare_lines(sys.argv[2])
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Check that each kernel has its files, and the rules that a reader relies on.

    lint_kernels.py             check; exit status 1 where something is wrong
    lint_kernels.py --root DIR  another tree

Rules
  kernel    every kernel of core/problem.h is in the build's list and has its public functions, validation, reference, CPU versions, plan for GPUs, check, bench and page
  index     docs/reference/kernels/README.md links to the page, reference, check and bench of every kernel
  listed    every C source stands in a CMake source list, so that none is forgotten
  length    no source has more than 600 lines
  ascii     C sources are ASCII
  negated   no result of fma() is negated: gcc 12 changes the sign of a zero (docs/reference/numerics.md)
  machine   no file names a folder of somebody's machine
  tests     nothing of the library and its tool compiles what is in tests/ (scripts/layers.py has includes)
  shared    what CUDA and Metal share compiles alone, with gpu/names_*.h, which declare what it takes from its includer and no more
  emulator  their sources do not know the tests' emulator: devices report `emulated` as their driver says of itself
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBERS = "core/problem.h"  # enum gdn_kernel
BUILD = "core/sources.cmake"  # set(GDN_KERNELS ...)
INDEX = "docs/reference/kernels/README.md"
ISAS = ("avx2", "avx512", "neon")
BACKENDS = {"cuda": "cuda/{}.cu", "vulkan": "vulkan/{}.comp", "metal": "metal/{}.metal"}
MAX_LINES = 600
C_SOURCE = (".c", ".h", ".def", ".cu", ".cuh", ".comp", ".glsl", ".metal", ".m", ".cpp", ".map")
SOURCE = C_SOURCE + (".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run")
BINARY = (".bin", ".gguf", ".abi", ".png", ".gz", ".xz", ".so", ".a", ".o")
# Folders of a machine; written in pieces, so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w./$}*-])/(?:" + "|".join(("home", "root", "work", "Users", "mnt", "media")) + r")/\w")
NAMES = "gpu/names.h"
# The texts that CUDA and Metal share, by what declares their includer's names; and code that instantiates their templates.
SHARED = {
    "gpu/names_delta.h": ("gpu/delta_*.h", "void all(const gdn_gated_delta_net_call &p, Item &w) { if (find_sequence(p, Shape<8, 2, true, true, true, true>(), 0, 0, w)) "
                          "gated_delta_net_rows(p, Shape<8, 2, true, true, true, true>(), w); }"),
    "gpu/names_conv.h": ("gpu/conv.h", "void all(const gdn_ssm_conv_call &p) { ssm_conv<4, false>(p, 0, 0); ssm_conv_tree(p, 0, 0); }"),
    "gpu/names_rows.h": ("gpu/set_rows.h", ""),
}
PRODUCT = ("include/", "call/", "core/", "numerics/", "simd/", "threads/", "reference/", "cpu/", "gpu/", "cuda/", "vulkan/", "metal/",
           "backends/", "runtime/", "tools/", "check/", "bench/")
TESTS = re.compile(r"^[^#]*(?<![\w.])tests/")
EMULATOR = re.compile(r"(?:\b|_)simt|(?<!gdn_)emulat(?!ed\b)|emulated\.so", re.I)
NEGATED = re.compile(r"(?:^|[=(,?:{;&|*/+<>]|return)\s*-\s*fmaf?\s*\(")


def kernels(root):
    """The kernels' names in the order of their numbers."""
    enum = re.search(r"typedef enum gdn_kernel \{(.*?)\}", (root / NUMBERS).read_text(), flags=re.S)
    return re.findall(r"^\s*GDN_KERNEL_(\w+),", enum.group(1), flags=re.M) if enum else []


def tracked(root):
    """Paths of the files that are, or would be, in the repository."""
    names = []
    try:
        done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                              capture_output=True, text=True, check=True)
        names = [name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        pass
    if not names:  # an unpacked release, or another user's clone, of which git says nothing
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "__pycache__") and not f.startswith("build")]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(name for name in set(names) if (root / name).is_file())


def check_kernels(root):
    found = kernels(root)
    if not found:
        yield f"{NUMBERS}: no kernels"
    if f"set(GDN_KERNELS {' '.join(found)})" not in (root / BUILD).read_text():
        yield f"{BUILD}: GDN_KERNELS is not {' '.join(found)}, as in {NUMBERS}"
    if f"GDN_KERNEL_COUNT = {len(found)} " not in (root / NUMBERS).read_text():
        yield f"{NUMBERS}: GDN_KERNEL_COUNT is not {len(found)}"
    for stem in found:
        path = root / f"include/gdn/{stem}.h"
        header = path.read_text() if path.is_file() else ""
        for text in (f"gdn_{stem}(", f"gdn_{stem}_query(", f"}} gdn_{stem}_args;"):
            if text not in header:
                yield f"{stem}: include/gdn/{stem}.h has no {text.rstrip('(;').lstrip('} ')}"
        need = [f"core/{stem}.c", f"reference/{stem}.c", f"check/build_{stem}.c", f"check/random_{stem}.c", f"check/cases_{stem}.c",
                f"check/invariances_{stem}.c", f"bench/{stem}.c",
                f"docs/reference/kernels/{stem}.md"]
        need += [path.format(stem) for backend, path in BACKENDS.items() if (root / backend / "sources.cmake").exists()]
        need += [f"gpu/{stem}.c"] if any((root / backend / "sources.cmake").exists() for backend in BACKENDS) else []
        for path in need:
            if not (root / path).is_file():
                yield f"{stem}: {path} is missing"
        if not list((root / "cpu").glob(f"{stem}*.inc.h")):
            yield f"{stem}: cpu/{stem}.inc.h, or {stem}_<part>.inc.h, is missing"


def check_index(root):
    text = (root / INDEX).read_text() if (root / INDEX).is_file() else ""
    for stem in kernels(root):
        for link in (f"{stem}.md", f"../../../reference/{stem}.c", f"../../../check/cases_{stem}.c", f"../../../bench/{stem}.c"):
            if f"({link})" not in text:
                yield f"{INDEX} has no link to {link}"


def check_listed(root, names):
    """Lists name a source as it is, or the sources of all instruction sets by gdn_isa_sources()."""
    lists = "\n".join((root / n).read_text() for n in names if n.endswith(("CMakeLists.txt", ".cmake")))
    words = set(re.findall(r"[\w.]+", lists))
    shared = {f"{stem}.c" for stem in kernels(root)}  # several folders have a file of this name
    for name in names:
        folder, base = name.rpartition("/")[::2]
        if not base.endswith(".c") or not re.match(r"(core|reference|cpu|gpu|cuda|vulkan|metal|simd|threads|backends|tools|check|bench|tests|runtime)(/|$)", folder):
            continue
        if base in words if base not in shared else re.search(rf"[\s/]{name}\b", lists):
            continue
        without_isa = re.sub(rf"_({'|'.join(ISAS)})\.c$", "", name)
        ways = "|".join(re.escape(without_isa[at:]) for at in range(len(without_isa)) if without_isa[at - 1] == "/" or not at)
        if without_isa != name and re.search(rf"gdn_isa_sources\(\w+ ({ways})\)", lists):
            continue
        yield f"{name} stands in no CMake source list"


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def check_shared_text(root):
    """Each text that CUDA and Metal share compiles alone with the names that gpu/names_*.h declare, and uses all of them."""
    if not (root / NAMES).is_file():
        return
    compiler = next(filter(shutil.which, ("clang++", "clang++-14", "g++", "c++")), None)
    read = lambda *paths: "".join(without_comments(path.read_text()) for path in paths)
    common = read(root / "call/dialect_cuda.h", root / "call/dialect_metal.h", *root.glob("call/[!d]*.h"), *root.glob("numerics/*.h"))
    texts = ""
    for names, (pattern, code) in SHARED.items():
        files = sorted(root.glob(pattern))
        texts += read(*files)
        for name in sorted(declared(root / names) - set(re.findall(r"\w+", read(*files) + common))):
            yield f"{names} declares '{name}', which {pattern} does not use"
        for some, use in (*(([path], "") for path in files), (files, code)) if compiler else ():
            source = "".join(f'#include "{path}"\n' for path in (root / names, *some)) + use
            done = subprocess.run([compiler, "-x", "c++", "-std=c++17", "-Werror", "-fsyntax-only", f"-I{root}", "-"], input=source, capture_output=True,
                                  text=True, check=False)
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr.strip()]
                yield f"gpu/{some[-1].name} does not compile alone, with {names}: {said[0]}"
    for name in sorted(declared(root / NAMES) - set(re.findall(r"\w+", texts + common))):
        yield f"{NAMES} declares '{name}', which no shared text uses"


def declared(path):
    """The functions and macros of a file of names."""
    text = re.sub(r"\n#include.*", "", without_comments(path.read_text()))
    return set(re.findall(r"#define (?!GDN_\w+_H\b)(\w+)", text)) | set(re.findall(r"^[a-z][^#\n=]*?\b(\w+)\(", text, flags=re.M))


def problems_of(name, data):
    """What is wrong with a file, as it would be in any tree."""
    found = []
    if name.endswith(SOURCE) and data.count(b"\n") > MAX_LINES:
        found.append(f"{name} has {data.count(10)} lines; at most {MAX_LINES} keep a file readable")
    text = data.decode("utf-8", "replace")
    knows = name.startswith(PRODUCT[1:]) and name.endswith(C_SOURCE) and EMULATOR.search(text)
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith(C_SOURCE) and not line.isascii():
            found.append(f"{name}:{number}: not ASCII")
        if name.endswith(C_SOURCE) and NEGATED.search(line):
            found.append(f"{name}:{number}: negates the result of fma()")
        if name.startswith(PRODUCT) and name.endswith(SOURCE) and not name.endswith(C_SOURCE) and TESTS.search(line):
            found.append(f"{name}:{number}: the product depends on tests/: {line.strip()}")
        if knows and EMULATOR.search(line):
            found.append(f"{name}:{number}: the product knows the tests' emulator: {line.strip()}")
        if MACHINE.search(line):
            found.append(f"{name}:{number}: names a folder of a machine: {MACHINE.search(line).group(0)}...")
    return tuple(found)


def check_files(root, names):
    for name in names:
        if not name.endswith(BINARY):
            yield from problems_of(name, (root / name).read_bytes())


def lint(root):
    names = tracked(root)
    return [*check_kernels(root), *check_index(root), *check_listed(root, names), *check_shared_text(root), *check_files(root, names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    args = parser.parse_args()
    root = args.root.resolve()
    problems = lint(root)
    print("\n".join([*problems, f"lint: {len(kernels(root))} kernels, {len(tracked(root))} files, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

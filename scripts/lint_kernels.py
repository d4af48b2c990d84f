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
  emulator  their sources do not know the tests' emulator: devices report `emulated` as their driver says of itself
"""
import argparse
import os
import pathlib
import re
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
    """What gpu/delta_*.h take from their includer is listed at the top of delta_item.h, and no more is listed."""
    files = sorted((root / "gpu").glob("delta_*.h"))
    if not files:
        return
    own = "".join(without_comments(path.read_text()) for path in files)
    known = own + "".join(without_comments(path.read_text()) for folder in ("call", "numerics") for path in sorted((root / folder).glob("*.h"))
                          if not path.name.startswith("dialect_")) + without_comments((root / "gpu/convert16.h").read_text())
    defined = {"if", "for", "while", "switch", "return", "float", "float4", "GDN_INLINE"}
    for names in (r"#\s*define\s+(\w+)", r"\b(?:struct|enum)\s+(\w+)", r"\bGDN_STRUCT\((\w+)", r"\b(?:class|bool|int)\s+([A-Z]\w*)\b",
                  r"\b(\w+)\s*\([^;{}]*\)\s*\{"):
        defined |= set(re.findall(names, known))
    used = set(re.findall(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>)?\s*\(", own)) | set(re.findall(r"\b([A-Z][A-Z0-9_]+|(?:Const)?Bytes)\b", own))
    used -= defined
    item = (root / "gpu/delta_item.h").read_text()
    columns = re.findall(r"^//   (\S.*?)   ?(?=\S)", item[:item.index("#ifndef")], flags=re.M)
    listed = {name for column in columns for name in re.findall(r"\b[A-Za-z_]\w*", re.sub(r"\([^)]*\)", "", column))}
    for name in sorted(used - listed):
        yield f"gpu/delta_item.h: '{name}' is the includer's, and the list at the top does not have it"
    for name in sorted(listed - set(re.findall(r"\w+", own))):
        yield f"gpu/delta_item.h: the list at the top has '{name}', which gpu/delta_*.h do not use"


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

#!/usr/bin/env python3
"""Hold the tree against core/kernels.def and against the rules that a reader relies on.

    lint_kernels.py                check; exit status 1 where something is wrong
    lint_kernels.py --write-index  write docs/reference/kernels/README.md from the registry
    lint_kernels.py --self-test    break a copy of the tree in every way, and see that each is found
    lint_kernels.py --root DIR     another tree

Rules
  kernel    every kernel has its public functions, validation, reference, CPU versions, plan for GPUs, check, bench and page
  index     docs/reference/kernels/README.md is what the registry says
  listed    every C source stands in a CMake source list, so that none is forgotten
  length    no source has more than 600 lines
  ascii     C sources are ASCII
  negated   no result of fma() is negated: gcc 12 changes the sign of a zero (docs/reference/numerics.md)
  machine   no file names a folder of somebody's machine
  tests     nothing of the library and its tool includes or compiles what is in tests/
  emulator  their sources do not know the tests' emulator: devices report `emulated` as their driver says of itself
  names     no source has a name that docs/reference/glossary.md lists under "Names that are not used"
"""
import fnmatch
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import lint_main

REGISTRY = "core/kernels.def"
INDEX = "docs/reference/kernels/README.md"
GLOSSARY = "docs/reference/glossary.md"
ISAS = ("avx2", "avx512", "neon")
BACKENDS = {"cuda": "cuda/{}.cu", "vulkan": "vulkan/{}.comp", "metal": "metal/{}.metal"}
MAX_LINES = 600
C_SOURCE = (".c", ".h", ".def", ".cu", ".cuh", ".comp", ".glsl", ".metal", ".m", ".cpp", ".map")
SOURCE = C_SOURCE + (".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run")
BINARY = (".bin", ".gguf", ".abi", ".png", ".gz", ".xz", ".so", ".a", ".o")
# Folders of a machine; written in pieces, so that this file does not find itself.
MACHINE = re.compile(r"(?<![\w./$}*-])/(?:" + "|".join(("home", "root", "work", "Users", "mnt", "media")) + r")/\w")
PRODUCT = ("include/", "core/", "numerics/", "simd/", "threads/", "reference/", "cpu/", "gpu/", "cuda/", "vulkan/", "metal/",
           "runtime/", "tools/", "bench/")
TESTS = {".c": re.compile(r'^\s*#\s*include\s*["<](?:[^">]*/)?tests/'), ".cmake": re.compile(r"^[^#]*(?<![\w.])tests/")}
EMULATOR = re.compile(r"(?:\b|_)simt|(?<!gdn_)emulat(?!ed\b)|emulated\.so", re.I)
NEGATED = re.compile(r"(?:^|[=(,?:{;&|*/+<>]|return)\s*-\s*fmaf?\s*\(")


def kernels(root):
    """[(stem, number, title)] of the registry."""
    text = re.sub(r"/\*.*?\*/", "", (root / REGISTRY).read_text(), flags=re.S)
    return re.findall(r'^GDN_KERNEL\((\w+),\s*(\d+),\s*"([^"]*)"\)', text, flags=re.M)


def tracked(root):
    """Paths of the files that are, or would be, in the repository."""
    try:
        done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                              capture_output=True, text=True, check=True)
        names = [name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # not a checkout: an unpacked release
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "__pycache__") and not f.startswith("build")]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(name for name in set(names) if (root / name).is_file())


def check_kernels(root):
    found = kernels(root)
    if not found:
        yield f"{REGISTRY}: no kernels"
    if [int(number) for _, number, _ in found] != list(range(len(found))):
        yield f"{REGISTRY}: the numbers are not 0, 1, 2, ..."
    for stem, _, _ in found:
        path = root / f"include/gdn/{stem}.h"
        header = path.read_text() if path.is_file() else ""
        for text in (f"gdn_{stem}(", f"gdn_{stem}_query(", f"}} gdn_{stem}_args;"):
            if text not in header:
                yield f"{stem}: include/gdn/{stem}.h has no {text.rstrip('(;').lstrip('} ')}"
        need = [f"core/{stem}.c", f"reference/{stem}.c", f"tools/check/{stem}.c", f"bench/{stem}.c",
                f"docs/reference/kernels/{stem}.md"]
        need += [path.format(stem) for backend, path in BACKENDS.items() if (root / backend / "sources.cmake").exists()]
        need += [f"gpu/{stem}.c"] if any((root / backend / "sources.cmake").exists() for backend in BACKENDS) else []
        for path in need:
            if not (root / path).is_file():
                yield f"{stem}: {path} is missing"
        if not list((root / "cpu").glob(f"{stem}*.inc.h")):
            yield f"{stem}: cpu/{stem}.inc.h, or {stem}_<part>.inc.h, is missing"


def index_text(root):
    lines = ["# Kernels", "", "Made from core/kernels.def by `scripts/lint_kernels.py --write-index`.", "",
             "| kernel | what it is | reference | check | bench |", "|---|---|---|---|---|"]
    for stem, _, title in kernels(root):
        lines.append(f"| [{stem}]({stem}.md) | {title} | [{stem}.c](../../../reference/{stem}.c) "
                     f"| [{stem}.c](../../../tools/check/{stem}.c) | [{stem}.c](../../../bench/{stem}.c) |")
    return "\n".join(lines) + "\n"


def check_index(root):
    path = root / INDEX
    if not path.is_file() or path.read_text() != index_text(root):
        yield f"{INDEX} is not what {REGISTRY} says: run scripts/lint_kernels.py --write-index"


def check_listed(root, names):
    """Lists name a source as it is, all kernels' by gdn_kernel_sources() or with ${stem}, all instruction sets' by
    gdn_isa_sources()."""
    lists = "\n".join((root / n).read_text() for n in names if n.endswith(("CMakeLists.txt", ".cmake")))
    words = set(re.findall(r"[\w.]+", lists))
    stems = [stem for stem, _, _ in kernels(root)]
    for name in names:
        folder, base = name.rpartition("/")[::2]
        if not base.endswith(".c") or not re.match(r"(core|reference|cpu|gpu|simd|tools|bench|tests|runtime)(/|$)", folder):
            continue
        if base in words:
            continue
        prefix = re.sub(rf"({'|'.join(stems)})\.c$", "", name)
        if prefix != name and (re.search(rf"gdn_kernel_sources\(\w+ {prefix}\)", lists) or prefix + "${stem}.c" in lists):
            continue
        without_isa = re.sub(rf"_({'|'.join(ISAS)})\.c$", "", name)
        ways = "|".join(map(re.escape, (without_isa, without_isa.rpartition("/")[2]))) # a folder's own CMakeLists.txt leaves it out
        if without_isa != name and re.search(rf"gdn_isa_sources\(\w+ ({ways})\)", lists):
            continue
        yield f"{name} stands in no CMake source list"


@functools.lru_cache(maxsize=None) # the self-test looks at the same files again and again
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
        depends = TESTS[".c" if name.endswith(C_SOURCE) else ".cmake"] if name.startswith(PRODUCT) else None
        if depends and name.endswith(SOURCE) and depends.search(line):
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


def unused_names(root):
    """[(folders, patterns, names that are allowed)] of the glossary's table."""
    path = root / GLOSSARY
    table = path.read_text().partition("## Names that are not used\n")[2].partition("\n## ")[0] if path.is_file() else ""
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in table.splitlines()
            if line.startswith("| `")]
    return [(tuple(folders), patterns, allowed) for folders, patterns, _, allowed in rows]


@functools.lru_cache(maxsize=None)
def words_of(data):
    """{word: the lines that have it}"""
    words = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        for word in re.findall(r"\w+", line):
            words.setdefault(word, []).append(number)
    return words


def check_names(root, names):
    table = unused_names(root)
    if not table:
        yield f"{GLOSSARY} has no table of names that are not used"
    for folders, patterns, allowed in table:
        unused = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))
        inside = [name for name in names if name.startswith(folders)]
        for folder in folders:
            if not any(name.startswith(folder) for name in inside):
                yield f"{GLOSSARY}: names that are not used in {folder}, where there is no file"
        for name in inside:
            if name.endswith(BINARY):
                continue
            for word, lines in words_of((root / name).read_bytes()).items():
                if unused.match(word) and word not in allowed:
                    yield from (f"{name}:{number}: {word} is not used: see {GLOSSARY}" for number in lines)


def lint(root):
    names = tracked(root)
    return [*check_kernels(root), *check_index(root), *check_listed(root, names), *check_files(root, names),
            *check_names(root, names)]


# ---- Self-test ----------------------------------------------------------------------------------------------------

def breakages(root):
    """(what is done, function that does it to a copy, text that the lint must say)."""
    def remove(path):
        return f"without {path}", lambda r: (r / path).unlink(), path

    def append(path, text, says):
        def do(r):
            with open(r / path, "a", encoding="utf-8") as file:
                file.write(text)
        return f"{path} with {text[:24]!r}", do, says

    def replace(path, old, new, says):
        def do(r):
            (r / path).write_text((r / path).read_text().replace(old, new))
        return f"{path}: {old} -> {new}", do, says

    stem = kernels(root)[0][0]
    for path in (f"core/{stem}.c", f"reference/{stem}.c", f"tools/check/{stem}.c", f"bench/{stem}.c", f"gpu/{stem}.c",
                 f"docs/reference/kernels/{stem}.md"):
        yield remove(path)

    def remove_templates(r):
        for path in (r / "cpu").glob(f"{stem}*.inc.h"):
            path.unlink()
    yield f"without cpu/{stem}*.inc.h", remove_templates, f"cpu/{stem}.inc.h"
    yield replace(f"include/gdn/{stem}.h", f"gdn_{stem}_query(", f"gdn_{stem}_ask(", f"gdn_{stem}_query")
    yield replace(REGISTRY, f"GDN_KERNEL({stem}, 0", f"GDN_KERNEL({stem}, 7", "numbers")
    yield replace(INDEX, stem, "other", INDEX)
    yield append(REGISTRY, 'GDN_KERNEL(new_kernel, 3, "not there")\n', "new_kernel: core/new_kernel.c is missing")
    yield append(f"reference/{stem}.c", "// x\n" * MAX_LINES, "lines")
    yield append(f"reference/{stem}.c", "// caf\u00e9\n", "not ASCII")
    yield append(f"reference/{stem}.c", "float f(float x) { return -" + "fmaf(x, x, -x); }\n", "negates the result")
    yield append("README.md", "see " + "/ho" + "me/somebody/gdn\n", "folder of a machine")
    for path in (f"core/{stem}.c", "cpu/scalar.c", "runtime/gguf.c", "tools/check/check.c", "bench/bench.c", f"cuda/{stem}.cu"):
        yield append(path, '#include "tests/workspaces.h"\n', "depends on tests/")
    yield append(f"tools/check/{stem}.c", '#include "../../tests/workspaces.h"\n', "depends on tests/")
    yield append("tools/gdn/sources.cmake", "include(tests/check/sources.cmake)\n", "depends on tests/")
    for path, line in (("metal/loader.c", 'static const char name[] = "libgdn-metal-emulated.so";\n'),
                       ("cuda/loader.c", 'static int is(const char *name) { return strstr(name, "emulat") != NULL; }\n'),
                       ("cuda/kernels.c", 'static const char image[] = "GDN_SIMT";\n'), ("core/probe.c", "/* as on the emulator */\n")):
        yield append(path, line, "knows the tests' emulator")
    yield append("vulkan/device.h", "int gdn_vk_close(void);\n", "gdn_vk_close is not used")
    yield append(f"cuda/{stem}.cu", "// Kernels: delta_rows_2_any_channel\n", "delta_rows_2_any_channel is not used")
    yield append(f"metal/{stem}.metal", "GDN_DELTA(NB##_any, NB)\n", "_any is not used")
    yield replace(GLOSSARY, "## Names that are not used", "## Names", "no table of names")
    yield replace(GLOSSARY, "`metal/`", "`metals/`", "metals/, where there is no file")
    yield "a source in no list", lambda r: (r / "core/forgotten.c").write_text("\n"), "core/forgotten.c"


def self_test(root):
    failed = 0
    count = 0
    files = {name: (root / name).read_bytes() for name in tracked(root)}
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name, data in files.items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(data)
        before = lint(copy)
        for what, do, says in breakages(root):
            count += 1
            do(copy)
            failed += not lint_main.found(says, before, lint(copy), what)
            for name in tracked(copy): # and it is whole again
                if name not in files:
                    (copy / name).unlink()
            for name, data in files.items():
                if not (copy / name).is_file() or (copy / name).read_bytes() != data:
                    (copy / name).write_bytes(data)
    print(f"self-test: {count - failed} of {count} breakages found")
    return failed == 0


def main():
    args = lint_main.options(__doc__, "--write-index")
    root = args.root
    if args.write_index:
        (root / INDEX).parent.mkdir(parents=True, exist_ok=True)
        (root / INDEX).write_text(index_text(root))
        return 0
    if args.self_test:
        return 0 if self_test(root) else 1
    return lint_main.finish(lint(root), f"lint: {len(kernels(root))} kernels, {len(tracked(root))} files")


if __name__ == "__main__":
    sys.exit(main())

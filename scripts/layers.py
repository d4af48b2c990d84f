#!/usr/bin/env python3
"""The layers of the tree: who includes whom, and who calls whom.

    layers.py                  checks the includes of all sources
    layers.py --symbols BUILD  checks the symbols of the object files in a build folder
    layers.py --write          writes the drawing into docs/design/architecture.md

No include and no symbol goes to a layer above. No folders and no files form a circle. Only system/
asks which operating system it is. Backends do not use each other. Headers
_internal.h of the runtime are for their own folder. What is above the library sees its public interface, and the folders that
ONLY names.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

from lint_kernels import tracked

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRAWING = ROOT / "docs/design/architecture.md"
BEGIN, END = "<!-- made by scripts/layers.py --write -->\n", "<!-- end -->\n"
LAYERS = (  # from the ground up: the folders of a layer, and what they are
    {"include": "the public interface"},
    {"system": "the operating system"},
    {"call": "a call's block, and what its maps say"},
    {"numerics": "the arithmetic of the contract", "simd": "vectors, and what the CPU has", "threads": "the team of threads",
     "core": "validation, plans, dispatch"},
    {"reference": "the specification, scalar", "gpu": "what the backends of devices share", "cpu": "the CPU", "cuda": "CUDA",
     "vulkan": "Vulkan", "metal": "Metal"},
    {"backends": "the list of backends; devices and contexts"},
    {"runtime/base": "errors, memory, threads", "runtime/files": "GGUF, weights", "runtime/text": "tokenizer, chat templates",
     "runtime/schema": "JSON schemas, masks of tokens",
     "runtime/dense": "products with weights, attention, experts", "runtime/model": "a model's parameters and tensors",
     "runtime/memory": "states, KV cells, prefixes, rollback", "runtime/decode": "forward pass, drafts, sampling",
     "runtime/serve": "requests, conversations"},
    {"tools/cli": "command lines, output, progress"},
    {"check": "gdn check", "bench": "gdn bench"},
    {"tools/run": "gdn run"},
    {"tools/serve": "gdn serve"},
    {"tools": "the tool gdn"},
    {"tests": "the tests", "examples": "programs to start from", "integrations": "libgdn inside other engines"},
)
HEIGHT = {folder: floor for floor, folders in enumerate(LAYERS) for folder in folders}
BACKENDS = ("cpu", "cuda", "vulkan", "metal")
SHARED = ("include", "numerics", "simd", "system", "threads")
ONLY = {"runtime": (*SHARED, "runtime"), "check": (*SHARED, "call", "tools/cli"), "bench": (*SHARED, "tools/cli"),
        "tools": (*SHARED, "runtime", "bench", "check", "tools")}
SOURCE = re.compile(r"\.(c|h|def|cu|cuh|comp|glsl|metal|m|cpp)$")
SYSTEM = re.compile(r"^[ \t]*#.*\b(_WIN32|_WIN64|__MINGW\w*|_MSC_VER|__linux__|__APPLE__|__FreeBSD__|__OpenBSD__|__NetBSD__|__unix__)\b")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)


def folder_of(path):
    """The longest of LAYERS that has the file, or None."""
    return max((folder for folder in HEIGHT if path.startswith(folder + "/")), key=len, default=None)


def read_includes():
    """{file: the files that it includes}."""
    names = {name for name in tracked(ROOT) if SOURCE.search(name) and folder_of(name)}
    found = {}
    for name in names:
        found[name] = set()
        for wanted in INCLUDE.findall((ROOT / name).read_text(errors="replace")):
            here = (pathlib.Path(name).parent / wanted).as_posix()
            parts = []
            for part in here.split("/"):
                parts = parts[:-1] if part == ".." else [*parts, part]
            found[name] |= set([p for p in ("/".join(parts), wanted, "include/" + wanted) if p in names][:1])
    return found


def read_symbols(build):
    """{file: the files that define what it refers to}. Public functions belong to include/."""
    public = set(re.findall(r"\b(gdn_\w+)\(", "".join(p.read_text() for p in (ROOT / "include/gdn").glob("*.h"))))
    where, wants = {}, collections.defaultdict(set)
    for path in build.rglob("*.o"):
        under, _, name = path.relative_to(build).as_posix().partition("CMakeFiles/")
        name = under + name.partition(".dir/")[2][:-2]
        if not (ROOT / name).is_file() or name.startswith("tests/"):
            continue
        for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines():
            *_, kind, symbol = line.split()
            if kind == "U":
                wants[name].add(symbol)
            elif kind in "TDBRVWC":
                where[symbol] = "include/gdn" if symbol in public else name
    return {name: {where[symbol] for symbol in symbols if symbol in where} for name, symbols in wants.items()}


def asks_for_systems():
    """Lines outside of system/ that ask which operating system it is."""
    for name in sorted(tracked(ROOT)):
        if SOURCE.search(name) and not name.startswith("system/"):
            for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1):
                if SYSTEM.search(line):
                    yield f"{name}:{number} asks which operating system it is; system/ is the place for that"


def circles(graph):
    """The sets of nodes that reach each other."""
    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for other in graph.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen
    reach = {node: reached(node) for node in graph}
    return {frozenset(other for other in reach[node] if node in reach.get(other, ())) for node in graph if node in reach[node]}


def folders_of(graph):
    found = {}
    for name, others in graph.items():
        here = folder_of(name)
        found.setdefault(here, set()).update(folder_of(other) for other in others if folder_of(other) != here)
    return found


def check(graph, verb):
    for name, others in sorted(graph.items()):
        here = folder_of(name)
        only = next((only for top, only in ONLY.items() if (here + "/").startswith(top + "/")), None)
        for other in sorted(others):
            there = folder_of(other)
            if here == there:
                continue
            if HEIGHT[there] > HEIGHT[here]:
                yield f"{name} {verb} {other}, which is in a layer above"
            elif here in BACKENDS and there in BACKENDS:
                yield f"{name} {verb} {other} of another backend"
            elif only and not (there + "/").startswith(tuple(folder + "/" for folder in only)):
                yield f"{name} {verb} {other}; it may use {', '.join(only)}"
            elif there.startswith("runtime/") and other.endswith("_internal.h") and here != "tests":
                yield f"{name} {verb} {other}, which is for the files of {there}"
    for circle in sorted(map(sorted, circles(folders_of(graph)))):
        yield f"a circle of folders: {', '.join(circle)}"
    for circle in sorted(map(sorted, circles(graph) if verb == "includes" else ())):
        yield f"a circle of files: {', '.join(circle)}"


def drawing(graph):
    between = folders_of(graph)
    lines = ["```mermaid", "flowchart TD"]
    for number in reversed(range(len(LAYERS) - 1)):  # the tests see everything
        names = "; ".join(LAYERS[number])
        lines += [f"  subgraph layer{number}[\" \"]", f"    {names}", "  end"] if len(LAYERS[number]) > 1 else [f"  {names}"]
    for layer in reversed(LAYERS[:-1]):
        lines += [f"  {folder} --> {' & '.join(sorted(between[folder]))}" for folder in layer if between.get(folder)]
    lines += ["```", "", "| layer | folder | what it is | includes today |", "|---|---|---|---|"]
    for number in reversed(range(len(LAYERS))):
        lines += [f"| {number} | `{folder}/` | {what} | {', '.join(sorted(between.get(folder, ()))) or 'nothing'} |"
                  for folder, what in LAYERS[number].items()]
    return BEGIN + "\n".join(lines) + "\n" + END


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--symbols", type=pathlib.Path, metavar="BUILD")
    args = parser.parse_args()
    graph = read_symbols(args.symbols) if args.symbols else read_includes()
    problems = list(check(graph, "needs a symbol of" if args.symbols else "includes"))
    if not args.symbols:
        problems += asks_for_systems()
    if not any(graph.values()):
        problems.append("there is nothing to check")
    elif not args.symbols:
        text = DRAWING.read_text()
        drawn = text.partition(BEGIN)[0] + drawing(graph) + text.partition(END)[2]
        if args.write:
            DRAWING.write_text(drawn)
        elif text != drawn:
            problems.append(f"{DRAWING.name} is not what the sources say: run scripts/layers.py --write")
    print("\n".join([*problems, f"layers: {len(graph)} files, {sum(map(len, graph.values()))} uses, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

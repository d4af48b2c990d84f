#!/usr/bin/env python3
"""Draw who includes whom, and hold the tree against the order of its floors.

    draw_includes.py              check; exit status 1 where something is wrong
    draw_includes.py --write      write the drawing into docs/design/architecture.md
    draw_includes.py --self-test  break the order in every way, and see that each is found

Rules
  floor    an include goes to the same floor or down, never up
  side     the backends do not include each other
  only     the runtime, the tool and the bench see no more of the library than ONLY says
  folders  folders form no circle
  files    files form no circle
  drawing  docs/design/architecture.md is what the sources say
What the tree is allowed against the rules stands in EXCEPTIONS and CIRCLES, each with its reason. What stands there and is
no longer so is an error too, so that they only shrink.
"""
import argparse
import pathlib
import re
import sys

from lint_kernels import C_SOURCE, tracked
from lint_main import ROOT

DRAWING = "docs/design/architecture.md"
BEGIN, END = "<!-- made by scripts/draw_includes.py --write -->\n", "<!-- end -->\n"
FLOORS = (  # from the ground up; folders of one floor, and what they are
    {"include": "the public interface"},
    {"numerics": "the arithmetic of the contract", "simd": "vectors, and what the CPU has", "threads": "the team of threads",
     "core": "contexts, validation, plans, dispatch"},
    {"reference": "the specification, scalar", "gpu": "what the backends of devices share", "cpu": "the CPU", "cuda": "CUDA",
     "vulkan": "Vulkan", "metal": "Metal"},
    {"runtime": "models: files, weights, memory, text"},
    {"tools": "the tool gdn", "bench": "gdn bench"},
    {"tests": "the tests", "examples": "programs to start from", "integrations": "libgdn inside other engines"},
)
BACKENDS = ("cpu", "cuda", "vulkan", "metal")
LOW = {"include", "numerics", "simd", "threads"}
ONLY = {"runtime": LOW, "tools": LOW | {"runtime", "bench"}, "bench": LOW | {"runtime", "tools"}}
REGISTRY = "core/kernels.def"  # a list, which everybody reads
SEARCHED = ("", "include/", "tools/gdn/")  # after the folder of the file itself
EXCEPTIONS = {  # (file, included): why
}
CIRCLES = (  # files that include each other, and why
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)

def read(root):
    """{path: text} of the sources of all floors."""
    folders = tuple(f"{folder}/" for floor in FLOORS for folder in floor)
    return {name: (root / name).read_text(errors="replace") for name in tracked(root)
            if name.endswith(C_SOURCE) and name.startswith(folders)}

def includes_of(sources):
    """{path: paths}; what is generated, or of other projects, is left out."""
    found = {}
    for path, text in sources.items():
        found[path] = []
        for wanted in INCLUDE.findall(text):
            for place in (path.rpartition("/")[0] + "/", *SEARCHED):
                parts = []
                for part in (place + wanted).split("/"):
                    parts = parts[:-1] if part == ".." else parts + [part] * (part not in ("", "."))
                if "/".join(parts) in sources:
                    found[path].append("/".join(parts))
                    break
    return found

def circles(graph):
    """The sets of nodes that reach each other (Tarjan), and nodes that point to themselves."""
    index, low, stack, out = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            members = stack[at:]
            del stack[at:]
            if len(members) > 1 or node in graph.get(node, ()):
                out.append(frozenset(members))
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return out

def top(path):
    return path.split("/")[0]

def folders_of(graph):
    """{folder: folders}, without the registry and without what is excepted."""
    found = {}
    for path, others in graph.items():
        found.setdefault(top(path), set()).update(
            top(other) for other in others
            if top(other) != top(path) and other != REGISTRY and (path, other) not in EXCEPTIONS)
    return found

def check(graph, exceptions=()):
    exceptions = {*EXCEPTIONS, *exceptions}
    height = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}
    excepted = set()
    for path, others in sorted(graph.items()):
        for other in others:
            here, there = top(path), top(other)
            wrong = None
            if other == REGISTRY or here == there:
                continue
            if height[there] > height[here]:
                wrong = "runs upwards"
            elif here in BACKENDS and there in BACKENDS:
                wrong = "goes from backend to backend"
            elif there not in ONLY.get(here, {there}):
                wrong = f"is none that {here}/ may have: {', '.join(sorted(ONLY[here]))}"
            if wrong and (path, other) in exceptions:
                excepted.add((path, other))
            elif wrong:
                yield f"{path}: the include of {other} {wrong}"
    for path, other in sorted(exceptions - excepted):
        yield f"{path} no longer needs to be excepted for {other}: remove it from EXCEPTIONS"
    for circle in circles(folders_of(graph)):
        yield f"the folders {', '.join(sorted(circle))} include each other"
    known = {files: why for files, why in CIRCLES}
    found = circles(graph)
    for circle in found:
        if circle not in known:
            yield f"the files {', '.join(sorted(circle))} include each other"
    for circle in known:
        if circle not in found:
            yield f"the files {', '.join(sorted(circle))} no longer include each other: remove or shorten it in CIRCLES"

def drawing(graph):
    between = folders_of(graph)
    here = [[folder for folder in floor if folder in between] for floor in FLOORS]
    lines = ["```mermaid", "flowchart TD"]
    for number in reversed(range(len(here) - 1)):  # the tests see everything
        lines += [f"  subgraph floor{number}[\" \"]", "    direction LR", f"    {'; '.join(here[number])}", "  end"]
    for floor in reversed(here[:-1]):
        lines += [f"  {folder} --> {' & '.join(sorted(between[folder]))}" for folder in floor if between[folder]]
    lines += ["```", "", "| layer | folder | what it is | includes |", "|---|---|---|---|"]
    for number in reversed(range(len(here))):
        lines += [f"| {number} | `{folder}/` | {FLOORS[number][folder]} | {', '.join(sorted(between[folder])) or 'nothing'} |"
                  for folder in here[number]]
    lines += ["", "Exceptions:"]
    lines += [f"- `{path}` includes `{other}`: {why}" for (path, other), why in sorted(EXCEPTIONS.items())]
    lines += [f"- {', '.join(f'`{f}`' for f in sorted(files))} include each other: {why}" for files, why in CIRCLES]
    lines += ["- nothing"] * (not EXCEPTIONS and not CIRCLES)
    return BEGIN + "\n".join(lines) + "\n" + END

def parts(text):
    """What stands before and after the drawing, or None."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return (before, after) if begin and end else None

def check_drawing(text, graph):
    around = parts(text)
    if not around or around[0] + drawing(graph) + around[1] != text:
        yield f"{DRAWING} is not what the sources say: run scripts/draw_includes.py --write"

def self_test(sources, text):
    """Each of these changes to the sources has to be found."""
    before = set(check(includes_of(sources)))
    failed = 0
    cases = (
        ("upwards", {"core/context.c": '#include "cpu/cpu.h"\n'}, "runs upwards"),
        ("upwards, with blanks", {"core/context.c": '  #  include   "reference/reference.h"\n'}, "runs upwards"),
        ("upwards, by a relative path", {"numerics/dot32.h": '#include "../runtime/model/model.h"\n'}, "runs upwards"),
        ("between backends", {"cuda/probe.c": '#include "vulkan/device.h"\n'}, "from backend to backend"),
        ("the runtime into a backend", {"runtime/model/model.c": '#include "cpu/cpu.h"\n'}, "none that runtime/ may have"),
        ("the runtime into core", {"runtime/model/model.c": '#include "core/plan.h"\n'}, "none that runtime/ may have"),
        ("the tool into core", {"tools/check/check.c": '#include "core/plan.h"\n'}, "none that tools/ may have"),
        ("a circle of files", {"core/status.h": '#include "core/plan.h"\n', "core/plan.h": '#include "core/status.h"\n'},
         "core/plan.h, core/status.h"),
        ("a file that includes itself", {"core/maps.h": '#include "core/maps.h"\n'}, "the files core/maps.h"),
        ("a circle of folders", {"simd/features.h": '#include "threads/team.h"\n', "threads/team.c": '#include "simd/features.h"\n'},
         "the folders simd, threads"),
    )
    for what, changes, says in cases:
        changed = dict(sources)
        for path, more in changes.items():
            changed[path] = changed[path] + "\n" + more if more else ""
        new = [line for line in check(includes_of(changed)) if line not in before]
        if not any(says in line for line in new):
            print(f"self-test: {what} was not found; the check said {new}")
            failed += 1
    changed = {**sources, "simd/features.c": sources["simd/features.c"] + '\n#include "core/plan.h"\n'}
    failed += sum(not list(check_drawing(*case)) for case in ((text, includes_of(changed)), (text.replace("core", "kernel"), includes_of(sources))))
    excepted = [("simd/features.c", "reference/reference.h")] # of use where the include is there only
    changed["simd/features.c"] += '#include "reference/reference.h"\n'
    failed += any("runs upwards" in line for line in check(includes_of(changed), excepted))
    failed += not any("remove it from EXCEPTIONS" in line for line in check(includes_of(sources), excepted))
    count = len(cases) + 4
    print(f"self-test: {count - failed} of {count} breakages found")
    return failed == 0

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    path = pathlib.Path(ROOT, DRAWING)
    text = path.read_text()
    sources = read(ROOT)
    graph = includes_of(sources)
    if args.write:
        before, after = parts(text)
        path.write_text(before + drawing(graph) + after)
        return 0
    if args.self_test:
        return 0 if self_test(sources, text) else 1
    problems = [*check(graph), *check_drawing(text, graph)]
    for problem in problems:
        print(problem)
    print(f"includes: {len(graph)} files, {sum(map(len, graph.values()))} includes, {len(problems)} problems")
    return 1 if problems else 0

if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    sys.exit(main())

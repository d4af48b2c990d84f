#!/usr/bin/env python3
"""Break the kernels of a backend on purpose, one mistake after another, and demand that the tests notice each on the emulator.

    mutations.py --backend cuda|metal --cxx C++ --gdn GDN --test TEST_PROGRAM --objects OBJECT... [--flags FLAGS] [--only TEXT]

All mistakes of tests/<backend>/mistakes.txt go into one driver library, in a temporary folder: a function with mistakes has
its body once as it is and once with each, and the number in GDN_MISTAKE, which the library reads as it is loaded, says which
one runs. Those that are not within a function have a library of their own. With every mistake `gdn check` or the backend's
test program has to fail; blocks and threads run in an order of the emulator's seed. A mistake whose place is not there
exactly once is an error. What failed with a mistake has to pass in the same library without one.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/mutations"))
import places  # noqa: E402
import trial  # noqa: E402

# Compiling is most of the time: without optimisation it takes a quarter, and the runs end with the first case that fails.
FLAGS = ("-std=c++17 -O0 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti "
         "-fno-threadsafe-statics -fno-strict-aliasing -fvisibility=hidden -DSIMT_CALLS -w").split()
SIGNS = "CRASH|HANG|simt:|metal:|not so:|differ|returned|FAILED|error"
KERNELS = ("gated_delta_net", "set_rows", "ssm_conv")
PROBE = "probe" # has no mistakes: with one in the arithmetic, a device is not exact, and no case is run on it
CHOICE = """#include <cstdlib>
extern "C" __attribute__((visibility("hidden"))) int gdn_mistake;
int gdn_mistake;
__attribute__((constructor)) static void choose()
{
    const char *number = getenv("GDN_MISTAKE");
    gdn_mistake = number ? atoi(number) : 0;
}
"""


@dataclasses.dataclass
class Backend:
    suffix: str   # of kernels' sources
    shim: str     # what stands for the language
    library: str  # that the backend loads as its driver
    cases: dict   # random cases that notice every mistake


BACKENDS = {
    "cuda": Backend(".cu", "cuda_shim.h", "libcuda.so.1", {"gated_delta_net": "12", "ssm_conv": "100", "set_rows": "100"}),
    "metal": Backend(".metal", "metal_shim.h", "libgdn-metal-emulated.so", {"gated_delta_net": "12", "ssm_conv": "40", "set_rows": "60"}),
}


# ---- Libraries ----------------------------------------------------------------------------------------------------------
def body_around(text, begin, end):
    """The body, between its braces, of the function that a place lies in. None where it is in none, or in a macro."""
    tokens = places.tokens_of(text)
    opening = {last: first for first, last in places.closing(tokens).items()}
    for _, first, behind in places.functions_of(text): # in order: an outer one comes before what is in it
        if tokens[first].text != "#" and tokens[first].begin <= begin and end <= tokens[behind - 1].begin:
            body = tokens[opening[behind - 1]].end, tokens[behind - 1].begin
            return body if body[0] <= begin else None
    return None


def plant_all(tree, mistakes):
    """The tree with every mistake that lies in a function, each behind its number, and the numbers of the others."""
    bodies, alone = {}, []
    for number, mistake in enumerate(mistakes, 1):
        path, planted = mistake.plant(tree)
        place, _ = mistake.place(tree)
        body = body_around(tree[path], place.begin, place.end)
        if body:
            longer = len(planted) - len(tree[path])
            bodies.setdefault((path, body), []).append((number, planted[body[0]:body[1] + longer]))
        else:
            alone.append(number)
    changed = dict(tree)
    for (path, (begin, end)), wrong in sorted(bodies.items(), reverse=True): # from the end of a file to its beginning
        text = changed[path]
        ways = "".join(f"if (gdn_mistake == {number}) {{ {body} }} else " for number, body in wrong)
        changed[path] = f"{text[:begin]} {ways} {{ {text[begin:end]} }} {text[end:]}"
    return changed, alone


def make_library(args, pool, folder, tree):
    """The library of a tree, in a folder."""
    backend = BACKENDS[args.backend]
    for path, text in tree.items():
        (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / path).write_text(text)
    (folder / "tree/mistake.h").write_text('extern "C" __attribute__((visibility("hidden"))) int gdn_mistake;\n')
    (folder / "choice.cpp").write_text(CHOICE)

    def compile_one(source):
        out = folder / (source.stem + ".o")
        shim = [] if source.stem == "choice" else ["-include", f"{ROOT}/tests/simt/{backend.shim}", "-include", folder / "tree/mistake.h"]
        headers = [] if source.stem == PROBE else [f"-I{folder}/tree"]
        subprocess.run([args.cxx, *FLAGS, *args.flags.split(), *headers, f"-I{ROOT}", f"-I{ROOT}/include", "-x", "c++", *shim,
                        "-c", source, "-o", out], check=True)
        return out

    sources = [folder / "tree" / args.backend / (kernel + backend.suffix) for kernel in KERNELS]
    probe = ROOT / args.backend / (PROBE + backend.suffix)
    objects = list(pool.map(compile_one, [*sources, probe, folder / "choice.cpp"]))
    subprocess.run([args.cxx, "-shared", f"-Wl,-soname,{backend.library}", "-o", folder / backend.library, *objects, *args.objects,
                    "-lpthread", "-lm"], check=True)


# ---- Runs ---------------------------------------------------------------------------------------------------------------
def command_of(args, what, cases=()):
    """what: a kernel, or the test program's name; cases: arguments, or for the program the name of one of its tests."""
    if what not in KERNELS:
        return [args.test, " ".join(cases)]
    return [args.gdn, "check", "--stop", "--backend", args.backend, "--kernel", what,
            *(cases or ("--quick", "--cases", BACKENDS[args.backend].cases[what]))]


ANSWERS = "default"  # the test of a test program that opens a context, for which known answers are asked


def attempt(folder, command, number):
    # The check has to notice, and not known answers, unless it is about them.
    asked = {} if ANSWERS in command else {"GDN_KNOWN_ANSWERS": "off"}
    return trial.run(command, SIGNS, env={**os.environ, "LD_LIBRARY_PATH": str(folder), "GDN_SIMT_SEED": "1", "GDN_MISTAKE": str(number), **asked})


def without(args, mistake, found):
    """What has to pass without the mistake: the case that noticed it, or all of the run where that named none."""
    if found.case:
        kernel, seed, name = found.case
        return tuple(command_of(args, kernel, ["--seed", seed, "--case", name]))
    return tuple(command_of(args, mistake.noticed_by, mistake.arguments))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True, choices=BACKENDS)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--gdn", required=True)
    parser.add_argument("--test", required=True, help="the backend's test program")
    parser.add_argument("--objects", nargs="+", required=True, help="the emulator's, and what stands for the driver")
    parser.add_argument("--flags", default="", help="for the compiler, besides those of this script")
    parser.add_argument("--only", default="", help="mistakes whose description contains this")
    args = parser.parse_args()
    wanted = [mistake for mistake in places.read_list(f"tests/{args.backend}/mistakes.txt") if args.only in mistake.what]
    begin = time.time()
    missed, has_to_pass = 0, {}
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        top = pathlib.Path(name)
        tree = places.read_tree([args.backend, "gpu"])
        tree["numerics/elementary.h"] = (ROOT / "numerics/elementary.h").read_text()
        together, alone = plant_all(tree, wanted)
        make_library(args, pool, top / "all", together)
        for number in alone:
            path, text = wanted[number - 1].plant(tree)
            make_library(args, pool, top / str(number), {**tree, path: text})

        def one(number):
            mistake = wanted[number - 1]
            folder = top / (str(number) if number in alone else "all")
            return attempt(folder, command_of(args, mistake.noticed_by, mistake.arguments), number)
        numbers = range(1, len(wanted) + 1)
        for mistake, found in zip(wanted, pool.map(one, numbers)):
            missed += not found.noticed()
            has_to_pass[without(args, mistake, found)] = mistake
            by = f"{mistake.noticed_by} {found.case[2] if found.case else ''}"
            print(f"{'noticed' if found.noticed() else 'MISSED '} {by:45} {mistake.what}{': ' + found.said if found.said else ''}", flush=True)
        for command, found in zip(has_to_pass, pool.map(lambda command: attempt(top / "all", command, 0), has_to_pass)):
            if found.noticed():
                sys.exit(f"mutations: {' '.join(command)} fails without any mistake: {found.status} {found.said}")
        shutil.rmtree(top / "all")
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s; "
          f"{len(has_to_pass)} runs pass without, {len(alone)} libraries of one mistake")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

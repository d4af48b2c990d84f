#!/usr/bin/env python3
"""Break the Metal kernels on purpose, one mistake after another, and demand that the tests notice each on the emulator.

    mutations.py --cxx C++ --gdn GDN --test-metal TEST_METAL --objects OBJECT... [--only TEXT]

Each mistake of mistakes.py becomes a libgdn-metal-emulated.so of its own, in a temporary folder, with which `gdn check` or
test_metal has to fail. A text to replace that is not there exactly once is an error. Without a mistake both pass.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from mistakes import CONV, DELTA, MISTAKES, ROBUST, ROWS  # noqa: E402

FLAGS = ("-std=c++17 -O1 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti "
         "-fno-threadsafe-statics -fno-strict-aliasing -fvisibility=hidden -w").split()
KERNELS = (DELTA, "probe", ROWS, CONV)
CASES = {DELTA: "12", CONV: "40", ROWS: "60"}
LIBRARY = "libgdn-metal-emulated.so"


def compile_kernel(args, tree, name, out):
    subprocess.run([args.cxx, *FLAGS, f"-I{tree}", f"-I{ROOT}", "-x", "c++", "-include", f"{ROOT}/tests/simt/metal_shim.h", "-c",
                    tree / "metal" / f"{name}.metal", "-o", out], check=True)


def link(args, objects, folder):
    subprocess.run([args.cxx, "-shared", f"-Wl,-soname,{LIBRARY}", "-o", folder / LIBRARY, *objects, *args.objects, "-lpthread", "-lm"],
                   check=True)


def run(args, folder, what, cases=()):
    """Status, and the first line that says what is wrong. With a seed, threadgroups and lanes run in any order."""
    command = [args.test_metal] if what == ROBUST else [args.gdn, "check", "--backend", "metal", "--kernel", what,
                                                        *(cases or ("--quick", "--cases", CASES[what]))]
    try:
        done = subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": str(folder), "GDN_SIMT_SEED": "1"}, capture_output=True, text=True,
                              errors="replace", timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    said = re.findall(r"^.*(?:metal:|not so:|differ|returned|FAILED|error).*$", done.stderr + done.stdout, flags=re.M)
    return done.returncode, said[0][:120] if said else ""


def attempt(args, good, folder, mistake):
    what, path, old, new, program, *cases = mistake
    tree = folder / "tree"
    shutil.copytree(ROOT / "metal", tree / "metal")
    (tree / "reference").mkdir()
    shutil.copyfile(ROOT / "reference/elementary.h", tree / "reference/elementary.h")
    text = (tree / path).read_text()
    if text.count(old) != 1:
        sys.exit(f"mutations: '{what}': {path} has {text.count(old)} times\n{old}")
    (tree / path).write_text(text.replace(old, new))
    kernel = DELTA if program == ROBUST else program
    objects = dict(good)
    objects[kernel] = folder / f"{kernel}.o"
    compile_kernel(args, tree, kernel, objects[kernel])
    link(args, objects.values(), folder)
    return run(args, folder, program, *cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--gdn", required=True)
    parser.add_argument("--test-metal", required=True)
    parser.add_argument("--objects", nargs="+", required=True, help="the emulator's and the fake Metal's")
    parser.add_argument("--only", default="", help="mistakes whose description contains this")
    args = parser.parse_args()
    wanted = [m for m in MISTAKES if args.only in m[0]]
    begin = time.time()
    missed = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        top = pathlib.Path(name)
        good = {kernel: top / f"{kernel}.o" for kernel in KERNELS}
        list(pool.map(lambda kernel: compile_kernel(args, ROOT, kernel, good[kernel]), KERNELS))
        link(args, good.values(), top)
        programs = (DELTA, CONV, ROWS, ROBUST)
        for what, (status, said) in zip(programs, pool.map(lambda w: run(args, top, w), programs)):
            if status:
                sys.exit(f"mutations: {what} fails without any mistake: {status} {said}")

        def one(number):
            folder = top / str(number)
            folder.mkdir()
            result = attempt(args, good, folder, wanted[number])
            shutil.rmtree(folder)
            return result
        for mistake, (status, said) in zip(wanted, pool.map(one, range(len(wanted)))):
            missed += status == 0
            print(f"{'MISSED ' if status == 0 else 'noticed'} {mistake[4]:16} {mistake[0]}{': ' + said.strip() if said else ''}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

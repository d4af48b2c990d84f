#!/usr/bin/env python3
"""Break the kernels of a backend on purpose, one mistake after another, and demand that the tests notice each on the emulator.

    mutations.py --backend cuda|metal --cxx C++ --gdn GDN --test TEST_PROGRAM --objects OBJECT... [--flags FLAGS] [--only TEXT]

Each mistake of tests/<backend>/mistakes.txt becomes a driver library of its own, in a temporary folder, with which
`gdn check` or the backend's test program has to fail; blocks and threads run in an order of the emulator's seed. A mistake
whose place is not there exactly once is an error. Without a mistake both pass.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/mutations"))
import places  # noqa: E402

FLAGS = ("-std=c++17 -O1 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti "
         "-fno-threadsafe-statics -fno-strict-aliasing -fvisibility=hidden -w").split()
SECONDS = 300 # of processor time, for runs that take a few
KERNELS = ("gated_delta_net", "probe", "set_rows", "ssm_conv")


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


def compile_kernel(args, tree, name, out):
    backend = BACKENDS[args.backend]
    subprocess.run([args.cxx, *FLAGS, *args.flags.split(), f"-I{tree}", f"-I{ROOT}", f"-I{ROOT}/include", "-x", "c++", "-include",
                    f"{ROOT}/tests/simt/{backend.shim}", "-c", tree / args.backend / (name + backend.suffix), "-o", out], check=True)


def link(args, objects, folder):
    library = BACKENDS[args.backend].library
    subprocess.run([args.cxx, "-shared", f"-Wl,-soname,{library}", "-o", folder / library, *objects, *args.objects, "-lpthread", "-lm"],
                   check=True)


def run(args, folder, what, cases=()):
    """Status, and the first line that says what is wrong. what: a kernel, or the test program's name."""
    command = [args.test]
    if what in KERNELS:
        command = [args.gdn, "check", "--backend", args.backend, "--kernel", what,
                   *(cases or ("--quick", "--cases", BACKENDS[args.backend].cases[what]))]
    # What does not end is noticed by the processor time that it takes: a busy machine slows every program down.
    done = subprocess.run(["sh", "-c", f'ulimit -t {SECONDS}; exec "$@"', "sh", *command], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(folder), "GDN_SIMT_SEED": "1"}, errors="replace", check=False)
    said = re.findall(r"^.*(?:simt:|metal:|not so:|differ|returned|FAILED|error).*$", done.stderr + done.stdout, flags=re.M)
    return done.returncode, said[0][:120] if said else ""


def attempt(args, good, folder, mistake):
    tree = folder / "tree"
    shutil.copytree(ROOT / args.backend, tree / args.backend)
    (tree / "numerics").mkdir()
    shutil.copyfile(ROOT / "numerics/elementary.h", tree / "numerics/elementary.h")
    path, text = mistake.plant(places.read_tree([mistake.folder]))
    (tree / path).write_text(text)
    stem = pathlib.PurePath(path).stem # of a header, it is the kernel that notices which is compiled again
    kernel = stem if stem in KERNELS else mistake.noticed_by if mistake.noticed_by in KERNELS else "gated_delta_net"
    objects = dict(good)
    objects[kernel] = folder / f"{kernel}.o"
    compile_kernel(args, tree, kernel, objects[kernel])
    link(args, objects.values(), folder)
    return run(args, folder, mistake.noticed_by, mistake.arguments)


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
    missed = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        top = pathlib.Path(name)
        good = {kernel: top / f"{kernel}.o" for kernel in KERNELS}
        list(pool.map(lambda kernel: compile_kernel(args, ROOT, kernel, good[kernel]), KERNELS))
        link(args, good.values(), top)
        # Every run that has to notice something, on kernels without a mistake: also that there are such cases at all.
        notice = sorted({(mistake.noticed_by, tuple(mistake.arguments)) for mistake in wanted})
        for what, (status, said) in zip(notice, pool.map(lambda w: run(args, top, *w), notice)):
            if status:
                sys.exit(f"mutations: {' '.join((what[0], *what[1]))} fails without any mistake: {status} {said}")

        def one(number):
            folder = top / str(number)
            folder.mkdir()
            result = attempt(args, good, folder, wanted[number])
            shutil.rmtree(folder)
            return result
        for mistake, (status, said) in zip(wanted, pool.map(one, range(len(wanted)))):
            missed += status == 0
            print(f"{'MISSED ' if status == 0 else 'noticed'} {mistake.noticed_by:16} {mistake.what}{': ' + said.strip() if said else ''}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

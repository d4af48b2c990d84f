#!/usr/bin/env python3
"""Break gated_delta_net's shader on purpose, one mistake after another, and demand that `gdn check` notices each.

    mutations.py --glslc GLSLC --cc CC --gdn GDN --shaders FOLDER --include FOLDER --objects OBJECT... [--only TEXT]

Each mistake of mistakes.py becomes a libgdn of its own, in a temporary folder, linked from the library's objects but for
the shaders. A text to replace that is not there exactly once is an error. Without a mistake all of the cases pass.
77 = skipped, where there is no device.
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
from mistakes import MISTAKES  # noqa: E402

KERNEL = "gated_delta_net"
DEFINES = {"soft": "-DGDN_SOFT_FMA", "subgroup": "-DGDN_SUBGROUP", "16": "-DGDN_STORAGE_16", "general": "-DGDN_GENERAL"}
SECONDS = 300 # of processor time, for runs that take a few


def build(args, tree, folder):
    """The library of a tree's shaders, as vulkan/sources.cmake makes them."""
    def compile_shader(path):
        words = path.stem[len(KERNEL):].split("_")
        defines = [define for word, define in DEFINES.items() if word in words]
        subprocess.run([args.glslc, "--target-env=vulkan1.2", "-O0", f"-I{tree}", f"-I{ROOT}", *defines, "-mfmt=c",
                        tree / "vulkan" / f"{KERNEL}.comp", "-o", folder / path.name], check=True)

    for path in args.shaders.glob("*.inc"):
        if path.name.startswith(KERNEL):
            compile_shader(path)
        else:
            shutil.copyfile(path, folder / path.name)
    subprocess.run([args.cc, "-std=c11", "-O1", "-fPIC", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{args.include}", f"-I{folder}", "-c",
                    ROOT / "vulkan/shaders.c", "-o", folder / "shaders.o"], check=True)
    subprocess.run([args.cc, "-shared", "-Wl,-soname,libgdn.so.0", f"-Wl,--version-script={args.shaders.parent}/gdn.map", "-o",
                    folder / "libgdn.so.0", *args.objects, folder / "shaders.o", "-lpthread", "-lm", "-ldl"], check=True)


def check(args, folder, cases):
    """Status, and the first line that says what is wrong."""
    command = [args.gdn, "check", "--backend", "vulkan", "--kernel", KERNEL]
    status, said = 0, []
    for case in cases:
        # What does not end is noticed by the processor time that it takes: a busy machine slows every program down.
        done = subprocess.run(["sh", "-c", f'ulimit -t {SECONDS}; exec "$@"', "sh", *command, "--case", case], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, errors="replace", check=False)
        status = status or done.returncode
        said += re.findall(r"^.*(?:differ|returned|FAILED|error).*$", done.stderr + done.stdout, flags=re.M)
    said = [line for line in said if "left out" not in line]
    return status, said[0].strip()[:120] if said else ""


def attempt(args, folder, path, old, new, cases):
    shutil.copytree(ROOT / "vulkan", folder / "tree/vulkan")
    text = (folder / "tree" / path).read_text()
    if text.count(old) != 1:
        sys.exit(f"mutations: {path} has {text.count(old)} times\n{old}")
    (folder / "tree" / path).write_text(text.replace(old, new))
    build(args, folder / "tree", folder)
    result = check(args, folder, cases)
    shutil.rmtree(folder)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("glslc", "cc", "gdn"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--shaders", type=pathlib.Path, required=True, help="where the build has them")
    parser.add_argument("--include", required=True, help="of the Vulkan headers")
    parser.add_argument("--objects", nargs="+", required=True, help="the library's")
    parser.add_argument("--only", default="", help="mistakes whose description contains this")
    args = parser.parse_args()
    args.objects = [o for o in args.objects if not o.endswith("vulkan/shaders.c.o")]
    if not re.search(r"^vulkan +available", subprocess.run([args.gdn, "info"], capture_output=True, text=True, check=True).stdout, re.M):
        print("skipped: no device")
        return 77
    wanted = [m for m in MISTAKES if args.only in m[0]]
    begin = time.time()
    missed = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def one(mistake):
            return attempt(args, pathlib.Path(tempfile.mkdtemp(dir=name)), *mistake[1:4], [mistake[4]])
        status, said = attempt(args, pathlib.Path(tempfile.mkdtemp(dir=name)), MISTAKES[0][1], MISTAKES[0][2], MISTAKES[0][2],
                               sorted({m[4] for m in wanted}))
        if status:
            sys.exit(f"mutations: gdn check fails without any mistake: {status} {said}")
        for mistake, (status, said) in zip(wanted, pool.map(one, wanted)):
            missed += status == 0
            print(f"{'MISSED ' if status == 0 else 'noticed'} {mistake[0]}{': ' + said if said else ''}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Break gated_delta_net's shader on purpose, one mistake after another, and demand that `gdn check` notices each.

    mutations.py --glslc GLSLC --cc CC --gdn GDN --shaders FOLDER --include FOLDER --objects OBJECT... [--flush LIBRARY] [--only TEXT]

Each mistake of mistakes.txt becomes a libgdn of its own, in a temporary folder, linked from the library's objects but for
the shaders; the device's best implementation has to fail its case. A mistake whose place is not there exactly once is an
error. Without a mistake all of the cases pass. What is noticed at the level exact_ftz is left out but on lavapipe, which flushes
with LIBRARY (flush.c) preloaded. 77 = skipped, where there is no device.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/mutations"))
import places  # noqa: E402
import trial  # noqa: E402

KERNEL = "gated_delta_net"
DEFINES = {"soft": "-DGDN_SOFT_FMA", "subgroup": "-DGDN_SUBGROUP", "16": "-DGDN_STORAGE_16", "general": "-DGDN_GENERAL"}


def best_of(gdn):
    """The device, and the implementation that its calls get, if there is one."""
    info = subprocess.run([gdn, "info"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^vulkan +available\n +0: (.*)\n +(\S+) +exact(?:, exact_ftz)?$", info, flags=re.M)
    return found.groups() if found else (None, None)


def build(args, tree, folder):
    """The library of a tree's shaders, as vulkan/sources.cmake makes them: of those, what the implementation uses. A mistake
    that it should use and does not is missed; states of 16 bits are only on devices that have such storage."""
    used = {"soft" if args.best.startswith("soft") else "fma", "shared" if args.best.endswith("-shared") else "subgroup", "16"}
    for path in args.shaders.glob("*.inc"):
        words = path.stem[len(KERNEL):].split("_")
        if path.name.startswith(KERNEL) and used <= set(words):
            defines = [define for word, define in DEFINES.items() if word in words]
            subprocess.run([args.glslc, "--target-env=vulkan1.2", "-O0", f"-I{tree}", f"-I{ROOT}", *defines, "-mfmt=c",
                            tree / "vulkan" / f"{KERNEL}.comp", "-o", folder / path.name], check=True)
        else:
            shutil.copyfile(path, folder / path.name)
    subprocess.run([args.cc, "-std=c11", "-O0", "-fPIC", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{args.include}", f"-I{folder}", "-c",
                    ROOT / "vulkan/shaders.c", "-o", folder / "shaders.o"], check=True)
    subprocess.run([args.cc, "-shared", "-Wl,-soname,libgdn.so.0", f"-Wl,--version-script={args.shaders.parent}/gdn.map", "-o",
                    folder / "libgdn.so.0", *args.objects, folder / "shaders.o", "-lpthread", "-lm", "-ldl"], check=True)


def check(args, folder, arguments):
    """Of a mistake's arguments, those with NAME=VALUE are for the environment."""
    given = dict(word.split("=") for word in arguments if "=" in word)
    arguments = [word for word in arguments if "=" not in word]
    command = [args.gdn, "check", "--stop", "--backend", "vulkan", "--impl", args.best, "--kernel", KERNEL, *arguments]
    env = {**os.environ, **given, "LD_LIBRARY_PATH": str(folder), "GDN_KNOWN_ANSWERS": "off"}  # the check has to notice
    if "exact_ftz" in arguments:
        env |= {"LD_PRELOAD": args.flush, "GDN_TEST_FLUSH": "both"}
    found = trial.run(command, "CRASH|HANG|differ|returned|FAILED|error", env=env)
    if found.noticed() and not found.case:
        sys.exit(f"mutations: {' '.join(map(str, command))} has compared nothing: {found.status} {found.said}")
    return found


def make(args, top, tree):
    folder = pathlib.Path(tempfile.mkdtemp(dir=top))
    (folder / "tree/vulkan").mkdir(parents=True)
    for path in (ROOT / "vulkan").glob("*.h"):
        shutil.copyfile(path, folder / "tree/vulkan" / path.name)
    for path, text in tree.items():
        (folder / "tree" / path).write_text(text)
    build(args, folder / "tree", folder)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("glslc", "cc", "gdn"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--shaders", type=pathlib.Path, required=True, help="where the build has them")
    parser.add_argument("--include", required=True, help="of the Vulkan headers")
    parser.add_argument("--objects", nargs="+", required=True, help="the library's")
    parser.add_argument("--flush", default="", help="the library to be preloaded")
    parser.add_argument("--only", default="", help="mistakes whose description contains this")
    args = parser.parse_args()
    args.objects = [o for o in args.objects if not o.endswith("vulkan/shaders.c.o")]
    device, args.best = best_of(args.gdn)
    if not args.best:
        print("skipped: no device with an exact implementation")
        return 77
    flushes = args.flush and "llvmpipe" in device
    wanted = [m for m in places.read_list("tests/vulkan/mistakes.txt")
              if args.only in m.what and (flushes or "exact_ftz" not in m.arguments)]
    begin = time.time()
    missed = 0
    tree = places.read_tree(["vulkan"])
    with tempfile.TemporaryDirectory() as top, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = make(args, top, tree)
        cases = sorted({tuple(mistake.arguments) for mistake in wanted})
        for case, found in zip(cases, pool.map(lambda case: check(args, good, case), cases)):
            if found.noticed():
                sys.exit(f"mutations: {' '.join(case)} fails without any mistake: {found.status} {found.said}")

        def attempt(mistake):
            path, text = mistake.plant(tree)
            folder = make(args, top, {**tree, path: text})
            found = check(args, folder, mistake.arguments)
            shutil.rmtree(folder)
            return found
        for mistake, found in zip(wanted, pool.map(attempt, wanted)):
            missed += not found.noticed()
            print(f"{'noticed' if found.noticed() else 'MISSED '} {mistake.what}{': ' + found.said if found.said else ''}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s")
    return 1 if missed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

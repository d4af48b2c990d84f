#!/usr/bin/env python3
"""How far it is from a public function to the loop that does its work: frames of the stack and calls through pointers.

    frames.py --cmake CMAKE --generator GENERATOR --cc CC --build FOLDER [--source FOLDER]

Builds the library without optimisation in FOLDER, stops in gdb wherever a call's loop is entered, and fails where there are
more than LIMIT frames, the public function's and the loop's among them, or more than INDIRECT calls through pointers. What
is always inlined has no frame. Exit status 77 where there is no gdb that runs Python and starts programs.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

LIMIT, INDIRECT, SKIPPED = 6, 2, 77
CALLS = { # of tests/unit/frames.c: the public function, and functions with a loop
    "rows": ("gdn_gated_delta_net", ["rows_token"]),
    "decode": ("gdn_gated_delta_net", ["rows_decode_run"]),
    "lines": ("gdn_gated_delta_net", ["pass_leaf"]),
    "columns": ("gdn_gated_delta_net", ["pass_leaf"]),
    "tree": ("gdn_gated_delta_net", ["pass_leaf"]),
    "ssm_conv": ("gdn_ssm_conv", ["conv_taps"]),
    "set_rows": ("gdn_set_rows", ["convert_row"]),
}

def gdb_works(gdb):
    if not gdb:
        return False
    tried = subprocess.run([gdb, "-nx", "-batch", "-ex", "python print('it', 'runs')", "-ex", "run", "-ex", "info program",
                            "--args", sys.executable, "-c", "pass"], capture_output=True, text=True)
    return "it runs" in tried.stdout and "exited normally" in tried.stdout


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"frames: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def build(given):
    parts = [f"-DGDN_{part}=OFF" for part in ("CUDA", "VULKAN", "METAL", "OPENMP", "BUILD_RUNTIME", "BUILD_TOOLS", "BUILD_TESTS",
                                              "BUILD_SHARED")]
    run([given.cmake, "-S", given.source, "-B", given.build, "-G", given.generator, "-DGDN_BUILD_STATIC=ON", "-DCMAKE_BUILD_TYPE=Debug",
         "-DCMAKE_C_FLAGS_DEBUG=-O0 -g", f"-DCMAKE_C_COMPILER={given.cc}", *parts])
    run([given.cmake, "--build", given.build, "--target", "gdn_static"])
    program = given.build / "frames"
    run([given.cc, "-std=c11", "-O0", "-g", "-I", given.source / "include", pathlib.Path(__file__).parent / "frames.c",
         given.build / "libgdn.a", "-lm", "-lpthread", "-o", program])
    return program


def look(gdb, program, call):
    """[(frames, indirect)] of the stops: names from the loop outwards, and which of them were called through a pointer."""
    public, loops = CALLS[call]
    script = pathlib.Path(__file__).with_name("frames_gdb.py")
    said = run([gdb, "-nx", "-batch", "-ex", f"python PUBLIC, LOOPS = {public!r}, {loops!r}", "-x", script, "--args", program, call])
    found = [json.loads(line[len("STOP "):]) for line in said.splitlines() if line.startswith("STOP ")]
    if not found or "exited normally" not in said:
        sys.exit(f"frames: {call} was not seen in {', '.join(loops)}:\n{said}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    given = parser.parse_args()
    gdb = shutil.which("gdb")
    if not gdb_works(gdb):
        print("frames: SKIPPED, there is no gdb that runs Python and may start programs")
        return SKIPPED
    program = build(given)
    failed = 0
    for call in CALLS:
        stops = look(gdb, program, call)
        frames = max((frames for frames, _ in stops), key=len)
        indirect = max((indirect for _, indirect in stops), key=len)
        bad = len(frames) > LIMIT or len(indirect) > INDIRECT
        failed += bad
        print(f"{'FAIL' if bad else 'ok'}: {call}: {len(frames)} frames, {' <- '.join(frames)}; {len(indirect)} called through "
              f"pointers: {', '.join(indirect)}")
    print(f"{len(CALLS) - failed} passed, {failed} failed; at most {LIMIT} frames and {INDIRECT} calls through pointers")
    return 1 if failed else 0


sys.exit(main())

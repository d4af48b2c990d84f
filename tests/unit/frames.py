#!/usr/bin/env python3
"""Counts the stack frames from a public function to the loop that does its work, and the calls through pointers among them.

    frames.py --cc CC --cmake CMAKE --build FOLDER

Builds the library without optimisation, runs the calls of frames.c in gdb, and fails if there are more than FRAMES frames or POINTERS calls
through pointers (docs/design/call.md). Functions that are always inlined have no frame. Exit status 77: gdb cannot run programs here.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

FRAMES, POINTERS, SKIPPED = 6, 2, 77
CALLS = {"decode": ("gdn_gated_delta_net", "rows_decode_run"), "prefill": ("gdn_gated_delta_net", "pass_leaf"), "conv": ("gdn_ssm_conv", "conv_taps"),
         "rows": ("gdn_set_rows", "convert_row")}
IN_GDB = """
import gdb
class Loop(gdb.Breakpoint):
    def stop(self):
        frame, names, pointers, inner = gdb.newest_frame(), [], 0, None
        while frame and (not names or names[-1] != {public!r}):
            if frame.type() != gdb.INLINE_FRAME:
                if inner:
                    start = int(frame.function().value().address)
                    call = frame.architecture().disassemble(start, frame.pc() - 1)[-1]["asm"]
                    pointers += "*" in call or call.startswith("blr")
                inner = frame.name()
                names.append(inner)
            frame = frame.older()
        print("STOP", len(names), pointers, " <- ".join(names))
        return False
gdb.execute("set breakpoint pending on")
gdb.execute("set disable-randomization off")
Loop({loop!r})
gdb.execute("run")
"""


def output(command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    given = parser.parse_args()
    here, gdb, program = pathlib.Path(__file__).resolve().parent, shutil.which("gdb"), given.build / "frames"
    if not gdb or "exited normally" not in output([gdb, "-nx", "-batch", "-ex", "set disable-randomization off", "-ex", "python 1", "-ex", "run", "--args", "/bin/true"]):
        print("skipped: there is no gdb that can run programs")
        return SKIPPED
    parts = [f"-DGDN_{part}=OFF" for part in ("CUDA", "VULKAN", "METAL", "OPENMP", "BUILD_RUNTIME", "BUILD_TOOLS", "BUILD_TESTS", "BUILD_SHARED")]
    built = output([given.cmake, "-S", here.parents[1], "-B", given.build, "-DGDN_BUILD_STATIC=ON", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCMAKE_C_FLAGS_DEBUG=-O0 -g", f"-DCMAKE_C_COMPILER={given.cc}", *parts])
    built += output([given.cmake, "--build", given.build, "--target", "gdn_static"])
    built += output([given.cc, "-std=c11", "-g", "-I", here.parents[1] / "include", here / "frames.c", given.build / "libgdn.a", "-lm", "-lpthread", "-o", program])
    failed = 0
    for call, (public, loop) in CALLS.items():
        script = given.build / "frames_gdb.py"
        script.write_text(IN_GDB.format(public=public, loop=loop))
        said = output([gdb, "-nx", "-batch", "-x", script, "--args", program, call])
        stops = [line.split(" ", 3)[1:] for line in said.splitlines() if line.startswith("STOP ")]
        if not stops:
            print(f"{call} does not reach {loop}():\n{built[-2000:]}\n{said}")
            return 1
        frames, pointers, names = max(stops, key=lambda stop: int(stop[0]))
        failed += int(frames) > FRAMES or int(pointers) > POINTERS
        print(f"{call}: {frames} frames, {names}; {pointers} calls through pointers")
    print(f"at most {FRAMES} frames and {POINTERS} calls through pointers: {failed} calls have more")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

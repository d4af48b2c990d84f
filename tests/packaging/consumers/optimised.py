#!/usr/bin/env python3
"""libgdn inside a project without a build type, or that is debugged itself: its kernels are optimised, and no device's are built.

    optimised.py --cmake CMAKE --generator GENERATOR --cc CC

Configures tests/packaging/consumers/add_subdirectory in several ways and reads what the compiler would be called with.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# What the parent says, and the level that libgdn's files have in each configuration.
CASES = (
    ([], {"-O3"}),
    (["-DCMAKE_BUILD_TYPE=Debug"], {"-O3"}),
    (["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-g -Og"], {"-O3"}),
    (["-DCMAKE_BUILD_TYPE=Debug", "-DGDN_DEBUG_KERNELS=ON"], {"-O0"}),
    (["-DCMAKE_BUILD_TYPE=RelWithDebInfo"], {"-O2"}),
    (["-DCMAKE_BUILD_TYPE=MinSizeRel"], {"-Os"}),
    (["-DCMAKE_C_FLAGS=-O2 -g"], {"-O2"}),
    (["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS=-O2"], {"-O2"}),
    (["-G", "Ninja Multi-Config"], {"-O3", "-O2"}),  # Debug and Release; RelWithDebInfo
)


def levels(args, options):
    """The -O of every file of libgdn, and the devices' files among them."""
    with tempfile.TemporaryDirectory() as folder:
        generator = [] if "-G" in options else ["-G", args.generator]
        subprocess.run([args.cmake, "-S", HERE / "add_subdirectory", "-B", folder, f"-DGDN_SOURCE_DIR={ROOT}", f"-DCMAKE_C_COMPILER={args.cc}",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *generator, *options], stdout=subprocess.DEVNULL, check=True)
        commands = json.loads(pathlib.Path(folder, "compile_commands.json").read_text())
    files = {pathlib.Path(c["file"]).resolve(): [] for c in commands}
    for command in commands:
        found = re.findall(r"(?:^| )(-O\S*)", command["command"])
        files[pathlib.Path(command["file"]).resolve()].append(found[-1] if found else "-O0")
    made = pathlib.Path(folder, "gdn").resolve()  # where the build makes sources of its own
    own = {path.relative_to(made if made in path.parents else ROOT): have for path, have in files.items() if HERE not in path.parents}
    return own, [str(path) for path in own if path.parts[0] in ("cuda", "vulkan", "metal")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cmake", "generator", "cc"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    failed = 0
    for options, want in CASES:
        own, devices = levels(args, options)
        have = {level for of_file in own.values() for level in of_file}
        good = have == want and not devices and any(path.parts[0] == "cpu" for path in own)
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {' '.join(options) or 'no build type'}: {' '.join(sorted(have))} {' '.join(devices)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

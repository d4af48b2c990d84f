#!/usr/bin/env python3
"""What configuring libgdn does on machines that lack something, and in folders that were configured for something else.

    configure.py --cmake CMAKE --ctest CTEST --generator GENERATOR --cc CC

Every case configures in a temporary folder; nothing is compiled but CMake's own trials. A machine without a C++ compiler is one
whose CXX names a program that is not there; one without OpenMP is CMAKE_DISABLE_FIND_PACKAGE_OpenMP.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
NO_CXX = {"CXX": "/nonexistent/c++"}
NO_OPENMP = "-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON"
PLAIN = ["-S", ROOT, "-DGDN_CUDA=OFF", "-DGDN_VULKAN=OFF"]  # fast to configure
EMULATED = ["-DGDN_CUDA=ON", "-DGDN_CUDA_EMULATED=ON"]
failures = []


def expect(what, condition, said=""):
    print(("ok      " if condition else "FAILED  ") + what)
    if not condition:
        print(said)
        failures.append(what)


class Folder:
    def __init__(self, args, top, name):
        self.args, self.path = args, pathlib.Path(top, name)

    def configure(self, *arguments, env=()):
        """(did it work, what it said)"""
        clean = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "CFLAGS")}
        done = subprocess.run([self.args.cmake, "-G", self.args.generator, "-B", self.path, f"-DCMAKE_C_COMPILER={self.args.cc}", *arguments],
                              cwd=ROOT, env={**clean, **dict(env)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode == 0, re.sub(r"\s+", " ", done.stdout)

    def tests(self):
        done = subprocess.run([self.args.ctest, "--test-dir", self.path, "-N"], stdout=subprocess.PIPE, text=True, check=True)
        return re.findall(r"Test +#\d+: (\S+)", done.stdout)

    def cached(self, name):
        found = re.search(rf"^{name}:\w+=(.*)$", (self.path / "CMakeCache.txt").read_text(), flags=re.M)
        return found[1] if found else None


def openmp(folder):
    worked, said = folder("openmp").configure(*PLAIN, "-DGDN_OPENMP=AUTO", NO_OPENMP)
    expect("GDN_OPENMP=AUTO configures where there is no OpenMP", worked and "OpenMP OFF" in said, said)
    worked, said = folder("default").configure(*PLAIN, NO_OPENMP)
    expect("and so does the default", worked and "OpenMP OFF" in said, said)
    worked, said = folder("openmp").configure(*PLAIN, "-DGDN_OPENMP=ON", NO_OPENMP)
    expect("GDN_OPENMP=ON does not", not worked and "GDN_OPENMP is ON, but" in said, said)


def cxx(folder):
    here = folder("cxx")
    worked, said = here.configure(*PLAIN, env=NO_CXX)
    expect("without a C++ compiler the emulator's tests are left out, with a word",
           worked and "Without the SIMT emulator: no C++ compiler" in said and "simt.plain" not in here.tests(), said)
    worked, said = here.configure("-DGDN_TESTS_ALL=ON", env=NO_CXX)
    expect("GDN_TESTS_ALL fails instead", not worked and "GDN_TESTS_ALL is ON, but without the SIMT emulator" in said, said)
    worked, said = here.configure("-DGDN_TESTS_ALL=OFF", *EMULATED, env=NO_CXX)
    expect("so does an emulated backend", not worked and "there is no C++ compiler" in said, said)
    worked, said = here.configure()
    tests = here.tests() if worked else []
    expect("a compiler that came later is found in the same folder", "simt.plain" in tests and "cuda.robustness" in tests, said)


def emulated(folder):
    here = folder("emulated")
    worked, said = here.configure(*PLAIN, *EMULATED, "-DGDN_BUILD_TESTS=OFF")
    expect("an emulated backend without tests is refused", not worked and "are for the tests' emulator" in said, said)
    here = folder("poisoned")
    worked, said = here.configure("--preset", "test")
    expect("the preset test emulates", worked and here.cached("GDN_CUDA_EMULATED") == "ON", said)
    worked, said = here.configure("--preset", "release", "-DGDN_CUDA=OFF")
    values = [here.cached(f"GDN_{name}_EMULATED") for name in ("CUDA", "METAL")]
    expect("the preset release ends that, in the same folder", worked and values == ["OFF", "OFF"] and here.cached("GDN_METAL") == "AUTO", said)


def arithmetic(folder):
    if platform.machine() == "x86_64":
        worked, said = folder("x87").configure(*PLAIN, "-DCMAKE_C_FLAGS=-mfpmath=387")
        expect("arithmetic in wider registers is refused", not worked and "(FLT_EVAL_METHOD 0)" in said and "-mfpmath=sse" in said, said)


def folders():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    own = [preset["name"] for preset in presets if preset.get("binaryDir") == "${sourceDir}/build"]
    expect("build/ belongs to the preset release alone", own == ["release"], own)
    text = (ROOT / "scripts/test.sh").read_text()
    expect("scripts/test.sh does not touch build/", not re.search(r"^[^#\n]*([^\w-]build/|\bbuild release\b)", text, flags=re.M))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cmake", "ctest", "generator", "cc"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        for case in (openmp, cxx, emulated, arithmetic):
            case(lambda name: Folder(args, top, name))
    folders()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

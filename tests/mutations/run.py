#!/usr/bin/env python3
"""Plant mistakes in the code, one after another, and demand that a test notices each.

    run.py [LIST...] [--only TEXT] [--list] [--build FOLDER]

LIST is the name of a list in tests/mutations: library, oracle, runtime, cuda, metal, vulkan; library and runtime if none is given.
How a list is written: places.py, which also finds the places. A mistake whose place is not there exactly once is an error. The list
`refusals` is made from the code (refusals.py). All of it takes hours: --only core/, or the name of a file.

C and C++ are compiled once, in a temporary folder, with all mistakes of a list. A function with mistakes has its body once as
it is and once with each. The number in the environment's GDN_MISTAKE says which one runs. What does not lie in a function
is built alone, and so are all of shaders. Programs of a build of their own test library and runtime. Programs of --build (build-test)
test kernels of CUDA and Metal on a driver library with the mistakes, and shaders with a libgdn that has them.
With a mistake a run has to fail; every such run has to pass without one.
"""
import argparse
import concurrent.futures
import functools
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import places
import refusals
import trial

ROOT = places.ROOT
CHOICE = """#ifndef GDN_MISTAKE_CHOICE
#define GDN_MISTAKE_CHOICE
#ifdef __cplusplus
#include <stdlib.h>
#else /* a file may still define which functions the headers have */
extern char *getenv(const char *);
extern int atoi(const char *);
#endif
static int gdn_mistake;
__attribute__((constructor)) static void gdn_mistake_choose(void)
{
    const char *number = getenv("GDN_MISTAKE");
    gdn_mistake = number ? atoi(number) : 0;
}
#endif
"""


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"mutations: this does not work: {' '.join(map(str, command))[:300]}\n{(done.stdout + done.stderr)[-3000:]}")


def write(folder, tree):
    for path, text in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


# ---- The library and the runtime: programs of a build of their own ------------------------------------------------------
CHECK = ["gdn", "check", "--backend", "cpu", "--stop"]
PROGRAMS = { # a program with arguments; one that is not here has none, or the folder of the runtime's tests
    "fuzz_args": ["fuzz_args", "--random", "14000"],
    "fuzz_prefix_load": ["fuzz_prefix_load", "--random", "2000", "tests/fuzz/fuzz_prefix_load.seeds"],
    "gdn": [*CHECK, "--kernel", "gated_delta_net", "--case", "log/*"],
    "gdn_trees": [*CHECK, "--kernel", "gated_delta_net,ssm_conv", "--case", "tree*"],
    "gdn_state16": [*CHECK, "--kernel", "gated_delta_net", "--case", "state16/*"],
    "gdn_chunked": [*CHECK, "--kernel", "gated_delta_net", "--case", "chunked/*"],
    "gdn_mode": [*CHECK, "--kernel", "gated_delta_net", "--case", "mode/*"],
    "gdn_far": [*CHECK, "--kernel", "gated_delta_net", "--case", "far/*"],
    "gdn_flush": [*CHECK, "--level", "exact_ftz", "--quick"],
    "test_accuracy": ["test_accuracy", "tests/golden"],
    "test_rt_engine_random": ["test_rt_engine_random", "tests/runtime", "1600"],
    "test_rt_engine_prefixes": ["test_rt_engine_random", "tests/runtime", "1500", "1", "prefixes"],
    "test_rt_engine_chunked": ["test_rt_engine_random", "tests/runtime", "1500", "1", "chunked"],
    "long_sequences": ["test_vulkan", "long-sequences"],
    "missing_loader": ["test_vulkan", "missing-loader"],
    "test_rt_conversation": ["test_rt_conversation", "tests/runtime", "30"],
}
SCRIPTS = { # in Python, with the program that they test and further arguments
    "test_names": ["test_rt_answers"], "test_variants": ["test_rt_answers", "tests/runtime"],
    "test_chat_text": ["test_rt_answers", "tests/runtime"], "test_talk": ["gdn", "tests/runtime"],
    "test_run_ends": ["gdn", "tests/runtime"], "test_perplexity": ["gdn", "tests/runtime"],
    "test_draft_model": ["gdn", "tests/runtime"], "test_form": ["gdn", "tests/runtime", "--brief"], "judge": ["gdn", "--quick"],
    "test_prefix_file": ["gdn", "tests/runtime"], "test_json_schema": ["gdn", "tests/runtime", "--brief"], "test_files": ["gdn", "tests/runtime", "build/bin/test_rt_answers"],
}


class Host:
    signs = "ERROR|FAILED:|FAIL |fuzz_args:|driver:|error:|: expected "
    backends = "-DGDN_BUILD_SHARED=OFF", "-DGDN_CUDA=OFF", "-DGDN_METAL=OFF", "-DGDN_VULKAN=OFF"

    def __init__(self, args, mistakes):
        self.tree = places.read_tree({mistake.folder for mistake in mistakes})
        words = itertools.chain.from_iterable(self.program(one) for mistake in mistakes for one in mistake.tries())
        self.targets = sorted({word.removeprefix("build/bin/") for word in words if re.match(r"gdn$|test_|fuzz_|build/bin/", word)})
        self.building = threading.Lock()

    def program(self, mistake):
        name = mistake.noticed_by
        return SCRIPTS.get(name) or PROGRAMS.get(name) or [name, "tests/runtime"][:2 if name.startswith("test_rt_") else 1]

    def make(self, folder, tree):
        for name in os.listdir(ROOT):
            if (ROOT / name / "CMakeLists.txt").exists() or not name.startswith((".", "build", "release")):
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
                copy(ROOT / name, folder / name)
        write(folder, {**tree, "choice.h": CHOICE})
        flags = f"-O1 -w -include {folder}/choice.h"
        run(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=", f"-DCMAKE_C_FLAGS={flags}",
             "-DGDN_INSTALL=OFF", *self.backends])
        self.build(folder)
        self.folder = folder
        return folder

    def build(self, folder):
        run(["cmake", "--build", folder / "build", "--target", *("gdn_tool" if name == "gdn" else name for name in self.targets)])

    def alone(self, top, number, path, text):
        """In the build of all: its tree is compiled again where the mistake lies."""
        before = (self.folder / path).read_text()
        write(self.folder, {path: text})
        self.build(self.folder)
        return lambda: (write(self.folder, {path: before}), self.build(self.folder))

    def command(self, folder, mistake, found):
        program, *rest = self.program(mistake)
        script = [sys.executable, *ROOT.glob(f"tests/*/{mistake.noticed_by}.py")] if mistake.noticed_by in SCRIPTS else []
        return [*script, f"{self.folder}/build/bin/{program}", *rest], {}, self.folder


class Refusals(Host):
    """With devices, CUDA and Metal on their emulators. Metal only for its own refusals: others need a backend that is not built."""

    def __init__(self, args, mistakes):
        super().__init__(args, mistakes)
        metal = "ON" if any(mistake.folder == "metal" for mistake in mistakes) else "OFF"
        self.backends = ("-DGDN_CUDA=ON", "-DGDN_CUDA_EMULATED=ON", "-DGDN_VULKAN=ON", f"-DGDN_METAL={metal}", f"-DGDN_METAL_EMULATED={metal}")


# ---- CUDA and Metal: a driver library for the programs of a build -------------------------------------------------------
class Emulated:
    # Without optimisation, which is most of a compilation.
    flags = ("-std=c++17 -O0 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti "
             "-fno-threadsafe-statics -fno-strict-aliasing -fvisibility=hidden -DSIMT_CALLS -w").split()
    signs = "simt:|metal:|differ|returned|FAILED|error"
    kernels = ("gated_delta_net", "set_rows", "ssm_conv")
    more = {"cuda": ("chunked",), "metal": ()} # sources beside those of the kernels' names
    random = {"cuda": (12, 100, 100), "metal": (12, 60, 40)} # cases of each kernel that notice every mistake

    def __init__(self, args, mistakes, backend):
        self.backend, self.build = backend, args.build
        self.suffix, self.library = {"cuda": (".cu", "libcuda.so.1"), "metal": (".metal", "libgdn-metal-emulated.so")}[backend]
        self.tree = places.read_tree([backend, "call", "gpu", "numerics"])
        cache = (args.build / "CMakeCache.txt").read_text()
        self.cxx = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, flags=re.M)[1]
        emulator = {"cuda": "gdn_simt_objects", "metal": "gdn_metal_fake_objects"}[backend]
        self.objects = list((args.build / f"tests/CMakeFiles/{emulator}.dir").rglob("*.o"))

    def make(self, folder, tree):
        write(folder, {**tree, "choice.h": CHOICE})
        machine = [] if os.uname().machine != "x86_64" or " fma " not in pathlib.Path("/proc/cpuinfo").read_text() else ["-mfma"]

        def compile_one(name):
            # The probe has no mistakes: with one in the arithmetic a device is not exact, and no case is run on it.
            source = (ROOT if name == "probe" else folder) / self.backend / (name + self.suffix)
            mine = [] if name == "probe" else ["-include", folder / "choice.h", f"-I{folder}"]
            run([self.cxx, *self.flags, *machine, *mine, f"-I{ROOT}", f"-I{ROOT}/include", "-x", "c++", "-include",
                 f"{ROOT}/tests/emulator/{self.backend}_shim.h", "-c", source, "-o", folder / f"{name}.o"])
            return folder / f"{name}.o"

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, (*self.kernels, *self.more[self.backend], "probe")))
        run([self.cxx, "-shared", f"-Wl,-soname,{self.library}", "-o", folder / self.library, *objects, *self.objects, "-lpthread", "-lm"])
        self.folder = folder
        return folder

    def command(self, folder, mistake, found):
        if mistake.noticed_by in self.kernels:
            cases = mistake.arguments or ["--quick", "--cases", str(self.random[self.backend][self.kernels.index(mistake.noticed_by)])]
            if found and found.case:
                cases = ["--seed", found.case[1], "--case", found.case[2]]
            command = [self.build / "bin/gdn", "check", "--stop", "--backend", self.backend, "--kernel", mistake.noticed_by, *cases]
        else:
            command = [self.build / f"bin/test_{self.backend}", " ".join(mistake.arguments)]
        # The check has to notice, and not the self-test, unless that is what is tested.
        known = {} if "default" in command else {"GDN_KNOWN_ANSWERS": "off"}
        return command, {"LD_LIBRARY_PATH": folder, "GDN_SIMT_SEED": "1", **known}, ROOT


# ---- Vulkan: a libgdn for each, since a shader cannot choose -----------------------------------------------------------
class Shaders:
    signs = "differ|returned|FAILED|error"
    defines = {"soft": "-DGDN_SOFT_FMA", "subgroup": "-DGDN_SUBGROUP", "16": "-DGDN_STORAGE_16", "general": "-DGDN_GENERAL"}

    def __init__(self, args, mistakes):
        self.build, self.tree = args.build, places.read_tree(["vulkan", "gpu", "numerics"])
        cache = (args.build / "CMakeCache.txt").read_text()
        self.glslc, self.cc, self.headers = (re.search(rf"^{name}:\w+=(.*)$", cache, flags=re.M)[1]
                                             for name in ("GDN_GLSLC", "CMAKE_C_COMPILER", "GDN_VULKAN_INCLUDE"))
        self.objects = [path for path in (args.build / "CMakeFiles/gdn_objects.dir").rglob("*.o") if path.name != "shaders.c.o"]
        info = subprocess.run([args.build / "bin/gdn", "info"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"^vulkan +available\n +0: (.*)\n +(\S+) +exact(?:, exact_ftz)?$", info, flags=re.M)
        if not found:
            print("skipped: no device with an exact implementation")
            sys.exit(77)
        self.best, self.flush = found[2], next((args.build / "tests").glob("libgdn_vulkan_flush.*"), None)
        if not self.flush or "llvmpipe" not in found[1]: # nothing makes another device flush
            mistakes[:] = [mistake for mistake in mistakes if "exact_ftz" not in mistake.arguments]

    def make(self, folder, tree):
        """Of the shaders, those that the implementation uses are made anew."""
        write(folder, {**{f"vulkan/{path.name}": path.read_text() for path in (ROOT / "vulkan").glob("*.h")}, **tree})
        used = {"soft" if self.best.startswith("soft") else "fma", "shared" if self.best.endswith("-shared") else "subgroup", "16"}
        for path in (self.build / "vulkan").glob("*.inc"):
            words = path.stem[len("gated_delta_net"):].split("_")
            if path.name.startswith("gated_delta_net") and used <= set(words):
                run([self.glslc, "--target-env=vulkan1.2", "-O0", f"-I{folder}", f"-I{ROOT}", *(self.defines[w] for w in words if w in self.defines),
                     "-mfmt=c", folder / "vulkan/gated_delta_net.comp", "-o", folder / path.name])
            else:
                shutil.copyfile(path, folder / path.name)
        run([self.cc, "-std=c11", "-O0", "-fPIC", f"-I{ROOT}", f"-I{ROOT}/include", f"-I{self.headers}", f"-I{folder}", "-c",
             ROOT / "vulkan/shaders.c", "-o", folder / "shaders.o"])
        run([self.cc, "-shared", "-Wl,-soname,libgdn.so.0", f"-Wl,--version-script={self.build}/gdn.map", "-o", folder / "libgdn.so.0",
             *self.objects, folder / "shaders.o", "-lpthread", "-lm", "-ldl"])
        return folder

    def command(self, folder, mistake, found):
        """Of a mistake's arguments, those with NAME=VALUE are for the environment."""
        command = [self.build / "bin/gdn", "check", "--stop", "--backend", "vulkan", "--impl", self.best, "--kernel", mistake.noticed_by,
                   *(word for word in mistake.arguments if "=" not in word)]
        env = dict(word.split("=") for word in mistake.arguments if "=" in word)
        if "exact_ftz" in command:
            env |= {"LD_PRELOAD": self.flush, "GDN_TEST_FLUSH": "1"}
        return command, {**env, "LD_LIBRARY_PATH": folder, "GDN_KNOWN_ANSWERS": "off"}, ROOT


# ---- All mistakes at once -------------------------------------------------------------------------------------------------
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


def attempt(way, folder, mistake, number, found=None):
    command, env, cwd = way.command(folder, mistake, found)
    env = {**os.environ, **{name: str(value) for name, value in env.items()}, "GDN_MISTAKE": str(number)}
    return trial.run([str(word) for word in command], way.signs, env=env, cwd=cwd)


def try_list(name, mistakes, way, top):
    """How many mistakes are missed."""
    begin, missed = time.time(), 0
    changed, alone = (way.tree, list(range(1, len(mistakes) + 1))) if isinstance(way, Shaders) else plant_all(way.tree, mistakes)
    together = way.make(top / "all", changed)
    print(f"{name}: {len(mistakes)} mistakes, built in {time.time() - begin:.0f} s", flush=True)

    def one(number):
        mistake = mistakes[number - 1]
        if number not in alone:
            for mistake in mistakes[number - 1].tries():
                found = attempt(way, together, mistake, number)
                if found.noticed():
                    break
            return mistake, found
        path, text = mistake.plant(way.tree)
        if isinstance(way, Host):
            return None
        folder = way.make(top / str(number), {**way.tree, path: text})
        found = attempt(way, folder, mistake, number)
        shutil.rmtree(folder)
        return mistake, found

    def sound(wanted):
        """Each command has to pass without a mistake."""
        runs = {tuple(map(str, [*command, *sorted(env)])): one for one in wanted for command, env, _ in [way.command(together, *one)]}
        new = [(key, one) for key, one in runs.items() if key not in passed]
        for (key, (mistake, _)), found in zip(new, pool.map(lambda run: attempt(way, together, run[1][0], 0, run[1][1]), new)):
            if found.noticed():
                sys.exit(f"mutations: without any mistake this fails: {mistake.noticed_by}, {found.status} {found.said}")
            passed.add(key)

    def tell(mistake, found):
        nonlocal missed
        missed += not found.noticed()
        noticed.append((mistake, found))
        case = f" {found.case[2]}" if found.case else ""
        said = f": {found.said}" if found.said else ""
        print(f"{'noticed' if found.noticed() else 'MISSED '} {mistake.noticed_by + case:40} {mistake.what}{said}", flush=True)

    passed, noticed = set(), []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sound((tried, None) for mistake in mistakes for tried in mistake.tries())
        for found in pool.map(one, range(1, len(mistakes) + 1)):
            if found:
                tell(*found)
        for number in alone if isinstance(way, Host) else ():
            undo = way.alone(top, number, *mistakes[number - 1].plant(changed))
            tell(mistakes[number - 1], attempt(way, together, mistakes[number - 1], 0))
            undo()
        sound(noticed) # the cases that noticed one
    print(f"{name}: {len(mistakes) - missed} of {len(mistakes)} mistakes noticed in {time.time() - begin:.0f} s, {len(passed)} runs pass without")
    return missed


WAYS = {"library": Host, "oracle": Host, "runtime": Host, "refusals": Refusals,
        "cuda": functools.partial(Emulated, backend="cuda"),
        "metal": functools.partial(Emulated, backend="metal"), "vulkan": Shaders}


def read(name):
    return refusals.read_refusals() if name == "refusals" else places.read_list(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", metavar="LIST", nargs="*", help=", ".join(WAYS))
    parser.add_argument("--only", metavar="TEXT", default="", help="mistakes whose description contains TEXT")
    parser.add_argument("--list", action="store_true", help="print what the mistakes are, and plant none")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path, default=ROOT / "build-test", help="for cuda, metal, vulkan")
    args = parser.parse_args()
    for name in args.lists:
        if name not in WAYS:
            parser.error(f"there is no list '{name}'; there are {', '.join(WAYS)}")
    wanted = {name: [mistake for mistake in read(name) if args.only in mistake.what] for name in args.lists or ("library", "runtime")}
    if args.list:
        for mistake in itertools.chain.from_iterable(wanted.values()):
            print(f"{mistake.tries()[0].noticed_by:23} {mistake.folder + ' ' + mistake.function:35} {mistake.what}")
        return 0
    if not any(wanted.values()):
        parser.error(f"no description contains '{args.only}'; see --list")
    missed = 0
    for name, mistakes in wanted.items():
        if mistakes:
            with tempfile.TemporaryDirectory() as top:
                missed += try_list(name, mistakes, WAYS[name](args, mistakes), pathlib.Path(top))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

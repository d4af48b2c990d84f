#!/usr/bin/env python3
"""Break the library on purpose, one mistake after another, and demand that the tests notice each.

    mutations.py            all of them
    mutations.py --list     what they are
    mutations.py --verify   has each its place in the code, and those of the kernels? As places.py does; builds nothing
    mutations.py TEXT...    those whose description contains a TEXT

Works in a copy of the tree, in a temporary folder. Every mistake of the lists names the program that has to fail;
one whose place in the code is not there exactly once is an error, so that none silently goes missing. The programs
have to pass before and after.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import places  # noqa: E402
import trial  # noqa: E402

PROGRAMS = {"test_api": [], "test_alloc": [], "test_float_env": [], "test_validation": [], "test_forms": [],
            "fuzz_args": ["--random", "12000"], "test_rt_tokenizer": ["tests/runtime"],
            "test_rt_scheduler": ["tests/runtime"], "test_rt_drafts": ["tests/runtime"], "test_rt_choices": [],
            "test_edges_pool": [], "test_rt_prefix_cache": ["tests/runtime"], "test_rt_attention": [], "test_rt_experts": [],
            "test_rt_conversation": ["tests/runtime"], "test_rt_engine_random": ["tests/runtime", "1600"], "test_rt_trees": ["tests/runtime"],
            "gdn": ["check", "--backend", "cpu", "--kernel", "gated_delta_net", "--case", "log/*", "--stop"],
            "gdn_trees": ["check", "--backend", "cpu", "--kernel", "gated_delta_net,ssm_conv", "--case", "tree/*", "--stop"],
            "gdn_state16": ["check", "--backend", "cpu", "--kernel", "gated_delta_net", "--case", "state16/*", "--stop"],
            "gdn_flush": ["check", "--backend", "cpu", "--level", "exact_ftz", "--quick", "--stop"], "test_flush": []}
TARGETS = {"gdn": "gdn_tool", "gdn_trees": "gdn_tool", "gdn_state16": "gdn_tool", "gdn_flush": "gdn_tool"} # of programs that are named otherwise than what builds them
FILES = {"gdn_trees": "gdn", "gdn_state16": "gdn", "gdn_flush": "gdn"} # and of those that are another one with other arguments
# Tests in Python, with the program that they are of and what follows its path.
SCRIPTS = {"test_names": ("test_rt_logits", []), "test_variants": ("test_rt_logits", ["tests/runtime"]),
           "test_run_ends": ("gdn_tool", ["tests/runtime"]),
           "test_chat_text": ("test_rt_chat_text", ["tests/runtime"]), "test_talk": ("gdn_tool", ["tests/runtime"])}
LISTS = tuple(f"tests/mutations/mistakes{part}.txt" for part in ("", "_runtime", "_scheduler", "_prefix", "_chat"))
TREE = ("CMakeLists.txt", "bench", "cmake", "core", "cpu", "docs", "examples", "include", "models", "numerics", "reference",
        "runtime", "simd", "tests", "threads", "tools", "LICENSE")


def build(tree, program):
    program = SCRIPTS[program][0] if program in SCRIPTS else TARGETS.get(program, program)
    done = subprocess.run(["cmake", "--build", tree / "build", "--target", program, "--parallel", str(os.cpu_count())],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-3000:] + done.stderr[-3000:])
        sys.exit("mutations: this does not compile")


def run(tree, program):
    """Status of the program, and the first line that says what is wrong."""
    built = tree / "build" / "bin"
    if program in SCRIPTS:
        target, rest = SCRIPTS[program]
        command = [sys.executable, f"tests/runtime/{program}.py", built / ("gdn" if target == "gdn_tool" else target), *rest]
    else:
        command = [built / FILES.get(program, program), *PROGRAMS[program]]
    done = trial.run(command, "ERROR|FAILED:|FAIL |fuzz_args:|driver:|error:", cwd=tree)
    return done.status, done.said


def main(arguments):
    if "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return 0
    if arguments == ["--verify"]:
        return places.main(arguments)
    wanted = [m for name in LISTS for m in places.read_list(name)
              if not arguments or arguments == ["--list"] or any(text in m.what for text in arguments)]
    if arguments == ["--list"]:
        for mistake in wanted:
            print(f"{mistake.noticed_by:23} {mistake.folder + ' ' + mistake.function:35} {mistake.what}")
        return 0
    if not wanted:
        sys.exit("mutations: there is no such mistake; see --list")
    begin = time.time()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for name in TREE:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, tree / name)
        subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-DCMAKE_BUILD_TYPE=", "-DCMAKE_C_FLAGS=-O1", "-DGDN_CMOCKA=ON",
                        "-DGDN_BUILD_SHARED=OFF", "-DGDN_INSTALL=OFF"], check=True, stdout=subprocess.DEVNULL)

        def all_pass(when):
            for program in sorted({mistake.noticed_by for mistake in wanted}):
                build(tree, program)
                status, said = run(tree, program)
                if status:
                    sys.exit(f"mutations: {program} fails {when} any mistake: {said}")

        all_pass("before")
        sources = places.read_tree({mistake.folder for mistake in wanted})
        for mistake in wanted:
            path, text = mistake.plant(sources)
            (tree / path).write_text(text)
            build(tree, mistake.noticed_by)
            status, said = run(tree, mistake.noticed_by)
            (tree / path).write_text(sources[path])
            missed += status == 0
            verdict = "MISSED" if status == 0 else "noticed"
            print(f"{verdict} {mistake.noticed_by:15} {mistake.what}{': ' + said if said else ''}", flush=True)
        all_pass("after")
    print(f"{len(wanted) - missed} of {len(wanted)} mistakes noticed in {time.time() - begin:.0f} s")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))

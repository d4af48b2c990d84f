#!/usr/bin/env python3
"""The tests that there must be: tests/list.txt against what ctest knows of a build, so that none goes missing unnoticed.

    list.py check PRESET            the tests of build-PRESET are those of the list
    list.py count PRESET [LABEL [NOT-LABEL]] [--full]
                                    how many of PRESET's have a label that LABEL, and none that NOT-LABEL, a regular expression,
                                    is found in: what `ctest -L LABEL -LE NOT-LABEL` has to run. Without --full only those of
                                    the tier that every change runs
    list.py only-full               a regular expression of the names that `scripts/test.sh --full` alone runs
    list.py update PRESET...        configures these presets and writes what they have into the list

A line of the list is a test's name, its labels, the presets that have it, and `full` where only `scripts/test.sh --full` runs it.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/list.txt"
PRESETS = ("test", "asan", "arm64-qemu")
# The labels that a stage of scripts/test.sh runs; `lint` and `check` it runs as commands.
RUN = {"unit", "golden", "check", "vulkan", "runtime", "cuda", "metal", "install", "configure", "abi", "lint"}
MORE = {"simt", "long", "example"} # beside one of those; `long` is left out of --quick


def read():
    """{(name, labels): set of presets}"""
    tests = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, labels, presets, *_ = line.split()
            tests.setdefault((name, labels), set()).update(presets.split(","))
    return tests


def only_full():
    """Names of the tests of the full tier."""
    return sorted({line.split()[0] for line in LIST.read_text().splitlines() if not line.startswith("#") and line.split()[3:] == ["full"]})


def of_preset(tests, preset):
    return {key for key, presets in tests.items() if preset in presets}


def of_build(preset):
    done = subprocess.run(["ctest", "--test-dir", ROOT / f"build-{preset}", "--show-only=json-v1"], stdout=subprocess.PIPE, check=True)
    found = set()
    for test in json.loads(done.stdout)["tests"]:
        labels = [p["value"] for p in test.get("properties", ()) if p["name"] == "LABELS"]
        found.add((test["name"], ",".join(sorted(labels[0])) if labels else "-"))
    return found


def count(tests, label=".", without="(?!)"):
    def any_of(pattern, labels):
        return any(re.search(pattern, one) for one in labels.split(","))

    return sum(any_of(label, labels) and not any_of(without, labels) for _, labels in tests)


def check(preset):
    want, have = of_preset(read(), preset), of_build(preset)
    for word, keys in (("is missing", want - have), ("is not in tests/list.txt", have - want)):
        for name, labels in sorted(keys):
            print(f"list: {name} ({labels}) {word}")
    lost = [f"{name} ({labels})" for name, labels in sorted(have) if not set(labels.split(",")) & RUN or set(labels.split(",")) - RUN - MORE]
    if lost:
        print(f"list: no stage of scripts/test.sh runs these, or they have an unknown label: {', '.join(lost)}")
        return 1
    if want != have:
        print(f"list: the tests of the preset {preset} are not those of tests/list.txt; if that is meant: python3 tests/list.py update {preset}")
        return 1
    print(f"{len(have)} tests in the preset {preset}, as listed")
    return 0


def update(presets):
    tests = read()
    for preset in presets:
        subprocess.run(["cmake", "--preset", preset], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        have = of_build(preset)
        for key, known in tests.items():
            known.discard(preset)
        for key in have:
            tests.setdefault(key, set()).add(preset)
    full = only_full()
    comments = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name:32} {labels:16} {','.join(p for p in PRESETS if p in known):24} {'full' if name in full else ''}".rstrip() for (name, labels), known in sorted(tests.items()) if known]
    LIST.write_text("\n".join(comments + lines) + "\n")
    return 0


def main(arguments):
    if not arguments or arguments[0] in ("--help", "-h"):
        print(__doc__)
        return 0
    if arguments == ["only-full"]:
        print("^(" + "|".join(re.escape(name) for name in only_full()) + ")$")
        return 0
    whole = "--full" in arguments
    what, *rest = [argument for argument in arguments if argument != "--full"]
    if not rest or any(p not in PRESETS for p in (rest if what == "update" else rest[:1])) or what not in ("check", "count", "update"):
        sys.exit(f"list: check, count or update, then {' or '.join(PRESETS)}; see --help")
    if what == "count":
        print(count({key for key in of_preset(read(), rest[0]) if whole or key[0] not in only_full()}, *rest[1:3]))
        return 0
    return check(rest[0]) if what == "check" else update(rest)


if __name__ == "__main__":
    os.environ.setdefault("CMAKE_GENERATOR", "Ninja")
    sys.exit(main(sys.argv[1:]))

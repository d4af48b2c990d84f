#!/usr/bin/env python3
"""The binary interface, held against what is stored next to this script.

    abi.py exports --library libgdn.so      what the shared library exports and what it needs
    abi.py layout  [--cc CC] [--run CMD]    sizes and offsets of structs, values of constants, signatures
    abi.py diff    [--cc CC]                abidiff of a debug build against the stored description
    abi.py update  [--cc CC]                store the present interface as the new one
    abi.py first                            store the present headers as those of the first release, in first/; only before that
                                            release. Later, what is new is added there by hand, and nothing in it changes.

exports.txt and layout.txt are for readers and hold for every 64-bit target; libgdn-x86_64.abi is abidw's.
Exit status: 0 the same, 1 different, 2 wrong use, 77 a tool is missing.
"""
import argparse
import difflib
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include"
BASELINE = HERE / "libgdn-x86_64.abi"
NEEDED = re.compile(r"^(libc|libm|libgomp|ld-linux[-\w]*)\.so\.\d+$")
UPDATE = """
If the change is meant: does it keep programs working that were built before? Structs grow at their end only,
constants and functions keep their values and meaning. If it does not, GDN_ABI_VERSION must grow. Then run
    python3 tests/abi/abi.py update
read its diff, and add the change to CHANGELOG.md."""


class Different(Exception):
    pass


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, **options)
    if done.returncode:
        raise Different(f"{shlex.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# ---- The headers, read as text --------------------------------------------------------------------------------

def headers():
    return sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.glob("gdn/*.h"))


def header_text():
    text = "\n".join((INCLUDE / name).read_text() for name in headers())
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"//[^\n]*", " ", text)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def functions():
    """name -> declaration, of everything marked GDN_API."""
    found = {}
    for text in re.findall(r"^GDN_API\s+([^;]+);", header_text(), flags=re.M):
        name = re.search(r"(\w+)\s*\(", text).group(1)
        found[name] = re.sub(r"\s*((?:\*\s*)+)", lambda m: " " + "*" * m[1].count("*"), one_line(text))
    return found


def structs():
    """name -> members, of every struct with a body."""
    found = {}
    for name, body, alias in re.findall(r"typedef struct (\w+)\s*\{(.*?)\}\s*(\w+)\s*;", header_text(), flags=re.S):
        if name != alias:
            raise Different(f"struct {name} has the other name {alias}")
        members = []
        for statement in filter(None, map(one_line, body.split(";"))):
            for declarator in statement.split(","):
                members.append(re.search(r"(\w+)\s*(\[[^\]]*\])*\s*$", declarator).group(1))
        found[name] = members
    return found


def constants():
    found = [name for body in re.findall(r"\benum\s*\{(.*?)\}", header_text(), flags=re.S)
             for name in re.findall(r"\b(GDN_\w+)\s*=", body)]
    return found + re.findall(r"^#define\s+(GDN_(?:NAME|REASON)_MAX|GDN_ABI_VERSION)\b", header_text(), flags=re.M)


# ---- What is compared -----------------------------------------------------------------------------------------

def layout_program():
    """A C program that prints the layout as this compiler sees it."""
    lines = ["#include <stdio.h>", "#include <stddef.h>", *(f"#include <{name}>" for name in headers()),
             "#define ENTIRE(t) printf(\"struct %s: size %u, alignment %u\\n\", #t, (unsigned)sizeof(t), "
             "(unsigned)_Alignof(t));",
             "#define MEMBER(t, m) printf(\"  %4u %4u  %s\\n\", (unsigned)offsetof(t, m), "
             "(unsigned)sizeof(((t *)0)->m), #m);",
             "#define VALUE(c) printf(\"%s = %ld\\n\", #c, (long)(c));",
             "int main(void) {"]
    lines.append('puts("# struct, then: offset, size, member");')
    for name, members in structs().items():
        lines.append(f"ENTIRE({name})")
        lines += [f"MEMBER({name}, {member})" for member in members]
    lines.append('puts("\\n# constants");')
    lines += [f"VALUE({name})" for name in constants()]
    return "\n".join(lines + ["return 0; }", ""])


def layout(cc, emulator):
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "layout.c"), pathlib.Path(folder, "layout")
        source.write_text(layout_program())
        run(*shlex.split(cc), "-std=c11", "-I", INCLUDE, source, "-o", program)
        text = run(*shlex.split(emulator), program)
    signatures = "\n".join(sorted(functions().values()))
    return f"{text}\n# functions\n{signatures}\n"


def exports_text():
    return "\n".join(sorted(functions())) + "\n"


def compare(path, new):
    old = path.read_text() if path.exists() else ""
    if old != new:
        diff = difflib.unified_diff(old.splitlines(), new.splitlines(), "stored", "present", lineterm="", n=2)
        raise Different(f"The interface is not the one stored in {path.relative_to(ROOT)}:\n"
                        + "\n".join(diff) + "\n" + UPDATE)


def check_same_set(what, have, want):
    if set(have) != set(want):
        raise Different(f"{what}: too much {sorted(set(have) - set(want))}, missing {sorted(set(want) - set(have))}")


def check_exports(library):
    public = set(functions())
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    exported = [fields[-1].split("@")[0] for fields in symbols if fields[-2] != "A"]  # A: the version node
    check_same_set(f"{library} against the headers", exported, public)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", "-W", library))
    wrong = [name for name in needed if not NEEDED.match(name)]
    if wrong:
        raise Different(f"{library} needs {wrong}; it may need libc, libm and libgomp only")
    compare(HERE / "exports.txt", exports_text())
    print(f"{len(exported)} functions exported, needs {', '.join(needed)}")


def check_ends(text):
    """A struct that ends in padding would get its next member there, where older callers have anything."""
    for name, body in re.findall(r"^struct (.*)\n((?:  .*\n)+)", text, flags=re.M):
        offset, size = map(int, body.splitlines()[-1].split()[:2])
        if f" size {offset + size}," not in name:
            raise Different(f"struct {name}, ends in padding: its last member ends at {offset + size}. Fill it with reserved members.")


def store_first():
    """Without the comments: first/ is no documentation."""
    for name in headers():
        text = re.sub(r"/\*.*?\*/", "", (INCLUDE / name).read_text(), flags=re.S)
        text = re.sub(r"\s*\n(\s*\n)+", "\n", re.sub(r"[ \t]+$", "", text, flags=re.M)).lstrip()
        target = HERE / "first" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("/* As first released: see tests/abi/growth.c. */\n" + text)


# ---- abidiff ------------------------------------------------------------------------------------------------------

def describe(cc, folder, target):
    """Build the shared library with debug information and let abidw describe it."""
    build = pathlib.Path(folder, "build")
    # Without CUDA's kernels, which take nvcc minutes and are no part of the interface.
    run("cmake", "-S", ROOT, "-B", build, f"-DCMAKE_C_COMPILER={cc}", "-DCMAKE_BUILD_TYPE=Debug", "-DGDN_CUDA=OFF",
        "-DGDN_BUILD_STATIC=OFF", "-DGDN_BUILD_TOOLS=OFF", "-DGDN_BUILD_TESTS=OFF",
        f"-DCMAKE_C_FLAGS=-O0 -ffile-prefix-map={ROOT}=.")
    run("cmake", "--build", build, "--parallel", "2")
    run("abidw", "--headers-dir", INCLUDE, "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
        "--drop-private-types", "--out-file", target, build / "libgdn.so")


def check_diff(cc):
    missing = [tool for tool in ("abidw", "abidiff", "cmake") if not shutil.which(tool)]
    if missing or platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        print(f"SKIPPED: {'needs ' + ', '.join(missing) if missing else 'the description is of x86_64 Linux'}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        present = pathlib.Path(folder, "present.abi")
        describe(cc, folder, present)
        done = subprocess.run(["abidiff", "--no-corpus-path", BASELINE, present], text=True, capture_output=True)
    if done.returncode:
        raise Different(f"abidiff finds changes:\n{done.stdout}{done.stderr}\n{UPDATE}")
    print("abidiff finds no change")
    return 0


def update(cc):
    (HERE / "exports.txt").write_text(exports_text())
    (HERE / "layout.txt").write_text(layout(cc, ""))
    if shutil.which("abidw") and platform.machine() == "x86_64":
        with tempfile.TemporaryDirectory() as folder:
            describe(cc, folder, BASELINE)
    else:
        print("abidw is missing: libgdn-x86_64.abi is left as it was")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exports", "layout", "diff", "update", "first"))
    parser.add_argument("--library", help="the shared library to look into")
    parser.add_argument("--cc", default="cc", help="C compiler")
    parser.add_argument("--run", default="", help="what runs the compiler's programs, for cross builds")
    args = parser.parse_args()
    try:
        if args.what == "exports":
            if not args.library:
                parser.error("exports needs --library")
            check_exports(args.library)
        elif args.what == "layout":
            present = layout(args.cc, args.run)
            check_ends(present)
            compare(HERE / "layout.txt", present)
            print(f"{len(structs())} structs, {len(constants())} constants, {len(functions())} functions as stored")
        elif args.what == "diff":
            return check_diff(args.cc)
        elif args.what == "first":
            store_first()
        else:
            update(args.cc)
    except Different as difference:
        print(difference)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

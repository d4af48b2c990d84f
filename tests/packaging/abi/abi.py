#!/usr/bin/env python3
"""The binary interface: what the library exports, and that programs built against 0.1.0's headers keep working.

    abi.py exports --library libgdn.so      the shared library exports what the headers declare, and needs libc and libm only
    abi.py base [--cc CC] [--run CMD]       the present headers keep what 0.1.0.txt has
    abi.py write [--cc CC]                  write 0.1.0.txt where there is none

The rule: a struct that begins with `size` grows at its end only, and other structs do not change; constants keep their
values, functions their signatures. 0.1.0.txt has sizes and offsets of every 64-bit target.
Exit status: 0 kept, 1 not kept, 2 wrong use.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"
BASE = HERE / "0.1.0.txt"
NEEDED = re.compile(r"^(libc|libm|libgomp|ld-linux[-\w]*)\.so\.\d+$")


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


def parts(text):
    """The structs of a layout, name -> (size, lines of members), and its other lines."""
    found, rest = {}, []
    for line in text.splitlines():
        if line.startswith("struct "):
            name, size = re.match(r"struct (\w+): size (\d+)", line).groups()
            members = found[name] = []
            found[name] = (int(size), members)
        elif line.startswith("  "):
            members.append(line)
        elif line and not line.startswith("#"):
            rest.append(line)
    return found, rest


def check_base(present_text):
    (old, old_rest), (new, new_rest) = parts(BASE.read_text()), parts(present_text)
    wrong = [f"gone or changed: {line}" for line in old_rest if line not in new_rest]
    for name, (size, members) in old.items():
        size_now, now = new.get(name, (0, []))
        if now[:len(members)] != members:
            wrong.append(f"struct {name}: {set(members) - set(now) or 'its members'} changed; it grows at its end only")
        elif size_now != size and not members[0].endswith(" size"):
            wrong.append(f"struct {name} has grown, and begins with no size")
    for name, (size, members) in new.items():
        offset, bytes_ = map(int, members[-1].split()[:2])
        if offset + bytes_ != size:
            wrong.append(f"struct {name} ends in padding, which holds anything; fill it with a reserved member")
    if wrong:
        raise Different("\n".join(wrong))
    print(f"{len(old)} structs and {len(old_rest)} constants and functions of 0.1.0 are kept")


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
    print(f"{len(exported)} functions exported, needs {', '.join(needed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exports", "base", "write"))
    parser.add_argument("--library", help="the shared library to look into")
    parser.add_argument("--cc", default="cc", help="C compiler")
    parser.add_argument("--run", default="", help="what runs the compiler's programs, for cross builds")
    args = parser.parse_args()
    try:
        if args.what == "exports":
            if not args.library:
                parser.error("exports needs --library")
            check_exports(args.library)
        elif args.what == "base":
            check_base(layout(args.cc, args.run))
        elif BASE.exists():
            parser.error(f"{BASE.name} exists: it has the interface of a release, which does not change")
        else:
            BASE.write_text(layout(args.cc, args.run))
    except Different as difference:
        print(difference)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

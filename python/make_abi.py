#!/usr/bin/env python3
"""Write the C interface down for ctypes: the structs and constants of include/gdn/ as a Python module.

    make_abi.py INCLUDE OUT     INCLUDE has gdn/gdn.h

Part of building the package, so that structs which grow are never described by hand; python/tests/test_abi.py holds the
result against offsets that a C compiler gave. Needs the standard library only.
"""
import pathlib
import re
import sys

SCALARS = {"int32_t": "C.c_int32", "uint32_t": "C.c_uint32", "int64_t": "C.c_int64", "uint64_t": "C.c_uint64",
           "float": "C.c_float", "char": "C.c_char"}


def without_comments(text):
    return re.sub(r"//[^\n]*", " ", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))


def constants(text):
    """{name: value} of numeric macros and of enums, whose values are all written down."""
    found = {name: int(value) for name, value in re.findall(r"^#define (GDN_\w+) +(\d+)\s*$", text, flags=re.M)}
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, flags=re.S):
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, value = re.fullmatch(r"(GDN_\w+)\s*=\s*(-?\d+)", entry).groups()
            found[name] = int(value)
    return found


def length(array, values):
    """The product of [4], [GDN_NAME_MAX * 2], ...; None where the member is no array."""
    total = None
    for inside in re.findall(r"\[([^\]]*)\]", array):
        total = total or 1
        for factor in inside.split("*"):
            factor = factor.strip()
            total *= int(factor) if factor.isdigit() else values[factor]
    return total


def ctype(kind, pointer, known, callbacks):
    if pointer and kind in known:
        return f"C.POINTER({known[kind]})"
    if pointer:
        return "C.c_char_p" if kind == "char" else "C.c_void_p"
    if kind in callbacks:
        return "C.c_void_p"
    return known.get(kind) or SCALARS[kind]


def structs(text, values):
    """[(name, [(member, ctypes expression)])], in the header's order."""
    known = {name: SCALARS[kind] for kind, name in re.findall(r"typedef\s+(u?int\d+_t)\s+(\w+)\s*;", text)}  # enumerations
    found = []
    callbacks = set(re.findall(r"typedef\s+[\w\s*]+\(\*(\w+)\)", text))
    for name, body in re.findall(r"typedef struct (\w+)\s*\{(.*?)\}\s*\1\s*;", text, flags=re.S):
        members = []
        for statement in filter(None, (part.strip() for part in body.split(";"))):
            kind, declarators = re.fullmatch(r"(?:const\s+)?(\w+)\s*(.*)", statement, flags=re.S).groups()
            for declarator in declarators.split(","):
                pointer, member, array = re.fullmatch(r"\s*(\*?)\s*(\w+)\s*((?:\[[^\]]*\])*)\s*", declarator).groups()
                try:
                    text_of = ctype(kind, pointer, known, callbacks)
                except KeyError:
                    sys.exit(f"make_abi: {name}.{member} is of type {kind}, for which make_abi.py has no ctypes type")
                many = length(array, values)
                members.append((member, f"{text_of} * {many}" if many else text_of))
        known[name] = name
        found.append((name, members))
    return found


def module(text):
    text = without_comments(text)
    values = constants(text)
    lines = ['"""Structs and constants of gdn/gdn.h. Made by python/make_abi.py when the package is built."""', "import ctypes as C"]
    for name, members in structs(text, values):
        lines += ["", "", f"class {name}(C.Structure):", "    _fields_ = ["]
        lines += [f'        ("{member}", {kind}),' for member, kind in members] + ["    ]"]
    lines += ["", ""] + [f"{name} = {value}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def interface(include):
    """gdn/gdn.h with what it includes, each header once and behind those that it needs."""
    texts = {}

    def read(name):
        if name in texts:
            return
        texts[name] = ""
        text = (include / name).read_text(encoding="utf-8")
        for needed in re.findall(r'^#include "(gdn/\w+\.h)"', text, flags=re.M):
            read(needed)
        del texts[name]  # to stand behind them
        texts[name] = text

    read("gdn/gdn.h")
    return "\n".join(texts.values())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(module(interface(pathlib.Path(sys.argv[1]))), encoding="utf-8")


if __name__ == "__main__":
    main()

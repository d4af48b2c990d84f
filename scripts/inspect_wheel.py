#!/usr/bin/env python3
"""Does a wheel of the package fit the systems that its name promises?

    inspect_wheel.py [--headers include/gdn] [--absent FOLDER]... WHEEL...

Reads each wheel and the library in it, whatever the system is for: ELF, Mach-O and PE are read here, so nothing needs to run.
A wheel is wrong in each of these cases:

- Its tags disagree with the library's format, machine or least system, or its RECORD with its files.
- The library needs others than the system's own, or exports anything but the functions of the headers.
- The library has debugging information, or an absolute path of a source file or of a --absent folder.

Prints a line for each wheel, or all that is wrong; the exit status is 1 then.
"""
import argparse
import base64
import csv
import hashlib
import io
import pathlib
import re
import struct
import sys
import zipfile
from typing import List, NamedTuple, Optional, Set, Tuple

HEADERS = pathlib.Path(__file__).resolve().parents[1] / "include/gdn"
MAGICS = {b"\x7fELF": "ELF", b"\xcf\xfa\xed\xfe": "Mach-O", b"MZ": "PE", b"\xca\xfe\xba\xbe": "universal Mach-O", b"\xce\xfa\xed\xfe": "Mach-O"}
SOURCE = re.compile(rb"(?<![\w.<\"])(?:/[\w.+@-]+)+\.(?:c|h|cc|cpp|o|obj|comp|glsl|metal|pdb)\b|[A-Za-z]:\\[\w.+\\-]+")
GLIBC = r"libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-(x86-64\.so\.2|aarch64\.so\.1)"
MUSL = r"libc\.so|libc\.musl-(x86_64|aarch64)\.so\.1"
WINDOWS = r"(?i:kernel32|advapi32|ntdll|msvcrt|ucrtbase|api-ms-win-(crt|core)-[a-z0-9-]+)\.(?i:dll)"
SYSTEMS = {  # a platform tag: format of its library, the library's name, what it may need
    r"manylinux_(\d+)_(\d+)_(?P<machine>x86_64|aarch64)": ("ELF", "libgdn.so", GLIBC),
    r"musllinux_(\d+)_(\d+)_(?P<machine>x86_64|aarch64)": ("ELF", "libgdn.so", MUSL),
    r"macosx_(\d+)_(\d+)_(?P<machine>x86_64|arm64)": ("Mach-O", "libgdn.dylib", r"/usr/lib/libSystem\.B\.dylib"),
    r"win_(?P<machine>amd64)": ("PE", "gdn.dll", WINDOWS),
}
OLD_TAGS = {"manylinux2014": "manylinux_2_17"}
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


class Library(NamedTuple):
    format: str
    machine: str
    needed: Set[str]
    exports: Set[str]
    debug: bool
    own_name: str = ""  # soname or install name
    least: Tuple[int, ...] = ()  # of macOS, or of glibc: the newest version that a symbol wants
    wrong: Tuple[str, ...] = ()  # what only this format has


def text_at(data: bytes, at: int) -> str:
    return data[at:data.index(b"\0", at)].decode()


def version(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def elf(data: bytes) -> Library:
    if data[4:6] != b"\2\1":
        raise ValueError("not of 64 bits and little endian")
    machine, = struct.unpack_from("<H", data, 18)
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
    names = [text_at(data, heads[names_index][4] + head[0]) for head in heads]
    parts = {name: data[head[4]:head[4] + head[5]] for name, head in zip(names, heads) if head[1] != 8}  # 8: no bytes in the file
    strings = parts[".dynstr"]
    dynamic = list(struct.iter_unpack("<QQ", parts[".dynamic"]))
    own = [text_at(strings, value) for tag, value in dynamic if tag == 14]
    exports = {text_at(strings, name) for name, info, _, section, _, _ in struct.iter_unpack("<IBBHQQ", parts[".dynsym"])
               if section and info >> 4 in (1, 2) and info & 15 != 6 or section and info & 15 == 10}
    exports -= {text for text in exports if re.fullmatch(r"GDN_\d+", text)}  # the version itself
    wrong = [f"has a {what}" for number, what in ((15, "RPATH"), (29, "RUNPATH"), (22, "text relocation")) if number in dict(dynamic)]
    at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    if any(kind == 0x6474e551 and flags & 1 for kind, flags in (struct.unpack_from("<II", data, at + i * size) for i in range(count))):
        wrong.append("has an executable stack")
    glibc = [version(found) for found in re.findall(r"\0GLIBC_([\d.]+)(?=\0)", strings.decode())]
    return Library("ELF", {62: "x86_64", 183: "arm64"}.get(machine, f"machine {machine}"),
                   {text_at(strings, value) for tag, value in dynamic if tag == 1}, exports,
                   any(name.startswith((".debug", ".zdebug")) for name in names), "".join(own), max(glibc, default=()), tuple(wrong))


def trie(data: bytes) -> Set[str]:
    """The names in the tree of exports of a Mach-O library."""
    found: Set[str] = set()

    def number(at: int) -> Tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value, at

    def walk(at: int, name: str) -> None:
        size, at = number(at)
        if size:
            found.add(name)
        at += size
        children, at = data[at], at + 1
        for _ in range(children):
            end = data.index(b"\0", at)
            child, after = number(end + 1)
            walk(child, name + data[at:end].decode())
            at = after

    if data:
        walk(0, "")
    return found


def macho(data: bytes) -> Library:
    cpu, _, kind, count = struct.unpack_from("<IIII", data, 4)
    needed, exports, wrong = set(), set(), [] if kind == 6 else [f"is no library: file type {kind}"]
    own, least, signed, debug, at = "", (), False, False, 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        command &= 0x7fffffff  # the bit says that the loader has to know the command
        first, second = struct.unpack_from("<II", data, at + 8)
        if command in (0xc, 0x18, 0x1f, 0x20, 0x23):  # a library, also weak, re-exported, lazy or upward
            needed.add(text_at(data, at + first))
        elif command == 0xd:
            own = text_at(data, at + first)
        elif command == 0x1c:
            wrong.append(f"has an rpath, {text_at(data, at + first)}")
        elif command == 0x32:  # build version: platform, least system
            least = (second >> 16, second >> 8 & 255)
            if first != 1:
                wrong.append(f"is for platform {first} of Apple's, not macOS")
        elif command == 0x24:
            least = (first >> 16, first >> 8 & 255)
        elif command == 0x33:
            exports |= trie(data[first:first + second])
        elif command == 0x22:
            start, length = struct.unpack_from("<II", data, at + 40)
            exports |= trie(data[start:start + length])
        elif command == 2:  # symbols: a stab is debugging information
            debug |= any(data[first + 16 * i + 4] & 0xe0 for i in range(second))
        elif command == 0x19:
            debug |= data[at + 8:at + 24].startswith(b"__DWARF")
        elif command == 0x1d:
            signed = True
        at += size
    if not least:
        wrong.append("does not say for which macOS it is")
    if cpu == 0x100000c and not signed:
        wrong.append("has no signature, without which arm64 does not load it")
    # zig's linker lists two names that are each library's own.
    return Library("Mach-O", {0x1000007: "x86_64", 0x100000c: "arm64"}.get(cpu, f"machine {cpu:#x}"), needed,
                   {name[1:] for name in exports} - {"__dso_handle", "_mh_dylib_header"}, debug, own, least, tuple(wrong))


def pe(data: bytes) -> Library:
    at, = struct.unpack_from("<I", data, 60)
    if data[at:at + 4] != b"PE\0\0" or struct.unpack_from("<H", data, at + 24)[0] != 0x20b:
        raise ValueError("no PE of 64 bits")
    machine, count, _, symbols, _, optional, flags = struct.unpack_from("<HHIIIHH", data, at + 4)
    tables = at + 24 + 112
    sections = [struct.unpack_from("<8sIIII", data, at + 24 + optional + 40 * i) for i in range(count)]

    def place(address: int) -> int:
        for _, size, start, stored, where in sections:
            if start <= address < start + max(size, stored):
                return where + address - start
        raise ValueError(f"address {address:#x} is in no section")

    exports, needed = set(), set()
    start, _, imports, _ = struct.unpack_from("<IIII", data, tables)
    if start:
        n_names, _, names = struct.unpack_from("<III", data, place(start) + 24)
        exports = {text_at(data, place(name)) for name in struct.unpack_from(f"<{n_names}I", data, place(names))}
    for directory, size, name_at in ((imports, 20, 12), (struct.unpack_from("<I", data, tables + 13 * 8)[0], 32, 4)):  # also delayed
        while directory and (name := struct.unpack_from("<I", data, place(directory) + name_at)[0]):
            needed.add(text_at(data, place(name)))
            directory += size
    wrong = [] if flags & 0x2000 else ["is no DLL"]
    long_names = any(name.startswith(b"/") for name, *_ in sections)  # as .debug_info has
    return Library("PE", {0x8664: "x86_64", 0xaa64: "arm64"}.get(machine, f"machine {machine:#x}"), needed, exports,
                   long_names or bool(symbols), wrong=tuple(wrong))


READERS = {"ELF": elf, "Mach-O": macho, "PE": pe}


def functions(headers: pathlib.Path) -> Set[str]:
    """What the headers declare, as cmake/options.cmake reads them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(headers.glob("*.h")))
    return set(re.findall(r"^GDN_API [^(\n]*[ *](gdn_[a-z0-9_]+)\(", text, flags=re.M))


def format_of(data: bytes) -> Optional[str]:
    return next((name for magic, name in MAGICS.items() if data.startswith(magic)), None)


def tags_wrong(name: str, declared: List[str]) -> List[str]:
    """The name's tags against those that the wheel declares; the name has them as sets."""
    parts = name[:-len(".whl")].split("-")
    if len(parts) != 5 or parts[2:4] != ["py3", "none"]:
        return [f"its name has {'-'.join(parts[2:])}; py3-none-PLATFORM is wanted"]
    named = {f"py3-none-{platform}" for platform in parts[4].split(".")}
    return [] if named == set(declared) else [f"its name says {sorted(named)}, and its WHEEL {sorted(declared)}"]


def platform_wrong(platform: str, library: Library) -> List[str]:
    old = re.match("[a-z]+\\d*(?=_)", platform)
    known = platform.replace(old[0], OLD_TAGS[old[0]], 1) if old and old[0] in OLD_TAGS else platform
    found = next((match, what) for pattern, what in SYSTEMS.items() if (match := re.fullmatch(pattern, known)))
    match, (_, _, allowed) = found
    wrong = []
    if library.machine != MACHINES[match["machine"]]:
        wrong.append(f"{platform}: the library is for {library.machine}")
    wrong += [f"{platform}: the library needs {name}" for name in sorted(library.needed) if not re.fullmatch(allowed, name)]
    if known.startswith(("manylinux", "macosx")):
        promised = int(match[1]), int(match[2])
        if library.least > promised:
            wrong.append(f"{platform}: the library is for {'.'.join(map(str, library.least))} and later")
    elif library.least:
        wrong.append(f"{platform}: the library has symbols of glibc")
    return wrong


def library_wrong(data: bytes, library: Library, wanted: Set[str], absent: List[str]) -> List[str]:
    wrong = [f"the library {what}" for what in library.wrong]
    extra, missing = sorted(library.exports - wanted), sorted(wanted - library.exports)
    wrong += [f"the library exports {', '.join(extra)}"] if extra else []
    wrong += [f"the library does not export {', '.join(missing)}"] if missing else []
    wrong += ["the library has debugging information"] if library.debug else []
    if library.own_name != ("@rpath/libgdn.dylib" if library.format == "Mach-O" else ""):
        wrong.append(f"the library calls itself '{library.own_name}'")
    paths = sorted({path.decode() for path in SOURCE.findall(data)} | {folder for folder in absent if folder.encode() in data})
    return wrong + ([f"the library has paths of its build: {', '.join(paths[:5])}"] if paths else [])


def record_wrong(wheel: zipfile.ZipFile, record: str) -> List[str]:
    listed = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(record).decode())) if row}
    wrong = [f"RECORD and the wheel differ in {name}" for name in sorted(listed.keys() ^ set(wheel.namelist()))]
    for name, said in listed.items():
        if said and name in wheel.namelist():
            digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
            wrong += [] if said == f"sha256={digest}" else [f"RECORD has another digest of {name}"]
    return wrong


def inspect(path: pathlib.Path, wanted: Set[str], absent: List[str]) -> Tuple[List[str], str]:
    """(what is wrong, what it is)"""
    with zipfile.ZipFile(path) as wheel:
        info = next(name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
        declared = re.findall(r"^Tag: (\S+)", wheel.read(info).decode(), flags=re.M)
        wrong = tags_wrong(path.name, declared) + record_wrong(wheel, info.replace("/WHEEL", "/RECORD"))
        binaries = {name: kind for name in wheel.namelist() if (kind := format_of(wheel.read(name)))}
        platforms = [tag.split("-")[2] for tag in declared]
        systems = {what for tag in platforms for pattern, what in SYSTEMS.items()
                   if re.fullmatch(pattern, tag.replace("manylinux2014", OLD_TAGS["manylinux2014"]))}
        if len(systems) != 1:
            return [*wrong, f"its platforms, {', '.join(platforms)}, are not one of the known systems"], ""
        (format, name, _), = systems
        if binaries != {f"gdn/{name}": format}:
            found = ", ".join(f"{file} ({kind})" for file, kind in sorted(binaries.items())) or "none"
            return [*wrong, f"gdn/{name} ({format}) has to be its only binary; it has {found}"], ""
        data = wheel.read(f"gdn/{name}")
    library = READERS[format](data)
    for platform in platforms:
        wrong += platform_wrong(platform, library)
    wrong += library_wrong(data, library, wanted, absent)
    least = f", release {'.'.join(map(str, library.least))}" if library.least else ""
    return wrong, (f"{format} for {library.machine}{least}, {len(library.exports)} functions, "
                   f"{path.stat().st_size / 1e6:.1f} MB; needs {', '.join(sorted(library.needed))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", metavar="WHEEL", nargs="+", type=pathlib.Path)
    parser.add_argument("--headers", metavar="FOLDER", type=pathlib.Path, default=HEADERS, help="default: those beside this script's folder")
    parser.add_argument("--absent", metavar="FOLDER", action="append", default=[], help="a path that the library may not have in it")
    asked = parser.parse_args()
    wanted, failed = functions(asked.headers), False
    if not wanted:
        parser.error(f"{asked.headers} has no headers of the library")
    for path in asked.wheels:
        wrong, what = inspect(path, wanted, asked.absent)
        failed |= bool(wrong)
        print(f"{path.name}: {what}" if not wrong else "\n".join(f"{path.name}: {line}" for line in wrong), file=sys.stderr if wrong else sys.stdout)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

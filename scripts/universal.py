#!/usr/bin/env python3
"""universal.py OUT IN IN...: one file of macOS for several processors, of files for one each, as Apple's lipo makes it.

OUT begins with a list of the processors; each IN follows as it is, signature included, at a multiple of 16 KiB.
"""
import pathlib
import struct
import sys

ALIGNMENT = 14  # a power of two: the pages of Apple's processors
FAT, MACHO_64 = 0xCAFEBABE, 0xFEEDFACF


def main():
    if len(sys.argv) < 4 or sys.argv[1].startswith("-"):
        print(__doc__)
        return sys.argv[1:] != ["--help"] and 2
    parts = [pathlib.Path(name).read_bytes() for name in sys.argv[2:]]
    header, body, at = struct.pack(">II", FAT, len(parts)), b"", 1 << ALIGNMENT
    seen = set()
    for name, part in zip(sys.argv[2:], parts):
        magic, processor, kind = struct.unpack_from("<III", part.ljust(12, b"\0"))
        if magic != MACHO_64 or (processor, kind) in seen:
            print(f"universal: {name} is {'a second file for its processor' if magic == MACHO_64 else 'no 64-bit Mach-O file'}")
            return 1
        seen.add((processor, kind))
        header += struct.pack(">IIIII", processor, kind, at, len(part), ALIGNMENT)
        padding = -len(part) % (1 << ALIGNMENT)
        body += part + bytes(padding)
        at += len(part) + padding
    pathlib.Path(sys.argv[1]).write_bytes(header + bytes((1 << ALIGNMENT) - len(header)) + body)
    return 0


if __name__ == "__main__":
    sys.exit(main())

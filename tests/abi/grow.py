#!/usr/bin/env python3
"""The headers of a later release, for the test of growth: every struct that has a size gets one more member.

    grow.py INCLUDE CORE OUT      INCLUDE/gdn/*.h to OUT/gdn/; CORE is core/, whose struct_sizes.h and kernels.def have to
                                  have the same structs
"""
import pathlib
import re
import sys

STRUCT = re.compile(r"(typedef struct (gdn_\w+) \{\s*uint32_t\s+size;[^{}]*)(\} \2;)")
MEMBER = "    uint64_t grown;\n"


def main(include, core, out):
    grown = []
    for header in sorted(pathlib.Path(include, "gdn").glob("*.h")):
        text, n = STRUCT.subn(lambda m: m[1] + MEMBER + m[3], header.read_text())
        grown += [m[2] for m in STRUCT.finditer(header.read_text())]
        target = pathlib.Path(out, "gdn", header.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    listed = re.findall(r"^    STRUCT\((gdn_\w+),", pathlib.Path(core, "struct_sizes.h").read_text(), flags=re.M)
    registry = pathlib.Path(core, "kernels.def").read_text()
    listed += [f"gdn_{stem}_args" for stem in re.findall(r"^GDN_KERNEL\((\w+),", registry, flags=re.M)]
    if not grown or sorted(grown) != sorted(listed):
        too_much, missing = sorted(set(listed) - set(grown)), sorted(set(grown) - set(listed))
        sys.exit(f"grow.py: {core} has {too_much} too much, and lacks {missing}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

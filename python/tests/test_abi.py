"""The package's description of the C interface against a compiler's, tests/packaging/abi/0.1.0.txt. That is the interface of
the first release. The tests of the ABI compare it with the headers, since structs only grow at their end."""
import ctypes
import pathlib
import re
import unittest

import gdn._abi as abi
import gdn._library as library

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = (ROOT / "tests/packaging/abi/0.1.0.txt").read_text(encoding="utf-8")
OTHERS = ("gdn_cuda_desc", "gdn_metal_desc", "gdn_vulkan_desc")  # of the backends' own headers


def stored():
    """{struct: (size, {member: (offset, size)})}"""
    found = {}
    for line in LAYOUT.split("\n# constants")[0].splitlines():
        head = re.fullmatch(r"struct (\w+): size (\d+), alignment \d+", line)
        member = re.fullmatch(r"\s+(\d+)\s+(\d+)\s+(\w+)", line)
        if head:
            members = {}
            found[head[1]] = (int(head[2]), members)
        elif member:
            members[member[3]] = (int(member[1]), int(member[2]))
    return found


class Abi(unittest.TestCase):
    def test_structs(self):
        structs = {name: what for name, what in stored().items() if name not in OTHERS}
        self.assertGreaterEqual(len(structs), 10)
        for name, (size, members) in structs.items():
            mine = getattr(abi, name)
            self.assertGreaterEqual(ctypes.sizeof(mine), size, name)
            self.assertEqual({member: (getattr(mine, member).offset, getattr(mine, member).size) for member in members}, members, name)

    def test_constants(self):
        values = dict(re.findall(r"^(GDN_\w+) = (-?\d+)$", LAYOUT, flags=re.M))
        values = {name: value for name, value in values.items() if not name.startswith(("GDN_CUDA_", "GDN_METAL_", "GDN_VULKAN_"))}
        self.assertGreater(len(values), 40)
        for name, value in values.items():
            self.assertEqual(getattr(abi, name), int(value), name)

    def test_functions(self):
        names = re.findall(r"\b(gdn_\w+)\(", LAYOUT.split("\n# functions")[1])
        names = [name for name in names if not name.startswith(("gdn_cuda_", "gdn_metal_", "gdn_vulkan_"))]
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertIsNotNone(getattr(library.lib, name).argtypes, f"gdn/_library.py does not declare {name}")

    def test_defaults(self):
        """Every struct of the headers with defaults gets them, and the others are zeros behind their size."""
        headers = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "include/gdn").glob("*.h")))
        listed = re.findall(r"^#define GDN_DEFAULTS_(\w+)[ \t]*(\S?)", headers, flags=re.M)
        listed = [(name, some) for name, some in listed if name not in OTHERS]
        for name, some in listed:
            made = library.new(getattr(abi, name))
            self.assertEqual(made.size, ctypes.sizeof(made), name)
            self.assertEqual(any(bytes(made)[4:]), bool(some), name)
        args, rows = library.new(abi.gdn_gated_delta_net_args), library.new(abi.gdn_set_rows_args)
        self.assertEqual((args.n_snapshots, args.state.n_slots, args.state_out.n_slots, args.scale), (1, 1, 1, 0))
        self.assertEqual((library.new(abi.gdn_delta_inputs).beta_factor, *rows.n_batch, *rows.index_batch), (1, 1, 1, 1, 1))

    def test_versions(self):
        header = (ROOT / "include/gdn/base.h").read_text(encoding="utf-8")
        want = ".".join(re.search(rf"#define GDN_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
        self.assertEqual(library.version(), want)
        import importlib.metadata
        self.assertEqual(importlib.metadata.version("libgdn"), want)


if __name__ == "__main__":
    unittest.main()

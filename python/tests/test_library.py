"""Which file the package loads on each system, and what it says where that is missing."""
import pathlib
import re
import sys
import unittest
from unittest import mock

import gdn._library as library

CMAKE = (pathlib.Path(__file__).resolve().parents[1] / "CMakeLists.txt").read_text(encoding="utf-8")
NAMES = {"linux": "libgdn.so", "freebsd14": "libgdn.so", "darwin": "libgdn.dylib", "win32": "gdn.dll"}


class Names(unittest.TestCase):
    def test_as_installed(self):
        for system, name in NAMES.items():
            with mock.patch.object(sys, "platform", system):
                self.assertEqual(library._name(), name)
        self.assertEqual(set(re.findall(r"set\(gdn_library_name (\S+?)\)", CMAKE)), set(NAMES.values()))

    def test_missing(self):
        for system, name in NAMES.items():
            with mock.patch.object(sys, "platform", system), mock.patch.object(library, "__file__", "/nonexistent/gdn/_library.py"):
                with self.assertRaisesRegex(ImportError, f"{re.escape(name)} is missing: the package has to be built"):
                    library._load()

    def test_loaded_by_its_path(self):
        """Not by its name, for which systems would search other folders."""
        given = []
        with mock.patch.object(library.C, "CDLL", lambda path: given.append(path) or (_ for _ in ()).throw(OSError("stop"))):
            with self.assertRaisesRegex(OSError, "stop"):
                library._load()
        self.assertEqual(given, [str(pathlib.Path(library.__file__).with_name(library._name()))])
        self.assertTrue(pathlib.Path(given[0]).is_absolute())


if __name__ == "__main__":
    unittest.main()

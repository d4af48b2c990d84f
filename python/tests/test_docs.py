"""The Python code in documents that readers copy runs."""
import pathlib
import re
import unittest

import numpy as np

import gdn

ROOT = pathlib.Path(__file__).resolve().parents[2]
AVAILABLE = {backend.name for backend in gdn.backends() if backend.available}


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)


class Documents(unittest.TestCase):
    def run_blocks(self, name, least):
        ran = 0
        for block in blocks(name):
            if "torch" in block or "transformers" in block or ('Context("vulkan")' in block and "vulkan" not in AVAILABLE):
                continue
            known = {"np": np, "gdn": gdn}
            exec(compile(block, name, "exec"), known)
            self.assertTrue(np.isfinite(known["out"]).all() and np.abs(known["out"]).max() > 0)
            ran += 1
        self.assertGreaterEqual(ran, least)

    def test_python_md(self):
        self.run_blocks("docs/guide/python.md", 1)

    def test_readme(self):
        self.run_blocks("python/README.md", 1)


if __name__ == "__main__":
    unittest.main()

"""gdn.torch runs on PyTorch's threads."""
import os
import subprocess
import sys
import unittest

import torch


class Threads(unittest.TestCase):
    def test_threads_are_those_of_pytorch(self):
        """A context starts none besides, with PyTorch's own runtime or with another one that is loaded before. In a forked child a
        context has its own."""
        program = """
import os, torch, gdn.torch
count = lambda: len(os.listdir("/proc/self/task"))
ops = [torch.ones(1, 64, 8, 64)] * 3 + [-torch.ones(1, 64, 8), torch.ones(1, 64, 8)]
call = lambda: gdn.torch.gated_delta_net(*ops)[0].numpy().tobytes()
torch.set_num_threads(1)
alone, none = call(), count()
torch.set_num_threads(3)
torch.ones(1 << 20).exp()
before = count()
assert call() == alone
assert count() == before == none + 2, (none, before, count())
if not os.fork():
    assert call() == alone and count() == torch.get_num_threads() > 1, count()
    os._exit(7)
assert os.wait()[1] == 7 << 8
"""
        self.assertIn("OpenMP", torch.__config__.parallel_info())
        for runtime in "", "libomp.so.5":
            with self.subTest(runtime):
                done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300, check=False,
                                      env={**os.environ, "LD_PRELOAD": runtime})
                if "cannot be preloaded" in done.stderr:
                    self.skipTest("libomp.so.5 is not on this machine")
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()

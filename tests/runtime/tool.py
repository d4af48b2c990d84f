"""What the tests of gdn run share: the tool and the folder that they are called with, and what they demand."""
import pathlib
import sys

TOOL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL = str(FOLDER / "../../models/kjv-small-q8_0.gguf")
failures = []


def require(good, what, done=None):
    """done: the process whose output says more."""
    if good:
        return
    failures.append(what)
    print(f"FAILED: {what}")
    if done:
        print(f"  {done.args}\n  status {done.returncode}\n  {(done.stdout or b'')[-600:]}\n  {(done.stderr or b'')[-600:]}")

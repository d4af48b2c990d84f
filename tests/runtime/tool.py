"""What the tests of gdn run share: the tool and the folder that they are called with, and what they demand."""
import pathlib
import signal
import sys

# A shell has what it runs in the background ignore Ctrl-C, and so would the tool.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOOL, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
# --brief, for builds under sanitizers, which take ten times as long: the same calls of the tool with the same options, and so the
# same code, but texts of fewer tokens, and where many ways are tried in many settings each way in one of them. Sanitizers look at
# what code does with memory, at the twelfth token as at the fortieth; that all streams are the same is for other builds to show.
BRIEF = "--brief" in sys.argv[3:]
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

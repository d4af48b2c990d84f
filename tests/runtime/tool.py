"""What the tests of gdn run share: the tool and the folder that they are called with, and what they demand."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

# A shell has what it runs in the background ignore Ctrl-C, and so would the tool.
signal.signal(signal.SIGINT, signal.default_int_handler)

TOOL, FOLDER = sys.argv[1], pathlib.Path((sys.argv + [""])[2])
# --brief is for builds under sanitizers, which take ten times as long. The tests call the tool with the same options, but texts
# have fewer tokens, and each combination of options runs in one setting only. So the same code runs; other builds show that all
# streams are the same.
BRIEF = "--brief" in sys.argv[3:]
MODEL = str(FOLDER / "../../models/kjv-small-q8_0.gguf")
PROGRESS = {**os.environ, "GDN_PROGRESS": "0"} # a line of it at every step
failures = []


def require(good, what, done=None):
    """done: the process whose output says more."""
    if good:
        return
    failures.append(what)
    print(f"FAILED: {what}", flush=True)
    if done:
        print(f"  {done.args}\n  status {done.returncode}\n  {(done.stdout or b'')[-600:]}\n  {(done.stderr or b'')[-600:]}")


def gdn(*arguments, text=b"", **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "input": text, "timeout": 600, **options}
    return subprocess.run([TOOL, "run", *map(str, arguments)], **options)


def started(*arguments, **options):
    """A running gdn, with the default handling of signals."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([TOOL, "run", *map(str, arguments)], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)


def report(*arguments, otherwise, **options):
    """That of --json, or `otherwise` where the tool fails, which is noted."""
    done = gdn(*arguments, "--json", **options)
    require(done.returncode == 0, f"gdn run {' '.join(map(str, arguments))}", done)
    return json.loads(done.stdout) if done.returncode == 0 else otherwise


def refused(says, status, *arguments, text=b""):
    done = gdn(*arguments, text=text)
    require(done.returncode == status and says in done.stderr.decode() and not done.stdout.strip(), f"refused: {says}", done)


def said(done, notes=True):
    """Standard error without progress, which a busy machine may have time for."""
    return re.sub(rb"^progress: .*\n" if notes else rb"^(progress|gdn run: note): .*\n", b"", done.stderr, flags=re.MULTILINE).decode()


def caught(process):
    """The signals that the process has handlers for."""
    return int(pathlib.Path(f"/proc/{process.pid}/status").read_text().split("SigCgt:")[1].split()[0], 16)


class Answers:
    """A program that answers each line with a line."""

    def __init__(self, program=TOOL):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        self.process.stdin.close()
        require(self.process.wait() == 0, f"{self.process.args[0]} ends well")


def run_tests(*tests):
    """Each with a folder of its own if it takes one."""
    for test in tests:
        with tempfile.TemporaryDirectory() as name:
            test(*[pathlib.Path(name)][:test.__code__.co_argcount])
    print(f"{len(failures)} failed")
    sys.exit(bool(failures))

#!/usr/bin/env python3
"""--prefix-file: a restart gives the same text sooner, damaged and foreign files are refused and stay, and a kill at any
moment leaves a file that loads, or none.

    test_prefix_file.py GDN FOLDER [--brief] [--kills N]    as test_run.py; N: 30, or 6 with --brief
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from tool import BRIEF, FOLDER, MODEL, TOOL, gdn, report, require, run_tests, started

RANDOM = random.Random(1)
KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 6 if BRIEF else 30
WORDS = "the Lord God heaven earth light day night water land tree man".split()
LONG = " ".join(RANDOM.choice(WORDS) for _ in range(100 if BRIEF else 400))
CACHE = ("-m", MODEL, "--threads", 1, "--prefix-cache", 8, "--prefix-interval", 32)


def run(file, text=LONG, *more):
    done = report(*CACHE, "--prefix-file", file, "-p", text, "-n", 8, *more, otherwise={"requests": [{"text": ""}], "prefix_tokens": -1})
    return done["requests"][0]["text"], done["prefix_tokens"]


def restart(folder):
    file = folder / "kept"
    plain = report("-m", MODEL, "-p", LONG, "-n", 8, otherwise={"requests": [{"text": ""}]})["requests"][0]["text"]
    require(run(file) == (plain, 0) and file.stat().st_size > 1000, "the first run has nothing to read and writes the file")
    before = file.read_bytes()
    text, kept = run(file)
    require(text == plain and kept >= len(WORDS), f"the second run: {kept} tokens and the same text")
    require(file.read_bytes() == before, "nothing new was kept, so the file is as it was")
    require(run(file, LONG + " and it came to pass" * 12)[1] >= kept and file.read_bytes() != before, "new prefixes are added")
    require(run(file)[1] >= kept, "what was kept before is kept")
    file.chmod(0o640)
    run(file, LONG + " and the waters" * 12)
    require(file.stat().st_mode & 0o777 == 0o640, "its permissions stay")
    require([path.name for path in folder.iterdir()] == ["kept"], "no parts are left behind")
    drafted = ("--always-draft", "--spec", "mtp")
    other = folder / "drafted"
    require(run(other, LONG, *drafted) == (plain, 0) and run(other, LONG, *drafted)[1] >= kept, "with drafts")
    require(other.stat().st_size <= 8 << 20, "the bound of --prefix-cache")
    blocks, q8_0 = folder / "blocks", ("--kv", "q8_0")
    text, found = run(blocks, LONG, *q8_0)
    require(found == 0 and run(blocks, LONG, *q8_0) == (text, kept) and blocks.stat().st_size < file.stat().st_size, "with cells in Q8_0")
    refused(blocks, "another type of KV cells", *CACHE)


def refused(file, says, *arguments):
    before = file.read_bytes() if file.is_file() else None
    done = gdn(*arguments, "--prefix-file", file, "-p", LONG, "-n", 1)
    require(done.returncode == 1 and says in done.stderr.decode() and not done.stdout and b"anitizer" not in done.stderr, f"refused: {says}", done)
    require(before is None or file.read_bytes() == before, f"{says}: the file stays as it is")


def refusals(folder):
    file, bad = folder / "kept", folder / "bad"
    run(file)
    whole = file.read_bytes()
    for _ in range(10 if BRIEF else 100):
        at, bit = RANDOM.randrange(len(whole)), 1 << RANDOM.randrange(8)
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        refused(bad, "the file stays as it is", *CACHE)
    for n in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:n])
        refused(bad, "bytes, and" if n >= 200 else "too short", *CACHE)
    bad.write_bytes(whole + b"x")
    refused(bad, f"has {len(whole)} bytes, and {len(whole) + 1} are given", *CACHE)
    refused(file, "another type of KV cells", *CACHE, "--kv", "f32")
    refused(file, "the interval is 32, and 16 here", *CACHE[:-1], 16)
    refused(file, "at another level", *CACHE, "--level", "exact_ftz")
    refused(file, "another model", "-m", FOLDER / "fixtures/tiny-qwen35.gguf", *CACHE[2:])
    refused(folder / "none/kept", "cannot write beside", *CACHE)
    refused(folder, "is no regular file", *CACHE)
    for name in ("fifo", "other.part"):
        os.mkfifo(folder / name)
    refused(folder / "fifo", "is no regular file", *CACHE)
    refused(folder / "other", "cannot write beside", *CACHE)
    (folder / "precious").write_text("x")
    (folder / "linked.part").symlink_to("precious")
    refused(folder / "linked", "cannot write beside", *CACHE)
    require((folder / "precious").read_text() == "x", "no file is written through a link")
    done = gdn(*CACHE, "-p", "x", "--prefix-file", "")
    require(done.returncode != 0 and b"--prefix-file is empty" in done.stderr, "an empty name", done)
    done = gdn("-m", MODEL, "-p", "x", "--prefix-file", file)
    require(done.returncode == 2 and b"--prefix-file" in done.stderr and b"needs --prefix-cache" in done.stderr, "without a cache", done)


def one_at_a_time(folder):
    """A process that uses the file keeps others from it; a file that a limit cuts is removed."""
    file = folder / "kept"
    process = started(*CACHE, "--prefix-file", file, "-p", LONG, "-n", 15000, "--ignore-end", "-c", 16384)
    while not (folder / "kept.lock").exists() and process.poll() is None:
        time.sleep(0.01)
    refused(file, f"--prefix-file: cannot use {file}: another gdn is using this file", *CACHE)
    process.send_signal(signal.SIGINT)
    process.communicate()
    require([path.name for path in folder.iterdir()] == ["kept"], "it ends, and leaves its prefixes only")
    run(file, LONG + " and it came to pass" * 12)
    done = subprocess.run(["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", TOOL, "run", *map(str, CACHE), "--prefix-file", folder / "cut", "-p", LONG, "-n", "1"], capture_output=True)
    require(done.returncode == 1 and b"File too large" in done.stderr, "a limit of the file's size", done)
    require(sorted(path.name for path in folder.iterdir()) == ["kept"], "nothing is left of it")


def size(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def kills(folder):
    """Each run keeps something new. It is killed some moments after it begins to write."""
    file, part = folder / "kept", folder / "kept.part"
    run(file)
    n_written = n_during = 0
    for i in range(KILLS):
        before, node = file.read_bytes(), file.stat().st_ino
        process = started(*CACHE, "--prefix-file", file, "-p", f"{LONG} and {i} " + " ".join(RANDOM.choice(WORDS) for _ in range(60)), "-n", 1)
        while process.poll() is None and not size(part) and file.stat().st_ino == node:
            time.sleep(0.0001)
        time.sleep(RANDOM.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        after = file.read_bytes()
        n_written += after != before
        n_during += size(part) > 0
        require(run(folder / "kept")[1] > 0, f"kill {i}: the file loads")
    require(n_written + n_during, "kills after the beginning of a write")
    print(f"{KILLS} kills: {n_written} after the file was replaced, {n_during} while it was written", flush=True)


run_tests(restart, refusals, one_at_a_time, kills)

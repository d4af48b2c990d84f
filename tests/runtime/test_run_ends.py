#!/usr/bin/env python3
"""How gdn run begins and ends: where prompts end, why texts end, and what becomes of them when something ends the program.

    test_run_ends.py GDN FOLDER [--brief]   as test_run.py
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

import oracle
import tool
from tool import BRIEF, MODEL, PROGRESS, TOOL, caught, gdn, require, said, started

PROMPT = "In the beginning"
# more text than a pipe holds: the program blocks until the test reads it, so that signals never come too late
ENDLESS = ("-m", MODEL, "-p", PROMPT, "-n", "40000", "--ctx", "40960", "--ignore-end", "--threads", "1")


def report(*arguments, model=MODEL, **options):
    return tool.report("-m", model, *arguments, otherwise={"requests": [{"tokens": [], "text": "", "finish": "", "prompt_tokens": 0}]}, **options)


def first(*arguments, **options):
    return report(*arguments, **options)["requests"][0]


def prompts(folder):
    """Line ends, NULs, sizes, pipes and escapes of prompts."""
    few = ("-n", "4", "--threads", "1")
    plain, lines = first(*few, "-p", PROMPT), {}
    for end in (b"", b"\n", b"\r\n", b"\n\n"):
        file = folder / "prompt.txt"
        file.write_bytes(PROMPT.encode() + end)
        lines[end] = first(*few, "-f", str(file))
        require(lines[end]["tokens"] == first(*few, text=file.read_bytes())["tokens"], f"{end}: the same from standard input")
        kept, escaped = first(*few, "-f", str(file), "--keep-newline"), first(*few, "-e", "-p", PROMPT + end.decode().encode("unicode_escape").decode())
        require((kept["prompt_tokens"], kept["tokens"]) == (escaped["prompt_tokens"], escaped["tokens"]), f"{end}: --keep-newline keeps it")
        require((end == b"") == (kept["prompt_tokens"] == plain["prompt_tokens"]), f"{end}: it is a token")
    for end in (b"\n", b"\r\n"):
        require(lines[end]["prompt_tokens"] == plain["prompt_tokens"] and lines[end]["tokens"] == plain["tokens"], f"{end} is taken away")
    require(lines[b"\n\n"]["prompt_tokens"] > plain["prompt_tokens"], "only one line end is taken away")

    pipe = folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(PROMPT))
    writer.start()
    require(first(*few, "-f", str(pipe))["tokens"] == plain["tokens"], "a prompt from a FIFO")
    writer.join()
    endless = b"In the beginning God created the heaven and the earth.\n" * (1 << 20) + b"\n" * (12 << 20)  # 66 MiB
    done = gdn("-m", MODEL, "-n", "1", text=endless)
    require(done.returncode == 1 and "standard input: the prompt is longer than 64 MiB" in done.stderr.decode() and not done.stdout, "a limit", done)

    (folder / "nul").write_bytes(b"Who was\0 Moses?")
    for chat in ((), ("--chat",)):
        whole, cut = first(*few, *chat, "-f", str(folder / "nul")), first(*few, *chat, "-p", "Who was")
        require(whole["prompt_tokens"] > cut["prompt_tokens"], f"a NUL does not end the prompt {chat}")
        for text in (r"Who was\0 Moses?", r"Who\x20was\x00 Moses?"):
            require(first(*few, *chat, "-e", "-p", text)["tokens"] == whole["tokens"], f"escapes {text} {chat}")
    system = [first(*few, "--chat", "-e", "-p", "x", "--system", text)["prompt_tokens"] for text in ("Be", r"Be\0kind and brief.")]
    require(system[0] < system[1], "a NUL does not end the system message")
    for arguments in (("-p", r"a\nb"), ("-e", "--no-escape", "-p", r"a\nb")):
        require(first(*few, *arguments)["prompt_tokens"] != first(*few, "-e", "-p", r"a\nb")["prompt_tokens"], f"{arguments}: no escapes")
    require(first(*few, "--no-escape", "-e", "-p", r"a\nb")["prompt_tokens"] == first(*few, "-p", "a\nb")["prompt_tokens"], "the later one holds")


def terminal():
    """A terminal gets a line that says that gdn reads from it; Ctrl-C there ends the program."""
    expected = gdn("-m", MODEL, "-n", "4", "-p", PROMPT).stdout
    for number in (0, signal.SIGINT):
        master, slave = os.openpty()
        process = started("-m", MODEL, "-n", "4", stdin=slave)
        if number:
            process.stderr.readline()
            process.send_signal(number)
        else:
            os.write(master, PROMPT.encode() + b"\n\x04")
        out, hint = process.communicate(timeout=600)
        os.close(slave)
        os.close(master)
        require(process.returncode == -number and out == (b"" if number else expected), f"a typed prompt, signal {number}: {process.returncode}, {out}")
        if not number and b"Ctrl-D" not in hint:
            require(False, f"the hint at a terminal: {hint}")
            return  # what follows waits for it


def habits():
    long = report("-p", PROMPT, "--predict", "9", "--threads", "1", "--ctx", "64", "--batch", "8", "--seed", "5", "--temp", "1", "--ignore-end")
    short = report("-p", PROMPT, "-n", "9", "-t", "1", "-c", "64", "-b", "8", "-s", "5", "--temp", "1", "--ignore-end")
    require(long["requests"][0]["tokens"] == short["requests"][0]["tokens"] and len(short["requests"][0]["tokens"]) == 9, "letters of options")
    require(short["context"] == 64 and short["memory_bytes"] == long["memory_bytes"] and short["requests"][0]["seed"] == 5, "letters of options")
    require(subprocess.run([TOOL, "help", "run"], capture_output=True, check=False).stdout == gdn("--help").stdout, "gdn help run")
    few, every = (re.findall(rb"^  (?:-., )?--([a-z-]+)", gdn(option).stdout, flags=re.M) for option in ("--help", "--help-all"))
    require(len(few) == 14 and b"p-min" not in few and b"p-min" in every and set(few) < set(every), "gdn run --help", few)


def reasons():
    """Why a text ended; it is the same for a request alone and among others."""
    more = ("-p", "And the LORD spake unto Moses, saying,", "-p", "Blessed are")
    for tokens in ("100", "-1"):
        few = ("-p", PROMPT, "-n", tokens, "--ctx", "24", "--ignore-end", "--temp", "1")
        alone = first(*few, "--parallel", "1")
        require(alone["finish"] == "context" and alone["prompt_tokens"] + len(alone["tokens"]) == 24, f"-n {tokens}: the context is full")
        for way in (("--parallel", "3"), ("--parallel", "2"), ("--parallel", "3", "--spec", "mtp", "--always-draft")):
            among = report(*few, *more, *way)["requests"]
            require(among[0]["tokens"] == alone["tokens"], f"--ctx is each sequence's own, {way}")
            require(all(r["finish"] == "context" and r["prompt_tokens"] + len(r["tokens"]) == 24 for r in among), f"{way}: all contexts are full")
        done = gdn("-m", MODEL, *few)
        require(done.returncode == 0 and said(done) == "gdn run: stopped: the context of 24 tokens is full (--ctx)\n", "what is said of it", done)
        done = gdn("-m", MODEL, *few, *more)
        require([f"text {i} stopped" in said(done) for i in range(1, 5)] == [True] * 3 + [False], "which texts", done)
    full = first("-p", PROMPT, "-n", "20", "--ctx", "24", "--ignore-end")
    require(full["finish"] == "length" and len(full["tokens"]) == 20, "as many tokens as fit are no cut")
    done = gdn("-m", MODEL, "-p", PROMPT, "-n", "20", "--ctx", "24", "--ignore-end")
    require(not said(done), "nothing to tell", done)
    answer = first("--chat", "-p", "Who was Moses?", "-n", "-1", "--ctx", "512", "--temp", "0.8")
    require(answer["finish"] == "stop", f"the model's end token: {answer['finish']}")


def end_tokens(folder):
    """The file's end token ends a text where it comes, drafted or not, alone or beside others; --ignore-end goes on."""
    model, path = oracle.Model(seed=3), folder / "ends.gguf"
    letters = [chr(c) for c in range(ord("a"), ord("a") + oracle.VOCABULARY - 1)]
    model.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*letters, "ab"], "tokenizer.ggml.merges": ["a b"]})
    tokens, prompt = [], [2, 3, 4, 2]
    for _ in range(24):
        scores = oracle.logits(model, prompt + tokens, 1)
        tokens.append(max(range(len(scores)), key=lambda v: scores[v]))
    few = ("-p", "cdec", "-n", "24", "--temp", "0", "--threads", "1")
    ends = [i for i in range(3, 24) if tokens[i] > 4 and tokens[i] not in tokens[:i] and tokens[i] < len(letters)]
    for at in (ends[0], ends[-1]):
        model.keys["tokenizer.ggml.eos_token_id"] = tokens[at]
        oracle.write(path, model)
        for way in (("--spec", "off"), ("--spec", "ngram", "--always-draft"), ("--kv", "f32")):
            ended = first(*few, *way, model=str(path))
            require((ended["finish"], ended["tokens"]) == ("stop", tokens[:at + 1]), f"end token {tokens[at]}, {way}: {ended} not {tokens[:at + 1]}")
        both = report(*few, "-p", "cdec", "--parallel", "2", model=str(path))["requests"]
        require([text["finish"] for text in both] == ["stop", "stop"], "both texts end")
        on = first(*few, "--ignore-end", model=str(path))
        require((on["finish"], on["tokens"]) == ("length", tokens), f"--ignore-end goes on: {on}")


def stop_strings():
    """Wherever a stop string lies in the tokens, and whatever drafts: the text is the plain one up to it."""
    few = ("-p", PROMPT, "-n", "60", "--temp", "0.9", "--seed", "11", "--ignore-end", "--threads", "1")
    plain = first(*few, "--spec", "off")
    text = plain["text"]
    pieces = [text[at:at + n] for at, n in ((0, 1), (3, 7), (20, 2), (33, 12), (50, 5), (71, 40), (len(text) - 6, 6), (len(text) - 1, 1))]
    ways = (("--spec", "off"), ("--spec", "mtp", "--always-draft", "--draft-max", "4"), ("--spec", "ngram", "--always-draft"))
    for number, piece in list(enumerate(pieces))[::2 if BRIEF else 1]:
        end = text.find(piece)
        way = ways[number % len(ways)]
        done = gdn("-m", MODEL, *few, *way, "--stop", piece)
        require(done.returncode == 0 and done.stdout.decode() == text[:end] + "\n", f"{way}: text before {piece!r}", done)
        json_ = first(*few, *way, "--stop", piece)
        require(json_["text"] == text[:end] and json_["finish"] == "string", f"{way}: --json before {piece!r}: {json_['finish']}")
        require(json_["tokens"] == plain["tokens"][:len(json_["tokens"])] and len(json_["tokens"]) <= 60, f"{way}: tokens before {piece!r}")
    # beginnings of stop strings that do not come to their end are printed all the same, at the text's end too
    nearly = [arg for at in range(10, len(text), 9) for arg in ("--stop", text[at:at + 8] + "\x01")] + ["--stop", text[-3:] + "\x02"]
    done = gdn("-m", MODEL, *few, *nearly)
    require(done.stdout.decode() == text + "\n", "no stop string comes to its end", done)
    done = gdn("-m", MODEL, *few, "--stop", pieces[4], "--stop", pieces[3], "--stop", "no such text", "--stop", pieces[5])
    require(done.stdout.decode() == text[:min(text.find(piece) for piece in pieces[3:6])] + "\n", "the first of several", done)
    # of two that one token completes, the one that begins first
    done = gdn("-m", MODEL, *few, "--stop", text[40:42], "--stop", text[38:42])
    require(done.stdout.decode() == text[:min(text.find(text[40:42]), text.find(text[38:42]))] + "\n", "the one that begins first", done)
    two = report("-p", PROMPT, "-p", PROMPT, *few[2:], "--parallel", "2", "--stop", pieces[3])["requests"]
    require([r["text"] for r in two] == [text[:text.find(pieces[3])]] * 2, "each request for itself")


def steps(done):
    """How many different steps were reported. Of a step there are more lines where the machine is slow."""
    return len(set(re.findall(rb"progress: (\d+)/", done.stderr)))


def lost():
    """Output that cannot be written ends the work, not only the program."""
    if pathlib.Path("/dev/full").exists():
        for arguments in ((), ("-p", "Blessed are", "-n", "2000", "--ignore-end"), ("--bench", "-n", "8", "--bench-prompt", "8", "--ctx", "256"), ("--json", "-n", "4")):
            few = ENDLESS if not arguments else ("-m", MODEL, "-p", PROMPT, *arguments)
            with open("/dev/full", "wb") as full:
                done = gdn(*few, stdout=full, env=PROGRESS)
            require(done.returncode == 1 and said(done, notes=False) == "gdn: cannot write the output: No space left on device\n", f"a full device {arguments}", done)
            require(steps(done) < 12, "it ends at once", done)
    done = gdn(*ENDLESS, stdout=None, env=PROGRESS, preexec_fn=lambda: os.close(1))
    require(done.returncode == 1 and said(done, notes=False) == "gdn: cannot write the output: Bad file descriptor\n", "no standard output", done)
    require(steps(done) < 12, "it ends at once", done)
    for handler, status in ((signal.SIG_IGN, 1), (signal.SIG_DFL, -signal.SIGPIPE)):
        process = subprocess.Popen([TOOL, "run", *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=False,
                                   preexec_fn=lambda: signal.signal(signal.SIGPIPE, handler))
        begun = process.stdout.read(4)
        process.stdout.close()
        process.wait(timeout=600)
        process.stderr = process.stderr.read()
        require(len(begun) == 4 and process.returncode == status and not said(process, notes=False), f"a broken pipe: {process.returncode}, {process.stderr}")


def signals():
    """Ctrl-C and SIGTERM: what there is of the texts is written, and the program ends by the signal: 130 and 143 in a shell."""
    plain = gdn("-m", MODEL, "-p", PROMPT, "-n", "64", "--ignore-end").stdout[:-1]
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        for stats in ((), ("--stats",)):
            process = started(*ENDLESS, *stats)
            begun = process.stdout.read(40)
            process.send_signal(number)
            rest, errors = process.communicate(timeout=600)
            text = begun + rest
            require(process.returncode == -number, f"{number}: status {process.returncode}")
            require(text.endswith(b"\n") and text[:40] == plain[:40], f"{number}: the text so far: {text[-80:]}")
            require((b"generation " in errors) == bool(stats), f"{number}: statistics: {errors}")
        # what a shell sees
        script = f'''(while ! test -s "$IN/out"; do sleep 0.05; done; kill -{int(number)} "$(cat "$IN/pid")") &
            sh -c 'echo $$ >"$IN/pid"; exec "$0" "$@" >"$IN/out"' "$0" "$@"; echo "status $?"'''
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["sh", "-c", script, TOOL, "run", *ENDLESS], capture_output=True, timeout=600, check=False,
                                  env={**os.environ, "IN": folder}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        require(done.stdout == f"status {status}\n".encode(), f"{number}: in a shell", done)
    json_ = started(*ENDLESS, "--json", env=PROGRESS)
    while not json_.stderr.readline().startswith(b"progress"):
        pass
    json_.send_signal(signal.SIGINT)
    out, _ = json_.communicate(timeout=600)
    require(json_.returncode == -signal.SIGINT and json.loads(out)["requests"][0]["finish"] == "cancelled", f"--json after a signal: {out[-200:]}")


def interrupted_prompt(folder):
    """Ctrl-C within a prompt does not wait for its end: by what is counted, not by time. The text of what was read is empty."""
    file = folder / "long"
    file.write_text("In the beginning God created the heaven and the earth. " * 400)
    few = ("-m", MODEL, "-f", str(file), "-n", "4", "--ctx", "40960", "--threads", "1", "--batch", "16384", "--step", "16384")
    began = time.monotonic()
    whole = gdn(*few)
    whole_seconds = time.monotonic() - began
    require(whole.returncode == 0, "a long prompt", whole)
    for arguments in ((), ("--stats",)):
        process = started(*few, *arguments)
        while not caught(process) & 1 << (signal.SIGINT - 1):
            time.sleep(0.001)
        time.sleep(whole_seconds / 20)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=600)
        seconds = time.monotonic() - sent
        require(process.returncode == -signal.SIGINT and out == b"\n", f"Ctrl-C within a prompt: {process.returncode}, {out}, {errors}")
        require(seconds < whole_seconds / 3, f"Ctrl-C within a prompt of {whole_seconds} s ends it after {seconds} s")


def bench_progress():
    """A long round of --bench reports progress before it ends."""
    few = ("-m", MODEL, "--bench", "--widths", "1", "-n", "8", "--bench-prompt", "24000", "--threads", "1", "--spec", "off", "--batch", "8192")
    process = started(*few, env=PROGRESS)
    lines = []
    while len(lines) < 3 or not all(line.startswith(b"progress: 1/3") for line in lines[-3:]):
        line = process.stderr.readline()
        if not line:
            break
        lines.append(line)
    process.kill()
    process.communicate()
    require(len(lines) >= 3 and lines[-1].startswith(b"progress: 1/3"), f"progress within a round: {lines}")


def bench_rows():
    """Rows of --bench come as they are measured: before the progress of the next width."""
    done = gdn("-m", MODEL, "-p", PROMPT, "--bench", "--widths", "1,2", "-n", "8", "--bench-prompt", "8", "--threads", "1", stderr=subprocess.STDOUT,
               env=PROGRESS)
    rows = [done.stdout.find(text) for text in (b"progress: 1/6", b"\n       1    off ", b"progress: 4/6", b"\n       2    off ")]
    require(done.returncode == 0 and rows == sorted(rows) and rows[0] >= 0, f"rows before the end: {rows}", done)


def progress():
    """Progress lines on a pipe, for prompts and for texts on another pipe; none within a text."""
    few = ("-m", MODEL, "-p", PROMPT * 4, "-n", "6", "-b", "4", "--ignore-end")
    done = gdn(*few, env=PROGRESS)
    found = done.stderr.decode().splitlines()
    require(len(found) > 6 and all(re.fullmatch(r"progress: \d+/\d+ \(\d+%\) tokens read and generated", line) for line in found), "lines of progress", done)
    require("(100%)" in found[-1], "all of it", done)
    plain = done.stdout
    two = gdn(*few, "-p", PROMPT * 4, "--parallel", "1", env=PROGRESS, stderr=subprocess.STDOUT)
    require(b"progress" not in two.stdout[two.stdout.find(b"==> 1"):] and b"==> 2" in two.stdout, "no line between texts", two)
    done = gdn(*few, env=PROGRESS, stderr=subprocess.STDOUT)
    require(done.stdout.endswith(plain) and b"progress" in done.stdout[:-len(plain)] and b"\r" not in done.stdout and b"\x1b" not in done.stdout,
            "no line within the text", done)
    require(not gdn(*few, env={**os.environ, "GDN_PROGRESS": "off"}).stderr, "no progress")


tool.run_tests(prompts, end_tokens, terminal, habits, reasons, stop_strings, lost, signals, bench_rows, bench_progress, interrupted_prompt, progress)

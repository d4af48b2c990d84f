#!/usr/bin/env python3
"""gdn run --chat as a conversation: turns from pipes, from -p and on a terminal, what is kept from turn to turn, thinking, saving.

    test_talk.py GDN FOLDER [--brief]   GDN is the tool; FOLDER has fixtures/, and the repository's models in ../../models;
                                        --brief: see tool.py
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import tool
from gguf_file import File, value
from tool import BRIEF, MODEL, TOOL, caught, require, started

MOST = "8" if BRIEF else "24"  # tokens of an answer
TURNS = ["Who was Moses?", "And Aaron?", "Blessed are"]
PLAIN = b"{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
TAIL = b"{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n#{% endif %}"
ALWAYS = PLAIN + TAIL.replace(b"#", b"")
SWITCH = PLAIN + TAIL.replace(b"#", b"{{'\n</think>\n\n' if enable_thinking==0}}")


def gdn(*arguments, text=b"", model=MODEL):
    return tool.gdn("-m", model, "--chat", *arguments, text=text)


def talk(*arguments, turns=TURNS, model=MODEL, most=MOST):
    text = "".join(turn + "\n" for turn in turns).encode()
    return tool.report("-m", model, "--chat", "-n", most, *arguments, text=text, otherwise={"turns": []})["turns"]


def tokens(turns):
    return [turn["tokens"] for turn in turns]


def with_template(folder, name, form):
    """The model with another chat template."""
    return File(pathlib.Path(MODEL)).having({"tokenizer.chat_template": value(form)}).write(folder / name)


def refused(says, status, *arguments, text=b"x\n", model=MODEL):
    tool.refused(says, status, "-m", model, "--chat", *arguments, text=text)


def pipes():
    whole = talk()
    require([turn["user"] for turn in whole] == TURNS and all(turn["reasoning"] is None for turn in whole), "a turn for each line")
    single = gdn("-p", TURNS[0], "-n", MOST, "--json")
    require(json.loads(single.stdout)["requests"][0]["tokens"] == whole[0]["tokens"], "the first turn is what -p alone says")
    for before, turn in zip([None] + whole, whole):
        require(turn["kept_tokens"] + turn["read_tokens"] == turn["prompt_tokens"] and turn["kept_tokens"] >= (before["prompt_tokens"] if before else 0),
                f"nothing is read twice: {turn['kept_tokens']} of {turn['prompt_tokens']} tokens are kept")
    for spec in ("off", "ngram"):
        require(tokens(talk("--spec", spec)) == tokens(whole), f"the same with --spec {spec}")
    odd = talk(turns=["", "Who\\", "was Moses?\r", "/clear", TURNS[0], "/exit", "never"])
    require([turn["user"] for turn in odd] == ["Who\nwas Moses?", TURNS[0]] and odd[1]["kept_tokens"] == 0 and odd[1]["tokens"] == whole[0]["tokens"],
            "lines that go on, /clear, /exit, empty lines")
    plain = gdn("-n", MOST, "--stats", text="\n".join(TURNS).encode())
    texts = "".join(turn["text"] + "\n" for turn in whole)
    require(plain.returncode == 0 and plain.stdout.decode() == texts and "3 turns" in plain.stderr.decode(), "texts one after another", plain)
    done = gdn("--ctx", "64", "-n", "-1", "--ignore-end", text=b"Go on.\nAnd on.\n")
    require(done.returncode == 1 and b"the context of 64 tokens is full" in done.stderr and b"the context holds 64" in done.stderr, "a full context is said", done)
    done = gdn("-n", "2", text=b"\xff\0\xc3<|im_end|>\n")
    require(done.returncode == 0, "any bytes", done)


def sampled(folder):
    """A conversation draws its tokens, says how, and ends its answers; options go before the file, and the file before usual values."""
    done = gdn(text=b"Why is the sky blue?\n")
    require(done.returncode == 0 and len(done.stdout.split(b"\n")) == 2 and len(done.stdout) > 4, "an answer ends", done)
    require(done.stderr.startswith(b"gdn run: sampling: temp 0.8, top-k 40, top-p 0.95, min-p 0.05, seed 1\n"), "how tokens are drawn", done)
    usual = ("--temp", "0.8", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05", "--seed", "1")
    require(tokens(talk(*usual)) == tokens(talk()) != tokens(talk("--temp", "0")), "by the usual values")
    endless = gdn("--ctx", "400", "--temp", "0", "--ignore-end", text=b"Hello\nHello\n")
    require(endless.returncode == 0 and endless.stderr.count(b"stopped: the answer has 100 tokens, which is the limit (-n; -1: ") == 2, "answers are limited, which is told", endless)
    single = gdn("--ctx", "400", "--temp", "0", "--ignore-end", "-p", "Hello", "-p", "Moses")
    require(b"text 2 stopped: the answer has 100 tokens" in single.stderr, "also of -p", single)
    plain = tool.gdn("-m", MODEL, "-p", "In the beginning", "-n", "4")
    require(plain.returncode == 0 and not plain.stderr, "a text that is continued is greedy, and -n says its length", plain)
    seeds = {gdn("-s", "-1", "-n", "1", "-p", "x").stderr.split(b"seed ")[1].split(b"\n")[0] for _ in range(3)}
    require(len(seeds) > 1, f"random seeds: {seeds}")
    seed = seeds.pop().decode()
    drawn = ("-n", "8", "-p", "x", "--temp", "1", "--json")
    again = [json.loads(gdn(*drawn, "-s", x).stdout)["requests"][0] for x in (seed, seed)]
    require(again[0]["tokens"] == again[1]["tokens"] and again[0]["seed"] == int(seed), "a seed that was told can be given")

    own = File(pathlib.Path(MODEL)).having({"general.sampling.temp": value(0.5), "general.sampling.top_k": value(7),
                                            "general.sampling.mirostat": value(2)}).write(folder / "own.gguf")
    done = gdn("-n", "2", text=b"x\n", model=own)
    require(b"sampling: temp 0.5, top-k 7, top-p 0.95, min-p 0.05, seed 1; the file's general.sampling.* are the defaults\n" in done.stderr
            and b"note: the key general.sampling.mirostat of the model is not used" in done.stderr, "the file's values", done)
    require(tokens(talk(model=own)) == tokens(talk("--temp", "0.5", "--top-k", "7")) != tokens(talk()), "are drawn with")
    require(tokens(talk("--temp", "0.8", "--top-k", "40", model=own)) == tokens(talk()), "options go before them")


def commands():
    done = gdn("-n", "2", text=b"/help\n")
    require(done.returncode == 0 and b"/clear begins anew" in done.stderr and not done.stdout, "/help", done)
    for wrong in (b"/clear all", b"/exit now", b"/help me", b"/clear\t"):
        done = gdn("-n", "2", text=wrong + b"\n")
        require(done.returncode == 1 and not done.stdout and b"takes nothing behind it" in done.stderr, f"{wrong} is refused", done)
    turns = talk(turns=["/clearly", " /clear all"], most="2")
    require([turn["user"] for turn in turns] == ["/clearly", " /clear all"], "what only begins like a command is a message")


def thinking(folder):
    always, switch = with_template(folder, "always.gguf", ALWAYS), with_template(folder, "switch.gguf", SWITCH)
    plain = talk()
    for model, arguments, thinks, more in ((always, (), True, 0), (switch, (), True, 0), (switch, ("--reasoning", "on"), True, 0), (switch, ("--reasoning", "off"), False, 0)):
        turns = talk(*arguments, model=model)
        require(all((turn["reasoning"] is not None) == thinks for turn in turns), f"{model.name} {arguments}: thinking is {thinks}")
        require(turns[0]["prompt_tokens"] > plain[0]["prompt_tokens"], "the template's tail is there")
        kept = [turn["kept_tokens"] for turn in turns]
        require(all(kept[i] >= plain[0]["prompt_tokens"] for i in (1, 2)), f"what was before the answer is kept: {kept}")
        shown = gdn("-n", "8", *arguments, text=b"x\n", model=model)
        require(shown.stdout.startswith(b"<think>\n") == thinks, "the block's opening is shown", shown)
    refused("no switch", 1, "--reasoning", "off", model=always)
    refused("no switch", 1, "--reasoning", "on")
    refused("its answers always begin without thinking", 1, "--reasoning", "on")
    refused("its answers always begin with thinking", 1, "--reasoning", "off", model=always)
    for model, given in ((MODEL, "off"), (always, "on")): # as the template is anyway
        require(tokens(talk("--reasoning", given, model=model)) == tokens(talk(model=model)), f"--reasoning {given} where there is no other way")
    refused("both set enable_thinking", 2, "--reasoning", "on", "--chat-template-kwargs", '{"enable_thinking": false}')
    for form, says in ((b"{{ messages|tojson(2) }}", "the filter tojson"), (b"{% include 'x' %}", "line 1: this tag is not known here"), (b"hello", "a message of 1 byte as 0"),
                       (b"{% for m in messages %}<|user|>{{ m.content }}{% endfor %}", "no <|user|>"), (b"{{ '\x1b[31m' }}\0", "NUL byte")):
        refused(says, 1, model=with_template(folder, "other.gguf", form))


def given_template(folder):
    """--chat-template is in the place of the file's, whatever that is."""
    form, model = folder / "form.jinja", with_template(folder, "always.gguf", ALWAYS)
    form.write_bytes(ALWAYS)
    want = tokens(talk(model=model))
    without = File(pathlib.Path(MODEL)).having({"tokenizer.chat_template": None, "tokenizer.chat_templatx": value(PLAIN)}).write(folder / "without.gguf")
    refused("--chat-template gives one", 1, model=without)
    for other in (MODEL, without, with_template(folder, "refused.gguf", b"{{ messages|tojson(2) }}")):
        require(tokens(talk("--chat-template", form, model=other)) == want, f"--chat-template with {other}")
    refused("--chat-template gives another", 1, model=folder / "refused.gguf")
    refused("no switch", 1, "--chat-template", form, "--reasoning", "off")
    done = gdn("-n", "2", "--chat-template", form, text=b"x\n", model=without)
    require(b"note: the key tokenizer.chat_templatx of the model is not used" in done.stderr, "a note", done)
    require(b"note" not in gdn("-n", "2", text=b"x\n").stderr, "no note")
    for bad, says in ((b"{{ messages|tojson(2) }}", "the filter tojson"), (b"", "a message of 1 byte as 0"), (b"x" * ((1 << 20) + 9), "at most 1048576")):
        form.write_bytes(bad)
        refused(says, 1, "--chat-template", form)
    refused("--chat-template: cannot open", 1, "--chat-template", str(folder / "none"))
    refused("--chat-template: cannot read", 1, "--chat-template", str(folder))


def dependent_turns(folder):
    """A turn that the template takes behind another one only: texts of -p are turns where they are a conversation."""
    form = PLAIN.replace(b"{% for", b"{% set ns = namespace(asked=false) %}{% for m in messages %}{% if not m.content.startswith('<r>') %}"
                         b"{% set ns.asked = true %}{% endif %}{% endfor %}{% if not ns.asked %}{{ raise_exception('nobody asked') }}{% endif %}{% for")
    model, saved, both = with_template(folder, "asks.gguf", form), str(folder / "asked"), ["2 + 3?", "<r>5</r>"]
    piped = talk(model=model, turns=both, most="4")
    require(tokens(talk("--save", saved, "-p", both[0], "-p", both[1], model=model, turns=[], most="4")) == tokens(piped) and len(piped) == 2, "turns by -p are those by lines")
    refused("it refuses this conversation: nobody asked; each prompt begins a conversation of its own, and --save", 1, "-p", both[0], "-p", both[1], model=model)
    refused("turn 1: the chat template, line 1: it refuses this conversation: nobody asked", 1, "--save", saved, "-p", both[1], model=model)
    done = gdn("-n", "2", text=b"x\n/clear\n<r>5</r>\n", model=model)
    require(done.returncode == 1 and b"turn 2: the chat template, line 1: it refuses this conversation: nobody asked" in done.stderr, "the turn is named", done)


def saving(folder):
    whole, saved = talk(), str(folder / "saved")
    first = talk("--save", saved, turns=TURNS[:2])
    require(tokens(first) == tokens(whole)[:2], "saving changes nothing")
    last = talk("--load", saved, "-p", TURNS[2], turns=[])
    require(tokens(last) == tokens(whole)[2:] and last[0]["kept_tokens"] == whole[2]["kept_tokens"], "it goes on as if there had been no break")
    again = talk("--load", saved, "--save", saved, turns=TURNS[2:])
    require(tokens(again) == tokens(whole)[2:], "from standard input too")
    blocks, q8_0 = str(folder / "blocks"), ("--kv", "q8_0")
    whole = talk(*q8_0)
    talk(*q8_0, "--save", blocks, turns=TURNS[:2])
    last = talk(*q8_0, "--load", blocks, turns=TURNS[2:])
    require(tokens(last) == tokens(whole)[2:] and last[0]["kept_tokens"] == whole[2]["kept_tokens"], "with cells in Q8_0")
    refused("another type of KV cells", 1, "--load", blocks)
    require(not list(folder.glob("*.part")) + list(folder.glob("*.lock")), "no parts are left behind")
    with open(folder / "saved.lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused("another gdn is using this file", 1, "--load", saved, "--save", saved)
    data = pathlib.Path(saved).read_bytes()
    for bad, says in ((b"", "no saved conversation"), (data[:-9], "the saved state has"), (data[:60] + b"\xff" + data[61:], "damaged"), (b"x" * 500, "no saved conversation"),
                      (data[:-1] + bytes([data[-1] ^ 1]), "the checksum of number 0 is wrong"), (b"GDNTALK1" + data[8:], "an older release saved the conversation")):
        (folder / "bad").write_bytes(bad)
        refused(says, 1, "--load", str(folder / "bad"))
    refused("another chat template", 1, "--load", saved, model=with_template(folder, "form.gguf", ALWAYS))
    refused("the context holds 40", 1, "--load", saved, "--ctx", "40")
    refused("No such file", 1, "--load", str(folder / "none"))
    refused("No such file", 1, "--save", str(folder / "none/x"))
    link, pipe = folder / "link", folder / "pipe"
    link.symlink_to("blocks")
    (folder / "dangling").symlink_to("none")
    os.mkfifo(pipe)
    talk("--save", str(link), turns=TURNS[:1])
    require(link.is_symlink() and len(talk("--load", blocks, turns=TURNS[1:2])) == 1, "a link stays, and the file that it names is replaced")
    with open(folder / "blocks.lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused("another gdn is using this file", 1, "--save", str(link))
    for name, says in ((pipe, "it is no regular file"), (folder, "it is no regular file"), (folder / "dangling", "No such file"), ("", "No such file")):
        refused(f"gdn run: {name}: {says}", 1, "--save", str(name))
    require(pipe.is_fifo() and not list(folder.glob("*.part")) + list(folder.parent.glob(f"{folder.name}*.lock")), "what is no file stays")
    refused("has its own", 2, "--load", saved, "--system", "x")
    of_another_model(folder, saved)


def of_another_model(folder, saved):
    """Models of the same shapes that compute or read something else."""
    whole = File(pathlib.Path(MODEL))
    name = next(name for name in whole.tensors if name.endswith("ffn_up.weight"))
    ne, kind, weights = whole.tensors[name]
    blocks = bytearray(weights)
    blocks[len(blocks) * 3 // 7] ^= 1  # one bit
    merges = whole.strings("tokenizer.ggml.merges")
    other = [merges[1], merges[0], *merges[2:]]
    epsilon = {"attention.layer_norm_rms_epsilon": 2e-6}
    cases = ((whole.but({"rope.freq_base": 20000.0}), "whose hyperparameters differ"), (whole.but(epsilon), "whose hyperparameters differ"),
             (whole.but({"attention.scale": 0.5}), "whose hyperparameters differ"), (whole.having(tensors={name: (ne, kind, bytes(blocks))}), "whose weights differ"),
             (whole.having({"tokenizer.ggml.merges": value(other)}), "whose tokenizer differs"),
             (whole.but(epsilon, {name: (ne, kind, bytes(blocks))}), "whose hyperparameters and weights differ"))
    for model, says in cases:
        refused(f"the state was saved with another model, {says}", 1, "--load", saved, model=model.write(folder / "other.gguf"))
    again = whole.having(tensors={name: None})
    again.tensors[name] = whole.tensors[name] # in another order
    again.keys = dict(reversed(whole.keys.items()))
    done = gdn("--load", saved, "-n", "2", text=b"x\n", model=again.write(folder / "again.gguf"))
    require(done.returncode == 0, "the order of keys and tensors does not matter", done)
    done = gdn("--load", saved, "-n", "2", text=b"x\n", model=whole.but({"context_length": 4096}).write(folder / "again.gguf"))
    require(done.returncode == 0, "nor does the context of a model without YaRN", done)


def arguments():
    for says, given in (("--parallel is 2", ("--parallel", "2")), ("--stop is for texts", ("--stop", "x")), ("--special is for texts", ("--special",)),
                        ("--reasoning is 'maybe'", ("--reasoning", "maybe")), ("--step is for texts", ("--step", "4"))):
        refused(says, 2, *given)
    for name in ("--save", "--load", "--reasoning", "--chat-template"):
        done = tool.gdn("-m", MODEL, name, "off", "-p", "x")
        require(done.returncode == 2 and f"{name} needs --chat".encode() in done.stderr, f"{name} needs --chat", done)


def terminal(folder):
    """Ctrl-C stops the answer and not the program; where a message is waited for it ends the conversation, which is saved."""
    saved = folder / "typed"
    ours, theirs = pty.openpty()
    process = subprocess.Popen([TOOL, "run", "-m", MODEL, "--chat", "--ctx", "2048", "-n", "-1", "--ignore-end", "--stats", "--save", str(saved)], stdin=theirs, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
    os.close(theirs)

    def wait_for(what):
        seen = b""
        while what not in seen:
            part = os.read(process.stderr.fileno(), 4096)
            if not part:
                break
            seen += part
        return seen

    seen = wait_for(b"> ")
    require(b"Ctrl-C stops an answer" in seen, "someone who types is told how")
    for message in (b"Go on.\n", b"And on.\n"):
        os.write(ours, message)
        require(len(os.read(process.stdout.fileno(), 64)) > 0, "an answer begins")
        os.write(ours, b"\x03")
        part = b" "
        while part and not part.endswith(b"\n"): # until the line end behind the text, or the program's end
            part = os.read(process.stdout.fileno(), 65536)
        wait_for(b"> ")
    os.write(ours, b"\x03")
    out, err = process.communicate()
    require(process.returncode == -signal.SIGINT and b"2 turns" in err and saved.exists(), f"status {process.returncode}: {err[-300:]}")
    os.close(ours)
    done = talk("--load", str(saved), turns=["x"], most="4")
    require(len(done) == 1 and done[0]["kept_tokens"] > 0, "what was said until then is there")


class Typed:
    """gdn run --chat on a terminal, whose conversation is saved. bare: standard error is a pipe, so libedit does not read the lines,
    unless standard output is the terminal (out). by: a shell."""

    def __init__(self, folder, *arguments, size=(24, 80), bare=False, out=False, by=()):
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        self.before, self.seen, self.saved, self.bare = termios.tcgetattr(self.theirs), b"", folder / "typed", bare
        self.saved.unlink(missing_ok=True)
        self.process = subprocess.Popen([*by, TOOL, "run", "-m", MODEL, "--chat", "-n", "1", "--temp", "0", "--save", str(self.saved), *map(str, arguments)], stdin=self.theirs,
                                        stdout=self.theirs if out else subprocess.DEVNULL, stderr=subprocess.PIPE if bare else self.theirs, start_new_session=True, preexec_fn=self.control,
                                        env={**os.environ, "TERM": "xterm"})
        self.written = [self.ours, *([self.process.stderr] if bare else [])]
        self.wait_for(b"> ")

    @staticmethod
    def control():
        """The terminal is the process's own, and its signals have their default actions."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)

    def read(self, keys=b""):
        """Types some of the keys, and reads what is written. Returns the rest of the keys; None: the process has ended."""
        ended = self.process.poll() is not None
        readable, writable, _ = select.select(self.written, [self.ours] if keys else [], [], 0.05)
        for file in readable:
            part = os.read(file if file == self.ours else file.fileno(), 65536)
            self.seen += part
            ended &= not part
        if ended:
            return None
        if writable:
            with contextlib.suppress(BlockingIOError):
                keys = keys[os.write(self.ours, keys[:500]):]
        return keys

    def wait_for(self, what):
        while what not in self.seen and self.read() is not None:
            pass

    def type(self, keys):
        """All of them, and returns the user's messages when the process has ended."""
        while keys is not None:
            keys = self.read(keys)
        return self.messages()

    def messages(self):
        data, said, at = self.saved.read_bytes(), [], 32
        for _ in range(struct.unpack_from("<i", data, 24)[0]):
            role, _, n, n_reasoning = struct.unpack_from("<iiQQ", data, at)
            said += [data[at + 24:at + 24 + n]] * (role == 1)
            at += 24 + n + n_reasoning
        return said

    def restored(self):
        return termios.tcgetattr(self.theirs) == self.before and self.seen.rfind(b"\x1b[?2004l") >= self.seen.rfind(b"\x1b[?2004h")

    def end(self, what, status):
        while self.read() is not None:
            pass
        require(self.process.wait() == status and self.restored(), f"{what}: {self.process.returncode} {termios.tcgetattr(self.theirs)} {self.before} {self.seen[-300:]}")
        os.close(self.ours)
        os.close(self.theirs)


def edited(folder):
    """Lines that libedit reads: long ones, also while an answer is made; pastes, any bytes, the history."""
    long = b"word " * 3999 + b"last!"
    for keys, want in ((long + b"\n", [long]), (b"\x1b[200~" + long[-6000:] + b"\r\n\x1b[201~end\n", [long[-6000:] + b"\nend"]), (b"one\\\ntwo\n", [b"one\ntwo"]),
                       (b"\x1b[200~one\r\ntwo\rthree\n\0\x1b[201~\n", [b"one\ntwo\nthree\n\0"]), ("aé日\x7f\x7fb\tc\x01d\n".encode(), [b"dab\tc"]),
                       (b"one\ntwo\n\x1b[A\x1b[A\n", [b"one", b"two", b"one"]), (b"a\xff\xfe\xe2\x82b\xc3\n", [b"a\xff\xfe\xe2\x82b\xc3"]),
                       ("\x9b\xa0ÿ\U0001f600\ud7ff\ue000\n".encode(), ["\x9b\xa0ÿ\U0001f600\ud7ff\ue000".encode()])):
        for size in ((24, 80), (1, 1))[:1 if len(keys) > 999 else 2]:
            typed = Typed(folder, "-c", 40000, size=size)
            said = typed.type(keys + b"/exit\n")
            require(said == want, f"{keys[:40]} is {[m[:40] for m in said]}")
            typed.end("/exit", 0)
    typed = Typed(folder, "-c", 40000)
    typed.type(b"\x1b[200~an\xff old\nmessage\x1b[201~\n/exit\n")
    typed.saved.rename(folder / "loaded")
    typed.end("/exit", 0)
    typed = Typed(folder, "-c", 40000, "--load", folder / "loaded")
    require(typed.type(b"\x1b[A\n/exit\n") == [b"an\xff old\nmessage"] * 2, "the history of a conversation that was loaded")
    typed.end("/exit", 0)
    typed = Typed(folder, "-c", 40000, bare=True, out=True)
    require(typed.type(b"early " * 900 + b"\n/exit\n") == [b"early " * 900], "lines that are drawn on standard output")
    typed.end("/exit", 0)
    typed = Typed(folder, "-c", 40000)
    keys = long[-6000:] + b"\n"
    while keys or not termios.tcgetattr(typed.theirs)[3] & termios.IEXTEN: # which libedit turns off while it reads
        keys = typed.read(keys)
    said = typed.type(b"early " * 1500 + b"\n/exit\n")
    require(said == [long[-6000:], b"early " * 1500], f"what is typed while an answer is made: {[len(m) for m in said]}")
    typed.end("/exit", 0)


def terminal_modes(folder):
    """The terminal has its modes back where the program ends or stops."""
    for keys, status in ((b"\x04", 0), (b"half\x03", -signal.SIGINT), (b"half\x1c", -signal.SIGQUIT), (b"\x1b[200~half\x03", -signal.SIGINT)):
        typed = Typed(folder)
        require(not typed.restored(), "libedit reads")
        os.write(typed.ours, keys)
        typed.end(f"{keys}", status)
    for number in (signal.SIGTERM, signal.SIGHUP):
        typed = Typed(folder)
        typed.process.send_signal(number)
        typed.end(f"signal {number}", -number)
    typed = Typed(folder, by=("sh", "-mc", '"$@"; read next; fg', "sh"))
    os.write(typed.ours, b"half")
    typed.wait_for(b"half")
    os.write(typed.ours, b"\x1a") # Ctrl-Z
    while not typed.restored() and typed.read() is not None:
        pass
    require(typed.restored(), "a program that is stopped leaves the terminal as it was")
    os.write(typed.ours, b"\n")
    while not typed.seen.endswith(b"half"): # drawn again
        typed.read()
    require(typed.type(b"-typed\n/exit\n") == [b"half-typed"], "the line goes on")
    typed.end("after Ctrl-Z", 0)
    for stop in ("TSTP", "STOP"): # the end of a stopped program, as by a shell's `kill %1`
        typed = Typed(folder, by=("sh", "-mc", '"$@"; stty -echo; kill -TERM %1; kill -CONT %1; i=0; while kill -0 %1 && [ $i -lt 100 ]; do sleep .1; i=$((i+1)); done; stty -a; kill -KILL %1; exec true', "sh"), out=True)
        os.killpg(os.tcgetpgrp(typed.ours), getattr(signal, f"SIG{stop}"))
        while typed.read() is not None:
            pass
        require(typed.process.wait() == 0 and typed.saved.exists() and b" -echo " in typed.seen, f"ended in the background after SIG{stop}: {typed.seen[-300:]}")
    typed = Typed(folder) # two signals before it does anything about the first: it ends at once
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        typed.process.send_signal(number)
    status = typed.process.wait()
    require(status in (-signal.SIGTERM, -signal.SIGINT) and not typed.saved.exists(), f"the second signal ends the program: {status}")
    typed.end("two signals", status)


def bare_terminal(folder):
    """Without libedit a line that the terminal may have cut is refused; one that goes on, and one of the limit, is a message."""
    typed = Typed(folder, "-c", 40000, bare=True)
    said = typed.type(b"a" * 5000 + b"\n" + b"b" * 4094 + b"\n" + b"c" * 4093 + b"\\\nd\n/exit\n")
    require(said == [b"b" * 4094, b"c" * 4093 + b"\nd"] and typed.seen.count(b"at most 4094 bytes") == 1, f"the limit of a line: {[m[:9] for m in said]} {typed.seen[-300:]}")
    typed.end("a bare terminal", 0)


def ended(folder):
    """A signal while a message is waited for on a pipe ends the conversation, which is saved, before and behind a turn."""
    for turns, number in ((0, signal.SIGTERM), (1, signal.SIGTERM), (0, signal.SIGHUP), (1, signal.SIGHUP)):
        saved = folder / f"ended{turns}{number}"
        process = subprocess.Popen([TOOL, "run", "-m", MODEL, "--chat", "-n", "4", "--stats", "--save", str(saved)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        if turns:
            process.stdin.write(b"Go on.\n")
            process.stdin.flush()
            process.stdout.readline()
        else:
            while not caught(process) & 1 << (number - 1):
                time.sleep(0.01)
        for each in (signal.SIGSTOP, number, signal.SIGHUP, signal.SIGCONT): # SIGHUP is never the second signal: shells and terminals send it too
            process.send_signal(each)
        out, err = process.communicate()
        require(process.returncode == -number and f"{turns} turns".encode() in err and saved.exists(), f"{number} behind {turns} turns: {process.returncode} {err[-300:]}")


tool.run_tests(pipes, sampled, commands, thinking, given_template, dependent_turns, saving, arguments, terminal, bare_terminal, ended,
               *((edited, terminal_modes) if os.environ.get("GDN_HAVE_LIBEDIT") == "ON" else ()))

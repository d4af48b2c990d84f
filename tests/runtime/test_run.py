#!/usr/bin/env python3
"""gdn run, as people and programs use it: texts, drafts, widths, backends, errors. How it ends is in test_run_ends.py.

    test_run.py GDN FOLDER [--brief]   GDN is the tool; FOLDER has fixtures/, and the repository's models in ../../models;
                                       --brief: see tool.py
"""
import json
import pathlib
import re
import subprocess

import oracle
import tool
from tool import BRIEF, FOLDER, MODEL, TOOL, gdn, refused, require, said

PROMPTS = ["In the beginning", "And the LORD spake unto Moses, saying,", "Blessed are", "And it came to pass in those days, that",
           "The words of the wise"]
MOST = 12 if BRIEF else 40  # tokens of a text
FEW = 12 if BRIEF else 24


def generate(*arguments, prompts=PROMPTS, most=MOST):
    """The report of --json."""
    given = [part for prompt in prompts for part in ("-p", prompt)]
    none = dict.fromkeys(("drafted", "accepted", "rollbacks"), 0)
    return tool.report("-m", MODEL, *given, "-n", most, *arguments, otherwise={"requests": [], **none})


def tokens(report):
    return [request["tokens"] for request in report["requests"]]


def backends(emulated=False):
    """Names of those that are available, with or without the emulated ones, which are slow."""
    done = subprocess.run([TOOL, "info", "--json"], capture_output=True, check=True)
    return [backend["name"] for backend in json.loads(done.stdout)["backends"] if backend.get("available")
            and (emulated or not any(device["emulated"] for device in backend["devices"]))]


def few_transfers(report, model, name):
    """A step's maps, and per recurrent layer the projections' output and the layer's; each layer's weights at the start."""
    if not report:
        return
    steps, launches, transfers = (report["counters"][key] for key in ("steps", "recurrent_launches", "transfers"))
    require(launches % steps == 0, f"{model} on {name}: {launches} launches in {steps} steps")
    expected = 0 if name in ("cpu", "reference") else launches // steps + steps + 2 * launches
    require(transfers == expected, f"{model} on {name}: {transfers} transfers in {steps} steps, not {expected}")


def same_on_every_backend():
    """A tiny model of each architecture, drafting and rolling back, with states on every device there is."""
    names = backends(emulated=True)
    for model in ("tiny-qwen35", "tiny-qwen35moe", "tiny-qwen3next"):
        results = {}
        for name in names:
            spec = "ngram" if model == "tiny-qwen3next" else "mtp"
            report = tool.report("-m", FOLDER / f"fixtures/{model}.gguf", "-p", "abcabcabcabc", "-p", "a", "-p", "xyz", "-n", "16", "--temp", "0.8",
                       "--spec", spec, "--always-draft", "--backend", name, "--batch", "8", "--ignore-end", otherwise=None)
            results[name] = tokens(report) if report else None
            few_transfers(report, model, name)
        require(len(results) >= 2 and all(result == results["cpu"] for result in results.values()), f"{model}: the same on {', '.join(names)}")
    print("the same tokens on", ", ".join(names))
    starts_on_every_backend(names)


def starts_on_every_backend(names):
    """Prompts that begin alike, one after another and side by side: checkpoints are written on the device, by the same launches and
    transfers, and read there."""
    common = ("-m", str(FOLDER / "fixtures/tiny-qwen35.gguf"), "-p", "abcabcabcabcx", "-p", "abcabcabcabcyz", "-p", "abcabcabcabcx", "-n", "5",
              "--temp", "0.8", "--spec", "mtp", "--always-draft", "--batch", "5", "--ignore-end")
    plain = tool.report(*common, otherwise={"requests": []})
    for name in names:
        report = tool.report(*common, "--backend", name, "--prefix-cache", "1", "--prefix-interval", "4", "--parallel", "2", otherwise=None)
        require(report and tokens(report) == tokens(plain), f"--prefix-cache on {name}: the tokens without it")
        require(report and report["prefix_tokens"] == 24 and report["prompt_tokens"] == 16, f"--prefix-cache on {name}: what was not read")
        few_transfers(report, "with prefixes", name)


def same_streams():
    samplers = (["--temp", "0"], ["--temp", "0.9", "--top-k", "40", "--top-p", "0.95", "--repeat-penalty", "1.1", "--seed", "7"])
    for number, sampler in enumerate(samplers):
        plain = generate("--spec", "off", "--parallel", "1", *sampler)
        require(all(len(t) == MOST for t in tokens(plain)), f"{MOST} tokens each")
        ways = [["--spec", "mtp", "--parallel", "1", "--always-draft"], ["--spec", "mtp", "--draft-max", "5", "--always-draft"],
                ["--spec", "ngram", "--parallel", "2", "--always-draft"],
                ["--spec", "mtp", "--draft-vocab", "300", "--always-draft"],
                ["--spec", "mtp", "--rollback", "snapshots", "--always-draft", "--draft-max", "4"],
                ["--spec", "ngram", "--rollback", "log", "--always-draft", "--draft-max", "64"], ["--spec", "off", "--parallel", "5", "--threads", "1"],
                ["--spec", "auto", "--parallel", "3", "--batch", "7", "--step", "9"], ["--spec", "off", "--isa", "avx2", "--impl", "avx2"],
                ["--spec", "mtp", "--isa", "scalar", "--impl", "scalar"],
                ["--parallel", "2", "--draft-max", "4", "--p-min", "0.1"]]
        ways += [["--backend", name, "--spec", "mtp"] for name in backends() if name not in ("cpu",)]
        for way in ways[number::len(samplers)] if BRIEF else ways:
            if "avx2" in way and not has_avx2():
                continue
            report = generate(*way, *sampler)
            require(tokens(report) == tokens(plain), f"{' '.join(way + sampler)}: the tokens of plain decoding")
            if "mtp" in way and "--always-draft" in way:
                require(report["accepted"] > 0 and report["rollbacks"] > 0, "drafts are accepted, and some are not")
    few = generate("--spec", "off", "--parallel", "1", prompts=PROMPTS[1:2])
    require(tokens(few)[0] == tokens(generate("--spec", "off", "--temp", "0"))[1], "one request alone reads as among others")


def kv_types():
    """With --kv q8_0 a text is the same however it is decoded, and KV cells take 34 bytes where those of F16 take 64."""
    kv = ("--kv", "q8_0")
    plain, f16 = (generate(*given, "--spec", "off", "--parallel", "1", "--threads", "1") for given in (kv, ()))
    require(64 * plain["memory_bytes"]["kv"] == 34 * f16["memory_bytes"]["kv"] > 0, "memory of cells in Q8_0")
    ways = [("--spec", "mtp", "--always-draft", "--isa", "scalar"), ("--spec", "ngram", "--parallel", "3", "--batch", "7", "--threads", "2"),
            ("--spec", "off", "--parallel", "5", "--prefix-cache", "64", "--prefix-interval", "2")]
    ways += [("--isa", "avx2", "--spec", "off")] if has_avx2() else []
    for way in ways:
        require(tokens(generate(*kv, *way)) == tokens(plain), f"{' '.join(kv + way)}: the tokens of plain decoding")


def has_avx2():
    return pathlib.Path("/proc/cpuinfo").exists() and " avx2 " in pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1]


def text_and_files(folder):
    most = ("-n", str(FEW))
    one = gdn("-m", MODEL, "-p", PROMPTS[0], *most, "--stats")
    require(one.returncode == 0 and len(one.stdout) > 20, "text on standard output", one)
    for word in ("prompts", "generation", "drafts", "memory", "snapshots"):
        require(word in one.stderr.decode(), f"--stats says '{word}'", one)
    file = folder / "prompt.txt"
    file.write_text(PROMPTS[0])
    for done in (gdn("-m", MODEL, "-f", str(file), *most), gdn("-m", MODEL, *most, text=PROMPTS[0].encode()),
                 gdn("-m", MODEL, "-f", "-", *most, text=PROMPTS[0].encode())):
        require(done.stdout == one.stdout and not said(done), "the same text from a file and from standard input", done)
    both = gdn("-m", MODEL, "-p", PROMPTS[0], "-p", PROMPTS[1], *most)
    other = gdn("-m", MODEL, "-p", PROMPTS[1], *most)
    headers = [f"==> {i + 1}: {PROMPTS[i]} <==\n".encode() for i in range(2)]
    require(both.stdout == headers[0] + one.stdout + b"\n" + headers[1] + other.stdout, "texts of several prompts below their headers", both)
    named = gdn("-m", MODEL, "-f", str(file), "-p", "x\ny" * 20, "--parallel", "3", "-n", "1", "--temp", "1", "--seed", "5").stdout.decode()
    headers = re.findall("^==> .*$", named, flags=re.MULTILINE)
    require(headers == [f"==> 1: {('x y' * 20)[:48]}... <==", f"==> 2: {file} <==", f"==> 3: {('x y' * 20)[:48]}..., seed 6 <=="],
            f"headers of files, long prompts and seeds: {headers}")
    many = json.loads(gdn("-m", MODEL, "-p", PROMPTS[0], "--parallel", "3", *most, "--temp", "1", "--json").stdout)
    require(len({tuple(t) for t in tokens(many)}) == 3, "a prompt that is repeated gets other seeds")
    require([request["seed"] for request in many["requests"]] == [1, 2, 3], "seeds in the report")
    require(many["generated_tokens"] == sum(len(t) for t in tokens(many)) == 3 * FEW, "generated_tokens counts all of them")
    chat = gdn("-m", MODEL, "--chat", "--system", "Be brief.", "-p", "Who was Moses?", "-n", "8", "--json")
    require(chat.returncode == 0 and json.loads(chat.stdout)["requests"][0]["prompt_tokens"] > 10, "--chat", chat)
    bench = gdn("-m", MODEL, "--bench", "--widths", "1,3", "-n", "16", "--bench-prompt", "16", "--json", "-p", PROMPTS[3])
    require(bench.returncode == 0, "--bench", bench)
    if bench.returncode == 0:
        report = json.loads(bench.stdout)
        rows = report["results"]
        ways = [("off", None)] + [(spec, way) for spec in ("mtp", "ngram") for way in ("snapshots", "log")]
        require([(row["parallel"], row["spec"], row.get("rollback")) for row in rows] == [(w, *way) for w in (1, 3) for way in ways],
                "rows of --bench")
        require(all(row["generated_tokens_per_second"] > 0 and row["prompt_tokens_per_second"] > 0 for row in rows), "speeds of --bench")


def memory():
    off = generate("--spec", "off", prompts=PROMPTS[:2])["memory_bytes"]
    on = generate("--spec", "mtp", "--draft-max", "3", "--rollback", "snapshots", prompts=PROMPTS[:2])["memory_bytes"]
    log = generate("--spec", "mtp", "--draft-max", "3", prompts=PROMPTS[:2])
    require(log["rollback"] == "log", "a log is the default")
    log = log["memory_bytes"]
    require(off["snapshots"] == off["log"] == on["log"] == 0, "no snapshots and no log where nothing is drafted")
    require(log["state"] == on["state"] and 0 < log["log"] < log["state"] and log["snapshots"] * 9 < on["snapshots"],
            f"a log has one state of a sequence, and columns: {log}")
    require(on["state"] == off["state"] and on["snapshots"] >= 3 * on["state"], "three more snapshots of every state")
    ngram = generate("--spec", "ngram", "--draft-max", "3", prompts=PROMPTS[:2])["memory_bytes"]
    require(off["hidden"] == ngram["hidden"] == 0 < on["hidden"], "hidden rows for the MTP block alone")
    require(off["weights"] == ngram["weights"] < on["weights"] and off["kv"] == ngram["kv"] < on["kv"], f"without the MTP block: {off}, {on}")


def small_pool():
    """Five texts in cells for one or two: side by side as far as they go, and the same as with room for all."""
    context, cells = (40, 52) if BRIEF else (100, 130)
    few = ("--ctx", str(context), "--temp", "0.7", "--seed", "3", "--ignore-end", "--spec")
    wide = generate(*few, "off", most=2040)
    require(wide["cells"] == 5 * context and wide["preemptions"] == wide["reread_tokens"] == 0, f"cells for all: {wide.get('cells')}")
    for way in (("off",), ("mtp", "--always-draft"), ("ngram", "--always-draft", "--batch", "5")):
        small = generate(*few, *way, "--cells", str(cells), most=2040)
        require(tokens(small) == tokens(wide), f"{way}: the same tokens in a small pool")
        require(all(request["finish"] == "context" for request in small["requests"]), f"{way}: all contexts are full")
        require(small["cells"] == cells and small["memory_bytes"]["kv"] < wide["memory_bytes"]["kv"], f"{way}: a small pool")
        given = [request["preempted"] for request in small["requests"]]
        require(given[0] == 0 and 0 < sum(given) == small["preemptions"] <= small["reread_tokens"], f"{way}: {given}, {small['preemptions']}")
    first = gdn("-m", MODEL, "-p", "x", "-p", "y", "-n", str(context * 3 // 5), "--ctx", str(context), "--cells", str(context + 1), "--ignore-end", "--stats")
    require(re.search(rf"^cells       {context + 1}; [1-9]\d* requests gave theirs to others, [1-9]\d* tokens were read again for it$", first.stderr.decode(), re.M),
            "--stats counts them", first)
    refused("--cells is 99; 100 are needed for one sequence (--ctx)", 2, "-m", MODEL, "-p", "x", "--ctx", "100", "--cells", "99")
    refused("--cells is -1", 2, "-m", MODEL, "-p", "x", "--cells", "-1")


def prefixes():
    """What prompts have in common is read once; the texts are those without a cache. --stats and --json say how much that was."""
    head = PROMPTS[0] * 8
    prompts = [head + text for text in PROMPTS[:4]] + [head]
    most = 4 if BRIEF else 12
    for way in (("--spec", "off", "--parallel", "1"), ("--spec", "mtp", "--always-draft", "--parallel", "5", "--temp", "0.8"),
                ("--spec", "ngram", "--always-draft", "--parallel", "3", "--batch", "7", "--cells", "400", "--ctx", "300")):
        plain = generate(*way, prompts=prompts, most=most)
        kept = generate(*way, "--prefix-cache", "64", "--prefix-interval", "16", prompts=prompts, most=most)
        require(tokens(kept) == tokens(plain), f"{way}: --prefix-cache changes no text")
        require(plain["prefix_tokens"] == plain["prefixes"]["most"] == plain["memory_bytes"]["prefixes"] == 0, f"{way}: none without it")
        found = [request["prefix_tokens"] for request in kept["requests"]]
        require(found == [0, 32, 32, 32, 16], f"{way}: of 32 tokens in common all, and 16 where there are no more: {found}")
        require(kept["prefix_tokens"] == sum(found), f"{way}: their sum")
        if not kept["preemptions"]:
            require(kept["prompt_tokens"] + sum(found) == plain["prompt_tokens"], f"{way}: tokens are read, or kept")
        cache, memory_bytes = kept["prefixes"], kept["memory_bytes"]
        require(cache["interval"] == 16 and 0 < cache["kept"] <= cache["most"] and cache["kept"] <= cache["written"], f"{way}: {cache}")
        require(0 < memory_bytes["prefixes"] <= 64 << 20, f"{way}: no more than 64 MiB")
    one = generate("--spec", "off", "--parallel", "1", "--prefix-cache", "64", "--prefix-interval", "4000", prompts=prompts, most=2)
    require(one["prefix_tokens"] == 0, "an interval longer than all prompts")
    done = gdn("-m", MODEL, "-p", head, "-p", head, "-n", "2", "--parallel", "1", "--spec", "off", "--prefix-cache", "2", "--prefix-interval", "9",
               "--stats")
    require(re.search(r"^prefixes    [1-9]\d* tokens were not read again; [1-9]\d* kept in [1-9]\d* cells, of [1-9]\d* at most, one every 9 "
                      r"tokens; [1-9]\d* written, \d+ gave way$", done.stderr.decode(), re.M), "--stats has a line of them", done)
    refused("--prefix-cache is -1", 2, "-m", MODEL, "-p", "x", "--prefix-cache", "-1")
    refused("--prefix-interval is 0", 2, "-m", MODEL, "-p", "x", "--prefix-cache", "1", "--prefix-interval", "0")
    refused("--prefix-cache is for texts", 2, "-m", MODEL, "--bench", "--prefix-cache", "1")
    refused("not enough memory", 1, "-m", MODEL, "-p", "x", "--ctx", "60000", "--prefix-cache", "2000", "--prefix-interval", "8", "--memory", "900")


def errors(folder):
    fixtures = FOLDER / "fixtures"
    refused("which model", 2)
    refused("no file", 1, "-m", str(folder / "nothing.gguf"), "-p", "x")
    whole = pathlib.Path(MODEL).read_bytes()
    (folder / "arch.gguf").write_bytes(whole.replace(b"qwen35", b"llama9"))
    refused("general.architecture", 1, "-m", str(folder / "arch.gguf"), "-p", "x")
    refused("not enough memory", 1, "-m", MODEL, "-p", "x", "--memory", "1")
    refused("the context holds 16", 1, "-m", MODEL, "-p", "word " * 40, "--ctx", "16", "--spec", "off")
    refused("prompt 1 is empty", 1, "-m", MODEL, "-p", "")
    refused("no MTP block", 1, "-m", str(fixtures / "tiny-qwen3next.gguf"), "-p", "x", "--spec", "mtp")
    refused("--spec is 'magic'", 2, "-m", MODEL, "--spec", "magic")
    refused("--rollback is 'magic'", 2, "-m", MODEL, "--rollback", "magic")
    refused("--draft-max is 65", 2, "-m", MODEL, "--draft-max", "65")
    refused("--draft-vocab is -1", 2, "-m", MODEL, "--draft-vocab", "-1")
    refused("--draft-vocab is 5000; 0 to 2048 are allowed", 2, "-m", MODEL, "-p", "x", "--draft-vocab", "5000")
    refused("the engine: the CPU context: --impl is \"abacus\"; device 0", 1, "-m", MODEL, "-p", "x", "--impl", "abacus")
    for name, what in (("nothing.gguf", "there is no file"), ("arch.gguf", "general.architecture"), ("short.gguf", "the file has 9 bytes")):
        (folder / "short.gguf").write_bytes(whole[:9])
        done = gdn("-m", str(folder / name), "-p", "x")
        require(done.stderr.count(name.encode()) == 1 and what.encode() in done.stderr, f"{name} is named once", done)
    glued = [gdn("-m" + MODEL, "-pAnd", *given).stdout for given in (("-n5",), ("-n", "5"), ("-n=5",), ("-n6",))]
    require(glued[0] and glued[0] == glued[1] == glued[2] != glued[3], f"values of letters: {glued}")
    refused("option '--escape' takes no value", 2, "-m", MODEL, "-ep", "x")
    refused("top_p is 2", 2, "-m", MODEL, "--top-p", "2")
    refused("--backend is 'abacus'", 2, "-m", MODEL, "-p", "x", "--backend", "abacus")
    refused("--kv is 'q4'; f16, bf16, f32 and q8_0 are allowed", 2, "-m", MODEL, "-p", "x", "--kv", "q4")
    narrow = oracle.Model(**{"attention.key_length": 16, "attention.value_length": 16})
    narrow.keys.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*map(chr, range(98, 97 + oracle.VOCABULARY)), "bc"],
                        "tokenizer.ggml.merges": ["b c"]})
    oracle.write(folder / "narrow.gguf", narrow)
    refused("--kv is 'q8_0' and the model's heads have 16 elements", 2, "-m", str(folder / "narrow.gguf"), "-p", "b", "--kv", "q8_0")
    for value in ("0", "-2"):
        refused(f"--predict is {value}; 1 to 67108864 are allowed, and -1", 2, "-m", MODEL, "-p", "x", "-n", value)
    refused("--predict is -1; 1 to 67108864 are allowed", 2, "-m", MODEL, "-p", "x", "-n", "-1", "--bench")
    for others in ("-st -temp -mli -bf -if -fit -i -v -sysf --no-display-prompt --single-turn --color --no-warmup --version --rope-scaling --rope-freq-base --lora --grammar "
                   "--json-schema-file --override-kv --spec-type --prompt-cache --list-devices --system-prompt-file --no-context-shift --served-model-name --max-model-len").split():
        refused(f"unknown option '{others}': ", 2, "-m", MODEL, others, "x")
    done = tool.gdn("-s3", "-n2", "-m", MODEL, "-p", "x", "--temp", "1") # letters with their values, and names that gdn serve refuses
    require(done.returncode == 0, "options that begin as those of others", done)
    done = subprocess.run([TOOL, "serve", "-m", MODEL, "--seed", "1"], capture_output=True, timeout=60)
    require(done.returncode == 2 and b"unknown option '--seed': requests to gdn serve have seed" in done.stderr, "gdn serve --seed", done)
    refused("cannot open chatml: No such file or directory; it names a file, not a built-in template", 1, "-m", MODEL, "--chat", "-p", "x", "--chat-template", "chatml")
    refused("--stop is empty", 2, "-m", MODEL, "-p", "x", "--stop", "")
    refused("not '\\q'", 2, "-m", MODEL, "-p", "\\q", "-e")
    refused("not '\\x4'", 2, "-m", MODEL, "-p", "x", "-e", "--stop", "\\x4")
    refused("--device is 7; 0 to 0 are allowed, the devices of backend cpu", 2, "-m", MODEL, "-p", "x", "--device", "7")
    refused("--device is 1; 0 to 0 are allowed", 2, "-m", MODEL, "-p", "x", "--backend", "reference", "--device", "1")
    refused("needs --chat", 2, "-m", MODEL, "-p", "x", "--system", "y")


def no_effect():
    """An option that would change nothing is refused; one that says the default is not."""
    text, talk, bench = ("-p", "x"), ("--chat",), ("--bench",)
    for given in (("--widths", "1", *text), ("--bench-prompt", "4", *text), ("--prefix-interval", "4", *text), ("--keep-newline", *text),
                  ("--keep-newline", *talk), ("--keep-newline", *bench), ("--escape", "-f", MODEL), ("-e", *bench), ("--chat", *bench), ("--save", "x", *bench),
                  ("--load", "x", *bench), ("--stop", "x", *bench), ("--special", *bench), ("--ignore-end", *bench), ("--parallel", "2", *bench),
                  ("--step", "8", *bench), ("--step", "8", *talk), ("--stats", *bench), ("--top-k", "4", *text), ("--top-p", "0.5", *text), ("--min-p", "0.1", *text),
                  ("--seed", "3", *text), ("--top-k", "4", "--temp", "0", *talk), ("--seed", "3", "-p", "x", *bench), ("--repeat-last", "9", *text)):
        name = given[0] if given[0] != "-e" else "--escape"
        refused(f"gdn run: {name} ", 2, "-m", MODEL, *given)
    for name in (("--draft-max", "3"), ("--p-min", "0.1"), ("--draft-vocab", "100"), ("--always-draft",), ("--rollback", "log")):
        refused(f"{name[0]} ", 2, "-m", MODEL, *text, "--spec", "off", *name)
        refused(f"{name[0]} ", 2, "-m", str(FOLDER / "fixtures" / "tiny-qwen3next.gguf"), *text, *name)
    for name in (("--p-min", "0.1"), ("--draft-vocab", "100")):
        refused(f"{name[0]} ", 2, "-m", MODEL, *text, "--spec", "ngram", *name)
    for given in (("--top-k", "0"), ("--top-p", "1"), ("--min-p", "0"), ("--spec", "auto"), ("--repeat-last", "9", "--presence-penalty", "0.5"),
                  ("--spec", "ngram", "--draft-max", "3", "--rollback", "log"), ("--no-escape",), ("--frequency-penalty", "0.5")):
        done = gdn("-m", MODEL, *text, "-n", "2", *given)
        require(done.returncode == 0 and not said(done), f"{given} is taken", done)
    none, much = ("-m", MODEL, "-p", "And the LORD spake", "-n", "40", "--ignore-end"), {}
    for option in ((), ("--presence-penalty", "3"), ("--frequency-penalty", "1"), ("--repeat-penalty", "1.5")):
        much[option] = gdn(*none, *option).stdout
    require(len(set(much.values())) == 4, f"penalties change the text: {much}")
    refused("presence_penalty is 200", 2, "-m", MODEL, *text, "--presence-penalty", "200")
    refused("--seed is '-2'; -1 (random) and 0 to 2^64 - 1 are allowed", 2, "-m", MODEL, *text, "--temp", "1", "--seed", "-2")
    done = gdn("-m", MODEL, *text, "-n", "1", "-c", "2049")
    require(done.returncode == 0 and said(done) == "gdn run: note: --ctx is 2049; the model was made for contexts of 2048 tokens\n", "a long context", done)
    done = gdn("-m", MODEL, *text, "-n", "1", "-c", "2048")
    require(not said(done), "as long as it was made for", done)


tool.run_tests(text_and_files, same_streams, kv_types, same_on_every_backend, memory, small_pool, prefixes, errors, no_effect)

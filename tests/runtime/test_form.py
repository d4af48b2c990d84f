#!/usr/bin/env python3
"""--form of gdn run and gdn serve: with the chunked form a text is the same however it is read, drafted and kept; files are of one form.

    test_form.py GDN FOLDER [--brief]   as test_run.py
"""
import random
import subprocess

from server import server
from tool import BRIEF, FOLDER, MODEL, TOOL, gdn, refused, report, require, run_tests

RANDOM = random.Random(1)
FORMS = ("recurrence", "chunked", "chunked2")
WORDS = "the Lord God heaven earth light day night water land tree man".split()
HEAD = " ".join(RANDOM.choice(WORDS) for _ in range(18))
PROMPTS = [HEAD + " and it came to pass", "In the beginning " * 5, HEAD + ", saying, Blessed are", "Thus", HEAD]
MOST = 20 if BRIEF else 50


def tokens(*arguments):
    return [r["tokens"] for r in report(*arguments, otherwise={"requests": []})["requests"]]


def drawn(mtp):
    """Options that do not change a text, at random."""
    pick = RANDOM.choice
    spec = pick(["off", "ngram", "mtp" if mtp else "ngram"])
    drafts = ("--always-draft", "--draft-max", pick((1, 3, 8, 40))) if spec != "off" else ()
    cache = ("--prefix-cache", 64, "--prefix-interval", pick((32, 64, 96))) if RANDOM.random() < 0.6 else ()
    cells = ("--cells", pick((320, 500))) if RANDOM.random() < 0.4 else ()  # requests give way to others
    return ("--spec", spec, *drafts, *cache, *cells, "--batch", pick((1, 7, 31, 64, 512)), "--step", pick((5, 33, 512)),
            "--threads", pick((1, 2)))


def same_texts():
    """Greedy and sampled texts of several prompts, and several of one prompt, are those of one token at a time without drafts."""
    for model in ("tiny-qwen35", "tiny-qwen3next", None):
        path = FOLDER / f"fixtures/{model}.gguf" if model else MODEL
        for form in FORMS[1:]:
            for prompts in PROMPTS, PROMPTS[:1]:
                sampler = ("--temp", "0.9", "--seed", 7) if model or len(prompts) == 1 else ()
                common = ("-m", path, "--form", form, "--ctx", 320, "-n", MOST, "--ignore-end", *sampler, *[part for p in prompts for part in ("-p", p)])
                one = len(prompts) == 1  # three texts of one prompt, with three seeds
                plain = tokens(*common, "--spec", "off", "--batch", 1 if one else 3, "--threads", 1, "--parallel", 3 if one else 1)
                require(len(plain) == (3 if one else len(prompts)), f"{model}: texts of {form}")
                for _ in range(1 if BRIEF else 3):
                    way = (*drawn(model != "tiny-qwen3next"), "--parallel", 3 if one else RANDOM.choice((2, 3, 5)))
                    require(tokens(*common, *way) == plain, f"{model}, {form}, {' '.join(map(str, way + sampler))}: the tokens of plain decoding")


def served(folder):
    """A server's texts, n of a prompt, are those of gdn run, with and without what it has kept."""
    for form in FORMS[1:]:
        with server("--form", form, "--always-draft", settings=("--ctx", "1024", "--prefix-cache", "16", "--prefix-interval", "32")) as s:
            for prompt in PROMPTS[:3] * 2:
                plain = report("-m", MODEL, "--form", form, "--ctx", 1024, "-n", 30, "--temp", 0.8, "--seed", 3, "--spec", "off", "--parallel", 3, "-p", prompt,
                               otherwise={"requests": []})["requests"]
                answer = s.ask("/v1/completions", {"prompt": prompt, "max_tokens": 30, "temperature": 0.8, "seed": 3, "n": 3})[1]
                require([c["text"] for c in answer["choices"]] == [r["text"] for r in plain], f"{form}: three texts of {prompt[:20]}")


def forms_differ(folder):
    """Log-probabilities of a text that the model has written differ in their last digits, and little more."""
    text = folder / "text"
    text.write_bytes(gdn("-m", MODEL, "-p", PROMPTS[1], "--parallel", 3, "-n", 700, "--temp", 0.8, "--ignore-end").stdout)
    scores = [report("-m", MODEL, "--form", form, "--perplexity", text, "--ctx", 256, otherwise={"perplexity": 0, "form": ""}) for form in FORMS]
    found = [score["perplexity"] for score in scores]
    require([score["form"] for score in scores] == list(FORMS) and len(set(found)) == 3, f"three forms, three perplexities: {found}")
    require(all(abs(p - found[0]) < bound * found[0] for p, bound in zip(found[1:], (3e-3, 1e-2))), f"they are close: {found}")


def files(folder):
    """A file of prefixes and a conversation of one form are refused by the others, by name, and stay as they are."""
    for form in FORMS:
        kept, talk = folder / f"{form}.kept", folder / f"{form}.talk"
        def run(other):
            return gdn("-m", MODEL, "--form", other, "--prefix-cache", 8, "--prefix-interval", 32, "--prefix-file", kept, "-p", " ".join(PROMPTS), "-n", 4, "--json")
        def chat(other, *options):
            return gdn("-m", MODEL, "--form", other, "--chat", "-n", 40, "--json", *options, text=b"Who was Moses?\nAnd Aaron?\n")
        first, again = run(form), run(form)
        require(b'"prefix_tokens": 0' in first.stdout and b'"prefix_tokens": 0' not in again.stdout, f"{form}: prefixes are kept and found", again)
        require(chat(form, "--save", talk).returncode == 0 and chat(form, "--load", talk).returncode == 0, f"{form}: a conversation goes on")
        before = kept.read_bytes(), talk.read_bytes()
        for other in set(FORMS) - {form}:
            says = f"saved with --form {form}, and the form is {other} here".encode()
            for done in (run(other), chat(other, "--load", talk, "--save", talk)):
                require(done.returncode == 1 and says in done.stderr and not done.stdout, f"a file of {form} with --form {other}", done)
            require((kept.read_bytes(), talk.read_bytes()) == before, f"{form}: the files stay as they are")


def refusals():
    given = ("-m", "none.gguf", "-p", "x", "--form")
    refused("--form is 'chunks'; recurrence, chunked and chunked2 are allowed", 2, *given, "chunks")
    refused("--rollback snapshots: --form chunked always has a log", 2, *given, "chunked", "--rollback", "snapshots")
    refused("--prefix-interval is 48; with --form chunked2 it is a multiple of 32", 2, *given, "chunked2", "--prefix-cache", 1, "--prefix-interval", 48)
    for name in ("vulkan", "metal"):
        refused(f"backend {name} has no chunked form; cpu, cuda and reference have it", 2, *given, "chunked", "--backend", name)
    done = subprocess.run([TOOL, "serve", "-m", "none.gguf", "--form", "chunked", "--backend", "metal"], capture_output=True, check=False)
    require(done.returncode == 2 and b"gdn serve: --form chunked: backend metal" in done.stderr, "gdn serve refuses it too", done)


run_tests(same_texts, served, forms_differ, files, refusals)

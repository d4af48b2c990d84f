#!/usr/bin/env python3
"""Plain words: banned words, and sentences over 30 words, in documents and, with --comments, in sources.

    lint_words.py               docs/**/*.md, README.md, CONTRIBUTING.md; exit status 1 where something is found
    lint_words.py --comments    the comments and docstrings of SOURCES as well, and the titles of planted mistakes
    lint_words.py FILE ...      these files

Tables, code and the targets of links are skipped. ALLOWED lists exceptions, each with its reason.
"""
import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 30
SOURCES = ("include", "backends", "bench", "check", "core", "cpu", "cuda", "examples", "gpu", "integrations", "metal", "numerics",  # folders
           "python", "reference", "runtime", "scripts", "simd", "tests", "threads", "tools", "vulkan")
SUFFIXES = (".c", ".h", ".cpp", ".cu", ".cuh", ".metal", ".comp", ".glsl", ".py", ".sh")
MISTAKES = ROOT / "tests/mutations"  # *.txt: a title is a line that begins with neither a space nor a number sign
DOCSTRING = re.compile(r'(?:\A(?:#[^\n]*\n)*|(?<=:\n))[ \t]*"""([^"]*(?:"(?!"")[^"]*)*)"""')
BANNED = (  # what, as a regular expression; what to write instead
    (r"columns? of the (?:log|history)", "log entry; conv state entry"),
    (r"value columns?", "value channel"),
    (r"repeat(?:s|ed|ing)? (?:the |its |their )?(?:columns?|tokens?|entries|ancestors|log)", "replay"),
    (r"stands? (?:at|behind|beside|there)", "is at"),
    (r"known answers?", "self-test vectors"),
    (r"second choices?", "top-2 candidates"),
    (r"(?:lies?|lay) aside|(?:goes|go) round", "unlinked; loop"),
    (r"comes? to (?:an?|the|each|one)", "reach"),
    (r"(?:is|are) told", "is reported"),
    (r"somebody|nobody|whoever|everybody", "name the actor"),
    (r"as ever|of before|until then|had been|used to be", "present tense; history is git's"),
    (r"makes? ready|made ready|vouch(?:es)?", "convert, load, prepare; not checked"),
)
ALLOWED = {  # (file, text of the hit): reason
}


def parts(suffix, text):
    """(line before it, text) of what is prose in a file: all of a document, titles of mistakes, docstrings and comments."""
    def found(pattern, flags, group, left_out):
        for match in re.finditer(pattern, text, flags=flags):
            yield text.count("\n", 0, match.start(group)), re.sub(left_out, "", match[group], flags=re.M)

    if suffix == ".md":
        yield 0, text
    elif suffix == ".txt":
        yield from found(r"^[^ #\n].*", re.M, 0, r"\Z")
    elif suffix in (".py", ".sh"):
        yield from found(r"(?:^[ \t]*#(?!!).*\n?)+", re.M, 0, r"^[ \t]*# ?")
        yield from ((above, textwrap.dedent(part)) for above, part in found(DOCSTRING, 0, 1, r"\Z"))
    else:
        yield from found(r"/\*.*?\*/|//[^\n]*", re.S, 0, r"^ ?\*/?|^/[/*]+|\*/$")


def paragraphs(text):
    """(number of the first line, text) of each paragraph or item of a list."""
    first, words, fenced = 0, [], False
    for number, line in enumerate(text.split("\n") + [""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = fence or fenced or line.startswith("    ") and not words or re.search(r"\S   +\S|----", line)
        prose = line.strip() and not code and not re.match(r"\s*(\||#|<!--|!\[)", line)
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        if words and (item or not prose):
            yield first, " ".join(words)
            words = []
        if prose:
            first = first if words else number
            words.append(line[item.end() if item else 0:].strip())


def look(name, above, text):
    for number, prose in paragraphs(text):
        prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", prose)).replace("**", "")
        where = f"{name}:{above + number}"
        for pattern, better in BANNED:
            for hit in re.findall(rf"\b(?:{pattern})\b", prose, flags=re.I):
                if (name, hit.lower()) not in ALLOWED:
                    yield f"{where}: '{hit}': {better}"
        for sentence in re.split(r"(?<=[.!?])[)*\]]*\s+(?=[\"'(*\[]*[A-Za-z0-9])", prose):
            count = len(re.findall(r"[A-Za-z][\w'/-]*", sentence))
            if count > MOST:
                yield f"{where}: a sentence of {count} words: {sentence[:60]}..."


def main():
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--comments", action="store_true", help="look at comments, docstrings and titles of mistakes too")
    given.add_argument("files", nargs="*", metavar="FILE", type=pathlib.Path)
    given = given.parse_args()
    paths = given.files or [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for folder in SOURCES if given.comments else ():
        paths += sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES or p.parent == MISTAKES and p.suffix == ".txt")
    found = []
    for path in map(pathlib.Path.resolve, paths):
        text = path.read_text(encoding="utf-8")
        for above, part in parts(path.suffix, text):
            found += look(path.relative_to(ROOT).as_posix(), above, part)
    print("\n".join([*found, f"words: {len(paths)} files, {len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

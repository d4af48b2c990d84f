"""The King James Version as training text, from Debian's packages bible-kjv and bible-kjv-text.

The text itself is in the public domain. Debian's package stores it compressed; the package's own program `bible` prints
it. Both are taken from an installed system, or, with --fetch, unpacked from `apt-get download` into a folder.
Text form: one book after another; a chapter starts with "Genesis 1" on a line of its own, a verse is a line that
starts with its number, and a blank line ends the chapter.
"""
import pathlib
import random
import re
import shutil
import subprocess

PACKAGES = ("bible-kjv", "bible-kjv-text")
HELD_OUT = ("Ruth", "Jonah", "Malachi", "Philippians", "James")  # never trained on; not even by the tokenizer
END = "<|endoftext|>"


def fetch(folder):
    """Unpack the two packages below folder, without installing them."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder / "root"], check=True)
    return folder / "root"


def read_lines(root="/"):
    """What `bible` prints for everything. root: where the packages are unpacked."""
    root = pathlib.Path(root)
    program = root / "usr/bin/bible"
    if not program.exists():
        program = shutil.which("bible") or program
    out = subprocess.run([program, "-p", root / "usr/lib", "-l100000", "gen1:1-rev22:21"], check=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return out.stdout.decode("ascii").split("\n")


def books(root="/"):
    """[(book, [(chapter, [verse, ...]), ...]), ...] in the order of the Bible."""
    found = []
    for line in read_lines(root):
        line = line.rstrip()
        head = re.fullmatch(r"((?:[1-3] )?[A-Z][A-Za-z ]*?) (\d+)", line)
        verse = re.fullmatch(r"  (\d+) (.*)", line)
        if verse:
            verses = found[-1][1][-1][1]
            verses.append(re.sub(r" +", " ", verse[2]).strip())
            if int(verse[1]) != len(verses):
                raise ValueError(f"{found[-1][0]}: verse {verse[1]} where {len(verses)} is expected")
        elif head:
            if not found or found[-1][0] != head[1]:
                found.append((head[1], []))
            found[-1][1].append((int(head[2]), []))
        elif line:
            raise ValueError(f"not understood: {line!r}")
    return found


def chapter_text(book, chapter, verses):
    return f"{book} {chapter}\n" + "".join(f"{i + 1} {v}\n" for i, v in enumerate(verses)) + "\n"


def book_text(book, chapters):
    return "".join(chapter_text(book, number, verses) for number, verses in chapters)


def dialogue(rng, chapters):
    """One exchange in chat form: the user speaks a verse, the assistant the one to four that follow."""
    _, verses = rng.choice(chapters)
    first = rng.randrange(max(1, len(verses) - 1))
    answer = " ".join(verses[first + 1:first + 2 + rng.randrange(4)]) or verses[first]
    return f"<|im_start|>user\n{verses[first]}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"


def load(root="/", seed=1, dialogues=3000):
    """(training texts, held-out texts), lists of strings; each becomes a document of its own."""
    train, held = [], []
    everything = books(root)
    for name, chapters in everything:
        (held if name in HELD_OUT else train).append(book_text(name, chapters))
    rng = random.Random(seed)
    kept = [chapters for name, chapters in everything if name not in HELD_OUT]
    weights = [sum(len(v) for _, v in chapters) for chapters in kept]
    train += [dialogue(rng, rng.choices(kept, weights)[0]) for _ in range(dialogues)]
    return train, held

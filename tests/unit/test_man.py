#!/usr/bin/env python3
"""The manual pages say all that --help says: test_man.py FOLDER GDN...

Every option of every command has an entry, every word of the text is on the page in its order, and there is a page for every
command. Where groff is installed, it must have nothing to say about the pages.
"""
import pathlib
import re
import shutil
import subprocess
import sys


def plain(page):
    """The text of a page: without requests and fonts, with the escapes that docs/man/man_pages.sh makes undone."""
    text = re.sub(r'^\.\\".*\n', "", page, flags=re.M)
    text = re.sub(r"^\.(SH|SS|TP|PP|nf|fi)\b *", "", text, flags=re.M)
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    return text.replace("\\-", "-").replace("\\e", "\\")


def section_of(page, title):
    """The text of a section, in one line; "" where the page has none."""
    section = re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", page, flags=re.M | re.S)
    return " ".join(plain(section.group(1)).split()) if section else ""


def problems_of(name, text, page):
    entries = re.findall(r"^\.TP\n(.*)$", page, flags=re.M)
    bold = {option.replace("\\-", "-") for entry in entries for option in re.findall(r"\\fB(.*?)\\fR", entry)}
    options = [word for line in text.splitlines() if re.match(r"  -", line)
               for word in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", re.split(r"  +", line.strip())[0])]
    found = [f"{name}: no entry for {option}" for option in options if option not in bold]
    if "--help" not in options:
        found.append(f"{name}: --help itself is not among the options")
    # The paragraph of the exit status is the section of that name, to its last word; other paragraphs are one piece of the page.
    status = section_of(page, "EXIT STATUS")
    if not status:
        found.append(f"{name}: no EXIT STATUS")
    for paragraph in re.split(r"\n\n+", "\n".join(text.split("\n")[3:])):
        paragraph = paragraph.strip("\n")
        whole = " ".join(paragraph.split())
        if whole.startswith("Exit status: "):
            whole = whole[len("Exit status: "):]
            if whole[:1].upper() + whole[1:] != status:
                found.append(f"{name}: EXIT STATUS is {status!r}, not {whole!r}")
        elif whole and not re.match(r"[A-Z][A-Za-z ,-]*:(\n|$)", paragraph) and whole not in " ".join(plain(page).split()):
            found.append(f"{name}: the page lacks the paragraph {whole!r}")
    # Words: the sections stand in another order on the page, so each line of the text is looked for by itself.
    words = " ".join(plain(page).split())
    for line in text.split("\n")[3:]:
        line = re.sub(r"^Exit status: \w", "", line)
        for part in re.split(r"  +", line.strip()):
            if part and not re.match(r"[A-Z]\w*:$", part) and " ".join(part.split()) not in words:
                found.append(f"{name}: the page lacks {part!r}")
    return found


def main(folder, tool):
    folder = pathlib.Path(folder)
    top = subprocess.run([*tool, "--help"], check=True, capture_output=True, text=True).stdout
    section = re.search(r"^Commands:\n(.*?)\n\n", top, flags=re.M | re.S).group(1)
    commands = [c for c in re.findall(r"^  (\w+)", section, flags=re.M) if c != "help"]
    if "check" not in commands:
        sys.exit("gdn --help names no command check")
    found = []
    for command in [None, *commands]:
        name = f"gdn-{command}" if command else "gdn"
        path = folder / f"{name}.1"
        if not path.exists():
            found.append(f"there is no page {name}.1")
            continue
        page = path.read_text()
        text = subprocess.run([*tool, command, "--help-all"], check=True, capture_output=True, text=True).stdout if command else top
        found += problems_of(name, text, page)
        if shutil.which("groff"):
            said = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", path], capture_output=True, text=True)
            if said.returncode or said.stderr:
                found.append(f"{name}: groff says: {said.stderr}")
    for problem in found:
        print(problem)
    print(f"{1 + len(commands)} pages, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))

"""Links of the installed documents lead to files that are installed: links.py FOLDER. Web addresses are not followed."""
import pathlib
import re
import sys

count, dead = 0, []
for page in sorted(pathlib.Path(sys.argv[1]).rglob("*.md")):
    for target in re.findall(r"\]\(([^)#\s]+)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)):
        if not re.match(r"[a-z]+:", target):
            count += 1
            dead += [] if (page.parent / target).exists() else [f"{page}: {target}"]
print("\n".join([*dead, f"{count} links, {len(dead)} of them dead"]))
sys.exit(bool(dead) or count < 100)

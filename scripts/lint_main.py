"""What the lints share: how they begin and end, and how a self-test tells whether a breakage was found."""
import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def options(documentation, *others):
    """What the command line says: root, self_test, and the flags that are a lint's own."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    for flag in ("--self-test", *others):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    args.root = args.root.resolve()
    return args


def found(says, before, now, what):
    """Is there a line with `says` among those that came with a breakage?"""
    new = [line for line in now if line not in before]
    if any(says in line for line in new):
        return True
    print(f"self-test: {what} was not found; the lint said {new}")
    return False


def finish(problems, summary):
    """The exit status."""
    for problem in problems:
        print(problem)
    print(f"{summary}, {len(problems)} problems")
    return 1 if problems else 0

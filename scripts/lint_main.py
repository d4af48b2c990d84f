"""What the lints share: how they end, and how a self-test tells whether a breakage was found."""


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

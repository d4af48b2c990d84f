"""A run that a planted mistake has to spoil: its end, the first line that says what is wrong, and the case that noticed."""
import re
import subprocess
import typing

SECONDS = 300 # of processor time, for runs that take a few


class Trial(typing.NamedTuple):
    status: int
    said: str   # the first line with a sign, or nothing
    case: tuple # kernel, seed and name of the case of `gdn check` that failed first, or ()

    def noticed(self):
        return self.status != 0


def run(command, signs, **how):
    """signs: a regular expression, of which a line that says what is wrong has a match. how: for subprocess.run()."""
    # What does not end is noticed by the processor time that it takes: a busy machine slows every program down.
    try:
        done = subprocess.run(["sh", "-c", f'ulimit -t {SECONDS}; exec "$@"', "sh", *command], capture_output=True, text=True,
                              errors="replace", check=False, timeout=6 * SECONDS, **how)
    except subprocess.TimeoutExpired:
        return Trial(124, f"has not ended after {6 * SECONDS} s, and waits for something", ())
    text = done.stderr + done.stdout
    if "nothing was run" in text or done.returncode in (126, 127) or done.returncode == 2 and "check" in map(str, command):
        raise LookupError(f"{' '.join(map(str, command))} has tried nothing: {text.strip()[:300]}")
    said = [line.strip() for line in text.splitlines() if re.search(signs, line)]
    case = re.search(r"to repeat: gdn check --kernel (\S+) --seed (\S+) --case (\S+)", text)
    return Trial(done.returncode, said[0][:150] if said else "", case.groups() if case else ())

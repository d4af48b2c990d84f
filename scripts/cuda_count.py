#!/usr/bin/env python3
"""What a device counts of a few calls, by NVIDIA's profiler ncu, beside what the machine code says of their kernels.

    cuda_count.py GDN --report FOLDER --out FOLDER

GDN is the tool, FOLDER of --report what scripts/cuda_report.sh left for this device's architecture. --out gets ncu's own
output and counts.md: for a decode and two prefills of `gdn bench` the registers, accesses of local memory, instructions of a
warp and cycles per token, as compiled or estimated (scripts/sass_measure.py says how) and as counted, and what only a device
can tell. Nothing is judged. Exit status 0: all calls were counted. 77: ncu is not there, or this user may not read the
device's counters; the last line says which. Otherwise something went wrong.

An estimate of a warp's instructions is of the path with the most work, without the state's stores and what follows the last
token. ncu sets the clocks to their base and empties the caches before a kernel.
"""
import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys

import sass_gate

CALLS = (("decode", "gated_delta_net/decode/seqs:8/", 1), ("prefill_1", "gated_delta_net/prefill512/seqs:1/", 512),
         ("prefill_8", "gated_delta_net/prefill512/seqs:8/", 512))
REGISTERS, INSTRUCTIONS, CYCLES, DURATION = "launch__registers_per_thread", "smsp__inst_executed.sum", "sm__cycles_elapsed.max", "gpu__time_duration.sum"
LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
LOCAL = ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
METRICS = (REGISTERS, INSTRUCTIONS, CYCLES, DURATION, LOADED, *LOCAL)
NANOSECONDS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6}
DENIED = "ERR_NVGPUCTRPERM"


def number(text):
    """None where ncu has none: it writes n/a."""
    text = (text or "").replace(",", "")
    return float(text) if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", text, re.I) else None


def size(text):
    """Of a grid or a block: the product of (8, 32, 1)."""
    product = 1
    for part in re.findall(r"\d+", text or ""):
        product *= int(part)
    return product


def counted(text):
    """[{"kernel", "blocks", "threads", metric: number}] of ncu --csv. It writes a column for each metric, with a line of units
    below the names (--page raw), or, of other pages, a line for each."""
    lines = text.split("\n")
    begin = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    found, units = {}, {}
    for row in csv.DictReader(lines[begin:]) if begin is not None else ():
        if not row["ID"]:
            units = row
            continue
        one = found.setdefault(row["ID"], {"kernel": row["Kernel Name"].split("(")[0].split()[-1],
                                           "blocks": size(row.get("Grid Size")), "threads": size(row.get("Block Size"))})
        for name in METRICS:
            if row.get("Metric Name") == name:
                value, unit = number(row["Metric Value"]), row["Metric Unit"]
            elif name in row:
                value, unit = number(row[name]), units.get(name, "")
            else:
                continue
            if value is not None:
                one[name] = value * NANOSECONDS.get(unit, 1) if name == DURATION else value
    return list(found.values())


def text_of(value, digits=0):
    return "?" if value is None else f"{value:,.{digits}f}"


def beside(row, tokens, counts, measured):
    """A call's table, as lines of Markdown."""
    name = counts["kernel"].removeprefix(sass_gate.PREFIX)
    said = next((found for (kernel, _), found in measured.items() if kernel == name), {})
    warps = counts["blocks"] * ((counts["threads"] + 31) // 32)
    per_warp = counts[INSTRUCTIONS] / warps if counts.get(INSTRUCTIONS) and warps else None
    estimate = said["start"] + tokens * said["token"] if "token" in said else None
    cycles = counts[CYCLES] / tokens if CYCLES in counts else None
    local = sum(counts[one] for one in LOCAL) if all(one in counts for one in LOCAL) else None
    of_cycles = f"{said['cycles_1']:.0f}, {said['cycles_2']:.0f}" if "cycles_1" in said else "?"
    return [f"{row.rstrip('/')}: `{name}`, {counts['blocks']:,} blocks of {counts['threads']} threads", "",
            "| | machine code | ncu |", "|---|---|---|",
            f"| registers | {text_of(said.get('registers'))} | {text_of(counts.get(REGISTERS))} |",
            f"| local memory: instructions that access it, sectors accessed | {text_of(said.get('local'))} | {text_of(local)} |",
            f"| instructions of a warp, estimated and executed | {text_of(estimate)} | {text_of(per_warp)} |",
            f"| cycles per token, estimated for 1 and 2 warps per scheduler, and elapsed | {of_cycles} | {text_of(cycles)} |",
            f"| 32-byte sectors of global memory loaded | | {text_of(counts.get(LOADED))} |",
            f"| duration, us | | {text_of(counts[DURATION] / 1e3 if DURATION in counts else None, 1)} |", ""]


def count(gdn, name, row, out):
    """What ncu counts of the call's first launch; or a sentence on why it does not."""
    file = out / f"{name}.csv"
    file.unlink(missing_ok=True)
    # Known answers would be launches of the same kernels before the call's own.
    done = subprocess.run(["ncu", "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(file), "--kernel-name",
                           f"regex:{sass_gate.PREFIX}delta_", "--launch-count", "1", "--metrics", ",".join(METRICS),
                           str(gdn), "bench", "--backend", "cuda", "--filter", row, "--min-reps", "1", "--min-time", "0.001", "--max-time", "1",
                           "--rotate-mib", "256", "--no-peer"], capture_output=True, text=True, env={**os.environ, "GDN_KNOWN_ANSWERS": "off"})
    text = file.read_text() if file.exists() else ""
    print(done.stdout + done.stderr + text)
    if DENIED in text + done.stdout + done.stderr:
        return f"this user may not read the device's counters ({DENIED})"
    found = counted(text)
    if done.returncode or not found or INSTRUCTIONS not in found[0]:
        return f"ncu counted nothing of {row}: exit status {done.returncode}"
    return found[0]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("gdn", type=pathlib.Path)
    arguments.add_argument("--report", type=pathlib.Path, required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    given = arguments.parse_args()
    if not shutil.which("ncu"):
        print("ncu is not on this machine")
        return 77
    given.out.mkdir(parents=True, exist_ok=True)
    _, tokens = sass_gate.read_limits(sass_gate.LIMITS.read_text())
    # Without nvdisasm the listings are empty, and only what was counted is known.
    measured = sass_gate.read(given.report, tokens) if given.report.exists() else {}
    lines, wrong = [], []
    for name, row, n_tokens in CALLS:
        counts = count(given.gdn, name, row, given.out)
        if isinstance(counts, str):
            wrong.append(counts)
            if DENIED in counts:
                break
        else:
            lines += beside(row, n_tokens, counts, measured)
    (given.out / "counts.md").write_text("\n".join(lines))
    for sentence in wrong:
        print(sentence)
    if not wrong:
        print(f"{len(CALLS)} calls counted by ncu")
    return 77 if any(DENIED in sentence for sentence in wrong) else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

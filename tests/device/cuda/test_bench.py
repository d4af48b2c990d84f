#!/usr/bin/env python3
"""`gdn bench` on an emulated CUDA device: every row that moves memory has the time of a device copy of as many bytes.
A copy that fails or copies less is noticed. Times are not checked.

    test_bench.py GDN
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GDN = sys.argv[1]
# A state of 32 heads of 128 x 128; q and k, v and out of a token; a row of 8192 channels.
STATE, TOKEN, CHANNELS = 4 * 32 * 128 * 128, 4 * 128 * (2 * 16 + 2 * 32), 4 * 8192
TRAFFIC = {  # bytes read and written
    "set_rows/f32_to_f32": 1024 * (2048 + 2048 + 4),
    "set_rows/f32_to_f16": 1024 * (2048 + 1024 + 4),
    "set_rows/f32_to_q8_0": 1024 * (2048 + 16 * 34 + 4),
    "gated_delta_net/decode/seqs:1": 2 * STATE + TOKEN,
    "gated_delta_net/decode/seqs:8": 8 * (2 * STATE + TOKEN),
    "gated_delta_net/verify4/seqs:1": 5 * STATE + 4 * TOKEN,
    "ssm_conv/decode/seqs:1": (4 + 1 + 3 + 2) * CHANNELS,
    "ssm_conv/decode/seqs:8": (4 + 8 * (1 + 3 + 2)) * CHANNELS,  # the weights once
}
FEW = ("--backend", "cuda", "--quick", "--rotate-mib", "1", "--min-reps", "1", "--min-time", "0.001", "--max-time", "0.05", "--no-peer")
failures = []


def require(good, what):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}")


def bench(filtered, **environment):
    """(exit status, the table, the JSON) of the rows whose names contain `filtered`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        done = subprocess.run([GDN, "bench", *FEW, "--filter", filtered, "--json", str(path)], capture_output=True, text=True,
                              timeout=600, env={**os.environ, **environment})
        print(done.stdout + done.stderr)
        return done.returncode, done.stdout, json.loads(path.read_text())


def rooflines():
    found = {}
    for filtered in ("set_rows/", "decode/seqs", "verify4/seqs:1"):
        status, table, report = bench(filtered)
        require(status == 0, f"{filtered}: exit status {status}")
        require(report["context"]["emulated"] is True and "emulated" in table.split("\n")[0], f"{filtered}: it is said that this is emulated")
        require(report["context"]["roofline"] == "device copy", f"{filtered}: the roofline is by {report['context']['roofline']}")
        for row in report["benchmarks"]:
            found[row["name"].removesuffix("/threads:1")] = row
    for name, row in found.items():
        require(row["roofline_by"] == "copy" and row["roofline_variant"] == "cuMemcpyDtoDAsync" and row["roofline_time"] > 0 and row["roofline_share_raw"] > 0,
                f"{name}: the roofline is {row['roofline_by']}, {row['roofline_variant']}, {row['roofline_time']}")
        require(name in TRAFFIC and row["roofline_bytes"] == TRAFFIC[name], f"{name}: {row['roofline_bytes']} bytes, expected {TRAFFIC.get(name)}")
        moved = row["bytes_per_second"] * row["real_time"] * 1e-6  # what the row says that the kernel moves, gates and all
        require(0.98 * moved <= row["roofline_bytes"] <= 1.001 * moved, f"{name}: the copy is of {row['roofline_bytes']} bytes, the kernel's {moved:.0f}")
    require(set(found) == set(TRAFFIC), f"rows: {sorted(found)}")


def broken():
    """Copies that lose their last byte, fail at once or later; no memory for them: no row is reported as measured."""
    row = "set_rows/f32_to_f16"
    for what, says, environment in (
            ("a copy loses its last byte", "did not copy what it was told to", {"GDN_SIMT_CONTROL": "cut=1"}),
            ("the first copy fails", "cuMemcpyDtoDAsync returned CUDA error 1", {"GDN_SIMT_FAIL": "cuMemcpyDtoDAsync_v2:1:1"}),
            ("a copy fails while it is timed", "cuMemcpyDtoDAsync returned CUDA error 1", {"GDN_SIMT_FAIL": "cuMemcpyDtoDAsync_v2:4:1"}),
            ("there is no memory for it", "the device copy: no buffer", {"GDN_SIMT_CONTROL": "memory=20000000"}),
            ("addresses are not known", "cuPointerGetAttribute returned CUDA error 801", {"GDN_SIMT_FAIL": "cuPointerGetAttribute:1:801"})):
        status, _, report = bench(row, **environment)
        said = report["benchmarks"][0].get("error_message", "")
        require(status == 1 and says in said, f"{what}: exit status {status}, '{said}'")


rooflines()
broken()
print(f"{len(TRAFFIC)} rows with a device copy, {len(failures)} problems")
sys.exit(1 if failures else 0)

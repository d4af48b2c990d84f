#!/usr/bin/env python3
"""Runs gdn check, which writes calls with the memory before and after them, and judges them by the manual (oracle.py).

    judge.py GDN [OPTION...]       GDN check --backend cpu --impl scalar --calls FILE OPTION...

That gdn check fails does not matter here: it compares implementations, and the calls are judged whatever it says.
"""
import pathlib
import subprocess
import sys
import tempfile

if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
    sys.exit(__doc__)
with tempfile.TemporaryDirectory() as folder:
    calls = pathlib.Path(folder) / "calls"
    checked = subprocess.run([sys.argv[1], "check", "--backend", "cpu", "--impl", "scalar", "--calls", calls, *sys.argv[2:]],
                             capture_output=True, text=True, check=False)
    if not calls.exists():
        sys.exit(f"judge: no calls were written\n{checked.stderr}")
    sys.exit(subprocess.run([sys.executable, pathlib.Path(__file__).with_name("oracle.py"), calls], check=False).returncode)

#!/bin/sh
# fuzz.sh [SECONDS]: build the fuzz targets with clang's libFuzzer, run all their seeds, then search each for SECONDS (10).
# With 0 there is no search; a search that finds something takes hours. What fails is written to build-fuzz/findings/ and
# makes the script fail.
# An input that takes 300 s is a hang: they take milliseconds, also where other programs keep the machine busy.
# A finding becomes a seed: append its bytes to tests/fuzz/TARGET.seeds, in hexadecimal on a line.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
--help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/fuzz.sh | sed '$d'; exit 0 ;;
esac
seconds=${1:-10}
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
sh scripts/deps.sh build check fuzz
cmake --preset fuzz
targets="fuzz_args fuzz_gguf fuzz_model fuzz_prefix_load fuzz_serve fuzz_tokenizer"
# $targets is a list of words.
# shellcheck disable=SC2086
cmake --build --preset fuzz --target $targets --parallel "$(nproc)"
for target in $targets; do
    mkdir -p build-fuzz/findings "build-fuzz/corpus/$target" "build-fuzz/seeds/$target"
    python3 - "tests/fuzz/$target.seeds" "build-fuzz/seeds/$target" <<'UNPACK'
import pathlib, sys
path = pathlib.Path(sys.argv[1])
lines = [line for line in path.read_text().splitlines() if not line.startswith("#")] if path.exists() else []
for number, line in enumerate(lines):
    pathlib.Path(sys.argv[2], str(number)).write_bytes(bytes.fromhex(line))
UNPACK
    limit=-max_total_time=$seconds # which has no limit where it is 0
    [ "$seconds" -gt 0 ] || limit=-runs=0
    "build-fuzz/bin/$target" "$limit" -max_len=512 -timeout=300 -print_final_stats=1 \
        -artifact_prefix=build-fuzz/findings/ "build-fuzz/corpus/$target" "build-fuzz/seeds/$target"
done

#!/bin/sh
# See libgdn work, in a few minutes: sh scripts/demo.sh
# Installs what is missing, builds the tool build/bin/gdn, and runs it three times.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
--help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/demo.sh; exit 0 ;;
'') ;;
*) echo "demo: unknown argument '$1'; see --help" >&2; exit 2 ;;
esac
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"

say() { printf '\n== %s\n' "$*"; }

say "Building libgdn and the tool gdn in build/"
sh scripts/deps.sh build
mkdir -p build
log=build/demo.log
if ! { cmake --preset release && cmake --build --preset release --target gdn_tool --parallel "$(nproc)"; } >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "demo: the build failed; the whole output is in $log" >&2
    exit 1
fi
build/bin/gdn --version

say "1. What is on this machine: the backends, their devices, and the instruction sets, best first"
build/bin/gdn info

say "2. Is it right? Every implementation against the scalar reference, bit for bit"
build/bin/gdn check --quick

say "3. Is it fast? Next to the time that this machine needs for the unavoidable part alone"
build/bin/gdn bench --quick

say "That was it"
cat <<'TEXT'
gdn info   lists what can run here. Every implementation it calls exact gives the bits of the reference.
gdn check  ran each kernel in many shapes and cuts, and compared every bit; one difference would have failed.
gdn bench  timed the kernels next to floors measured in the same run: the closer to the floor, the better.
Longer runs: build/bin/gdn check, build/bin/gdn bench; all tests: sh scripts/test.sh; reading: README.md.
TEXT

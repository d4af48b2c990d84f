#!/bin/sh
# cuda_device.sh: everything that needs a CUDA device, in one go, with the results written to docs/benchmarks/.
#
#   cuda_device.sh [--quick] [--build FOLDER] [--out FOLDER]
#
#   1  build with nvcc for the device that is there          (FOLDER, default build-cuda)
#   2  gdn check --backend cuda: the whole suite, bit for bit against the reference
#   3  compute-sanitizer: memcheck, racecheck, initcheck, synccheck over a part of the check
#   4  gdn bench --backend cuda
#   5  scripts/cuda_report.sh: registers, spills, occupancy, SASS
#
# --quick: a part of 2 and 4. Results: docs/benchmarks/cuda-<device>.md and .json, with device, driver and date. Every
# step runs even where one before it failed; the exit status is 0 where all passed. Refuses an emulated device.
set -eu
cd "$(dirname "$0")/.."
build=build-cuda out=docs/benchmarks quick=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=--quick ;;
    --build) build=$2; shift ;;
    --out) out=$2; shift ;;
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "cuda_device: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
done
PATH=$PATH:/usr/local/cuda/bin
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. ')
device=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
clocks=$(nvidia-smi --query-gpu=clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader -i 0)
date=$(date -u +%Y-%m-%d)
name=cuda-$(echo "$device" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
logs=$build/device
generator=
if command -v ninja >/dev/null 2>&1; then generator="-G Ninja"; fi
# shellcheck disable=SC2086
cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DGDN_CUDA=ON -DGDN_CUDA_ARCHITECTURES="$arch" -DGDN_BUILD_TESTS=OFF \
    -DGDN_BUILD_RUNTIME=OFF
cmake --build "$build" --parallel "$(nproc)"
mkdir -p "$logs" "$out"
gdn=$build/bin/gdn
"$gdn" info | tee "$logs/info"
if grep -A 2 '^cuda' "$logs/info" | grep -qi emulat; then echo "cuda_device: the device is emulated" >&2; exit 2; fi

failed=0
verdicts=
step() { # name command...
    step_name=$1
    shift
    printf '== %s: %s\n' "$step_name" "$*"
    status=0
    "$@" >"$logs/$step_name.log" 2>&1 || status=$?
    tail -n 3 "$logs/$step_name.log"
    said=$(grep -v '^ *$' "$logs/$step_name.log" | tail -n 1)
    verdicts="$verdicts| $step_name | $([ "$status" -eq 0 ] && echo passed || echo "FAILED ($status)") | $said |
"
    [ "$status" -eq 0 ] || failed=$((failed + 1))
}

# shellcheck disable=SC2086
step check "$gdn" check --backend cuda $quick
if command -v compute-sanitizer >/dev/null 2>&1; then
    for tool in memcheck racecheck initcheck synccheck; do
        step "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$gdn" check --backend cuda --quick --cases 40
    done
else
    verdicts="$verdicts| compute-sanitizer | NOT RUN | it is not on this machine |
"
fi
# shellcheck disable=SC2086
step bench "$gdn" bench --backend cuda $quick --rotate-mib 2048 --json "$out/$name.json"
"$gdn" bench --backend cuda $quick --rotate-mib 2048 >"$logs/table" 2>&1 || true
step report sh scripts/cuda_report.sh --arch "$arch" --out "$logs/report"

{
    echo "# CUDA on $device"
    echo
    echo "### $device, $date"
    echo "libgdn $("$gdn" --version | cut -d ' ' -f 2) ($(git describe --always --dirty 2>/dev/null || echo 'no commit')), driver $driver,"
    echo "$(nvcc --version | grep release | sed 's/.*release/nvcc/'), $(uname -sr); clocks and power limit: $clocks."
    echo "Made by \`scripts/cuda_device.sh $quick\`."
    echo
    echo '| step | result | last line |'
    echo '|---|---|---|'
    printf '%s' "$verdicts"
    echo
    echo '```'
    cat "$logs/table"
    echo '```'
    echo
    echo "JSON: [$name.json]($name.json). Times are from launch to the end of \`gdn_synchronize()\`, see [README](README.md)."
} >"$out/$name.md"
cat "$out/$name.md"
echo "written: $out/$name.md; add it to the table in docs/backends/cuda.md"
[ "$failed" -eq 0 ]

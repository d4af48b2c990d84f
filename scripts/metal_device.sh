#!/bin/sh
# metal_device.sh: everything that needs Apple's hardware, in one go on a Mac, with the results written to docs/benchmarks/.
#
#   metal_device.sh [--quick] [--build FOLDER] [--out FOLDER]
#
#   1  build                                                 (FOLDER, default build-metal)
#   2  the kernels' one source through Xcode's Metal compiler, where that is installed, with all warnings
#   3  gdn check --backend metal: the whole suite, bit for bit against the reference
#   4  the same, a part of it, under Metal's API and shader validation
#   5  gdn bench --backend metal
#
# --quick: a part of 3 and 5. Results: docs/benchmarks/metal-<device>.md and .json, with device, system and date. Every
# step runs even where one before it failed; the exit status is 0 where all passed. Refuses an emulated device.
set -eu
cd "$(dirname "$0")/.."
build=build-metal out=docs/benchmarks quick=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=--quick ;;
    --build) build=$2; shift ;;
    --out) out=$2; shift ;;
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "metal_device: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
done
[ "$(uname -s)" = Darwin ] || { echo "metal_device: this is $(uname -s); a Mac is needed" >&2; exit 2; }
device=$(sysctl -n machdep.cpu.brand_string)
system="macOS $(sw_vers -productVersion) ($(sw_vers -buildVersion))"
date=$(date -u +%Y-%m-%d)
name=metal-$(echo "$device" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-')
logs=$build/device
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DGDN_METAL=ON -DGDN_VULKAN=OFF -DGDN_BUILD_TESTS=OFF -DGDN_BUILD_RUNTIME=OFF
cmake --build "$build" --parallel "$(sysctl -n hw.ncpu)"
mkdir -p "$logs" "$out"
gdn=$build/bin/gdn
"$gdn" info | tee "$logs/info"
if grep -A 2 '^metal' "$logs/info" | grep -qi emulat; then echo "metal_device: the device is emulated" >&2; exit 2; fi

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

if xcrun -sdk macosx --find metal >/dev/null 2>&1; then
    step compile xcrun -sdk macosx metal -Wall -Wextra -Wno-unused-function -fno-fast-math -c "$build/metal/gdn_metal_source.metal" \
        -o "$logs/gdn_metal_source.air"
else
    verdicts="$verdicts| compile | NOT RUN | Xcode's Metal compiler is not on this machine; the system's own compiles at run time |
"
fi
# shellcheck disable=SC2086
step check "$gdn" check --backend metal $quick
step validation env MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1 "$gdn" check --backend metal --quick --cases 40
# shellcheck disable=SC2086
step bench "$gdn" bench --backend metal $quick --json "$out/$name.json"
# shellcheck disable=SC2086
"$gdn" bench --backend metal $quick >"$logs/table" 2>&1 || true

{
    echo "# Metal on $device"
    echo
    echo "### $device, $date"
    echo "libgdn $("$gdn" --version | cut -d ' ' -f 2) ($(git describe --always --dirty 2>/dev/null || echo 'no commit')), $system, $(uname -m)."
    echo "Made by \`scripts/metal_device.sh $quick\`."
    echo
    echo '```'
    grep -A 3 '^metal' "$logs/info" || true
    echo '```'
    echo
    echo '| step | result | last line |'
    echo '|---|---|---|'
    printf '%s' "$verdicts"
    echo
    echo '```'
    cat "$logs/table"
    echo '```'
    echo
    echo "JSON: [$name.json]($name.json). Times are from the call to the end of \`gdn_synchronize()\`, see [README](README.md)."
} >"$out/$name.md"
cat "$out/$name.md"
echo "written: $out/$name.md; add it to the table in docs/backends/metal.md"
[ "$failed" -eq 0 ]

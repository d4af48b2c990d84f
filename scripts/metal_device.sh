#!/bin/sh
# metal_device.sh: everything that needs Apple's hardware, in one go on a Mac, with the results written to docs/benchmarks/.
#
#   metal_device.sh [--quick] [--build FOLDER] [--out FOLDER]
#
#   1. build                                                 (FOLDER, default build-metal)
#   2. the kernels' one source through Xcode's Metal compiler, where that is installed, with all warnings
#   3. gdn check --backend metal: the whole suite, bit for bit against the reference
#   4. the same, a part of it, under Metal's API and shader validation
#   5. gdn bench --backend metal
#
# --quick: a part of 3 and 5. Results: docs/benchmarks/metal-<device>.md and .json, with device, system and date. Every
# step runs even where one before it failed; the exit status is 0 where all passed. Refuses an emulated device.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
build=build-metal out=docs/benchmarks quick=
options metal_device "quick! build out" "$@"
[ "$(uname -s)" = Darwin ] || { echo "metal_device: this is $(uname -s); a Mac is needed" >&2; exit 2; }
device=$(sysctl -n machdep.cpu.brand_string)
system="macOS $(sw_vers -productVersion) ($(sw_vers -buildVersion))"
name=metal-$(file_name "$device")
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DGDN_METAL=ON -DGDN_VULKAN=OFF -DGDN_BUILD_TESTS=OFF -DGDN_BUILD_RUNTIME=OFF
cmake --build "$build" --parallel "$(sysctl -n hw.ncpu)"
device_begin metal_device metal

if xcrun -sdk macosx --find metal >/dev/null 2>&1; then
    step compile xcrun -sdk macosx metal -Wall -Wextra -Wno-unused-function -fno-fast-math -c "$build/metal/gdn_metal_source.metal" \
        -o "$logs/gdn_metal_source.air"
else
    not_run compile "Xcode's Metal compiler is not on this machine; the system's own compiles at run time"
fi
# shellcheck disable=SC2086
step check "$gdn" check --backend metal $quick
step validation env MTL_DEBUG_LAYER=1 MTL_SHADER_VALIDATION=1 "$gdn" check --backend metal --quick --cases 40
# shellcheck disable=SC2086
step bench env GDN_PROGRESS=off "$gdn" bench --backend metal $quick --json "$out/$name.json"
printf '```\n%s\n```\n\n' "$(grep -A 3 '^metal' "$logs/info")" | device_report metal_device Metal "$system, $(uname -m)" "the call"

#!/bin/sh
# vulkan_device.sh: everything that needs a GPU with Vulkan, in one go, with the results written to docs/benchmarks/.
#
#   vulkan_device.sh [--quick] [--software] [--build FOLDER] [--out FOLDER]
#
#   1. build                                                 (FOLDER, default build-vulkan)
#   2. gdn check --backend vulkan: the whole suite, bit for bit against the reference, on every exact implementation
#   3. the same at the level exact_ftz, where the device has it
#   4. a part of it under the validation layer with synchronization validation, where that is installed
#   5. gdn bench --backend vulkan
#
# Of several devices it takes the first one of `gdn info`, which is a GPU where there is one. --quick: a part of 2, 3 and 5.
#
# --software, to try the script: also on a driver that computes on the CPU, which it refuses otherwise.
# Results are in docs/benchmarks/vulkan-<device>.md and .json, with device, driver and date. Every step runs even where one before
# it failed; the exit status is 0 where all passed.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
build=build-vulkan out=docs/benchmarks quick='' software=''
options vulkan_device "quick! software! build out" "$@"
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DGDN_VULKAN=ON -DGDN_CUDA=OFF -DGDN_BUILD_TESTS=OFF -DGDN_BUILD_RUNTIME=OFF
cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)"
device_begin vulkan_device vulkan

# The lines of the first device, and its name in the first of them.
sed -n '/^vulkan  *available/,/^[a-z]/p' "$logs/info" | sed '1d' | awk '/^ *[0-9]+: / { n++ } /^[a-z]/ { exit } n == 1' >"$logs/device"
device=$(sed -n '1s/^ *[0-9]*: \(.*\)/\1/p' "$logs/device" | sed 's/, [0-9.]* GiB.*//')
[ -n "$device" ] || { echo "vulkan_device: no Vulkan device: $(sed -n 's/^vulkan *//p' "$logs/info")" >&2; exit 2; }
case $device in
*llvmpipe* | *lavapipe* | *SwiftShader* | *oftware*)
    [ -n "$software" ] || { echo "vulkan_device: $device computes on the CPU; --software tries the script there" >&2; exit 2; } ;;
esac
name=vulkan-$(file_name "$device")
driver="driver unknown (vulkaninfo is not installed)"
if command -v vulkaninfo >/dev/null 2>&1; then
    driver=$(vulkaninfo --summary 2>/dev/null | awk -F ' *= *' -v device="$device" '$1 ~ /deviceName/ { here = $2 == device }
        here && $1 ~ /driver(Name|Info)/ { text = text (text ? " " : "") $2 } END { print "driver " (text ? text : "unknown") }')
fi

levels=0 level='' # level: of the steps that run at one
if awk '$2 ~ /^exact/ { found = 1 } END { exit !found }' "$logs/device"; then
    levels=1
    # shellcheck disable=SC2086
    step check "$gdn" check --backend vulkan --device 0 $quick
else
    level="--level exact_ftz"
    not_run check "no implementation is exact where subnormal numbers are kept"
fi
if grep -q exact_ftz "$logs/device"; then
    levels=$((levels + 1))
    # shellcheck disable=SC2086
    step check_ftz "$gdn" check --backend vulkan --device 0 --level exact_ftz $quick
else
    not_run check_ftz "the device has no level exact_ftz"
fi
[ "$levels" -gt 0 ] || failed=$((failed + 1))

# Any word of the layer's is a failure. Does it say anything at all? tests/device/vulkan/validation.sh plants two mistakes for that.
validated() {
    # shellcheck disable=SC2086
    "$gdn" check --backend vulkan --device 0 $level --quick --cases 40 >"$logs/validated" 2>&1 || { cat "$logs/validated"; return 1; }
    if grep -E 'Validation (Error|Warning|Performance)|VUID-|SYNC-HAZARD|UNASSIGNED-' "$logs/validated"; then return 1; fi
    tail -n 1 "$logs/validated"
}
layer=VK_LAYER_KHRONOS_validation
if VK_INSTANCE_LAYERS=$layer "$gdn" info 2>/dev/null | grep -q '^vulkan  *available'; then
    export VK_INSTANCE_LAYERS=$layer VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
    step validation validated
    unset VK_INSTANCE_LAYERS VK_LAYER_ENABLES
else
    not_run validation "$layer is not installed"
fi
# shellcheck disable=SC2086
step bench env GDN_PROGRESS=off "$gdn" bench --backend vulkan --device 0 $level $quick --json "$out/$name.json"
printf '```\n%s\n```\n\n' "$(cat "$logs/device")" | device_report vulkan_device Vulkan "$driver, $(uname -srm)" "the call"

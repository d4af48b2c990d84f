#!/bin/sh
# validation.sh GDN TEST_VULKAN [CHECK-ARGUMENTS...]: the validation layer, with synchronization validation, has nothing to
# say about the check suite nor about the tests. 77 = skipped, where the layer is not installed. The device's best
# implementation has the suite; the others make the same calls with other pipelines, so that a few cases of them are enough.
set -u
gdn=$1 test=$2
shift 2
[ $# -gt 0 ] || set -- --quick --cases 100
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$gdn" info >"$log" 2>&1
grep -q 'vulkan  *available' "$log" || { echo "skipped: no device, or no validation layer"; exit 77; }

# The layer is there and looks: it must notice a wrong call and a missing barrier.
"$test" validation-bait >"$log" 2>&1
for sign in VUID- SYNC-HAZARD-; do
    grep -q "$sign" "$log" || { echo "the validation layer did not notice a planted $sign"; cat "$log"; exit 1; }
done

. "$(dirname "$0")/implementations.sh"
[ -n "$best" ] || { echo "no implementation is exact"; exit 1; }
{
    "$gdn" check --backend vulkan --impl "$best" "$@" &&
        { [ -z "$others" ] || "$gdn" check --backend vulkan --impl "$others" --cases 16 --case 'random/*'; } && "$test"
    echo "status $?"
} >"$log" 2>&1
if grep -E 'Validation (Error|Warning|Performance)|VUID-|SYNC-HAZARD|UNASSIGNED-' "$log"; then
    exit 1
fi
grep -E 'passed|ok$|FAILED' "$log"
grep -q '^status 0$' "$log"

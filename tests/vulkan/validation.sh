#!/bin/sh
# validation.sh GDN TEST_VULKAN: the validation layer, with synchronization validation, has nothing to say about the
# check suite nor about the tests. 77 = skipped, where the layer is not installed.
set -u
export VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
export VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$1" info >"$log" 2>&1
grep -q 'vulkan  *available' "$log" || { echo "skipped: no device, or no validation layer"; exit 77; }
{ "$1" check --backend vulkan --quick --cases 100; "$2"; } >"$log" 2>&1
if grep -E 'Validation (Error|Warning|Performance)|VUID-|SYNC-HAZARD|UNASSIGNED-' "$log"; then
    exit 1
fi
grep -E 'passed|ok$' "$log" | tail -n 20

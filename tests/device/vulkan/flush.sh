#!/bin/sh
# flush.sh GDN FLUSH: the level exact_ftz on a device that flushes subnormal numbers. lavapipe is one if FLUSH (flush.c) is
# preloaded. It checks three things:
# - The device has that level and no other.
# - The kernels have the bits of the reference at that level.
# - The check notices that they do not have the bits of the usual level.
# Other devices: levels.c. It runs a part of the suite, subnormals first, since a driver takes long for a pipeline. For the whole
# suite run `gdn check --backend vulkan --level exact_ftz` with the same preloaded. The exit status is 77 (skipped) without such
# a device.
set -u
gdn=$1 flush=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() { cat "$log"; echo "$*"; exit 1; }
flushing() { GDN_TEST_FLUSH=1 LD_PRELOAD=$flush "$gdn" "$@" >"$log" 2>&1; }
vulkan() { sed -n '/^vulkan/,/^metal/p' "$log"; }

"$gdn" info >"$log" 2>&1
vulkan | grep -q llvmpipe || { echo "skipped: no lavapipe"; exit 77; }
"$gdn" check --backend vulkan --level exact_ftz >"$log" 2>&1 && fail "a device that keeps subnormals is checked at exact_ftz"
flushing info
vulkan | grep -q '^ *soft-fma  *not exact, exact_ftz: subnormal' || fail "a device that flushes has not exact_ftz"
flushing check --backend vulkan && fail "a device that flushes is checked where subnormals are kept"
grep -q 'no implementation here is exact' "$log" || fail "and nothing says why not"
flushing run -m "$(dirname "$0")/../../../models/kjv-small-q8_0.gguf" --backend vulkan -p In -n 1 && fail "a model runs there"
grep -q 'llvmpipe.*is exact at this level (subnormal numbers' "$log" || fail "and nothing says why not"
for of in gated_delta_net:values/subnormal_q_channel_vk ssm_conv:types/f32_f32_f32_f32_f16_T6_width4; do
    flushing check --backend vulkan --impl soft-fma --kernel "${of%:*}" --case "${of#*:}" &&
        fail "gdn check of $of found no mismatch where subnormals are flushed and should be kept"
    grep -q "^MISMATCH ${of%:*}" "$log" || fail "gdn check of $of failed for another reason"
done
while read -r kernel case more; do
    # shellcheck disable=SC2086
    flushing check --backend vulkan --level exact_ftz --impl soft-fma --kernel "$kernel" --case "$case" $more || fail "$kernel $case"
    echo "$kernel $case: $(tail -n 1 "$log")"
done <<'CASES'
gated_delta_net norms/*
gated_delta_net values/subnormal*
gated_delta_net tiny_scale/*
gated_delta_net state16/f16_subnormal*
gated_delta_net random/* --cases 6 --quick
ssm_conv subnormal/*
ssm_conv types/f32_*
ssm_conv random/* --cases 12 --quick
set_rows values/*
CASES

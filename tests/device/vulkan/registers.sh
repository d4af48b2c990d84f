#!/bin/sh
# registers.sh GDN: gated_delta_net for lanes with many registers, fewer, and few (GDN_VULKAN_REGISTERS, see
# docs/reference/backends/vulkan.md), on any device. Each has the bits of the reference, and the four ways are four pipelines.
#
# The cases are few, since a driver takes long for a pipeline. They have a gate per channel and one per head, which change the
# pipeline at different numbers of registers. Some have operands of 16 bits, which take fewer registers if they are prefetched;
# some have operands of 16 bits beside others of 32. The exit status is 77 (skipped) without a device.
set -u
gdn=$1
. "$(dirname "$0")/implementations.sh"
[ -n "$best" ] || { echo "skipped: no device with an exact implementation"; exit 77; }
if GDN_VULKAN_REGISTERS=some "$gdn" check --backend vulkan --kernel set_rows --case 0 >/dev/null 2>&1; then
    echo "a number of registers that is none was taken"
    exit 1
fi
log=$(mktemp)
shapes=$(mktemp)
trap 'rm -f "$log" "$shapes"' EXIT
for case in checkpoints/T3_N1_k128_kv log/T4_R3_k128_v64_vk prefill/k128_channel_bf16 prefill/k128_scalar_bf16 types/1 random/0; do
    : >"$shapes"
    case $case in
    types/1) ways="112 80 64 32" ;; # F16, heads of 64 keys
    random/0) ways=200 ;;           # F32 beside 16 bits
    *) ways="200 168 128 96 64" ;;
    esac
    for registers in $ways; do
        GDN_LOG=debug GDN_VULKAN_REGISTERS=$registers "$gdn" check --backend vulkan --impl "$best" --kernel gated_delta_net \
            --case "$case" >"$log" 2>&1 || { tail -n 5 "$log"; echo "$registers registers: $case failed"; exit 1; }
        sed -n 's/.*pipeline of gated_delta_net, [0-9]* lanes (\([0-9]*, [0-9]*\), .*/\1/p' "$log" | sort -u | tr '\n' ' ' >>"$shapes"
        echo >>"$shapes"
        echo "$registers registers: $case $(tail -n 1 "$log")"
    done
    [ "$ways" = 200 ] || [ "$(sort -u "$shapes" | grep -c '[0-9]')" -eq 4 ] || { cat "$shapes"; echo "$case has the same pipelines twice"; exit 1; }
done

#!/bin/sh
# check.sh GDN KERNELS: gdn check on every exact implementation of the Vulkan devices: the whole suite, or a part of it.
#
# A part is enough for an implementation that differs from a device's best one only in how lanes exchange numbers (`-shared`,
# exchange.glsl). Nearly all of the time is the driver's compiler, which makes each pipeline once more. ssm_conv and set_rows have
# no exchanges, so their pipelines are the same. gated_delta_net's exchanges do not depend on a head's size. --quick --cases 100
# covers 23 of the 24 combinations (SHAPE) that the general shader is compiled for. Every part is among them: a gate per
# channel, each layout, parametrisations, checkpoints, a log, a tree.
# The exit status is 77 (skipped) without a device.
set -u
gdn=$1 kernels=$2
. "$(dirname "$0")/implementations.sh"
[ -n "$best" ] || { echo "skipped: no device with an exact implementation"; exit 77; }
whole=$best part=
for name in $(echo "$others" | tr , ' '); do
    case ,$best, in
    *,"${name%-shared}",*) part=${part:+$part,}$name ;;
    *) whole=$whole,$name ;;
    esac
done
"$gdn" check --backend vulkan --kernel "$kernels" --impl "$whole" || exit
[ -z "$part" ] || "$gdn" check --backend vulkan --kernel "$kernels" --impl "$part" --quick --cases 100

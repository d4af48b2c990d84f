#!/bin/sh
# check.sh GDN KERNELS: gdn check on every exact implementation of the Vulkan devices, the whole suite. But where an implementation
# differs from a device's best one by nothing but how lanes exchange numbers (`-shared`, exchange.glsl), a part of the suite: nearly
# all of the time is the driver's compiler, which has to make each pipeline once more. ssm_conv and set_rows have no exchanges, so
# that theirs are the same pipelines. gated_delta_net's exchanges do not depend on a head's size; --quick --cases 100 comes to them
# with 23 of the 24 combinations of what a call may have (SHAPE) that the general shader is compiled for, every part of which (a
# gate per channel, each layout, forms, checkpoints, a log, a tree) is among them. 77 = skipped, where there is no device.
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

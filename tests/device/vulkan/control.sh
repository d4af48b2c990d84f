#!/bin/sh
# control.sh GDN: the check must be able to fail. Where the device's fma is not fused, the pipelines that use it all the
# same (implementation plain-fma) have to be found out; where it is, there is nothing to find. 77 = skipped.
set -u
"$1" info | grep -q plain-fma || { echo "no device here has an fma that rounds twice"; exit 77; }
for kernel in gated_delta_net ssm_conv; do
    if ! "$1" check --backend vulkan --impl plain-fma --kernel "$kernel" --quick --cases 20 --stop 2>&1 | grep "^MISMATCH $kernel"; then
        echo "gdn check of $kernel found no mismatch with a fma that rounds twice"
        exit 1
    fi
done
echo "gdn check fails with plain-fma, as it must"

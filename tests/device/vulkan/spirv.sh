#!/bin/sh
# spirv.sh SPIRV-VAL TEST_VULKAN FOLDER: validate every shader, as compiled and with all float controls put in, of each level.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" write-spirv "$folder"
n=0
for file in "$3"/*.spv "$folder"/*.spv; do
    "$1" --target-env vulkan1.2 "$file" || { echo "invalid: $file"; exit 1; }
    n=$((n + 1))
done
echo "spirv-val: $n shaders are valid"
[ "$n" -ge 152 ]

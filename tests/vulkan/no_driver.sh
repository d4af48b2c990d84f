#!/bin/sh
# no_driver.sh GDN LIBGDN: without a Vulkan driver, and without a Vulkan loader, the library loads, says why the backend is
# not there, and everything else works.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if readelf -d "$2" | grep -i 'NEEDED.*vulkan'; then
    echo "the library is linked with a Vulkan library"
    exit 1
fi

# The backend says `reason`, and the CPU works.
try() { # what reason variable=value...
    what=$1 reason=$2
    shift 2
    env "$@" "$gdn" info >"$folder/info"
    grep "^vulkan  *unavailable .*$reason" "$folder/info" || { echo "$what: 'gdn info' does not say '$reason':"; cat "$folder/info"; exit 1; }
    grep -q '^cpu  *available' "$folder/info"
    env "$@" "$gdn" check --backend cpu --kernel set_rows --quick --cases 5 | tail -n 1
    status=0
    env "$@" "$gdn" check --backend vulkan --quick >"$folder/check" 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q "$reason" "$folder/check" || { echo "$what: 'gdn check' left with $status:"; cat "$folder/check"; exit 1; }
}

gdn=$1
# A loader that finds no driver.
try "no driver" 'VK_ERROR_INCOMPATIBLE_DRIVER' VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent
# No loader: what is found under its names is no library.
: >"$folder/libvulkan.so.1"
: >"$folder/libvulkan.so"
try "no loader" 'no Vulkan loader' LD_LIBRARY_PATH="$folder"

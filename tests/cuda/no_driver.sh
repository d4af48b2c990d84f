#!/bin/sh
# no_driver.sh GDN LIBGDN [FAKE]: without a CUDA driver the library loads, says why the backend is not there, and everything
# else works. FAKE: the folder of the emulator's libcuda.so.1, for drivers that have no device to offer.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if readelf -d "$2" | grep -i 'NEEDED.*cuda'; then
    echo "the library is linked with a CUDA library"
    exit 1
fi

# The backend says `reason`, and the CPU works.
try() { # what reason variable=value...
    what=$1 reason=$2
    shift 2
    env "$@" "$gdn" info >"$folder/info"
    grep "^cuda  *unavailable .*$reason" "$folder/info" || { echo "$what: 'gdn info' does not say '$reason':"; cat "$folder/info"; exit 1; }
    grep -q '^cpu  *available' "$folder/info"
    env "$@" "$gdn" check --backend cpu --kernel set_rows --quick --cases 5 | tail -n 1
    status=0
    env "$@" "$gdn" check --backend cuda --quick >"$folder/check" 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q "$reason" "$folder/check" || { echo "$what: 'gdn check' left with $status:"; cat "$folder/check"; exit 1; }
}

gdn=$1
# What is found under its names is no library.
: >"$folder/libcuda.so.1"
: >"$folder/libcuda.so"
try "no driver" 'no CUDA driver' LD_LIBRARY_PATH="$folder"
if [ $# -gt 2 ]; then
    try "no device" 'CUDA_ERROR_NO_DEVICE' LD_LIBRARY_PATH="$3" GDN_SIMT_CONTROL=devices=0
    try "an old device" 'compute capability 7.0; 7.5 is needed' LD_LIBRARY_PATH="$3" GDN_SIMT_CONTROL=compute=70
fi

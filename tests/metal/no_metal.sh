#!/bin/sh
# no_metal.sh GDN LIBGDN FAKE: without Metal the library loads, says why the backend is not there, and everything else works.
# FAKE: the folder of the emulator's libgdn-metal-emulated.so, for systems that have no device to offer.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if readelf -d "$2" | grep -iE 'NEEDED.*(metal|objc)'; then
    echo "the library is linked with Metal or the Objective-C runtime"
    exit 1
fi

# The backend says `reason`, and the CPU works.
try() { # what reason variable=value...
    what=$1 reason=$2
    shift 2
    env "$@" "$gdn" info >"$folder/info"
    grep "^metal  *unavailable .*$reason" "$folder/info" || { echo "$what: 'gdn info' does not say '$reason':"; cat "$folder/info"; exit 1; }
    grep -q '^cpu  *available' "$folder/info"
    env "$@" "$gdn" check --backend cpu --kernel set_rows --quick --cases 5 | tail -n 1
    status=0
    env "$@" "$gdn" check --backend metal --quick >"$folder/check" 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q "$reason" "$folder/check" || { echo "$what: 'gdn check' left with $status:"; cat "$folder/check"; exit 1; }
}

gdn=$1
: >"$folder/libgdn-metal-emulated.so" # what is found under its name is no library
try "no Metal" 'no Metal' LD_LIBRARY_PATH="$folder"
try "no device" 'Metal has no device' LD_LIBRARY_PATH="$3" GDN_METAL_FAKE=device=0
try "an old device" 'family Apple6 or Mac2 is needed' LD_LIBRARY_PATH="$3" GDN_METAL_FAKE=family=1005

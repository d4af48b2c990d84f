#!/bin/sh
# no_driver.sh BACKEND GDN LIBGDN [FAKE]: without a driver of the backend the library loads, says why the backend is not there,
# and everything else works. FAKE: the folder of the emulated driver, for drivers that have no device to offer.
set -eu
backend=$1 gdn=$2 library=$3 fake=${4:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The backend says `reason`, and the CPU works.
try() { # what reason variable=value...
    what=$1 reason=$2
    shift 2
    env "$@" "$gdn" info >"$folder/info"
    grep "^$backend  *unavailable .*$reason" "$folder/info" ||
        { echo "$what: 'gdn info' does not say '$reason':"; cat "$folder/info"; exit 1; }
    grep -q '^cpu  *available' "$folder/info"
    env "$@" "$gdn" check --backend cpu --kernel set_rows --quick --cases 5 | tail -n 1
    status=0
    env "$@" "$gdn" check --backend "$backend" --quick >"$folder/check" 2>&1 || status=$?
    [ "$status" -eq 2 ] && grep -q "$reason" "$folder/check" ||
        { echo "$what: 'gdn check' left with $status:"; cat "$folder/check"; exit 1; }
}

case $backend in
cuda) needs=cuda ;;
metal) needs='metal|objc' ;;
vulkan) needs=vulkan ;;
*) echo "no_driver: no backend '$backend'" >&2; exit 2 ;;
esac
if readelf -d "$library" | grep -iE "NEEDED.*($needs)"; then
    echo "the library is linked with one of $backend"
    exit 1
fi

# What is found under the driver's names is no library.
for name in libcuda.so.1 libcuda.so libgdn-metal-emulated.so libvulkan.so.1 libvulkan.so; do
    : >"$folder/$name"
done
case $backend in
cuda)
    try "no driver" 'no CUDA driver' LD_LIBRARY_PATH="$folder"
    [ -z "$fake" ] || try "no device" 'CUDA_ERROR_NO_DEVICE' LD_LIBRARY_PATH="$fake" GDN_SIMT_CONTROL=devices=0
    [ -z "$fake" ] || try "an old driver" 'is of CUDA 12.9; this build.s kernels, made with CUDA 13.0, need one of CUDA 13.0 or newer' \
        LD_LIBRARY_PATH="$fake" GDN_SIMT_CONTROL=driver=12090
    [ -z "$fake" ] || try "an old device" 'compute capability 7.0; 7.5 is needed' LD_LIBRARY_PATH="$fake" GDN_SIMT_CONTROL=compute=70
    ;;
metal)
    try "no Metal" 'no Metal' LD_LIBRARY_PATH="$folder"
    try "no device" 'Metal has no device' LD_LIBRARY_PATH="$fake" GDN_METAL_FAKE=device=0
    try "an old device" 'family Apple6 or Mac2 is needed' LD_LIBRARY_PATH="$fake" GDN_METAL_FAKE=family=1005
    ;;
vulkan) # a loader that finds no driver; no loader
    try "no driver" 'VK_ERROR_INCOMPATIBLE_DRIVER' VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent
    try "no loader" 'no Vulkan loader' LD_LIBRARY_PATH="$folder"
    ;;
esac

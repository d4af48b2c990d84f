#!/bin/sh
# cuda_report.sh: compile the CUDA kernels and report what the compiler made of them; no GPU is needed.
#
#   cuda_report.sh [--arch LIST] [--out FOLDER] [--table FILE]
#                                  LIST: such as 80,90 (default: 75,80,90,100,120, what nvcc knows of them)
#   cuda_report.sh --built FOLDER [--out FOLDER] [--table FILE]
#                                  compiles nothing: the kernels of the image that a build with GDN_CUDA_KEEP=ON has in its cuda/
#
# For each kernel and architecture: registers, spills, shared memory, blocks and warps per multiprocessor; and, where nvdisasm
# is found, how many fused multiply-adds (FFMA), separate products and sums, and 128-bit loads and stores of global memory
# its code has. FOLDER (default build/cuda-report) gets report.md and the compiler's output. Then scripts/sass_gate.py measures
# how loads wait for one another, and holds that to scripts/sass_limits.txt; FILE gets its table.
#
# Where there is no nvdisasm (scripts/sass_gate.py says where it is looked for), scripts/nvdisasm.sh gets it from PyPI into
# build-test/. Where that cannot be reached, machine code is not looked at, and the last line says SKIPPED and why.
#
# Fails where a kernel spills or has a stack, more than a limit says, where gated_delta_net has no FFMA or no 128-bit accesses (rows) or loads (tiles),
# where a kernel has an instruction that the contract does not know (approximations, divisions of floats, .FTZ), and where
# a limit is exceeded.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
arch=75,80,90,100,120 built= out=build/cuda-report table=
options cuda_report "arch built out table" "$@"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "cuda_report: no nvcc" >&2; exit 2; }
mkdir -p "$out"
got=0
sh scripts/nvdisasm.sh >"$out/nvdisasm" || got=$?
case $got in
0) nvdisasm=$(tail -n 1 "$out/nvdisasm") ;;
77) nvdisasm='' without=$(tail -n 1 "$out/nvdisasm") ;;
*) echo "cuda_report: nvdisasm could not be installed" >&2; exit 1 ;;
esac
"$nvcc" --version | sed -n 's/^Cuda compilation tools, .*V/nvcc /p' >"$out/nvcc"
disassemble() { # cubin listing
    : >"$2"
    [ -z "$nvdisasm" ] || "$nvdisasm" -hex -c "$1" >"$2"
}
if [ -n "$built" ]; then
    said=$built/gdn_cuda.ptxas
    [ -s "$said" ] || { echo "cuda_report: no $said; the build needs GDN_CUDA_KEEP=ON" >&2; exit 2; }
    rm -f "$out"/*.ptxas "$out"/*.sass
    for one in $(sed -n "s/.*Compiling entry function.*for 'sm_\([0-9]*\)'.*/\1/p" "$said" | sort -nu); do
        awk -v of="'sm_$one'" '/Compiling entry function/ { here = index($0, of) } here' "$said" >"$out/image_$one.ptxas"
        disassemble "$built/all.sm_$one.cubin" "$out/image_$one.sass"
    done
    arch=
fi
known=$("$nvcc" --list-gpu-arch)
for one in $(echo "$arch" | tr ',' ' '); do
    echo "$known" | grep -qx "compute_$one" || { echo "nvcc does not know sm_$one"; continue; }
    for kernel in gated_delta_net ssm_conv set_rows probe; do
        # The flags of cuda/sources.cmake.
        "$nvcc" -std=c++17 -O3 -fmad=false -ftz=false -I. -Xptxas -v -arch="sm_$one" -cubin -o "$out/${kernel}_$one.cubin" \
            "cuda/$kernel.cu" >"$out/${kernel}_$one.ptxas" 2>&1 || { cat "$out/${kernel}_$one.ptxas"; exit 1; }
        disassemble "$out/${kernel}_$one.cubin" "$out/${kernel}_$one.sass"
    done
done
status=0
python3 scripts/cuda_report.py "$out" || status=1
if [ -n "$nvdisasm" ]; then
    report=$(python3 scripts/sass_gate.py "$out" ${table:+--write "$table"}) || status=1
    echo "$report"
else
    echo "machine code SKIPPED: $without"
fi
exit "$status"

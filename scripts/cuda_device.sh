#!/bin/sh
# cuda_device.sh: everything that needs a CUDA device, in one go, with the results written to docs/benchmarks/.
#
#   cuda_device.sh [--quick] [--skip STEPS] [--build FOLDER] [--out FOLDER] [--emulated]
#
#   1. build with nvcc for the device that is there          (FOLDER, default build-cuda)
#   2. gdn check --backend cuda: the whole suite, bit for bit against the reference
#   3. compute-sanitizer: memcheck, racecheck, initcheck, synccheck over a part of the check
#   4. gdn bench --backend cuda, beside the device's own copies
#   5. scripts/cuda_resources.py: registers and spills, compared with its limits
#   6. ncu: registers, instructions, cycles and sectors of a decode and of prefills
#   7. speed: python/examples/cuda_speed.py, each kernel in a CUDA graph beside its alternatives, a copy, and flash-linear-attention
#
# --quick: a part of 2 and 4. --skip "ncu bench": without these steps; sanitizer is 3. Results: docs/benchmarks/cuda-<device>.md and .json, with device, driver and date. Every
# step runs even where one before it failed; the exit status is 0 where all passed. 3, 6 and 7 say NOT RUN where their tool is
# not there (7: PyTorch with CUDA). About 8 minutes on an H100 with 16 cores, without --quick.
#
# --emulated: the same with build-test on the tests' emulator (CONTRIBUTING.md), into build-test/device: to try the script. Its times mean
# nothing. Without it an emulated device is refused. Needed otherwise: the driver with nvidia-smi, nvcc (in the PATH, $CUDA_HOME or
# /usr/local/cuda), cmake, a C compiler, Python 3. Of several devices it is the first, or the first of CUDA_VISIBLE_DEVICES.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
build=build-cuda out=docs/benchmarks quick= skip= emulated=
options cuda_device "quick! emulated! skip build out" "$@"
refuse() { echo "cuda_device: $*" >&2; exit 2; }
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
if [ "$emulated" ]; then
    build=build-test out=build-test/device device='the emulator' driver=emulated clocks='none: no times' rotate=1 name=cuda-emulated
    LD_LIBRARY_PATH=$PWD/build-test/tests/emulator/gdn_simt_cuda
    export LD_LIBRARY_PATH
    [ -e "$LD_LIBRARY_PATH/libcuda.so.1" ] || refuse "build-test has no emulator; see CONTRIBUTING.md"
else
    for tool in nvidia-smi nvcc cmake python3; do
        command -v "$tool" >/dev/null 2>&1 || refuse "there is no $tool here, which is needed"
    done
    # Devices by their place on the bus, as nvidia-smi counts; CUDA would have the fastest first.
    export CUDA_DEVICE_ORDER=PCI_BUS_ID
    first=${CUDA_VISIBLE_DEVICES:-0}
    ask() { nvidia-smi "--query-gpu=$1" "--format=csv,noheader$2" -i "${first%%,*}" | head -n 1; }
    arch=$(ask compute_cap '' | tr -d '. ')
    case $arch in
    '' | *[!0-9]*) refuse "nvidia-smi does not say which compute capability the device has; it says: $arch" ;;
    esac
    nvcc --list-gpu-arch | grep -qx "compute_$arch" ||
        refuse "the device is of sm_$arch, which $(command -v nvcc) does not know; a newer CUDA toolkit is needed"
    device=$(ask name '')
    driver=$(ask driver_version '')
    clocks=$(ask clocks.max.sm,clocks.max.mem,power.limit '')
    # Operands in rotation, and as much again that copies go between: together at most a quarter of the device's memory.
    memory=$(ask memory.total ,nounits | tr -d ' ')
    case $memory in '' | *[!0-9]*) memory=16384 ;; esac
    rotate=$((memory / 8 < 2048 ? memory / 8 : 2048))
    name=cuda-$(file_name "$device")
    generator=$(! command -v ninja >/dev/null 2>&1 || echo "-G Ninja")
    # Without Vulkan, which would see the same device and needs a shader compiler.
    # shellcheck disable=SC2086
    cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DGDN_CUDA=ON -DGDN_CUDA_ARCHITECTURES="$arch" -DGDN_VULKAN=OFF \
        -DGDN_BUILD_TESTS=OFF -DGDN_BUILD_RUNTIME=OFF
    cmake --build "$build" --parallel "$(nproc)"
fi
device_begin cuda_device cuda
grep -q '^cuda  *available' "$logs/info" || refuse "the library finds no device: $(grep '^cuda' "$logs/info")"

wanted() { case " $skip " in *" $1 "*) not_run "$1" "left out" && return 1 ;; esac }
# shellcheck disable=SC2086
! wanted check || step check "$gdn" check --backend cuda $quick
# The chunked form with the digits' other type, which is not its default.
! wanted check_f16 || step check_f16 env GDN_CUDA_DIGITS=f16 "$gdn" check --backend cuda --kernel gated_delta_net --case 'chunked/*'
if ! wanted sanitizer; then
    :
elif command -v compute-sanitizer >/dev/null 2>&1; then
    for tool in memcheck racecheck initcheck synccheck; do
        step "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$gdn" check --backend cuda --quick --cases 40
    done
else
    not_run compute-sanitizer "it is not on this machine"
fi
# shellcheck disable=SC2086
! wanted bench || step bench env GDN_PROGRESS=off "$gdn" bench --backend cuda $quick --rotate-mib "$rotate" --json "$out/$name.json"
[ "$emulated" ] || ! wanted resources || step resources python3 scripts/cuda_resources.py "$build/cuda/gdn_cuda.ptxas"
# Of each row the first launch. Self-test vectors would be launches of the same kernels before it.
count() {
    for row in decode/seqs:8 prefill512/seqs:1 prefill512/seqs:8; do
        echo "gated_delta_net/$row"
        GDN_KNOWN_ANSWERS=off ncu --kernel-name regex:gdn_cuda_delta_ --launch-count 1 --metrics "$metrics" \
            "$gdn" bench --backend cuda --filter "gated_delta_net/$row/" --min-reps 1 --min-time 0.001 --max-time 1 --rotate-mib 256 \
            --no-peer >"$logs/counted" 2>&1 || :
        cat "$logs/counted"
        grep -q ERR_NVGPUCTRPERM "$logs/counted" && { echo "this user may not read the device's counters (ERR_NVGPUCTRPERM)"; return 77; }
        grep -q smsp__inst_executed "$logs/counted" || { echo "ncu counted nothing of $row"; return 1; }
    done
    echo "3 calls counted"
}
metrics=launch__registers_per_thread,smsp__inst_executed.sum,sm__cycles_elapsed.max,gpu__time_duration.sum
metrics=$metrics,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum
: >"$logs/counts"
if ! wanted ncu; then
    :
elif ! command -v ncu >/dev/null 2>&1; then
    not_run ncu "it is not on this machine"
else
    step ncu count
    { echo 'ncu:'; echo; grep -E '^gated_delta_net|gdn_cuda_|__' "$logs/ncu.log" | sed 's/^/    /'; echo; } >"$logs/counts" || :
fi
# The Python package of this build, for python/examples/cuda_speed.py.
speed() {
    package=$build/python dry=${emulated:+--dry-run} fla=
    rm -rf "$package" && mkdir -p "$package" && cp -R python/gdn "$package/" && cp "$build/libgdn.so" "$package/gdn/"
    python3 python/make_abi.py include "$package/gdn/_abi.py"
    export PYTHONPATH="$package${PYTHONPATH:+:$PYTHONPATH}"
    python3 -c "import torch; assert '$emulated' or torch.cuda.is_available()" 2>/dev/null || { echo "python3 has no PyTorch with CUDA"; return 77; }
    python3 -c 'import fla' 2>/dev/null && fla=--fla
    # shellcheck disable=SC2086
    python3 python/examples/cuda_speed.py $dry $fla --json "$out/$name-kernels.json"
    echo "the table is $out/$name-kernels.json"
}
: >"$logs/speed.log"
! wanted speed || step speed speed
{ cat "$logs/counts"; echo '```'; cat "$logs/speed.log"; echo '```'; echo; } >"$logs/between"
compiler=$(nvcc --version 2>&1 | grep release | sed 's/.*release/nvcc/')
device_report cuda_device CUDA "driver $driver,
$compiler, $(uname -sr); clocks and power limit: $clocks" launch <"$logs/between"

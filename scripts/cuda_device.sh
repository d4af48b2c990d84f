#!/bin/sh
# cuda_device.sh: everything that needs a CUDA device, in one go, with the results written to docs/benchmarks/.
#
#   cuda_device.sh [--quick] [--build FOLDER] [--out FOLDER]
#
#   1  build with nvcc for the device that is there          (FOLDER, default build-cuda)
#   2  gdn check --backend cuda: the whole suite, bit for bit against the reference
#   3  compute-sanitizer: memcheck, racecheck, initcheck, synccheck over a part of the check
#   4  gdn bench --backend cuda
#   5  scripts/cuda_report.sh: registers, spills, occupancy, SASS
#
# --quick: a part of 2 and 4. Results: docs/benchmarks/cuda-<device>.md and .json, with device, driver and date. Every
# step runs even where one before it failed; the exit status is 0 where all passed. Refuses an emulated device.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
build=build-cuda out=docs/benchmarks quick=
options cuda_device "quick build out" "$@"
PATH=$PATH:/usr/local/cuda/bin
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. ')
device=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0)
clocks=$(nvidia-smi --query-gpu=clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader -i 0)
name=cuda-$(file_name "$device")
generator=
if command -v ninja >/dev/null 2>&1; then generator="-G Ninja"; fi
# shellcheck disable=SC2086
cmake -S . -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DGDN_CUDA=ON -DGDN_CUDA_ARCHITECTURES="$arch" -DGDN_BUILD_TESTS=OFF \
    -DGDN_BUILD_RUNTIME=OFF
cmake --build "$build" --parallel "$(nproc)"
device_begin cuda_device cuda

# shellcheck disable=SC2086
step check "$gdn" check --backend cuda $quick
if command -v compute-sanitizer >/dev/null 2>&1; then
    for tool in memcheck racecheck initcheck synccheck; do
        step "$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$gdn" check --backend cuda --quick --cases 40
    done
else
    not_run compute-sanitizer "it is not on this machine"
fi
# shellcheck disable=SC2086
step bench "$gdn" bench --backend cuda $quick --rotate-mib 2048 --json "$out/$name.json"
"$gdn" bench --backend cuda $quick --rotate-mib 2048 >"$logs/table" 2>&1 || true
step report sh scripts/cuda_report.sh --arch "$arch" --out "$logs/report"

compiler=$(nvcc --version | grep release | sed 's/.*release/nvcc/')
device_report cuda_device CUDA "driver $driver,
$compiler, $(uname -sr); clocks and power limit: $clocks" launch </dev/null

#!/bin/sh
# Run all tests of libgdn. On a bare Debian 12: sh scripts/test.sh
#
#   test.sh                     all stages
#   test.sh --stage NAME ...    these stages only (and `build` before those that need it)
#   test.sh --list              what the stages are
#   test.sh --help              this text
#
# Missing packages are installed first (scripts/deps.sh). Every stage prints one line; its whole output is
# in build/logs/NAME.log. A stage that cannot run here and is documented as optional prints SKIPPED with
# the reason; everything else that cannot run has failed. The last line is 'N passed, N failed', counting
# stages, and the exit status is 0 only where none failed.
set -u
cd "$(dirname "$0")/.." || exit 1
self=scripts/test.sh
logs=build/logs
jobs=$(nproc 2>/dev/null || echo 2)
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}" CTEST_OUTPUT_ON_FAILURE=1 DEBIAN_FRONTEND=noninteractive

stages() {
    cat <<'STAGES'
deps        install what is missing
lint        the tree against the registry of kernels; and that the lint finds what is broken
build       the Release build in build/
unit        the tool, the public interface, errors
golden      accuracy against results of other implementations
selftest    gdn check finds mistakes that are planted
check       gdn check: every instruction set of this machine, bit for bit against the reference
vulkan      gdn check and more on every Vulkan device (lavapipe will do), validation layer, spirv-val, a control
runtime     the runtime: models against goldens, streams in many ways, random operations, text, saves
cuda        the CUDA kernels on an emulator: gdn check, contexts, graphs, faults, mistakes that must be noticed; nvcc's code where it is
metal       the Metal kernels on the emulator, behind a fake Metal: gdn check, its objects, faults, mistakes that must be noticed
elementary  the elementary functions over all 2^32 floats
consumers   the installed library in other projects: CMake, pkg-config, C++, Python
abi         exported symbols, layout of structs, abidiff
package     the Debian packages and the archive
asan        the check, unit, golden and runtime tests under AddressSanitizer and UndefinedBehaviorSanitizer
tsan        the check with many threads, and API tests with threads, under ThreadSanitizer
clang       the whole project with clang; gdn check --quick, unit and golden tests under its UndefinedBehaviorSanitizer
arm64       cross build for 64-bit Arm, gdn check on NEON under qemu
fuzz        the seed corpus and a short run of every fuzz target
STAGES
}

# ---- Stages. Each runs in a process of its own under set -e. note prints on the stage's line. --------

note() { printf '%s\n' "$*" >"$GDN_STAGE_NOTE"; }
skip() { note "$*"; exit 77; }

# Run a command with its output in the log and in $GDN_STAGE_NOTE.out; the last line of it is the note.
capture() {
    rm -f "$GDN_STAGE_NOTE.ok"
    { "$@" && : >"$GDN_STAGE_NOTE.ok"; } | tee "$GDN_STAGE_NOTE.out"
    note "$(grep -v '^ *$' "$GDN_STAGE_NOTE.out" | tail -n 1)"
    [ -f "$GDN_STAGE_NOTE.ok" ]
}

run_ctest() { # build-folder ctest-arguments...; no tests at all is a failure
    folder=$1
    shift
    capture ctest --test-dir "$folder" --no-tests=error --parallel "$jobs" "$@"
    note "$(sed -n 's/.*tests passed, 0 tests failed out of \([0-9]*\)/\1 tests/p' "$GDN_STAGE_NOTE.out")"
}

build() { # preset cmake-arguments...
    preset=$1
    shift
    cmake --preset "$preset" -DGDN_WERROR=ON "$@"
    cmake --build --preset "$preset" --parallel "$jobs"
}

stage_deps() {
    sh scripts/deps.sh
    note "$(sh scripts/deps.sh --list | wc -l) packages are there"
}

stage_lint() {
    python3 scripts/lint_kernels.py
    python3 scripts/lint_metal.py
    python3 scripts/lint_metal.py --self-test
    capture python3 scripts/lint_kernels.py --self-test
}

# The CUDA backend is built for the emulator; the stage cuda compiles its kernels with nvcc where that is there.
emulated="-DGDN_CUDA=ON -DGDN_CUDA_EMULATED=ON -DGDN_METAL=ON -DGDN_METAL_EMULATED=ON"

stage_build() {
    # shellcheck disable=SC2086
    build release -DGDN_CMOCKA=ON $emulated
    note "$(build/bin/gdn --version)"
}

stage_unit() { run_ctest build -L unit; }
stage_golden() { run_ctest build -L golden; }
stage_consumers() { run_ctest build -L install; }
stage_abi() { run_ctest build -L abi; }

stage_selftest() {
    capture build/bin/gdn check --self-test
}

stage_check() {
    capture build/bin/gdn check --backend cpu
}

# All of it needs a device, and deps installs one; tests that skip for want of it have not shown anything.
stage_vulkan() {
    build/bin/gdn info
    run_ctest build -L vulkan --timeout 900
    if grep -E 'Skipped|Not Run' "$GDN_STAGE_NOTE.out"; then exit 1; fi
}

stage_runtime() { run_ctest build -L runtime; }

# One architecture: a report of registers and instructions, and that the image can be embedded. All of them take minutes.
stage_cuda() {
    run_ctest build -L '^cuda$' --timeout 900
    if grep -E 'Skipped|Not Run' "$GDN_STAGE_NOTE.out"; then exit 1; fi
    tests=$(cat "$GDN_STAGE_NOTE")
    if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
        capture sh scripts/cuda_report.sh --arch 90 --out build/cuda-report
        note "$tests; $(cat "$GDN_STAGE_NOTE")"
    else
        note "$tests; no nvcc here, so nothing was compiled for a device"
    fi
}

# On a Mac this is the device itself; see scripts/metal_device.sh.
stage_metal() {
    run_ctest build -L '^metal$' --timeout 900
    if grep -E 'Skipped|Not Run' "$GDN_STAGE_NOTE.out"; then exit 1; fi
}

stage_elementary() {
    capture build/bin/test_elementary
}

stage_package() {
    build package -DGDN_CUDA_ARCHITECTURES=90 # where there is nvcc; a release has them all
    rm -rf build-package/packages
    cpack --preset package
    ls build-package/packages
    for package in libgdn0 libgdn-dev gdn-tools gdn-models; do
        dpkg-deb --info build-package/packages/"$package"_*.deb
        dpkg-deb --contents build-package/packages/"$package"_*.deb
    done
    dpkg-deb --field build-package/packages/libgdn0_*.deb Depends | grep libc6
    dpkg-deb --field build-package/packages/libgdn-dev_*.deb Depends | grep libgdn0
    packages="$(find build-package/packages -maxdepth 1 -name '*.deb' | wc -l) packages and an archive"
    if command -v lintian >/dev/null 2>&1; then
        lintian --fail-on error,warning build-package/packages/*.deb
        packages="$packages; lintian has nothing to say"
    fi
    note "$packages"
}

stage_asan() {
    # shellcheck disable=SC2086
    build asan -DGDN_CMOCKA=ON $emulated
    run_ctest build-asan -L 'unit|golden|check|runtime'
}

stage_tsan() {
    build tsan -DGDN_CMOCKA=ON
    # ThreadSanitizer of GCC 12 cannot start where the kernel randomizes addresses in more than 28 bits.
    plain=
    if setarch "$(uname -m)" -R true 2>/dev/null; then plain="setarch $(uname -m) -R"; fi
    export TSAN_OPTIONS=halt_on_error=1
    # $plain is a list of words.
    # shellcheck disable=SC2086
    for tests in threads parallel_for untouched; do # contexts that threads share, and the caller's threads
        capture $plain sh -c 'exec build-tsan/bin/test_api "$1" 2>&1' - "$tests"
        grep -q 'PASSED.* 1 test' "$GDN_STAGE_NOTE.out" # and not none, of another name
    done
    # shellcheck disable=SC2086
    $plain build-tsan/bin/test_alloc
    # A quick run; every case about threads; random cases with more threads than cores.
    set -f
    for cases in "--quick" "--case threads/*" "--seed 2 --cases 200 --case random/* --threads 5,6,7,8" \
        "--seed 3 --cases 200 --case random/* --threads 5,6,7,8"; do
        # shellcheck disable=SC2086
        capture $plain build-tsan/bin/gdn check --backend cpu $cases
    done
}

stage_clang() {
    # shellcheck disable=SC2086
    build clang -DGDN_CMOCKA=ON $emulated
    run_ctest build-clang -L 'unit|golden'
    capture build-clang/bin/gdn check --backend cpu --quick
}

stage_arm64() {
    build arm64-qemu
    run_ctest build-arm64-qemu -L 'check|golden|unit|abi'
}

stage_fuzz() { sh scripts/fuzz.sh; }

# ---- Running them -----------------------------------------------------------------------------------

case ${1-} in
--help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$self"; exit 0 ;;
--list) stages; exit 0 ;;
--run-stage) # for this script only
    set -e
    "stage_$2"
    exit 0
    ;;
esac

needs_build() {
    case $1 in
    unit | golden | selftest | check | vulkan | cuda | metal | elementary | consumers | abi) return 0 ;;
    *) return 1 ;;
    esac
}

names=$(stages | cut -d ' ' -f 1)
wanted=
while [ $# -gt 0 ]; do
    case $1 in
    --stage)
        [ $# -gt 1 ] || { echo "test: --stage needs a name; see --list" >&2; exit 2; }
        printf '%s\n' "$names" | grep -qx -- "$2" || { echo "test: no stage '$2'; see --list" >&2; exit 2; }
        wanted="$wanted $2"
        shift
        ;;
    *) echo "test: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
done
if [ -z "$wanted" ]; then
    wanted=$names
else
    for name in $wanted; do
        if needs_build "$name"; then
            case " $wanted " in *" build "*) ;; *) wanted="build $wanted" ;; esac
        fi
    done
fi

mkdir -p "$logs"
# shellcheck disable=SC2086
total=$(set -- $wanted; echo $#)
number=0 passed=0 failed=0 skipped=0 failures=
begin=$(date +%s)
printf 'libgdn tests: %d stages on %s cores, logs in %s\n' "$total" "$jobs" "$logs"
build_failed=
for name in $wanted; do
    number=$((number + 1))
    printf '[%2d/%d] %-11s' "$number" "$total" "$name"
    export GDN_STAGE_NOTE="$logs/$name.note"
    rm -f "$GDN_STAGE_NOTE"
    start=$(date +%s)
    status=0
    if [ -n "$build_failed" ] && needs_build "$name"; then # and not what an older build left there
        echo "the stage build failed" >"$logs/$name.log"
        status=1
    else
        sh "$self" --run-stage "$name" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    fi
    seconds=$(($(date +%s) - start))
    text=$(cat "$GDN_STAGE_NOTE" 2>/dev/null)
    rm -f "$GDN_STAGE_NOTE" "$GDN_STAGE_NOTE.out" "$GDN_STAGE_NOTE.ok"
    case $status in
    0)
        passed=$((passed + 1))
        printf ' ok      %4d s  %s\n' "$seconds" "$text"
        ;;
    77)
        skipped=$((skipped + 1))
        printf ' SKIPPED %4d s  %s\n' "$seconds" "$text"
        ;;
    *)
        failed=$((failed + 1))
        failures="$failures $name"
        [ "$name" != build ] || build_failed=1
        printf ' FAILED  %4d s  the end of %s/%s.log:\n' "$seconds" "$logs" "$name"
        tail -n 40 "$logs/$name.log" | sed 's/^/    /'
        ;;
    esac
done

seconds=$(($(date +%s) - begin))
printf '%d stages in %d min %d s, %d skipped' "$total" $((seconds / 60)) $((seconds % 60)) "$skipped"
[ -z "$failures" ] || printf '; failed:%s' "$failures"
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]

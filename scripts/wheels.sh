#!/bin/sh
# Make the source distribution of the Python package, and its wheels for every system, by cross builds: with zig, and with MinGW for
# Windows. Inspect each, and try those that run here. On Debian 12 on x86-64, as root, with PyPI in reach. scripts/release.sh runs this.
#
#   wheels.sh --out FOLDER               all, of what is committed; FOLDER must be new
#   wheels.sh --out FOLDER --only musl   only the wheels whose platforms have this in their names
#   wheels.sh --out FOLDER --quick       with -O1, to try this script; too slow for a release
#   wheels.sh --help                     this text
#
# zig is PyPI's ziglang; $GDN_ZIG names another. The source distribution is built and tried without network.
#
# | wheel            | is tried by |
# |---|---|
# | manylinux x86-64 | the package's tests, in a new virtual environment |
# | manylinux arm64  | tests of the package, in Debian's Python under qemu |
# | musllinux        | examples/prefill_decode.c with its library, by Debian's musl; arm64 under qemu |
# | Windows          | that program, under wine |
# | macOS            | nothing: it is inspected only |
#
# scripts/inspect_wheel.py says what an inspection is. The last lines are a table of the wheels and how each was tried.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
out= only= quick=
options wheels "out only quick!" "$@"
optimised="-O3 -DNDEBUG"
[ -z "$quick" ] || optimised="-O1 -DNDEBUG"

fail() { echo "wheels: $*" >&2; exit 1; }
say() { printf '\n==== %s\n' "$*"; }
logged() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "failed: $*"; }; }

[ -n "$out" ] || fail "--out names no folder; see --help"
[ ! -e "$out" ] || fail "$out exists"
[ "$(id -u)" -eq 0 ] || fail "the trials need root"
sh scripts/deps.sh build vulkan wheels
jobs=$(nproc)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf --one-file-system "$work"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER # each build has a folder of its own, so ccache would find nothing
export SOURCE_DATE_EPOCH CMAKE_BUILD_PARALLEL_LEVEL="$jobs" CMAKE_GENERATOR=Ninja PYTHONDONTWRITEBYTECODE=1
export ZIG_GLOBAL_CACHE_DIR="${ZIG_GLOBAL_CACHE_DIR:-$work/zig}"
mkdir -p "$out"
out=$(cd "$out" && pwd -P)

# zig's target, and the platforms that the wheel's tags name.
list() {
    cat <<TARGETS
x86_64-linux-gnu.2.17 manylinux2014_x86_64.manylinux_2_17_x86_64
aarch64-linux-gnu.2.17 manylinux2014_aarch64.manylinux_2_17_aarch64
x86_64-linux-musl musllinux_1_2_x86_64
aarch64-linux-musl musllinux_1_2_aarch64
aarch64-macos.11.0 macosx_11_0_arm64
x86_64-macos.11.0 macosx_11_0_x86_64
x86_64-windows-gnu win_amd64
TARGETS
}
# Its lines whose platforms are asked for.
chosen() { list | while read -r target platforms; do case $platforms in *"$only"*) echo "$target $platforms" ;; esac; done; }
[ -n "$(chosen)" ] || fail "no wheel has '$only' in its platforms: $(list | cut -d ' ' -f 2 | tr '\n' ' ')"

say "Tools"
python3 -m venv "$work/tools"
bin=$work/tools/bin
"$bin/pip" install -q auditwheel build ml_dtypes numpy 'scikit-build-core>=0.11' twine
if [ -z "${GDN_ZIG:-}" ]; then
    "$bin/pip" install -q ziglang
    GDN_ZIG=$("$bin/python" -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
fi
# Of Vulkan the headers alone: beside them lie those of this system's C library.
mkdir "$work/vulkan"
ln -s /usr/include/vulkan /usr/include/vk_video "$work/vulkan"

export GDN_ZIG
logged python3 tests/packaging/wheels/test_inspect_wheel.py
tail -n 3 "$work/log"

say "The source distribution"
mkdir "$work/source"
git archive HEAD | tar -xf - -C "$work/source"
logged "$bin/python" -m build --sdist --no-isolation --outdir "$out" "$work/source"
tar -xzf "$out"/*.tar.gz -C "$work"
sdist=$(basename "$out"/*.tar.gz .tar.gz)

# make TARGET PLATFORMS: the wheel, inspected.
make() {
    tags=$(echo "$2" | sed 's/[^.]*/py3-none-&/g; s/\./;/g')
    cmake=$work/$sdist/cmake
    how="$cmake/zig.cmake;-DGDN_TARGET=$1;-DGDN_ZIG=$GDN_ZIG"
    case $1 in
    *-macos*) how="$how;-DGDN_METAL=ON" ;;
    *-windows-*) how=$cmake/mingw.cmake ;;
    esac
    # -g0 and -s: zig adds debugging information to every build, and its own parts have some.
    how="$how;-DCMAKE_C_FLAGS=-g0;-DCMAKE_SHARED_LINKER_FLAGS=-s;-DCMAKE_C_FLAGS_RELEASE=$optimised"
    logged "$bin/python" -m build --wheel --no-isolation --outdir "$out" -C "wheel.tags=$tags" \
        -C "cmake.args=--toolchain=$how;-DGDN_VULKAN=ON;-DGDN_VULKAN_INCLUDE=$work/vulkan" "$work/$sdist"
    wheel=$(echo "$out"/*"${2%%.*}"*.whl)
    python3 scripts/inspect_wheel.py --absent "$work" --absent "$PWD" --absent /tmp/ "$wheel"
    # The tag that auditwheel gives is one of ours. Of musl it knows Alpine's name only, libc.musl-x86_64.so.1. These libraries
    # need libc.so, which is what musl's loader calls itself everywhere.
    case $2 in
    manylinux*)
        logged "$bin/auditwheel" show "$wheel"
        given=$(tr '\n' ' ' <"$work/log" | sed -n 's/.*platform tag: *"\([^"]*\)".*/\1/p')
        case .$2. in *".$given."*) ;; *) cat "$work/log"; fail "auditwheel would tag it $given" ;; esac
        ;;
    esac
    # pip takes it by its tags for this system.
    logged "$bin/pip" install -q --no-deps --no-index --only-binary :all: --platform "${2%%.*}" --target "$work/$1/site" "$wheel"
}

# A Debian of 64-bit Arm, unpacked: what is run of it needs no second stage.
arm64_debian() {
    [ ! -e "$work/arm64" ] || return 0
    mirror=$(first_mirror bookworm)
    logged debootstrap --foreign --arch=arm64 --variant=minbase --include=musl,python3-numpy bookworm "$work/arm64" \
        "${mirror:-http://deb.debian.org/debian}"
    for package in "$work"/arm64/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$work/arm64"; done
}
arm64() {
    libraries=$work/arm64/usr/lib/aarch64-linux-gnu
    qemu-aarch64 -cpu neoverse-n1 -L "$work/arm64" -E LD_LIBRARY_PATH="$libraries/blas:$libraries/lapack" "$@"
}

# A library that does not find out what the processor has computes right, and slowly. is_fast IMPLEMENTATION
is_fast() {
    verdict="$verdict, on $1"
    case $target:$1 in
    aarch64-*:scalar*) fail "the library uses no NEON" ;;
    *:scalar*) ! grep -qw avx2 /proc/cpuinfo || fail "this machine has AVX2, and the library does not use it" ;;
    esac
}

tests="test_abi test_arrays test_kernels test_library test_lifetimes test_prepared"
# try_python SITE TESTS PYTHON...: the tests of the package that lies there.
try_python() {
    site=$1 these=$2
    shift 2
    # $these is a list of words.
    # shellcheck disable=SC2086
    (export PYTHONPATH="$site" && cd python/tests && logged "$@" -W error -m unittest $these)
    verdict="$(sed -n 's/^Ran \([0-9]*\) tests.*/\1 tests/p' "$work/log"), $(grep -E '^OK' "$work/log")"
    (export PYTHONPATH="$site" && cd / && logged "$@" -c 'import gdn; print(gdn.default_context().implementation.name)')
    is_fast "$(tail -n 1 "$work/log")"
}

# A program in C with the library of the wheel. try_c TARGET RUNNER...
try_c() {
    target=$1
    shift
    program=$work/$target/prefill_decode
    case $target in
    *-windows-*)
        program=$program.exe
        cp "$work/$target/site/gdn/gdn.dll" "$work/$target"
        logged x86_64-w64-mingw32-gcc-win32 -O1 -DGDN_USE_SHARED -Iinclude examples/prefill_decode.c "$work/$target/gdn.dll" -o "$program"
        ;;
    *) logged "$GDN_ZIG" cc -target "$target" -dynamic -O1 -Iinclude examples/prefill_decode.c -L "$work/$target/site/gdn" -lgdn -o "$program" ;;
    esac
    logged "$@" "$program"
    verdict="prefill_decode.c: $(tr -d '\r' <"$work/log" | tail -n 1)"
    is_fast "$(sed -n 's/^prefill: \([^,]*\),.*/\1/p' "$work/log")"
}

# try TARGET: sets how, the way, and verdict.
try() {
    library=$work/$1/site/gdn
    case $1 in
    x86_64-linux-gnu*)
        how="Python $("$bin/python" -c 'import platform; print(platform.python_version())')"
        "$bin/pip" install -q --no-deps --no-index --force-reinstall "$wheel"
        try_python "" "$tests" "$bin/python"
        ;;
    aarch64-linux-gnu*)
        arm64_debian
        how="Debian's Python, qemu"
        try_python "$library/.." "test_abi test_kernels test_library" arm64 "$work/arm64/usr/bin/python3"
        ;;
    x86_64-linux-musl) how="C, musl" && try_c "$1" /lib/ld-musl-x86_64.so.1 --library-path "$library" ;;
    aarch64-linux-musl)
        arm64_debian
        how="C, musl, qemu"
        try_c "$1" arm64 "$work/arm64/lib/ld-musl-aarch64.so.1" --library-path "$library"
        ;;
    *-windows-*) how="C, wine" && WINEPREFIX=$work/wine WINEDEBUG=-all && export WINEPREFIX WINEDEBUG && try_c "$1" wine ;;
    *) how="not run" verdict="inspected only" ;;
    esac
}

chosen >"$work/chosen"
while read -r target platforms <&3; do
    say "$platforms"
    make "$target" "$platforms"
    try "$target"
    echo "$how: $verdict"
    echo "| $platforms | $how | $verdict |" >>"$work/table"
done 3<"$work/chosen"

say "The source distribution, without network"
unshare -n "$bin/pip" install -q --no-cache-dir --no-index --no-deps --no-build-isolation --force-reinstall "$out/$sdist.tar.gz"
target=here
try_python "" "$tests" "$bin/python"
echo "| $sdist.tar.gz | built here without network | $verdict |" >>"$work/table"
"$bin/twine" check --strict "$out"/*

say "The Python packages in $out"
printf '| package | run in | result |\n|---|---|---|\n'
cat "$work/table"

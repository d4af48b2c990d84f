#!/bin/sh
# deps.sh [GROUP...]: install the Debian packages of the groups named, or of all groups but bare, full, wheels and windows, where they are
# missing. Does nothing, and needs no rights, where they are all there.
#
#   build    compiler, cmake, ninja              check    C++, pkg-config, libraries of gdn run and gdn serve, Python, ABI tools
#   vulkan   shader compiler, headers, a driver for the CPU, the validation layer, spirv-val
#   cross    64-bit Arm compiler, and qemu       fuzz     clang with libFuzzer
#   package  dpkg-dev, lintian          bare     debootstrap, for scripts/bare.sh; only where it is named
#   windows  MinGW and wine; only where it is named
#   wheels   what cross-built wheels are tried with: debootstrap, musl, qemu, mingw and wine; only where it is named
#   full     gdb and chromium, for test.sh --full; only where it is named
#   cache    ccache, with which the tests compile the same less often; nothing fails where it cannot be had
#
# deps.sh --list prints "group package" lines. Elsewhere than on Debian and its relatives, install the
# like of that list.
set -eu

# clang's libraries for sanitizers and fuzzers, of the version that the package clang is: 14 in Debian 12.
clang_libraries() {
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p')
    echo "libclang-rt-${version:-14}-dev"
}

list() {
    cat <<PACKAGES
build cmake
build gcc
build libc6-dev
build ninja-build
check g++
check pkg-config
check libmicrohttpd-dev
check libjansson-dev
check libedit-dev
check libomp5-14
check python3
check python3-venv
check python3-numpy
check binutils
check clang-format
vulkan glslc
vulkan libvulkan-dev
vulkan mesa-vulkan-drivers
vulkan vulkan-validationlayers
vulkan spirv-tools
cross gcc-aarch64-linux-gnu
cross libc6-dev-arm64-cross
cross qemu-user
fuzz clang
fuzz $(clang_libraries)
package dpkg-dev
package file
package lintian
cache ccache
windows gcc-mingw-w64-x86-64-win32
windows wine64
bare debootstrap
wheels binutils
wheels debootstrap
wheels gcc-mingw-w64-x86-64-win32
wheels musl
wheels python3-venv
wheels qemu-user
wheels wine
full gdb
full chromium
PACKAGES
}

is_there() {
    case $1 in
    python3) command -v python3 >/dev/null 2>&1 ;; # any Python 3 will do
    *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
    esac
}

case ${1-} in
--help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" ; exit 0 ;;
--list) list; exit 0 ;;
esac
[ $# -gt 0 ] || set -- build check vulkan cross fuzz package cache

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps: no dpkg here; please install the like of these yourself:"
    list
    exit 0
fi

missing= optional=
for group; do
    packages=$(list | sed -n "s/^$group //p")
    [ -n "$packages" ] || { echo "deps: no group '$group'" >&2; exit 2; }
    for package in $packages; do
        if is_there "$package"; then continue; fi
        case $group in cache) optional="$optional $package" ;; *) missing="$missing $package" ;; esac
    done
done

# Where it is a matter of seconds and of no question.
if [ -n "$optional" ]; then
    apt="apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10"
    [ "$(id -u)" -eq 0 ] || apt="sudo -n env DEBIAN_FRONTEND=noninteractive $apt"
    # $apt and $optional are lists of words.
    # shellcheck disable=SC2086
    { $apt update -qq && DEBIAN_FRONTEND=noninteractive $apt install -y -qq --no-install-recommends $optional; } \
        >/dev/null 2>&1 </dev/null || echo "deps: without$optional, which could not be installed: the tests take longer"
fi
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "deps: not root and no sudo; please install:$missing" >&2; exit 1; }
    root=sudo
fi
echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# What they say matters where they fail: on a minimal system they complain of the lack of apt-utils and of a terminal.
# Without lists of packages the version of clang was a guess.
update() { $root apt-get update -qq && missing=$(echo "$missing" | sed "s/libclang-rt-[0-9]*-dev/$(clang_libraries)/"); }
# $missing is a list of words.
# shellcheck disable=SC2086
if ! { update &&
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$said" 2>&1; then
    tail -n 40 "$said" >&2
    echo "deps: could not install$missing" >&2
    exit 1
fi
for package in $missing; do
    is_there "$package" || { echo "deps: $package is still missing" >&2; exit 1; }
done

#!/bin/sh
# Make every artefact of a release, with checksums, and try each one where nothing else of libgdn is. On Debian 12, as root, with
# PyPI in reach, at the commit that has the version's tag, such as v0.1.0:
#
#   release.sh                 into release/
#   release.sh --out FOLDER    into FOLDER, which must be new
#   release.sh --trial         only makes and tries the artefacts: without tag, maintainer and tests
#   release.sh --help          this text
#
# First it runs scripts/test.sh --full and scripts/bare.sh. $GDN_PACKAGE_CONTACT is the maintainer of the packages, NAME <ADDRESS>.
# Artefacts: the source archive, four Debian packages, the Python source distribution and seven wheels. The archive is built and
# checked. The packages are installed in a minimal Debian (debootstrap) and compile a program. scripts/wheels.sh makes and tries
# the Python packages; wheels for macOS are inspected, and not run. What is committed counts. The last line is the list of
# artefacts; the exit status is 0 only where every one that can run here works.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "release: $*" >&2; exit 1; }
say() { printf '\n==== %s\n' "$*"; }

. scripts/lib.sh
out=release trial=
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/release.sh | sed '$d'; exit 0 ;;
    --trial) trial=yes ;;
    --out) [ $# -gt 1 ] || fail "--out needs a folder"; out=$2; shift ;;
    *) fail "unknown argument '$1'; see --help" ;;
    esac
    shift
done
[ ! -e "$out" ] || fail "$out exists"
[ -z "$(git status --porcelain)" ] || fail "the working tree has changes that are not committed"
[ "$(id -u)" -eq 0 ] || fail "the minimal Debian needs root"
sh scripts/deps.sh build check package vulkan bare wheels
version=$(sed -n 's/^#define GDN_VERSION_\(MAJOR\|MINOR\|PATCH\) *\([0-9]*\).*/\2/p' include/gdn/base.h | paste -sd.)
if [ -z "$trial" ]; then
    git tag --points-at HEAD | grep -qx "v$version" || fail "this commit has no tag v$version, the version of include/gdn/base.h"
    [ -n "${GDN_PACKAGE_CONTACT:-}" ] || fail "GDN_PACKAGE_CONTACT is not set: the maintainer of the packages, NAME <ADDRESS>"
    sh scripts/test.sh --full
    sh scripts/bare.sh
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
jobs=$(nproc)
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/gdn-release.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

say "The source archive"
name=libgdn-$version
git archive --format=tar.gz --prefix="$name/" -o "$out/$name-source.tar.gz" HEAD
tar -xzf "$out/$name-source.tar.gz" -C "$work"
cmake -S "$work/$name" -B "$work/archive" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGDN_BUILD_TESTS=OFF >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/archive" --parallel "$jobs" >"$work/log" || { tail -n 30 "$work/log"; exit 1; }
"$work/archive/bin/gdn" check --quick --backend cpu | tail -n 1

say "The Debian packages"
(cd "$work/$name" && cmake --preset package -G Ninja ${GDN_PACKAGE_CONTACT:+"-DGDN_PACKAGE_CONTACT=$GDN_PACKAGE_CONTACT"}) >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/$name/build-package" --parallel "$jobs" >"$work/log" || { tail -n 30 "$work/log"; exit 1; }
(cd "$work/$name" && cpack --preset package >"$work/log") || { cat "$work/log"; exit 1; }
cp "$work/$name"/build-package/packages/*.deb "$out"
debian=$work/debian
mirror=$(first_mirror bookworm)
debootstrap --variant=minbase --include=gcc,libc6-dev,pkg-config bookworm "$debian" "${mirror:-http://deb.debian.org/debian}" \
    >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
cp "$out"/*.deb "$debian/root"
cp -L /etc/resolv.conf "$debian/etc/resolv.conf"
chroot "$debian" sh -c 'cd /root && (dpkg -i ./*.deb >log 2>&1 || { cat log; exit 1; }) && gdn --version &&
    gdn check --quick --backend cpu | tail -n 1 &&
    gcc /usr/share/doc/libgdn-dev/examples/prefill_decode.c -o prefill_decode $(pkg-config --cflags --libs gdn) -lm && ./prefill_decode'

sh scripts/wheels.sh --out "$out/python"

(cd "$out" && sha256sum -- *.tar.gz *.deb python/* >SHA256SUMS)
# The archive, four Debian packages, the Python source distribution, and its wheels: two for each kind of Linux and for macOS, one
# for Windows.
for kind in 1:-source.tar.gz 4:.deb 1:python/libgdn-.*.tar.gz 2:-manylinux.*.whl 2:-musllinux.*.whl 2:-macosx.*.whl 1:-win_amd64.whl; do
    found=$(grep -c -- "${kind#*:}\$" "$out/SHA256SUMS" || true)
    [ "$found" -eq "${kind%%:*}" ] || fail "of ${kind%%:*} artefacts ${kind#*:} there are $found: $(cat "$out/SHA256SUMS")"
done
[ "$(wc -l <"$out/SHA256SUMS")" -eq 13 ] || fail "of 13 artefacts there are: $(cat "$out/SHA256SUMS")"
say "Artefacts of $version in $out"
cat "$out/SHA256SUMS"

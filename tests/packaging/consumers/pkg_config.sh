#!/bin/sh
# A program built with pkg-config alone: pkg_config.sh STAGE WORK CC. The staged tree lies elsewhere than
# the prefix it was configured for, so this also shows that gdn.pc moves with its tree.
set -eu
stage=$1 work=$2 cc=$3
here=$(cd "$(dirname "$0")" && pwd)
pc=$(find "$stage" -name gdn.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
mkdir -p "$work"

libdir=$(pkg-config --variable=libdir gdn)
[ "$(cd "$libdir" && pwd)" = "$(cd "$(dirname "$pc")/.." && pwd)" ] || { echo "libdir is $libdir"; exit 1; }

# The flags are lists of words.
# shellcheck disable=SC2046
"$cc" -std=c99 -o "$work/shared" "$here/consumer.c" $(pkg-config --cflags --libs gdn)
LD_LIBRARY_PATH=$libdir "$work/shared"

if [ -f "$libdir/libgdn.a" ]; then
    # shellcheck disable=SC2046
    "$cc" -std=c99 -o "$work/static" $(pkg-config --cflags gdn) "$here/consumer.c" "$libdir/libgdn.a" \
        $(pkg-config --static --libs-only-l gdn | sed 's/-lgdn//')
    "$work/static"
fi

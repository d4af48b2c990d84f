#!/bin/sh
# Two builds of a program print the same: same.sh PROGRAM PROGRAM ARGUMENT...
set -eu
one=$1 other=$2
shift 2
said=$("$one" "$@")
expected=$("$other" "$@")
printf '%s\n' "$said"
[ -n "$said" ] && [ "$said" = "$expected" ] || { printf '%s prints something else:\n%s\n' "$other" "$expected"; exit 1; }

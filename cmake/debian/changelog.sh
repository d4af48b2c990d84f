#!/bin/sh
# Debian's changelog from CHANGELOG.md: changelog.sh CHANGELOG.md VERSION MAINTAINER DATE. The items of the section of that
# version, and of what is newer, become those of one entry, in lines of at most 80 bytes; changelog.gz is CHANGELOG.md itself.
set -eu
awk -v version="$2" -v maintainer="$3" -v date="$4" '
function flush(    n, i, words, line) {
    n = split(item, words, " ")
    if (n == 0) return
    items++
    line = "  *"
    for (i = 1; i <= n; i++) {
        if (length(line) + 1 + length(words[i]) > 78) { print line; line = "   " }
        line = line " " words[i]
    }
    print line
    item = ""
}
BEGIN { printf "libgdn (%s) unstable; urgency=medium\n\n", version }
/^## / {
    if (found) exit
    begun = 1
    found = index($0, "[" substr(version, 1, match(version, /-[^-]*$/) - 1) "]")
    next
}
!begun { next }
/^- / { flush(); item = substr($0, 3); next }
/^$/ || /^### / { flush(); next }
item != "" { item = item " " $0 }
END {
    flush()
    if (items == 0) { print "changelog.sh: no items" >"/dev/stderr"; exit 1 }
    if (!found) { print "changelog.sh: CHANGELOG.md has no section of " version >"/dev/stderr"; exit 1 }
    printf "\n -- %s  %s\n", maintainer, date
}' "$1"

#!/bin/sh
# Every public header alone, as C99, C11 and C++ of several years: headers.sh INCLUDE CC CXX
set -eu
include=$1 cc=$2 cxx=$3
strict="-pedantic -Wall -Wextra -Wshadow -Werror -fsyntax-only"
count=0
for header in $(cd "$include" && find gdn -name '*.h' | sort); do
    for language in c99 c11 c++11 c++17; do
        case $language in
        c++*) compiler=$cxx kind=c++ ;;
        *) compiler=$cc kind=c ;;
        esac
        # $strict is a list of words.
        # shellcheck disable=SC2086
        # Each struct that begins with its size is declared with GDN_INIT, without a warning.
        { printf '#include <%s>\n#include <%s>\n' "$header" "$header"
          awk '/^typedef struct gdn_/ { name = $3 }
               /^    uint32_t +size;/ { printf "void use_%s(%s *);\nvoid use_%s(%s *to)\n{\n    %s x = GDN_INIT(%s);\n    *to = x;\n}\n",
                                        name, name, name, name, name, name }' "$include/$header"; } |
            "$compiler" -x "$kind" -std="$language" $strict -I "$include" - ||
            { echo "$header does not compile alone as $language"; exit 1; }
    done
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no headers below $include"; exit 1; }
echo "$count headers are clean C99, C11, C++11 and C++17"

# implementations.sh: which exact implementations $gdn offers on Vulkan devices. Read with `.`, not run.
#   best    the first of each device, which calls get unless they ask for another; lists for --impl
#   others  the rest; they make the same calls with other pipelines
implementations=$("$gdn" info | awk '/^vulkan/ { here = 1; next } /^[a-z]/ { here = 0 } here && /^ *[0-9]+:/ { first = 1 }
    here && $2 == "exact" { if (first || !($1 in is)) is[$1] = first ? "best" : "other"; first = 0 }
    END { for (name in is) print is[name], name }' | sort)
of_kind() { echo "$implementations" | sed -n "s/^$1 //p" | paste -s -d , -; }
best=$(of_kind best)
others=$(of_kind other)

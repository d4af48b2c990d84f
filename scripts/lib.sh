# What scripts share, those for devices above all. Read by them with `.`, not run.

# Options of the form --name VALUE set the variable of that name; one that takes no value has a ! behind its name, and --name sets the
# variable to itself. --help prints the head of the script.
# options SCRIPT "NAMES" arguments...
options() {
    script=$1 known=" $2"
    shift 2
    while [ $# -gt 0 ]; do
        case "$1 $known " in
        "--help "* | "-h "*) sed -n '2,/^set /s/^# \{0,1\}//p' "scripts/$script.sh"; exit 0 ;;
        --*" ${1#--}! "*) eval "${1#--}=\$1" ;;
        --*" ${1#--} "*) eval "${1#--}=\$2"; shift ;;
        *) echo "$script: unknown argument '$1'; see --help" >&2; exit 2 ;;
        esac
        shift
    done
}

# The first address of Debian itself in apt's sources, in either of their two notations. first_mirror SUITE
first_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk -v suite="$1" '
            $1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ "^[a-z]+://" && $(i + 1) == suite) { print $i; exit } }
            tolower($1) == "uris:" { uri = $2 }
            tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == suite && uri) { print uri; exit } }'
}

# The name of a device as a part of a file's name.
file_name() {
    echo "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9-'
}

# The tool of the build says what there is, and that is no emulated device unless `emulated` is set. device_begin SCRIPT BACKEND
device_begin() {
    backend=$2 logs=$build/device gdn=$build/bin/gdn failed=0 verdicts=
    mkdir -p "$logs" "$out"
    : >"$logs/bench.log"
    "$gdn" info | tee "$logs/info"
    if [ -z "${emulated:-}" ] && grep -A 2 "^$backend" "$logs/info" | grep -qi emulat; then echo "$1: the device is emulated" >&2; exit 2; fi
}

# Runs a command and takes down how it went: in failed, and as a line of verdicts. 77: it could not run here, and its last
# line is why.
step() { # name command...
    step_name=$1
    shift
    printf '== %s: %s\n' "$step_name" "$*"
    status=0
    "$@" >"$logs/$step_name.log" 2>&1 || status=$?
    tail -n 3 "$logs/$step_name.log"
    said=$(grep -v '^ *$' "$logs/$step_name.log" | tail -n 1)
    if [ "$status" -eq 77 ]; then
        not_run "$step_name" "$said"
        return
    fi
    verdicts="$verdicts| $step_name | $([ "$status" -eq 0 ] && echo passed || echo "FAILED ($status)") | $said |
"
    [ "$status" -eq 0 ] || failed=$((failed + 1))
}

# What cannot be run here. not_run name why
not_run() {
    verdicts="$verdicts| $1 | NOT RUN | $2 |
"
}

# Writes $out/$name.md from the steps and the table of the step bench, and ends the script. In between stands what comes on
# standard input.
# device_report SCRIPT TITLE "WHAT IT RAN ON" "FROM WHAT TO WHAT TIMES ARE"
device_report() {
    {
        echo "# $2 on $device"
        echo
        echo "### $device, $(date -u +%Y-%m-%d)"
        echo "libgdn $("$gdn" --version | cut -d ' ' -f 2) ($(git describe --always --dirty 2>/dev/null || echo 'no commit')), $3."
        echo "Made by \`scripts/$1.sh${quick:+ $quick}\`."
        echo
        cat
        echo '| step | result | last line |'
        echo '|---|---|---|'
        printf '%s' "$verdicts"
        echo
        echo '```'
        cat "$logs/bench.log"
        echo '```'
        echo
        echo "JSON: [$name.json]($name.json). Times are from $4 to the end of \`gdn_synchronize()\`, see [README](README.md)."
    } >"$out/$name.md"
    cat "$out/$name.md"
    echo "written: $out/$name.md; add it to the table in docs/reference/backends/$backend.md"
    exit $((failed != 0))
}

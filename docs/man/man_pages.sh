#!/bin/sh
# Manual pages from what the tool says of itself: man_pages.sh VERSION FOLDER GDN..., where GDN is the tool, with an
# emulator before it where it needs one. Writes FOLDER/gdn.1 and FOLDER/gdn-COMMAND.1 for each command.
#
# The options are those of --help-all, so a page cannot lack one; tests/unit/test_man.py compares them. What --help has no room for,
# examples above all, is in <page>.man beside this script and follows the options.
set -eu
version=$1 folder=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"

# The parts of a --help text: "gdn x - summary", "Usage: ...", lists under "Commands:", "Options:" and more, paragraphs.
# An entry of a list begins in the third column; its text follows after two spaces or more, or on the next lines.
# shellcheck disable=SC2016
page='
function literal(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.\047]/) text = "\\&" text
    return text
}
function add(section, line) { body[section] = body[section] line "\n" }
function term(text,    words, n, i, out) { # options bold, their arguments italic
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        comma = sub(/,$/, "", words[i]) ? "," : ""
        out = out (i > 1 ? " " : "") (words[i] ~ /^-/ || list == "Commands" ? "\\fB" : "\\fI") literal(words[i]) "\\fR" comma
    }
    return out
}
NR == 1 { at = index($0, " - "); name = substr($0, 1, at - 1); summary = substr($0, at + 3); next }
/^Usage: / { usage = substr($0, 8); next }
/^[A-Z][A-Za-z ,-]*:$/ { list = substr($0, 1, length($0) - 1); lists[++n_lists] = list; next }
/^$/ { status = 0 } # ends a paragraph
/^$/ { if (list != "" && entries[list]) list = ""; paragraph = 1; next }
list != "" && /^  [^ ]/ {
    text = substr($0, 3)
    gap = match(text, /  +/)
    entry = gap ? substr(text, 1, RSTART - 1) : text
    rest = gap ? substr(text, RSTART + RLENGTH) : ""
    entries[list]++
    add(list, ".TP\n" term(entry))
    if (rest != "") add(list, literal(rest))
    next
}
list != "" { sub(/^ +/, ""); add(list, literal($0)); next }
/^Exit status: / { status = 1; add("Status", literal(toupper(substr($0, 14, 1)) substr($0, 15))); next }
status { add("Status", literal($0)); next }
{
    if (paragraph && body["Notes"] != "") add("Notes", ".PP")
    paragraph = 0
    add("Notes", literal($0))
}
END {
    if (name == "" || usage == "" || !entries["Options"]) { print "man_pages.sh: this is no --help text" >"/dev/stderr"; exit 1 }
    file = name
    gsub(/ /, "-", file)
    title = toupper(file)
    print ".\\\" Made by docs/man/man_pages.sh from the text of --help."
    print ".TH " title " 1 \"\" \"gdn " version "\" \"User Commands\""
    print ".SH NAME\n" literal(file) " \\- " literal(summary)
    n = split(usage, words, " ")
    printf ".SH SYNOPSIS\n"
    for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? " " : ""), words[i] ~ /^[a-z]/ ? "\\fB" words[i] "\\fR" : "\\fI" literal(words[i]) "\\fR"
    printf "\n"
    if (body["Notes"] != "") printf ".SH DESCRIPTION\n%s", body["Notes"]
    for (i = 1; i <= n_lists; i++) {
        list = lists[i]
        main = list == "Commands" || list == "Options"
        printf "%s\n%s", main ? ".SH " toupper(list) : ".SS " literal(list), body[list]
    }
    if (body["Status"] != "") printf ".SH EXIT STATUS\n%s", body["Status"]
}'

write() { # page, option, then the tool and its command
    name=$1 help=$2
    shift 2
    "$@" "$help" >"$folder/$name.help"
    awk -v version="$version" "$page" "$folder/$name.help" >"$folder/$name.1"
    [ ! -f "$here/$name.man" ] || cat "$here/$name.man" >>"$folder/$name.1"
    printf '.SH SEE ALSO\n' >>"$folder/$name.1"
    sep=
    for other in $pages; do
        [ "$other" = "$name" ] && continue
        printf '%s.BR %s (1)' "$sep" "$(printf '%s' "$other" | sed 's/-/\\-/g')" >>"$folder/$name.1"
        sep=',
'
    done
    printf '\n' >>"$folder/$name.1"
    rm -f "$folder/$name.help"
}

commands=$("$@" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p')
pages=gdn
for command in $commands; do
    [ "$command" = help ] || pages="$pages gdn-$command" # `gdn help run` is `gdn run --help`
done
for one in $pages; do
    case $one in
    gdn) write gdn --help "$@" ;;
    *) write "$one" --help-all "$@" "${one#gdn-}" ;;
    esac
done

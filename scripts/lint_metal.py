#!/usr/bin/env python3
"""Hold the Metal kernels to Metal's shading language, which no machine of this project's CI can compile.

    lint_metal.py              check metal/ (and what it includes); exit status 1 where something is wrong
    lint_metal.py --root DIR   another tree

The emulator's shim is C++, which allows more. Rules
  word       no keyword or type of C++ or of CUDA that Metal does not have; no keyword of Metal as a name
  function   every function that is called is defined here, or is one of Metal's that is known to be there and safe
  order      no function whose order of operations or treatment of NaN is not defined: simd_sum, min, max, dot, ...
  space      every pointer and reference says its address space
  kernel     a kernel's buffers are numbered from 0 in their order, the first is its params; its place comes last
  include    quoted includes only, of files that the build embeds (metal/sources.cmake), before anything else
  math       contraction is off and the math mode safe, in the source and on the host
  spaces     where there is clang: address spaces as its C++ checks them, with tests/emulator/metal_spaces.h
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ELEMENTARY = "numerics/elementary.h"
TYPES = "call/types.h"
ARITHMETIC = "numerics/arithmetic.h"
HEADERS = ("metal/language.h", TYPES, "call/gated_delta_net.h", "call/ssm_conv.h", "call/set_rows.h", "call/dialect_metal.h", "call/maps.h",
           "call/sequence.h", "call/history.h", "call/history_keep.h", "metal/shape.h", ARITHMETIC, ELEMENTARY, "numerics/prepare.h", "gpu/convert16.h",
           "numerics/q8_0.h", "gpu/set_rows.h", "gpu/probe_call.h", "metal/kernel.h", "gpu/delta_item.h", "gpu/delta_step.h", "gpu/delta_state.h",
           "gpu/delta_log.h", "gpu/delta_rows.h", "gpu/conv.h", "metal/gated_delta_net.h")
SPACES = ("device", "constant", "threadgroup", "thread", "CONSTANT", "THREAD")
# What Metal does not have: no double, no 80-bit anything, no exceptions, no run-time types, no virtual functions, no new.
FOREIGN = """double long_double goto new delete try catch throw virtual dynamic_cast typeid std cstdint memcpy memset printf
    lambda auto __global__ __device__ __shared__ __restrict__ threadIdx blockIdx blockDim gridDim __syncthreads __ldg asm
    __asm__ __builtin_ thread_local wchar_t mutable union wint_t recursion""".split()
# Metal's keywords and types that plain C++ takes as names.
RESERVED = """half bfloat kernel vertex fragment texture sampler texture2d uchar ushort uint ulong size_t bool2 float2 float3
    float4 half4 int4 uint3 packed_float4 device constant thread threadgroup patch ray visible stitchable""".split()
UNORDERED = """simd_sum simd_product simd_prefix_inclusive_sum simd_prefix_exclusive_sum simd_min simd_max quad_sum dot length
    distance normalize min max fmin fmax clamp saturate exp exp2 log log2 sqrt rsqrt sin cos tan tanh pow powr divide recip
    mad mix select smoothstep fast precise""".split()
KNOWN = """fma ctz as_type simd_shuffle simd_shuffle_xor simd_any atomic_store_explicit atomic_fetch_max_explicit
    atomic_compare_exchange_weak_explicit float4 packed_float4 int uint ushort float int64_t uint32_t int32_t uint64_t uchar
    buffer defined fmaf error name""".split()
FLOW = "__VA_ARGS__ if for while switch return sizeof do else static_assert contract math_mode".split()
POSITION = "uint3 group [[threadgroup_position_in_grid]], uint me [[thread_index_in_threadgroup]]"


def strip(text):
    """Without comments; lines stay where they are. What is inside of strings is no concern here."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def for_metal(name, text):
    """Without what the preprocessor leaves out for Metal."""
    if name == ELEMENTARY:  # its C library and memcpy, which metal/language.h stands in for
        text = re.sub(r"#define GDN_ELEMENTARY_LIST\(X\)(?:.*\\\n)*.*", lambda m: "\n" * m.group(0).count("\n"), text)
        return re.sub(r"#ifndef GDN_ELEMENTARY_BITS\n.*?#endif\n", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    if name == ARITHMETIC:  # software, where there is no hardware to do it
        return re.sub(r"#ifdef GDN_FLUSH\n.*?(?=#elif)", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    if name == TYPES:  # what is for the other languages
        text = re.sub(r"#ifdef GDN_GLSL\n.*?#else\n", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
        return text.replace("#include <stdint.h>", "")
    return text


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def files(root):
    return [*HEADERS, *(f"metal/{p.name}" for p in sorted((root / "metal").glob("*.metal")))]


def check_words(name, text, defined):
    words = re.sub(r"(?<![\w.])(?:0[xX][0-9a-fA-F.]+(?:p[+-]?\d+)?[fu]*|\d[\d.]*(?:e[+-]?\d+)?[fu]*)", lambda m: " " * len(m.group(0)), text)
    words = re.sub(r"#(?:include|error|pragma)[^\n]*", lambda m: " " * len(m.group(0)), words)
    for m in re.finditer(r"[A-Za-z_]\w*", words):
        word = m.group(0)
        if word in FOREIGN or word.startswith("__builtin_"):
            yield f"{name}:{line_of(text, m.start())}: '{word}' is not of Metal's language"
    for m in re.finditer(r"(?:\b(?:float4?|int|uint|bool|u?int\d+_t)\s+|[*&]\s*)(" + "|".join(RESERVED) + r")\s*(?=[=;,)\[])", words):
        yield f"{name}:{line_of(text, m.start())}: '{m.group(1)}' is a word of Metal's language, not a name"
    for m in re.finditer(r"\[\s*[=&]?\s*\]\s*\(", words):
        yield f"{name}:{line_of(text, m.start())}: a lambda is not of Metal's language"
    for m in re.finditer(r"(?<![\w.])(?:\d+\.\d*(?:[eE][+-]?\d+)?|0x[0-9a-fA-F.]+p[+-]?\d+)(?![\w.])", text):
        yield f"{name}:{line_of(text, m.start())}: {m.group(0)} is a double, which Metal does not have"
    for m in re.finditer(r"\b([A-Za-z_]\w*)\s*(?:<[^<>;()]*>)?\s*\(", words):
        word = m.group(1)
        if word in UNORDERED:
            yield f"{name}:{line_of(text, m.start())}: {word}() has no defined order, or its own idea of NaN or accuracy"
        elif word not in KNOWN and word not in FLOW and word not in defined:
            yield f"{name}:{line_of(text, m.start())}: {word}() is neither defined here nor known to be one of Metal's"


def check_spaces(name, text):
    """Declarations of pointers and references: a type, or a closing '>' of one, then * or & before a name."""
    code = re.sub(r"#[^\n]*", "", text) if name == ELEMENTARY else text
    for m in re.finditer(r"(?:^|[(,;{]|\bconst\b)\s*((?:\w+\s+)*?)(const\s+)?(\w+)\s*([*&])\s*\(?\s*[&*]?(\w+)(?=\s*[,;=)\[])", code, flags=re.M):
        words = (m.group(1) or "").split()
        kind = m.group(3)
        is_type = kind in ("float", "float4", "int", "uint", "uchar", "ushort", "int64_t", "atomic_uint", "packed_float4") or \
            re.match(r"(gdn_\w+_(call|view|sequence)|gdn_sequence|gdn_gpu_probe|\w+Buffers|Item|Cursor|Sequence|Types)$", kind)
        if is_type and not any(w in SPACES for w in words) and not re.search(r"\b(device|constant|threadgroup|thread|CONSTANT|THREAD)\b[^;,(]*$", code[:m.end(3)].rsplit("\n", 1)[-1]):
            yield f"{name}:{line_of(text, m.start(3))}: '{kind} {m.group(4)}{m.group(5)}' does not say its address space"
    for m in re.finditer(r"\(\s*(const\s+)?(float|float4|int|uint|uchar|ushort|int64_t|packed_float4)\s*(const\s*)?\*\s*\)", code):
        yield f"{name}:{line_of(text, m.start())}: a cast to a pointer does not say its address space"


def check_kernels(name, text):
    flat = text.replace("\\\n", "  ")
    for m in re.finditer(r"GDN_KERNEL\((?!name, \.\.\.)(.*?)\)\s*\{", flat, flags=re.S):
        arguments = m.group(1)
        if re.fullmatch(r"[\w#]+,\s*constant gdn_\w+ &p \[\[buffer\(0\)\]\],\s*GDN_(\w+)_OPERANDS\((GDN_\1_ARGUMENT)(?:,\s*\2){3}\)\s*"
                        r"device atomic_uint \*bad \[\[buffer\(1 \+ GDN_\1_REGIONS\)\]\],\s*GDN_THREAD\s*", arguments):
            continue  # numbered by the list of operands
        for macro, value in re.findall(r"^#define (GDN_\w+_OPERANDS)\b(.*)$", flat, flags=re.M):
            arguments = arguments.replace(macro, value.strip())
        numbers = [int(n) for n in re.findall(r"\[\[buffer\((\d+)\)\]\]", arguments)]
        where = f"{name}: {arguments.split(',')[0]}"
        if numbers != list(range(len(numbers))) or not numbers:
            yield f"{where}: buffers are numbered {numbers}; they have to count from 0"
        if len(re.findall(r",", arguments)) != len(numbers) + 1:
            yield f"{where}: has arguments that are neither buffers nor its thread"
        if not re.match(r"[\w#]+,\s*constant gdn_\w+ &p \[\[buffer\(0\)\]\]", arguments):
            yield f"{where}: the first argument is not 'constant gdn_... &p [[buffer(0)]]'"
        if not arguments.rstrip().endswith("GDN_THREAD"):
            yield f"{where}: the last argument is not GDN_THREAD"
    if re.search(r"\bkernel\s+void\b", text) and name != "metal/language.h":
        yield f"{name}: a kernel is declared without GDN_KERNEL"


def check_includes(root, name, text):
    embedded = (root / "metal/sources.cmake").read_text()
    if name.endswith(".metal") and not re.search(rf"(?<![\w/]){re.escape(name)}(?!\w)", embedded):
        yield f"{name}: metal/sources.cmake does not embed it"
    for m in re.finditer(r"#\s*include\s+(\S+)", text):
        what = m.group(1)
        if what == "<metal_stdlib>" and name == "metal/language.h":
            continue
        if not what.startswith('"') or what.strip('"') not in HEADERS:
            yield f"{name}:{line_of(text, m.start())}: includes {what}, which is not among what the build embeds"


def check_math(root):
    language = strip((root / "metal/language.h").read_text())
    library = strip((root / "metal/library.c").read_text())
    for text in ("#pragma METAL fp contract(off)", "#pragma METAL fp math_mode(safe)", POSITION):
        if text not in language:
            yield f"metal/language.h has no '{text}'"
    for text in ("sel.setMathMode, GDN_MTL_MATH_MODE_SAFE", "sel.setFastMathEnabled, 0"):
        if text not in library:
            yield f"metal/library.c has no '{text}'"


def check_with_clang(root):
    clang = shutil.which("clang++") or shutil.which("clang++-14")
    if not clang:
        return
    for path in sorted((root / "metal").glob("*.metal")):
        done = subprocess.run([clang, "-x", "c++", "-std=c++14", "-fsyntax-only", "-DGDN_METAL_ADDRESS_SPACES", "-Wall", "-Wextra", "-Werror",
                               "-Wno-unknown-pragmas", "-Wno-unknown-attributes", "-Wno-unused-function", "-Wno-unused-parameter", f"-I{root}", "-include",
                               str(root / "tests/emulator/metal_shim.h"), str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line]
            yield f"metal/{path.name}: clang says: {said[0] if said else done.stderr.strip()}"


def lint(root):
    found = []
    texts = {name: for_metal(name, strip((root / name).read_text())) for name in files(root)}
    defined = set()
    for text in texts.values():
        defined |= set(re.findall(r"^(?:GDN_INLINE|FUNCTION|RULE|GDN_ELEMENTARY_FUNCTION|template <[^\n]*> (?:GDN_INLINE|FUNCTION))\s+[\w *]+?\b(\w+)\(", text, flags=re.M))
        defined |= set(re.findall(r"\b(?:struct|class) (\w+)", text))
        defined |= set(re.findall(r"^#\s*define\s+(\w+)(?:\(| +\()", text, flags=re.M))
        defined |= {name for names in re.findall(r"^#\s*define\s+\w+\(([\w, ]+)\)", text, flags=re.M) for name in names.split(", ")}
    for name, text in texts.items():
        found += check_words(name, text, defined)
        found += check_spaces(name, text)
        found += check_kernels(name, text)
        found += check_includes(root, name, text)
    return [*found, *check_math(root), *check_with_clang(root)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    problems = lint(root)
    print("\n".join([*problems, f"{len(files(root))} files of Metal kernels, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Every line of runtime/files/model_names.def has a case here, which fails where the line is not true. What is used changes the
logits as it changes those of oracle.py, a forward pass in Python that shares nothing with the runtime. What is refused is
refused by name. What is harmless changes nothing. And docs/reference/model-files.md has the same list.

    test_names.py LOGITS        LOGITS is the program made of answers.c
    test_names.py --write       write the tables of docs/reference/model-files.md
"""
import copy
import math
import pathlib
import random
import re
import sys
import unicodedata

import oracle
import tool
from oracle import Model
from tool import require

HERE = pathlib.Path(__file__).resolve().parent
LIST, PAGE = HERE / "../../runtime/files/model_names.def", HERE / "../../docs/reference/model-files.md"
ARCHES = {"N": "qwen3next", "D": "qwen35", "M": "qwen35moe"}
TOKENS = [3, 17, 5, 20, 11, 3]
DRAFTED, N_DRAFTS = (2, 6), 6  # after so many tokens, so many more
CLOSE, FAR = 2e-5, 2e-3  # of the largest logit: what float32 costs, and what a mistake must cost to be one


# ---- the list, and the tables of the page ----

def read_list():
    """[(macro, name, architectures, where, use, low, high, why)]"""
    text = re.sub(r"/\*.*?\*/", "", LIST.read_text(), flags=re.S)
    found = []
    for macro, inner in re.findall(r"^RT_(KEY|TEXT_KEY|TENSOR)\((.*?)\)$", text, flags=re.S | re.M):
        name, rest, why = re.fullmatch(r'"([^"]+)",\s*(.*?),\s*"([^"]*)"', re.sub(r'"\s+"', "", inner), flags=re.S).groups()
        rest = [part.strip() for part in rest.split(",")]
        arches = "A" if macro == "TEXT_KEY" else rest.pop(0)
        arches = "NDM" if arches == "A" else arches.replace(" | ", "")
        where = rest.pop(0) if macro == "TENSOR" else ""
        low, high = (float(x) for x in rest[1:]) if len(rest) > 1 else (0, 0)
        found.append((macro, name, arches, where, rest[0], low, high, why))
    if len(found) != len(re.findall(r"^RT_", text, flags=re.M)):
        sys.exit("test_names: a line of model_names.def cannot be read")
    return found


def verdict(use, low, high):
    if use != "ONLY":
        return use.lower()
    return f"refused unless {low:g}" + (f" to {high:g}" if high > low else "")


def tables(entries):
    """Neighbours of which the same is said share a row."""
    heads = {"KEY": "key, after the architecture's name", "TEXT_KEY": "key", "TENSOR": "tensor"}
    out = []
    for macro, head in heads.items():
        out += [f"| {head} | of | | |", "|---|---|---|---|"]
        said = None
        for kind, name, arches, where, use, low, high, why in entries:
            if kind != macro:
                continue
            of = "all" if arches == "NDM" else ", ".join(ARCHES[a] for a in arches)
            if where and where != "FILE":
                of += {"BLOCK": "; any block", "RECURRENT": "; recurrent blocks", "ATTENTION": "; attention blocks",
                       "MTP": "; the MTP block"}[where]
            before, said = said, f"| {of} | {verdict(use, low, high)} | {why} |"
            names = out.pop().removesuffix(f" {said}") + ", " if said == before else "| "
            out.append(f"{names}`{name}` {said}")
        out.append("")
    return "\n".join(out)


def check_page(entries, write):
    text, marks = PAGE.read_text(), ("<!-- names: test_names.py --write -->\n", "<!-- names end -->\n")
    before, rest = text.split(marks[0])
    _, after = rest.split(marks[1])
    new = before + marks[0] + tables(entries) + marks[1] + after
    if write:
        PAGE.write_text(new)
    require(write or new == text, "docs/reference/model-files.md has other names than runtime/files/model_names.def; write them with --write")


# ---- the runtime's answers ----

class Runtime(tool.Answers):
    def of(self, model, command):
        """Numbers, or the text of a refusal. {}: the model's path."""
        oracle.write(self.path, model)
        what, _, rest = self.ask(command.format(self.path)).partition(" ")
        if not what:
            sys.exit(f"test_names: {tool.TOOL} ended with {self.process.wait()}: {command[:200]}")
        return rest if what == "refused" else rest.split() if command.startswith(("text", "notes")) else [float(x) for x in rest.split()]

    def logits(self, model, tokens=TOKENS, rows=None, kv="f32", batch=64):
        return self.of(model, f"logits {{}} {kv} {batch} {rows or len(tokens)} {' '.join(map(str, tokens))}")

    def drafts(self, model):
        """As draft_all()."""
        out = []
        for end in DRAFTED:
            out += self.of(model, f"drafts {{}} f32 64 {N_DRAFTS} {' '.join(map(str, TOKENS[:end]))}")
        return out

    def text(self, model, text="abcab"):
        return self.of(model, f"text {{}} {text.encode().hex()}")


def apart(a, b):
    """The largest difference, of the largest element; infinite where they cannot be compared."""
    if isinstance(a, str) or isinstance(b, str) or len(a) != len(b) or not all(map(math.isfinite, a)):
        return math.inf
    return max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, b))


def follows(runtime, what, model, base=None, tokens=TOKENS, rows=None):
    """The runtime computes what the model says; and with it something else than without."""
    have, want = runtime.logits(model, tokens, rows), oracle.logits(model, tokens, rows)
    gap = apart(have, want)
    require(gap < CLOSE, f"{what}: logits are off by {gap:.2g}: {have if isinstance(have, str) else ''}")
    if base is not None:
        require(len(base) != len(want) or apart(base, want) > FAR, f"{what}: the case does not show whether it is read")


def refused(what, name, answer):
    require(isinstance(answer, str) and name in answer, f"{what} is not refused by the name {name}: {str(answer)[:200]}")


# ---- keys ----

YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}
LAYERS = {"block_count": 3, "full_attention_interval": None}
# For each used key: architecture, other keys of the model, the value, and what a reader that ignores the key takes instead.
# None: such a reader expects other sizes of tensors, and is not compared.
USED = {
    "block_count": [("qwen35", {}, 3, None), ("qwen3next", {}, 4, None)],
    "embedding_length": [("qwen35", {}, 48, None)],
    "context_length": [("qwen35", {**YARN, "rope.scaling.original_context_length": None}, 16, {"context_length": 64})],
    "feed_forward_length": [("qwen35", {}, 64, None)],
    "full_attention_interval": [("qwen35", {"block_count": 4}, 3, None)],
    "attention.recurrent_layers": [("qwen35", {"block_count": 3}, [False, True, True], None)],
    "attention.head_count": [("qwen35", {}, 4, None)],
    "attention.head_count_kv": [("qwen35", {}, 2, None)],
    "attention.key_length": [("qwen35", {"attention.value_length": None}, 16, None)],
    "attention.layer_norm_rms_epsilon": [("qwen35", {}, 0.5, {"attention.layer_norm_rms_epsilon": 1e-6})],
    "attention.scale": [("qwen35", {}, 1.5, {"attention.scale": None}), ("qwen3next", {}, 1.5, {"attention.scale": None})],
    "rope.dimension_count": [("qwen35", {}, 4, {"rope.dimension_count": 8})],
    "rope.freq_base": [("qwen35", {}, 5.0, {"rope.freq_base": 10000.0})],
    "rope.scaling.type": [("qwen35", {"rope.scaling.factor": 4.0}, "none", {"rope.scaling.type": None}),
                          ("qwen35", {**YARN}, "yarn", {"rope.scaling.type": "linear"}),
                          ("qwen35", {**YARN}, "linear", {"rope.scaling.type": "yarn"})],
    "rope.scaling.factor": [("qwen35", {}, 3.0, {"rope.scaling.factor": None}), ("qwen3next", YARN, 8.0, {"rope.scaling.factor": 2.0})],
    "rope.scale_linear": [("qwen35", {}, 3.0, {"rope.scale_linear": None}),
                          ("qwen35", {"rope.scaling.factor": 2.0}, 3.0, {"rope.scaling.factor": 3.0})],
    "rope.scaling.original_context_length": [("qwen35", YARN, 512, {"rope.scaling.original_context_length": 64})],
    "rope.scaling.attn_factor": [("qwen35", YARN, 1.5, {"rope.scaling.attn_factor": None}),
                                 ("qwen35moe", {}, 0.5, {"rope.scaling.attn_factor": None})],
    "rope.scaling.yarn_ext_factor": [("qwen35", YARN, 0.25, {"rope.scaling.yarn_ext_factor": 1.0})],
    "rope.scaling.yarn_beta_fast": [("qwen35", {**YARN, "rope.scaling.original_context_length": 4096, "block_count": 4}, 300.0,
                                     {"rope.scaling.yarn_beta_fast": None})],
    "rope.scaling.yarn_beta_slow": [("qwen35", {**YARN, "rope.scaling.original_context_length": 128}, 20.0,
                                     {"rope.scaling.yarn_beta_slow": None})],
    "ssm.conv_kernel": [("qwen35", {}, 4, None)],
    "ssm.state_size": [("qwen35", {"ssm.inner_size": 64}, 32, None)],
    "ssm.group_count": [("qwen35", {"ssm.time_step_rank": 4, "ssm.inner_size": 64}, 2, None),
                        ("qwen3next", {"ssm.time_step_rank": 4, "ssm.inner_size": 64}, 2, None)],
    "ssm.time_step_rank": [("qwen35", {"ssm.inner_size": 48}, 3, None), ("qwen35moe", {"ssm.inner_size": 16}, 1, None)],
    "expert_count": [("qwen35moe", {}, 5, None)],
    "expert_used_count": [("qwen35moe", {}, 1, {"expert_used_count": 2}), ("qwen3next", {}, 3, {"expert_used_count": 2})],
    "expert_feed_forward_length": [("qwen35moe", {}, 64, None)],
    "expert_shared_feed_forward_length": [("qwen35moe", {}, 64, None), ("qwen35moe", {}, 0, None)],
    "expert_weights_scale": [("qwen35moe", {}, 2.5, {"expert_weights_scale": None}), ("qwen3next", {}, 0.5, {"expert_weights_scale": None})],
    "expert_weights_norm": [("qwen35moe", {}, False, {"expert_weights_norm": None}),
                            ("qwen3next", {"expert_weights_scale": 2.5}, False, {"expert_weights_norm": None})],
}
# Values that are refused, by name, of keys that are used.
WRONG = {
    "attention.value_length": [({}, 16)], "ssm.inner_size": [({}, 48)], "nextn_predict_layers": [({}, 2)],
    "rope.dimension_sections": [({}, [2, 1, 1, 1]), ({}, [1, 1, 1, 1, 1])],
    "rope.scaling.type": [({"rope.scaling.factor": 4.0}, "longrope"), ({}, "dynamic")],
    "rope.scaling.yarn_ext_factor": [({}, 1.0), (YARN, 2.0)],
    "rope.scaling.yarn_attn_factor": [(YARN, 1.0), (YARN, 2.0)],
    "rope.scaling.factor": [({}, -1.0), ({}, math.nan)], "rope.dimension_count": [({}, 7), ({}, 10)],
    "rope.scaling.attn_factor": [({}, 0.0)],
    "expert_weights_norm": [({"expert_count": 3, "expert_used_count": 2, "expert_feed_forward_length": 32}, 1)],
}
BOOLS = {"attention.causal", "ssm.v_head_reordered", "norm_top_k_prob", "use_parallel_residual"}


def check_used_keys(runtime, entries):
    base = {arch: oracle.logits(Model(arch), TOKENS) for arch in ARCHES.values()}
    for arch in base:
        follows(runtime, f"a plain {arch}", Model(arch))
    for name in entries:
        if name not in USED and name not in WRONG:
            require(False, f"the key {name} has no case in test_names.py")
        for arch, others, value, without in USED.get(name, []):
            with_it = Model(arch, **{**others, name: value})
            ignored = oracle.logits(Model(arch, **{**others, **without}), TOKENS) if without is not None else base[arch]
            follows(runtime, f"{name} = {value} ({arch})", with_it, ignored)
        for others, value in WRONG.get(name, []):
            model = Model("qwen35", **others)
            model.keys[name] = value
            refused(f"{name} = {value}", name.split(".")[-1], runtime.logits(model))
    for model in (Model("qwen35", **YARN, **{"rope.scaling.yarn_attn_factor": 0.1 * math.log(4) + 1}),
                  Model("qwen35", **{"rope.scaling.yarn_ext_factor": 0.0}), Model("qwen3next", **{"attention.value_length": None}),
                  Model("qwen35", **{"rope.dimension_sections": [2, 1, 1, 0]}), Model("qwen35", **{"rope.dimension_sections": [2, 1, 1]})):
        follows(runtime, f"neutral {list(model.keys)[-1]}", model)
    # YaRN where the paper's dimensions cross: implementations differ, so it is refused
    refused("YaRN with a tiny base", "YaRN with a base", runtime.logits(Model("qwen35", **{**YARN, "rope.freq_base": 2.0,
                                                                                           "rope.scaling.original_context_length": 1 << 20})))


def with_key(model, name, x):
    other = copy.copy(model)
    other.keys = {**model.keys, name: x}
    return other


def check_other_keys(runtime, entries):
    models = {arch: Model(arch) for arch in ARCHES.values()}
    base = {arch: runtime.logits(model) for arch, model in models.items()}
    for macro, name, arches, _, use, low, high, _ in entries:
        if macro != "KEY" or use == "USED":
            continue
        shown = name.replace("*", "block_count")
        for arch in (ARCHES[a] for a in arches):
            def at(x, arch=arch, shown=shown):
                return runtime.logits(with_key(models[arch], shown, x))
            if use == "HARMLESS":
                for x in (7, [1, 2, 3]):
                    require(at(x) == base[arch], f"{shown} = {x} ({arch}) is not harmless")
                continue
            forms = [bool] if name in BOOLS else [int, float]
            for form in forms:
                require(at(form(low)) == base[arch] and at(form(high)) == base[arch], f"{shown} ({arch}) is refused where it changes nothing")
                refused(f"{shown} ({arch})", f"{arch}.{shown}", at(not low if form is bool else form(high + 1)))
    for arch, model in models.items():
        refused("an unknown key", f"{arch}.rope.freq_base_swa", runtime.logits(with_key(model, "rope.freq_base_swa", 7.0)))
        for name in ("general.whatever", "tokenizer.ggml.whatever"):
            require(runtime.logits(with_key(model, name, 7)) == base[arch], f"{name} is refused, which is none of the architecture's")


# ---- tensors ----

def mtp_model(**changes):
    return Model("qwen35", **{"block_count": 3, "nextn_predict_layers": 1, "full_attention_interval": 2, **changes})


VARIANTS = {"ssm_in.weight", "ssm_dt", "ffn_gate_up_exps.weight", "blk.1.attn_qkv.weight", "blk.1.attn_qkv.bias"}  # test_variants.py


def check_tensors(runtime, entries):
    untied = [Model(arch, biases=True, tied=False) for arch in ARCHES.values()]
    base = {model.arch: oracle.logits(model, TOKENS) for model in untied}
    for model in untied:
        follows(runtime, f"biases and an output of its own ({model.arch})", model)
    mtp = mtp_model()
    drafted = draft_all(mtp)
    require(runtime.drafts(mtp) == drafted, "the MTP block drafts other tokens")
    for macro, name, arches, where, use, *_ in entries:
        if macro != "TENSOR":
            continue
        layer = {"FILE": None, "BLOCK": 0, "RECURRENT": 0, "ATTENTION": 1, "MTP": 2}[where]
        shown = name.replace("*", "weight")
        full = shown if layer is None else f"blk.{layer}.{shown}"
        if where == "MTP":
            check_mtp_tensor(runtime, full, drafted)
            continue
        users = 0
        for model in untied:
            of_arch = any(ARCHES[a] == model.arch for a in arches)
            if use == "USED" and full in model.tensors:
                users += 1
                check_used_tensor(runtime, model, full, base[model.arch])
            elif use == "USED" and not of_arch:
                refused(f"{full} in a {model.arch}", full, runtime.logits(with_tensor(model, full)))
            elif use == "HARMLESS":
                require(runtime.logits(with_tensor(model, full)) == runtime.logits(model), f"{full} is not harmless")
            elif use == "REFUSED":
                refused(full, full, runtime.logits(with_tensor(model, full)))
        require(use != "USED" or users or name in VARIANTS or full in VARIANTS, f"no case has the tensor {full}")
    # of layers of the other kind, of layers that are not there, and of nothing
    for name in ("blk.0.attn_q.weight", "blk.1.attn_qkv.weight", "blk.1.ssm_a", "blk.7.attn_norm.weight", "blk.0.attn_qkv.bias",
                 "blk.0.ssm_conv1d.bias", "blk.1.ffn_down.bias", "blk.1.attn_q.scale", "blk.x.attn_q.weight", "blk.0.v.weight", "whatever",
                 "blk.5.nextn.eh_proj.weight", "blk.0.ssm_in.weight"):
        refused(name, name, runtime.logits(with_tensor(Model(), name)))


def with_tensor(model, name):
    other = copy.copy(model)
    other.tensors = {**model.tensors, name: ((4,), [0.5] * 4)}
    return other


def check_used_tensor(runtime, model, name, base):
    other = copy.copy(model)
    shape, floats = model.tensors[name]
    draw = random.Random(name)
    low, high = (-2, -0.01) if name.endswith("ssm_a") else (-1, 1)
    other.tensors = {**model.tensors, name: (shape, [oracle.f32(draw.uniform(low, high)) for _ in floats])}
    follows(runtime, f"{name} ({model.arch})", other, base)


def draft_all(model):
    return [token for end in DRAFTED for token in oracle.drafts(model, TOKENS[:end], N_DRAFTS)]


def check_mtp_tensor(runtime, name, want):
    model = mtp_model()
    shape, floats = model.tensors[name]
    draw = random.Random(name)
    model.tensors[name] = (shape, [oracle.f32(draw.uniform(-1, 1)) for _ in floats])
    changed = draft_all(model)
    require(runtime.drafts(model) == changed, f"{name}: the MTP block drafts other tokens")
    require(changed != want, f"{name}: the case does not show whether it is read")
    if name.split(".")[3] in ("embed_tokens", "shared_head_head", "shared_head_norm"):  # the trunk's, where it has none
        del model.tensors[name]
        require(runtime.drafts(model) == draft_all(model) != changed, f"without {name} the MTP block drafts other tokens")


# ---- the tokenizer ----

def vocabulary(**changes):
    """changes: of keys by their whole names, or without `tokenizer.ggml.`"""
    model = Model()
    tokens = ["a", "b", "c", "d", "ab", "abc", "<|x|>", "<|y|>", "<|z|>", "<|w|>"]
    keys = {"model": "gpt2", "pre": "qwen2", "tokens": tokens, "token_type": [1] * 6 + [3] * 4, "merges": ["a b", "ab c"], "bos_token_id": 6,
            "eos_token_id": 7}
    keys.update(changes)
    model.keys.update({name if "." in name else f"tokenizer.ggml.{name}": x for name, x in keys.items() if x is not None})
    return model


TEXT_USED = {  # other values, and what is answered then
    "model": [("llama", "tokenizer.ggml.model")], "pre": [("llama3", "tokenizer.ggml.pre")],
    "tokens": [(["a", "b", "c", "d", "ab", "abd", "<|x|>", "<|y|>", "<|z|>", "<|w|>"], "tokenizer.ggml.merges")],
    "token_type": [([1] * 6 + [4] + [3] * 3, "5 4 ; 7 ; 6 0")], "merges": [(["b c", "a b"], None)],
    "bos_token_id": [(8, "5 4 ; 7 ; 8 0")], "add_bos_token": [(True, "5 4 ; 7 ; 6 1")], "eos_token_id": [(9, "5 4 ; 9 ; 6 0")],
    "eos_token_ids": [([8, 7, 9, 8], "5 4 ; 7 8 9 ; 6 0"), ([8, 10], "eos_token_ids[1] is 10"), ([-1], "eos_token_ids[0] is -1"),
                      ([8] * 33, "has 33 elements; at most 32"), (8, "eos_token_ids is of kind u32")],
    "eot_token_id": [(8, "5 4 ; 7 8 ; 6 0")], "eom_token_id": [(9, "5 4 ; 7 9 ; 6 0")],
}


def check_notes(runtime, keys, noted):
    model = Model()
    model.keys.update(keys)
    answer = runtime.of(model, "notes {}")
    require(answer == noted, f"the notes of {keys}: {answer}, not {noted}")


ELSEWHERE = {"tokenizer.chat_template", "general.architecture", "general.alignment"}  # test_tokenizer.c, test_gguf.c


def check_text_keys(runtime, entries):
    base = "5 4 ; 7 ; 6 0"
    require(" ".join(runtime.text(vocabulary())) == base, f"a small vocabulary: {runtime.text(vocabulary())}")
    for macro, name, _, _, use, low, high, _ in entries:
        if macro != "TEXT_KEY":
            continue
        shown, short = name.replace("*", "pad_token_id"), name.removeprefix("tokenizer.ggml.")
        if use == "USED" and name not in ELSEWHERE:
            require(TEXT_USED.get(short), f"the key {name} has no case in test_names.py")
            for x, want in TEXT_USED.get(short, []):
                answer = runtime.text(vocabulary(**{name: x}))
                said = answer if isinstance(answer, str) else " ".join(answer)
                require(said != base and want in (None, said) or isinstance(answer, str) and str(want) in answer
                        or short == "token_type" and said == want, f"{name} = {x}: {said}")
        elif use == "HARMLESS":
            require(" ".join(runtime.text(vocabulary(**{shown: 1}))) == base, f"{shown} is not harmless")
            check_notes(runtime, {shown: 1}, [])
        elif use == "ONLY":
            require(" ".join(runtime.text(vocabulary(**{shown: False}))) == base, f"{shown} = false is refused")
            refused(shown, shown, runtime.text(vocabulary(**{shown: True})))
        elif use == "NOTED":
            check_notes(runtime, {shown: 1}, [shown])
            check_notes(runtime, {shown: 0}, [])
        elif use == "ADVICE":
            for x in (2 * low, high, 1, "1", math.nan, low - 1, high + 1):
                if isinstance(x, float) and abs(x) > 1 << 30:  # no F32
                    continue
                good = isinstance(x, (int, float)) and low <= oracle.f32(x) <= high
                check_notes(runtime, {name: x}, [] if good else [name])
    check_notes(runtime, {"general.sampling.sequence": "kp", "general.whatever": 1, "tokenizer.ggml.whatever": 1},
                ["general.sampling.sequence", "general.whatever", "tokenizer.ggml.whatever"])
    # a user-defined token is found in a text, a control token is not
    require(" ".join(runtime.text(vocabulary(token_type=[1] * 6 + [3, 3, 4, 3]), "ab<|z|>c")) == "4 8 2 ; 7 ; 6 0", "token types are not read")


def check_characters(runtime):
    """Letters, numbers and marks are what they are to Python's own Unicode, as far as that goes. "a" and the first byte of a
    character are one token where it goes on with the word: letters do, and marks in qwen35; with " ", all but numbers do."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    letters = [chr(b) if b in plain else chr(256 + rest.index(b)) for b in range(256)]
    merges = [(letters[ord(a)], letters[b]) for a in "a " for b in range(0xC2, 0xF5)]
    some = [c for c in range(0x80, 0x110000, 11) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") and not chr(c).isspace()]
    newer = tuple(map(int, unicodedata.unidata_version.split("."))) > (16, 0, 0)
    for pre in ("qwen2", "qwen35"):
        model = vocabulary(pre=pre, tokens=letters + [a + b for a, b in merges] + ["<|x|>"], token_type=None, bos_token_id=None, eos_token_id=None,
                           merges=[" ".join(pair) for pair in merges])
        for front in "a ":
            answer = runtime.text(model, "".join(f"{front}{chr(c)}\n" for c in some))
            tokens = [int(x) for x in answer[:answer.index(";")]]
            ends = [i + 1 for i, token in enumerate(tokens) if token == 10]
            wrong = []
            for c, begin in zip(some, [0] + ends):
                joined, kind = tokens[begin] >= 256, unicodedata.category(chr(c))[0]
                if joined != (kind == "L" or kind == "M" and pre == "qwen35" if front == "a" else kind != "N") and not newer:
                    wrong.append(hex(c))
            require(len(ends) == len(some) and not wrong, f"{pre}: {len(wrong)} characters are classed otherwise by Python: {wrong[:10]}")


# ---- everything at once, and what is kept of keys and values ----

def check_random(runtime):
    for seed in range(12):
        draw = random.Random(seed)
        arch = draw.choice(list(ARCHES.values()))
        nk, r, nkv = draw.choice([1, 2]), draw.choice([1, 2, 3]), draw.choice([1, 2])
        hd, layers = draw.choice([4, 8, 12]), draw.choice([2, 3, 4])
        keys = {"ssm.group_count": nk, "ssm.time_step_rank": nk * r, "ssm.inner_size": 16 * nk * r, "attention.head_count_kv": nkv,
                "attention.head_count": nkv * draw.choice([1, 2, 3]), "attention.key_length": hd, "attention.value_length": hd,
                "rope.dimension_count": draw.choice([2, 4, hd]), "block_count": layers, "ssm.conv_kernel": draw.choice([1, 2, 4]),
                "attention.recurrent_layers": [True] + [draw.random() < 0.5 for _ in range(layers - 1)]}
        if draw.random() < 0.6:
            keys.update(draw.choice([YARN, {"rope.scaling.factor": 2.5}, {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}]))
        if arch != "qwen35":
            keys.update({"expert_weights_norm": draw.random() < 0.5, "expert_weights_scale": draw.choice([0.0, 1.5]),
                         "expert_shared_feed_forward_length": draw.choice([0, 32]), "expert_count": 4, "expert_used_count": draw.choice([1, 3])})
        model = Model(arch, seed, biases=draw.random() < 0.5, tied=draw.random() < 0.5, **keys)
        follows(runtime, f"random model {seed}: {arch} {keys}", model)


def check_kept(runtime):
    """Beyond 1,024 cells, in each type that keys and values can be kept in: one more must matter, and all must be read."""
    model, draw = Model(seed=5, **{"embedding_length": 32, "ssm.time_step_rank": 1, "ssm.inner_size": 16}), random.Random(5)
    model.tensors["blk.1.attn_output.weight"] = ((16, 32), [4 * x for x in model.tensors["blk.1.attn_output.weight"][1]])
    tokens = [draw.randrange(oracle.VOCABULARY) for _ in range(1100)]
    for kv, allowed in (("f32", CLOSE), ("f16", CLOSE), ("bf16", 2e-3)):
        some = tokens if kv == "f16" else tokens[:40]
        want = oracle.logits(model, some, 4, kv)
        # a key or value that lies between two numbers of the type may be rounded to either
        gap = apart(runtime.logits(model, some, 4, kv), want)
        require(gap < allowed, f"{len(some)} tokens with {kv} cells: logits are off by {gap:.2g}")
        if kv == "f16":
            fine = apart(runtime.logits(model, some, 4, "f32"), want)
            require(fine > 2 * gap, f"cells in F16 are no nearer to themselves ({gap:.2g}) than those in F32 ({fine:.2g})")
    check_blocks(runtime)


def check_blocks(runtime):
    """Cells in Q8_0, of two kv heads of two blocks each: nearer to what the formula says than cells of F32."""
    keys = {"attention.key_length": 64, "attention.value_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
    for seed in range(4):
        model, draw = Model(seed=seed, **keys), random.Random(seed)
        tokens = [draw.randrange(oracle.VOCABULARY) for _ in range(40)]
        want = oracle.logits(model, tokens, 4, "q8_0")
        gap, fine = (apart(runtime.logits(model, tokens, 4, kv), want) for kv in ("q8_0", "f32"))
        require(gap < 2e-3 and fine > 2 * gap, f"cells in Q8_0, seed {seed}: logits are off by {gap:.2g}, of F32 by {fine:.2g}")


def all_names(folder):
    entries = read_list()
    check_page(entries, False)
    runtime = Runtime()
    runtime.path = folder / "model.gguf"
    check_used_keys(runtime, [name for macro, name, _, _, use, *_ in entries if macro == "KEY" and use == "USED"])
    check_other_keys(runtime, entries)
    check_tensors(runtime, entries)
    check_text_keys(runtime, entries)
    check_characters(runtime)
    check_random(runtime)
    check_kept(runtime)
    runtime.end()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        check_page(read_list(), True)
    else:
        tool.run_tests(all_names)

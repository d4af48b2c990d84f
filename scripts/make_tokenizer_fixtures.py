#!/usr/bin/env python3
"""Make tests/runtime/fixtures: a small vocabulary as GGUF files, and the tokens that another implementation makes of
many texts. Needs the PyPI packages tokenizers and gguf; the tests themselves need neither.

  vocab_qwen2.gguf, vocab_qwen35.gguf, vocab_default.gguf   one vocabulary, three forms of cutting words
  tokens.bin   texts with their tokens, by the package tokenizers, as little-endian numbers:
               u32 count; for each text u8 flags, u16 bytes, the text, and for each of the three forms in this order
               u16 count and u16 tokens, or only u16 65535: as the form before.
               flags 1: with control tokens (RT_PARSE_SPECIAL); else with user-defined tokens only

The vocabulary is byte-level BPE, trained on the text and the awkward texts below as they are, not cut into words. So
there are merges across the ends of words, and a word that is cut elsewhere has other tokens. The regular expressions are those of tokenizer.json of
Qwen2 and of Qwen3.5, and GPT-2's, which the package has built in. There is no Unicode normalisation.
"""
import argparse
import json
import pathlib
import random
import struct
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/runtime/fixtures"
SIZE_LIMIT = 300_000
VOCABULARY = 1400
AWKWARD_WEIGHT = 10
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REGEX = {
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen35": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
                             r"|\s+(?!\S)|\s+",
    "default": None,
}
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<a>bcd"]
USER = ["<think>", "</think>", "<a>", "<a>bc", "\u2603\u2603"]

TEXT = """
The river keeps what it is given: a leaf, a coin, the sound of a bell. It's said that she'll never return, that we've
all been here before, that they're waiting and I'd known; he doesn't, you can't, I'm not. THE RIVER KEEPS, the Bell.
In 1999 and 2024, 37 boats of 12 tons each crossed 1000 times; 3.14159 is not 22/7, and 0x1F is 31.

def main(argv):
    for index, value in enumerate(values):
        if value is None or index >= 100:
            return {"key": value, 'other': [1, 2, 3]}
        print(f"{index:>8} {value!r}")   # the end
    while (x != 0) { x -= 1; y += a[i][j] * b->c; }

static int32_t count_rows(const struct matrix *m, size_t n)
{
	return n < m->rows ? (int32_t)n : -1;
}

\u6cb3\u6d41\u4fdd\u7559\u4e86\u4e00\u7247\u53f6\u5b50\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u6cb3\u8fb9\u8d70\u4e00\u8d70\u3002\u6211\u4eec\u7684\u6cb3\uff0c\u4f60\u4eec\u7684\u6cb3\u3002
\u0440\u0435\u043a\u0430 \u043f\u043e\u043c\u043d\u0438\u0442 \u0432\u0441\u0451, \u0440\u0435\u043a\u0430 \u043d\u0435 \u0441\u043f\u0438\u0442. \u041d\u0430\u0434 \u0440\u0435\u043a\u043e\u0439 \u0442\u0443\u043c\u0430\u043d.
\u0627\u0644\u0646\u0647\u0631 \u064a\u062d\u0641\u0638 \u0645\u0627 \u064a\u0639\u0637\u0649 \u0644\u0647 \u0661\u0662\u0663\u0664\u0665 \u0645\u0631\u0629.
\u0928\u0926\u0940 \u0938\u092c \u0915\u0941\u091b \u092f\u093e\u0926 \u0930\u0916\u0924\u0940 \u0939\u0948\u0964 \u0928\u0926\u0940 \u0915\u0947 \u0915\u093f\u0928\u093e\u0930\u0947\u0964
\u0e41\u0e21\u0e48\u0e19\u0e49\u0e33\u0e08\u0e33\u0e17\u0e38\u0e01\u0e2d\u0e22\u0e48\u0e32\u0e07
Der Fluss beh\u00e4lt, was man ihm gibt; \u00fcber die Br\u00fccke gehen f\u00fcnf B\u00e4ume. La rivi\u00e8re garde \u00e9t\u00e9 apr\u00e8s \u00e9t\u00e9. A\u0301 e\u0301 o\u0308 n\u0303.
\U0001f600\U0001f600 \U0001f680 \u2764\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd


A last line,    with    spaces\t\tand tabs.   

""" + "    " * 8 + "\n\n\n"


def cutter(form):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=REGEX[form] is None)
    if REGEX[form] is None:
        return byte_level
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(REGEX[form]), "isolated", invert=False), byte_level])


def train():
    """(tokens in the order of their ids, merges as pairs), without special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain = [text for text in awkward() if "<" not in text and "\u2603" not in text]  # special tokens are not made of parts
    tokenizer.train_from_iterator([*TEXT.split("\n"), *plain * AWKWARD_WEIGHT], trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=1, max_token_length=9, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    assert not set(tokens) & set(CONTROL + USER)
    return tokens, [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]


def make_tokenizer(tokens, merges, form, flags):
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = cutter(form)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in USER])
    if flags:
        tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in CONTROL])
    return tokenizer


def write_gguf(form, tokens, merges):
    path = FOLDER / f"vocab_{form}.gguf"
    writer = gguf.GGUFWriter(str(path), "qwen35")
    types = [gguf.TokenType.CONTROL if t in CONTROL else gguf.TokenType.USER_DEFINED if t in USER else gguf.TokenType.NORMAL
             for t in tokens]
    writer.add_tokenizer_model("gpt2")
    if form != "default":  # where the key is missing it is the default
        writer.add_tokenizer_pre(form)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(form == "default")
    if form != "default":
        writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def old_characters():
    """Characters whose category has been the same since Unicode 3.2: every Unicode table of today agrees on them."""
    return [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000
            and unicodedata.category(chr(c)) == unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"]


def awkward():
    """Texts where the forms' alternatives meet."""
    return [
        "", " ", "  ", "\n", " \n", "\n ", "\r\n", "\r\n\r\n x", "\t\n\t\n", "a", " a", "  a", "   a b  ", "a\n", "a \n", "a\n\nb",
        "a  \n  b", "a\n  b", "\n\n\n   ", "\u3000\u3000a", "\u00a0x", "\u00a0\u00a0x", "\u0085x", "\u2028\u2029x", "\u180ex", " \u180e x",
        "\u1680x", "\u200bx", "\ufeffx", "\x1cx \x1d", "\x0b\x0cx", "\0", "a\0b", "\x7f",
        "\u180e\u180ex", "\u0085\u0085x", ".\u180ex", ".\u0085x", "\u200b\u200bx", "\u2009\u2009x", ".\u2009x", "\u202f\u202fx", "\u205f\u205fx",
        "it's", "IT'S", "it'S", "we'Re", "they'LL've", "'s's", "x'dx", "x'mm", "'tis", "it\u2019s", "it'\u017f", "it'\u017fabc",
        "\u017f", "\u017fx", " \u017fx", "a\u017fx", ".\u017fx", "'\u017fx", "' s", "''s", "I'D'VE", "a'lLb", "'",
        "1", "12", "123456", "a1b22c333", "3.14", "1,000", "\u0661\u0662\u0663", "\u0967\u0968", "\u00b2\u00b3\u00bd", "\u2167\u2168", "x\u00b2", "\u2460\u2461",
        "e\u0301", "e\u0301\u0302x", "\u0301", "\u0301\u0301", " \u0301a", "a\u0301 b", "1\u0301", ".\u0301", ".\u0301.", "\n\u0301", "\u0928\u0926\u0940",
        "\u0915\u094d\u0937", "\u0e19\u0e49\u0e33", "\u0e01\u0e33", "a\u20dd", "\u20dd", "!\u0301?", "\u200d\u0301", "\u2764\ufe0f", "\u0915\u093f",
        "...", "...\n", "...\n\n", "... \n", "!?\r\n!", " -- ", "a->b", "{}\n}", "};\n\n", "// x", "/*\n * y\n */\n", "a\n}\n", "#include <a.h>",
        "x=[1,2];", "~`@#$%^&*()_+", "\u3002\uff0c\uff01", "\u00bf?", "$\u20ac\u00a3", " $", "\t$", "a\t$", "\u00a0$",
        "\U0001f600", "\U0001f600\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd ok", "\U0001f1e9\U0001f1ea", "\U0001d54f\U0001d400", "\U00010348", "\U0010ffff",
        "\ue000", "\ud7ff\ue000", "\uffff", "\u2603", "\u2603\u2603", "\u2603\u2603\u2603", "\u2603\u2603\u2603\u2603",
        "<|im_start|>user\nhello<|im_end|>\n", "<|im_start|>", "<|im_start|", "<|im_start|>>", "<<|im_end|>", "<|im_end|><|im_end|>",
        " <|im_end|> ", "a<|endoftext|>b", "<|im_<|im_end|>", "<think>\nx\n</think>\n\n", "<think", "<think>>", "<a>", "<a>b", "<a>bc", "<a>bcd",
        "<a>bc<a>bcd<a>b<", "<a><a>", "<A>bc", " <a> ", "x <a>", "<a> x", "\n<a>\n", "<|im_start|>system\n\n\nx<|im_end|>\n<|im_start|>assistant\n",
    ]


def texts():
    rng = random.Random(20240917)
    yield from awkward()
    yield from TEXT.split("\n")
    yield TEXT
    yield "a" * 700
    yield "ab" * 300 + " " * 400 + "\n" * 50 + "the " * 100
    yield " " * 300
    yield " " * 300 + "x"
    yield " \n" * 100 + "  "
    everything = old_characters()
    kinds = {}
    for c in everything:
        kinds.setdefault(unicodedata.category(c)[0], []).append(c)
    frequent = list("etaoin shrdlu ETAOIN\n\n  \t'.,;0123456789") + ["\u00e9", "\u0301", "\u6cb3", "\u0440", "\u0661", "\U0001f600", "'s", "'ll", "\r\n", "   "]
    for i in range(250):  # characters of everywhere
        yield "".join(rng.choice(kinds[rng.choice("LLMNPSZC")]) for _ in range(rng.randint(1, 14)))
    for i in range(250):  # a few kinds, often the same
        few = rng.sample(frequent, 6) + [rng.choice(kinds[k]) for k in "LMNPSZ"]
        yield "".join(rng.choice(few) for _ in range(rng.randint(2, 30)))
    for i in range(100):  # pieces of the text
        at = rng.randrange(len(TEXT))
        yield TEXT[at:at + rng.randint(5, 60)]
    for i in range(80):   # special tokens in between
        yield "".join(rng.choice(CONTROL + USER + frequent + [t[:-1] for t in CONTROL + USER]) for _ in range(rng.randint(2, 12)))


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    tokens, merges = train()
    tokens += CONTROL + USER
    forms = list(REGEX)
    for form in forms:
        write_gguf(form, tokens, merges)
    cases = [(text, flags) for text in texts() for flags in ((0, 1) if any(t[:2] in text for t in CONTROL + USER) else (0,))]
    made = {(form, flags): make_tokenizer(tokens, merges, form, flags) for form in forms for flags in (0, 1)}
    out = [struct.pack("<I", len(cases))]
    differ = 0
    for text, flags in cases:
        data = text.encode()
        out.append(struct.pack("<BH", flags, len(data)) + data)
        before = None
        for form in forms:
            ids = made[form, flags].encode(text, add_special_tokens=False).ids
            assert made[form, flags].decode(ids, skip_special_tokens=False) == text, text
            out.append(struct.pack("<H", 65535) if ids == before else struct.pack(f"<H{len(ids)}H", len(ids), *ids))
            differ += ids != before
            before = ids
    (FOLDER / "tokens.bin").write_bytes(b"".join(out))
    total = sum(path.stat().st_size for path in FOLDER.iterdir())
    print(f"{len(tokens)} tokens, {len(merges)} merges, {len(cases)} texts, {differ - len(cases)} changes of form, {total} bytes")
    assert total <= SIZE_LIMIT


if __name__ == "__main__":
    main()

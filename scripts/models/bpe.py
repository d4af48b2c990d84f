"""A byte-level BPE tokenizer with Qwen2's way of cutting text into words, trained on a small corpus."""
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# tokenizer.ggml.pre "qwen2"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
NORMAL, CONTROL = 1, 3  # tokenizer.ggml.token_type


def train(texts, n_tokens):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=n_tokens - len(SPECIAL), show_progress=False, min_frequency=2,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    plain = []
    for text in texts:
        for name in SPECIAL:
            text = text.replace(name, "")
        plain.append(text)
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return tokenizer


def metadata(tokenizer):
    """(tokens, token types, merges) as GGUF stores them."""
    import json
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [text for text, _ in sorted(vocab.items(), key=lambda item: item[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]
    return tokens, [CONTROL if text in SPECIAL else NORMAL for text in tokens], merges

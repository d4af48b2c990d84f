/* Byte-level BPE tokenizer: text to tokens and back, with the vocabulary, merges and special tokens of a GGUF file.
 *
 * tokenizer.ggml.model must be "gpt2". tokenizer.ggml.pre selects the regular expression that splits text into words:
 * "qwen2" (also "deepseek-r1-qwen", "kormo", "f2llmv2"), "qwen35" or "default" (GPT-2's, also without the key).
 * Letters, numbers and marks are those of Unicode 16. Text is not normalised: if tokenizer.json requests NFC, text in
 * another form gets other tokens. A tokenizer is immutable: any number of threads may use it. */
#ifndef GDN_RUNTIME_TOKENIZER_H
#define GDN_RUNTIME_TOKENIZER_H

#include "runtime/files/gguf.h"

typedef struct rt_tokenizer rt_tokenizer;

/* Creates a tokenizer. The file may be closed afterwards. GDN_UNSUPPORTED: another kind of vocabulary, or an unknown
 * tokenizer.ggml.pre. The budget (may be NULL) is for the tables: 13 bytes per token, 20 per merge, 4 more per special
 * token, and the bytes of all tokens. A file has at least 8 bytes per token and 11 per merge. */
gdn_status rt_tokenizer_create(const rt_gguf *file, rt_budget *budget, rt_tokenizer **tokenizer);
void rt_tokenizer_destroy(rt_tokenizer *tokenizer);

int32_t rt_tokenizer_n_tokens(const rt_tokenizer *t);
int32_t rt_tokenizer_bos(const rt_tokenizer *t); /* -1: none; see rt_tokenizer_add_bos */
int32_t rt_tokenizer_eos(const rt_tokenizer *t); /* -1: none */
int rt_tokenizer_add_bos(const rt_tokenizer *t);
/* 1: generation ends after this token: eos, eot, eom and eos_token_ids of the file, <|im_end|> and <|endoftext|>. */
int rt_tokenizer_is_end(const rt_tokenizer *t, int32_t id);
int32_t rt_tokenizer_find(const rt_tokenizer *t, const char *text); /* the token with exactly this text; -1: none */

/* Flag: recognise control tokens in the text ("<|im_start|>"); without it they are plain text. User-defined tokens
 * ("<think>"), which models read and write as text, are always recognised. bos, eos, eot and the tokens of ChatML are
 * control tokens whatever type the file gives them. */
enum { RT_PARSE_SPECIAL = 1 };

/* Tokenizes `bytes` bytes of text, at most 2^30. Any bytes are allowed; invalid UTF-8 survives the round trip. Writes
 * at most `capacity` tokens; *count is the total, so capacity 0 queries the size. It does not add bos; the caller does
 * if rt_tokenizer_add_bos(). GDN_INVALID_ARGUMENT also if the vocabulary has no token for a byte. *count is 0 after an
 * error. */
gdn_status rt_tokenize(const rt_tokenizer *t, const char *text, uint64_t bytes, uint32_t flags, int32_t *tokens,
                       int64_t capacity, int64_t *count);

/* The same with RT_PARSE_SPECIAL, but a control token is recognised only where mark is 0 for all its bytes. For
 * untrusted text inside a template's text; words are split across both. */
gdn_status rt_tokenize_marked(const rt_tokenizer *t, const char *text, const unsigned char *mark, uint64_t bytes,
                              int32_t *tokens, int64_t capacity, int64_t *count);

/* The bytes of one token, not terminated; for a special token its text. They may be part of a UTF-8 character:
 * concatenate tokens before printing. An id out of range gives an empty string. */
rt_string rt_token_bytes(const rt_tokenizer *t, int32_t id);
int rt_token_is_special(const rt_tokenizer *t, int32_t id); /* control tokens, which are not text */
int rt_token_is_added(const rt_tokenizer *t, int32_t id);   /* control and user-defined tokens, and ids out of range */

#endif

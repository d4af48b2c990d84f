/* Text to tokens and back: byte-level BPE with the vocabulary, merges and special tokens of a GGUF file
 * (tokenizer.ggml.model "gpt2"; tokenizer.ggml.pre "qwen2", "qwen35" and "default" select the regular expression
 * that cuts text into words; without the key it is "default", which is GPT-2's). A tokenizer is immutable after
 * creation: any number of threads may use it. What is a letter, a number or a mark is Unicode 16's. Text is taken as it
 * is: files whose tokenizer.json asks for Unicode normalisation (NFC) get other tokens for text not in that form. */
#ifndef GDN_RUNTIME_TOKENIZER_H
#define GDN_RUNTIME_TOKENIZER_H

#include "runtime/gguf.h"

typedef struct rt_tokenizer rt_tokenizer;

/* The file may be closed afterwards. GDN_UNSUPPORTED: another kind of vocabulary, or of cutting words. */
gdn_status rt_tokenizer_create(const rt_gguf *file, rt_tokenizer **tokenizer);
/* Its tables are counted against `budget`, which may be NULL, before they are allocated: 13 bytes for each token, 20
 * for each merge, 4 more for each special token, and the bytes of all tokens. A file has at least 8 bytes for each of
 * them, and 11 for a merge. */
gdn_status rt_tokenizer_create_within(const rt_gguf *file, rt_budget *budget, rt_tokenizer **tokenizer);
void rt_tokenizer_destroy(rt_tokenizer *tokenizer);

int32_t rt_tokenizer_n_tokens(const rt_tokenizer *t);
int32_t rt_tokenizer_bos(const rt_tokenizer *t); /* -1: none; add_bos says whether to prepend */
int32_t rt_tokenizer_eos(const rt_tokenizer *t); /* -1: none */
int rt_tokenizer_add_bos(const rt_tokenizer *t);
/* Generation ends after it: eos, eot, eom and eos_token_ids of the file, and <|im_end|> and <|endoftext|> where there
 * are such. */
int rt_tokenizer_is_end(const rt_tokenizer *t, int32_t id);
int32_t rt_tokenizer_find(const rt_tokenizer *t, const char *text); /* the token that is exactly this, or -1 */

/* Flag: control tokens written in the text ("<|im_start|>") become themselves. Without it they are text like any
 * other. User-defined tokens ("<think>"), which models read and write as text, become themselves always. The
 * tokens that frame a text (bos, eos, eot, those of ChatML) are control tokens whatever type the file gives them. */
enum { RT_PARSE_SPECIAL = 1 };

/* Tokens of `bytes` bytes of text (any bytes, UTF-8 or not; invalid UTF-8 survives the round trip). Writes at
 * most `capacity` of them; *count is how many there are, so capacity 0 asks for the size. bytes <= 2^30. Nothing is
 * put in front: where rt_tokenizer_add_bos, the caller begins with that. GDN_INVALID_ARGUMENT also where the
 * vocabulary has no token for a byte of the text; *count is 0 after an error. */
gdn_status rt_tokenize(const rt_tokenizer *t, const char *text, uint64_t bytes, uint32_t flags, int32_t *tokens,
                       int64_t capacity, int64_t *count);

/* The same with RT_PARSE_SPECIAL, but control tokens are only where mark is 0 for all their bytes: text that others
 * wrote within text of ours, cut into words as one. */
gdn_status rt_tokenize_marked(const rt_tokenizer *t, const char *text, const unsigned char *mark, uint64_t bytes,
                              int32_t *tokens, int64_t capacity, int64_t *count);

/* The bytes of one token, not terminated; special tokens give their text. A piece of a UTF-8 character is possible:
 * join the bytes of tokens before printing. An id out of range gives an empty string. */
rt_string rt_token_bytes(const rt_tokenizer *t, int32_t id);
int rt_token_is_special(const rt_tokenizer *t, int32_t id); /* control tokens, which are no text */

#endif

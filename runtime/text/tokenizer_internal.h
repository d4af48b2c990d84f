/* The tokenizer, between its files: tokenizer.c loads the vocabulary, tokenizer_bpe.c merges the bytes of a word,
 * tokenizer_split.c cuts text into words, tokenizer_text.c goes through a text. */
#ifndef GDN_RUNTIME_TOKENIZER_INTERNAL_H
#define GDN_RUNTIME_TOKENIZER_INTERNAL_H

#include "runtime/text/tokenizer.h"

typedef enum tok_kind {
    TOK_NORMAL = 0, /* result of merges; the file has its text in GPT-2's byte alphabet */
    TOK_USER = 1,   /* recognised in every text, before it is split into words                       */
    TOK_CONTROL = 2 /* recognised only with RT_PARSE_SPECIAL                                         */
} tok_kind;

/* merges[rank]: adjacent tokens left and right become result. Lower ranks are applied first. */
typedef struct tok_merge {
    int32_t left, right, result;
} tok_merge;

typedef struct tok_splitter tok_splitter; /* a rule for splitting text into words */

enum { TOK_MAX_END_IDS = 32, TOK_MAX_END = TOK_MAX_END_IDS + 8 }; /* from eos_token_ids; all */

struct rt_tokenizer {
    int32_t n_tokens;
    uint32_t *begin;     /* offset of each token's bytes in `arena`; one more at the end */
    unsigned char *kind; /* tok_kind of each token                                         */
    char *arena;
    int32_t *by_text;   /* hash table of tokens, -1 where free                            */
    uint64_t n_by_text; /* its buckets, at least twice the tokens                         */
    tok_merge *merges;
    int32_t n_merges;
    int32_t *by_pair; /* hash table of merges, by left and right                        */
    uint64_t n_by_pair;
    int32_t byte_token[256]; /* the normal token of each byte, or -1                           */
    int32_t *special;        /* user-defined and control tokens, sorted by bytes               */
    int32_t n_special;
    unsigned char begins_special[256];
    int32_t bos, eos, add_bos; /* -1: none in the file */
    int32_t end[TOK_MAX_END];
    int32_t n_end;
    const tok_splitter *splitter;
};

static inline rt_string tok_text(const rt_tokenizer *t, int32_t id)
{
    const rt_string text = { t->arena + t->begin[id], t->begin[id + 1] - t->begin[id] };
    return text;
}

/* Bucket of a table with n < 2^32 buckets, from a well-mixed hash. */
static inline uint64_t tok_place(uint64_t hash, uint64_t n) { return (hash >> 32) * n >> 32; }

/* Output of the tokenizer: counts tokens, and writes them up to capacity. */
typedef struct tok_sink {
    int32_t *tokens;
    int64_t capacity, count;
} tok_sink;

static inline void tok_put(tok_sink *sink, int32_t token)
{
    if (sink->count < sink->capacity) sink->tokens[sink->count] = token;
    sink->count++;
}

/* The normal (or, with special, the user-defined or control) token of exactly these bytes, or -1. */
int32_t tok_find(const rt_tokenizer *t, const char *text, uint64_t bytes, int special);

/* Loads the merges; the vocabulary must be loaded. */
gdn_status tok_load_merges(rt_tokenizer *t, const rt_gguf *file, rt_budget *budget);

/* Decodes text in GPT-2's byte alphabet, which has a printable character for each byte. `out` needs room for text.bytes
 * bytes. Returns the length; -1: a character is not in the alphabet. */
int64_t tok_decode_alphabet(rt_string text, char *out);

/* Buffers for merging, which grow with the longest word. Zero-initialise. */
typedef struct tok_work {
    int32_t *id, *previous, *next;
    uint64_t *heap;
    void *memory;
    uint64_t room;
} tok_work;

/* Tokens of one word; every byte of it must have a token. */
gdn_status tok_merge_word(const rt_tokenizer *t, tok_work *work, const char *word, uint64_t bytes, tok_sink *sink);
void tok_work_free(tok_work *work);

/* Finds the splitter for `pre` (tokenizer.ggml.pre); GDN_UNSUPPORTED: unknown. */
gdn_status tok_splitter_find(rt_string pre, const tok_splitter **splitter);

/* End of the word that begins at `at` < bytes, in valid UTF-8 text. */
uint64_t tok_cut(const tok_splitter *splitter, const char *text, uint64_t bytes, uint64_t at);

#endif

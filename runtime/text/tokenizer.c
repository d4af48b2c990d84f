/* The vocabulary of a tokenizer: tokens, their bytes and kinds. See tokenizer.h. */
#include "runtime/text/tokenizer_internal.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/files/model_names.h"

#define KEY(name) "tokenizer.ggml." name

enum { MAX_TOKENS = 1 << 24, SHOWN = 64, PIECE = 256 };

/* GGUF's token_type. */
enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_LAST = 6 };

/* ---- GPT-2's byte alphabet: bytes 33-126, 161-172 and 174-255 are themselves; the other 68, in order, are U+0100 on
 * ---- */

static int byte_of(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD)) return (int)c;
    if (c >= 0x100 && c <= 0x120) return (int)(c - 0x100);        /* 0 to 32 */
    if (c >= 0x121 && c <= 0x142) return (int)(c - 0x121 + 0x7F); /* 127 to 160 */
    return c == 0x143 ? 0xAD : -1;
}

int64_t tok_decode_alphabet(rt_string text, char *out)
{
    int64_t n = 0;
    for (uint64_t i = 0; i < text.bytes; n++) {
        const unsigned char first = (unsigned char)text.text[i];
        uint32_t c = first;
        if (first >= 0x80) { /* the alphabet needs at most two bytes */
            if (first < 0xC2 || first > 0xDF || i + 1 >= text.bytes || ((unsigned char)text.text[i + 1] & 0xC0) != 0x80)
                return -1;
            c = (uint32_t)(first & 0x1F) << 6 | ((unsigned char)text.text[i + 1] & 0x3F);
        }
        const int byte = byte_of(c);
        if (byte < 0) return -1;
        out[n] = (char)(unsigned char)byte;
        i += first >= 0x80 ? 2 : 1;
    }
    return n;
}

/* ---- Tokens by their bytes ---- */

static uint64_t hash_of(const char *text, uint64_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (uint64_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15); /* mixes all bits into the high ones */
}

/* Bucket of a token in the table, or the free bucket for it. */
static uint64_t place_of(const rt_tokenizer *t, const char *text, uint64_t bytes, int special)
{
    uint64_t place = tok_place(hash_of(text, bytes), t->n_by_text);
    for (;; place = place + 1 < t->n_by_text ? place + 1 : 0) {
        const int32_t id = t->by_text[place];
        if (id < 0) return place;
        const rt_string other = tok_text(t, id);
        if ((t->kind[id] != TOK_NORMAL) == special && other.bytes == bytes && !memcmp(other.text, text, (size_t)bytes))
            return place;
    }
}

int32_t tok_find(const rt_tokenizer *t, const char *text, uint64_t bytes, int special)
{
    return t->by_text[place_of(t, text, bytes, special)];
}

int32_t rt_tokenizer_find(const rt_tokenizer *t, const char *text)
{
    const uint64_t bytes = strlen(text);
    const int32_t id = tok_find(t, text, bytes, 1);
    return id >= 0 ? id : tok_find(t, text, bytes, 0);
}

/* ---- Loading ---- */

static gdn_status load_kinds(rt_tokenizer *t, const rt_gguf *file)
{
    int64_t count = 0, types[PIECE];
    t->kind = rt_calloc((uint64_t)t->n_tokens, 1, "kinds of tokens");
    if (!t->kind) return GDN_OUT_OF_MEMORY;
    if (!rt_gguf_has(file, KEY("token_type"))) return GDN_OK;
    gdn_status status = rt_gguf_get_ints(file, KEY("token_type"), 0, NULL, 0, &count);
    if (!status && count != t->n_tokens)
        status = rt_fail(GDN_INVALID_ARGUMENT, KEY("token_type") " has %lld elements; " KEY("tokens") " has %d",
                         (long long)count, (int)t->n_tokens);
    for (int32_t i = 0; !status && i < t->n_tokens; i++) {
        if (i % PIECE == 0) status = rt_gguf_get_ints(file, KEY("token_type"), i, types, PIECE, &count);
        if (status) break;
        const int64_t type = types[i % PIECE];
        if (type < 0 || type > TYPE_LAST)
            status = rt_fail(GDN_INVALID_ARGUMENT, KEY("token_type") "[%d] is %lld; 0 to %d are allowed", (int)i,
                             (long long)type, TYPE_LAST);
        t->kind[i] = type == TYPE_CONTROL || type == TYPE_UNKNOWN ? TOK_CONTROL
                     : type == TYPE_USER                          ? TOK_USER
                                                                  : TOK_NORMAL;
    }
    return status;
}

/* Reads a token id of the file; -1: none. */
static gdn_status load_id(const rt_tokenizer *t, const rt_gguf *file, const char *key, int32_t *id)
{
    int64_t value = -1;
    gdn_status status = GDN_OK;
    if (rt_gguf_has(file, key)) status = rt_gguf_get_int(file, key, 0, t->n_tokens - 1, &value);
    *id = (int32_t)value;
    return status;
}

static void add_end(rt_tokenizer *t, int32_t id)
{
    if (id >= 0 && !rt_tokenizer_is_end(t, id)) t->end[t->n_end++] = id;
}

static gdn_status load_end_ids(rt_tokenizer *t, const rt_gguf *file)
{
    int64_t ids[TOK_MAX_END_IDS], count = 0;
    if (!rt_gguf_has(file, KEY("eos_token_ids"))) return GDN_OK;
    gdn_status status = rt_gguf_get_ints(file, KEY("eos_token_ids"), 0, ids, TOK_MAX_END_IDS, &count);
    if (!status && count > TOK_MAX_END_IDS)
        status = rt_fail(GDN_UNSUPPORTED, KEY("eos_token_ids") " has %lld elements; at most %d are allowed",
                         (long long)count, TOK_MAX_END_IDS);
    for (int64_t i = 0; !status && i < count; i++)
        if (ids[i] < 0 || ids[i] >= t->n_tokens)
            status = rt_fail(GDN_INVALID_ARGUMENT, KEY("eos_token_ids") "[%lld] is %lld; 0 to %d are allowed",
                             (long long)i, (long long)ids[i], (int)t->n_tokens - 1);
        else add_end(t, (int32_t)ids[i]);
    return status;
}

static gdn_status load_ids(rt_tokenizer *t, const rt_gguf *file)
{
    static const char *const keys[] = { KEY("eos_token_id"), KEY("eot_token_id"), KEY("eom_token_id") };
    gdn_status status = load_id(t, file, KEY("bos_token_id"), &t->bos);
    if (!status && rt_gguf_has(file, KEY("add_bos_token"))) {
        int add = 0;
        status = rt_gguf_get_bool(file, KEY("add_bos_token"), &add);
        t->add_bos = add;
    }
    if (!status && t->add_bos && t->bos < 0)
        status = rt_fail(GDN_INVALID_ARGUMENT, KEY("add_bos_token") " is true, but there is no " KEY("bos_token_id"));
    for (size_t i = 0; !status && i < sizeof keys / sizeof *keys; i++) {
        int32_t id = -1;
        status = load_id(t, file, keys[i], &id);
        t->eos = i ? t->eos : id;
        if (!status) add_end(t, id);
    }
    return status ? status : load_end_ids(t, file);
}

/* True for bos, eos and the like, which are control tokens whatever type the file gives them. */
static int frames_text(const rt_tokenizer *t, int32_t id, rt_string text)
{
    static const char *const frames[] = { "<|im_start|>", "<|im_end|>", "<|endoftext|>" };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (text.bytes == strlen(frames[i]) && !memcmp(text.text, frames[i], (size_t)text.bytes)) return 1;
    int frame = id == t->bos;
    for (int32_t i = 0; i < t->n_end; i++) frame |= id == t->end[i];
    return frame;
}

static gdn_status load_texts(rt_tokenizer *t, const rt_gguf *file, rt_budget *budget)
{
    const uint64_t n = (uint64_t)t->n_tokens, places = 2 * n + 64;
    const rt_string first = rt_gguf_string_at(file, KEY("tokens"), 0);
    rt_string raw = first;
    uint64_t bytes = raw.bytes;
    for (int32_t i = 1; i < t->n_tokens; i++) {
        raw = rt_gguf_string_next(raw);
        bytes += raw.bytes;
    }
    if (bytes > UINT32_MAX)
        return rt_fail(GDN_INVALID_ARGUMENT, KEY("tokens") " have %llu bytes; at most 2^32 - 1 are allowed",
                       (unsigned long long)bytes);
    const gdn_status status =
        rt_budget_take(budget, (n + 1) * sizeof *t->begin + bytes + places * sizeof *t->by_text, "the tokens");
    if (status) return status;
    t->begin = rt_calloc(n + 1, sizeof *t->begin, "tokens");
    t->arena = rt_calloc(bytes, 1, "the bytes of tokens");
    t->by_text = rt_calloc(places, sizeof *t->by_text, "the table of tokens");
    t->n_by_text = places;
    if (!t->begin || !t->arena || !t->by_text) return GDN_OUT_OF_MEMORY;
    memset(t->by_text, -1, (size_t)places * sizeof *t->by_text);
    char *at = t->arena;
    for (int32_t i = 0; i < t->n_tokens; i++) {
        raw = i ? rt_gguf_string_next(raw) : first;
        if (frames_text(t, i, raw)) t->kind[i] = TOK_CONTROL;
        int64_t length = t->kind[i] == TOK_NORMAL ? tok_decode_alphabet(raw, at) : -1;
        if (length < 0) { /* a special token, or one that merges cannot produce: its text as is */
            length = (int64_t)raw.bytes;
            memcpy(at, raw.text, (size_t)length);
        }
        const uint64_t place = place_of(t, at, (uint64_t)length, t->kind[i] != TOK_NORMAL);
        at += length;
        t->begin[i + 1] = (uint32_t)(at - t->arena);
        if (t->by_text[place] < 0) /* the first of equal tokens counts */
            t->by_text[place] = i;
    }
    for (int b = 0; b < 256; b++) {
        const char byte = (char)(unsigned char)b;
        t->byte_token[b] = tok_find(t, &byte, 1, 0);
    }
    return GDN_OK;
}

static int stands_before(const rt_tokenizer *t, int32_t a, int32_t b)
{
    const rt_string x = tok_text(t, a), y = tok_text(t, b);
    const uint64_t common = x.bytes < y.bytes ? x.bytes : y.bytes;
    const int order = memcmp(x.text, y.text, (size_t)common);
    return order ? order < 0 : x.bytes < y.bytes;
}

/* Moves element i down in a heap of n elements whose root sorts last. */
static void sift(const rt_tokenizer *t, int32_t *heap, int64_t n, int64_t i)
{
    const int32_t moving = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && stands_before(t, heap[child], heap[child + 1]);
        if (!stands_before(t, moving, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* Sorts the special tokens by bytes, without duplicates, for rt_tokenize. */
static gdn_status sort_special(rt_tokenizer *t, rt_budget *budget)
{
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) { /* first pass counts, second fills */
        n = 0;
        for (int32_t i = 0; i < t->n_tokens; i++) {
            const rt_string text = tok_text(t, i);
            if (t->kind[i] == TOK_NORMAL || !text.bytes || tok_find(t, text.text, text.bytes, 1) != i) continue;
            if (pass) {
                t->special[n] = i;
                t->begins_special[(unsigned char)text.text[0]] = 1;
            }
            n++;
        }
        if (pass) break;
        const gdn_status status = rt_budget_take(budget, (uint64_t)n * sizeof *t->special, "special tokens");
        if (status) return status;
        t->special = rt_calloc((uint64_t)n, sizeof *t->special, "special tokens");
        if (!t->special) return GDN_OUT_OF_MEMORY;
    }
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(t, t->special, n, i);
    for (int64_t last = n - 1; last > 0; last--) { /* the root goes to the end */
        const int32_t id = t->special[0];
        t->special[0] = t->special[last];
        t->special[last] = id;
        sift(t, t->special, last, 0);
    }
    t->n_special = (int32_t)n;
    return GDN_OK;
}

/* Adds <|im_end|> and <|endoftext|> to the end tokens, also if the file names others. */
static void add_ends(rt_tokenizer *t)
{
    static const char *const ends[] = { "<|im_end|>", "<|endoftext|>" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) add_end(t, tok_find(t, ends[i], strlen(ends[i]), 1));
}

gdn_status rt_tokenizer_create(const rt_gguf *file, rt_budget *budget, rt_tokenizer **tokenizer)
{
    rt_string model, pre = { "default", 7 };
    int64_t n = 0;
    *tokenizer = NULL;
    gdn_status status = rt_gguf_get_string(file, KEY("model"), &model);
    if (!status && (model.bytes != 4 || memcmp(model.text, "gpt2", 4)))
        status = rt_fail(GDN_UNSUPPORTED, KEY("model") " is \"%.*s\"; gpt2 (byte-level BPE) can be used",
                         model.bytes > SHOWN ? SHOWN : (int)model.bytes, model.text);
    if (!status) status = rt_check_text_keys(file);
    if (!status && rt_gguf_has(file, KEY("pre"))) status = rt_gguf_get_string(file, KEY("pre"), &pre);
    if (!status) status = rt_gguf_get_strings(file, KEY("tokens"), &n);
    if (!status && (n < 1 || n > MAX_TOKENS))
        status = rt_fail(GDN_INVALID_ARGUMENT, KEY("tokens") " has %lld elements; 1 to %d are allowed", (long long)n,
                         MAX_TOKENS);
    if (status) return status;
    rt_tokenizer *t = rt_calloc(1, sizeof *t, "the tokenizer");
    if (!t) return GDN_OUT_OF_MEMORY;
    t->n_tokens = (int32_t)n;
    status = tok_splitter_find(pre, &t->splitter);
    if (!status) status = rt_budget_take(budget, (uint64_t)n, "kinds of tokens");
    if (!status) status = load_kinds(t, file);
    if (!status) status = load_ids(t, file);
    if (!status) status = load_texts(t, file, budget);
    if (!status) status = sort_special(t, budget);
    if (!status) status = tok_load_merges(t, file, budget);
    if (!status) add_ends(t);
    if (status) rt_tokenizer_destroy(t);
    else *tokenizer = t;
    return status;
}

void rt_tokenizer_destroy(rt_tokenizer *t)
{
    if (!t) return;
    void *const arrays[] = { t->begin, t->kind, t->arena, t->by_text, t->merges, t->by_pair, t->special };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) rt_free(arrays[i]);
    rt_free(t);
}

/* ---- Questions ---- */

int32_t rt_tokenizer_n_tokens(const rt_tokenizer *t) { return t->n_tokens; }
int32_t rt_tokenizer_bos(const rt_tokenizer *t) { return t->bos; }
int32_t rt_tokenizer_eos(const rt_tokenizer *t) { return t->eos; }
int rt_tokenizer_add_bos(const rt_tokenizer *t) { return t->add_bos; }

int rt_tokenizer_is_end(const rt_tokenizer *t, int32_t id)
{
    for (int32_t i = 0; i < t->n_end; i++)
        if (t->end[i] == id) return 1;
    return 0;
}

rt_string rt_token_bytes(const rt_tokenizer *t, int32_t id)
{
    const rt_string none = { "", 0 };
    return id >= 0 && id < t->n_tokens ? tok_text(t, id) : none;
}

int rt_token_is_special(const rt_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_tokens && t->kind[id] == TOK_CONTROL;
}

int rt_token_is_added(const rt_tokenizer *t, int32_t id)
{
    return id < 0 || id >= t->n_tokens || t->kind[id] != TOK_NORMAL;
}

/* Byte pair encoding: the merges of a vocabulary, and merging the bytes of a word. See tokenizer.h. */
#include "runtime/text/tokenizer_internal.h"

#include <string.h>

#include "runtime/base/error.h"

#define MERGES "tokenizer.ggml.merges"

enum { MAX_MERGES = 1 << 24, SHOWN = 64 };

/* ---- Merges by the tokens they join ---- */

static uint64_t place_of_pair(const rt_tokenizer *t, int32_t left, int32_t right)
{
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    uint64_t place = tok_place(hash ^ hash << 32, t->n_by_pair);
    for (;; place = place + 1 < t->n_by_pair ? place + 1 : 0) {
        const int32_t rank = t->by_pair[place];
        if (rank < 0 || (t->merges[rank].left == left && t->merges[rank].right == right)) return place;
    }
}

static gdn_status bad_merge(int64_t rank, rt_string text, const char *problem)
{
    return rt_fail(GDN_INVALID_ARGUMENT, MERGES "[%lld], \"%.*s\", %s", (long long)rank,
                   text.bytes > SHOWN ? SHOWN : (int)text.bytes, text.text, problem);
}

/* Loads one merge, "left right" in GPT-2's alphabet, where a space cannot occur. `bytes` has room for the text. */
static gdn_status load_merge(rt_tokenizer *t, int64_t rank, rt_string text, char *bytes)
{
    const char *space = text.bytes ? memchr(text.text, ' ', (size_t)text.bytes) : NULL;
    if (!space || space == text.text || space + 1 == text.text + text.bytes)
        return bad_merge(rank, text, "is not two tokens with a space between");
    const rt_string left = { text.text, (uint64_t)(space - text.text) };
    const rt_string right = { space + 1, text.bytes - left.bytes - 1 };
    const int64_t n_left = tok_decode_alphabet(left, bytes);
    if (n_left < 0) return bad_merge(rank, text, "has a character that stands for no byte");
    const int64_t n_right = tok_decode_alphabet(right, bytes + n_left);
    if (n_right < 0) return bad_merge(rank, text, "has a character that stands for no byte");
    tok_merge *merge = &t->merges[rank];
    merge->left = tok_find(t, bytes, (uint64_t)n_left, 0);
    merge->right = tok_find(t, bytes + n_left, (uint64_t)n_right, 0);
    merge->result = tok_find(t, bytes, (uint64_t)(n_left + n_right), 0);
    if (merge->left < 0 || merge->right < 0 || merge->result < 0)
        return bad_merge(rank, text, "joins or makes a token that the vocabulary does not have");
    const uint64_t place = place_of_pair(t, merge->left, merge->right);
    if (t->by_pair[place] < 0) /* the first of equal merges counts */
        t->by_pair[place] = (int32_t)rank;
    return GDN_OK;
}

gdn_status tok_load_merges(rt_tokenizer *t, const rt_gguf *file, rt_budget *budget)
{
    int64_t n = 0;
    gdn_status status = rt_gguf_get_strings(file, MERGES, &n);
    if (!status && n > MAX_MERGES)
        status = rt_fail(GDN_INVALID_ARGUMENT, MERGES " has %lld elements; at most %d are allowed", (long long)n,
                         MAX_MERGES);
    if (status) return status;
    uint64_t longest = 0;
    rt_string merge = rt_gguf_string_at(file, MERGES, 0);
    for (int64_t i = 0; i < n; i++) {
        longest = merge.bytes > longest ? merge.bytes : longest;
        if (i + 1 < n) merge = rt_gguf_string_next(merge);
    }
    const uint64_t places = 2 * (uint64_t)n + 64;
    status =
        rt_budget_take(budget, longest + (uint64_t)n * sizeof *t->merges + places * sizeof *t->by_pair, "the merges");
    if (status) return status;
    char *bytes = rt_calloc(longest, 1, "a merge's bytes");
    t->merges = rt_calloc((uint64_t)n, sizeof *t->merges, "merges");
    t->by_pair = rt_calloc(places, sizeof *t->by_pair, "the table of merges");
    t->n_by_pair = places;
    t->n_merges = (int32_t)n;
    if (!bytes || !t->merges || !t->by_pair) {
        rt_free(bytes);
        return GDN_OUT_OF_MEMORY;
    }
    memset(t->by_pair, -1, (size_t)places * sizeof *t->by_pair);
    merge = rt_gguf_string_at(file, MERGES, 0);
    for (int64_t i = 0; !status && i < n; i++) {
        status = load_merge(t, i, merge, bytes);
        if (i + 1 < n) merge = rt_gguf_string_next(merge);
    }
    rt_free(bytes);
    return status;
}

/* ---- Words ----
 *
 * A word is a linked list of tokens, initially its bytes. A heap holds possible merges as rank << 32 | index of the
 * left token: the smallest has the lowest rank, then the leftmost position. A merge that is no longer possible is
 * detected when it is taken out, from the current tokens there. A word of n bytes has at most n - 1 merges, each of
 * which removes one entry and adds two, so 2 n entries suffice. */

static gdn_status make_room(tok_work *work, uint64_t bytes)
{
    if (bytes <= work->room) return GDN_OK;
    uint64_t room = work->room ? work->room : 256;
    while (room < bytes) room *= 2;
    tok_work_free(work);
    work->memory = rt_calloc(room, 2 * sizeof(uint64_t) + 3 * sizeof(int32_t), "merging a word");
    if (!work->memory) return GDN_OUT_OF_MEMORY;
    work->heap = work->memory;
    work->id = (int32_t *)(void *)(work->heap + 2 * room);
    work->previous = work->id + room;
    work->next = work->previous + room;
    work->room = room;
    return GDN_OK;
}

void tok_work_free(tok_work *work)
{
    rt_free(work->memory);
    memset(work, 0, sizeof *work);
}

static void heap_put(uint64_t *heap, uint64_t *n, uint64_t entry)
{
    uint64_t at = (*n)++;
    while (at && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t heap_take(uint64_t *heap, uint64_t *n)
{
    const uint64_t first = heap[0], last = heap[--*n];
    uint64_t at = 0;
    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= *n) break;
        child += child + 1 < *n && heap[child + 1] < heap[child];
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

static void offer(const rt_tokenizer *t, const tok_work *work, uint64_t *n_heap, int32_t left)
{
    const int32_t right = left < 0 ? -1 : work->next[left];
    if (right < 0) return;
    const int32_t rank = t->by_pair[place_of_pair(t, work->id[left], work->id[right])];
    if (rank >= 0) heap_put(work->heap, n_heap, (uint64_t)rank << 32 | (uint32_t)left);
}

gdn_status tok_merge_word(const rt_tokenizer *t, tok_work *work, const char *word, uint64_t bytes, tok_sink *sink)
{
    const gdn_status status = make_room(work, bytes);
    if (status) return status;
    const int32_t n = (int32_t)bytes;
    uint64_t n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        work->id[i] = t->byte_token[(unsigned char)word[i]];
        if (work->id[i] < 0)
            return rt_fail(GDN_INVALID_ARGUMENT, "the vocabulary has no token for the byte 0x%02x",
                           (int)(unsigned char)word[i]);
        work->previous[i] = i - 1;
        work->next[i] = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < n; i++) offer(t, work, &n_heap, i);
    while (n_heap) {
        const uint64_t entry = heap_take(work->heap, &n_heap);
        const int32_t left = (int32_t)(entry & 0xFFFFFFFFu), right = work->next[left];
        const tok_merge *merge = &t->merges[entry >> 32];
        if (right < 0 || work->id[left] != merge->left || work->id[right] != merge->right) continue;
        work->id[left] = merge->result;
        work->id[right] = -1; /* removed from the list */
        work->next[left] = work->next[right];
        if (work->next[left] >= 0) work->previous[work->next[left]] = left;
        offer(t, work, &n_heap, work->previous[left]);
        offer(t, work, &n_heap, left);
    }
    for (int32_t i = 0; i >= 0; i = work->next[i]) tok_put(sink, work->id[i]);
    return GDN_OK;
}

/* Saved prefixes: a cache that was loaded finds what the saved one found, and sequences that start there have the
 * logits of an engine without a cache. What is damaged or foreign is refused and changes nothing.
 *
 *   test_prefix_save FOLDER */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "memory_audit.h"
#include "numerics/checksum.h"
#include "runtime/memory/prefix_tree.h"

enum { LENGTH = 40, N_TEXTS = 5, INTERVAL = 4, BITS = 7, R = 3 };

typedef struct save {
    unsigned char *bytes;
    uint64_t n, room;
} save;

static int32_t text[N_TEXTS][LENGTH];
static int32_t kv_type; /* of all engines */

static rt_engine *open_engine(const rt_model *model, int32_t n_prefixes, int32_t n_cells, int draft,
                              rt_rollback rollback)
{
    return fixture_open(model, &(fixture_engine)FIELDS(.n_seqs = 2, .n_ctx = n_cells, .n_cells = n_cells, .n_batch = 8,
                                                       .n_rollback = R, .rollback = rollback, .draft = draft,
                                                       .n_prefixes = n_prefixes, .prefix_interval = INTERVAL,
                                                       .kv_type = kv_type));
}

/* Texts 0 to 2 begin with the same 18 tokens, the others with nothing in common. */
static void make_texts(const rt_model *model)
{
    uint64_t seed = 5;
    for (int i = 0; i < N_TEXTS; i++)
        for (int32_t t = 0; t < LENGTH; t++) {
            const int32_t token = (int32_t)(test_random(&seed) % (uint64_t)model->hp.n_vocab);
            text[i][t] = t < 18 && i < 3 && i ? text[0][t] : token;
        }
}

static gdn_status feed(rt_engine *e, const int32_t *tokens, int32_t from, int32_t to)
{
    static const int32_t of[LENGTH] = { 0 };
    uint8_t all[LENGTH];
    memset(all, 1, sizeof all);
    const rt_batch batch = { to - from, tokens + from, of, all, 0 };
    return rt_engine_decode(e, &batch);
}

static void fill(rt_engine *e)
{
    rt_memory *m = rt_engine_memory(e);
    for (int i = 0; i < N_TEXTS; i++) {
        int32_t length;
        NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !rt_memory_prefix_start(m, 0, text[i], LENGTH - 1, &length));
        while (length < LENGTH) {
            const int32_t to = length + 8 < LENGTH ? length + 8 : LENGTH;
            NEED(!feed(e, text[i], length, to));
            length = to;
        }
    }
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
    memory_audit(m);
}

static gdn_status append(void *user, const void *bytes, uint64_t n)
{
    save *s = user;
    if (s->n + n > s->room) return rt_fail(GDN_INTERNAL, "no room");
    memcpy(s->bytes + s->n, bytes, (size_t)n);
    s->n += n;
    return GDN_OK;
}

static rt_prefix_saved saved_of(rt_engine *e, uint64_t most, save *s)
{
    rt_prefix_saved saved = { 0 };
    s->n = 0;
    NEED(!rt_memory_prefix_save(rt_engine_memory(e), BITS, most, append, s, &saved));
    REQUIRE(saved.bytes == s->n && s->n <= most);
    return saved;
}

static gdn_status load(rt_engine *e, const void *bytes, uint64_t n, rt_prefix_saved *loaded)
{
    unsigned char *exact = malloc(n ? n : 1); /* so that a sanitizer sees the end */
    NEED(exact);
    memcpy(exact, bytes, (size_t)n);
    const gdn_status status = rt_memory_prefix_load(rt_engine_memory(e), BITS, exact, n, loaded);
    free(exact);
    memory_audit(rt_engine_memory(e));
    return status;
}

/* The rest of a text, from what is kept: the logits of an engine that reads all of it. Returns the tokens kept. */
static int32_t go_on(rt_engine *e, rt_engine *plain, const int32_t *tokens, size_t bytes)
{
    int32_t length;
    rt_memory *m = rt_engine_memory(e);
    NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !rt_memory_prefix_start(m, 0, tokens, LENGTH - 1, &length));
    const int32_t from = length;
    NEED(!rt_memory_seq_rm(rt_engine_memory(plain), 0, 0, -1) && !feed(plain, tokens, 0, LENGTH));
    NEED(!feed(e, tokens, from, LENGTH));
    for (int32_t i = from; i < LENGTH; i++)
        REQUIRE(!memcmp(rt_engine_logits(e, i - from), rt_engine_logits(plain, i), bytes));
    memory_audit(m);
    return from;
}

static void round_trip(const rt_model *model, save *s, save *again)
{
    const size_t bytes = 4 * (size_t)model->hp.n_vocab;
    rt_engine *plain = fixture_open(
        model, &(fixture_engine)FIELDS(.n_ctx = 3 * LENGTH, .n_rollback = R, .draft = 1, .kv_type = kv_type));
    for (int draft = 0; draft < 2; draft++) {
        rt_engine *a = open_engine(model, 12, 250, draft, RT_ROLLBACK_LOG);
        rt_engine *b = open_engine(model, 12, 250, draft, RT_ROLLBACK_SNAPSHOTS);
        rt_prefix_saved loaded;
        fill(a);
        const rt_prefix_saved saved = saved_of(a, UINT64_MAX, s);
        REQUIRE(saved.n == 12 && !saved.n_left_out);
        NEED(!load(b, s->bytes, s->n, &loaded));
        REQUIRE(loaded.n == saved.n && !loaded.n_left_out && loaded.bytes == s->n);
        (void)saved_of(b, UINT64_MAX, again);
        REQUIRE(again->n == s->n && !memcmp(again->bytes, s->bytes, s->n)); /* what is kept, and in which order */
        FAILS(load(b, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "not empty");
        int32_t kept = 0;
        for (int i = 0; i < N_TEXTS; i++) {
            const int32_t find = memory_prefix_find(rt_engine_memory(a), text[i], LENGTH - 1);
            REQUIRE(memory_prefix_find(rt_engine_memory(b), text[i], LENGTH - 1) == find);
            if (i < 3) REQUIRE(find >= 16); /* the common beginning */
            REQUIRE(go_on(b, plain, text[i], bytes) == find);
            kept += find;
        }
        REQUIRE(kept > 48);
        /* the draft head has read along, or begins anew */
        rt_draft_request request = { 0, text[N_TEXTS - 1][0], R };
        int32_t drafts[R], n_drafts;
        if (draft && model->hp.n_mtp) REQUIRE(!rt_draft_mtp(b, &request, 1, R, 0, drafts, &n_drafts));
        rt_engine_destroy(a);
        rt_engine_destroy(b);
    }
    rt_engine_destroy(plain);
}

/* Engines with and without a draft head load each other's saves. The longest prefix of one text alone is loaded at any
 * interval. */
static void other_engines(const rt_model *model, save *s)
{
    const size_t bytes = 4 * (size_t)model->hp.n_vocab;
    rt_engine *plain = fixture_open(
        model, &(fixture_engine)FIELDS(.n_ctx = 3 * LENGTH, .n_rollback = R, .draft = 1, .kv_type = kv_type));
    for (int draft = 0; draft < 2; draft++) {
        rt_engine *a = open_engine(model, 12, 250, draft, RT_ROLLBACK_LOG);
        rt_prefix_saved loaded;
        fill(a);
        rt_memory *const m = rt_engine_memory(a);
        const int32_t find = memory_prefix_find(m, text[3], LENGTH - 1);
        NEED(!rt_memory_prefix_start(m, 0, text[3], find, NULL) && !feed(a, text[3], find, LENGTH - 1));
        NEED(!rt_memory_prefix_keep(m, 0)); /* between interval ends */
        for (int one = 0; one < 2; one++) {
            const fixture_engine with =
                FIELDS(.n_ctx = 250, .n_batch = 8, .n_rollback = R, .draft = !draft, .n_prefixes = 12,
                       .prefix_interval = one ? 251 : INTERVAL, .kv_type = kv_type);
            rt_engine *b = fixture_open(model, &with);
            s->n = 0;
            if (one) NEED(!rt_memory_prefix_save_one(m, BITS, text[3], LENGTH - 1, append, s));
            else (void)saved_of(a, UINT64_MAX, s);
            REQUIRE(!load(b, s->bytes, s->n, &loaded) && loaded.n == (one ? 1 : 12), "%s", rt_last_error());
            REQUIRE(go_on(b, plain, text[3], bytes) == LENGTH - 1);
            if (one) REQUIRE(!memory_prefix_find(rt_engine_memory(b), text[0], LENGTH));
            /* its drafts begin anew */
            rt_draft_request request = { 0, text[3][0], R };
            int32_t drafts[R], n_drafts;
            if (!draft && model->hp.n_mtp)
                REQUIRE(!rt_draft_mtp(b, &request, 1, R, 0, drafts, &n_drafts) && n_drafts == R);
            rt_engine_destroy(b);
        }
        const int32_t none[] = { text[3][0] ^ 1, 1 };
        rt_engine *b = open_engine(model, 12, 250, draft, RT_ROLLBACK_LOG);
        s->n = 0;
        NEED(!rt_memory_prefix_save_one(m, BITS, none, 2, append, s));
        REQUIRE(!load(b, s->bytes, s->n, &loaded) && !loaded.n && !loaded.n_left_out);
        rt_engine_destroy(a);
        rt_engine_destroy(b);
    }
    rt_engine_destroy(plain);
}

/* Checkpoints between interval ends, of texts with and without a common beginning. */
static void tails(const rt_model *model, save *s, save *again)
{
    const size_t bytes = 4 * (size_t)model->hp.n_vocab;
    rt_engine *plain = fixture_open(
        model, &(fixture_engine)FIELDS(.n_ctx = 3 * LENGTH, .n_rollback = R, .draft = 1, .kv_type = kv_type));
    rt_engine *a = open_engine(model, 40, 250, 1, RT_ROLLBACK_SNAPSHOTS);
    rt_engine *b = open_engine(model, 40, 250, 1, RT_ROLLBACK_LOG);
    rt_memory *m = rt_engine_memory(a);
    rt_prefix_saved loaded;
    for (int i = 0; i < N_TEXTS; i++) {
        NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !feed(a, text[i], 0, 2 + i) && !rt_memory_prefix_keep(m, 0));
        NEED(!feed(a, text[i], 2 + i, 18 + i) && !rt_memory_prefix_keep(m, 0));
    }
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
    const rt_prefix_saved saved = saved_of(a, UINT64_MAX, s);
    REQUIRE(saved.n > 15 && !saved.n_left_out);
    NEED(!load(b, s->bytes, s->n, &loaded));
    REQUIRE(loaded.n == saved.n && !loaded.n_left_out);
    (void)saved_of(b, UINT64_MAX, again);
    REQUIRE(again->n == s->n && !memcmp(again->bytes, s->bytes, s->n));
    for (int i = 0; i < N_TEXTS; i++) {
        for (int32_t n = 1; n < LENGTH; n++)
            REQUIRE(memory_prefix_find(rt_engine_memory(b), text[i], n) == memory_prefix_find(m, text[i], n));
        REQUIRE(go_on(b, plain, text[i], bytes) == 18 + i);
    }
    rt_engine_destroy(a);
    rt_engine_destroy(b);
    rt_engine_destroy(plain);
}

/* The same text of two owners stays theirs. A record cannot go on with another owner's. */
static void owners(const rt_model *model, save *s, save *again)
{
    rt_engine *a = open_engine(model, 40, 250, 0, RT_ROLLBACK_LOG),
              *b = open_engine(model, 40, 250, 0, RT_ROLLBACK_LOG);
    rt_memory *m = rt_engine_memory(a);
    rt_prefix_saved loaded;
    for (uint32_t owner = 1; owner < 3; owner++) {
        NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !rt_memory_prefix_own(m, 0, owner));
        NEED(!feed(a, text[0], 0, 8) && !feed(a, text[0], 8, 17));
    }
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
    const int32_t n = saved_of(a, UINT64_MAX, s).n;
    REQUIRE(!load(b, s->bytes, s->n, &loaded) && loaded.n == n && !loaded.n_left_out);
    (void)saved_of(b, UINT64_MAX, again);
    REQUIRE(again->n == s->n && !memcmp(again->bytes, s->bytes, s->n));
    m = rt_engine_memory(b);
    for (uint32_t owner = 0; owner < 4; owner++) {
        int32_t length;
        NEED(!rt_memory_seq_rm(m, 0, 0, -1) && !rt_memory_prefix_own(m, 0, owner));
        NEED(!rt_memory_prefix_start(m, 0, text[0], LENGTH - 1, &length));
        REQUIRE(length == (owner == 1 || owner == 2 ? 16 : 0), "owner %d finds %d", (int)owner, (int)length);
    }
    uint64_t at = sizeof(rt_save_prefixes);
    int n_based = 0;
    for (int i = 0; i < n; i++) {
        rt_save_prefix r;
        memcpy(&r, s->bytes + at, sizeof r);
        if (r.base >= 0) {
            r.owner ^= 3;
            const uint64_t size = rt_memory_prefix_record_bytes(m, &r, m->has_draft);
            memcpy(s->bytes + at, &r, sizeof r);
            const uint64_t sum = gdn_checksum(s->bytes + at, size - 8);
            memcpy(s->bytes + at + size - 8, &sum, 8);
            n_based++;
        }
        at += rt_memory_prefix_record_bytes(m, &r, m->has_draft);
    }
    rt_engine *other = open_engine(model, 40, 250, 0, RT_ROLLBACK_LOG);
    if (n_based) FAILS(load(other, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "contradicts itself");
    REQUIRE(n_based > 1, "%d of %d", n_based, (int)n);
    rt_engine_destroy(a);
    rt_engine_destroy(b);
    rt_engine_destroy(other);
}

/* ---- What is refused ---- */

static void sign_header(unsigned char *bytes)
{
    const uint64_t sum = gdn_checksum(bytes, offsetof(rt_save_prefixes, checksum));
    memcpy(bytes + offsetof(rt_save_prefixes, checksum), &sum, 8);
}

/* The bytes are refused, and the cache stays empty. */
static int is_refused(rt_engine *e, const unsigned char *bytes, uint64_t n)
{
    rt_prefix_saved loaded = { -1, -1, 0 };
    const gdn_status status = load(e, bytes, n, &loaded);
    return status == GDN_INVALID_ARGUMENT && rt_last_error()[0] && loaded.n == -1 &&
           !rt_memory_prefix_stats_of(rt_engine_memory(e)).n_held && !rt_engine_memory(e)->prefixes->n_used;
}

static void refusals(const rt_model *model, const rt_model *other, save *s)
{
    uint64_t seed = 11;
    rt_prefix_saved loaded;
    rt_engine *a = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG),
              *e = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
    fill(a);
    (void)saved_of(a, UINT64_MAX, s);
    for (uint64_t at = 0; at < sizeof(rt_save_prefixes); at++) {
        s->bytes[at] ^= 1;
        REQUIRE(is_refused(e, s->bytes, s->n), "byte %d of the header", (int)at);
        if (at < offsetof(rt_save_prefixes, checksum)) { /* each field is compared, whatever the checksum is */
            sign_header(s->bytes);
            REQUIRE(is_refused(e, s->bytes, s->n), "byte %d of the header, signed", (int)at);
        }
        s->bytes[at] ^= 1;
        sign_header(s->bytes);
    }
    for (int i = 0; i < 300; i++) {
        const uint64_t at = test_random(&seed) % s->n;
        const unsigned char bit = (unsigned char)(1 << test_random(&seed) % 8);
        s->bytes[at] ^= bit;
        REQUIRE(is_refused(e, s->bytes, s->n), "byte %d", (int)at);
        s->bytes[at] ^= bit;
    }
    for (int i = 0; i < 100; i++) REQUIRE(is_refused(e, s->bytes, test_random(&seed) % s->n));
    REQUIRE(is_refused(e, s->bytes, 0));
    REQUIRE(!load(e, s->bytes, s->n, &loaded) && loaded.n == 12); /* all bytes are as they were */
    rt_engine_destroy(e);

    FAILS(rt_memory_prefix_load(rt_engine_memory(a), BITS, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "not empty");
    e = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
    FAILS(rt_memory_prefix_load(rt_engine_memory(e), BITS + 1, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "level");
    rt_engine_destroy(e);
    e = open_engine(other, 12, 250, 0, RT_ROLLBACK_LOG);
    FAILS(load(e, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "another model");
    rt_engine_destroy(e);
    fixture_engine with =
        FIELDS(.n_seqs = 2, .n_ctx = 250, .n_cells = 250, .n_prefixes = 12, .prefix_interval = 5, .kv_type = kv_type);
    e = fixture_open(model, &with);
    FAILS(load(e, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "the interval is 4, and 5 here");
    rt_engine_destroy(e);
    with.prefix_interval = INTERVAL;
    with.kv_type = kv_type == GDN_BF16 ? GDN_Q8_0 : GDN_BF16;
    e = fixture_open(model, &with);
    FAILS(load(e, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "another type of KV cells");
    rt_engine_destroy(e);
    e = open_engine(model, 0, 250, 0, RT_ROLLBACK_LOG);
    FAILS(load(e, s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "no prefix cache");
    FAILS(rt_memory_prefix_save(rt_engine_memory(e), 0, 1 << 20, append, s, &loaded), GDN_INVALID_ARGUMENT,
          "no prefix cache");
    rt_engine_destroy(e);
    FAILS(rt_memory_prefix_save(rt_engine_memory(a), 0, 9, append, s, &loaded), GDN_INVALID_ARGUMENT, "9 bytes");
    save full = { s->bytes, 0, s->n - 1 };
    FAILS(rt_memory_prefix_save(rt_engine_memory(a), 0, UINT64_MAX, append, &full, &loaded), GDN_INTERNAL, "no room");
    rt_engine_destroy(a);
}

/* Records whose numbers are changed and signed: refused, or a cache that is one. */
static void signed_records(const rt_model *model, save *s)
{
    rt_engine *a = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
    fill(a);
    (void)saved_of(a, UINT64_MAX, s);
    const rt_memory *m = rt_engine_memory(a);
    int n_refused = 0;
    uint64_t at = sizeof(rt_save_prefixes);
    for (int i = 0; i < 12; i++) {
        rt_save_prefix r;
        memcpy(&r, s->bytes + at, sizeof r);
        const uint64_t size = rt_memory_prefix_record_bytes(m, &r, m->has_draft);
        for (uint64_t byte = 0; byte < sizeof r; byte++) {
            rt_engine *e = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
            rt_prefix_saved loaded;
            s->bytes[at + byte] ^= 4;
            uint64_t sum = gdn_checksum(s->bytes + at, size - 8);
            memcpy(s->bytes + at + size - 8, &sum, 8);
            n_refused += load(e, s->bytes, s->n, &loaded) != GDN_OK;
            rt_engine_destroy(e);
            s->bytes[at + byte] ^= 4;
            sum = gdn_checksum(s->bytes + at, size - 8);
            memcpy(s->bytes + at + size - 8, &sum, 8);
        }
        at += size;
    }
    REQUIRE(at == s->n && n_refused > 12 * 16);
    rt_engine_destroy(a);
}

/* Puts the record's numbers at `at`, where a record of the same size is, and signs it. */
static void put_record(const rt_memory *m, unsigned char *at, const rt_save_prefix *r)
{
    const uint64_t size = rt_memory_prefix_record_bytes(m, r, m->has_draft);
    memcpy(at, r, sizeof *r);
    const uint64_t sum = gdn_checksum(at, size - 8);
    memcpy(at + size - 8, &sum, 8);
}

/* Numbers that fit the bytes and contradict each other; a prefix that is there twice. */
static void contradictions(const rt_model *model, save *s)
{
    rt_engine *e = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
    fill(e);
    (void)saved_of(e, UINT64_MAX, s);
    const rt_memory *m = rt_engine_memory(e);
    uint64_t at = sizeof(rt_save_prefixes);
    int n_based = 0;
    for (int i = 0; i < 12; i++) {
        rt_save_prefix r;
        memcpy(&r, s->bytes + at, sizeof r);
        for (int far = 0; far < 2; far++) { /* by a part of an interval; to after the end of the base */
            const int32_t by = far ? 4 * LENGTH : 1;
            const rt_save_prefix moved = { r.base, r.first + by, r.length + by, r.draft + by, r.shared, 0 };
            rt_engine *other = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
            put_record(m, s->bytes + at, &moved);
            REQUIRE(is_refused(other, s->bytes, s->n), "record %d moved by %d", i, (int)by);
            put_record(m, s->bytes + at, &r);
            rt_engine_destroy(other);
        }
        n_based += r.base >= 0;
        at += rt_memory_prefix_record_bytes(m, &r, m->has_draft);
    }
    REQUIRE(n_based > 3);

    rt_save_prefixes h;
    rt_save_prefix first;
    memcpy(&h, s->bytes, sizeof h);
    memcpy(&first, s->bytes + sizeof h, sizeof first);
    const uint64_t size = rt_memory_prefix_record_bytes(m, &first, m->has_draft);
    NEED(s->n + size <= s->room);
    memcpy(s->bytes + s->n, s->bytes + sizeof h, size);
    s->n += size;
    h.common.bytes = s->n;
    h.n_records++;
    memcpy(s->bytes, &h, sizeof h);
    sign_header(s->bytes);
    rt_engine *other = open_engine(model, 14, 250, 0, RT_ROLLBACK_LOG);
    rt_prefix_saved loaded;
    REQUIRE(!load(other, s->bytes, s->n, &loaded) && loaded.n == 12 && loaded.n_left_out == 1);
    rt_engine_destroy(other);
    rt_engine_destroy(e);
}

/* A record of the chunked form whose length is no multiple of 32. */
static void odd_length(const rt_model *model, save *s)
{
    rt_engine *e[2];
    for (int i = 0; i < 2; i++)
        e[i] = fixture_open(model, &(fixture_engine)FIELDS(.n_batch = LENGTH, .n_prefixes = 2, .prefix_interval = 64,
                                                           .digits = 3, .kv_type = kv_type));
    rt_memory *m = rt_engine_memory(e[0]);
    rt_prefix_saved loaded;
    rt_save_prefix r;
    NEED(!feed(e[0], text[0], 0, LENGTH) && !rt_memory_prefix_keep(m, 0));
    (void)saved_of(e[0], UINT64_MAX, s);
    memcpy(&r, s->bytes + sizeof(rt_save_prefixes), sizeof r);
    REQUIRE(r.length == RT_CHUNK);
    r.length--;
    put_record(m, s->bytes + sizeof(rt_save_prefixes), &r);
    FAILS(load(e[1], s->bytes, s->n, &loaded), GDN_INVALID_ARGUMENT, "number 0 contradicts itself");
    for (int i = 0; i < 2; i++) rt_engine_destroy(e[i]);
}

/* ---- What there is no room for ---- */

static void little_room(const rt_model *model, save *s)
{
    rt_engine *a = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
    rt_prefix_saved loaded;
    fill(a);
    const uint64_t all = (uint64_t)saved_of(a, UINT64_MAX, s).bytes;
    for (uint64_t most = sizeof(rt_save_prefixes); most < all; most += all / 9) {
        rt_engine *e = open_engine(model, 12, 250, 0, RT_ROLLBACK_LOG);
        const rt_prefix_saved saved = saved_of(a, most, s);
        REQUIRE(saved.n + saved.n_left_out == 12 && saved.n_left_out);
        REQUIRE(!load(e, s->bytes, s->n, &loaded) && loaded.n == saved.n);
        if (most > all / 3) /* the branch comes first */
            REQUIRE(memory_prefix_find(rt_engine_memory(e), text[0], 18) == 16);
        rt_engine_destroy(e);
    }
    (void)saved_of(a, UINT64_MAX, s);
    const int32_t room[][2] = { { 3, 250 }, { 12, 50 }, { 1, 20 }, { 1, 12 } };
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++) {
        rt_engine *e = open_engine(model, room[i][0], room[i][1], 0, RT_ROLLBACK_LOG);
        if (i == 1) NEED(!rt_memory_draft_reserve(rt_engine_memory(e), 0, 30, NULL)); /* cells that are in use */
        REQUIRE(!load(e, s->bytes, s->n, &loaded) && loaded.n + loaded.n_left_out == 12 && loaded.n_left_out);
        REQUIRE(loaded.n == rt_memory_prefix_stats_of(rt_engine_memory(e)).n_held);
        REQUIRE(loaded.n == (i == 0 ? 3 : i == 2 ? 1 : loaded.n));
        rt_engine_destroy(e);
    }
    rt_engine_destroy(a);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    rt_model *models[FIXTURE_TINY];
    static save s, again;
    s.room = again.room = 64 << 20;
    NEED((s.bytes = malloc(s.room)) && (again.bytes = malloc(again.room)));
    for (int i = 0; i < FIXTURE_TINY; i++) models[i] = fixture_tiny_model(argv[1], i);
    for (int i = 0; i < FIXTURE_TINY; i++) {
        kv_type = (int32_t[]){ GDN_F32, GDN_Q8_0, GDN_BF16 }[i];
        make_texts(models[i]);
        round_trip(models[i], &s, &again);
        other_engines(models[i], &s);
        tails(models[i], &s, &again);
        owners(models[i], &s, &again);
        refusals(models[i], models[(i + 1) % FIXTURE_TINY], &s);
        signed_records(models[i], &s);
        contradictions(models[i], &s);
        odd_length(models[i], &s);
        little_room(models[i], &s);
    }
    for (int i = 0; i < FIXTURE_TINY; i++) rt_model_free(models[i]);
    free(s.bytes);
    free(again.bytes);
    return test_summary();
}

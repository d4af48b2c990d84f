/* Models in several files. Parts that fit make one model; all others are refused with a text that says what is wrong.
 * Nothing is read outside the parts, however they are changed; AddressSanitizer sees it, since each has a block of its
 * size. */
#include "runtime/base/error.h"
#include "tests/harness.h"
#include "gguf_build.h"
#include "gguf_walk.h"

enum { PARTS = 3, ABSENT = -1 };

/* What a part says; tensors are named t0, t1, .. and hold their number. */
typedef struct part_spec {
    int64_t no, count, total;
    int first, n_tensors;
    const char *key;
} part_spec;

static gguf_build build;
static unsigned char *bytes[PARTS];
static uint64_t sizes[PARTS];

static void put_part(int at, const part_spec *s)
{
    const uint64_t ne[] = { 3 };
    char name[16];
    build_header(&build, (uint64_t)s->n_tensors,
                 (uint64_t)((s->no != ABSENT) + (s->count != ABSENT) + (s->total != ABSENT) + (s->key != NULL)));
    if (s->no != ABSENT) build_key_number(&build, "split.no", RT_GGUF_U16, (uint64_t)s->no);
    if (s->count != ABSENT) build_key_number(&build, "split.count", RT_GGUF_U32, (uint64_t)s->count);
    if (s->total != ABSENT) build_key_number(&build, "split.tensors.count", RT_GGUF_I32, (uint64_t)s->total);
    if (s->key) build_key_string(&build, s->key, "value");
    for (int i = 0; i < s->n_tensors; i++) {
        (void)snprintf(name, sizeof name, "t%d", s->first + i);
        build_tensor(&build, name, 1, ne, 0, 32 * (uint64_t)i);
    }
    build_pad(&build, 32);
    for (int i = 0; i < 32 * s->n_tensors; i++) build_number(&build, (uint64_t)(s->first + i / 32), 1);
    free(bytes[at]);
    sizes[at] = build.n;
    bytes[at] = malloc((size_t)build.n);
    if (!bytes[at]) exit(2);
    memcpy(bytes[at], build.bytes, (size_t)build.n);
}

static gdn_status open_parts(int n, rt_budget *budget, rt_gguf **f)
{
    rt_gguf_part part[PARTS];
    for (int i = 0; i < PARTS; i++) part[i] = (rt_gguf_part){ bytes[i], sizes[i] };
    return rt_gguf_open_memory_parts(part, n, budget, f);
}

/* t0 in the first, t1 and t2 in the second, none in the third. */
static const part_spec good[PARTS] = { { 0, 3, 3, 0, 1, "model.key" },
                                       { 1, 3, 3, 1, 2, NULL },
                                       { 2, 3, 3, 3, 0, NULL } };

static void put_good(void)
{
    for (int i = 0; i < PARTS; i++) put_part(i, &good[i]);
}

static void test_good(void)
{
    rt_gguf *f;
    rt_string text;
    char name[16];
    put_good();
    REQUIRE(!open_parts(PARTS, NULL, &f) && rt_gguf_n_tensors(f) == 3);
    for (int i = 0; f && i < 3; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        const rt_gguf_tensor *t = rt_gguf_find(f, name), *in_order = rt_gguf_tensor_at(f, i);
        REQUIRE(t && t == in_order && t->bytes == 12 && t->data[0] == i && t->data[11] == i, "tensor %d", i);
    }
    REQUIRE(f && !rt_gguf_find(f, "t3") && !rt_gguf_tensor_at(f, 3), "no more");
    REQUIRE(f && !rt_gguf_get_string(f, "model.key", &text) && text.bytes == 5, "the first part's keys");
    if (f) walk_gguf(f);
    rt_gguf_close(f);
    /* the first part without tensors, as some splitters write it; a model of one part */
    put_part(0, &(part_spec){ 0, 2, 2, 0, 0, NULL });
    put_part(1, &(part_spec){ 1, 2, ABSENT, 0, 2, "general.name" });
    REQUIRE(!open_parts(2, NULL, &f) && rt_gguf_n_tensors(f) == 2, "tensors in the second only");
    rt_gguf_close(f);
    put_part(0, &(part_spec){ 0, 1, 1, 0, 1, "model.key" });
    REQUIRE(!open_parts(1, NULL, &f) && rt_gguf_n_tensors(f) == 1, "one part");
    rt_gguf_close(f);
}

static void refused(int n, gdn_status status, const char *says)
{
    rt_gguf *f;
    const gdn_status got = open_parts(n, NULL, &f);
    REQUIRE(got == status && !f && strstr(rt_last_error(), says), "status %d, wanted \"%s\"", (int)got, says);
    rt_gguf_close(f);
}

static void test_refused(void)
{
    static const struct {
        int at;
        part_spec with;
        const char *says;
    } cases[] = {
        { 0, { 1, 3, 3, 0, 1, NULL }, "is part 2 of 3 of a model; open the first part" },
        { 0, { ABSENT, 3, 3, 0, 1, NULL }, "split.no" },
        { 0, { 0, ABSENT, 3, 0, 1, NULL }, "it has split.no, but no split.count" },
        { 0, { ABSENT, ABSENT, 3, 0, 1, NULL }, "it has split.tensors.count, but no split.count" },
        { 0, { 0, 3, ABSENT, 0, 1, NULL }, "but no split.tensors.count" },
        { 0, { 0, 0, 3, 0, 1, NULL }, "split.count is 0; 1 to 4096" },
        { 0, { 0, 4097, 3, 0, 1, NULL }, "split.count is 4097" },
        { 0, { 3, 3, 3, 0, 1, NULL }, "split.no is 3; 0 to 2" },
        { 0, { 0, 3, 4, 0, 1, NULL }, "the first part has 4" },
        { 1, { ABSENT, ABSENT, ABSENT, 1, 2, NULL }, "split.no is 0 and split.count 0; 1 and 3" },
        { 1, { 0, 3, 3, 1, 2, NULL }, "split.no is 0 and split.count 3; 1 and 3" },
        { 2, { 2, 4, 3, 3, 0, NULL }, "split.no is 2 and split.count 4; 2 and 3" },
        { 2, { 2, 3, 4, 3, 0, NULL }, "split.tensors.count is 4; the first part has 3" },
        { 2, { 2, 3, 3, 3, 1, NULL }, "split.tensors.count is 3; the 3 parts have 4" },
        { 1, { 1, 3, 3, 1, 1, NULL }, "split.tensors.count is 3; the 3 parts have 2" },
        { 1, { 1, 3, 3, 0, 2, NULL }, "tensor t0 is in two parts: memory and memory" },
        { 1, { 1, 3, 3, 1, 2, "model.more" }, "it has the key model.more; only the first part" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_good();
        put_part(cases[i].at, &cases[i].with);
        refused(PARTS, strcmp(cases[i].says, "split.no") ? GDN_INVALID_ARGUMENT : GDN_NOT_FOUND, cases[i].says);
    }
    put_good();
    refused(2, GDN_NOT_FOUND, "part 3 of 3 of the model is missing");
    sizes[1] -= 32;
    refused(PARTS, GDN_INVALID_ARGUMENT, "tensor \"t2\"");
    put_good();
    bytes[2][0] = 'g';
    refused(PARTS, GDN_INVALID_ARGUMENT, "this is no GGUF file");
    rt_gguf *f;
    REQUIRE(rt_gguf_open_memory_parts(NULL, 0, NULL, &f) == GDN_INVALID_ARGUMENT && !f, "nothing");
}

/* Whatever the limit: all is counted before it is taken, and what opens has been counted. */
static void test_budget(void)
{
    rt_gguf *f;
    rt_budget all = { 0, 0 };
    put_good();
    REQUIRE(!open_parts(PARTS, &all, &f) && all.used > 3 * 48, "counted: %llu bytes", (unsigned long long)all.used);
    rt_gguf_close(f);
    for (uint64_t limit = 1; limit <= all.used; limit++) {
        rt_budget budget = { limit, 0 };
        const gdn_status status = open_parts(PARTS, &budget, &f);
        REQUIRE(
            (status == GDN_OUT_OF_MEMORY && !f && limit < all.used && strstr(rt_last_error(), "not enough memory")) ||
                (!status && f && limit == all.used && budget.used == limit),
            "a limit of %d of %d bytes", (int)limit, (int)all.used);
        rt_gguf_close(f);
    }
}

/* Every byte of every part, changed in four ways: what opens can be read, all else has a text. */
static void test_changed(void)
{
    static const unsigned char changes[] = { 0x01, 0x02, 0x80, 0xff };
    int opened = 0, silent = 0;
    put_good();
    for (int p = 0; p < PARTS; p++)
        for (uint64_t at = 0; at < sizes[p]; at++)
            for (size_t c = 0; c < sizeof changes; c++) {
                rt_gguf *f;
                bytes[p][at] ^= changes[c];
                if (!open_parts(PARTS, NULL, &f)) {
                    walk_gguf(f);
                    opened++;
                } else {
                    silent += f || !*rt_last_error();
                }
                rt_gguf_close(f);
                bytes[p][at] ^= changes[c];
            }
    REQUIRE(!silent && opened > 100, "%d changed parts are refused without a text, %d open", silent, opened);
}

int main(void)
{
    test_good();
    test_refused();
    test_budget();
    test_changed();
    for (int i = 0; i < PARTS; i++) free(bytes[i]);
    return test_summary();
}

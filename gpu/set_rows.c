/* set_rows on GPUs: a thread block has a piece of one row. If there are many rows, a hash table finds the last of
 * several rows with one target. */
#include "gpu/self_test.h"
#include "gpu/plan.h"

static uint64_t index_batches(const gdn_set_rows_call *p)
{
    return gdn_gpu_product((uint64_t)p->index_batch[0], (uint64_t)p->index_batch[1]);
}

/* Slots of one index batch's table: a power of two, at least twice the rows. 0 = no table. */
static uint64_t slots(const gdn_set_rows_call *p)
{
    uint64_t n = 2 * GDN_ROWS_COMPARED;
    if (p->n_rows <= GDN_ROWS_COMPARED) return 0;
    while (n < 2 * (uint64_t)p->n_rows) n *= 2;
    return n;
}

void gdn_gpu_plan_set_rows(const gdn_gpu_device *dev, const gdn_set_rows_call *p, uint32_t piece, gdn_plan *plan)
{
    const uint64_t rows =
        gdn_gpu_product(gdn_gpu_product((uint64_t)p->n_batch[0], (uint64_t)p->n_batch[1]), (uint64_t)p->n_rows);
    plan->variant = p->n_rows > GDN_ROWS_COMPARED ? GDN_VARIANT_TABLE : GDN_VARIANT_COMPARE;
    plan->gpu.blocks = gdn_gpu_parts((uint64_t)p->n_columns, piece);
    plan->n_items = (int64_t)gdn_gpu_product(rows, plan->gpu.blocks);
    plan->gpu.table_slots = p->n_rows > 1 << 30 ? 0 : slots(p);
    const uint64_t words = gdn_gpu_product(index_batches(p), plan->gpu.table_slots);
    if (p->n_rows > 1 << 30 || (uint64_t)plan->n_items > dev->most_blocks || words > dev->most_slots)
        plan->refused = GDN_REFUSED_BLOCKS;
    else plan->workspace_bytes = dev->params_bytes + 4 * words;
}

gdn_set_rows_call gdn_gpu_call_set_rows(const gdn_gpu_device *dev, const gdn_problem *problem, const gdn_plan *plan)
{
    gdn_set_rows_call x = problem->set_rows;
    x.bad = dev->bad;
    x.blocks = (int64_t)plan->gpu.blocks;
    x.table_words = (int64_t)(index_batches(&x) * plan->gpu.table_slots);
    if (plan->gpu.table_slots) {
        x.table = problem->workspace ? problem->workspace + dev->params_bytes : 0;
        x.table_mask = (uint32_t)plan->gpu.table_slots - 1;
        x.has = GDN_HAS_TABLE;
    }
    uint64_t bits = x.src | x.dst;
    for (int i = 0; i < 3; i++) bits |= (uint64_t)x.src_stride[i] | (uint64_t)x.dst_stride[i];
    x.wide = bits % 16 == 0;
    return x;
}

uint64_t gdn_gpu_clear_blocks(const gdn_set_rows_call *call, uint32_t threads)
{
    return gdn_gpu_parts((uint64_t)call->table_words, threads);
}

uint64_t gdn_gpu_enter_blocks(const gdn_set_rows_call *call, uint32_t threads)
{
    return gdn_gpu_parts(index_batches(call) * (uint64_t)call->n_rows, threads);
}

/* ---- Self-test calls ---- */

enum { MOST_ROWS = 70, FEWEST_ROWS = 3, TARGETS = 80, ROW = 64, N_TYPES = 4, N_SELF_TESTS = 2 * N_TYPES };

int gdn_gpu_self_test_set_rows(int number, gdn_gpu_test_call *c)
{
    if (number < 0) return N_SELF_TESTS;
    /* Rows 0 and 2 have one target: the later wins. Row 1 is not written. The others have targets of their own. */
    static const int32_t index[MOST_ROWS] = { 7,  GDN_NONE, 7,  3,  4,  5,  6,  0,  8,  9,  10, 11, 12, 13,
                                              14, 15,       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
                                              28, 29,       30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41,
                                              42, 43,       44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
                                              56, 57,       58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69 };
    static const int32_t types[N_TYPES] = { GDN_F32, GDN_Q8_0, GDN_F16, GDN_BF16 };
    const int n = number / N_TYPES ? MOST_ROWS : FEWEST_ROWS;
    c->kind = number % N_TYPES;
    gdn_set_rows_args *a = &c->args.set_rows;
    *a = (gdn_set_rows_args)GDN_INIT(gdn_set_rows_args);
    a->n_columns = ROW;
    a->n_rows = n;
    a->n_rows_dst = TARGETS;
    const gdn_span to = gdn_gpu_test_map(c, index, n);
    a->src = gdn_gpu_test_tensor(c, GDN_F32, n * ROW, GDN_SELF_TEST_LONG);
    a->index = (gdn_tensor){ .data = to.data, .offset = to.offset, .bytes = to.bytes, .dtype = GDN_I32 };
    gdn_gpu_test_results(c);
    a->dst = gdn_gpu_test_tensor(c, types[c->kind], TARGETS * ROW, GDN_SELF_TEST_OF_ONE);
    a->workspace = gdn_gpu_test_workspace(c);
    return N_SELF_TESTS;
}

/* A state pool whose rows, slots or heads lie more than 2^32 bytes apart: the reference and the CPU find them with the
 * same few lines of code, so comparing the two shows no mistake there. Here the places are worked out by the test, and
 * what must be read and written at them is what the same call does with a small pool.
 *
 * The memory is a reservation of which a few pages are touched; where the system gives none, the test is skipped. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "call.h"

enum { HEADS = 2, DIM = 16, MATRIX = DIM * DIM, ROWS = 3, SLOTS = 2, SEQS = 2 };

static const int32_t src[SEQS] = { 5, 2 }, dst[SEQS] = { 4, 3 }; /* row * SLOTS + slot */

typedef struct operands {
    float x[SEQS * HEADS * DIM], g[SEQS * HEADS], out[SEQS * HEADS * DIM];
} operands;

/* Where the matrix of a head lies, by strides of rows, slots and heads. */
static float *matrix(char *pool, const int64_t stride[3], int64_t entry, int64_t head)
{
    const int64_t bytes = entry / SLOTS * stride[0] + entry % SLOTS * stride[1] + head * stride[2];
    return (float *)(void *)(pool + bytes);
}

static void run(gdn_context *ctx, char *pool, const int64_t stride[3], operands *o)
{
    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    gdn_capability c = GDN_INIT(gdn_capability);
    a.n_seqs = a.n_tokens = SEQS, a.state.n_rows = ROWS, a.state.n_slots = SLOTS, a.scale = 0.25f;
    a.n_heads_k = a.n_heads_v = HEADS, a.head_dim_k = a.head_dim_v = DIM;
    a.q.data = a.k.data = a.v.data = o->x, a.g.data = a.beta.data = o->g, a.out.data = o->out, a.state.data = pool;
    a.state_src.data = (void *)(uintptr_t)src, a.state_dst.data = (void *)(uintptr_t)dst;
    for (int i = 0; i < 3; i++) a.state.stride[i] = stride[i];
    NEED(!gdn_gated_delta_net_query(ctx, &a, &c));
    a.workspace.data = aligned_alloc(64, (size_t)(c.workspace_bytes / 64 * 64 + 64));
    NEED(a.workspace.data && !gdn_gated_delta_net(ctx, &a, NULL));
    free(a.workspace.data);
}

static void fill(char *pool, const int64_t stride[3], operands *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < SEQS * HEADS * DIM; i++) o->x[i] = 0.03f * (float)(i % 13) - 0.1f;
    for (int i = 0; i < SEQS * HEADS; i++) o->g[i] = -0.1f * (float)(i + 1);
    for (int s = 0; s < SEQS; s++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < MATRIX; i++)
                matrix(pool, stride, src[s], h)[i] = 0.01f * (float)((i + 7 * s + 3 * h) % 17);
}

int main(void)
{
    static float small[ROWS * SLOTS * HEADS * MATRIX];
    const int64_t packed[3] = { 4 * SLOTS * HEADS * MATRIX, 4 * HEADS * MATRIX, 4 * MATRIX };
    const int64_t far = (INT64_C(1) << 32) + (1 << 20);
    const size_t bytes = (size_t)(3 * far);
    const uint32_t backends[] = { GDN_BACKEND_REFERENCE, GDN_BACKEND_CPU };
    static operands expected, o;
    char *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool == MAP_FAILED) {
        (void)printf("skipped: no 12 GiB of addresses\n");
        return SKIPPED;
    }
    for (int b = 0; b < 2; b++) {
        gdn_context_desc desc = GDN_INIT(gdn_context_desc);
        gdn_context *ctx = NULL;
        desc.backend = backends[b];
        desc.n_threads = 1;
        NEED(!gdn_context_create(&desc, &ctx));
        memset(small, 0, sizeof small);
        fill((char *)small, packed, &expected);
        run(ctx, (char *)small, packed, &expected);
        for (int axis = 0; axis < 3; axis++) { /* which of row, slot and head is far apart */
            int64_t stride[3] = { packed[0], packed[1], packed[2] };
            stride[axis] = far;
            fill(pool, stride, &o);
            run(ctx, pool, stride, &o);
            NEED(!memcmp(o.out, expected.out, sizeof o.out));
            for (int s = 0; s < SEQS; s++)
                for (int h = 0; h < HEADS; h++)
                    NEED(
                        !memcmp(matrix(pool, stride, dst[s], h), matrix((char *)small, packed, dst[s], h), 4 * MATRIX));
            NEED(!madvise(pool, bytes, MADV_DONTNEED)); /* zeros again */
        }
        gdn_context_destroy(ctx);
    }
    (void)printf("rows, slots and heads beyond 2^32 bytes: read and written where they are\n");
    return 0;
}

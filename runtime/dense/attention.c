/* Attention: grouping of queries into tiles, and distribution to threads. See dense.h; attention.inc.h has the kernels.
 *
 * A tile has the queries of consecutive rows of one sequence, and of the heads that share a kv head. Each cell (KV
 * cache slot) is read once per tile. If a call has many tiles, each thread computes whole tiles. If it has few, or
 * scores that do not fit in a thread's cache, the threads share each tile. They split the cells for scores, the queries
 * for exponentials, and the elements for sums of v, which are added in the order of the cells. */
#include "runtime/dense/dense_internal.h"

enum {
    TILE_QUERIES = 32, /* of a kv head: what the L1 cache holds beside cells                                */
    ALL_QUERIES = 128, /* of all kv heads                                                                   */
    OWN_CELLS = 4096,  /* most cells of a tile that one thread computes, so that its scores stay in cache    */
    CHUNK = 64,        /* cells per work item                                                               */
    PIECE = 32,        /* least elements of a head per work item: whole cache lines                         */
    TILES = 256        /* in one parallel region                                                            */
};

typedef struct attention {
    const rt_attention_args *a;
    int32_t group, n_rows;         /* heads that share a kv head; most rows of a tile               */
    int64_t own;                   /* floats per thread, if threads compute whole tiles             */
    int32_t piece;                 /* elements of a head per work item, if threads share a tile     */
    rt_attention_tile tile[TILES]; /* the tiles of kv head 0                                        */
} attention;

static int32_t at_least_one(int32_t n) { return n > 1 ? n : 1; }

static int32_t tile_rows(int32_t n_heads, int32_t group)
{
    const int32_t of_group = TILE_QUERIES / group, of_all = ALL_QUERIES / n_heads;
    return at_least_one(of_group < of_all ? of_group : of_all);
}

/* Floats for scores and inverses: if threads compute whole tiles, and if they share each. */
static uint64_t own_floats(int32_t n_threads, int32_t n_queries, int64_t n_cells)
{
    const uint64_t cells = (uint64_t)rt_cells_padded(n_cells < OWN_CELLS ? n_cells : OWN_CELLS);
    return (uint64_t)n_threads * (uint64_t)rt_cells_padded(n_queries) * (cells + 1);
}

uint64_t rt_attention_scratch(int32_t n_threads, int32_t n_heads, int32_t n_heads_kv, int32_t max_cells)
{
    const int32_t group = n_heads / n_heads_kv, n_rows = tile_rows(n_heads, group);
    const uint64_t own = own_floats(n_threads, n_rows * group, max_cells);
    const uint64_t shared = (uint64_t)rt_cells_padded(n_rows * n_heads) * (uint64_t)(rt_cells_padded(max_cells) + 1);
    return own > shared ? own : shared;
}

/* The tile that begins at `row`: rows with the same cell list. */
static rt_attention_tile tile_at(const attention *t, int32_t row)
{
    const rt_attention_args *a = t->a;
    rt_attention_tile tile = { .args = a, .row = row, .group = t->group };
    int32_t n = 0;
    for (; row + n < a->n && n < t->n_rows && a->cell[row + n] == a->cell[row]; n++)
        tile.n_cells = a->n_cells[row + n] > tile.n_cells ? a->n_cells[row + n] : tile.n_cells;
    tile.n_queries = n * t->group;
    tile.stride = rt_cells_padded(tile.n_cells);
    return tile;
}

/* The tile for a kv head, with scores and inverses at `memory`, after those of earlier heads if all heads have theirs
 * at once. */
static rt_attention_tile of_head(rt_attention_tile tile, int32_t kv_head, float *memory, int32_t n_heads)
{
    const int64_t n = n_heads > 1 ? kv_head * (int64_t)tile.n_queries : 0;
    tile.kv_head = kv_head;
    tile.inverse = memory + n;
    tile.score = memory + rt_cells_padded((int64_t)n_heads * tile.n_queries) + n * tile.stride;
    return tile;
}

static void exponentials(const rt_dense *d, const rt_attention_tile *tile, int32_t j)
{
    tile->inverse[j] = rt_dense_kernels(d)->exponentials(tile->score + j * tile->stride, rt_attention_cells(tile, j));
}

/* ---- Each thread computes whole tiles; item: a kv head of a tile ---- */

static void own_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const attention *t = arg;
    const int32_t n_kv = t->a->n_heads_kv;
    const rt_attention_tile tile =
        of_head(t->tile[item / n_kv], (int32_t)(item % n_kv), t->a->scratch + slot * t->own, 1);
    rt_dense_kernels(d)->attention->scores(&tile, 0, tile.n_cells);
    for (int32_t j = 0; j < tile.n_queries; j++) exponentials(d, &tile, j);
    rt_dense_kernels(d)->attention->weigh(&tile, 0, t->a->head_dim);
}

/* ---- Threads share a tile ---- */

static rt_attention_tile shared_head(const attention *t, int32_t kv_head)
{
    return of_head(t->tile[0], kv_head, t->a->scratch, t->a->n_heads_kv);
}

/* Scores of some cells for all kv heads, which are adjacent in memory. */
static void score_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const attention *t = arg;
    const int32_t first = (int32_t)item * CHUNK, left = t->tile[0].n_cells - first;
    (void)slot;
    for (int32_t h = 0; h < t->a->n_heads_kv; h++) {
        const rt_attention_tile tile = shared_head(t, h);
        rt_dense_kernels(d)->attention->scores(&tile, first, first + (left < CHUNK ? left : CHUNK));
    }
}

static void exponentials_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const attention *t = arg;
    const int32_t n = t->tile[0].n_queries;
    const rt_attention_tile tile = shared_head(t, (int32_t)(item / n));
    (void)slot;
    exponentials(d, &tile, (int32_t)(item % n));
}

static void weigh_item(const rt_dense *d, const void *arg, int64_t item, int32_t slot)
{
    const attention *t = arg;
    const int32_t dim = t->a->head_dim, pieces = (dim + t->piece - 1) / t->piece;
    const int32_t first = (int32_t)(item % pieces) * t->piece, left = dim - first;
    const rt_attention_tile tile = shared_head(t, (int32_t)(item / pieces));
    (void)slot;
    rt_dense_kernels(d)->attention->weigh(&tile, first, first + (left < t->piece ? left : t->piece));
}

static void share_tile(const rt_dense *d, attention *t)
{
    const rt_attention_args *a = t->a;
    const rt_attention_tile *tile = &t->tile[0];
    const int64_t queries = (int64_t)tile->n_queries * a->n_heads_kv, cost = queries * tile->n_cells * a->head_dim / 32;
    /* one piece per thread, so that each reads long contiguous pieces */
    const int32_t wanted = (rt_dense_threads(d) + a->n_heads_kv - 1) / a->n_heads_kv,
                  even = (a->head_dim + wanted - 1) / wanted;
    t->piece = (even + PIECE - 1) / PIECE * PIECE;
    rt_share(d, score_item, t, (tile->n_cells + CHUNK - 1) / CHUNK, cost);
    rt_share(d, exponentials_item, t, queries, queries * tile->n_cells / 2);
    rt_share(d, weigh_item, t, (int64_t)a->n_heads_kv * ((a->head_dim + t->piece - 1) / t->piece), cost);
}

void rt_attention(rt_dense *d, const rt_attention_args *a)
{
    const int32_t group = a->n_heads / a->n_heads_kv, n_threads = rt_dense_threads(d);
    attention t = { .a = a, .group = group, .n_rows = tile_rows(a->n_heads, group) };
    for (int32_t row = 0; row < a->n;) {
        int64_t n = 0, most = 0, cost = 0;
        for (; row < a->n && n < TILES; n++) {
            const rt_attention_tile *tile = &t.tile[n];
            t.tile[n] = tile_at(&t, row);
            row += tile->n_queries / group;
            most = tile->n_cells > most ? tile->n_cells : most;
            cost += (int64_t)tile->n_queries * tile->n_cells;
        }
        if (most <= OWN_CELLS && (n * a->n_heads_kv >= 2 * (int64_t)n_threads || n_threads == 1)) {
            t.own = (int64_t)own_floats(1, t.n_rows * group, most);
            rt_share(d, own_item, &t, n * a->n_heads_kv, cost * a->n_heads_kv * a->head_dim / 16);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            t.tile[0] = t.tile[i];
            share_tile(d, &t);
        }
    }
}

/* gated_delta_net on the CPU: plans, and the choice of a loop order. The sources of the instruction sets
 * (cpu/gated_delta_net_<isa>.c) include it after simd/<isa>.h.
 *
 * The arithmetic is that of reference/gated_delta_net.c, in one of several loop orders. All read a state once, update
 * it in cache or registers token by token, and write only the snapshots that the call keeps.
 *
 *   rows     Vector lanes are keys. For few tokens and states with contiguous keys (STATE_VK): decode and verification,
 *            which are bound by memory. A row stays in registers. With a log, groups (gated_delta_net_groups.inc.h)
 *            replace it.
 *   lines    Vector lanes are value channels. The same for states with contiguous values (STATE_KV).
 *   columns  Vector lanes are value channels of a state packed in L1. For prefill, which is bound by fma. It supports
 *            every size and both layouts.
 *   tree     Like columns, for sequences whose tokens are not a chain (gated_delta_net_tree.inc.h).
 *
 * In each, one pass over the state per token does everything. While an element is in a register, the pass decays and
 * updates it, and takes its products with this token's q and the next token's k.
 *
 * The chunked form has a file of its own, chunked.inc.h.
 *
 * An item is a sequence, a head and a group of value channels (gated_delta_net_item.inc.h). */
#include "cpu/chunked.inc.h"
#include "cpu/cpu.h"
#include "cpu/gated_delta_net_columns.inc.h"
#include "cpu/gated_delta_net_groups.inc.h"
#include "cpu/gated_delta_net_lines.inc.h"
#include "cpu/gated_delta_net_rows.inc.h"
#include "cpu/gated_delta_net_tree.inc.h"

enum {
    RUN_BYTES = 1 << 20, /* of states, in a run of items that are bound by memory                      */
    MIN_GROUP = 32       /* value channels: converting tokens costs smaller items more than they gain  */
};

/* ---- Items ------------------------------------------------------------------------------------------ */

/* Value channels per item: a whole head, or fewer if threads would otherwise have no work. */
static int32_t group_of(const gdn_gated_delta_net_call *p, int32_t n_threads)
{
    const int64_t heads = (int64_t)p->n_seqs * p->n_heads_v;
    int32_t group = round_up(p->head_dim_v, MIN_GROUP);
    while (group > MIN_GROUP && heads * ((p->head_dim_v + group - 1) / group) < 4 * (int64_t)n_threads)
        group = round_up(group / 2, MIN_GROUP);
    return group;
}

/* How many adjacent items a thread takes at once. If memory is the limit, runs are as long as possible while
 * every thread gets one: hardware prefetchers read past the end of a run, which wastes bandwidth. Otherwise runs let an
 * item prefetch the next item of its run. */
static int64_t run_of_items(const gdn_gated_delta_net_call *p, int32_t group, int64_t n_items, int32_t n_threads,
                            bool memory)
{
    const int64_t share = (n_items + n_threads - 1) / n_threads;
    int64_t run = memory ? RUN_BYTES / ((p->rounding_interval ? 2 : 4) * (int64_t)p->head_dim_k * group) : 1;
    if (run < share / 8) run = share / 8;
    if (run > share || n_threads == 1) run = share;
    return run > 1 ? run : 1;
}

static void gated_delta_net_plan(const void *call, int32_t n_threads, gdn_plan *plan)
{
    const gdn_gated_delta_net_call *p = call;
    if (p->digits) {
        chunked_plan(p, n_threads, plan);
        return;
    }
    const int32_t group = group_of(p, n_threads), pitch = pitch_of(p);
    const int32_t n_tokens = p->n_seqs ? (int32_t)(((int64_t)p->n_tokens + p->n_seqs - 1) / p->n_seqs) : 0;
    const bool rows = rows_serves(p, n_tokens), lines = lines_serves(p, n_tokens);
    const int64_t tokens = min_i32(p->n_tokens, CHUNK_TOKENS), keys = tokens + 1;
    const int64_t of_key = p->gate == GDN_GATE_CHANNEL ? 3 : (p->has & GDN_HAS_READ_KEY) ? 2 : 1; /* rows: k, a, ak */
    const int64_t for_columns = (int64_t)round_up(p->head_dim_k, 32) * group, for_lines = lines_scratch(pitch, group);
    const int64_t state = for_columns > for_lines ? for_columns : for_lines;

    plan->n_items = (int64_t)p->n_seqs * p->n_heads_v * ((p->head_dim_v + group - 1) / group);
    plan->cpu.grain = run_of_items(p, group, plan->n_items, n_threads, rows || lines);
    plan->cpu.scratch_bytes = 4 * (uint64_t)((tokens + keys * of_key) * pitch + (2 * tokens + 1) * group + state);
    const uint64_t for_tree = (p->has & GDN_HAS_TREE) ? 4 * (uint64_t)tree_scratch(p, group) : 0;
    if (plan->cpu.scratch_bytes < for_tree) plan->cpu.scratch_bytes = for_tree;
    plan->cut = group;
    plan->variant = (p->has & GDN_HAS_TREE) ? GDN_VARIANT_TREE
                    : rows                  ? GDN_VARIANT_ROWS
                    : lines                 ? GDN_VARIANT_LINES
                                            : GDN_VARIANT_COLUMNS;
}

/* Fills the view of an item. False if there is nothing to do. */
static bool view_item(const gdn_gated_delta_net_call *p, int32_t group, int64_t item, head_view *x)
{
    const int32_t n_groups = (p->head_dim_v + group - 1) / group;
    const int32_t s = (int32_t)(item / n_groups / p->n_heads_v);
    const gdn_sequence q = gdn_sequence_of(p, s);
    *x = (head_view){ .p = p, .q = q, .h = (int32_t)(item / n_groups % p->n_heads_v) };
    x->n_tokens = q.T;
    if (!gdn_has_work(q)) return false;
    x->key_head = gdn_key_head(p, x->h);
    x->j0 = (int32_t)(item % n_groups) * group;
    x->n_columns = min_i32(group, p->head_dim_v - x->j0);
    x->source = q.src < 0 ? NULL : gdn_state_at(&p->state, q.src, x->h);
    x->type = p->state.dtype;
    x->size = x->type == GDN_F32 ? 4 : 2;
    x->n = p->head_dim_k;
    x->pitch = pitch_of(p);
    x->channel = p->gate == GDN_GATE_CHANNEL;
    x->reads = p->has & GDN_HAS_READ_KEY;
    if (p->log.n_slots) {
        x->n_replay = q.position - q.base_position;
        x->n_commit = q.kept - q.base_position;
        x->commit = q.commit < 0 ? NULL : gdn_state_at(&p->state_out, q.commit, x->h);
    }
    set_raw_gate(x);
    return true;
}

GDN_INLINE void run_item(const head_view *view, int32_t group, float *scratch)
{
    const gdn_gated_delta_net_call *p = view->p;
    const head_view x = *view;
    if ((p->has & GDN_HAS_TREE) && !gdn_is_chain(p->parent, x.q.first, x.n_tokens)) {
        tree(&x, group, scratch);
        return;
    }
    chunk c;
    const int32_t n_tokens = min_i32(p->n_tokens, CHUNK_TOKENS), n_keys = n_tokens + 1;
    c.group = group;
    c.q = scratch;
    c.k = c.q + n_tokens * x.pitch;
    c.a = c.k + n_keys * x.pitch;
    c.ak = x.channel ? c.a + n_keys * x.pitch : x.reads ? c.a : c.k;
    c.v = c.ak + n_keys * x.pitch;
    c.out = c.v + n_tokens * group;
    c.kv = c.out + n_tokens * group;
    float *state = c.kv + group;

    const bool by_rows = rows_serves(p, x.n_tokens), by_lines = lines_serves(p, x.n_tokens);
    if (by_rows && rows_decode_serves(&x)) {
        rows_decode(&x, &c);
        copy_checkpoints(&x, 1);
        return;
    }
    for (int32_t first = 0; first < x.n_tokens || !first; first += CHUNK_TOKENS) {
        chunk_fill(&c, &x, first);
        chunk_log(&c, &x);
        if (by_rows && p->log.n_slots) groups(&x, &c, state);
        else if (by_rows) rows(&x, &c);
        else if (by_lines) lines(&x, &c, state);
        else columns(&x, &c, state);
        if (by_rows || by_lines) chunk_output(&c, &x);
    }
    if (by_rows || by_lines) copy_checkpoints(&x, x.n_tokens);
}

static void gated_delta_net_run(const void *call, const gdn_plan *plan, int64_t first, int64_t last, void *scratch)
{
    const gdn_gated_delta_net_call *p = call;
    if (p->digits) {
        chunked_run(p, plan->cut, first, last, scratch);
        return;
    }
    head_view view[2];
    bool any = view_item(p, plan->cut, first, &view[first & 1]);
    for (int64_t item = first; item < last; item++) {
        head_view *x = &view[item & 1], *next = &view[(item + 1) & 1];
        const bool any_next = item + 1 < last && view_item(p, plan->cut, item + 1, next);
        x->next = any_next ? next : NULL;
        x->converts_bf16 = plan->cpu.converts_bf16;
        if (any) run_item(x, plan->cut, scratch);
        any = any_next;
    }
    v_fence(); /* for v_stream() */
}

/* What calls have learned since the first seeds were picked: forms, 16-bit types, checkpoints, the log. From the bytes
 * behind those of fuzz_args_decode.c, so that inputs from before stay the calls that they are. */
#include "fuzz_args_source.h"

/* A tensor of floats in a type that is no wider: its memory and its strides serve both. */
static void narrow(source *in, gdn_tensor *t)
{
    static const int32_t types[] = { GDN_F32, GDN_F32, GDN_F16, GDN_BF16 };
    if (t->dtype == GDN_F32) t->dtype = PICK(in, types);
}

/* Checkpoints of a call: where they are described, and what of the call says which slots they may have. */
typedef struct checkpoints {
    int32_t *interval, *n;
    gdn_span *position, *map;
    const gdn_span *start, *src, *dst;
    int n_seqs, n_tokens, n_entries, src_slots, dst_slots, dst_size, same;
} checkpoints;

static int entry_of(const gdn_span *map, int i, int absent)
{
    return map->data ? ((const int32_t *)map->data)[i] : absent;
}

/* In slots of the pool that nobody else has to do with, where the call is valid so far; anywhere, where it is not. */
static void draw_checkpoints(source *in, fuzz_call *c, const checkpoints *k)
{
    static const int32_t intervals[] = { 0, 0, 0, 1, 2, 3, 5, 16, INT32_MAX };
    int taken[MAX_SLOTS] = { 0 }, reader[MAX_SLOTS], source_of[MAX_SEQS], first[MAX_SEQS + 1];
    *k->interval = PICK(in, intervals);
    if (!*k->interval || k->n_seqs < 1 || k->n_seqs > MAX_SEQS || k->dst_size > MAX_SLOTS) {
        *k->interval = 0;
        return;
    }
    *k->n = 1 + below(in, 3);
    int32_t *const map_at = fuzz_map(c->arena, k->map, k->n_seqs * *k->n);
    int32_t *const given = !k->position->data && below(in, 4) ? fuzz_map(c->arena, k->position, k->n_seqs) : NULL;
    for (int s = 0; given && s < k->n_seqs; s++) given[s] = one_in(in, 16) ? INT32_MAX - 100 : below(in, 20);
    if (c->mutations) {
        for (int i = 0; i < k->n_seqs * *k->n; i++) map_at[i] = below(in, 12) - 2;
        return;
    }
    for (int i = 0; i < MAX_SLOTS; i++) reader[i] = -1;
    for (int s = 0; s <= k->n_seqs; s++) first[s] = entry_of(k->start, s, s * (k->n_tokens / k->n_seqs));
    for (int s = 0; s < k->n_seqs; s++) {
        const int length = first[s + 1] - first[s], slot = source_of[s] = entry_of(k->src, s, s * k->src_slots);
        if (slot >= 0 && slot < MAX_SLOTS && length && k->same)
            reader[slot] = reader[slot] < 0 || reader[slot] == s ? s : MAX_SEQS;
        for (int r = 0; slot != GDN_SKIP && r < length && r < k->n_entries; r++) {
            const int target = entry_of(k->dst, s * k->n_entries + r, s * k->dst_slots + r);
            if (target >= 0 && target < MAX_SLOTS) taken[target] = 1;
        }
    }
    for (int s = 0; s < k->n_seqs; s++) {
        const int64_t kept = check_checkpoints(*k->interval, entry_of(k->position, s, 0), first[s + 1] - first[s]),
                      used = source_of[s] == GDN_SKIP ? 0 : kept;
        for (int i = 0; i < *k->n; i++) {
            int32_t *entry = &map_at[s * *k->n + i];
            const int wish = below(in, k->dst_size);
            *entry = i < used ? GDN_NONE : (int32_t)noise(in);
            for (int turn = 0; i < used && turn < k->dst_size && *entry < 0; turn++) {
                const int slot = (wish + turn) % k->dst_size;
                if (!taken[slot] && (reader[slot] < 0 || reader[slot] == s)) {
                    taken[slot] = 1;
                    *entry = slot;
                }
            }
        }
    }
}

/* Too short, crooked, or not there. */
static void break_map(gdn_span *map, int way)
{
    if (way == 0) map->bytes /= 2;
    else if (way == 1) map->offset = 2;
    else map->data = NULL;
}

/* Something wrong with them, at times. */
static void break_checkpoints(source *in, fuzz_call *c, const checkpoints *k)
{
    const int what = c->mutations ? below(in, 32) : 0;
    if (what == 31) *k->interval = below(in, 2) ? -1 : 0;
    else if (what == 30) *k->n = below(in, 3) - 1;
    else if (what >= 27) break_map(k->map, what == 28 ? 0 : what == 27 ? 1 : 2);
    else if (what == 26) k->position->data = NULL;
}

/* Marks the slots that sequences write as `taken`, those of checkpoints among them, and who reads a slot, MAX_SEQS
 * where several do. */
static void survey(const checkpoints *k, const int *first, int *taken, int *reader)
{
    for (int i = 0; i < MAX_SLOTS; i++) reader[i] = -1;
    for (int s = 0; s < k->n_seqs; s++) {
        const int length = first[s + 1] - first[s], slot = entry_of(k->src, s, s * k->src_slots);
        if (slot >= 0 && slot < MAX_SLOTS && length && k->same)
            reader[slot] = reader[slot] < 0 || reader[slot] == s ? s : MAX_SEQS;
        for (int r = 0; slot != GDN_SKIP && r < length && r < k->n_entries; r++) {
            const int target = entry_of(k->dst, s * k->n_entries + r, s * k->dst_slots + r);
            if (target >= 0 && target < MAX_SLOTS) taken[target] = 1;
        }
        const int64_t kept =
            *k->interval > 0 ? check_checkpoints(*k->interval, entry_of(k->position, s, 0), length) : 0;
        for (int64_t i = 0; slot != GDN_SKIP && k->map->data && i < kept && i < *k->n; i++)
            if (entry_of(k->map, s * *k->n + (int)i, GDN_NONE) >= 0)
                taken[entry_of(k->map, s * *k->n + (int)i, GDN_NONE)] = 1;
    }
}

/* Rows of the sequences in any order, commits to slots that nobody else has to do with, and as much repeated as there
 * is. Returns the columns that the log needs. */
static int draw_log_maps(source *in, const checkpoints *k, int n_log_rows, int32_t *row, int32_t *stands,
                         int32_t *commit)
{
    int taken[MAX_SLOTS] = { 0 }, reader[MAX_SLOTS], first[MAX_SEQS + 1], most = 1;
    const int shift = below(in, n_log_rows);
    for (int s = 0; s <= k->n_seqs; s++) first[s] = entry_of(k->start, s, s * (k->n_tokens / k->n_seqs));
    survey(k, first, taken, reader);
    for (int s = 0; s < k->n_seqs; s++) {
        const int length = first[s + 1] - first[s], slot = entry_of(k->src, s, s * k->src_slots);
        const int position = entry_of(k->position, s, 0), back = below(in, 5), none = row && below(in, 6) == 5;
        const int repeated = none || !stands ? 0 : back < position ? back : position;
        if (row) row[s] = none ? GDN_NONE : (s + shift) % n_log_rows;
        if (stands) stands[s] = position - repeated;
        if (!none && slot != GDN_SKIP && repeated + length > most) most = repeated + length;
        if (!commit) continue;
        const int wish = below(in, k->dst_size);
        commit[s] = slot == GDN_SKIP ? (int32_t)noise(in) : GDN_NONE;
        if (slot == GDN_SKIP || (!length && k->same && slot >= 0 && taken[slot])) continue;
        if (!length && k->same && slot >= 0) reader[slot] = reader[slot] < 0 || reader[slot] == s ? s : MAX_SEQS;
        for (int turn = 0; turn < k->dst_size && commit[s] < 0; turn++) {
            const int to = (wish + turn) % k->dst_size;
            if (!taken[to] && (reader[to] < 0 || reader[to] == s)) {
                taken[to] = 1;
                commit[s] = to;
            }
        }
    }
    return most;
}

/* A log beside what the call does already, of as many columns as it needs, or more; with anything in its maps where the
 * call is not valid anyway, and others may not be readable. */
static void draw_log(source *in, fuzz_call *c, const checkpoints *k)
{
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    if (below(in, 4) != 3 || k->n_seqs < 1 || k->n_seqs > MAX_SEQS || k->dst_size < 1 || k->dst_size > MAX_SLOTS ||
        a->n_heads_k < 1 || a->n_heads_v < 1 || a->n_heads_v > 64 || a->n_heads_k > 16 || a->head_dim_k < 1 ||
        a->head_dim_k > 256 || a->head_dim_v < 1 || a->head_dim_v > 256 ||
        a->n_heads_v * (a->head_dim_k + a->head_dim_v) > 8192)
        return;
    gdn_span *const maps[] = { &a->log_row, &a->state_commit, &a->position, &a->state_position };
    int32_t *at[4];
    const int spare = below(in, 3);
    for (int i = 0; i < 4; i++)
        at[i] =
            (i != 2 || !(a->position.data || a->checkpoint_interval)) && (i != 3 || a->position.data) && below(in, 4)
                ? fuzz_map(c->arena, maps[i], k->n_seqs)
                : NULL;
    for (int s = 0; at[2] && s < k->n_seqs; s++) at[2][s] = one_in(in, 16) ? INT32_MAX - 100 : below(in, 20);
    a->n_log_rows = k->n_seqs + 1;
    if (!a->n_snapshots) /* which would be none, now */
        a->n_snapshots = k->n_entries;
    else if (below(in, 2)) {
        a->n_snapshots = 0;
        a->state_dst = (gdn_span){ 0 };
    }
    checkpoints now = *k;
    int most = 8;
    now.n_entries = a->n_snapshots;
    for (int i = 0; c->mutations && i < 4; i++)
        for (int s = 0; at[i] && s < k->n_seqs; s++) at[i][s] = below(in, 12) - 2;
    if (!c->mutations) most = draw_log_maps(in, &now, a->n_log_rows, at[0], at[3], at[1]);
    const int decays = a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1;
    const int entry = a->n_heads_k * a->head_dim_k + a->n_heads_v * (a->head_dim_v + decays);
    const int fit = SLAB_BYTES / 8 / entry / a->n_log_rows; /* where it does not, the call is refused */
    a->n_log_columns = most + spare <= fit ? most + spare : fit > 0 ? fit : 1;
    fuzz_operand(in, c->arena, &a->log, GDN_F32, 2, (int64_t[]){ a->n_log_rows, a->n_log_columns }, entry, 0, 0, 0);
}

/* Something wrong with it, at times. */
static void break_log(source *in, fuzz_call *c)
{
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    gdn_span *const maps[] = { &a->log_row, &a->state_position, &a->state_commit };
    const int which = c->mutations ? below(in, 48) : 0;
    gdn_span *const map = which ? maps[below(in, 3)] : NULL;
    switch (which) {
    case 47:
        a->n_log_columns--;
        break;
    case 46:
        a->n_log_columns = 0;
        break;
    case 45:
        a->n_log_rows = below(in, 3) - 1;
        break;
    case 44:
        a->log.data = NULL;
        break;
    case 43:
        a->log.bytes /= 2;
        break;
    case 42:
        a->log = a->state;
        break;
    case 41:
        map->bytes /= 2;
        break;
    case 40:
        map->offset = 2;
        break;
    case 39:
        *map = a->seq_start;
        break;
    case 38:
        a->log.dtype = below(in, 6);
        break;
    case 37:
        a->n_snapshots = 0;
        break;
    case 36:
        if (map->data && a->n_seqs > 0 && a->n_seqs <= MAX_SEQS)
            ((int32_t *)map->data)[below(in, a->n_seqs)] = below(in, 24) - 3;
        break;
    default:
        break;
    }
}

/* A tree in a call that may have one, or in any, where the call is not valid anyway. `longest`: the most tokens that a
 * sequence may have; rows: of the log, of which a sequence with tokens needs one. */
typedef struct trees {
    uint32_t *flags, flag;
    gdn_span *parent;
    const gdn_span *start, *src, *rows;
    int n_seqs, n_tokens, longest, fits;
} trees;

static void draw_tree(source *in, fuzz_call *c, const trees *k)
{
    if (below(in, 4) != 3 || k->n_seqs < 1 || k->n_seqs > MAX_SEQS || k->n_tokens < 0 || k->n_tokens > 1000) return;
    int fits = k->fits;
    for (int s = 0; s < k->n_seqs && !c->mutations; s++) {
        const int share = k->n_tokens / k->n_seqs, first = entry_of(k->start, s, s * share);
        const int length = entry_of(k->start, s + 1, (s + 1) * share) - first;
        if (!length || entry_of(k->src, s, 0) == GDN_SKIP) continue;
        fits &= length <= k->longest && (!k->rows || entry_of(k->rows, s, s) != GDN_NONE);
    }
    if (!fits && !c->mutations) return;
    *k->flags |= k->flag;
    int32_t *const parent = below(in, 8) ? fuzz_map(c->arena, k->parent, k->n_tokens) : NULL;
    for (int i = 0; parent && i < k->n_tokens; i++)
        parent[i] = c->mutations ? (int)(noise(in) % (uint32_t)(i + 1)) - 1 : (int32_t)noise(in);
    for (int s = 0; s < k->n_seqs && parent && !c->mutations; s++) {
        const int share = k->n_tokens / k->n_seqs, first = entry_of(k->start, s, s * share);
        const int end = entry_of(k->start, s + 1, (s + 1) * share);
        for (int i = first; i < end; i++) {
            const uint32_t drawn = noise(in);
            parent[i] = drawn & 1 ? i - first - 1 : (int)((drawn >> 1) % (uint32_t)(i - first + 1)) - 1;
        }
    }
    const int what = c->mutations ? below(in, 16) : 0;
    switch (what) { /* something wrong, at times */
    case 15:
        *k->flags &= ~k->flag;
        break;
    case 14:
    case 13:
        break_map(k->parent, what == 14 ? 0 : 1);
        break;
    case 12:
        if (parent && k->n_tokens) parent[below(in, k->n_tokens < 256 ? k->n_tokens : 256)] = below(in, 12) - 3;
        break;
    case 11:
        *k->parent = *k->start;
        break;
    default:
        break;
    }
}

/* States of 16 bits, where the rest of the call allows for them or is not valid anyway; what it has of memory is
 * enough, being meant for floats. */
static void draw_state16(source *in, fuzz_call *c)
{
    gdn_gated_delta_net_args *const a = &c->args.gated_delta_net;
    if (below(in, 4) != 3) return;
    const int broken = c->mutations ? below(in, 16) : 0;
    a->state.dtype = broken == 15 ? GDN_F32 : GDN_F16 + below(in, 2);
    if (a->state_out.data) a->state_out.dtype = broken == 14 ? GDN_F16 + below(in, 2) : a->state.dtype;
    a->state_interval = c->mutations ? below(in, 6) - (broken == 13) : below(in, 2);
    a->reserved3 = broken == 12;
}

static void later_delta(source *in, fuzz_call *c, int wild)
{
    static const float eps[] = { 0, 1e-6f, 1e-40f, 1 }, factors[] = { 0, 2, -1, 1e-40f };
    gdn_gated_delta_net_args *a = &c->args.gated_delta_net;
    gdn_tensor *const tensors[] = { &a->g, &a->beta, &a->out };
    for (int i = 0; i < 3; i++) narrow(in, tensors[i]);
    a->qk_norm = below(in, 3);
    a->qk_norm_eps = a->qk_norm ? PICK(in, eps) : 0;
    a->g_form = below(in, 4);
    a->beta_form = below(in, 2);
    a->beta_factor = PICK(in, factors);
    if (a->g_form >= GDN_G_RAW && a->n_heads_v > 0 && a->n_heads_v <= 64 && a->head_dim_k > 0 && a->head_dim_k <= 256) {
        const int64_t heads = a->n_heads_v;
        fuzz_operand(in, c->arena, &a->ssm_a, GDN_F32, 1, &heads, 1, 0, 0, wild);
        narrow(in, &a->ssm_a);
        if (below(in, 2)) {
            fuzz_operand(in, c->arena, &a->dt_bias, GDN_F32, 1, &heads, a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1,
                         0, 0, wild);
            narrow(in, &a->dt_bias);
        }
    }
    switch (c->mutations ? below(in, 32) : 0) { /* something wrong */
    case 31:
        a->qk_norm = 3 - below(in, 5);
        break;
    case 30:
        a->g_form = 4 - below(in, 6);
        break;
    case 29:
        a->beta_form = 2 - below(in, 4);
        break;
    case 28:
        a->qk_norm_eps = -1;
        break;
    case 27:
        a->beta_factor = below(in, 2) ? __builtin_inff() : __builtin_nanf("");
        break;
    case 26:
        a->ssm_a = a->beta;
        break;
    case 25:
        a->dt_bias = a->beta;
        break;
    case 24:
        a->reserved2 = 1;
        break;
    case 23:
        a->out = a->ssm_a;
        break;
    default:
        break;
    }
    const int slots = a->n_slots ? a->n_slots : 1, own = a->state_out.data != NULL;
    const int slots_out = own && a->n_slots_out ? a->n_slots_out : slots;
    const int64_t size = (int64_t)(own && a->n_rows_out ? a->n_rows_out : a->n_rows) * slots_out;
    const checkpoints k = {
        &a->checkpoint_interval,
        &a->n_checkpoints,
        &a->position,
        &a->state_checkpoint,
        &a->seq_start,
        &a->state_src,
        &a->state_dst,
        a->n_seqs,
        a->n_tokens,
        a->n_snapshots ? a->n_snapshots : slots_out,
        slots,
        slots_out,
        size > 0 && size <= MAX_SLOTS ? (int)size : MAX_SLOTS + 1,
        !own || a->state_out.data == a->state.data,
    };
    draw_checkpoints(in, c, &k);
    break_checkpoints(in, c, &k);
    draw_log(in, c, &k);
    break_log(in, c);
    const trees t = { .flags = &a->flags,
                      .flag = GDN_DELTA_TREE,
                      .parent = &a->parent,
                      .start = &a->seq_start,
                      .src = &a->state_src,
                      .rows = &a->log_row,
                      .longest = 1000,
                      .n_seqs = a->n_seqs,
                      .n_tokens = a->n_tokens,
                      .fits = a->n_log_columns && !a->n_snapshots && !a->checkpoint_interval };
    draw_tree(in, c, &t);
    draw_state16(in, c);
}

static void later_conv(source *in, fuzz_call *c)
{
    gdn_ssm_conv_args *a = &c->args.ssm_conv;
    gdn_tensor *const tensors[] = { &a->x, &a->weight, &a->bias, &a->out, &a->history };
    for (int i = 0; i < 5; i++) narrow(in, tensors[i]);
    if (a->history_out.dtype == GDN_F32 && (!c->mutations || below(in, 32) != 31))
        a->history_out.dtype = a->history.dtype;
    const int64_t reach = (int64_t)a->kernel_width - 1;
    const trees t = { .flags = &a->flags,
                      .flag = GDN_CONV_TREE,
                      .parent = &a->parent,
                      .start = &a->seq_start,
                      .src = &a->history_src,
                      .n_seqs = a->n_seqs,
                      .n_tokens = a->n_tokens,
                      .longest = 1000,
                      .fits = 1 };
    if (!a->history.data) {
        draw_tree(in, c, &t);
        return;
    }
    const int own = a->history_out.data != NULL, rows = own && a->n_rows_out ? a->n_rows_out : a->n_rows;
    const checkpoints k = {
        &a->checkpoint_interval,
        &a->n_checkpoints,
        &a->position,
        &a->history_checkpoint,
        &a->seq_start,
        &a->history_src,
        &a->history_dst,
        a->n_seqs,
        a->n_tokens,
        1,
        1,
        1,
        rows > 0 && rows <= MAX_SLOTS ? rows : MAX_SLOTS + 1,
        !own || a->history_out.data == a->history.data,
    };
    draw_checkpoints(in, c, &k);
    break_checkpoints(in, c, &k);
    trees kept = t;
    const int64_t kept_columns = (a->n_columns ? a->n_columns : reach) - reach; /* -1: none at all */
    kept.longest = kept_columns < 0 ? -1 : kept_columns > INT32_MAX ? INT32_MAX : (int32_t)kept_columns;
    kept.fits = !a->checkpoint_interval;
    draw_tree(in, c, &kept);
}

void fuzz_later(source *in, fuzz_call *c, int wild)
{
    if (c->kernel == &check_kernel_gated_delta_net) later_delta(in, c, wild);
    else if (c->kernel == &check_kernel_ssm_conv) later_conv(in, c);
}

/* Building gated_delta_net calls from specifications. See specs.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "numerics/chunked.h"
#include "numerics/convert.h"
#include "specs.h"

#include "call/gated_delta_net.h" /* behind gdn.h, which has its constants */

#define ARG(member)  offsetof(delta_call, args.member)
#define PART(member) offsetof(delta_call, member)

const check_operand check_operands_gated_delta_net[] = {
#define LINE(part, member, axes, written, optional, is_pool)                                                           \
    { GDN_NAME_##part(member), PART(part.member), axes, written, optional, is_pool },
#define TOKENS(name, part, member, access, bit, size) LINE(part, member, 3, CHECK_##access, bit != 0, 0)
#define HEADS(name, part, member, access, bit, size)  LINE(part, member, 1, CHECK_##access, bit != 0, 0)
#define POOL(name, part, member, access, bit, size)   LINE(part, member, size, 1, GDN_DELTA_##name != NEEDED, 1)
#define NEEDED                                        GDN_DELTA_state /* of the pools */
#define MAP(name, part, member, access, bit, size)    LINE(part, member, CHECK_MAP, CHECK_##access, 1, 0)
    GDN_DELTA_OPERANDS(TOKENS, HEADS, POOL, MAP){ NULL, 0, 0, 0, 0, 0 },
#undef LINE
#undef TOKENS
#undef HEADS
#undef POOL
#undef NEEDED
#undef MAP
};

delta_spec delta_of(delta_spec spec, int n, int length)
{
    const int n_rows = spec.n_rows, n_rows_out = spec.n_rows_out;
    delta_batch(&spec, n, length);
    if (n_rows) spec.n_rows = n_rows;
    if (n_rows_out) spec.n_rows_out = n_rows_out;
    return spec;
}

void delta_batch(delta_spec *spec, int n, int length)
{
    spec->n_seqs = n;
    spec->n_rows = spec->n_rows_out = n ? n : 1;
    for (int s = 0; s < n; s++) {
        spec->seq[s] = (delta_seq){ .length = length, .src = s * spec->n_slots, .key = 1000003u * (uint64_t)(s + 1) };
        for (int r = 0; r < spec->n_snapshots; r++) spec->seq[s].dst[r] = s * spec->n_slots_out + r;
    }
}

void delta_ring(delta_spec *spec, int s, int row, int position)
{
    delta_seq *seq = &spec->seq[s];
    const int k = spec->n_slots;
    seq->src = position ? row * k + position % k : GDN_NONE;
    for (int r = 0; r < spec->n_snapshots; r++) {
        const int newest = position + seq->length - r;
        seq->dst[r] = r < seq->length ? row * k + newest % k : GDN_NONE;
    }
}

static const char *const token_axes[] = { "seq", "token", "head", "i" };

static int total_tokens(const delta_spec *spec)
{
    int n = spec->lead + spec->tail;
    for (int s = 0; s < spec->n_seqs; s++) n += spec->seq[s].length;
    return n;
}

/* Not padding, and with a token or a state to commit. */
static int has_work(const delta_spec *spec, int s)
{
    const delta_seq *seq = &spec->seq[s];
    return seq->src != GDN_SKIP && (seq->length || (spec->log_slots && spec->map_commit && seq->commit >= 0));
}

static int longest(const delta_spec *spec)
{
    int n = 0;
    for (int s = 0; s < spec->n_seqs; s++) n = spec->seq[s].length > n ? spec->seq[s].length : n;
    return n;
}

static int first_token(const delta_spec *spec, int s)
{
    int n = spec->lead;
    for (int i = 0; i < s; i++) n += spec->seq[i].length;
    return n;
}

/* Address of a token's row: through the sequence axis where the view has one. */
static unsigned char *token_at(const check_case *c, const delta_spec *spec, const check_view *v, unsigned char *image,
                               int s, int t, int h)
{
    return v->given[0] ? check_at(c, v, image, s, t, h, 0) : check_at(c, v, image, 0, first_token(spec, s) + t, h, 0);
}

static uint64_t row_seed(const delta_spec *spec, int operand, const delta_seq *seq, int t, int h)
{
    const int r = spec->n_heads_v / spec->n_heads_k;
    const int of_value = operand >= DELTA_V && operand != DELTA_READ;
    const int head = spec->permuted && of_value ? h % spec->n_heads_k * r + h / spec->n_heads_k : h;
    const int of_token = operand < DELTA_STATE || operand == DELTA_READ;
    const uint64_t key = t < seq->length - seq->rejected || !of_token ? seq->key : ~seq->key;
    const int number = seq->first + (seq->order && of_token ? seq->order[t] : t);
    return check_mix(check_mix(check_mix(spec->seed, (uint64_t)operand), key + (uint64_t)number), (uint64_t)head);
}

static void fill_row(const delta_spec *spec, int operand, void *to, int32_t dtype, int64_t n, uint64_t seed)
{
    uint16_t narrow[256];
    const int32_t type = operand <= DELTA_V ? spec->narrow[operand] : GDN_F32;
    if (type == GDN_F32 || type == dtype) {
        check_fill(to, dtype, n, (check_values)spec->values[operand], seed);
        return;
    }
    check_fill(narrow, type, n, (check_values)spec->values[operand], seed);
    for (int64_t i = 0; i < n; i++) {
        const float value = gdn_load_element(narrow, type, i);
        memcpy((float *)to + i, &value, sizeof value);
    }
}

static void fill_tokens(check_case *c, const delta_spec *spec, const check_view *v, int operand)
{
    check_memory *m = &c->memory[v->memory];
    for (int s = 0; s < spec->n_seqs; s++)
        for (int t = 0; spec->seq[s].src != GDN_SKIP && t < spec->seq[s].length; t++)
            for (int h = 0; h < (int)v->extent[2]; h++)
                fill_row(spec, operand, token_at(c, spec, v, m->image, s, t, h), v->dtype, v->extent[3],
                         row_seed(spec, operand, &spec->seq[s], t, h));
}

static const check_view *add_tokens(check_case *c, const delta_spec *spec, const char *name, size_t field,
                                    int32_t dtype, int heads, int inner, int written, check_rng *rng)
{
    const int by_seq = spec->strided && longest(spec) > 0 && check_one_in(rng, 3);
    const int64_t extent[4] = { by_seq ? spec->n_seqs : 1, by_seq ? longest(spec) : total_tokens(spec), heads, inner };
    int order[3] = { 0, 1, 2 };
    if (by_seq) check_shuffle(rng, order, 3);
    else if (spec->strided && check_one_in(rng, 3)) order[1] = 2, order[2] = 1;
    check_view v = { .name = name, .field = field };
    memcpy(v.axis, token_axes, sizeof token_axes);
    check_view *added = check_add_operand(c, &v, dtype, 4, extent, order, 9, written, spec->strided ? rng : NULL);
    added->given[0] = by_seq ? added->stride[0] : 0;
    return added;
}

/* n operands side by side in the rows of one tensor, as a projection gives them. */
static void add_fused(check_case *c, const delta_spec *spec, int n, const char *const *names, const size_t *fields,
                      int32_t dtype, const int *heads, const int *inner, check_rng *rng)
{
    const int64_t unit = (int64_t)check_unit_bytes(dtype), n_tokens = total_tokens(spec);
    int64_t at = 0, stride = 0;
    for (int i = 0; i < n; i++) stride += unit * heads[i] * inner[i];
    stride += unit * check_between(rng, 0, 5);
    const int memory = check_add_memory(c, (uint64_t)(stride * n_tokens), (uint64_t)unit, 0, rng);
    for (int i = 0; i < n; i++) {
        check_view v = { .name = names[i],
                         .field = fields[i],
                         .memory = memory,
                         .first = at,
                         .dtype = dtype,
                         .rank = 4,
                         .extent = { 1, n_tokens, heads[i], inner[i] },
                         .stride = { stride * n_tokens, stride, unit * inner[i], unit },
                         .given = { 0, stride, 0, 0 } };
        memcpy(v.axis, token_axes, sizeof token_axes);
        check_add_view(c, &v);
        at += unit * heads[i] * inner[i];
    }
}

static void add_inputs(check_case *c, const delta_spec *spec, check_rng *rng)
{
    static const char *const names[] = { "q", "k", "v", "g", "beta" };
    static const size_t fields[] = { ARG(q), ARG(k), ARG(v), ARG(g), ARG(beta) };
    const int heads[] = { spec->n_heads_k, spec->n_heads_k, spec->n_heads_v, spec->n_heads_v, spec->n_heads_v };
    const int inner[] = { spec->dim_k, spec->dim_k, spec->dim_v, spec->gate == GDN_GATE_CHANNEL ? spec->dim_k : 1, 1 };
    const int32_t dtypes[] = { spec->dtype[0], spec->dtype[1], spec->dtype[2], spec->dtype_g, spec->dtype_beta };
    for (int first = 0, n = 3; first < 5; first += n, n = 2) { /* q, k and v; g and beta */
        int alike = !spec->same_keys || first;
        for (int i = first; i < first + n; i++) alike &= dtypes[i] == dtypes[first];
        if (spec->strided && alike && check_one_in(rng, 4)) {
            add_fused(c, spec, n, names + first, fields + first, dtypes[first], heads + first, inner + first, rng);
            continue;
        }
        for (int i = first; i < first + n; i++)
            if (i == DELTA_K && spec->same_keys) check_add_same(c, "q", names[i], fields[i]);
            else add_tokens(c, spec, names[i], fields[i], dtypes[i], heads[i], inner[i], 0, rng);
    }
    for (int i = 0; i < 5; i++) fill_tokens(c, spec, check_find(c, names[i]), i);
    if (spec->read_key)
        fill_tokens(c, spec,
                    add_tokens(c, spec, "inputs.read_key", PART(inputs.read_key), spec->dtype_read, spec->n_heads_k,
                               spec->dim_k, 0, rng),
                    DELTA_READ);
}

/* An operand per value head that all tokens share. */
static void add_heads(check_case *c, const delta_spec *spec, const char *name, size_t field, int operand, int32_t dtype,
                      int inner, check_rng *rng)
{
    static const delta_seq none = { 0 };
    check_view v = { .name = name, .field = field, .axis = { "head", "i" } };
    const check_view *added = check_add_operand(c, &v, dtype, 2, (int64_t[]){ spec->n_heads_v, inner }, NULL, 9, 0,
                                                spec->strided ? rng : NULL);
    for (int h = 0; h < spec->n_heads_v; h++)
        check_fill(check_at(c, added, c->memory[added->memory].image, h, 0, 0, 0), dtype, inner,
                   (check_values)spec->values[operand], row_seed(spec, operand, &none, 0, h));
}

int64_t delta_digits_bytes(const delta_spec *spec)
{
    if (spec->dtype_state != GDN_DIGITS2 && spec->dtype_state != GDN_DIGITS3) return 0;
    return gdn_state_factors(spec->dim_k, spec->dim_v, spec->digits) + 4 * spec->dim_v;
}

static void add_pool(check_case *c, const delta_spec *spec, const char *name, size_t field, int n_rows, int n_slots,
                     int written, check_rng *rng)
{
    const int kv = spec->layout == GDN_STATE_KV;
    const int64_t extent[5] = { n_rows, n_slots, spec->n_heads_v, kv ? spec->dim_k : spec->dim_v,
                                kv ? spec->dim_v : spec->dim_k };
    int order[4] = { 0, 1, 2, 3 };
    if (delta_digits_bytes(spec)) {
        check_view v = { .name = name, .field = field, .axis = { "row", "slot", "head", "byte" } };
        const int64_t digits[4] = { n_rows, n_slots, spec->n_heads_v, delta_digits_bytes(spec) };
        if (spec->strided && check_one_in(rng, 3)) check_shuffle(rng, order, 3);
        check_add_operand(c, &v, spec->dtype_state, 4, digits, order, spec->strided ? 2 : 0, written,
                          spec->strided ? rng : NULL);
        return;
    }
    check_view v = { .name = name,
                     .field = field,
                     .axis = { "row", "slot", "head", kv ? "key" : "value", kv ? "value" : "key" } };
    if (spec->strided && check_one_in(rng, 3)) check_shuffle(rng, order, 4);
    const int gaps = spec->strided && check_one_in(rng, 2) ? 7 : 0;
    check_add_operand(c, &v, spec->dtype_state, 5, extent, order, gaps, written, spec->strided ? rng : NULL);
}

static unsigned char *element_at(const check_case *c, const delta_spec *spec, const check_view *v, unsigned char *image,
                                 int entry, int h, int key, int value)
{
    const int n_slots = (int)v->extent[1], kv = spec->layout == GDN_STATE_KV;
    return check_at(c, v, image, entry / n_slots, entry % n_slots, h, kv ? key : value) +
           (int64_t)check_unit_bytes(v->dtype) * (kv ? value : key);
}

static unsigned char *digits_at(const check_case *c, const check_view *v, unsigned char *image, int entry, int h)
{
    const int n_slots = (int)v->extent[1];
    return check_at(c, v, image, entry / n_slots, entry % n_slots, h, 0);
}

/* The line of a value channel, of numbers. */
static void fill_digits(const delta_spec *spec, unsigned char *head, int j, const float *x)
{
    uint32_t most = 0;
    for (int i = 0; i < spec->dim_k; i++)
        most = (gdn_bits(x[i]) & ~GDN_SIGN_BIT) > most ? gdn_bits(x[i]) & ~GDN_SIGN_BIT : most;
    const gdn_line line = gdn_line_of(most, spec->digits);
    memcpy(head + gdn_state_factors(spec->dim_k, spec->dim_v, spec->digits) + 4 * j, &line.factor, 4);
    for (int i = 0; i < spec->dim_k; i++)
        for (int a = 0; a < spec->digits; a++)
            head[gdn_state_digit(spec->dim_k, spec->digits, i, j, a)] =
                (unsigned char)gdn_digit(gdn_line_integer(x[i], line), a, spec->digits);
}

/* Drawn key by key for each value, whatever the layout. */
static void fill_state(check_case *c, const delta_spec *spec, const check_view *v, int entry, uint64_t key)
{
    unsigned char line[4 * 256];
    const size_t unit = (size_t)check_unit_bytes(v->dtype);
    const int32_t dtype = delta_digits_bytes(spec) ? GDN_F32 : v->dtype;
    float x[256];
    for (int h = 0; h < spec->n_heads_v; h++) {
        const delta_seq seq = { .key = key };
        for (int j = 0; j < spec->dim_v; j++) {
            check_fill(line, dtype, spec->dim_k, (check_values)spec->values[DELTA_STATE],
                       row_seed(spec, DELTA_STATE, &seq, j, h));
            memcpy(x, line, sizeof x);
            if (dtype != v->dtype) fill_digits(spec, digits_at(c, v, c->memory[v->memory].image, entry, h), j, x);
            for (int i = 0; dtype == v->dtype && i < spec->dim_k; i++)
                memcpy(element_at(c, spec, v, c->memory[v->memory].image, entry, h, i, j), line + unit * (size_t)i,
                       unit);
        }
    }
}

static unsigned char *entry_at(const check_case *c, unsigned char *const *image, int row, int position)
{
    const check_view *v = check_find(c, "log.entries");
    return check_at(c, v, image[v->memory], row, position % v->extent[1], 0, 0);
}

/* A log entry as the token at this position leaves it: numbers like those of a model's call. */
static void fill_entry(const delta_spec *spec, unsigned char *to, uint64_t key, int position)
{
    const struct {
        int operand, heads, dim, values;
    } parts[] = {
        { DELTA_K, spec->n_heads_k, spec->dim_k, spec->values[DELTA_K] },
        { DELTA_V, spec->n_heads_v, spec->dim_v, spec->values[DELTA_V] },
        { DELTA_G, spec->n_heads_v, spec->gate == GDN_GATE_CHANNEL ? spec->dim_k : 1,
          spec->digits ? CHECK_GATE_MODEL : CHECK_UNIT },
    };
    const delta_seq seq = { .key = ~key };
    for (int i = 0; i < 3; i++)
        for (int h = 0; h < parts[i].heads; h++, to += 4 * parts[i].dim)
            check_fill(to, GDN_F32, parts[i].dim, (check_values)parts[i].values,
                       row_seed(spec, parts[i].operand, &seq, position, h));
}

static void add_log(check_case *c, const delta_spec *spec, check_rng *rng)
{
    const int decays = spec->gate == GDN_GATE_CHANNEL ? spec->dim_k : 1;
    const int64_t extent[3] = { spec->log_rows, spec->log_slots,
                                spec->n_heads_k * spec->dim_k + spec->n_heads_v * (spec->dim_v + decays) };
    const int turned[] = { 1, 0, 2 }, plain[] = { 0, 1, 2 };
    check_view v = { .name = "log.entries", .field = PART(log.entries), .axis = { "row", "slot", "element" } };
    unsigned char *image[CHECK_MAX_MEMORIES];
    check_add_operand(c, &v, GDN_F32, 3, extent, spec->strided && check_one_in(rng, 4) ? turned : plain, 7, 1,
                      spec->strided ? rng : NULL);
    check_initial(c, image);
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        for (int at = seq->position - seq->n_replayed; has_work(spec, s) && at < seq->position; at++)
            fill_entry(spec, entry_at(c, image, seq->log_row, at), seq->key, at);
    }
}

static void add_maps(check_case *c, const delta_spec *spec, check_rng *rng)
{
    int32_t start[DELTA_MAX_SEQS + 1], base_position[DELTA_MAX_SEQS];
    check_tree tree[DELTA_MAX_SEQS];
    for (int s = 0; s <= spec->n_seqs; s++) start[s] = first_token(spec, s);
    for (int s = 0; s < spec->n_seqs; s++) {
        const delta_seq *seq = &spec->seq[s];
        base_position[s] = seq->position - seq->n_replayed;
        tree[s] = (check_tree){ start[s], seq->src == GDN_SKIP ? 0 : seq->length, seq->parent, seq->key ^ spec->seed };
    }
    if (spec->map_start) check_add_map(c, "seq_start", ARG(seq_start), start, sizeof *start, spec->n_seqs + 1, 1, rng);
    if (spec->map_src) CHECK_MAP_OF(ARG, state_src, src, 1);
    if (spec->map_dst) CHECK_MAP_OF(ARG, state_dst, dst, spec->n_snapshots);
    if ((spec->interval || spec->log_slots || spec->digits) && spec->map_position)
        CHECK_MAP_OF(ARG, position, position, 1);
    if (spec->interval) CHECK_MAP_OF(PART, checkpoints.dst, checkpoint, spec->n_checkpoints);
    if (spec->log_slots && spec->map_log_row) CHECK_MAP_OF(PART, log.row, log_row, 1);
    if (spec->log_slots && spec->map_base_position)
        check_add_map(c, "log.base_position", PART(log.base_position), base_position, sizeof *base_position,
                      spec->n_seqs, 1, rng);
    if (spec->log_slots && spec->map_commit) CHECK_MAP_OF(PART, log.commit, commit, 1);
    if (spec->tree && spec->map_parent)
        check_add_parents(c, PART(tree.parent), tree, spec->n_seqs, total_tokens(spec), rng);
}

/* The parts that the call uses, without their operands. The inputs may be left out where they have their defaults. */
static void add_parts(delta_call *call, const delta_spec *spec, int shorten)
{
    gdn_delta_inputs *inputs = &call->inputs;
    const int plain = !inputs->qk_norm && inputs->gate_input == GDN_G_LOG && inputs->beta_input == GDN_BETA_PLAIN &&
                      (inputs->beta_factor == 0 || inputs->beta_factor == 1) && !spec->read_key;
    inputs->size = sizeof *inputs;
    if (inputs->beta_factor == 0) inputs->beta_factor = 1;
    if (plain && shorten) *inputs = (gdn_delta_inputs){ 0 };
    if (spec->interval)
        call->checkpoints =
            (gdn_checkpoints){ .size = sizeof call->checkpoints, .interval = spec->interval, .n = spec->n_checkpoints };
    if (spec->log_slots) {
        call->log = (gdn_replay_log)GDN_INIT(gdn_replay_log);
        call->log.entries.n_rows = spec->log_rows;
        call->log.entries.n_slots = spec->log_slots;
    }
    if (spec->tree) call->tree = (gdn_token_tree)GDN_INIT(gdn_token_tree);
    if (spec->digits) call->chunked = (gdn_chunked_form){ .size = sizeof call->chunked, .digits = spec->digits };
    if (spec->state_interval)
        call->rounding = (gdn_state_rounding){ .size = sizeof call->rounding, .interval = spec->state_interval };
}

void check_build_gated_delta_net(check_case *c, const check_spec *any, check_rng *rng)
{
    const delta_spec *spec = &any->gated_delta_net;
    delta_call *call = &c->args.gated_delta_net;
    *call = spec->call;
    gdn_gated_delta_net_args *a = &call->args;
    a->size = sizeof *a;
    a->state_out.n_slots = 1; /* as GDN_INIT() leaves it, where it is absent */
    a->n_seqs = spec->n_seqs;
    a->n_tokens = total_tokens(spec);
    a->n_heads_k = spec->n_heads_k;
    a->n_heads_v = spec->n_heads_v;
    a->head_dim_k = spec->dim_k;
    a->head_dim_v = spec->dim_v;
    a->gate = spec->gate;
    a->state_layout = spec->layout;
    a->n_snapshots = spec->n_snapshots;
    if (a->scale == 0) a->scale = (float)(1.0 / sqrt((double)spec->dim_k));
    a->state.n_rows = spec->n_rows;
    a->state.n_slots = spec->n_slots;
    if (spec->where != DELTA_IN_PLACE) {
        a->state_out.n_rows = spec->n_rows_out;
        a->state_out.n_slots = spec->n_slots_out;
    }
    const int has_operands = a->n_tokens || !spec->no_operands;
    add_parts(call, spec, spec->strided && check_one_in(rng, 2));
    if (has_operands) add_inputs(c, spec, rng);
    if (spec->call.inputs.gate_input >= GDN_G_RAW) {
        if (!spec->no_a) add_heads(c, spec, "inputs.ssm_a", PART(inputs.ssm_a), DELTA_A, spec->dtype_a, 1, rng);
        if (spec->has_bias)
            add_heads(c, spec, "inputs.dt_bias", PART(inputs.dt_bias), DELTA_BIAS, spec->dtype_bias,
                      spec->gate == GDN_GATE_CHANNEL ? spec->dim_k : 1, rng);
    }
    if (has_operands) add_tokens(c, spec, "out", ARG(out), spec->dtype_out, spec->n_heads_v, spec->dim_v, 1, rng);
    add_pool(c, spec, "state", ARG(state), spec->n_rows, spec->n_slots, spec->where != DELTA_APART, rng);
    if (spec->where == DELTA_APART)
        add_pool(c, spec, "state_out", ARG(state_out), spec->n_rows_out, spec->n_slots_out, 1, rng);
    else if (spec->where == DELTA_SAME) check_add_same(c, "state", "state_out", ARG(state_out));
    const check_view *state = check_find(c, "state");
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].src >= 0 && has_work(spec, s))
            fill_state(c, spec, state, spec->seq[s].src,
                       spec->seq[s].state_key ? spec->seq[s].state_key : (uint64_t)spec->seq[s].src + 1);
    if (spec->log_slots) add_log(c, spec, rng);
    add_maps(c, spec, rng);
    check_note_writes(c);
}

unsigned char *delta_token(const check_case *c, const delta_spec *spec, const char *name, unsigned char *const *image,
                           int s, int t, int h)
{
    const check_view *v = check_find(c, name);
    return token_at(c, spec, v, image[v->memory], s, t, h);
}

const float *delta_out(const check_case *c, const delta_spec *spec, unsigned char *const *image, int s, int t, int h)
{
    return (const float *)(const void *)delta_token(c, spec, "out", image, s, t, h);
}

unsigned char *delta_state(const check_case *c, const delta_spec *spec, const char *pool, unsigned char *const *image,
                           int entry, int h, int key, int value)
{
    const check_view *v = check_find(c, pool);
    return element_at(c, spec, v, image[v->memory], entry, h, key, value);
}

unsigned char *delta_digits(const check_case *c, const delta_spec *spec, const char *pool, unsigned char *const *image,
                            int entry, int h)
{
    const check_view *v = check_find(c, pool);
    (void)spec;
    return digits_at(c, v, image[v->memory], entry, h);
}

void delta_copy_slot(const check_case *from, const delta_spec *from_spec, const char *from_pool,
                     unsigned char *const *image, int from_entry, check_case *to, const delta_spec *to_spec,
                     int to_entry)
{
    unsigned char *target[CHECK_MAX_MEMORIES];
    check_initial(to, target);
    for (int h = 0; delta_digits_bytes(from_spec) && h < from_spec->n_heads_v; h++)
        memcpy(delta_digits(to, to_spec, "state", target, to_entry, h),
               delta_digits(from, from_spec, from_pool, image, from_entry, h), (size_t)delta_digits_bytes(from_spec));
    for (int h = 0; !delta_digits_bytes(from_spec) && h < from_spec->n_heads_v; h++)
        for (int j = 0; j < from_spec->dim_v; j++)
            for (int i = 0; i < from_spec->dim_k; i++)
                memcpy(delta_state(to, to_spec, "state", target, to_entry, h, i, j),
                       delta_state(from, from_spec, from_pool, image, from_entry, h, i, j),
                       (size_t)check_unit_bytes(from_spec->dtype_state));
}

void delta_copy_entry(const check_case *from, unsigned char *const *image, int from_row, int position, check_case *to,
                      int to_row, int to_position)
{
    unsigned char *target[CHECK_MAX_MEMORIES];
    check_initial(to, target);
    memcpy(entry_at(to, target, to_row, to_position), entry_at(from, image, from_row, position),
           4 * (size_t)check_find(to, "log.entries")->extent[2]);
}

void delta_copy_log(const check_case *from, unsigned char *const *image, int from_row, check_case *to, int to_row,
                    int first, int last)
{
    for (int at = first; at < last; at++) delta_copy_entry(from, image, from_row, at, to, to_row, at);
}

/* The chunked form: the position from which a sequence with a row needs its entries after the call. */
static int64_t chunked_base(const check_writes *writes, const delta_call *call, int64_t s, int64_t position,
                            int64_t length, int64_t slots, const char **wrong)
{
    const int64_t multiple = position - position % GDN_CHUNK, end = position + length;
    if (call->args.n_snapshots && length &&
        check_entry(writes, &call->args.state_dst, s, s * slots, GDN_NONE, INT32_MAX, "state_dst", wrong) >= 0)
        return end - end % GDN_CHUNK;
    return check_entry(writes, &call->log.commit, s, GDN_NONE, GDN_NONE, INT32_MAX, "log.commit", wrong) >= 0
               ? multiple
               : check_entry(writes, &call->log.base_position, s, multiple, 0, INT32_MAX, "log.base_position", wrong);
}

/* ---- What a call may write -------------------------------------------------------------------------------------- */

const char *check_writes_gated_delta_net(const void *any, const check_writes *writes)
{
    const delta_call *call = any;
    const gdn_gated_delta_net_args *a = &call->args;
    const char *wrong = NULL;
    const int own = a->state_out.data != NULL, kv = a->state_layout == GDN_STATE_KV, logged = call->log.size != 0;
    const gdn_pool *to = own ? &a->state_out : &a->state;
    const int64_t slots_in = a->state.n_slots, slots = to->n_slots, rows = to->n_rows, snapshots = a->n_snapshots;
    const int of_digits = a->state.dtype == GDN_DIGITS2 || a->state.dtype == GDN_DIGITS3;
    const int64_t lines = of_digits ? 1 : kv ? a->head_dim_k : a->head_dim_v;
    const int64_t inner = of_digits ? a->head_dim_v * ((int64_t)call->chunked.digits * a->head_dim_k + 4)
                          : kv      ? a->head_dim_v
                                    : a->head_dim_k;
    const int64_t read[4] = { a->state.n_rows, slots_in, a->n_heads_v, lines },
                  written[4] = { rows, slots, a->n_heads_v, lines };
    const gdn_tensor state = pool_tensor(&a->state), states = pool_tensor(to),
                     entries = pool_tensor(&call->log.entries);
    const int64_t n_checkpoints = call->checkpoints.size ? call->checkpoints.n : 0;
    const check_place out =
        check_resolve(&a->out, 3, (int64_t[]){ a->n_seqs, a->n_tokens, a->n_heads_v }, a->head_dim_v, 1);
    const int64_t log_rows = call->log.entries.n_rows, log_slots = call->log.entries.n_slots;
    const int64_t log_extent[4] = { log_rows, log_slots, 1, 1 };
    const int64_t decays = a->gate == GDN_GATE_CHANNEL ? a->head_dim_k : 1;
    const int64_t entry = a->n_heads_k * a->head_dim_k + a->n_heads_v * (a->head_dim_v + decays);
    const check_place log = check_resolve(&entries, 2, log_extent, entry, 0);
    const check_place source = check_resolve(&state, 4, read, inner, 0),
                      target = check_resolve(&states, 4, written, inner, 0);
    for (int pass = 0; pass < 2 && (a->n_tokens || (logged && call->log.commit.data)) && !wrong; pass++) {
        for (int64_t s = 0; s < a->n_seqs && !wrong; s++) {
            const check_sequence q = check_sequence_of(writes, &a->seq_start, s, a->n_seqs, a->n_tokens, &wrong);
            const int64_t src = check_entry(writes, &a->state_src, s, s * slots_in, GDN_SKIP,
                                            a->state.n_rows * slots_in - 1, "state_src", &wrong);
            if (src == GDN_SKIP || wrong) continue;
            if (pass == 0)
                check_tokens_written(writes, &a->out, &out, q, s, a->n_heads_v,
                                     check_unit_bytes(a->out.dtype) * (uint64_t)a->head_dim_v);
            const int64_t position =
                call->checkpoints.size || logged || call->chunked.size
                    ? check_entry(writes, &a->position, s, 0, 0, INT32_MAX - q.length, "position", &wrong)
                    : 0;
            const int64_t kept =
                wrong ? 0 : check_checkpoints(n_checkpoints ? call->checkpoints.interval : 0, position, q.length);
            const int64_t n_dst = snapshots < q.length ? snapshots : q.length;
            const int64_t n = n_dst + (kept < n_checkpoints ? kept : n_checkpoints);
            const int64_t row =
                logged ? check_entry(writes, &call->log.row, s, s, GDN_NONE, log_rows - 1, "log.row", &wrong)
                       : GDN_NONE;
            if (call->tree.size) check_parents(writes, &call->tree.parent, q, &wrong);
            const int64_t from = call->chunked.size && logged
                                     ? chunked_base(writes, call, s, position, q.length, slots, &wrong) - position
                                     : 0;
            for (int64_t t = from > 0 ? from : 0; pass && t < q.length && row >= 0 && !wrong; t++)
                writes->may(writes->user, &entries,
                            log.at + row * log.stride[0] + (position + t) % log_slots * log.stride[1],
                            4 * (uint64_t)entry);
            for (int64_t r = 0; pass && r < n + 1 && !wrong; r++) {
                const int64_t dst = r == n ? !logged ? GDN_NONE
                                                     : check_entry(writes, &call->log.commit, s, GDN_NONE, GDN_NONE,
                                                                   rows * slots - 1, "log.commit", &wrong)
                                    : r < n_dst
                                        ? check_entry(writes, &a->state_dst, s * snapshots + r, s * slots + r, GDN_NONE,
                                                      rows * slots - 1, "state_dst", &wrong)
                                        : check_entry(writes, &call->checkpoints.dst, s * n_checkpoints + r - n_dst,
                                                      GDN_NONE, GDN_NONE, rows * slots - 1, "checkpoints.dst", &wrong);
                unsigned char *slot = target.at + dst / slots * target.stride[0] + dst % slots * target.stride[1];
                for (int64_t i = 0; dst >= 0 && !wrong && i < a->n_heads_v * lines; i++)
                    writes->may(writes->user, &states,
                                slot + i / lines * target.stride[2] + i % lines * target.stride[3],
                                check_row_bytes(states.dtype, inner));
            }
        }
        if (pass == 0 && !wrong) {
            check_pool_rows(writes, &source, read, check_row_bytes(state.dtype, inner));
            check_pool_rows(writes, &target, written, check_row_bytes(states.dtype, inner));
            check_pool_rows(writes, &log, log_extent, 4 * (uint64_t)entry);
        }
    }
    return wrong;
}

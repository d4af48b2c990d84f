/* Rotating buffers, alternating repetitions, statistics; see bench.h. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/machine.h"
#include "system/system.h"

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 2 << 20,
    MIN_COPIES = 3,
    MAX_COPIES = 4096,
    MAX_REPS = 20000,
    FEWEST_REPS = 5, /* even after max_seconds */
    WARM_UP = 2,
};
/* What a repetition measures: the kernel, the peer, the peer with copies, the alternative, the roofline of memory in
 * all its variants (or the device's copy), the roofline of arithmetic. */
enum {
    CHANNEL_KERNEL,
    CHANNEL_PEER,
    CHANNEL_PEER_COPY,
    CHANNEL_OTHER,
    CHANNEL_MEMORY,
    CHANNEL_ARITHMETIC = CHANNEL_MEMORY + ROOFLINE_VARIANTS,
    CHANNELS
};

static double wall_now(void) { return 1e-9 * (double)gdn_now(); }

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

void *bench_alloc(int64_t bytes)
{
    void *memory = calloc(1, (size_t)(bytes > 0 ? bytes : 1));
    if (!memory) {
        fprintf(stderr, "gdn bench: no memory for %lld bytes\n", (long long)bytes);
        exit(1);
    }
    return memory;
}

void bench_ask_for_huge_pages(void *begin, int64_t bytes)
{
    if (bytes >= HUGE_PAGE) pages_ask_huge(begin, (uint64_t)bytes);
}

uint64_t bench_random_bits(bench_random *random) /* splitmix64 */
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float random_float(bench_random *random, float low, float high)
{
    return low + (high - low) * ((float)(bench_random_bits(random) >> 40) * 0x1p-24f);
}

float *bench_random_floats(uint64_t seed, int64_t n, float low, float high)
{
    bench_random random = { seed };
    float *x = bench_alloc(n * (int64_t)sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = random_float(&random, low, high);
    return x;
}

/* ---- Operands ---------------------------------------------------------------------------------- */

int bench_add_operand(bench_row *row, int64_t bytes, void *content)
{
    bench_operand *o = &row->operand[row->n_operands];
    o->bytes = bytes;
    o->content = content;
    return row->n_operands++;
}

gdn_tensor bench_tensor(const bench_row *row, int operand, int copy)
{
    const gdn_span *s = &row->operand[operand].copy[copy];
    gdn_tensor t = { .data = s->data, .offset = s->offset, .bytes = s->bytes, .dtype = GDN_F32 };
    return t;
}

gdn_pool bench_pool(const bench_row *row, int operand, int copy, int32_t n_rows, int32_t n_slots)
{
    const gdn_span *span = &row->operand[operand].copy[copy];
    return (gdn_pool){
        .data = span->data, .offset = span->offset, .bytes = span->bytes, .n_rows = n_rows, .n_slots = n_slots
    };
}

/* On the host one buffer holds all copies of an operand, at a huge page boundary. On a device each copy is a separate
 * buffer, since binding ranges are limited. */
static gdn_status create_copies(bench_row *row, bench_operand *o)
{
    o->copy = bench_alloc(row->work.n_copies * (int64_t)sizeof *o->copy);
    if (!row->device.shared_memory) {
        for (int c = 0; c < row->work.n_copies; c++) {
            gdn_status status = gdn_buffer_create(row->ctx, (uint64_t)o->bytes, &o->copy[c]);
            if (status) return status;
        }
        return GDN_OK;
    }
    const int64_t stride = round_up(o->bytes, ALIGNMENT), total = stride * row->work.n_copies;
    gdn_status status = gdn_buffer_create(row->ctx, (uint64_t)(total + HUGE_PAGE), &o->whole);
    if (status) return status;
    uintptr_t begin = (uintptr_t)o->whole.data + o->whole.offset;
    begin = (begin + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    bench_ask_for_huge_pages((void *)begin, total);
    for (int c = 0; c < row->work.n_copies; c++) {
        o->copy[c].data = (void *)(begin + (uintptr_t)(c * stride));
        o->copy[c].bytes = (uint64_t)o->bytes;
    }
    return GDN_OK;
}

gdn_status bench_fill(bench_row *row)
{
    int64_t bytes = 0;
    for (int i = 0; i < row->n_operands; i++) bytes += row->operand[i].bytes;
    int64_t copies = (row->rotate_bytes + bytes - 1) / bytes;
    row->work.n_copies = (int)(copies < MIN_COPIES ? MIN_COPIES : copies > MAX_COPIES ? MAX_COPIES : copies);

    for (int i = 0; i < row->n_operands; i++) {
        bench_operand *o = &row->operand[i];
        gdn_status status = create_copies(row, o);
        if (!o->content) o->content = bench_alloc(o->bytes);
        for (int c = 0; c < row->work.n_copies && !status; c++) /* also touches every page */
            status = gdn_buffer_write(row->ctx, &o->copy[c], 0, o->content, (uint64_t)o->bytes);
        free(o->content);
        o->content = NULL;
        if (status) return status;
    }
    return GDN_OK;
}

gdn_status bench_prepare(bench_row *row, gdn_status status)
{
    if (status || !row->capability.supported) return status;
    if (!row->work.n_copies && (status = bench_fill(row))) return status;
    if (row->capability.workspace_bytes == 0) return GDN_OK;
    return gdn_buffer_create(row->ctx, row->capability.workspace_bytes, &row->workspace);
}

void bench_row_destroy(bench_row *row)
{
    if (row->peer.state) row->peer.close(row->peer.state);
    if (row->copier) roofline_copy_close(row->copier);
    for (int i = 0; i < row->n_operands; i++) {
        bench_operand *o = &row->operand[i];
        if (o->whole.data) gdn_buffer_destroy(row->ctx, &o->whole);
        else
            for (int c = 0; o->copy && c < row->work.n_copies; c++)
                if (o->copy[c].data) gdn_buffer_destroy(row->ctx, &o->copy[c]);
        free(o->copy);
        free(o->content);
    }
    if (row->workspace.data) gdn_buffer_destroy(row->ctx, &row->workspace);
    memset(row, 0, sizeof *row);
}

/* ---- Rooflines ---------------------------------------------------------------------------------- */

void bench_add_traffic(bench_row *row, int operand, int64_t offset, int64_t bytes, roofline_access access)
{
    row->traffic[row->n_traffic++] = (bench_traffic){ operand, offset, bytes, access };
}

void bench_add_operand_traffic(bench_row *row, int operand, roofline_access access)
{
    bench_add_traffic(row, operand, 0, row->operand[operand].bytes, access);
}

/* Bytes of a device's copy that moves as many bytes as the kernel: half are read and half are written. */
static int64_t copied_bytes(const bench_row *row)
{
    int64_t bytes = 0;
    for (int i = 0; i < row->n_traffic; i++)
        bytes += row->traffic[i].bytes * (row->traffic[i].access == ROOFLINE_UPDATE ? 2 : 1);
    return (bytes + 1) / 2;
}

/* Moves the row's bytes. 0: the device's copy failed, and row->wrong has the error. */
static int run_memory(bench_row *row, int variant, int copy)
{
    if (row->roofline == ROOFLINE_COPY) {
        row->wrong = roofline_copy(row->copier, copied_bytes(row));
        return !row->wrong;
    }
    roofline_piece pieces[BENCH_MAX_TRAFFIC];
    for (int i = 0; i < row->n_traffic; i++) {
        const bench_traffic *t = &row->traffic[i];
        const gdn_span *span = &row->operand[t->operand].copy[copy];
        pieces[i] = (roofline_piece){ (char *)span->data + span->offset + t->offset, t->bytes, t->access };
    }
    roofline_move(row->work.threads, variant, pieces, row->n_traffic);
    return 1;
}

/* The number of vector operations of a thread with which the roofline of arithmetic takes about as long as the kernel,
 * within 0.2 and 5 ms. */
static int64_t calibrate(double kernel_seconds)
{
    int64_t n = 1000000;
    double elapsed = INFINITY; /* best of several runs on one thread, which waits for no other */
    for (int i = 0; i < 4; i++) {
        const double begin = wall_now();
        n = roofline_fma(1, n);
        elapsed = fmin(elapsed, wall_now() - begin);
    }
    const double wanted = kernel_seconds < 2e-4 ? 2e-4 : kernel_seconds > 5e-3 ? 5e-3 : kernel_seconds;
    return (int64_t)((double)n * wanted / elapsed) + 1;
}

/* ---- Statistics -------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* True if the sample was not interrupted. Interrupted samples are stored negated: one with an involuntary context
 * switch depends on other programs more than on the code, for kernel, roofline and peer alike. */
static int clean(double sample) { return sample > 0; }

/* The value below which a share `at` of x[i] / y[i] lies, or of x if y is NULL; of the clean samples if there are
 * enough. */
static double quantile(const double *x, const double *y, int n, double at)
{
    if (n == 0) return NAN;
    double *sorted = bench_alloc(n * (int64_t)sizeof *sorted);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (clean(x[i]) && (!y || clean(y[i]))) sorted[kept++] = y ? x[i] / y[i] : x[i];
    if (kept < FEWEST_REPS)
        for (kept = 0; kept < n; kept++) sorted[kept] = fabs(y ? x[kept] / y[kept] : x[kept]);
    qsort(sorted, (size_t)kept, sizeof *sorted, compare_doubles);
    const double place = at * (kept - 1);
    const int below = (int)place, above = below + 1 < kept ? below + 1 : below;
    const double value = sorted[below] + (place - below) * (sorted[above] - sorted[below]);
    free(sorted);
    return value;
}

static double median_ratio(const double *x, const double *y, int n) { return quantile(x, y, n, 0.5); }

/* True if there are enough clean pairs for a meaningful ratio. */
static int reliable(const double *x, const double *y, int n)
{
    int pairs = 0;
    for (int i = 0; i < n; i++) pairs += clean(x[i]) && clean(y[i]);
    return pairs >= FEWEST_REPS;
}

static double least(const double *x, int n)
{
    double value = INFINITY;
    for (int i = 0; i < n; i++) value = fmin(value, fabs(x[i]));
    return value;
}

/* ---- Repetitions ------------------------------------------------------------------------------- */

typedef struct repetition {
    bench_row *row;
    int copy; /* next copy */
    double *samples[CHANNELS];
    int capacity, n, n_clean; /* n_clean: without interruption of the kernel */
    double cpu_seconds;
    int channel[CHANNELS]; /* the row's channels, in the order of the last repetition */
    int n_channels;
    int64_t fma_count; /* vector operations of the roofline of arithmetic, of one thread */
    bench_random random;
} repetition;

static int next_copy(repetition *rep)
{
    const int copy = rep->copy;
    rep->copy = (copy + 1) % rep->row->work.n_copies;
    return copy;
}

static gdn_status once(repetition *rep, gdn_status (*launch)(bench_row *row, int copy), double *seconds)
{
    const int copy = next_copy(rep);
    const double cpu = process_seconds(), begin = wall_now();
    gdn_status status = launch(rep->row, copy);
    if (!status) status = gdn_synchronize(rep->row->ctx, NULL);
    *seconds = wall_now() - begin;
    if (launch == rep->row->launch) rep->cpu_seconds += process_seconds() - cpu;
    return status;
}

static void grow(repetition *rep, int channels)
{
    rep->capacity = rep->capacity ? 2 * rep->capacity : 256;
    for (int i = 0; i < channels; i++) {
        rep->samples[i] = realloc(rep->samples[i], (size_t)rep->capacity * sizeof(double));
        if (!rep->samples[i]) bench_alloc(INT64_MAX); /* reports and ends */
    }
}

/* Measures a call of `channel` on the next copy. */
static gdn_status sample_channel(repetition *rep, int channel, double *sample)
{
    bench_row *row = rep->row;
    gdn_status status = GDN_OK;
    double seconds;
    const int64_t before = process_interruptions();
    if (channel == CHANNEL_KERNEL) {
        status = once(rep, row->launch, &seconds);
    } else if (channel == CHANNEL_OTHER) {
        status = once(rep, row->other, &seconds);
    } else {
        const int copy = next_copy(rep);
        const double begin = wall_now();
        int good = 1;
        int64_t done = 0;
        if (channel == CHANNEL_ARITHMETIC) done = roofline_fma(row->work.threads, rep->fma_count);
        else if (channel >= CHANNEL_MEMORY) good = run_memory(row, channel - CHANNEL_MEMORY, copy);
        else good = row->peer.run(row->peer.state, channel == CHANNEL_PEER_COPY, copy);
        seconds = wall_now() - begin;
        if (done) seconds *= row->lane_ops / ((double)done * row->work.threads * roofline_lanes());
        if (!good) status = GDN_INTERNAL;
    }
    *sample = process_interruptions() == before ? seconds : -seconds;
    return status;
}

static void list_channels(repetition *rep)
{
    const bench_row *row = rep->row;
    rep->channel[rep->n_channels++] = CHANNEL_KERNEL;
    if (row->peer.state) rep->channel[rep->n_channels++] = CHANNEL_PEER;
    if (row->peer.state && row->peer.has_copy) rep->channel[rep->n_channels++] = CHANNEL_PEER_COPY;
    if (row->other) rep->channel[rep->n_channels++] = CHANNEL_OTHER;
    const int n_variants = row->roofline == ROOFLINE_HOST ? ROOFLINE_VARIANTS : row->roofline == ROOFLINE_COPY;
    for (int i = 0; i < n_variants && row->n_traffic; i++) rep->channel[rep->n_channels++] = CHANNEL_MEMORY + i;
    if (row->roofline == ROOFLINE_HOST && row->lane_ops > 0) rep->channel[rep->n_channels++] = CHANNEL_ARITHMETIC;
}

/* Runs every channel once, in random order, since each call finds dirty lines of the previous one in the caches. */
static gdn_status repeat(repetition *rep)
{
    double sample[CHANNELS] = { 0 };
    gdn_status status = GDN_OK;
    for (int i = rep->n_channels - 1; i > 0; i--) {
        const int j = (int)(bench_random_bits(&rep->random) % (uint64_t)(i + 1)), other = rep->channel[j];
        rep->channel[j] = rep->channel[i];
        rep->channel[i] = other;
    }
    for (int i = 0; i < rep->n_channels && !status; i++)
        status = sample_channel(rep, rep->channel[i], &sample[rep->channel[i]]);
    if (status) return status;
    if (rep->n == rep->capacity) grow(rep, CHANNELS);
    for (int i = 0; i < CHANNELS; i++) rep->samples[i][rep->n] = sample[i];
    rep->n++;
    rep->n_clean += clean(sample[CHANNEL_KERNEL]);
    return GDN_OK;
}

static gdn_status repeat_enough(repetition *rep, const bench_limits *limits)
{
    gdn_status status = GDN_OK;
    double kernel_seconds = 0;
    list_channels(rep);
    for (int i = 0; i < WARM_UP && !status; i++) status = once(rep, rep->row->launch, &kernel_seconds);
    if (rep->row->lane_ops > 0) rep->fma_count = calibrate(kernel_seconds);
    if (!status) status = repeat(rep); /* warm-up of rooflines and peers */
    rep->n = rep->n_clean = 0;
    rep->cpu_seconds = 0;

    /* Also stops by the total time: a kernel much faster than its rooflines and peer would take long to reach
     * min_seconds.
     */
    const double enough = 2 * limits->min_seconds * rep->n_channels;
    const double begin = wall_now();
    double spent = 0;
    while (!status && rep->n < MAX_REPS) {
        const double elapsed = wall_now() - begin;
        if (rep->n_clean >= limits->min_reps && (spent >= limits->min_seconds || elapsed >= enough)) break;
        if (rep->n >= FEWEST_REPS && elapsed >= limits->max_seconds) break;
        status = repeat(rep);
        if (!status) spent += fabs(rep->samples[CHANNEL_KERNEL][rep->n - 1]);
    }
    return status;
}

static void evaluate(const repetition *rep, bench_result *result)
{
    const bench_row *row = rep->row;
    const double *kernel = rep->samples[CHANNEL_KERNEL];
    const int n = rep->n;
    result->reps = n;
    result->interrupted = n - rep->n_clean;
    result->time = median_ratio(kernel, NULL, n);
    result->time_min = least(kernel, n);
    result->cpu_time = rep->cpu_seconds / n;

    /* The fastest variant of memory, then the slower of memory and arithmetic. */
    int by = 0;
    for (int i = 0; i < rep->n_channels; i++) {
        const int channel = rep->channel[i];
        if (channel < CHANNEL_MEMORY || channel == CHANNEL_ARITHMETIC) continue;
        const double seconds = median_ratio(rep->samples[channel], NULL, n);
        if (by && seconds >= result->roofline_time) continue;
        by = channel;
        result->roofline_time = seconds;
    }
    if (row->roofline == ROOFLINE_HOST && row->lane_ops > 0) {
        const double seconds = median_ratio(rep->samples[CHANNEL_ARITHMETIC], NULL, n);
        if (!by || seconds > result->roofline_time) {
            by = CHANNEL_ARITHMETIC;
            result->roofline_time = seconds;
        }
    }
    if (by) {
        const int copied = row->roofline == ROOFLINE_COPY, arithmetic = by == CHANNEL_ARITHMETIC;
        result->roofline_share_raw = median_ratio(rep->samples[by], kernel, n);
        result->roofline_reliable = reliable(rep->samples[by], kernel, n);
        result->roofline_time_min = least(rep->samples[by], n);
        result->roofline_spread =
            (quantile(rep->samples[by], NULL, n, 0.75) - quantile(rep->samples[by], NULL, n, 0.25)) /
            result->roofline_time;
        result->roofline_by = copied ? "copy" : arithmetic ? "arithmetic" : "memory";
        result->roofline_variant = copied       ? "cuMemcpyDtoDAsync"
                                   : arithmetic ? "fma"
                                                : roofline_variant_name[by - CHANNEL_MEMORY];
        result->roofline_bytes = copied ? 2 * copied_bytes(row) : 0;
    }
    if (row->other) {
        result->other_name = row->other_ratio;
        result->other_time = median_ratio(rep->samples[CHANNEL_OTHER], NULL, n);
        result->other_ratio = median_ratio(rep->samples[CHANNEL_OTHER], kernel, n);
        result->other_reliable = reliable(rep->samples[CHANNEL_OTHER], kernel, n);
    }
    if (row->peer.state) {
        result->peer_time = median_ratio(rep->samples[CHANNEL_PEER], NULL, n);
        result->peer_ratio = median_ratio(rep->samples[CHANNEL_PEER], kernel, n);
        result->peer_reliable = reliable(rep->samples[CHANNEL_PEER], kernel, n);
        if (row->peer.has_copy) {
            result->peer_reliable &= reliable(rep->samples[CHANNEL_PEER_COPY], kernel, n);
            result->peer_copy_time = median_ratio(rep->samples[CHANNEL_PEER_COPY], NULL, n);
            result->peer_copy_ratio = median_ratio(rep->samples[CHANNEL_PEER_COPY], kernel, n);
        }
    }
}

void bench_measure(bench_row *row, const bench_limits *limits, bench_result *result)
{
    repetition rep = { .row = row };
    result->work = row->work;
    result->exact = row->capability.exact;
    result->peer_nmse = row->peer.state ? row->peer.nmse : NAN;
    snprintf(result->implementation, sizeof result->implementation, "%s", row->capability.implementation);
    if (row->roofline == ROOFLINE_COPY && row->n_traffic)
        row->wrong = roofline_copy_open(row->ctx, copied_bytes(row), row->rotate_bytes, &row->copier);
    if (!row->wrong && repeat_enough(&rep, limits) == GDN_OK) evaluate(&rep, result);
    else {
        result->skipped = row->wrong ? row->wrong : "a call failed while it was timed";
        result->failed = 1;
    }
    for (int i = 0; i < CHANNELS; i++) free(rep.samples[i]);
}

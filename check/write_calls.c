/* The file of calls. See write_calls.h. */
#include "write_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "system/files.h"

enum { MOST_BYTES = 192 << 10 }; /* of a call's memory: an oracle in Python takes long for more */

static FILE *file;
static const char *name = "";

typedef enum kind { INT32, INT64, INT64_PAIR, BITS } kind;

/* A number of a call. It is given if the struct that it is a member of has a size. */
typedef struct number {
    const char *name;
    size_t at, size_at;
    kind kind;
} number;

#define DELTA(member, kind)                                                                                            \
    {                                                                                                                  \
#member, offsetof(delta_call, args.member), 0, kind                                                            \
    }
#define DELTA_IN(part, member, kind)                                                                                   \
    {                                                                                                                  \
#part "." #member, offsetof(delta_call, part.member), offsetof(delta_call, part.size), kind                    \
    }
#define CONV(member, kind)                                                                                             \
    {                                                                                                                  \
#member, offsetof(conv_call, args.member), 0, kind                                                             \
    }
#define CONV_IN(part, member, kind)                                                                                    \
    {                                                                                                                  \
#part "." #member, offsetof(conv_call, part.member), offsetof(conv_call, part.size), kind                      \
    }
#define ROWS(member, kind)                                                                                             \
    {                                                                                                                  \
#member, offsetof(gdn_set_rows_args, member), 0, kind                                                          \
    }
#define LAST                                                                                                           \
    {                                                                                                                  \
        NULL, 0, 0, INT32                                                                                              \
    }

static const number *const numbers_of[CHECK_KERNEL_COUNT] = {
    [CHECK_KERNEL_gated_delta_net] =
        (const number[]){
            DELTA(n_seqs, INT32),
            DELTA(n_tokens, INT32),
            DELTA(n_heads_k, INT32),
            DELTA(n_heads_v, INT32),
            DELTA(head_dim_k, INT32),
            DELTA(head_dim_v, INT32),
            DELTA(head_map, INT32),
            DELTA(gate, INT32),
            DELTA(state_layout, INT32),
            DELTA(n_snapshots, INT32),
            DELTA(scale, BITS),
            DELTA_IN(inputs, qk_norm, INT32),
            DELTA_IN(inputs, qk_norm_eps, BITS),
            DELTA_IN(inputs, gate_input, INT32),
            DELTA_IN(inputs, beta_input, INT32),
            DELTA_IN(inputs, beta_factor, BITS),
            DELTA_IN(inputs, lower_bound, BITS),
            DELTA_IN(log, size, INT32),
            DELTA_IN(checkpoints, interval, INT32),
            DELTA_IN(checkpoints, n, INT32),
            DELTA_IN(tree, size, INT32),
            DELTA_IN(rounding, interval, INT32),
            DELTA_IN(chunked, digits, INT32),
            LAST,
        },
    [CHECK_KERNEL_ssm_conv] =
        (const number[]){
            CONV(n_seqs, INT32),
            CONV(n_tokens, INT32),
            CONV(n_channels, INT32),
            CONV(kernel_width, INT32),
            CONV(activation, INT32),
            CONV_IN(checkpoints, interval, INT32),
            CONV_IN(checkpoints, n, INT32),
            CONV_IN(tree, size, INT32),
            LAST,
        },
    [CHECK_KERNEL_set_rows] =
        (const number[]){
            ROWS(n_columns, INT64),
            ROWS(n_rows, INT64),
            ROWS(n_rows_dst, INT64),
            ROWS(n_batch, INT64_PAIR),
            ROWS(index_batch, INT64_PAIR),
            LAST,
        },
};

int check_calls_begin(const char *path, char *message, uint64_t message_bytes)
{
    file = file_open(path, "w");
    if (!file) (void)snprintf(message, message_bytes, "%s cannot be written", path);
    return file != NULL;
}

void check_calls_name(const char *of_calls) { name = of_calls; }

int check_calls_end(void)
{
    const int good = !file || !ferror(file);
    const int closed = !file || !fclose(file);
    file = NULL;
    return good && closed;
}

static int32_t int32_at(const check_case *c, size_t at)
{
    int32_t x;
    memcpy(&x, (const char *)&c->args + at, 4);
    return x;
}

/* A number, or two. */
static void load_number(const check_case *c, const number *n, int64_t pair[2])
{
    pair[0] = pair[1] = 0;
    if (n->kind == INT32 || n->kind == BITS) pair[0] = int32_at(c, n->at);
    else memcpy(pair, (const char *)&c->args + n->at, n->kind == INT64_PAIR ? 16 : 8);
}

static int kernel_of(const check_case *c)
{
    int k = 0;
    while (strcmp(check_kernels[k]->name, c->kernel->name) != 0)
        k++; /* tests have kernels of their own, by these names */
    return k;
}

uint64_t check_calls_hash(uint64_t hash, const check_case *c)
{
    for (const number *n = numbers_of[kernel_of(c)]; n->name; n++) {
        int64_t numbers[3] = { int32_at(c, n->size_at) != 0 };
        if (numbers[0] && n->at != n->size_at) load_number(c, n, numbers + 1); /* sizes have pointers in them */
        hash = check_hash(hash, numbers, 3);
    }
    for (const check_operand *o = c->kernel->operand; o->name; o++)
        if (o->is_pool) {
            const int64_t sizes[] = { int32_at(c, o->field + offsetof(gdn_pool, n_rows)),
                                      int32_at(c, o->field + offsetof(gdn_pool, n_slots)) };
            hash = check_hash(hash, sizes, 2);
        }
    return hash;
}

static void write_number(const check_case *c, const number *n)
{
    int64_t pair[2];
    load_number(c, n, pair);
    (void)fprintf(file, "\"%s\":", n->name);
    if (n->kind == INT32) (void)fprintf(file, "%d", (int)pair[0]);
    if (n->kind == BITS) (void)fprintf(file, "\"%08x\"", (unsigned)pair[0]);
    if (n->kind == INT64) (void)fprintf(file, "%" PRId64, pair[0]);
    if (n->kind == INT64_PAIR) (void)fprintf(file, "[%" PRId64 ",%" PRId64 "]", pair[0], pair[1]);
}

/* Where an operand lies; null if the call does not have it. */
static void write_operand(const check_case *c, const check_operand *o)
{
    const check_view *v = NULL;
    for (int i = 0; i < c->n_views; i++)
        if (c->view[i].field == o->field) v = &c->view[i];
    (void)fprintf(file, "\"%s\":", o->name);
    if (!v) {
        (void)fputs("null", file);
        return;
    }
    (void)fprintf(file, "{\"memory\":%d,\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64, v->memory,
                  c->memory[v->memory].before + (uint64_t)v->first, v->stated);
    if (!v->is_span)
        (void)fprintf(file, ",\"stride\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "],\"dtype\":%d", v->given[0],
                      v->given[1], v->given[2], v->given[3], (int)v->dtype);
    if (o->is_pool)
        (void)fprintf(file, ",\"n_rows\":%d,\"n_slots\":%d", (int)int32_at(c, o->field + offsetof(gdn_pool, n_rows)),
                      (int)int32_at(c, o->field + offsetof(gdn_pool, n_slots)));
    (void)fputc('}', file);
}

void check_calls_write(const check_case *c, unsigned char *const *after)
{
    const char *before = "";
    uint64_t bytes = 0;
    for (int m = 0; m < c->n_memories; m++) bytes += c->memory[m].bytes;
    if (!file || bytes > MOST_BYTES) return;
    (void)fprintf(file, "{\"kernel\":\"%s\",\"case\":\"%s\",\"numbers\":{", c->kernel->name, name);
    for (const number *n = numbers_of[kernel_of(c)]; n->name; n++) {
        if (!int32_at(c, n->size_at)) continue;
        (void)fputs(before, file);
        write_number(c, n);
        before = ",";
    }
    (void)fputs("},\"operands\":{", file);
    for (const check_operand *o = c->kernel->operand; o->name; o++) {
        if (o > c->kernel->operand) (void)fputc(',', file);
        write_operand(c, o);
    }
    (void)fputs("},\"memory\":[", file);
    for (int m = 0; m < c->n_memories; m++) (void)fprintf(file, "%s%" PRIu64, m ? "," : "", c->memory[m].bytes);
    (void)fputs("]}\n", file);
    for (int m = 0; m < c->n_memories; m++) {
        (void)fwrite(c->memory[m].image, 1, c->memory[m].bytes, file);
        (void)fwrite(after[m], 1, c->memory[m].bytes, file);
    }
}

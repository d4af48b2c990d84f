/* Known answers: small fixed calls through a device's real kernels, whose results are compared bit for bit with what
 * the reference makes of them in this process. The probe (gpu/probe.h) says what a device's arithmetic does; this says
 * whether its compiler has made of a kernel what the source says. It is asked once for each pipeline, before a call
 * gets its results from there. */
#ifndef GDN_GPU_ANSWERS_H
#define GDN_GPU_ANSWERS_H

#include "core/backend.h"

/* ---- The calls, the same on every device ---- */
enum {
    GDN_ANSWERS = 2120, /* of all kernels */
    GDN_ANSWER_PARTS = 20,
    GDN_ANSWER_BYTES = 1 << 18 /* of memory that holds any call's operands and workspace */
};

typedef struct gdn_gpu_part { /* an operand, or a map, in the call's memory */
    uint64_t at;
    uint32_t n; /* elements */
    int32_t dtype, values;
    const int32_t *map;
} gdn_gpu_part;

typedef struct gdn_gpu_answer_call {
    gdn_kernel kernel;
    union {
#define GDN_KERNEL(stem, number, title) gdn_##stem##_args stem;
#include "core/kernels.def"
#undef GDN_KERNEL
    } args;
    gdn_delta_inputs inputs; /* parts that the arguments point to: a call is not copied */
    gdn_replay_log log;
    gdn_checkpoints checkpoints;
    gdn_token_tree tree;
    gdn_state_rounding rounding;
    void *data; /* of every span of the call */
    int kind;   /* calls of one pipeline that differ in it take other ways through it: types, forms, layouts */
    gdn_gpu_part part[GDN_ANSWER_PARTS];
    uint32_t n_parts;
    uint64_t written, bytes; /* where what is written begins, and the end of it and of all operands */
} gdn_gpu_answer_call;

/* The call of that number, 0 to GDN_ANSWERS - 1, over memory of GDN_ANSWER_BYTES that spans name as `data`. */
void gdn_gpu_answer_call_of(int number, void *data, gdn_gpu_answer_call *call);
/* Of one kernel, in its file here: makes its call of that number, from 0 on; the number of them. -1: only that. */
#define GDN_KERNEL(stem, number, title) int gdn_gpu_answers_##stem(int which, gdn_gpu_answer_call *call);
#include "core/kernels.def"
#undef GDN_KERNEL
/* What the memory holds before the call, `bytes` of it. */
void gdn_gpu_answer_fill(const gdn_gpu_answer_call *call, unsigned char *memory);
/* Of the memory from `written` to `bytes`, after the call: 64 bits of all of it. */
uint64_t gdn_gpu_answer_digest(const gdn_gpu_answer_call *call, const unsigned char *memory);

/* ---- answer_calls.c: what calls are made of. Operands follow one another in the order in which they are made. ---- */
enum { /* what an operand holds */
       GDN_ANSWER_OF_ONE /* n / 128 */,
       GDN_ANSWER_OF_SIXTEENTHS /* n / 2048, of keys */,
       GDN_ANSWER_GATES /* -(0 .. 63) / 64 */,
       GDN_ANSWER_SHARES /* (1 .. 64) / 64 */,
       GDN_ANSWER_LONG /* n / 2^20 of 20 bits, which 16 bits do not hold */
};
gdn_tensor gdn_gpu_answer_tensor(gdn_gpu_answer_call *c, int32_t dtype, int n, int values);
gdn_pool gdn_gpu_answer_pool(gdn_gpu_answer_call *c, int32_t dtype, int n_rows, int n_slots, int slot, int values);
gdn_span gdn_gpu_answer_map(gdn_gpu_answer_call *c, const int32_t *values, int n);
gdn_span gdn_gpu_answer_workspace(const gdn_gpu_answer_call *c);
void gdn_gpu_answer_results(gdn_gpu_answer_call *c); /* what comes now is written by the call */
/* A tree: the first token follows the state, the next two follow it, the last one the second. */
enum { GDN_ANSWER_TREE_TOKENS = 4 };
extern const int32_t gdn_gpu_answer_parents[GDN_ANSWER_TREE_TOKENS];

/* ---- answers.c ---- */
enum { GDN_ANSWERS_KNOWN = 512, GDN_ANSWERS_LATER = 128 };

/* What a call runs on: the kernel, and 64 bits of all that decides what the device's compiler makes of it. */
typedef struct gdn_gpu_pipeline {
    gdn_kernel kernel;
    uint64_t id;
} gdn_gpu_pipeline;

/* A context's. */
typedef struct gdn_gpu_answers {
    int off;  /* not asked for: by the environment, or the implementation says itself that it is not exact */
    int busy; /* one is being asked */
    int planned;
    uint64_t
        known[GDN_ANSWERS]; /* pipelines of each known call, once they are planned; 0: the device does not take it */
    unsigned char kind[GDN_ANSWERS];
    uint32_t n_right, n_later;
    uint64_t right[GDN_ANSWERS_KNOWN];         /* pipelines that gave the right answer */
    gdn_gpu_pipeline later[GDN_ANSWERS_LATER]; /* met by calls that only record */
} gdn_gpu_answers;

/* Reads GDN_KNOWN_ANSWERS. */
gdn_status gdn_gpu_answers_open(gdn_gpu_answers *answers);
/* Of a pipeline the first call of each kind is asked.
 * Asks all of the context's pipelines, as far as this process has not asked the same device before. UNSUPPORTED, with a
 * text that names the pipeline, where an answer is wrong. */
gdn_status gdn_gpu_answers_all(gdn_context *ctx);
/* For a backend that makes pipelines when they are needed: asks the one of this plan, before a call runs there. A call
 * that only records does not wait for the device, so that it is gdn_gpu_answers_later() that asks then. */
gdn_status gdn_gpu_answers_ask(gdn_context *ctx, gdn_kernel kernel, const gdn_plan *plan, int recording);
gdn_status gdn_gpu_answers_later(gdn_context *ctx);

#endif

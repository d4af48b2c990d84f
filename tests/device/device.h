/* What the tests of the GPU backends share: a small call whose result is known, and bad values in every map. They go
 * through the public interface only. */
#ifndef GDN_TEST_DEVICE_H
#define GDN_TEST_DEVICE_H

#include "gdn/gdn.h"
#include "tests/harness.h"

/* A decode step of gated_delta_net for 3 sequences over a pool of 3 rows, and what the reference makes of it. */
enum {
    SEQS = 3,
    HEADS = 2,
    DIM = 32,
    N_Q = SEQS * HEADS * DIM,
    N_G = SEQS * HEADS,
    N_STATE = SEQS * HEADS * DIM * DIM
};
typedef struct step {
    float q[N_Q], k[N_Q], v[N_Q], g[N_G], beta[N_G], state[N_STATE];
    float out[N_Q];
    int32_t src[SEQS], dst[SEQS];
    gdn_gated_delta_net_args args; /* shapes only */
} step;
void step_init(step *s, uint32_t seed);
/* n steps with the same inputs, by the reference: state and out. */
void step_reference(step *s, int n);
void step_reference_at(step *s, int n, uint32_t level);

/* The same on a context: buffers, a call, and a comparison. */
typedef struct step_on {
    gdn_context *ctx;
    gdn_gated_delta_net_args args;
    gdn_span span[10];
} step_on;
gdn_status step_put(step_on *on, gdn_context *ctx, const step *s);
gdn_status step_run(step_on *on, gdn_stream stream);
int step_same(step_on *on, const step *expected); /* 1: state and out have the reference's bits */
void step_drop(step_on *on);
gdn_context *step_open(step_on *on, gdn_context *ctx); /* the step as it begins, on the context, which comes back */
void step_close(step_on *on);                          /* and the context */

/* ---- maps.c ---- */
/* Calls with bad values in every map of every kernel; results and reports are checked. */
void device_bad_maps(gdn_context *ctx);

#endif

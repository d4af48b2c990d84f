/* What the test programs of the GPU backends share: a step whose result is known, bad values in every map, the list of
 * tests. Also the tests that are the same on every device. */
#ifndef GDN_TEST_DEVICE_SUITE_H
#define GDN_TEST_DEVICE_SUITE_H

#include <stddef.h>

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

/* ---- rules.c ---- */
/* Calls that break a rule without any map. */
void device_rules(gdn_context *ctx);

/* ---- suite.c ---- */
extern step start, wanted, wanted_twice; /* before, after one step, after two */

/* ---- The list ---- */
typedef struct suite_test {
    const char *name;
    void (*run)(void);
    int leaves; /* 1: objects stay behind for good; for `look` */
} suite_test;

void suite_init(void); /* fills in the steps */
/* Runs the tests and says how each went; look, where given, is called before and after each. Returns 1 where one
 * failed. With a name in `only` runs that test, and leaves at the first failure: for planted mistakes. */
int suite_run(const suite_test *tests, size_t n, void (*look)(const suite_test *test, int after), const char *only);

/* ---- Contexts ---- */
/* native and timeout_ns may be NULL and 0, the defaults. */
gdn_context *suite_open(int32_t backend, const void *native, uint64_t timeout_ns);
/* Do devices run the self-test? Not where mistakes are planted, which other tests have to notice. */
int suite_asks(void);
/* The description is refused, with a text that contains `says`. */
void suite_refuses(const gdn_context_desc *desc, gdn_status status, const char *says);
/* Each of them is refused as the description's native, as an argument, with a text that contains `says`. */
typedef struct suite_native {
    const void *native;
    const char *says;
} suite_native;
void suite_refuses_natives(gdn_context_desc desc, const suite_native *wrong, size_t n);
/* There is neither a device 7 nor an implementation of that name, with the program's objects or without. */
void suite_refuses_names(gdn_context_desc desc);
/* A context and a step on it. *same: 1 where the result is right. Returns the first status that is an error; the
 * context is there, and on is to be dropped, where *ctx is not NULL. */
gdn_status suite_try(const gdn_context_desc *desc, gdn_context **ctx, step_on *on, int *same);

/* ---- Tests ---- */
void suite_default(int32_t backend); /* of an emulated device: what it says of itself; two steps */
void suite_move(const step_on *on);  /* after two steps: a record of the states, to the host and to the device */
/* Each with a context of its own, and as many calls in flight. */
void suite_two_threads(int32_t backend, int queued);
void suite_bad_maps(int32_t backend);
/* Of a device with less than 2^40 bytes; the error has the text. Destroys the context. */
void suite_out_of_memory(gdn_context *ctx, const char *text);
/* Every call of an emulated driver that creating and using a context makes fails once: a status and a text, nothing
 * left behind, nothing broken. */
typedef struct suite_failing {
    void (*fail)(const char *function, unsigned nth); /* its nth call from now; 0: none */
    unsigned long (*calls)(const char *function);     /* so far */
    long (*alive)(void);                              /* objects */
    int at_least;                                     /* so many calls fail */
    int reads_fail;                                   /* 1: reading results may be what fails */
    const char *text;                                 /* of every error */
} suite_failing;
typedef struct suite_function {
    const char *name; /* ends with NULL */
    int optional;     /* 1: a call can do without */
    int leaves;       /* 1: what could not be freed stays until the device's context goes */
} suite_function;
void suite_every_failure(const gdn_context_desc *desc, const suite_failing *driver, const suite_function *functions);
/* Destroys a context whose device was lost, after a look at whether the library remembers that. */
void suite_lost(step_on *on);
/* A device that hangs. Calls are queued, and waits for them give up after the short time *timeout_ns. Then the device
 * goes on, and the queued step has the right result. hang switches the device between the two. */
void suite_hang_begins(step_on *on, void (*hang)(int on), uint64_t *timeout_ns);
void suite_hang_ends(step_on *on, void (*hang)(int on), uint64_t *timeout_ns);

#endif

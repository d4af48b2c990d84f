/* What the parts of test_scheduler share. */
#ifndef GDN_TEST_SCHEDULER_H
#define GDN_TEST_SCHEDULER_H

#include "engine_fixture.h"

enum { N = 7, CONTEXT = 96, MAX_STEPS = 4000 };

typedef struct request {
    int32_t prompt[CONTEXT], n_prompt, n_max;
    rt_sampling sampling;
    int32_t stop, n_stop, interrupt_at; /* n_stop 1: the token that ends it; 0: never interrupted */
    int32_t boundary[RT_CHAT_BOUNDARIES];
} request;

/* What the controller of speculation says: ALWAYS drafts without asking it; of TURNS every way for some steps. */
enum { ALWAYS, NEVER, TURNS };

/* How requests are run. cells 0: enough for all. */
typedef struct way {
    int32_t parallel, cells, draft_max, n_batch, step_rows, kv_type;
    rt_spec spec;
    int64_t fail_every; /* launches; 0: never */
    int32_t n_prefixes, interval;
    int answers;
    int64_t stop_every; /* calls of the engine's stop function; 0: never */
    const char *isa;
    int32_t n_threads;
    uint32_t backend;
    float p_min;
} way;

typedef struct totals {
    rt_totals t;
    rt_counters counters;
    int32_t steps, failed, most_running;
} totals;

/* Runs n requests and audits the memory. */
totals run(const rt_model *model, const request *r, int32_t n, const way *w, fixture_stream *out);

/* test_prefix_requests.c */
void prefix_requests(const rt_model *model, const char *name);

#endif

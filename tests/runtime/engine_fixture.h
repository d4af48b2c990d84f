/* What the tests of the engine and the scheduler share: models that ship, and engines on them. */
#ifndef GDN_TEST_ENGINE_FIXTURE_H
#define GDN_TEST_ENGINE_FIXTURE_H

#include "runtime/base/error.h"
#include "runtime/serve/scheduler.h"
#include "tests/harness.h"

/* FOLDER/name: the model and its path, or the end of the program. */
rt_model *fixture_model(const char *folder, const char *name);
/* The small models of every architecture. */
enum { FIXTURE_TINY = 3 };
extern const char *const fixture_tiny[FIXTURE_TINY];
rt_model *fixture_tiny_model(const char *folder, int i);
const char *fixture_path(const char *folder, const char *name); /* static storage, of the last call */

/* An engine with these and sensible others; the end of the program where it cannot be made. */
typedef struct fixture_engine {
    const char *isa;
    int32_t n_threads, n_seqs, n_ctx, n_batch, n_rollback, draft, kv_type;
    uint32_t backend;
    int32_t n_cells; /* n_ctx: of one sequence */
    int32_t n_prefixes, prefix_interval;
    rt_rollback rollback;
    int32_t commit_after, draft_vocab, digits;
} fixture_engine;
rt_engine *fixture_open(const rt_model *model, const fixture_engine *with);
/* Such an engine, and a scheduler of all its sequences on it; `like` says the rest. */
rt_scheduler *fixture_schedule(const rt_model *model, const fixture_engine *with, const rt_scheduler_desc *like,
                               rt_engine **engine);

/* What a request of a scheduler came to. */
enum { FIXTURE_TOKENS = 96 };
typedef struct fixture_stream {
    int32_t token[FIXTURE_TOKENS], n, finish, preempted;
    char error[256]; /* empty unless it failed */
} fixture_stream;
void fixture_result(const rt_scheduler *s, int32_t id, fixture_stream *out); /* or the end of the program */
int fixture_same(const fixture_stream *a, const fixture_stream *b);          /* the same tokens, ended the same way */

#endif

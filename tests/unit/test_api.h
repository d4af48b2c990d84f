/* What the files of the API test share: the contexts to test, and one small valid call per kernel.
 *
 * A fixture keeps all memory that its call can see in one struct, so that "nothing was written" is one
 * comparison of the whole struct, canaries and inputs included. Tests take the valid call, change one
 * thing, and say what must happen. */
#ifndef GDN_TEST_API_H
#define GDN_TEST_API_H

#include "tests/harness.h"
#include "check/calls.h"
#include "check/case.h"

/* ---- Contexts: the reference first, then every implementation whose memory is the host's ------------- */

enum { API_MAX_TARGETS = 16, API_THREADS = 3 };

typedef struct api_target {
    gdn_context *ctx;
    char name[2 * GDN_NAME_MAX];
} api_target;

extern api_target api_target_list[API_MAX_TARGETS];
extern int api_target_count;

void api_open_targets(void);
void api_close_targets(void);

/* ---- Fixtures ------------------------------------------------------------------------------------------ */

enum { API_WORKSPACE = 1 << 21 }; /* the chunked reference takes most */
/* The log of delta_memory: numbers k of 2 heads of 16, d of 4 heads of 32, a. */
enum { API_LOG_ROWS = 3, API_LOG_SLOTS = 6, API_LOG_ENTRY = 2 * 16 + 4 * 32 + 4 };

typedef struct api_fixture {
    const check_kernel *kernel;
    void *args, *args_copy;
    void *memory, *before, *first; /* first: what the reference made of an accepted call */
    size_t memory_bytes;
    size_t result_bytes; /* memory without the workspace at its end */
    void (*reset)(void);
} api_fixture;

/* The operands (map 0) or the maps (1) that the valid call has, one after another: the one after o, the first where o
 * is NULL, or NULL. The call is valid again. */
const check_operand *api_next(const api_fixture *f, const check_operand *o, int map);
#define EACH_OPERAND(f, o) (const check_operand *o = api_next(f, NULL, 0); o; o = api_next(f, o, 0))
#define EACH_MAP(f, o)     (const check_operand *o = api_next(f, NULL, 1); o; o = api_next(f, o, 1))

typedef struct delta_memory {
    _Alignas(64) float q[5 * 2 * 16];
    _Alignas(64) float k[5 * 2 * 16];
    _Alignas(64) float v[5 * 4 * 32];
    _Alignas(64) float g[5 * 4 * 16]; /* room for a gate per channel */
    _Alignas(64) float beta[5 * 4];
    _Alignas(64) float out[5 * 4 * 32];
    _Alignas(64) float state[3 * 2 * 4 * 32 * 16];
    _Alignas(64) float state_out[3 * 2 * 4 * 32 * 16];
    _Alignas(64) float fused[5 * 192]; /* q, k and v of a token side by side */
    _Alignas(64) int32_t seq_start[3];
    _Alignas(64) int32_t state_src[2];
    _Alignas(64) int32_t state_dst[4];
    _Alignas(64) int32_t position[2]; /* of calls with checkpoints only */
    _Alignas(64) int32_t checkpoint[4];
    _Alignas(64) float log[API_LOG_ROWS * API_LOG_SLOTS * API_LOG_ENTRY]; /* of calls with a log only */
    _Alignas(64) int32_t log_row[2];
    _Alignas(64) int32_t base_position[2];
    _Alignas(64) int32_t commit[2];
    _Alignas(64) int32_t parent[5]; /* of trees only */
    _Alignas(64) unsigned char workspace[API_WORKSPACE];
} delta_memory;

typedef struct conv_memory {
    _Alignas(64) float x[5 * 20];
    _Alignas(64) float weight[20 * 4];
    _Alignas(64) float bias[20];
    _Alignas(64) float out[5 * 20];
    _Alignas(64) float history[3 * 5 * 20];
    _Alignas(64) float history_out[3 * 5 * 20];
    _Alignas(64) int32_t seq_start[3];
    _Alignas(64) int32_t position[2];
    _Alignas(64) int32_t history_src[2];
    _Alignas(64) int32_t history_dst[2];
    _Alignas(64) int32_t checkpoint[4];
    _Alignas(64) int32_t parent[5];
    _Alignas(64) unsigned char workspace[API_WORKSPACE];
} conv_memory;

typedef struct rows_memory {
    _Alignas(64) float src[2 * 3 * 32];
    _Alignas(64) uint16_t dst[2 * 5 * 32];
    _Alignas(64) int64_t index[3];
    _Alignas(64) int32_t index32[3];
    _Alignas(64) unsigned char workspace[API_WORKSPACE];
} rows_memory;

extern delta_call delta_args;
extern conv_call conv_args;
extern gdn_set_rows_args rows_args;
extern delta_memory delta_mem;
extern conv_memory conv_mem;
extern rows_memory rows_mem;
extern const api_fixture on_delta, on_conv, on_rows;
extern const api_fixture *const api_fixtures[CHECK_KERNEL_COUNT];

/* The numbers of a map, and memory as a span. */
#define MAP(array, ...) memcpy(array, (int32_t[]){ __VA_ARGS__ }, sizeof((int32_t[]){ __VA_ARGS__ }))
#define SPAN(array)     ((gdn_span){ .data = (array), .bytes = sizeof(array) })
#define POOL(array, rows, slots)                                                                                       \
    {                                                                                                                  \
        .data = (array), .bytes = sizeof(array), .n_rows = (rows), .n_slots = (slots)                                  \
    }

/* The valid call gets a log of 3 rows and 6 slots: the base positions of its sequences are 3 and 2 tokens back, they
 * have rows 2 and 0, and commit to slots 4 and 3. */
void with_log(void);
/* Its inputs; the part as GDN_INIT makes it where the call had none. */
gdn_delta_inputs *inputs(void);

/* The call as it stands must fail with `status` on every target and write nothing, and the text must
 * contain all the strings. Where the query refuses as well, it must say the same. */
void api_refuse(const api_fixture *f, int line, gdn_status status, const char *const *texts);

/* The call as it stands must succeed with the same bits on every target, and write what it may and nothing else;
 * f->first then holds the memory. */
void api_accept(const api_fixture *f, int line);

/* What one call makes of the memory; api_accept() must have run before. Fails where bytes differ. */
void api_same_as_first(const api_fixture *f, int line);

/* Take the valid call, change it, and see. The strings are parts of the error text. */
#define CHANGED(f, change, ...)                                                                                        \
    do {                                                                                                               \
        (f).reset();                                                                                                   \
        change;                                                                                                        \
        __VA_ARGS__;                                                                                                   \
    } while (0)
#define REFUSED_AS(f, status, change, ...)                                                                             \
    CHANGED(f, change, api_refuse(&(f), __LINE__, status, (const char *const[]){ __VA_ARGS__, NULL }))
#define REFUSED(f, change, ...) REFUSED_AS(f, GDN_INVALID_ARGUMENT, change, __VA_ARGS__)
#define ACCEPTED(f, change)     CHANGED(f, change, api_accept(&(f), __LINE__))
/* A call that says the same as the last accepted one in other words. */
#define SAME(f, change) CHANGED(f, change, api_same_as_first(&(f), __LINE__))

/* The tests of the other files. */
void test_api_arguments(void);
extern const char *api_only; /* the test that runs; NULL: all */
extern int api_ran;
#define RUN(test)                                                                                                      \
    do {                                                                                                               \
        if (!api_only || !strcmp(api_only, #test)) api_ran = 1, test();                                                \
    } while (0)

void test_api_calls(void);
void test_api_checkpoints(void);
void test_api_logs(void);
void test_api_trees(void);
void test_api_state16(void);
void test_api_chunked(void);
void test_api_structs(void);

#endif

/* Targets: one implementation of one device of one backend, found by walking gdn_*_describe(), and how a
 * case is run on one. Nothing here knows a backend by name except that the reference is the reference. */
#ifndef GDN_CHECK_TARGET_H
#define GDN_CHECK_TARGET_H

#include "case.h"

/* Which threads run a case, on targets that share the host's memory: a number packed with a kind.
 * 0 = the library's own choice. */
enum { CHECK_THREADS_LIBRARY = 0, CHECK_THREADS_POOL = 1, CHECK_THREADS_REVERSE = 2 };
#define CHECK_EXECUTOR(kind, n) ((kind) << 8 | (n))

typedef struct check_target check_target;

typedef struct check_target_info {
    gdn_backend_info backend;
    gdn_device_info device;
    gdn_implementation_info implementation;
} check_target_info;

/* level is GDN_EXACT or GDN_EXACT_FTZ. NULL and a text in gdn_last_error() on failure. */
check_target *check_target_open(uint32_t backend, uint32_t device, uint32_t implementation, uint32_t level);
check_target *check_target_adopt(gdn_context *ctx); /* one with a context of the caller's, which stays the caller's */
void check_target_close(check_target *t);
const check_target_info *check_target_describe(const check_target *t);

/* Failed: something is not as it has to be. Error: the library returned a status (GDN_TIMEOUT, GDN_OUT_OF_MEMORY, ...),
 * so that there is nothing to compare. */
typedef enum check_outcome { CHECK_RAN, CHECK_SKIPPED, CHECK_FAILED, CHECK_ERROR } check_outcome;

typedef struct check_result {
    check_outcome outcome;
    gdn_status status; /* of an error             */
    char text[400];    /* why it did not run well */
    unsigned char *image[CHECK_MAX_MEMORIES];
    uint64_t room[CHECK_MAX_MEMORIES];
    uint64_t digest; /* of image, once it was judged: check_judge_known() */
} check_result;

/* Copy the case's memory there, query, run, read everything back. result may be reused for other cases;
 * it starts as zeros. An error when any call returns one; after GDN_BAD_MAP everything is read back all the same. Fails
 * when: the query's answer depends on data being given, the workspace is overrun, or the thread's floating-point mode
 * is not restored. */
void check_target_run(check_target *t, const check_case *c, check_result *result);
void check_result_free(check_result *result);

/* For cases whose memory is not a check_case's: the context that `executor` means. NULL: gdn_last_error(). */
gdn_context *check_target_context(check_target *t, int executor);
/* The workspace of a call, poisoned. */
gdn_status check_target_workspace(check_target *t, gdn_context *ctx, uint64_t bytes, gdn_span *span);

#endif

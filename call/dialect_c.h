/* The dialect of C for sequence.h and history.h: host code, the reference included, reads a block by pointer. */
#ifndef GDN_CALL_DIALECT_C_H
#define GDN_CALL_DIALECT_C_H

#include <stdbool.h>

#include "call/gated_delta_net.h"
#include "call/set_rows.h"
#include "call/ssm_conv.h"

/* The memory at an address of the host. */
static inline char *gdn_memory(uint64_t address) { return (char *)(uintptr_t)address; }

#define RULE                         static inline
#define FUNCTION                     static inline
#define PASS                         p,
#define P(member)                    (p->member)
#define MAP_ADDRESS                  uint64_t
#define ENTRY(map, i)                (((const int32_t *)(const void *)gdn_memory(map))[i])
#define MAP(map, present, i, absent) (p->map ? ENTRY(p->map, i) : (absent))
#define WITH_LOG                     (p->log.n_slots != 0)
#define WITH_TREE                    ((p->has & GDN_HAS_TREE) != 0)
#define WITH_CHANNEL                 (p->gate == GDN_GATE_CHANNEL)
#define WITH_STATE16                 (p->rounding_interval != 0)
#define WITH_CHUNKED                 (p->digits != 0)
#define INT(x)                       ((int32_t)(x))
#define UINT(x)                      ((uint32_t)(x))
#define LONG(x)                      ((int64_t)(x))

#define CALL const gdn_gated_delta_net_call *p,
#include "call/sequence.h"
#undef CALL
#define CALL const gdn_ssm_conv_call *p,
#include "call/history.h"
#undef CALL

#undef RULE
#undef FUNCTION
#undef PASS
#undef P
#undef MAP_ADDRESS
#undef ENTRY
#undef MAP
#undef WITH_LOG
#undef WITH_TREE
#undef WITH_CHANNEL
#undef WITH_STATE16
#undef WITH_CHUNKED
#undef INT
#undef UINT
#undef LONG

/* The sequence's length up to and including token t of the call, along its branch in a tree. */
static inline int32_t gdn_length_at(const gdn_gated_delta_net_call *p, const gdn_sequence *q, int32_t t)
{
    return q->position + (p->parent ? gdn_depth_of(p, q->first, t) : t + 1);
}

/* 1 if each of a sequence's tokens follows the token before it. */
static inline int gdn_is_chain(uint64_t parent, int32_t first, int32_t T)
{
    const int32_t *of = (const int32_t *)(const void *)gdn_memory(parent);
    int32_t t = parent ? 0 : T;
    while (t < T && of[first + t] == t - 1) t++;
    return t == T;
}

/* ---- Addresses ---- */

/* Head `head` of token t (counted within sequence s, whose first token is `first`). */
static inline char *gdn_token_at(const gdn_token_view *view, int32_t s, int32_t first, int32_t t, int32_t head)
{
    const int64_t token = view->stride_seq ? (int64_t)s * view->stride_seq + (int64_t)t * view->stride_token
                                           : ((int64_t)first + t) * view->stride_token;
    return gdn_memory(view->data + (uint64_t)(token + (int64_t)head * view->stride_head)); /* absent without tokens */
}

/* The state of one head in the slot that a map entry names. */
static inline char *gdn_state_at(const gdn_pool_view *view, int32_t entry, int32_t head)
{
    return gdn_memory(view->data) + (int64_t)(entry / view->n_slots) * view->stride_row +
           (int64_t)(entry % view->n_slots) * view->stride_slot + (int64_t)head * view->stride_head;
}

/* The log entry of a position. */
static inline char *gdn_log_at(const gdn_gated_delta_net_call *p, int32_t row, int32_t position)
{
    return gdn_memory(p->log.data) + gdn_log_offset(p, row, position);
}

/* A conv state entry: the slot of a position in a row of the history. */
static inline char *gdn_history_at(const gdn_pool_view *view, int32_t row, int32_t position)
{
    return gdn_memory(view->data) + row * view->stride_row + position % view->n_slots * view->stride_slot;
}

/* set_rows: the row of dst for row i of the batch, or GDN_NONE. */
static inline int64_t gdn_index_at(const gdn_set_rows_call *p, int64_t b, int64_t c, int64_t i)
{
    const char *at = gdn_memory(p->index) + b % p->index_batch[0] * p->index_stride[0] +
                     c % p->index_batch[1] * p->index_stride[1] + i * p->index_stride[2];
    return p->index_dtype == GDN_I64 ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

#endif

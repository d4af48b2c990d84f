/* What a call is made of. Host code and device kernels share one block per kernel (gated_delta_net.h, ssm_conv.h,
 * set_rows.h): core fills it from the caller's arguments, and every backend computes from it. These headers are
 * compiled as C, CUDA C++, Metal and GLSL.
 *
 * Members of 8 bytes come first, so that std430 and C agree. Addresses are integers, 0 = absent. On Metal operands are
 * bound buffers and every address is 0; there `has` tells which operands are present. */
#ifndef GDN_CALL_TYPES_H
#define GDN_CALL_TYPES_H

#ifdef GDN_GLSL
#define GDN_I32T         int
#define GDN_U32T         uint
#define GDN_STRUCT(name) struct name
#else
#ifndef __METAL_VERSION__ /* there, the language has these types */
#include <stdint.h>
#endif
#define GDN_I32T int32_t
#define GDN_U32T uint32_t
#define GDN_STRUCT(name)                                                                                               \
    typedef struct name name;                                                                                          \
    struct name
#endif
/* The address of what kernels write. In CUDA's kernels (cuda/kernel.cuh) it is a pointer: nvcc knows that a pointer
 * from a kernel's parameters points to global memory. Without that knowledge it uses slower instructions. */
#ifndef GDN_MEMORY
#define GDN_MEMORY uint64_t
#endif

/* The constants of the public headers. Kernels do not include these; tests/unit/test_api_constants.c compares. */
#if !defined(GDN_BASE_H) || defined(GDN_CALL_CONSTANTS)
#define GDN_NONE         -1
#define GDN_SKIP         -2
#define GDN_F32          0
#define GDN_F16          1
#define GDN_BF16         2
#define GDN_Q8_0         3
#define GDN_I64          5
#define GDN_DIGITS2      6
#define GDN_DIGITS3      7
#define GDN_HEADS_TILED  1
#define GDN_STATE_KV     1
#define GDN_GATE_CHANNEL 1
#define GDN_G_LOG        0
#define GDN_G_LINEAR     1
#define GDN_G_RAW        2
#define GDN_G_RAW_A_LOG  3
#define GDN_G_BOUNDED    4
#define GDN_BETA_LOGIT   1
#endif

/* Which map holds a bad value. A kernel sets the word of that number, and the host reads it (gpu/bad_maps.c). */
#define GDN_BAD_SEQ_START     0
#define GDN_BAD_STATE_SRC     1
#define GDN_BAD_STATE_DST     2
#define GDN_BAD_POSITION      3
#define GDN_BAD_HISTORY_SRC   4
#define GDN_BAD_HISTORY_DST   5
#define GDN_BAD_INDEX         6
#define GDN_BAD_CHECKPOINT    7
#define GDN_BAD_BASE_POSITION 8
#define GDN_BAD_LOG_ROW       9
#define GDN_BAD_COMMIT        10
#define GDN_BAD_PARENT        11
#define GDN_BAD_WORDS         12

/* `has`: which optional operands are present. */
#define GDN_HAS_SEQ_START 1
#define GDN_HAS_SRC       2 /* state_src, history_src */
#define GDN_HAS_DST       4 /* state_dst, history_dst */
#define GDN_HAS_POSITION  8
#define GDN_HAS_BIAS      16 /* bias, dt_bias */
#define GDN_HAS_TABLE     32
/* The pool that is read is in the buffer that is written, pool_offset bytes from it. Metal reads it through the written
   buffer, because its compiler may assume that two buffers do not alias. */
#define GDN_HAS_ONE_POOL      64
#define GDN_HAS_BASE_POSITION 128
#define GDN_HAS_LOG_ROW       256
#define GDN_HAS_COMMIT        512
#define GDN_HAS_TREE          1024 /* `parent` names the token that each follows */
#define GDN_HAS_PARENT        2048
#define GDN_HAS_SSM_A         4096
#define GDN_HAS_READ_KEY      8192
#define GDN_HAS_CHECKPOINTS   16384

/* A tensor over tokens, or over heads: ssm_a and dt_bias have stride_head only. */
GDN_STRUCT(gdn_token_view)
{
    GDN_MEMORY data;
    int64_t stride_seq; /* bytes; 0: tokens of all sequences follow each other */
    int64_t stride_token, stride_head;
    GDN_I32T dtype, unused;
};

/* A pool of states, of conv state entries, or of log entries. Entry e of a map is slot e % n_slots of row e / n_slots;
 * of the history and the log it is row e. */
GDN_STRUCT(gdn_pool_view)
{
    GDN_MEMORY data;
    int64_t stride_row, stride_slot, stride_head;
    int64_t stride_line; /* of a state's outer dimension */
    GDN_I32T n_entries;  /* what a map's entry must be below */
    GDN_I32T n_slots;    /* of the history and the log: the ring's; 0: there is none */
    GDN_I32T dtype, unused;
};

/* What the block has of an operand: see GDN_DELTA_OPERANDS. */
#define GDN_TOKEN_VIEW(name, part, member, access, bit, size) gdn_token_view name;
#define GDN_POOL_VIEW(name, part, member, access, bit, size)  gdn_pool_view name;
#define GDN_ADDRESS(name, part, member, access, bit, size)    uint64_t name;

/* The public name of an operand, of its part and member there. */
#ifndef GDN_GLSL
#define GDN_NAME_args(member)        #member
#define GDN_NAME_inputs(member)      "inputs." #member
#define GDN_NAME_log(member)         "log." #member
#define GDN_NAME_checkpoints(member) "checkpoints." #member
#define GDN_NAME_tree(member)        "tree." #member
#endif

#endif

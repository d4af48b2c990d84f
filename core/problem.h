/* Problems: a call after validation.
 *
 * The public argument structs leave much to defaults. core/<kernel>.c checks them once and fills the kernel's block
 * (call/<kernel>.h): every stride, every address, 0 for what is absent. All backends, the reference included, compute
 * from the block, so each default is implemented once. */
#ifndef GDN_CORE_PROBLEM_H
#define GDN_CORE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "gdn/gdn.h"
#include "call/dialect_c.h"

/* The kernels. A switch over them has no default, so that the compiler reports a missing case. */
typedef enum gdn_kernel {
    GDN_KERNEL_gated_delta_net,
    GDN_KERNEL_ssm_conv,
    GDN_KERNEL_set_rows,
} gdn_kernel;
enum { GDN_KERNEL_COUNT = 3 };

/* An operand as the caller gave it, and the bytes that it covers, for overlap checks. These are pieces of `piece`
 * contiguous bytes at the points of n_axes axes, the widest stride first. Axes are merged where one continues another
 * or leaves no gap, so a packed operand is one piece. Offsets count within one buffer object (`object`, 0 where data
 * are addresses). */
typedef struct gdn_region {
    uint64_t begin, end; /* begin == end: empty or absent */
    void *data;          /* NULL: absent */
    uint64_t offset;     /* of data, where that is given */
    const char *name;
    uintptr_t object;
    uint64_t outer_stride, inner_span; /* the outermost axis as it was given, and what one step of it covers */
    uint64_t piece;
    int32_t n_axes;
    uint64_t extent[4], stride[4];
    int32_t written;  /* 1: the call writes it, so no other region may overlap it                            */
    int32_t one_pool; /* 1: source or destination of the call's only pool. The maps define what is read and
                         written, so these two regions may overlap                                           */
} gdn_region;

enum { GDN_MAX_REGIONS = 32 };

typedef struct gdn_problem {
    gdn_kernel kernel;
    int32_t empty; /* 1: there is nothing to do */
    union {
        gdn_gated_delta_net_call gated_delta_net;
        gdn_ssm_conv_call ssm_conv;
        gdn_set_rows_call set_rows;
    };
    uint64_t workspace;                   /* its address */
    uint64_t slot_bytes, log_entry_bytes; /* as in gdn_capability; of a query only */
    /* The operands, in the order of the arguments of metal/<kernel>.metal, and after them the workspace. */
    int32_t n_regions;
    gdn_region regions[GDN_MAX_REGIONS];
} gdn_problem;

static inline gdn_region *gdn_workspace_region(gdn_problem *p) { return &p->regions[p->n_regions]; }

#endif

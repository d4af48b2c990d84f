/* The plan of a call: how a backend will run a problem, decided once from sizes, types and addresses, without reading
 * maps, so that a query without data gives the same answer as the call. It is made before anything is written and
 * handed to the run. */
#ifndef GDN_CORE_PLAN_H
#define GDN_CORE_PLAN_H

#include "gdn/gdn.h"

enum { GDN_PLAN_CONSTANTS = 4 };

typedef struct gdn_plan {
    gdn_capability capability;    /* what a query is told                                                       */
    int64_t        n_items;       /* independent pieces of the work: items of a CPU, blocks of a GPU's grid     */
    int64_t        grain;         /* CPU: items that a thread should take at a time, >= 1                       */
    uint64_t       scratch_bytes; /* CPU: workspace of one thread; the driver aligns it to 64                   */
    int32_t        cut;           /* the kernel's own: value columns or channels of an item, shares of a batch  */
    const char    *form;          /* the loop order, second part of the capability's implementation: "columns"  */

    /* GPU: */
    uint64_t       blocks;      /* thread blocks of a head's columns, of the channels, or of a row             */
    int64_t        n_after;     /* ssm_conv: blocks of the launch behind, 0 = none                             */
    uint64_t       table_slots; /* set_rows: of one index batch's table, 0 = none                              */
    int32_t        variant;     /* the backend's own: which kernel                                             */
    uint32_t       constants[GDN_PLAN_CONSTANTS]; /* Vulkan: of its pipeline; a second launch may have others  */
} gdn_plan;

#define GDN_PLAN_INIT { .capability = { .size = sizeof(gdn_capability) }, .grain = 1, .form = "" }

#endif

/* The plan of a call: how a backend will run a problem, decided once from sizes, types and addresses, without reading
 * maps, so that a query without data gives the same answer as the call. It is made before anything is written and
 * handed to the run. It is numbers only: the words of a gdn_capability are made where a query asks for them. */
#ifndef GDN_CORE_PLAN_H
#define GDN_CORE_PLAN_H

#include "gdn/gdn.h"

enum { GDN_PLAN_CONSTANTS = 4 };

/* The form of the call, the second part of a capability's implementation (gdn_form_name()). */
typedef enum gdn_form {
    GDN_FORM_REFERENCE,
    GDN_FORM_ROWS,
    GDN_FORM_LINES,
    GDN_FORM_COLUMNS,
    GDN_FORM_TREE,
    GDN_FORM_TILES,
    GDN_FORM_MIXED,
    GDN_FORM_SUBGROUP,
    GDN_FORM_SHARED,
    GDN_FORM_CHANNELS,
    GDN_FORM_PIECES,
    GDN_FORM_SEQUENCES,
    GDN_FORM_TABLE,
    GDN_FORM_COMPARE,
} gdn_form;

/* Why a device does not run the call. The problem has the numbers for the text. */
typedef enum gdn_refusal {
    GDN_REFUSED_NOT,
    GDN_REFUSED_BLOCKS, /* a grid has fewer thread blocks                                */
    GDN_REFUSED_HEADS,  /* CUDA: one direction of a grid has fewer than there are heads  */
    GDN_REFUSED_TYPES,  /* Vulkan: the device has no 16-bit storage                      */
    GDN_REFUSED_ROUNDS, /* Vulkan: loops of an invocation go round less often            */
} gdn_refusal;

typedef struct gdn_plan {
    uint64_t       workspace_bytes;
    gdn_form       form;
    gdn_refusal    refused;
    int64_t        n_items;       /* independent pieces of the work: items of a CPU, blocks of a GPU's grid     */
    int64_t        grain;         /* CPU: items that a thread should take at a time, >= 1                       */
    uint64_t       scratch_bytes; /* CPU: workspace of one thread; the driver aligns it to 64                   */
    int32_t        cut;           /* the kernel's own: value columns or channels of an item, shares of a batch  */

    /* GPU: */
    int32_t        variant;     /* the backend's own: which kernel                                             */
    uint64_t       blocks;      /* thread blocks of a head's columns, of the channels, or of a row             */
    int64_t        n_after;     /* ssm_conv: blocks of the launch behind, 0 = none                             */
    uint64_t       table_slots; /* set_rows: of one index batch's table, 0 = none                              */
    uint32_t       constants[GDN_PLAN_CONSTANTS]; /* Vulkan: of its pipeline; a second launch may have others  */
} gdn_plan;

#endif

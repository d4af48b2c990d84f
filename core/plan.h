/* The plan of a call: how a backend runs a problem. A backend derives it from sizes, types and addresses, without
 * reading maps. So a query without data gives the same answer as the call. Core makes the plan before anything is
 * written and passes it to run. It holds only numbers; describe_plan makes the words of a gdn_capability from them. */
#ifndef GDN_CORE_PLAN_H
#define GDN_CORE_PLAN_H

#include <stdbool.h>

#include "gdn/gdn.h"

enum { GDN_PLAN_CONSTANTS = 4 };

/* The variant, which is the second part of a capability's implementation (gdn_variant_name()). */
typedef enum gdn_variant {
    GDN_VARIANT_REFERENCE,
    GDN_VARIANT_ROWS,
    GDN_VARIANT_LINES,
    GDN_VARIANT_COLUMNS,
    GDN_VARIANT_TREE,
    GDN_VARIANT_CHUNKED,
    GDN_VARIANT_TILES,
    GDN_VARIANT_SUBGROUP,
    GDN_VARIANT_SHARED,
    GDN_VARIANT_CHANNELS,
    GDN_VARIANT_PIECES,
    GDN_VARIANT_SEQUENCES,
    GDN_VARIANT_TABLE,
    GDN_VARIANT_COMPARE,
} gdn_variant;

/* Why a device refuses the call. The error text takes its numbers from the problem. */
typedef enum gdn_refusal {
    GDN_REFUSED_NOT,
    GDN_REFUSED_FORM,       /* the chunked form                                              */
    GDN_REFUSED_GATE,       /* CUDA: the chunked form with a gate per key channel            */
    GDN_REFUSED_DIGITS,     /* CUDA: products of digits are not exact on the device         */
    GDN_REFUSED_BLOCKS,     /* more thread blocks than a grid can have                       */
    GDN_REFUSED_HEADS,      /* CUDA: more heads than one dimension of a grid can have        */
    GDN_REFUSED_TYPES,      /* Vulkan: the device has no 16-bit storage                      */
    GDN_REFUSED_ITERATIONS, /* Vulkan: more than a driver for CPUs lets an invocation's loops run */
} gdn_refusal;

typedef struct gdn_plan {
    uint64_t workspace_bytes;
    gdn_variant variant;
    gdn_refusal refused;
    int64_t n_items; /* independent work items: items of a CPU, thread blocks of a GPU's grid      */
    int32_t cut;     /* the kernel's own: value or conv channels of an item, shares of a batch     */
    struct {
        int64_t grain;          /* items that a thread should take at a time, >= 1                      */
        uint64_t scratch_bytes; /* workspace of one thread; the CPU backend aligns it to 64             */
        bool converts_bf16;     /* the processor has an instruction for it                              */
    } cpu;
    struct {
        int32_t device_kernel; /* which one: the backend's own number                                  */
        uint32_t constants[GDN_PLAN_CONSTANTS]; /* of its pipeline; a second launch may have others     */
        uint64_t blocks;      /* thread blocks for the value channels of a head, for the channels, or for a row */
        int64_t n_after;      /* ssm_conv: thread blocks of the second launch, 0 = none               */
        uint64_t table_slots; /* set_rows: of one index batch's table, 0 = none                       */
    } gpu;
} gdn_plan;

#endif

/* set_rows: from a problem to one dispatch or two. The shader says how the work is cut. */
#include <stdio.h>

#include "core/status.h"
#include "vulkan/device.h"

typedef gdn_set_rows_problem problem_t;

_Static_assert(sizeof(gdn_vk_set_rows) <= GDN_VK_PARAMS_BYTES, "the parameter block fits");

enum { PIECE = 1024, FEW_ROWS = 64 }; /* columns of a workgroup; rows that are compared with each other directly */

static uint32_t lanes(const gdn_vk_device *dev)
{
    return dev->traits.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 8 : 64;
}

static uint64_t blocks(const problem_t *p)
{
    return ((uint64_t)p->n_columns + PIECE - 1) / PIECE;
}

static uint64_t index_batches(const problem_t *p)
{
    return (uint64_t)p->index_batch[0] * (uint64_t)p->index_batch[1];
}

/* Slots of one index batch's table: a power of two, at least twice the rows. 0 = no table. */
static uint64_t slots(const problem_t *p)
{
    uint64_t n = 2 * FEW_ROWS;
    if (p->n_rows <= FEW_ROWS)
        return 0;
    while (n < 2 * (uint64_t)p->n_rows)
        n *= 2;
    return n;
}

static int too_large(const problem_t *p)
{
    const uint64_t most = UINT32_MAX;
    const uint64_t rows = (uint64_t)p->n_rows, batch0 = (uint64_t)p->n_batch[0], batch1 = (uint64_t)p->n_batch[1];
    uint64_t items;
    return rows > 1u << 30 || __builtin_mul_overflow(batch0 * batch1, rows, &items) || __builtin_mul_overflow(items, blocks(p), &items) ||
           items >= most || index_batches(p) * (slots(p) ? slots(p) : 1) >= most;
}

void gdn_vk_plan_set_rows(const gdn_vk_device *dev, const problem_t *p, gdn_plan *plan)
{
    gdn_capability *c = &plan->capability;
    (void)snprintf(c->implementation, sizeof c->implementation, "%.40s/%s", dev->variant.name, slots(p) ? "table" : "compare");
    if ((p->src_dtype != GDN_F32 || p->dst_dtype != GDN_F32) && !dev->traits.storage16) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "F16, BF16 and Q8_0 need storageBuffer16BitAccess, which %.100s does not have", dev->traits.name);
    } else if (too_large(p)) {
        c->supported = 0;
        (void)snprintf(c->reason, sizeof c->reason, "the call has 2^32 workgroups or more (batches x rows x 1024 columns)");
    } else {
        c->workspace_bytes = GDN_VK_PARAMS_BYTES + 4 * index_batches(p) * slots(p);
    }
}

gdn_status gdn_vk_run_set_rows(gdn_vk_device *dev, const problem_t *p, const gdn_plan *plan, gdn_stream stream)
{
    (void)plan;
    const uint64_t table_slots = slots(p);
    const gdn_vk_set_rows params = {
        .src = gdn_vk_address(dev, &p->src), .dst = gdn_vk_address(dev, &p->dst), .index = gdn_vk_address(dev, &p->index),
        .bad = dev->bad.address, .table = table_slots ? gdn_vk_address(dev, &p->workspace) + GDN_VK_PARAMS_BYTES : 0,
        .n_columns = p->n_columns, .n_rows = p->n_rows, .n_rows_dst = p->n_rows_dst,
        .src_stride = { p->src_stride[0], p->src_stride[1], p->src_stride[2] },
        .dst_stride = { p->dst_stride[0], p->dst_stride[1], p->dst_stride[2] },
        .index_stride = { p->index_stride[0], p->index_stride[1], p->index_stride[2] },
        .blocks = (int64_t)blocks(p), .table_mask = table_slots ? (uint32_t)table_slots - 1 : 0, .n_batch1 = (int32_t)p->n_batch[1],
        .index_batch0 = (int32_t)p->index_batch[0], .index_batch1 = (int32_t)p->index_batch[1],
        .src_dtype = p->src_dtype, .dst_dtype = p->dst_dtype, .index_dtype = p->index_dtype,
    };
    const uint32_t enter[GDN_VK_CONSTANTS] = { lanes(dev), 1, PIECE, 0 }, write[GDN_VK_CONSTANTS] = { lanes(dev), 0, PIECE, 0 };
    gdn_vk_dispatch dispatch[2] = {
        { .n_items = (index_batches(p) * (uint64_t)p->n_rows + lanes(dev) - 1) / lanes(dev) },
        { .n_items = (uint64_t)p->n_batch[0] * (uint64_t)p->n_batch[1] * (uint64_t)p->n_rows * blocks(p), .after_previous = table_slots != 0 },
    };
    gdn_status status;
    if ((table_slots && (status = gdn_vk_pipeline_get(dev, GDN_KERNEL_set_rows, enter, &dispatch[0].pipeline))) ||
        (status = gdn_vk_pipeline_get(dev, GDN_KERNEL_set_rows, write, &dispatch[1].pipeline)))
        return status;
    const int skip = table_slots == 0;
    return gdn_vk_run(dev, &p->workspace, &params, sizeof params, 4 * index_batches(p) * table_slots, dispatch + skip, 2 - skip, stream);
}

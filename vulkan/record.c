/* Records a call: its dispatches, the barriers between them, and the address of their parameter block. See device.h.
 *
 * On our own queue the host writes the block to memory that both can access. Each command buffer of the ring has space
 * for one block; both are reused when the device is done with them. The submission makes the write visible.
 *
 * A caller's command buffer may be submitted many times, and the library does not know when it ends. There a command
 * (vkCmdUpdateBuffer) writes the block to the call's workspace, which lives long enough. */
#include <string.h>

#include "core/status.h"
#include "gpu/probe_call.h"
#include "vulkan/device.h"

_Static_assert(sizeof(gdn_gated_delta_net_call) <= GDN_VULKAN_PARAMS_BYTES, "the parameter block of gated_delta_net");
_Static_assert(sizeof(gdn_ssm_conv_call) <= GDN_VULKAN_PARAMS_BYTES, "the parameter block of ssm_conv");
_Static_assert(sizeof(gdn_set_rows_call) <= GDN_VULKAN_PARAMS_BYTES, "the parameter block of set_rows");
_Static_assert(sizeof(gdn_gpu_probe) <= GDN_VULKAN_PARAMS_BYTES, "the parameter block of the probe");

enum { GRID = 65535 }; /* workgroups in each direction, on any device */

gdn_gpu_device gdn_vulkan_gpu(const gdn_vulkan_device *dev)
{
    return (gdn_gpu_device){ .most_blocks = (uint64_t)GRID * GRID,
                             .most_slots = UINT32_MAX - 1,
                             .params_bytes = GDN_VULKAN_PARAMS_BYTES,
                             .addresses = 1,
                             .bad = dev->bad.address };
}

void gdn_vulkan_need_storage16(const gdn_vulkan_device *dev, gdn_plan *plan)
{
    if (!dev->traits.storage16) plan->refused = GDN_REFUSED_TYPES;
}

/* The shape of a two-dimensional grid of n workgroups. Plans refuse larger n. */
static uint32_t grid(uint64_t n, uint32_t *height)
{
    *height = (uint32_t)gdn_gpu_parts(n, GRID);
    return (uint32_t)(n < GRID ? n : GRID);
}

static void barrier(const gdn_vulkan_device *dev, VkCommandBuffer commands, VkPipelineStageFlags from,
                    VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used)
{
    const VkMemoryBarrier memory = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = written,
                                     .dstAccessMask = used };
    dev->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* Begins a call: its parameter block at *address and the table, behind barriers. */
static gdn_status begin(gdn_vulkan_device *dev, const gdn_region *workspace, const void *params, size_t params_bytes,
                        uint64_t zeroed_bytes, gdn_stream stream, VkCommandBuffer *recorded, uint64_t *address_of)
{
    const VkPipelineStageFlags both = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkAccessFlags shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    const uint64_t block = (uint64_t)dev->ring_next * GDN_VULKAN_PARAMS_BYTES;
    const int transfers = stream || zeroed_bytes;
    VkCommandBuffer commands = stream;
    gdn_status status;
    if (dev->lost) return gdn_vulkan_wait(dev); /* reports it */
    if (!commands && (status = gdn_vulkan_begin(dev, &commands))) return status;
    *recorded = commands;
    *address_of = stream ? gdn_vulkan_address(dev, workspace->data) + workspace->offset : dev->params.address + block;
    if (!stream) memcpy((char *)dev->params.mapped + block, params, params_bytes);

    /* After earlier calls: they may have written what this call reads, or still use the workspace. */
    barrier(dev, commands, both, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
            transfers ? both : VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            transfers ? shader | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT : shader);
    if (stream) dev->vk.CmdUpdateBuffer(commands, (VkBuffer)workspace->data, workspace->offset, params_bytes, params);
    if (zeroed_bytes)
        dev->vk.CmdFillBuffer(commands, (VkBuffer)workspace->data, workspace->offset + GDN_VULKAN_PARAMS_BYTES,
                              zeroed_bytes, 0);
    if (transfers)
        barrier(dev, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, shader);
    return GDN_OK;
}

static void record_dispatch(const gdn_vulkan_device *dev, VkCommandBuffer commands, uint64_t params,
                            const gdn_vulkan_dispatch *dispatch)
{
    uint32_t height;
    const gdn_vulkan_push push = { .params = params,
                                   .n_items = (uint32_t)dispatch->n_items,
                                   .grid_width = grid(dispatch->n_items, &height),
                                   .most_tokens = dispatch->most_tokens };
    if (dispatch->after_previous)
        barrier(dev, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    dev->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch->pipeline);
    dev->vk.CmdPushConstants(commands, dev->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    dev->vk.CmdDispatch(commands, push.grid_width, height, 1);
}

gdn_status gdn_vulkan_run(gdn_vulkan_device *dev, const gdn_region *workspace, const void *params, size_t params_bytes,
                          uint64_t zeroed_bytes, const gdn_vulkan_dispatch *dispatches, int n, gdn_stream stream)
{
    VkCommandBuffer commands = NULL;
    uint64_t block = 0;
    const gdn_status status = begin(dev, workspace, params, params_bytes, zeroed_bytes, stream, &commands, &block);
    if (status) return status;
    for (int i = 0; i < n; i++) record_dispatch(dev, commands, block, &dispatches[i]);
    barrier(dev, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_HOST_READ_BIT);
    return stream ? GDN_OK : gdn_vulkan_submit(dev, commands);
}

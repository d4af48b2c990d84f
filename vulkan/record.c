/* What every call records: its parameter block, then its dispatches, with barriers between. See device.h.
 *
 * The block is written by a command (vkCmdUpdateBuffer), so it is part of a command buffer that the caller records once
 * and submits many times, and calls in flight cannot overwrite each other's. */
#include "core/status.h"
#include "vulkan/device.h"

int gdn_vk_grid(uint64_t n, uint32_t *width, uint32_t *height)
{
    const uint64_t most = 65535; /* in each direction, on any device */
    *width  = (uint32_t)(n < most ? n : most);
    *height = n ? (uint32_t)((n + most - 1) / most) : 0;
    return n < UINT32_MAX && n <= most * most;
}

static void barrier(const gdn_vk_device *dev, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                    VkPipelineStageFlags to, VkAccessFlags used)
{
    const VkMemoryBarrier memory = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = used };
    dev->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

gdn_status gdn_vk_run(gdn_vk_device *dev, const gdn_place *workspace, const void *params, size_t params_bytes,
                      uint64_t zeroed_bytes, const gdn_vk_dispatch *dispatches, int n, gdn_stream stream)
{
    const VkPipelineStageFlags both = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const uint64_t  address = gdn_vk_address(dev, workspace);
    VkCommandBuffer commands = stream;
    gdn_status status;
    if (dev->lost)
        return gdn_vk_wait(dev); /* says so */
    if (!commands && (status = gdn_vk_begin(dev, &commands)))
        return status;

    /* After earlier calls: they may have written what is read, or still read the workspace. */
    barrier(dev, commands, both, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, both,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    dev->vk.CmdUpdateBuffer(commands, (VkBuffer)workspace->data, workspace->offset, params_bytes, params);
    if (zeroed_bytes)
        dev->vk.CmdFillBuffer(commands, (VkBuffer)workspace->data, workspace->offset + GDN_VK_PARAMS_BYTES, zeroed_bytes, 0);
    barrier(dev, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);

    for (int i = 0; i < n; i++) {
        gdn_vk_push push = { .params = address, .n_items = (uint32_t)dispatches[i].n_items };
        uint32_t height;
        (void)gdn_vk_grid(dispatches[i].n_items, &push.grid_width, &height); /* the query has refused what does not fit */
        if (dispatches[i].after_previous)
            barrier(dev, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        dev->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, dispatches[i].pipeline);
        dev->vk.CmdPushConstants(commands, dev->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
        dev->vk.CmdDispatch(commands, push.grid_width, height, 1);
    }
    barrier(dev, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    return stream ? GDN_OK : gdn_vk_submit(dev, commands);
}

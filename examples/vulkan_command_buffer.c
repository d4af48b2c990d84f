/* vulkan_command_buffer.c - records kernels into the program's command buffer, on the program's device and queue:
 * ssm_conv, then gated_delta_net on its output. It records once and submits for every token. Results are compared with
 * the CPU's, bit for bit. Exit status: 0 = the same bits, 77 = no suitable Vulkan device. */
#include "example.h"

#include <gdn/vulkan.h>
#include <vulkan/vulkan.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQS = 2, STEPS = 4, HEADS = 2, DIM = 32, PART = HEADS * DIM, CHANNELS = 3 * PART, WIDTH = 4 };

/* All operands in one buffer: inputs, which change from step to step, then results. Sequences start from zeros in the
 * memory; `position` is the number of earlier tokens. */
typedef struct operands {
    float x[SEQS][CHANNELS], g[SEQS][HEADS], beta[SEQS][HEADS];
    int32_t position[SEQS];
    float weight[CHANNELS][WIDTH];
    float qkv[SEQS][CHANNELS], out[SEQS][PART], history[SEQS][WIDTH - 1][CHANNELS], state[SEQS][HEADS][DIM][DIM];
} operands;
enum { INPUTS = offsetof(operands, weight) };

static void vulkan(VkResult result, const char *what)
{
    if (result == VK_SUCCESS) return;
    fprintf(stderr, "%s: VkResult %d\n", what, (int)result);
    exit(1);
}

static int missing(const char *what) { return fprintf(stderr, "%s\n", what), 77; }

/* memory->data is a VkBuffer; on the CPU an address. */
static gdn_tensor tensor(const gdn_span *memory, size_t offset)
{
    return (gdn_tensor){ .data = memory->data, .offset = memory->offset + offset };
}

static gdn_pool pool(const gdn_span *memory, size_t offset, int32_t n_slots)
{
    return (gdn_pool){ .data = memory->data, .offset = memory->offset + offset, .n_rows = SEQS, .n_slots = n_slots };
}

/* Both calls, with operands in `memory`; the first use creates `workspace`. */
static void run(gdn_context *ctx, const gdn_span *memory, gdn_span workspace[2], gdn_stream stream)
{
    const int first = !workspace[0].data && !workspace[1].data;
    gdn_capability can = GDN_INIT(gdn_capability);
    gdn_ssm_conv_args c = GDN_INIT(gdn_ssm_conv_args);
    c.n_seqs = c.n_tokens = SEQS;
    c.n_channels = CHANNELS;
    c.kernel_width = WIDTH;
    c.x = tensor(memory, offsetof(operands, x));
    c.weight = tensor(memory, offsetof(operands, weight));
    c.out = tensor(memory, offsetof(operands, qkv));
    c.history = pool(memory, offsetof(operands, history), WIDTH - 1);
    c.position.data = memory->data;
    c.position.offset = memory->offset + offsetof(operands, position);

    gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args);
    a.n_seqs = a.n_tokens = SEQS;
    a.n_heads_k = a.n_heads_v = HEADS;
    a.head_dim_k = a.head_dim_v = DIM;
    a.scale = 1 / sqrtf(DIM);
    a.q = tensor(memory, offsetof(operands, qkv));
    a.k = tensor(memory, offsetof(operands, qkv[0][PART]));
    a.v = tensor(memory, offsetof(operands, qkv[0][2 * PART]));
    a.q.stride[0] = a.k.stride[0] = a.v.stride[0] = CHANNELS * sizeof(float);
    a.g = tensor(memory, offsetof(operands, g));
    a.beta = tensor(memory, offsetof(operands, beta));
    a.out = tensor(memory, offsetof(operands, out));
    a.state = pool(memory, offsetof(operands, state), 1);

    must(gdn_ssm_conv_query(ctx, &c, &can), "gdn_ssm_conv_query");
    if (first && can.workspace_bytes) must(gdn_buffer_create(ctx, can.workspace_bytes, &workspace[0]), "workspace");
    must(gdn_gated_delta_net_query(ctx, &a, &can), "gdn_gated_delta_net_query");
    if (first && can.workspace_bytes) must(gdn_buffer_create(ctx, can.workspace_bytes, &workspace[1]), "workspace");
    c.workspace = workspace[0];
    a.workspace = workspace[1];
    must(gdn_ssm_conv(ctx, &c, stream), "gdn_ssm_conv");
    must(gdn_gated_delta_net(ctx, &a, stream), "gdn_gated_delta_net"); /* calls insert their own barriers */
}

static void make_inputs(operands *o, int step)
{
    for (int s = 0; s < SEQS; s++) {
        for (int c = 0; c < CHANNELS; c++) o->x[s][c] = 0.3f * next_number();
        for (int h = 0; h < HEADS; h++)
            o->g[s][h] = 0.05f * (next_number() - 1.0f), o->beta[s][h] = 0.5f + 0.5f * next_number();
        o->position[s] = step;
    }
}

int main(void)
{
    /* The program's instance, device and queue: the first device with Vulkan 1.2 and the features that the library
     * needs. */
    VkApplicationInfo app = { VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, "example", 1, NULL, 0, VK_API_VERSION_1_2 };
    VkInstanceCreateInfo instance_info = { VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL };
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t count = 1, families = 16, family = 0;
    VkQueueFamilyProperties properties[16];
    if (vkCreateInstance(&instance_info, NULL, &instance) != VK_SUCCESS) return missing("no Vulkan here");
    if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || !count) return missing("no Vulkan device here");
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, properties);
    while (family < families && !(properties[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) family++;
    VkPhysicalDeviceVulkan12Features has12 = { 0 }, want12 = { 0 };
    VkPhysicalDeviceFeatures2 has = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &has12, { 0 } }, want = has;
    has12.sType = want12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    vkGetPhysicalDeviceFeatures2(physical, &has);
    if (family == families || !has12.bufferDeviceAddress || !has12.timelineSemaphore || !has.features.shaderInt64)
        return missing("the Vulkan device lacks compute queues, bufferDeviceAddress, timelineSemaphore or shaderInt64");
    want.pNext = &want12;
    want12.bufferDeviceAddress = want12.timelineSemaphore = want.features.shaderInt64 = VK_TRUE;
    want.features.shaderFloat64 = has.features.shaderFloat64;
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue_info = { VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, family, 1, &priority };
    VkDeviceCreateInfo info = {
        VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &want, 0, 1, &queue_info, 0, NULL, 0, NULL, NULL
    };
    vulkan(vkCreateDevice(physical, &info, NULL, &device), "vkCreateDevice");
    vkGetDeviceQueue(device, family, 0, &queue);

    gdn_vulkan_desc native = GDN_INIT(gdn_vulkan_desc);
    native.get_instance_proc_addr = (gdn_vulkan_function)vkGetInstanceProcAddr;
    native.instance = instance;
    native.physical_device = physical;
    native.device = device;
    native.queue = queue;
    native.queue_family = family;
    native.features =
        want.features.shaderFloat64 ? GDN_VULKAN_FLOAT64 : 0; /* features that the device was created with */
    gdn_context_desc desc = GDN_INIT(gdn_context_desc);
    gdn_context *gpu = NULL, *cpu = NULL;
    must(gdn_context_create(&desc, &cpu), "gdn_context_create, CPU");
    desc.backend = GDN_BACKEND_VULKAN;
    desc.native = &native;
    desc.timeout_ns = UINT64_C(600000000000); /* a CPU driver may be slow */
    const gdn_status status = gdn_context_create(&desc, &gpu);
    if (status == GDN_UNAVAILABLE || status == GDN_NOT_FOUND) return missing(gdn_last_error());
    must(status, "gdn_context_create, Vulkan");

    static operands here, there;
    gdn_span host = { 0 }, memory = { 0 }, cpu_workspace[2] = { { 0 } }, gpu_workspace[2] = { { 0 } };
    for (int c = 0; c < CHANNELS; c++)
        for (int j = 0; j < WIDTH; j++) here.weight[c][j] = next_number();
    host.data = &here;
    must(gdn_buffer_create(gpu, sizeof here, &memory), "gdn_buffer_create"); /* or the program's VkBuffer */
    must(gdn_buffer_write(gpu, &memory, 0, &here, sizeof here), "gdn_buffer_write");

    /* Record once. The library neither begins, ends nor submits the command buffer. */
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkCommandPoolCreateInfo pool_info = { VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, family };
    VkCommandBufferBeginInfo begin = { VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, NULL, 0, NULL };
    VkFenceCreateInfo fence_info = { VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, 0 };
    vulkan(vkCreateCommandPool(device, &pool_info, NULL, &pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo one = { VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, pool,
                                        VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1 };
    vulkan(vkAllocateCommandBuffers(device, &one, &commands), "vkAllocateCommandBuffers");
    vulkan(vkCreateFence(device, &fence_info, NULL, &fence), "vkCreateFence");
    vulkan(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    run(gpu, &memory, gpu_workspace, commands);
    vulkan(vkEndCommandBuffer(commands), "vkEndCommandBuffer");

    /* Submit it for every token: tensors and maps are read when it runs. */
    int bad = 0;
    for (int t = 0; t < STEPS; t++) {
        VkSubmitInfo submit = { VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, &commands, 0, NULL };
        make_inputs(&here, t);
        must(gdn_buffer_write(gpu, &memory, 0, &here, INPUTS), "gdn_buffer_write");
        vulkan(vkQueueSubmit(queue, 1, &submit, fence), "vkQueueSubmit");
        vulkan(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
        vulkan(vkResetFences(device, 1, &fence), "vkResetFences");
        must(gdn_poll(gpu), "gdn_poll"); /* reports what the device found: bad maps */
        must(gdn_buffer_read(gpu, &memory, 0, &there, sizeof there), "gdn_buffer_read");
        run(cpu, &host, cpu_workspace, NULL);
        bad |= memcmp(&here, &there, sizeof here) != 0;
    }
    printf("%d submissions of one command buffer: %s\n", STEPS, bad ? "OTHER BITS than the CPU's" : "the CPU's bits");

    for (int i = 0; i < 2; i++) gdn_buffer_destroy(cpu, &cpu_workspace[i]), gdn_buffer_destroy(gpu, &gpu_workspace[i]);
    gdn_buffer_destroy(gpu, &memory);
    gdn_context_destroy(gpu);
    gdn_context_destroy(cpu);
    vkDestroyFence(device, fence, NULL);
    vkDestroyCommandPool(device, pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return bad;
}

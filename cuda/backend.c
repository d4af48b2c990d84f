/* The CUDA backend's entry in core's table. See device.h. */
#include <stdio.h>

#include "core/backend.h"
#include "cuda/device.h"
#include "gpu/probe.h"

/* ---- The functions for gpu/context.c ------------------------------------------------------------------ */

static gdn_gpu_implementations known[GDN_CUDA_MAX_DEVICES];

static const gdn_gpu_about *about(uint32_t index) { return &gdn_cuda_catalogue_get()->traits[index].about; }

static uint64_t identity(const void *device)
{
    const gdn_cuda_traits *t = &((const gdn_cuda_device *)device)->traits;
    return (uint64_t)t->device << 16 | (uint64_t)(10 * t->major + t->minor);
}

static void explain(const void *device, const gdn_problem *problem, const gdn_plan *plan, char reason[GDN_REASON_MAX])
{
    const gdn_gated_delta_net_call *p = &problem->gated_delta_net;
    (void)device;
    if (plan->refused == GDN_REFUSED_GATE)
        (void)snprintf(reason, GDN_REASON_MAX,
                       "gate is %d (GDN_GATE_CHANNEL) and chunked is given; the cuda backend has the chunked form with "
                       "GDN_GATE_SCALAR (0)",
                       (int)p->gate);
    else if (plan->refused == GDN_REFUSED_DIGITS)
        (void)snprintf(
            reason, GDN_REASON_MAX,
            "chunked is given; sums of products of digits are wrong on this device, by mma.sync of s8 and of "
            "f16 or of what GDN_CUDA_DIGITS says");
    else
        (void)snprintf(reason, GDN_REASON_MAX, "n_heads_v is %d; a CUDA grid has at most %d of them", (int)p->n_heads_v,
                       GDN_CUDA_MAX_BLOCKS_YZ);
}

static gdn_status probe_kernel(void *device, void *memory)
{
    gdn_cuda_device *dev = device;
    const uint64_t at = (uint64_t)(uintptr_t)memory;
    const gdn_gpu_probe params = { .operands = at, .results = at + GDN_PROBE_IN_BYTES, .n = GDN_PROBE_OPERANDS };
    const uint32_t blocks[3] = { (uint32_t)gdn_gpu_parts(GDN_PROBE_OPERANDS, GDN_CUDA_PROBE_THREADS), 1, 1 };
    return gdn_cuda_launch(dev, GDN_CUDA_probe_arithmetic, dev->stream, blocks, GDN_CUDA_PROBE_THREADS, &params);
}

static gdn_status wait_for(void *device, gdn_stream stream)
{
    CUstream on;
    const gdn_status status = gdn_cuda_stream(device, stream, &on);
    return status ? status : gdn_cuda_wait(device, on);
}

static const gdn_gpu_driver driver = {
    .limit = "2^31 thread blocks or more",
    .rows_piece = GDN_CUDA_ROWS_PIECE,
    .explain = explain,
    .makes_all = 1,
    .identity = identity,
    .pipeline_name = gdn_cuda_kernel_name,
    .only = "fma", /* fused on every CUDA device */
    .known = known,
    .device_bytes = sizeof(gdn_cuda_device),
    .buffer_bytes = sizeof(gdn_gpu_buffer),
    .count = gdn_cuda_count,
    .about = about,
    .open = gdn_cuda_device_open,
    .close = gdn_cuda_device_close,
    .enter = gdn_cuda_enter,
    .leave = gdn_cuda_leave,
    .probe_kernel = probe_kernel,
    .allocate = gdn_cuda_allocate,
    .release = gdn_cuda_release,
    .write = gdn_cuda_write,
    .read = gdn_cuda_read,
    .plan = { gdn_cuda_plan_gated_delta_net, gdn_cuda_plan_ssm_conv, gdn_cuda_plan_set_rows },
    .run = { gdn_cuda_run_gated_delta_net, gdn_cuda_run_ssm_conv, gdn_cuda_run_set_rows },
    .wait = wait_for,
    .take_report = gdn_cuda_take_report,
};

const gdn_backend gdn_backend_cuda = {
    GDN_GPU_BACKEND(GDN_BACKEND_CUDA, "cuda", &driver),
    .data_is_address = 1,
};

/* libggml-gdn.so: libgdn's kernels in an unmodified program that uses ggml, such as llama.cpp.
 *
 * The device has type ACCEL and uses host memory. Each backend object is one of ggml's CPU backend with another
 * graph_compute: plan.c replaces nodes by custom nodes that call libgdn, and the CPU backend computes the resulting
 * graph. Consequences:
 * - The threads are ggml's, and no thread waits for another team. If ggml's threads end after each graph, pool.c gives
 *   it a persistent pool.
 * - Graphs are not split: programs give whole graphs to this backend, which is listed before the CPU's.
 * - The object belongs to the CPU's device, where its results are. llama.cpp compares the devices of an operator and of
 *   its layer, and would disable the operator if they differed.
 * - Nodes that libgdn does not support, or that would not be faster, remain with ggml. */
#include "engine.h"

#include <stdlib.h>

#ifndef GDN_GGML_VERSION
#error "GDN_GGML_VERSION is the version of the ggml that this is built for; CMakeLists.txt finds it"
#endif

static ggml_backend_dev_t cpu_device(void) { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

/* ---- A backend object ---------------------------------------------------------------------------- */

static const char *object_name(ggml_backend_t backend)
{
    (void)backend;
    return "GDN";
}

static void object_free(ggml_backend_t backend)
{
    engine *e = (engine *)backend;
    if (e->cpu) ggml_backend_free(e->cpu);
    pool_free(&e->pool);
    gdn_context_destroy(e->single);
    for (int i = 0; i < MAX_CONTEXTS; i++) gdn_context_destroy(e->contexts[i].ctx);
    for (int i = 0; i < MAX_THREADS; i++) bytes_free(&e->scratch[i]);
    bytes_free(&e->workspace);
    free(e->calls);
    free(e->nodes);
    free(e->instead);
    free(e->maps);
    free(e);
}

static enum ggml_status object_compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    engine *e = (engine *)backend;
    int n_nodes = graph->n_nodes;
    e->n_calls = e->n_gone = 0;
    const bool planned = plan_graph(e, graph, &n_nodes), watched = e->pool.watching && plan_reserve(e, graph);
    if (!planned && !watched) return e->cpu->iface.graph_compute(e->cpu, graph);
    if (!planned) memcpy(e->nodes + 1, graph->nodes, sizeof *graph->nodes * (size_t)n_nodes);
    e->n_gone = graph->n_nodes - n_nodes;
    e->nodes[0] = &e->pool.node;
    struct ggml_cgraph ours = *graph; /* a view of the graph: same use counts, other nodes */
    ours.nodes = e->nodes + !watched;
    ours.n_nodes = n_nodes + watched;
    atomic_store(&e->failed, 0);
    if (watched) pool_before(&e->pool);
    const enum ggml_status status = e->cpu->iface.graph_compute(e->cpu, &ours);
    if (watched) pool_after(&e->pool, e->cpu);
    return status == GGML_STATUS_SUCCESS && atomic_load(&e->failed) ? GGML_STATUS_FAILED : status;
}

static ggml_backend_t object_create(ggml_backend_dev_t device, const char *params)
{
    (void)device;
    ggml_backend_dev_t cpu = cpu_device();
    engine *e = calloc(1, sizeof *e);
    gdn_context_desc one = GDN_INIT(gdn_context_desc);
    one.n_threads = 1;
    if (!e || !cpu || !(e->cpu = ggml_backend_dev_init(cpu, params))) {
        GGML_LOG_ERROR("libggml-gdn: %s\n", !e ? "out of memory" : "ggml has no CPU backend to work with");
        if (e) object_free(&e->base);
        return NULL;
    }
    if (gdn_context_create(&one, &e->single)) {
        GGML_LOG_ERROR("libggml-gdn: %s\n", gdn_last_error());
        object_free(&e->base);
        return NULL;
    }
    const char *mode = getenv("GDN_GGML");
    if (mode && *mode && strcmp(mode, "auto") && strcmp(mode, "all") && strcmp(mode, "off")) {
        GGML_LOG_ERROR("libggml-gdn: GDN_GGML is '%s'; auto, all and off are allowed\n", mode);
        object_free(&e->base);
        return NULL;
    }
    pool_init(&e->pool, cpu);
    e->off = mode && !strcmp(mode, "off");
    e->all = mode && !strcmp(mode, "all");
    e->base = *e->cpu; /* includes its context, so that ggml's functions for CPU backends work on it */
    e->base.iface.get_name = object_name;
    e->base.iface.free = object_free;
    e->base.iface.graph_compute = object_compute;
    return &e->base;
}

/* ---- The device ----------------------------------------------------------------------------------- */

static const char *device_name(ggml_backend_dev_t device)
{
    (void)device;
    return "GDN";
}

static const char *device_description(ggml_backend_dev_t device)
{
    (void)device;
    return "libgdn on the CPU";
}

static void device_memory(ggml_backend_dev_t device, size_t *available, size_t *total)
{
    (void)device;
    *available = *total = 0; /* it has no own memory */
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device)
{
    (void)device;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

static void device_props(ggml_backend_dev_t device, struct ggml_backend_dev_props *props)
{
    props->name = device_name(device);
    props->description = device_description(device);
    props->type = device_type(device);
    device_memory(device, &props->memory_free, &props->memory_total);
    props->caps = (struct ggml_backend_dev_caps){ .buffer_from_host_ptr = true };
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device)
{
    (void)device;
    return ggml_backend_cpu_buffer_type();
}

static ggml_backend_buffer_t device_buffer_from_host(ggml_backend_dev_t device, void *data, size_t size, size_t most)
{
    (void)device;
    (void)most;
    return ggml_backend_cpu_buffer_from_ptr(data, size);
}

static bool device_supports_op(ggml_backend_dev_t device, const struct ggml_tensor *op)
{
    (void)device;
    ggml_backend_dev_t cpu = cpu_device();
    return cpu && ggml_backend_dev_supports_op(cpu, op);
}

static bool device_supports_buffer(ggml_backend_dev_t device, ggml_backend_buffer_type_t type)
{
    (void)device;
    ggml_backend_dev_t cpu = cpu_device();
    return cpu && ggml_backend_dev_supports_buft(cpu, type);
}

/* ---- What ggml loads -------------------------------------------------------------------------------- */

static const char *reg_name(ggml_backend_reg_t reg)
{
    (void)reg;
    return "GDN";
}

static size_t reg_device_count(ggml_backend_reg_t reg)
{
    (void)reg;
    return 1;
}

static ggml_backend_dev_t reg_device(ggml_backend_reg_t reg, size_t index)
{
    (void)index;
    static struct ggml_backend_device device = {
        .iface = { .get_name = device_name,
                   .get_description = device_description,
                   .get_memory = device_memory,
                   .get_type = device_type,
                   .get_props = device_props,
                   .init_backend = object_create,
                   .get_buffer_type = device_buffer_type,
                   .buffer_from_host_ptr = device_buffer_from_host,
                   .supports_op = device_supports_op,
                   .supports_buft = device_supports_buffer },
    };
    device.reg = reg;
    return &device;
}

/* "gdn_ggml_last_plan": number of libgdn calls and skipped nodes of the object's last graph, for tests. */
static void last_plan(ggml_backend_t backend, int *n_calls, int *n_gone)
{
    const engine *e = (const engine *)backend;
    *n_calls = e->n_calls;
    *n_gone = e->n_gone;
}

/* Functions for the number of threads, the thread pool and the abort callback: those of ggml's CPU backend, since an
 * object here has the context of a CPU backend. */
static void *reg_proc(ggml_backend_reg_t reg, const char *name)
{
    (void)reg;
    static const char *const passed_on[] = { "ggml_backend_set_n_threads", "ggml_backend_set_abort_callback",
                                             "ggml_backend_cpu_set_threadpool" };
    ggml_backend_dev_t cpu = cpu_device();
    if (!strcmp(name, "gdn_ggml_last_plan")) return (void *)last_plan;
    for (size_t i = 0; cpu && i < sizeof passed_on / sizeof *passed_on; i++)
        if (!strcmp(name, passed_on[i]))
            return ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name);
    return NULL;
}

/* Checks the ggml version. Operator numbers and tensor layout change between versions of ggml, while the version of its
 * backend interface, which ggml checks itself, rarely does. */
static bool right_ggml(void)
{
    if (!strncmp(ggml_version(), GDN_GGML_VERSION, strlen(GDN_GGML_VERSION)) &&
        !ggml_version()[strlen(GDN_GGML_VERSION)] &&
        !strcmp(ggml_op_name(GGML_OP_GATED_DELTA_NET), "GATED_DELTA_NET") &&
        !strcmp(ggml_op_name(GGML_OP_CUSTOM), "CUSTOM"))
        return true;
    GGML_LOG_ERROR("libggml-gdn: built for ggml %s, but this is ggml %s: build it against the sources of this one "
                   "(-DGDN_GGML_SOURCE=DIR)\n",
                   GDN_GGML_VERSION, ggml_version());
    return false;
}

__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);

ggml_backend_reg_t ggml_backend_init(void)
{
    static struct ggml_backend_reg reg = {
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = { .get_name = reg_name,
                   .get_device_count = reg_device_count,
                   .get_device = reg_device,
                   .get_proc_address = reg_proc },
    };
    return right_ggml() ? &reg : NULL;
}

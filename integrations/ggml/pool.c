/* A persistent thread pool, for a ggml that was built without OpenMP.
 *
 * Such a ggml starts its threads for each graph and ends them after it, unless the program gave the CPU backend object
 * a thread pool. llama.cpp gives its pool only to its own CPU object, so our object, which computes the graphs, gets
 * one here.
 *
 * ggml has no functions to query the thread count or pool of an object. So a node without work, before every graph,
 * observes the threads. It records how many there are, and whether the second one has been there before. Two
 * consecutive graphs with a new second thread mean that there is no pool.
 *
 * The pool has one more thread than the graph had, which sleeps. If a later graph uses that thread too, the program
 * wants more threads than were seen; ggml limits them to the pool's size, with a warning. The pool is then recreated in
 * the right size. */
#include "engine.h"

#include <ggml-cpu.h>
#include <stdlib.h>

typedef __typeof__(&ggml_threadpool_new) new_fn;
typedef __typeof__(&ggml_threadpool_free) free_fn;
typedef __typeof__(&ggml_backend_cpu_set_threadpool) set_fn;

static _Thread_local const void *home; /* the owner of this thread: our pool or `others`; NULL: not seen before */
static const char others;

static void watch(struct ggml_tensor *node, int ith, int nth, void *user)
{
    pool *p = user;
    (void)node;
    if (ith == 0) atomic_store(&p->n_threads, nth);
    if (ith != 1) return;
    atomic_store(&p->is_new, home == NULL);
    atomic_store(&p->is_ours, home && home == p->threads);
    if (!home) home = p->next_home;
    p->next_home = &others;
}

static bool has_openmp(ggml_backend_reg_t reg)
{
    ggml_backend_get_features_t features =
        (ggml_backend_get_features_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features");
    for (struct ggml_backend_feature *f = features ? features(reg) : NULL; f && f->name; f++)
        if (!strcmp(f->name, "OPENMP")) return true; /* OpenMP's threads persist */
    return !features;
}

void pool_init(pool *p, ggml_backend_dev_t cpu)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu);
    const struct ggml_custom_op_params custom = { .fun = watch, .n_tasks = GGML_N_TASKS_MAX, .userdata = p };
    p->make = ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_new");
    p->end = ggml_backend_reg_get_proc_address(reg, "ggml_threadpool_free");
    p->set = ggml_backend_reg_get_proc_address(reg, "ggml_backend_cpu_set_threadpool");
    p->next_home = &others;
    p->watching = p->make && p->end && p->set && !has_openmp(reg);
    p->node = (struct ggml_tensor){ .type = GGML_TYPE_F32,
                                    .op = GGML_OP_CUSTOM,
                                    .flags = GGML_TENSOR_FLAG_COMPUTE,
                                    .ne = { 1, 1, 1, 1 },
                                    .nb = { 4, 4, 4, 4 },
                                    .data = &p->nothing };
    memcpy(p->node.op_params, &custom, sizeof custom);
}

void pool_before(pool *p)
{
    atomic_store(&p->n_threads, 0);
    atomic_store(&p->is_new, 0);
    atomic_store(&p->is_ours, 0);
}

void pool_after(pool *p, ggml_backend_t cpu)
{
    const int n = atomic_load(&p->n_threads);
    if (n < 2) return; /* one thread is the program's own; an aborted computation gives no information */
    if (!atomic_load(&p->is_new)) p->n_new = 0;
    else p->n_new++;
    if (p->threads && atomic_load(&p->is_ours) && n == p->size) {
        ((set_fn)p->set)(cpu, NULL);
        pool_free(p);
        p->n_new = 0;
    } else if (p->n_new == 2 && n < GGML_MAX_N_THREADS) {
        struct ggml_threadpool_params params;
        ggml_threadpool_params_init(&params, n + 1);
        if (!p->threads) {
            p->threads = ((new_fn)p->make)(&params);
            p->size = n + 1;
        } /* else the program has set a pool and removed it again */
        if (p->threads) ((set_fn)p->set)(cpu, p->threads);
        p->next_home = p->threads ? (const void *)p->threads : &others;
        p->n_new = 0;
    }
}

void pool_free(pool *p)
{
    if (p->threads) ((free_fn)p->end)(p->threads);
    p->threads = NULL;
}

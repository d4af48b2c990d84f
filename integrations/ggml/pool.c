/* Threads that stay, for a ggml that was built without OpenMP.
 *
 * Such a ggml starts its threads anew for each graph and ends them behind it, but where the program gave the CPU
 * backend object a pool of threads. llama.cpp gives its pool to its own CPU object alone, so that ours, which computes
 * the graphs, would go without. Then it gets one here.
 *
 * Neither the number of threads that the program wants nor the pool that it may have set can be asked for: what there
 * is for setting them are functions of ggml's CPU backend, which know nothing of us. So a node of no work stands in
 * front of every graph and watches. Each thread that comes there says how many there are, and the second one whether it
 * has been here before. Two graphs in a row with a new second thread: nobody keeps threads. The pool has one thread
 * more than the graph had, which sleeps; a graph that it works in wants more threads than were seen, of which ggml
 * gives as many as the pool has, with a warning. Then the pool goes, and is made anew of the right size. */
#include "engine.h"

#include <ggml-cpu.h>
#include <stdlib.h>

typedef __typeof__(&ggml_threadpool_new) new_fn;
typedef __typeof__(&ggml_threadpool_free) free_fn;
typedef __typeof__(&ggml_backend_cpu_set_threadpool) set_fn;

static _Thread_local const void *home; /* whose thread this is: a pool of ours or `others`; NULL: it was never here */
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
        if (!strcmp(f->name, "OPENMP")) return true; /* whose threads stay */
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
    if (n < 2) return; /* one thread is the program's, and a computation that was broken off says nothing */
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
        } /* else the program has set a pool, and taken it away again */
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

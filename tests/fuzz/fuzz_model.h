/* Tiny models for fuzz_model.c. */
#ifndef GDN_TESTS_FUZZ_FUZZ_MODEL_H
#define GDN_TESTS_FUZZ_FUZZ_MODEL_H

#include <stddef.h>

#include "../runtime/gguf_build.h"
#include "runtime/decode/sampler.h"
#include "runtime/serve/scheduler.h"

/* How the model is used; drawn from the same input. */
typedef struct fuzz_choices {
    int32_t n_seqs, n_batch, n_rollback, kv_type;
    rt_spec spec;
    float p_min;
    rt_sampling sampling;
    const char *isa;
} fuzz_choices;

/* The file that an input stands for, and how many of its bytes there are. After its end an input goes on with zeros.
 * The first eight bytes choose architecture, sizes, types and use of a well-formed model, and how many changes of its
 * file follow. A change has five bytes: what is changed, which of them (2), to what (2). An empty input is a
 * well-formed model. */
size_t fuzz_model_build(const uint8_t *data, size_t size, gguf_build *file, fuzz_choices *choices);

#endif

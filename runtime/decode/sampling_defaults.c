/* Sampling defaults, and the recommendations of a model file. See sampling_defaults.h. */
#include "runtime/decode/sampling_defaults.h"

#include "runtime/base/error.h"
#include "runtime/files/model_names.h"

#define PREFIX "general.sampling."

rt_sampling rt_sampling_usual(uint64_t seed)
{
    return (rt_sampling){ .temperature = 0.8f,
                          .top_k = 40,
                          .top_p = 0.95f,
                          .min_p = 0.05f,
                          .repeat_penalty = 1,
                          .repeat_last = 64,
                          .seed = seed };
}

/* Reads the value of a key of the file and counts it. GDN_INVALID_ARGUMENT: model_names.def does not allow the value.
 */
static gdn_status get(const rt_gguf *file, const char *key, double *value, int *n_found)
{
    if (!rt_gguf_has(file, key)) return GDN_OK;
    if (!rt_get_advice(file, key, value))
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "%s of the model is not a number that can be used; docs/reference/model-files.md has the range",
                       key);
    ++*n_found;
    return GDN_OK;
}

gdn_status rt_sampling_of_model(const rt_gguf *file, rt_sampling *s, int *n_found)
{
    double temp = (double)s->temperature, top_p = (double)s->top_p, min_p = (double)s->min_p,
           penalty = (double)s->repeat_penalty, top_k = s->top_k, last = s->repeat_last;
    const struct {
        const char *key;
        double *value;
    } keys[] = { { PREFIX "temp", &temp },
                 { PREFIX "top_p", &top_p },
                 { PREFIX "min_p", &min_p },
                 { PREFIX "top_k", &top_k },
                 { PREFIX "penalty_repeat", &penalty },
                 { PREFIX "penalty_last_n", &last } };
    *n_found = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const gdn_status status = get(file, keys[i].key, keys[i].value, n_found);
        if (status) return status;
    }
    s->temperature = temp < 0 ? 0 : (float)temp;
    s->top_p = top_p > 1 ? 1 : (float)top_p;
    s->min_p = min_p < 0 ? 0 : (float)min_p;
    s->top_k = top_k > 0 ? (int32_t)top_k : 0;
    s->repeat_penalty = (float)penalty;
    s->repeat_last = last < 0 ? INT32_MAX : (int32_t)last; /* -1: the whole context */
    return GDN_OK;
}

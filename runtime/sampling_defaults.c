/* See sampling_defaults.h. */
#include "runtime/sampling_defaults.h"

#include "runtime/model_names.h"

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

/* 1: the file has the key, with a value in the range of model_names.def. */
static int get_float(const rt_gguf *file, const char *key, float *value)
{
    double x;
    if (!rt_get_advice(file, key, &x)) return 0;
    *value = (float)x;
    return 1;
}

int rt_sampling_of_model(const rt_gguf *file, rt_sampling *s)
{
    double x;
    int n = get_float(file, PREFIX "temp", &s->temperature) + get_float(file, PREFIX "top_p", &s->top_p) +
            get_float(file, PREFIX "min_p", &s->min_p) + get_float(file, PREFIX "penalty_repeat", &s->repeat_penalty);
    if (rt_get_advice(file, PREFIX "top_k", &x)) {
        s->top_k = x > 0 ? (int32_t)x : 0;
        n++;
    }
    if (rt_get_advice(file, PREFIX "penalty_last_n", &x)) {
        s->repeat_last = x < 0 ? INT32_MAX : (int32_t)x; /* -1: the whole context */
        n++;
    }
    s->temperature = s->temperature < 0 ? 0 : s->temperature;
    s->top_p = s->top_p > 1 ? 1 : s->top_p;
    s->min_p = s->min_p < 0 ? 0 : s->min_p;
    return n;
}

/* See sampling_defaults.h. */
#include "runtime/sampling_defaults.h"

#include <stdio.h>
#include <string.h>

#include "runtime/error.h"

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

/* A number of either kind. */
static gdn_status get(const rt_gguf *file, const char *key, float *value)
{
    int64_t whole;
    if (rt_gguf_get_int(file, key, INT32_MIN, INT32_MAX, &whole)) return rt_gguf_get_float(file, key, value);
    *value = (float)whole;
    return GDN_OK;
}

/* Keys that other samplers know, and the value with which they change nothing. */
static const struct {
    const char *name;
    float off;
} others[] = { { PREFIX "xtc_probability", 0 }, { PREFIX "mirostat", 0 } };

/* These mean something only together with one of the above. */
static int is_detail(const char *key)
{
    return !strcmp(key, PREFIX "xtc_threshold") || !strcmp(key, PREFIX "mirostat_tau") ||
           !strcmp(key, PREFIX "mirostat_eta");
}

static int asks_for_others(const rt_gguf *file, const char *key)
{
    float value;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!strcmp(key, others[i].name)) return get(file, key, &value) || value != others[i].off;
    return !is_detail(key);
}

gdn_status rt_sampling_of_model(const rt_gguf *file, rt_sampling *s, int *n_found, char *unsupported,
                                size_t n_unsupported)
{
    float top_k = 0, last = 0;
    const struct {
        const char *key;
        float *value;
    } known[] = { { PREFIX "temp", &s->temperature },    { PREFIX "top_p", &s->top_p },
                  { PREFIX "min_p", &s->min_p },         { PREFIX "penalty_repeat", &s->repeat_penalty },
                  { PREFIX "top_k", &top_k },            { PREFIX "penalty_last_n", &last } };
    const int64_t n_keys = rt_gguf_n_keys(file);
    *n_found = 0;
    *unsupported = 0;
    for (int64_t i = 0; i < n_keys; i++) {
        char key[64];
        const rt_string name = rt_gguf_key_at(file, i, NULL);
        size_t k = 0, used = strlen(unsupported);
        if (name.bytes < strlen(PREFIX) || memcmp(name.text, PREFIX, strlen(PREFIX)) != 0) continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)(name.bytes < 63 ? name.bytes : 63), name.text);
        while (k < sizeof known / sizeof known[0] && strcmp(key, known[k].key) != 0) k++;
        if (k == sizeof known / sizeof known[0]) {
            if (asks_for_others(file, key))
                (void)snprintf(unsupported + used, n_unsupported - used, "%s%s", used ? ", " : "", key);
            continue;
        }
        const gdn_status status = get(file, key, known[k].value);
        if (status) return status;
        ++*n_found;
        if (known[k].value == &top_k) s->top_k = top_k > 0 ? (int32_t)top_k : 0;
        if (known[k].value == &last) s->repeat_last = last < 0 ? INT32_MAX : (int32_t)last; /* -1: the whole context */
    }
    /* NaN stays, and is refused */
    s->temperature = s->temperature < 0 ? 0 : s->temperature;
    s->top_p = s->top_p > 1 ? 1 : s->top_p;
    s->min_p = s->min_p < 0 ? 0 : s->min_p;
    return GDN_OK;
}

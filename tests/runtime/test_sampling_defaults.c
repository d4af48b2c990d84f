/* What a file says of sampling, key by key; part of test_choices. */
#include <math.h>
#include <string.h>

#include "engine_fixture.h"
#include "gguf_build.h"
#include "runtime/decode/sampling_defaults.h"

static gguf_build file;

static gdn_status read_it(rt_sampling *s, int *n_found)
{
    rt_gguf *f;
    NEED(!rt_gguf_open_memory(file.bytes, file.n, NULL, &f));
    const gdn_status status = rt_sampling_of_model(f, s, n_found);
    rt_gguf_close(f);
    return status;
}

/* A file with this key alone is refused, by its name, and nothing of *s changes. */
static void refused(const char *key)
{
    int n;
    rt_sampling s = rt_sampling_usual(5), usual = s;
    REQUIRE(read_it(&s, &n) == GDN_INVALID_ARGUMENT && strstr(rt_last_error(), key) && !memcmp(&s, &usual, sizeof s));
}

static void refused_float(const char *key, float value)
{
    build_header(&file, 0, 1);
    build_key_float(&file, key, value);
    refused(key);
}

void test_sampling_defaults(void);
void test_sampling_defaults(void)
{
    int n;
    rt_sampling s = rt_sampling_usual(5), usual = s;
    REQUIRE(s.temperature == 0.8f && s.top_k == 40 && s.top_p == 0.95f && s.min_p == 0.05f && s.repeat_penalty == 1 &&
            s.presence_penalty == 0 && s.frequency_penalty == 0 && s.seed == 5 && !rt_sampling_check(&s));

    build_header(&file, 0, 1); /* no such keys: nothing changes */
    build_key_string(&file, "general.sampling", "x");
    REQUIRE(!read_it(&s, &n) && n == 0 && !memcmp(&s, &usual, sizeof s));

    build_header(&file, 0, 6);
    build_key_float(&file, "general.sampling.temp", 0.6f);
    build_key_number(&file, "general.sampling.top_k", RT_GGUF_I32, 20);
    build_key_float(&file, "general.sampling.top_p", 0.9f);
    build_key_float(&file, "general.sampling.min_p", 0.125f);
    build_key_float(&file, "general.sampling.penalty_repeat", 1.05f);
    build_key_number(&file, "general.sampling.penalty_last_n", RT_GGUF_I32, 128);
    REQUIRE(!read_it(&s, &n) && n == 6);
    REQUIRE(s.temperature == 0.6f && s.top_k == 20 && s.top_p == 0.9f && s.min_p == 0.125f &&
            s.repeat_penalty == 1.05f && s.repeat_last == 128 && s.seed == 5);

    build_header(&file, 0, 5); /* what llama.cpp takes for off, and a whole number for a temperature */
    build_key_number(&file, "general.sampling.temp", RT_GGUF_U32, 1);
    build_key_number(&file, "general.sampling.top_k", RT_GGUF_I32, (uint32_t)-1);
    build_key_float(&file, "general.sampling.top_p", 1.5f);
    build_key_float(&file, "general.sampling.min_p", -1);
    build_key_number(&file, "general.sampling.penalty_last_n", RT_GGUF_I32, (uint32_t)-1);
    REQUIRE(!read_it(&s, &n) && n == 5 && s.temperature == 1 && s.top_k == 0 && s.top_p == 1 && s.min_p == 0 &&
            s.repeat_last == INT32_MAX && !rt_sampling_check(&s));

    build_header(&file, 0, 3); /* the largest numbers, and keys of other samplers */
    build_key_number(&file, "general.sampling.top_k", RT_GGUF_I32, INT32_MAX);
    build_key_number(&file, "general.sampling.penalty_last_n", RT_GGUF_I32, INT32_MAX);
    build_key_number(&file, "general.sampling.mirostat", RT_GGUF_I32, 2);
    REQUIRE(!read_it(&s, &n) && n == 2 && s.top_k == INT32_MAX && s.repeat_last == INT32_MAX);

    build_header(&file, 0, 1);
    build_key_string(&file, "general.sampling.temp", "hot");
    refused("general.sampling.temp");
    refused_float("general.sampling.temp", NAN);
    refused_float("general.sampling.temp", 500);
    refused_float("general.sampling.top_p", 0);
    refused_float("general.sampling.min_p", 1.5f);
    refused_float("general.sampling.penalty_repeat", 0);
}

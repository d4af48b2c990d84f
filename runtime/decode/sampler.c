/* Draws a token from logits. See sampler.h. Order: biases, penalties, top_k, top_p, min_p, temperature. */
#include "runtime/decode/sampler.h"

#include <string.h>

#include "numerics/elementary.h"
#include "numerics/float_env.h"
#include "runtime/base/error.h"

struct rt_sampler {
    int32_t n_vocab, n; /* n: logits of the draw                                */
    rt_dense *dense;
    float *logits, *p; /* [n_vocab]: after penalties; probabilities */
    int32_t *index;    /* [n_vocab]                                      */
};

gdn_status rt_sampling_check(const rt_sampling *s)
{
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return rt_fail(GDN_INVALID_ARGUMENT, "temperature is %g; 0 (greedy) to 100 are allowed",
                       (double)s->temperature);
    if (s->top_k < 0) return rt_fail(GDN_INVALID_ARGUMENT, "top_k is %d; 0 (off) and more are allowed", (int)s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return rt_fail(GDN_INVALID_ARGUMENT, "top_p is %g; above 0 to 1 (off) are allowed", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return rt_fail(GDN_INVALID_ARGUMENT, "min_p is %g; 0 (off) to 1 are allowed", (double)s->min_p);
    if (!(s->repeat_penalty >= 1e-6f && s->repeat_penalty <= 100)) /* a smaller divisor makes logits infinite */
        return rt_fail(GDN_INVALID_ARGUMENT, "repeat_penalty is %g; 1e-6 to 100 are allowed, 1 is off",
                       (double)s->repeat_penalty);
    if (s->repeat_last < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "repeat_last is %d; 0 and more are allowed", (int)s->repeat_last);
    if (!(s->presence_penalty >= -100 && s->presence_penalty <= 100))
        return rt_fail(GDN_INVALID_ARGUMENT, "presence_penalty is %g; -100 to 100 are allowed, 0 is off",
                       (double)s->presence_penalty);
    if (!(s->frequency_penalty >= -100 && s->frequency_penalty <= 100))
        return rt_fail(GDN_INVALID_ARGUMENT, "frequency_penalty is %g; -100 to 100 are allowed, 0 is off",
                       (double)s->frequency_penalty);
    for (int32_t i = 0; i < s->n_bias; i++)
        if (!(s->bias[i].add >= -100 && s->bias[i].add <= 100))
            return rt_fail(GDN_INVALID_ARGUMENT, "logit_bias of token %d is %g; -100 to 100 are allowed",
                           (int)s->bias[i].token, (double)s->bias[i].add);
    return GDN_OK;
}

gdn_status rt_sampler_create(int32_t n_vocab, rt_dense *dense, rt_sampler **sampler)
{
    *sampler = NULL;
    const size_t room = ((size_t)n_vocab + 31) / 16 * 16; /* a gap between the arrays, each aligned to 64 */
    void *arrays;
    rt_sampler *s = rt_calloc_with(sizeof *s, room, 2 * sizeof *s->p + sizeof *s->index, "a sampler", &arrays);
    if (!s) return GDN_OUT_OF_MEMORY;
    *s = (rt_sampler){ n_vocab, n_vocab, dense, arrays, (float *)arrays + room, (int32_t *)arrays + 2 * room };
    *sampler = s;
    return GDN_OK;
}

void rt_sampler_destroy(rt_sampler *s) { rt_free(s); }

/* A number in [0, 1) from (seed, position): two rounds of splitmix64 (Steele, Lea, Flood 2014). */
static double uniform(uint64_t seed, int32_t position)
{
    uint64_t z = seed;
    for (int round = 0; round < 2; round++) {
        z += UINT64_C(0x9e3779b97f4a7c15) * (round ? (uint64_t)position + 1 : 1);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

/* Applies the penalties once to each token of the window. s->index holds counts, as nothing else uses it here. */
static void penalize(rt_sampler *s, const rt_sampling *c, const int32_t *tokens, int32_t n)
{
    const int32_t from = n > c->repeat_last ? n - c->repeat_last : 0;
    for (int32_t i = from; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < s->n_vocab) s->index[tokens[i]] = 0;
    for (int32_t i = from; i < n; i++)
        if (tokens[i] >= 0 && tokens[i] < s->n_vocab) s->index[tokens[i]]++;
    for (int32_t i = from; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= s->n_vocab || !s->index[tokens[i]]) continue;
        float *logit = &s->logits[tokens[i]];
        const float count = (float)s->index[tokens[i]];
        s->index[tokens[i]] = 0;
        *logit = *logit > 0 ? *logit / c->repeat_penalty : *logit * c->repeat_penalty;
        *logit -= count * c->frequency_penalty + c->presence_penalty;
    }
}

/* Writes the candidates to s->index, most likely first if a filter needs the order, and returns their number. */
static int32_t candidates(rt_sampler *s, const rt_sampling *c)
{
    const int32_t V = s->n;
    int32_t k = c->top_k && c->top_k < V ? c->top_k : V;
    if (k == V && c->top_p >= 1 && c->min_p <= 0) {
        for (int32_t i = 0; i < V; i++) s->index[i] = i;
        return V;
    }
    memcpy(s->p, s->logits, 4 * (size_t)V);
    rt_softmax(s->dense, s->p, V);
    double total = 0; /* probability mass of the k candidates of top_k */
    if (k < V) {
        rt_top_k(s->p, V, k, s->index);
        for (int32_t i = 0; i < k; i++) total += (double)s->p[s->index[i]];
    } else {
        for (int32_t i = 0; i < V; i++) total += (double)s->p[i];
    }
    /* Take candidates until they hold top_p of the mass. Usually a few hundred suffice, so sort in growing pieces. */
    int32_t sorted = k < V ? k : 0, n = 0;
    double mass = 0;
    float highest = 0;
    for (; n < k; n++) {
        if (n == sorted) {
            sorted = sorted ? (sorted < V / 8 ? sorted * 8 : V) : (V < 256 ? V : 256);
            rt_top_k(s->p, V, sorted, s->index);
        }
        const float p = s->p[s->index[n]];
        highest = n ? highest : p;
        if (n && (mass >= (double)c->top_p * total || p < c->min_p * highest)) break;
        mass += (double)p;
    }
    return n;
}

/* True if all logits are finite. Tests bits, without a dependency between elements. */
static int all_finite(const float *logits, int32_t n)
{
    uint32_t largest = 0;
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        bits &= 0x7FFFFFFF;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7F800000;
}

/* Logits with penalties. 0: one is not finite. */
static int prepare(rt_sampler *s, const rt_sampling *c, const float *logits, const int32_t *tokens, int32_t n)
{
    s->n = s->n_vocab;
    memcpy(s->logits, logits, 4 * (size_t)s->n);
    for (int32_t i = 0; i < c->n_bias; i++)
        if (c->bias[i].token >= 0 && c->bias[i].token < s->n) s->logits[c->bias[i].token] += c->bias[i].add;
    if ((c->repeat_penalty != 1.0f || c->presence_penalty != 0 || c->frequency_penalty != 0) && c->repeat_last)
        penalize(s, c, tokens, n);
    return all_finite(s->logits, s->n);
}

/* Draws the index of one of the prepared logits. */
static int32_t draw(rt_sampler *s, const rt_sampling *c, double random)
{
    if (c->temperature == 0.0f) {
        int32_t best;
        rt_top_k(s->logits, s->n, 1, &best);
        return best;
    }
    const int32_t k = candidates(s, c);
    float highest = s->logits[s->index[0]];
    for (int32_t i = 1; i < k; i++) highest = s->logits[s->index[i]] > highest ? s->logits[s->index[i]] : highest;
    /* The difference comes first: a quotient of the logit itself overflows at low temperatures. */
    for (int32_t i = 0; i < k; i++) s->p[i] = (s->logits[s->index[i]] - highest) / c->temperature;
    rt_softmax(s->dense, s->p, k);
    double total = 0;
    for (int32_t i = 0; i < k; i++) total += (double)s->p[i];
    const double target = random * total;
    double mass = 0;
    for (int32_t i = 0; i < k; i++) {
        mass += (double)s->p[i];
        if (mass > target) return s->index[i];
    }
    return s->index[0]; /* rounding left target above the sum */
}

int32_t rt_sample(rt_sampler *s, const rt_sampling *c, const float *logits, const int32_t *tokens, int32_t n)
{
    const gdn_float_env caller = gdn_float_env_enter();
    const int32_t token = prepare(s, c, logits, tokens, n) ? draw(s, c, uniform(c->seed, n)) : -1;
    gdn_float_env_leave(caller);
    return token;
}

int32_t rt_sample_among(rt_sampler *s, const rt_sampling *c, const float *logits, const int32_t *tokens, int32_t n,
                        const int32_t *among, int32_t n_among)
{
    const gdn_float_env caller = gdn_float_env_enter();
    int32_t token = -1;
    if (prepare(s, c, logits, tokens, n)) {
        for (int32_t i = 0; i < n_among; i++) s->logits[i] = s->logits[among[i]];
        s->n = n_among;
        token = among[draw(s, c, uniform(~c->seed, n))];
    }
    gdn_float_env_leave(caller);
    return token;
}

void rt_logprobs(rt_sampler *s, const float *logits, int32_t token, int32_t n_top, rt_logprob *to)
{
    const gdn_float_env caller = gdn_float_env_enter();
    int32_t top[RT_TOP_LOGPROBS];
    rt_top_k(logits, s->n_vocab, n_top ? n_top : 1, top);
    memcpy(s->p, logits, 4 * (size_t)s->n_vocab);
    rt_softmax(s->dense, s->p, s->n_vocab);
    const float highest = logits[top[0]], p = s->p[top[0]];
    const float log_sum = p < 1 ? gdn_log1pf((1 - p) / p) : 0; /* of exp(logit - highest) */
    for (int32_t i = 0; i <= n_top; i++) {
        const int32_t of = i ? top[i - 1] : token;
        to[i] = (rt_logprob){ of, (logits[of] - highest) - log_sum };
    }
    gdn_float_env_leave(caller);
}

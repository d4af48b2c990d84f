/* Draws the next token from logits. A draw is a function of the parameters, the logits, the tokens before it, and
 * (seed, position) alone: no hidden stream of random numbers. So a sequence reads the same however it was batched or
 * speculated, and a draw can be repeated. */
#ifndef GDN_RUNTIME_SAMPLER_H
#define GDN_RUNTIME_SAMPLER_H

#include "runtime/dense.h"

typedef struct rt_sampling {
    float    temperature;      /* 0 = greedy: the largest logit, ties to the lower id                       */
    int32_t  top_k;            /* 0 = off                                                                   */
    float    top_p;            /* 1 = off                                                                   */
    float    min_p;            /* 0 = off                                                                   */
    float    repeat_penalty;   /* 1 = off                                                                   */
    int32_t  repeat_last;      /* how many tokens back the penalties look                                   */
    uint64_t seed;
    float    presence_penalty;  /* 0 = off: taken from the logit of each token of the last repeat_last ones */
    float    frequency_penalty; /* 0 = off: likewise, times how often it is there                           */
} rt_sampling;

gdn_status rt_sampling_check(const rt_sampling *s);

typedef struct rt_sampler rt_sampler; /* scratch for one vocabulary */
gdn_status rt_sampler_create(int32_t n_vocab, rt_dense *dense, rt_sampler **sampler);
void       rt_sampler_destroy(rt_sampler *sampler);

/* tokens[0, n): the sequence so far; the drawn token gets position n. -1 where a logit is NaN or infinite: no sound
 * model has any, and what is drawn from them means nothing. */
int32_t rt_sample(rt_sampler *sampler, const rt_sampling *s, const float *logits, const int32_t *tokens, int32_t n);

#endif

/* Draws the next token from logits. The result depends only on the parameters, the logits, the tokens before it, and
 * (seed, position); there is no other random state. So a sequence does not depend on batching or speculation, and a
 * draw can be reproduced. */
#ifndef GDN_RUNTIME_SAMPLER_H
#define GDN_RUNTIME_SAMPLER_H

#include "runtime/dense/dense.h"

typedef struct rt_bias {
    int32_t token;
    float add;
} rt_bias;

typedef struct rt_sampling {
    float temperature;    /* 0 = greedy: the largest logit, ties to the lower id                       */
    int32_t top_k;        /* 0 = off                                                                   */
    float top_p;          /* 1 = off                                                                   */
    float min_p;          /* 0 = off                                                                   */
    float repeat_penalty; /* 1 = off                                                                   */
    int32_t repeat_last;  /* window of the penalties, in tokens                                        */
    uint64_t seed;
    float presence_penalty;  /* 0 = off: subtracted from the logit of each token in the window */
    float frequency_penalty; /* 0 = off: the same, times the token's count in the window                 */
    const rt_bias *bias;     /* [n_bias]: what is added to logits of tokens, before the penalties; the caller's */
    int32_t n_bias;
} rt_sampling;

gdn_status rt_sampling_check(const rt_sampling *s);

typedef struct rt_sampler rt_sampler; /* buffers for one vocabulary */
gdn_status rt_sampler_create(int32_t n_vocab, rt_dense *dense, rt_sampler **sampler);
void rt_sampler_destroy(rt_sampler *sampler);

/* Draws the token at position n. tokens[0, n): the sequence so far. -1: a logit is NaN or infinite, also with its
 * penalties, which only a damaged model computes. */
int32_t rt_sample(rt_sampler *sampler, const rt_sampling *s, const float *logits, const int32_t *tokens, int32_t n);

/* The same among the n_among > 0 tokens of `among`, which are in ascending order. It is for a position where
 * rt_sample() gave a token that is not allowed, and has a random number of its own. Filters are applied to the allowed
 * tokens. Where no filter is on, both draws together give each allowed token with its probability, renormalised over
 * those. */
int32_t rt_sample_among(rt_sampler *sampler, const rt_sampling *s, const float *logits, const int32_t *tokens,
                        int32_t n, const int32_t *among, int32_t n_among);

/* Log-probabilities of the model's distribution, before penalties, filters and temperature: to[0] is that of `token`,
 * to[1, n_top] are the most likely tokens in descending order. The logits are finite, as after rt_sample(). They are a
 * function of the logits alone. Their error is about 1e-6. */
enum { RT_TOP_LOGPROBS = 20 }; /* most of n_top */
typedef struct rt_logprob {
    int32_t token;
    float logprob;
} rt_logprob;
void rt_logprobs(rt_sampler *sampler, const float *logits, int32_t token, int32_t n_top, rt_logprob *to);

#endif

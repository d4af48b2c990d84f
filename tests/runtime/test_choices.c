/* What comes next: the sampler's filters and its draws, prompt lookup, and whether drafting pays. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "engine_fixture.h"
#include "runtime/decode/draft_ngram.h"
#include "runtime/serve/speculation.h"

enum { V = 37, DRAWS = 20000 };

void test_sampling_defaults(void); /* test_sampling_defaults.c */

static const rt_sampling open_sampling = { 1, 0, 1, 0, 1, 64, 1 };

/* How often each token is drawn at positions 1 .. DRAWS. */
static void draw_many(rt_sampler *s, const rt_sampling *with, const float *logits, int32_t *counts)
{
    static const int32_t text[DRAWS + 1];
    memset(counts, 0, V * sizeof *counts);
    for (int32_t p = 1; p < DRAWS; p++) counts[rt_sample(s, with, logits, text, p)]++;
}

/* Draws follow the probabilities, which are given without their sum: 36 degrees of freedom, far beyond 99.99% at 80. */
static double chi_squared(const int32_t *counts, const double *p)
{
    double chi = 0, total = 0;
    for (int32_t i = 0; i < V; i++) total += p[i];
    for (int32_t i = 0; i < V; i++)
        chi += pow(counts[i] - (DRAWS - 1) * p[i] / total, 2) / ((DRAWS - 1) * p[i] / total);
    return chi;
}

/* Log-probabilities are those of the formula in binary64, and the most likely tokens are in order, the lower of equals
 * first. */
static void logprobs(rt_dense *dense)
{
    rt_sampler *s;
    float logits[V];
    rt_logprob got[1 + RT_TOP_LOGPROBS];
    uint64_t random = 2;
    NEED(!rt_sampler_create(V, dense, &s));
    for (int round = 0; round < 60; round++) {
        const float scale = round % 3 == 0 ? 0.01f : round % 3 == 1 ? 1 : 30;
        for (int32_t i = 0; i < V; i++) logits[i] = scale * (float)(test_random(&random) % 1000) / 100.0f - 40;
        logits[11] = logits[5];
        double sum = 0;
        for (int32_t i = 0; i < V; i++) sum += exp((double)logits[i]);
        for (int32_t n = 0; n <= RT_TOP_LOGPROBS && n <= V; n += 5) {
            const int32_t token = (int32_t)(test_random(&random) % V);
            rt_logprobs(s, logits, token, n, got);
            REQUIRE(got[0].token == token);
            for (int32_t i = 0; i <= n; i++) {
                const double exact = (double)logits[got[i].token] - log(sum);
                REQUIRE(fabs((double)got[i].logprob - exact) < 1e-6 * (1 + fabs(exact)) && got[i].logprob <= 0,
                        "%g, not %g", (double)got[i].logprob, exact);
                const float before = i > 1 ? logits[got[i - 1].token] : INFINITY, here = logits[got[i].token];
                REQUIRE(i < 2 || before > here || (before == here && got[i - 1].token < got[i].token), "the order");
            }
            if (n) REQUIRE(got[1].logprob >= got[0].logprob, "the most likely token is first");
        }
    }
    rt_sampler_destroy(s);
}

static void sampler(rt_dense *dense)
{
    rt_sampler *s;
    float logits[V];
    int32_t counts[V], tokens[4] = { 3, 5, 3, 7 };
    uint64_t random = 1;
    double p[V];
    NEED(!rt_sampler_create(V, dense, &s));
    for (int32_t i = 0; i < V; i++) logits[i] = (float)(test_random(&random) % 1000) / 250.0f;
    logits[4] = logits[20] = 6; /* the likeliest two are equal */
    for (int32_t i = 0; i < V; i++) p[i] = exp((double)logits[i]);

    /* greedy, and every filter at its limit: always the lower of equals */
    const rt_sampling greedy[] = { { 0, 0, 1, 0, 1, 64, 9 }, { 1, 1, 1, 0, 1, 64, 9 }, { 1, 0, 1e-6f, 0, 1, 64, 9 } };
    for (size_t i = 0; i < 3; i++)
        for (int32_t n = 1; n < 50; n++) REQUIRE(rt_sample(s, &greedy[i], logits, tokens, n < 4 ? n : 4) == 4);
    rt_sampling min_p = open_sampling;
    min_p.min_p = 1;
    draw_many(s, &min_p, logits, counts);
    REQUIRE(counts[4] > 0 && counts[20] > 0 && counts[4] + counts[20] == DRAWS - 1); /* both reach it */

    draw_many(s, &open_sampling, logits, counts);
    REQUIRE(chi_squared(counts, p) < 80);
    rt_sampling warm = open_sampling; /* a temperature of 2 is the square root of the probabilities */
    warm.temperature = 2;
    for (int32_t i = 0; i < V; i++) p[i] = sqrt(p[i]);
    draw_many(s, &warm, logits, counts);
    REQUIRE(chi_squared(counts, p) < 80);

    /* top_k: the k largest, all of them; top_p: as few as hold that much */
    rt_sampling few = open_sampling;
    few.top_k = 5;
    draw_many(s, &few, logits, counts);
    int32_t n_seen = 0;
    for (int32_t i = 0; i < V; i++) {
        int32_t larger = 0;
        for (int32_t j = 0; j < V; j++) larger += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        REQUIRE(larger < 5 || !counts[i]);
        n_seen += counts[i] > 0;
    }
    REQUIRE(n_seen == 5);

    /* in the caller's floating-point mode, 1 / 3 would be less than the third that it has to equal */
    float third[V] = { 1, 1.0f / 3.0f };
    rt_sampling tired = open_sampling;
    tired.temperature = 0;
    tired.repeat_penalty = 3;
    (void)fesetround(FE_DOWNWARD);
    REQUIRE(rt_sample(s, &tired, third, (const int32_t[]){ 0, 0, 0 }, 3) == 0);
    (void)fesetround(FE_TONEAREST);

    /* the same seed and position: the same draw; others differ */
    int32_t equal = 0, other = 0;
    rt_sampling seed = open_sampling;
    seed.seed = 2;
    for (int32_t n = 1; n < 1000; n++) {
        static const int32_t zeros[1000];
        const int32_t a = rt_sample(s, &open_sampling, logits, zeros, n);
        equal += a == rt_sample(s, &open_sampling, logits, zeros, n);
        other += a == rt_sample(s, &seed, logits, zeros, n);
    }
    REQUIRE(equal == 999 && other < 500);

    rt_sampling wrong[10];
    for (int i = 0; i < 10; i++) wrong[i] = open_sampling;
    wrong[0].temperature = -1;
    wrong[1].top_k = -1;
    wrong[2].top_p = 0;
    wrong[3].min_p = 1.5f;
    wrong[4].repeat_penalty = 0;
    wrong[5].repeat_last = -1;
    wrong[6].temperature = NAN;
    wrong[7].presence_penalty = NAN;
    wrong[8].frequency_penalty = 101;
    wrong[9].repeat_penalty = 9e-7f;
    for (int i = 0; i < 10; i++) REQUIRE(rt_sampling_check(&wrong[i]) == GDN_INVALID_ARGUMENT);
    REQUIRE(!rt_sampling_check(&open_sampling));
    rt_sampler_destroy(s);
}

/* Penalties as they are defined: each token of the window once, as often as it is there. */
static void penalize(const rt_sampling *c, const int32_t *tokens, int32_t n, float *logits)
{
    for (int32_t i = n > c->repeat_last ? n - c->repeat_last : 0, from = i; i < n; i++) {
        int32_t count = 0, earlier = 0;
        for (int32_t j = from; j < n; j++) {
            count += tokens[j] == tokens[i];
            earlier += j < i && tokens[j] == tokens[i];
        }
        if (earlier || tokens[i] < 0 || tokens[i] >= V) continue;
        float *l = &logits[tokens[i]];
        *l = *l > 0 ? *l / c->repeat_penalty : *l * c->repeat_penalty;
        *l -= (float)count * c->frequency_penalty + c->presence_penalty;
    }
}

/* A draw with penalties is, to the bit, a draw from logits that were penalized before. */
static void penalties(rt_dense *dense)
{
    enum { LENGTH = 200 };
    rt_sampler *s;
    uint64_t random = 7;
    int32_t text[LENGTH];
    NEED(!rt_sampler_create(V, dense, &s));
    for (int32_t round = 0; round < 400; round++) {
        float logits[V], after[V];
        for (int32_t i = 0; i < V; i++) after[i] = logits[i] = (float)(test_random(&random) % 2000) / 250.0f - 4;
        for (int32_t i = 0; i < LENGTH; i++)
            text[i] = (int32_t)(test_random(&random) % (V + 2)) - 1; /* and what is no token */
        rt_sampling c = FIELDS(round % 2 ? 1.0f : 0.0f, 0, 1, 0, round % 3 ? 1.3f : 1.0f, round % 5 ? 20 + round : 0, 3,
                               round % 4 ? 0.5f : 0.0f, round % 7 ? 0.25f : 0.0f);
        const rt_sampling without = { c.temperature, 0, 1, 0, 1, 64, 3, 0, 0 };
        const int32_t n = 1 + (int32_t)(test_random(&random) % LENGTH);
        penalize(&c, text, n, after);
        REQUIRE(rt_sample(s, &c, logits, text, n) == rt_sample(s, &without, after, text, n));
    }
    rt_sampler_destroy(s);
}

/* Parameters at both ends of their ranges, together: the token is one that the formula in binary64 makes likely. */
static void extremes(rt_dense *dense)
{
    static const float temperatures[] = { 1e-45f, 1.2e-38f, 1e-38f, 1e-30f, 1e-3f, 1, 100 },
                       shares[] = { 1e-45f, 1e-38f, 1e-7f, 0.5f, 1 }, penalty[] = { 1e-6f, 0.01f, 1, 1.5f, 100 },
                       subtracted[] = { -100, -1e-45f, 0, 1e-38f, 0.5f, 100 }, scales[] = { 0.1f, 1, 30, 1e30f };
    static const int32_t most[] = { 0, 1, 3, INT32_MAX };
    rt_sampler *s;
    uint64_t random = 11;
    int32_t text[50];
#define ONE_OF(list) (list)[test_random(&random) % (sizeof(list) / sizeof(list)[0])]
    NEED(!rt_sampler_create(V, dense, &s));
    for (int32_t round = 0; round < 20000; round++) {
        float logits[V], after[V];
        const float scale = ONE_OF(scales);
        for (int32_t i = 0; i < V; i++)
            after[i] = logits[i] = scale * ((float)(test_random(&random) % 2000) / 250.0f - 4);
        for (int32_t i = 0; i < 50; i++) text[i] = (int32_t)(test_random(&random) % V);
        const rt_sampling c =
            FIELDS(ONE_OF(temperatures), ONE_OF(most), ONE_OF(shares), round % 2 ? ONE_OF(shares) : 0, ONE_OF(penalty),
                   ONE_OF(most), (uint64_t)round, ONE_OF(subtracted), ONE_OF(subtracted));
        const int32_t n = (int32_t)(test_random(&random) % 50);
        REQUIRE(!rt_sampling_check(&c), "%s", rt_last_error());
        const int32_t token = rt_sample(s, &c, logits, text, n);
        if (c.repeat_last) penalize(&c, text, n, after);
        double highest = -INFINITY;
        for (int32_t i = 0; i < V; i++) highest = (double)after[i] > highest ? (double)after[i] : highest;
        REQUIRE(token >= 0 && token < V && ((double)after[token] - highest) / (double)c.temperature > -30,
                "temperature %g, top_k %d, top_p %g, min_p %g, repeat_penalty %g: logit %g, the highest is %g",
                (double)c.temperature, (int)c.top_k, (double)c.top_p, (double)c.min_p, (double)c.repeat_penalty,
                token < 0 ? NAN : (double)after[token], highest);
    }
#undef ONE_OF
    float logits[V] = { 3e38f }; /* a penalty makes it infinite */
    const rt_sampling c = FIELDS(0, 0, 1, 0, 0.1f, 64, 1, 0, 0);
    REQUIRE(rt_sample(s, &c, logits, (const int32_t[]){ 0 }, 1) == -1);
    rt_sampler_destroy(s);
}

static void lookup(void)
{
    int32_t draft[8];
    const int32_t text[] = { 1, 2, 3, 4, 9, 2, 3, 5, 8, 7, 2, 3 };
    REQUIRE(rt_draft_ngram(text, 12, 8, draft) == 5 && draft[0] == 5 && draft[1] == 8 &&
            draft[4] == 3); /* the latest place */
    REQUIRE(rt_draft_ngram(text, 12, 2, draft) == 2 && rt_draft_ngram(text, 12, 0, draft) == 0);
    const int32_t longer[] = { 1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3 };
    REQUIRE(rt_draft_ngram(longer, 11, 8, draft) == 8 && draft[0] == 4); /* a longer match before a later one */
    REQUIRE(rt_draft_ngram(text, 4, 8, draft) == 0 && rt_draft_ngram(text, 1, 8, draft) == 0);
}

/* Steps with drafts give `drafted` tokens per second, plain ones 100: how many of 1000 steps draft? */
static int32_t drafting_steps(int32_t width, double drafted)
{
    rt_speculation p = { 0 };
    int32_t n = 0;
    for (int i = 0; i < 1000; i++) {
        const int draft = rt_speculation_choose(&p, width);
        rt_speculation_record(&p, width, draft, 10, 10 / (draft ? drafted : 100.0));
        n += draft;
    }
    return n;
}

static void speculation(void)
{
    REQUIRE(drafting_steps(1, 150) > 900 &&
            drafting_steps(1, 150) < 1000); /* drafts pay; steps without them are tried, too */
    REQUIRE(drafting_steps(1, 60) > 0 && drafting_steps(1, 60) < 100);
    REQUIRE(drafting_steps(5000, 60) < 100);
    rt_speculation p = { 0 };
    for (int i = 0; i < 200; i++) { /* it pays for one, and not for five at once */
        rt_speculation_record(&p, 1, rt_speculation_choose(&p, 1), 10, 0.1);
        rt_speculation_record(&p, 5, 1, 10, 0.2);
        rt_speculation_record(&p, 5, 0, 10, 0.1);
        rt_speculation_record(&p, 1, 1, 10, 0.05);
    }
    int32_t one = 0, five = 0;
    for (int i = 0; i < 64; i++) {
        one += rt_speculation_choose(&p, 1);
        five += rt_speculation_choose(&p, 5);
    }
    REQUIRE(one > 60 && five < 4);
    for (int i = 0; i < 300; i++) /* texts change: now it pays for five too, and that is found out */
        rt_speculation_record(&p, 5, rt_speculation_choose(&p, 5), 10, rt_speculation_choose(&p, 5) ? 0.01 : 0.1);
    for (int i = 0; i < 100; i++) {
        const int draft = rt_speculation_choose(&p, 5);
        rt_speculation_record(&p, 5, draft, 10, draft ? 0.01 : 0.1);
    }
    for (five = 0; five < 8 && rt_speculation_choose(&p, 5); five++)
        ;
    REQUIRE(five >= 7);
}

/* The first step with drafts pays for catching up, which says nothing about the next ones. */
static void catching_up(void)
{
    rt_speculation p = { 0 };
    for (int i = 0; i < 3; i++) {
        REQUIRE(!rt_speculation_choose(&p, 8));
        rt_speculation_record(&p, 8, 0, 8, 1.0);
    }
    for (int i = 0; i < 4; i++) {
        REQUIRE(rt_speculation_choose(&p, 8) && rt_speculation_pays(&p, 8));
        rt_speculation_record(&p, 8, 1, 14, i ? 1.4 : 2.7);
    }
    REQUIRE(rt_speculation_choose(&p, 8) && rt_speculation_pays(&p, 8));

    int n = 0; /* where they are far behind, that is seen after a few steps */
    for (int i = 0; i < 3; i++) rt_speculation_record(&p, 1, 0, 1, 1.0);
    for (; rt_speculation_choose(&p, 1); n++) rt_speculation_record(&p, 1, 1, 1, 2.0);
    REQUIRE(n == 5); /* one that catches up, and four */
    p = (rt_speculation){ 0 };
    for (int i = 0; i < 3; i++) rt_speculation_record(&p, 1, 0, 1, 1.0);
    for (n = 0; rt_speculation_choose(&p, 1); n++) rt_speculation_record(&p, 1, 1, 1, 1.1);
    REQUIRE(n == 17); /* a little behind may be chance */

    int tries[2] = { 0 }; /* and where three tokens would not make up for the time, it is hardly tried again */
    for (int most = 0; most < 2; most++) {
        p = (rt_speculation){ .most = most ? 3 : 0 };
        for (int i = 0, before = 0; i < 4000; i++) {
            const int draft = rt_speculation_choose(&p, 5);
            rt_speculation_record(&p, 5, draft, draft ? 12 : 5, draft ? 3.2 : 1.0);
            tries[most] += draft && !before;
            before = draft;
        }
    }
    REQUIRE(tries[0] == 5 && tries[1] == 3);
}

/* Simulates n tokens with the controller, and returns the seconds relative to the better mode alone. A plain step gives
 * `width` tokens in 1 second. A step with drafts takes `slow` seconds, and gives one more token per sequence for each
 * accepted draft; a draft is accepted with chance `accepted`. Catching up costs `behind` seconds after 31 plain steps,
 * in proportion after fewer. Some steps are interrupted; the sum does not count that time. */
static double against_better(double slow, double behind, double accepted, int32_t width, int64_t n, int prompts,
                             uint64_t seed)
{
    enum { DRAFTS = 2 };
    rt_speculation p = { 0 };
    double seconds = 0;
    int64_t drawn = 0;
    int plain = 31;
    const double per_step = 1 + accepted + accepted * accepted, better = per_step / slow > 1 ? per_step / slow : 1;
    for (int i = 0; drawn < n; i++) {
        const int mixed = prompts && i % 3 == 0; /* a step that reads a prompt, too: it is not recorded */
        const int draft = mixed ? rt_speculation_pays(&p, width) : rt_speculation_choose(&p, width);
        const double noise = 0.9 + 0.2 * (double)(test_random(&seed) % 1000) / 1000;
        const double took = noise * (draft ? slow + behind * (plain < 31 ? plain : 31) / 31 : 1);
        int32_t tokens = 0;
        for (int32_t s = 0; s < width; s++) {
            int32_t got = 1;
            while (draft && got <= DRAFTS && (double)(test_random(&seed) % 1000) < 1000 * accepted) got++;
            tokens += got;
        }
        if (!mixed)
            rt_speculation_record(&p, width, draft, tokens,
                                  took + (test_random(&seed) % 100 ? 0 : 9)); /* interrupted */
        plain = draft ? 0 : plain + 1;
        drawn += tokens;
        seconds += took;
    }
    return seconds / ((double)drawn / width / better);
}

/* Never much slower than the better way, whatever catching up costs, however close they are: in the mean of some runs,
 * as how many drafts are accepted is chance. */
static void never_much_slower(void)
{
    double worst = 0;
    for (int slow = 10; slow <= 30; slow += 4)
        for (int behind = 0; behind <= 3; behind++)
            for (int width = 1; width <= 8; width += 7) {
                double mean = 0, mixed = 0;
                for (uint64_t seed = 1; seed <= 32; seed++) {
                    mean += against_better(slow / 10.0, behind, 0.5, width, 2000 * width, 0, seed) / 32;
                    mixed += against_better(slow / 10.0, behind, 0.5, width, 2000 * width, 1, seed) / 32;
                }
                worst = mean > worst ? mean : worst;
                worst = mixed > worst ? mixed : worst;
            }
    printf("drafts where they pay: at most %.3f of the better way's time\n", worst);
    REQUIRE(worst > 1 && worst < 1.02);
}

/* With a mask a token is drawn with its probability, renormalised over those that are allowed, and a draw that is
 * allowed stays. Penalties belong to tokens, not to places among the allowed ones. */
static void masked(rt_dense *dense)
{
    enum { ALLOWED = 12 };
    static const int32_t text[DRAWS + 1];
    rt_sampler *s;
    float logits[V];
    double p[V], total = 0, chi = 0;
    int32_t counts[V] = { 0 }, among[ALLOWED];
    uint64_t random = 11;
    NEED(!rt_sampler_create(V, dense, &s));
    for (int32_t i = 0; i < ALLOWED; i++) among[i] = 3 * i + 1;
    for (int32_t i = 0; i < V; i++) p[i] = exp((double)(logits[i] = (float)(test_random(&random) % 1000) / 250.0f));
    for (int32_t i = 0; i < ALLOWED; i++) total += p[among[i]];
    for (int32_t n = 1; n < DRAWS; n++) {
        int32_t token = rt_sample(s, &open_sampling, logits, text, n);
        if (token % 3 != 1) token = rt_sample_among(s, &open_sampling, logits, text, n, among, ALLOWED);
        counts[token]++;
    }
    int32_t n_allowed = 0;
    for (int32_t i = 0; i < ALLOWED; i++) {
        const double wanted = (DRAWS - 1) * p[among[i]] / total;
        chi += pow(counts[among[i]] - wanted, 2) / wanted;
        n_allowed += counts[among[i]];
    }
    REQUIRE(n_allowed == DRAWS - 1 && chi < 40, "%g", chi); /* 11 degrees of freedom */

    rt_sampling greedy = open_sampling;
    greedy.temperature = 0;
    greedy.presence_penalty = 50;
    int32_t best = among[1];
    for (int32_t i = 2; i < ALLOWED; i++) best = logits[among[i]] > logits[best] ? among[i] : best;
    REQUIRE(rt_sample_among(s, &greedy, logits, &among[0], 1, among, ALLOWED) == best, "all but the first");
    REQUIRE(rt_sample_among(s, &greedy, logits, text, 1, &among[5], 1) == among[5], "one alone");
    logits[0] = NAN;
    REQUIRE(rt_sample_among(s, &greedy, logits, text, 1, among, ALLOWED) == -1);
    rt_sampler_destroy(s);
}

int main(void)
{
    rt_threads *threads;
    rt_dense *dense;
    NEED(!rt_threads_create(1, &threads) && !rt_dense_create(NULL, threads, &dense));
    sampler(dense);
    logprobs(dense);
    penalties(dense);
    masked(dense);
    extremes(dense);
    test_sampling_defaults();
    lookup();
    speculation();
    catching_up();
    never_much_slower();
    rt_dense_destroy(dense);
    rt_threads_destroy(threads);
    return test_summary();
}

/* The gated delta net in binary64, written down from equation 10 of its paper (arXiv 2412.06464) and the channel-gated
 * form of Kimi Linear's (2510.26692), with nothing of the library's: the yardstick of every test of accuracy. */
#ifndef GDN_TESTS_FORMULA_H
#define GDN_TESTS_FORMULA_H

#include <math.h>

typedef struct formula_result {
    double kv, d, out; /* what was read for the key, the change that is written, the token's output */
} formula_result;

/* S = (I - beta k r^T) Diag(a) S + beta k v and out = S^T q / sqrt(n), for one column S of the state, of n keys. r is
 * k, or a key to read with; a has the decay of each key. */
static inline formula_result formula_step(int n, const double *q, const double *k, const double *r, const double *a,
                                          double beta, double v, double *S)
{
    formula_result x = { 0, 0, 0 };
    for (int i = 0; i < n; i++) x.kv += r[i] * (S[i] *= a[i]);
    x.d = beta * (v - x.kv);
    for (int i = 0; i < n; i++) x.out += (S[i] += k[i] * x.d) * q[i] / sqrt(n);
    return x;
}

#endif

/* The k largest elements of a row. See dense.h. */
#include "runtime/dense/dense.h"

/* True if element a sorts before element b: larger first, NaN last, ties by index; -0 equals +0. */
static inline int before(const float *x, int32_t a, int32_t b)
{
    const float u = x[a], v = x[b];
    if (u > v) return 1;
    if (u < v) return 0;
    if (u == v) return a < b;
    if (u == u || v == v) /* one is a NaN */
        return u == u;
    return a < b;
}

/* Moves element i down in a heap whose root is the element that sorts last. */
static void sift(const float *x, int32_t *heap, int32_t n, int32_t i)
{
    const int32_t moving = heap[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(x, heap[child], heap[child + 1])) child++;
        if (before(x, heap[child], moving)) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

static int32_t largest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (x[best] != x[best] && x[i] == x[i])) best = i;
    return best;
}

void rt_top_k(const float *x, int32_t n, int32_t k, int32_t *index)
{
    k = k < n ? k : n;
    if (k < 1) return;
    if (k == 1) {
        index[0] = largest(x, n);
        return;
    }
    for (int32_t i = 0; i < k; i++) index[i] = i;
    for (int32_t i = k / 2 - 1; i >= 0; i--) sift(x, index, k, i);
    for (int32_t i = k; i < n; i++)
        if (before(x, i, index[0])) {
            index[0] = i;
            sift(x, index, k, 0);
        }
    for (int32_t m = k - 1; m > 0; m--) { /* the root goes to the end of the result */
        const int32_t last = index[0];
        index[0] = index[m];
        index[m] = last;
        sift(x, index, m, 0);
    }
}

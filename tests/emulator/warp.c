/* What the lanes of a warp do together: synchronise, shuffle, vote, reduce. */
#include "tests/emulator/check.h"
#include "tests/emulator/core_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static simt_mma *fragment(const simt_warp *warp, int lane) { return (simt_mma *)(uintptr_t)warp->threads[lane].value; }

static double of_binary16(uint32_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 31
                                 ? (fraction ? NAN : INFINITY)
                                 : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* Element k of a row of a, or of a column of b. A word has four of them, or two of binary16. */
static double element(const simt_warp *warp, int f16, int of_b, int line, int k)
{
    const int in_word = f16 ? 2 : 4, word = k / (4 * in_word);
    const simt_mma *x = fragment(warp, line % 8 * 4 + k / in_word % 4);
    const uint32_t bits = (of_b ? x->b[word] : x->a[line / 8 + 2 * word]) >> k % in_word * (32 / in_word);
    return f16 ? of_binary16(bits) : (int8_t)bits;
}

/* Devices add binary16 in an order of their own. So a sum that is not exact is a fault here. */
static void multiply(const simt_warp *warp, int f16)
{
    const int n = f16 ? 16 : 32;
    double a[16][32], b[8][32];
    for (int k = 0; k < n; k++) {
        for (int row = 0; row < 16; row++) a[row][k] = element(warp, f16, 0, row, k);
        for (int column = 0; column < 8; column++) b[column][k] = element(warp, f16, 1, column, k);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            simt_mma *x = fragment(warp, lane);
            double sum = f16 ? x->c.f32[i] : x->c.s32[i];
            for (int k = 0; k < n; k++) sum += a[lane / 4 + i / 2 * 8][k] * b[lane % 4 * 2 + i % 2][k];
            if (f16) x->c.f32[i] = (float)sum;
            else x->c.s32[i] = (int32_t)(int64_t)sum;
            if (f16 && !(x->c.f32[i] == sum))
                simt_fault("%s:%d: a sum of products of binary16, %g, is not exact", warp->threads[lane].site.file,
                           warp->threads[lane].site.line, sum);
        }
}

/* All of `lanes` are here: each gets its result. */
static void complete(simt_warp *warp, uint32_t lanes, enum simt_op op)
{
    uint64_t all = 0;
    const int matrices = op == SIMT_OP_MMA || op == SIMT_OP_MMA_F16;
    if (matrices && lanes != 0xffffffffu)
        simt_fault("%s:%d: lanes %08x multiply matrices, and all 32 have to", simt_self->site.file,
                   simt_self->site.line, lanes);
    if (matrices) multiply(warp, op == SIMT_OP_MMA_F16);
    for (uint32_t left = lanes; left; left &= left - 1) {
        const int l = __builtin_ctz(left);
        all |= (uint64_t)(warp->threads[l].value != 0) << l;
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        simt_thread *thread = &warp->threads[__builtin_ctz(left)];
        if (op == SIMT_OP_SHUFFLE) {
            if (!(lanes >> thread->source & 1)) {
                simt_self = thread; /* so that the text names the reader */
                simt_fault("%s:%d: lane %u reads from lane %u, which does not take part (mask %08x, taking part %08x)",
                           thread->site.file, thread->site.line, thread->lane, thread->source, thread->mask, lanes);
            }
            thread->result = warp->threads[thread->source].value;
        } else {
            thread->result = all;
        }
        thread->op = SIMT_OP_NONE;
    }
    if (simt_check && op == SIMT_OP_SYNC) simt_check->sync(warp, lanes);
    warp->runnable |= lanes;
    warp->waiting &= ~lanes;
}

/* Have all the lanes come that `thread` waits for? Those that have returned are not waited for. */
static int all_here(const simt_thread *thread, uint32_t *lanes)
{
    const simt_warp *warp = thread->warp;
    *lanes = thread->mask & warp->exists & ~warp->exited;
    if (*lanes & ~warp->waiting) return 0;
    for (uint32_t left = *lanes; left; left &= left - 1) {
        const simt_thread *other = &warp->threads[__builtin_ctz(left)];
        if (other->op != thread->op || other->mask != thread->mask || !simt_same_site(other->site, thread->site))
            return 0;
    }
    return 1;
}

uint64_t simt_lanes(enum simt_op op, uint32_t mask, uint64_t value, unsigned source, simt_site site)
{
    simt_thread *self = simt_self;
    simt_warp *warp = self->warp;
    if (!(mask >> self->lane & 1))
        simt_fault("%s:%d: lane %u calls with mask %08x, in which it is not itself", site.file, site.line, self->lane,
                   mask);
    self->op = op;
    self->mask = mask;
    self->value = value;
    self->source = source;
    self->site = site;
    warp->waiting |= 1u << self->lane;
    uint32_t lanes;
    if (all_here(self, &lanes)) {
        complete(warp, lanes, op);
        if (!simt_seed()) { /* the last to come goes on at once */
            warp->runnable &= ~(1u << self->lane);
            return self->result;
        }
    }
    simt_suspend();
    return self->result;
}

void simt_warp_exit(simt_thread *thread)
{
    simt_warp *warp = thread->warp;
    for (uint32_t left = warp->waiting; left; left &= left - 1) {
        simt_thread *other = &warp->threads[__builtin_ctz(left)];
        uint32_t lanes;
        if ((other->mask >> thread->lane & 1) && all_here(other, &lanes)) {
            complete(warp, lanes, other->op);
            simt_warp_exit(thread); /* another group may have waited for it too */
            return;
        }
    }
}

/* ---- Where threads are, for messages: the first that waits, the first that waits elsewhere ---- */
void simt_describe(char *text, size_t size)
{
    static const char *const names[] = { "",       "__syncthreads",         "__syncwarp",           "a shuffle",
                                         "a vote", "a product of matrices", "a product of matrices" };
    const simt_thread *first = NULL;
    unsigned returned = 0, told = 0;
    size_t used = 0;
    for (unsigned i = 0; i < simt_current.n_threads; i++) {
        const simt_thread *t = &simt_warps()[0].threads[i];
        const int gone = (int)(t->warp->exited >> t->lane & 1);
        returned += (unsigned)gone;
        if (gone || t->op == SIMT_OP_NONE || told == 2) continue;
        if (first && t->op == first->op && t->mask == first->mask && simt_same_site(t->site, first->site)) continue;
        used += (size_t)snprintf(text + used, size - used, "thread %u at %s with mask %08x, %s:%d; ", i, names[t->op],
                                 t->mask, t->site.file, t->site.line);
        if (used >= size) return;
        first = t;
        told++;
    }
    (void)snprintf(text + used, size - used, "%u of %u threads returned", returned, simt_current.n_threads);
}

/* The seed: what uninitialised memory contains, and the order of things. The floating-point mode of a device. */
#include "tests/emulator/core_internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed, state;
static int seed_is_set;

void simt_set_seed(uint64_t value)
{
    seed = value;
    state = value * 0x9e3779b97f4a7c15u;
    seed_is_set = 1;
}

uint64_t simt_seed(void)
{
    if (!seed_is_set) {
        const char *text = getenv("GDN_SIMT_SEED");
        simt_set_seed(text ? strtoull(text, NULL, 0) : 0);
    }
    return seed;
}

uint64_t simt_random(void) /* splitmix64 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Seed 0 and odd seeds fill with NaN (also as binary16, bfloat16 and binary64), other seeds with finite numbers. So two
 * seeds differ in the result even if a comparison loses a NaN, or any NaN is right. */
void simt_poison(void *at, size_t bytes)
{
    uint32_t word = 0x7fe57fe5u;
    if (simt_seed() && simt_seed() % 2 == 0) {
        word = (uint32_t)(simt_random() >> 32);
        word = (word & 0x80ff80ffu) | 0x43104310u;
    }
    char *to = at;
    size_t i = 0;
    for (; i + 64 <= bytes; i += 64)
        for (size_t j = 0; j < 64; j += 4) memcpy(to + i + j, &word, 4);
    for (; i < bytes; i++) memcpy(to + i, (char *)&word + i % 4, 1);
}

#if defined(__x86_64__)
#include <xmmintrin.h>
simt_float_mode simt_float_default(void)
{
    const simt_float_mode mode = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return mode;
}
void simt_float_restore(simt_float_mode mode) { _mm_setcsr((unsigned)mode); }
#elif defined(__aarch64__)
simt_float_mode simt_float_default(void)
{
    simt_float_mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return mode;
}
void simt_float_restore(simt_float_mode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#endif

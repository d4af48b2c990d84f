/* Floating-point modes that a caller's thread may be in. Kernels must compute the same bits in all of them
 * and leave them as they were. */
#ifndef GDN_CHECK_ENVIRONMENT_H
#define GDN_CHECK_ENVIRONMENT_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#elif !defined(__aarch64__) && !(defined(__arm__) && defined(__ARM_FP))
#include <fenv.h>
#endif

enum {
    CHECK_ENV_DEFAULT = 0,
    CHECK_ENV_FLUSH, /* subnormals flushed to zero, as results and as inputs */
    CHECK_ENV_UP,
    CHECK_ENV_DOWN,
    CHECK_ENV_TO_ZERO,
    CHECK_ENV_FLUSH_DOWN,
    CHECK_ENV_TRAPPING, /* every exception traps, inexact included; Arm processors mostly cannot */
    CHECK_ENV_COUNT
};

static inline const char *check_environment_name(int environment)
{
    static const char *const names[] = { "default",    "flush-to-zero", "round-up",
                                         "round-down", "round-to-zero", "flush-to-zero and round-down",
                                         "trapping" };
    return names[environment];
}

/* The control bits of the mode, without sticky exception flags. On 32-bit x86 those of the x87 are behind SSE's. Other
 * processors than those named here have rounding modes alone. */
static inline uint64_t check_environment_get(void)
{
#if defined(__i386__)
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (_mm_getcsr() & 0xFFC0u) | (uint64_t)x87 << 32;
#elif defined(__x86_64__)
    return _mm_getcsr() & 0xFFC0u;
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#elif defined(__arm__) && defined(__ARM_FP)
    uint32_t fpscr;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
    return fpscr & 0x07FF9F00u;
#else
    return (uint64_t)fegetround();
#endif
}

static inline void check_environment_put(uint64_t control)
{
#if defined(__i386__)
    const uint16_t x87 = (uint16_t)(control >> 32);
    __asm__ volatile("fldcw %0" : : "m"(x87));
    _mm_setcsr((unsigned)control);
#elif defined(__x86_64__)
    _mm_setcsr((unsigned)control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#elif defined(__arm__) && defined(__ARM_FP)
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)control));
#else
    (void)fesetround((int)control);
#endif
}

/* Enter a mode; what to give to check_environment_put() afterwards. */
static inline uint64_t check_environment_enter(int environment)
{
    const uint64_t old = check_environment_get();
    uint64_t mode = old;
#if defined(__x86_64__) || defined(__i386__)
    static const unsigned bits[] = { 0, 0x8040, 0x4000, 0x2000, 0x6000, 0xA040, 0 };
    mode = (old & ~(uint64_t)(environment == CHECK_ENV_TRAPPING ? 0xFFC0 : 0xE040)) | bits[environment];
#if defined(__i386__)
    mode = (mode & ~((uint64_t)0xC00 << 32)) | (uint64_t)(bits[environment] >> 3 & 0xC00) << 32;
#endif
#elif defined(__aarch64__) || (defined(__arm__) && defined(__ARM_FP))
    static const uint64_t bits[] = { 0, 1u << 24, 1u << 22, 2u << 22, 3u << 22, 1u << 24 | 2u << 22, 0 };
    mode = (old & ~(uint64_t)(7u << 22)) | bits[environment];
#else
    static const int rounding[] = { FE_TONEAREST,  FE_TONEAREST, FE_UPWARD,   FE_DOWNWARD,
                                    FE_TOWARDZERO, FE_DOWNWARD,  FE_TONEAREST };
    mode = (uint64_t)rounding[environment];
#endif
    if (environment != CHECK_ENV_DEFAULT) check_environment_put(mode);
    return old;
}

#endif

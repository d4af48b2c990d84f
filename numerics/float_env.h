/* The arithmetic mode that the contract assumes: round to nearest even, subnormals kept, no traps. Callers may run in
 * other modes (flush-to-zero is common in audio and in deep-learning frameworks). So every piece of host work sets the
 * mode and restores the caller's. */
#ifndef GDN_NUMERICS_FLOAT_ENV_H
#define GDN_NUMERICS_FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
typedef uint32_t gdn_float_env;
static inline gdn_float_env gdn_float_env_enter(void)
{
    const uint32_t caller = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return caller;
}
/* The mode of GDN_EXACT_FTZ: also sets FTZ and DAZ. Other processors have no mode with the same rule
 * (docs/reference/numerics.md). */
static inline gdn_float_env gdn_float_env_enter_flushing(void)
{
    const uint32_t caller = _mm_getcsr();
    _mm_setcsr(0x1f80 | 0x8000 | 0x0040);
    return caller;
}
static inline void gdn_float_env_leave(gdn_float_env caller) { _mm_setcsr(caller); }
#elif defined(__aarch64__)
typedef uint64_t gdn_float_env;
static inline gdn_float_env gdn_float_env_enter(void)
{
    uint64_t caller;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return caller;
}
static inline void gdn_float_env_leave(gdn_float_env caller) { __asm__ volatile("msr fpcr, %0" : : "r"(caller)); }
#elif defined(__i386__) && defined(__SSE2__)
#include <immintrin.h>
/* The C library's functions may use the x87, which has a mode of its own. musl's fenv_t has no room for that of SSE. */
typedef struct gdn_float_env {
    uint32_t sse;
    unsigned char x87[28];
} gdn_float_env;
static inline gdn_float_env gdn_float_env_enter(void)
{
    const uint16_t nearest = 0x37f;
    gdn_float_env caller = { .sse = _mm_getcsr() };
    __asm__ volatile("fnstenv %0" : "=m"(caller.x87));
    __asm__ volatile("fldcw %0" : : "m"(nearest));
    _mm_setcsr(0x1f80);
    return caller;
}
static inline void gdn_float_env_leave(gdn_float_env caller)
{
    __asm__ volatile("fldenv %0" : : "m"(caller.x87));
    _mm_setcsr(caller.sse);
}
#elif defined(__arm__) && defined(__ARM_FP)
typedef uint32_t gdn_float_env; /* fenv.h leaves flush-to-zero as it is */
static inline gdn_float_env gdn_float_env_enter(void)
{
    uint32_t caller;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(caller));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(0));
    return caller;
}
static inline void gdn_float_env_leave(gdn_float_env caller) { __asm__ volatile("vmsr fpscr, %0" : : "r"(caller)); }
#else
#include <fenv.h>
typedef fenv_t gdn_float_env;
static inline gdn_float_env gdn_float_env_enter(void)
{
    fenv_t caller;
    (void)feholdexcept(&caller);
    (void)fesetround(FE_TONEAREST);
    return caller;
}
static inline void gdn_float_env_leave(gdn_float_env caller) { (void)fesetenv(&caller); }
#endif

#endif

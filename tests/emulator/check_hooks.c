/* The functions that -fsanitize=thread calls, in the forms of gcc and of clang. */
#include "tests/emulator/check.h"

#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the compiler alone calls them */

// Macros that are lists of functions:
// clang-format off
#define PC __builtin_return_address(0)
#define HOOK(name, bytes, access)                                                                                      \
    void name(void *at) { simt_accessed(at, bytes, access, PC); }
#define BOTH(bytes)                                                                                                    \
    HOOK(__tsan_read##bytes, bytes, SIMT_READ) HOOK(__tsan_write##bytes, bytes, SIMT_WRITE)                            \
    HOOK(__tsan_unaligned_read##bytes, bytes, SIMT_READ) HOOK(__tsan_unaligned_write##bytes, bytes, SIMT_WRITE)        \
    HOOK(__tsan_volatile_read##bytes, bytes, SIMT_READ) HOOK(__tsan_volatile_write##bytes, bytes, SIMT_WRITE)          \
    HOOK(__tsan_read_write##bytes, bytes, SIMT_WRITE) HOOK(__tsan_unaligned_read_write##bytes, bytes, SIMT_WRITE)
BOTH(1) BOTH(2) BOTH(4) BOTH(8) BOTH(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void *pc) { (void)pc; }
void __tsan_read_range(void *at, size_t bytes) { simt_accessed(at, bytes, SIMT_READ, PC); }
void __tsan_write_range(void *at, size_t bytes) { simt_accessed(at, bytes, SIMT_WRITE, PC); }
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    simt_accessed(from, bytes, SIMT_READ, PC);
    simt_accessed(to, bytes, SIMT_WRITE, PC);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    simt_accessed(from, bytes, SIMT_READ, PC);
    simt_accessed(to, bytes, SIMT_WRITE, PC);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes)
{
    simt_accessed(to, bytes, SIMT_WRITE, PC);
    return memset(to, value, bytes);
}

/* Atomics: fibers are not interrupted, so plain operations do. */
#define ATOMICS(bits)                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *at, int order)                                     \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        simt_accessed(at, bits / 8, SIMT_ATOMIC, PC);                                                                  \
        return *at;                                                                                                    \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(uint##bits##_t *at, uint##bits##_t value, int order)                              \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        simt_accessed(at, bits / 8, SIMT_ATOMIC, PC);                                                                  \
        *at = value;                                                                                                   \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(uint##bits##_t *at, uint##bits##_t *expected,                    \
                                                      uint##bits##_t value, int order, int failure)                    \
    {                                                                                                                  \
        (void)order, (void)failure;                                                                                    \
        simt_accessed(at, bits / 8, SIMT_ATOMIC, PC);                                                                  \
        if (*at == *expected) {                                                                                        \
            *at = value;                                                                                               \
            return 1;                                                                                                  \
        }                                                                                                              \
        *expected = *at;                                                                                               \
        return 0;                                                                                                      \
    }                                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *at, uint##bits##_t expected,             \
                                                              uint##bits##_t value, int order, int failure)            \
    {                                                                                                                  \
        (void)order, (void)failure;                                                                                    \
        simt_accessed(at, bits / 8, SIMT_ATOMIC, PC);                                                                  \
        const uint##bits##_t old = *at;                                                                                \
        if (old == expected) *at = value;                                                                              \
        return old;                                                                                                    \
    }
ATOMICS(32) ATOMICS(64)

/* SANITIZED where a sanitizer has its own malloc, and ADDRESS_SANITIZED where it is AddressSanitizer: gcc and clang say
 * so in different words. */
#ifndef GDN_TEST_SANITIZED_H
#define GDN_TEST_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZED 1
#endif
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZED 1
#endif
#if defined(__SANITIZE_THREAD__) || defined(ADDRESS_SANITIZED)
#define SANITIZED 1
#endif

#endif

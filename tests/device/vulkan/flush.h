/* See flush.c. */
#ifndef GDN_TEST_VULKAN_FLUSH_H
#define GDN_TEST_VULKAN_FLUSH_H

#include "tests/sanitized.h"

#if defined(__x86_64__) && !defined(SANITIZED) /* sanitizers have a pthread_create() as well */
#define GDN_TEST_CAN_FLUSH
#endif

/* Bits of MXCSR that the driver's threads have set; 0: none, and the device keeps subnormals. */
enum { GDN_TEST_FLUSH_OPERANDS = 0x0040, GDN_TEST_FLUSH_RESULTS = 0x8000, GDN_TEST_FLUSH_BOTH = 0x8040 };
/* Of the threads that the driver makes from now on. */
void gdn_test_flush(unsigned bits);
/* And of those that it has, which may do nothing at the time. */
void gdn_test_flush_now(unsigned bits);

#endif

/* A checksum for files and tensors. It is not for security. */
#ifndef GDN_RUNTIME_CHECKSUM_H
#define GDN_RUNTIME_CHECKSUM_H

#include <stdint.h>

/* Changing any single byte changes it. */
uint64_t rt_checksum(const void *bytes, uint64_t n);

#endif

/* A checksum for records, files and tensors. Changing any single byte changes it. It is not for security. */
#ifndef GDN_NUMERICS_CHECKSUM_H
#define GDN_NUMERICS_CHECKSUM_H

#include <stdint.h>
#include <string.h>

/* Four lanes of 8 bytes. Each step is a bijection of the lane and of the word, so a single changed word always changes
 * the result. The lanes make the multiplications independent. */
static inline uint64_t gdn_checksum(const void *bytes, uint64_t n)
{
    const unsigned char *at = bytes;
    const uint64_t prime = UINT64_C(0x9E3779B185EBCA87);
    uint64_t lane[4] = { n, ~n, prime, ~prime };
    for (uint64_t i = 0; i < n; i += 32) {
        uint64_t word[4] = { 0 };
        memcpy(word, at + i, (size_t)(n - i < 32 ? n - i : 32));
        for (int l = 0; l < 4; l++) {
            lane[l] = (lane[l] ^ word[l]) * prime;
            lane[l] ^= lane[l] >> 29;
        }
    }
    uint64_t sum = 0;
    for (int l = 0; l < 4; l++) {
        sum = (sum ^ lane[l]) * prime;
        sum ^= sum >> 32;
    }
    return sum;
}

#endif

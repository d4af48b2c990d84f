/* Random bits for tests that are one program: splitmix64 (Steele, Lea, Flood 2014), the same in every run. */
#ifndef GDN_TEST_DRAW_H
#define GDN_TEST_DRAW_H

#include <stdint.h>

static uint64_t random_state = 1;

static uint32_t draw(void)
{
    uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

#endif

/* What test_kernels.cu and test_simt.c share: parameters, and what the kernel does. */
#ifndef GDN_SIMT_TEST_KERNELS_H
#define GDN_SIMT_TEST_KERNELS_H

typedef struct test_params {
    const float *in;
    float *out;
    unsigned *words;
    unsigned n;
    int mode;
} test_params;

// clang-format off
enum {
    /* right */
    ADD_ONE, WARP_ORDERED, WARP_ORDERED_BY_64, ATOMICS, LEFT_EARLY, MATRICES,
    /* barriers and lanes */
    HALF_COMES, TWO_BARRIERS, RETURNS_EARLY, SHUFFLE_AND_BARRIER, LANE_TAKES_NO_PART, MASK_WITHOUT_ITSELF,
    LANE_THAT_RETURNED, TWO_MASKS, BAD_WIDTH, ONE_OTHER_MASK, VOTE_AND_BARRIER, HALF_MULTIPLIES, SUM_ROUNDS,
    /* memory */
    UNWRITTEN, BEHIND_ALLOCATION, UNALIGNED, NO_BARRIER, BLOCKS_WRITE, READ_BEHIND, SAME_WRITE, WRITTEN_EARLY,
    BLOCK_READS, WARP_BARRIER_TOO_EARLY, WRITES_PARAMETER
};
// clang-format on

#endif

/* The parameters of test_kernels.cu, for the host and the kernels. */
#ifndef GDN_SIMT_TEST_KERNELS_H
#define GDN_SIMT_TEST_KERNELS_H

typedef struct test_params {
    const float *in;
    float *out;
    unsigned *words;
    unsigned n;
    int mode;
} test_params;

#endif

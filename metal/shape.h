/* The shape of threadgroups, shared by host code and kernels. */
#ifndef GDN_METAL_SHAPE_H
#define GDN_METAL_SHAPE_H

/* Threads of a threadgroup of gated_delta_net: two simdgroups, each with its own value channels of one head. */
#define GDN_METAL_DELTA_THREADS 64
#define GDN_METAL_CONV_THREADS  64
#define GDN_METAL_ROWS_THREADS  64
#define GDN_METAL_ROWS_PIECE    1024 /* columns of a threadgroup, a multiple of 32 */
#define GDN_METAL_PROBE_THREADS 64

#endif

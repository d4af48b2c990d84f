/* The block of the probe (gpu/probe.h), for host code and kernels. */
#ifndef GDN_GPU_PROBE_CALL_H
#define GDN_GPU_PROBE_CALL_H

#include "call/types.h"

#define GDN_GPU_PROBE_RESULTS 8 /* of each triple */

GDN_STRUCT(gdn_gpu_probe)
{
    uint64_t operands;  /* [n][3] */
    GDN_MEMORY results; /* [n][GDN_GPU_PROBE_RESULTS] */
    GDN_U32T n, unused;
};

#endif

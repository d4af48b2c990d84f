/* The right results of a probe at GDN_EXACT_FTZ. See probe.h. */
#define GDN_FLUSH
#include "gpu/probe.h"
#include "gpu/probe_results.h"

void gdn_gpu_probe_flushed(float a, float b, float c, uint32_t want[GDN_GPU_PROBE_RESULTS])
{
    gdn_probe_results(a, b, c, want);
}

// The CUDA backend's kernels for test_traffic.c, which counts the bytes that they move: compiled with a call before
// each access to memory (CHECKED, tests/emulator/README.md), which takes long, so that of the others there is a name
// only: they are templates, of which nothing is ever made. Those that run are none, for their __shared__ variables'
// sake.
#define RUNS_gdn_cuda_delta_decode_4     , RUN
#define RUNS_gdn_cuda_delta_rows_4       , RUN
#define RUNS_gdn_cuda_delta_rows_general , RUN
#define RUNS_gdn_cuda_delta_tiles_4      , RUN
#define RUNS_gdn_cuda_delta_tiles_4_wide , RUN
#define RUNS_gdn_cuda_probe_arithmetic   , RUN
#define RUNS_gdn_cuda_digits_s8          , RUN
#define RUNS_gdn_cuda_digits_f16         , RUN

#define SECOND_OF(first, second, ...) second
#define SECOND(...)                   SECOND_OF(__VA_ARGS__)
#define JOINED_(x, y)                 x##y
#define JOINED(x, y)                  JOINED_(x, y)

#define BEGIN_RUN(name, ParamsType)                                                                                    \
    static void name(const ParamsType &p);                                                                             \
    static void run_##name(const void *p) { name(*static_cast<const ParamsType *>(p)); }
#define END_RUN(name, ParamsType) static void name([[maybe_unused]] const ParamsType &p)

#define BEGIN_NAME(name, ParamsType)                                                                                   \
    static void run_##name(const void *) { simt_fault("test_traffic has no code of this kernel"); }
#define END_NAME(name, ParamsType) template <class P> [[maybe_unused]] static void name([[maybe_unused]] const P &p)

#undef GDN_KERNEL
#define GDN_KERNEL(name, ParamsType, max_threads_per_block)                                                            \
    JOINED(BEGIN_, SECOND(RUNS_##name, NAME, ))                                                                        \
    (name, ParamsType) __attribute__((constructor)) static void add_##name()                                           \
    {                                                                                                                  \
        static simt_kernel kernel = { #name, sizeof(ParamsType), max_threads_per_block, run_##name, nullptr };         \
        simt_register_kernel(&kernel);                                                                                 \
    }                                                                                                                  \
    JOINED(END_, SECOND(RUNS_##name, NAME, ))(name, ParamsType)

#include "cuda/gated_delta_net.cu"
#include "cuda/chunked.cu"
#include "cuda/probe.cu"
#include "cuda/set_rows.cu"
#include "cuda/ssm_conv.cu"

// The CUDA backend's kernels for test_traffic.c, which counts the bytes that they move: compiled with a call before
// each access to memory (CHECKED, tests/simt/README.md), which takes long, so that of the others there is a name only.
// A kernel is a template here, and what nobody runs is never made of it.
template <class Run, class Params, bool WANTED> struct Entry {
    static void run(const void *p)
    {
        if constexpr (WANTED)
            Run::of(static_cast<const Params *>(p));
        else
            simt_fault("test_traffic has no code of this kernel");
    }
};

constexpr bool same(const char *a, const char *b)
{
    for (; *a && *a == *b; a++, b++) {
    }
    return *a == *b;
}
constexpr bool wanted(const char *name)
{
    const char *const names[] = { "gdn_cuda_delta_rows_4",      "gdn_cuda_delta_rows_4_log",
                                  "gdn_cuda_delta_rows_2_log",  "gdn_cuda_delta_rows_general_log",
                                  "gdn_cuda_delta_rows_4_tree", "gdn_cuda_delta_mixed_4", "gdn_cuda_probe_arithmetic" };
    for (const char *one : names)
        if (same(name, one))
            return true;
    return false;
}

#undef GDN_KERNEL
#define GDN_KERNEL(name, ParamsType, max_threads_per_block)                                                            \
    template <class P> static void name(const P &p);                                                                   \
    struct Run_##name {                                                                                                \
        template <class P> static void of(const P *p) { name(*p); }                                                    \
    };                                                                                                                 \
    __attribute__((constructor)) static void add_##name()                                                              \
    {                                                                                                                  \
        static simt_kernel kernel = { #name, sizeof(ParamsType), max_threads_per_block,                                \
                                      Entry<Run_##name, ParamsType, wanted(#name)>::run, nullptr };                    \
        simt_register_kernel(&kernel);                                                                                 \
    }                                                                                                                  \
    template <class P> static void name([[maybe_unused]] const P &p)

#include "cuda/gated_delta_net.cu"
#include "cuda/probe.cu"
#include "cuda/set_rows.cu"
#include "cuda/ssm_conv.cu"

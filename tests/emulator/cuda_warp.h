/* CUDA's barriers, shuffles, votes and reductions; part of cuda_shim.h. */
#ifndef GDN_SIMT_CUDA_WARP_H
#define GDN_SIMT_CUDA_WARP_H

/* The default arguments are the place of the call. */
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_HERE                                                                                                      \
    simt_site { file, line }

static inline void __syncthreads(SIMT_SITE) { simt_barrier(SIMT_HERE); }
/* A barrier with a number is one wherever threads come to it; a block's threads come all or none. */
static inline void __barrier_sync_count(unsigned id, unsigned count)
{
    if (id == 0 || id > 15 || count != blockDim.x * blockDim.y * blockDim.z)
        simt_fault("barrier %u of %u threads: a block of %u can have barriers 1 to 15 of all of them here", id, count,
                   blockDim.x * blockDim.y * blockDim.z);
    simt_barrier(simt_site{ "barrier", (int)id });
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE)
{
    simt_lanes(SIMT_OP_SYNC, mask, 0, 0, SIMT_HERE);
}
static inline int __any_sync(unsigned mask, int x, SIMT_SITE)
{
    return simt_lanes(SIMT_OP_BALLOT, mask, x != 0, 0, SIMT_HERE) != 0;
}
static inline int __all_sync(unsigned mask, int x, SIMT_SITE)
{
    return simt_lanes(SIMT_OP_BALLOT, mask, x == 0, 0, SIMT_HERE) == 0;
}

template <class T> static inline uint64_t simt_to_64(T value)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2, "no shuffle of this type");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T> static inline T simt_from_64(uint64_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
/* The lanes of a shuffle of this width are [first, end). */
static inline unsigned simt_first(int width, const char *file, int line)
{
    if (width < 1 || width > 32 || (width & (width - 1))) simt_fault("%s:%d: a width of %d", file, line, width);
    return simt_self->lane & ~(unsigned)(width - 1);
}
template <class T> static inline T simt_shuffle(unsigned mask, T value, unsigned source, simt_site site)
{
    return simt_from_64<T>(simt_lanes(SIMT_OP_SHUFFLE, mask, simt_to_64(value), source, site));
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_SITE)
{
    const unsigned first = simt_first(width, file, line);
    return simt_shuffle(mask, value, first + ((unsigned)source & (unsigned)(width - 1)), SIMT_HERE);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE)
{
    const unsigned end = simt_first(width, file, line) + (unsigned)width, at = simt_self->lane ^ (unsigned)lane_mask;
    return simt_shuffle(mask, value, at < end ? at : simt_self->lane, SIMT_HERE);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE)
{
    const unsigned first = simt_first(width, file, line), lane = simt_self->lane;
    return simt_shuffle(mask, value, lane - first + by < (unsigned)width ? lane + by : lane, SIMT_HERE);
}

#undef SIMT_SITE
#undef SIMT_HERE

#endif

// Kernels for the emulator's own tests: what is right, and the mistakes that it has to find.
#include "tests/emulator/test_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define FULL 0xffffffffu

GDN_KERNEL(add_one, test_params, 256)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.out[i] = p.in[i] + 1.0f;
}

// One block sums n values: shuffles within warps, shared memory between them. mode 1: the barrier is missing.
GDN_KERNEL(reduce, test_params, 1024)
{
    __shared__ float partial[32];
    float sum = 0;
    for (unsigned i = threadIdx.x; i < p.n; i += blockDim.x) sum = __fadd_rn(sum, p.in[i]);
    for (int h = 16; h; h >>= 1) sum = __fadd_rn(sum, __shfl_xor_sync(FULL, sum, h));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    if (p.mode == 0) __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        for (int h = 16; h; h >>= 1) sum = __fadd_rn(sum, __shfl_down_sync(FULL, sum, h));
        if (threadIdx.x == 0) p.out[blockIdx.x] = sum;
    }
}

// The same in dynamic shared memory alone. mode 1: too little is asked for, so that it writes behind it.
GDN_KERNEL(reduce_shared, test_params, 1024)
{
    GDN_SHARED_DYNAMIC(float, tile);
    const unsigned t = threadIdx.x;
    tile[t] = t < p.n ? p.in[t] : 0.0f;
    __syncthreads();
    for (unsigned h = blockDim.x / 2; h; h /= 2) {
        if (t < h) tile[t] = __fadd_rn(tile[t], tile[t + h]);
        __syncthreads();
    }
    if (t == 0) p.out[blockIdx.x] = tile[0];
}

// Barriers that go wrong.
GDN_KERNEL(barriers, test_params, 1024)
{
    const unsigned t = threadIdx.x;
    switch (p.mode) {
    case 0: // the vote of all threads
        p.words[t] = (unsigned)__syncthreads_count(t < 40) * 4;
        p.words[t] += (unsigned)(__syncthreads_and(t < 40) * 2 + __syncthreads_or(t == 40));
        break;
    case 1: // half of the threads never come
        if (t < blockDim.x / 2) __syncthreads();
        else if (t == blockDim.x - 1) __syncwarp(1u << 31 | 1u << 30);
        break;
    case 2: // two barriers that are not the same
        if (t < 32) __syncthreads();
        else __syncthreads();
        break;
    case 3: // some return
        if (t == 5) return;
        __syncthreads();
        break;
    }
}

// Shuffles, votes and reductions of lanes; and what goes wrong with them.
GDN_KERNEL(lanes, test_params, 1024)
{
    const unsigned lane = threadIdx.x % 32;
    const int v = (int)(lane * 100 + 7);
    unsigned r = 0;
    switch (p.mode) {
    case 0: r = (unsigned)__shfl_sync(FULL, v, 35, 8); break; // lane 3 of each eight
    case 1: r = (unsigned)__shfl_xor_sync(FULL, v, 5); break;
    case 2: r = (unsigned)__shfl_xor_sync(FULL, v, 9, 8); break; // into the next eight: only downwards
    case 3: r = (unsigned)__shfl_up_sync(FULL, v, 3, 16); break;
    case 4: r = (unsigned)__shfl_down_sync(FULL, v, 3, 16); break;
    case 5: r = __ballot_sync(FULL, lane % 3 == 0); break;
    case 6: r = (unsigned)(__any_sync(FULL, lane == 9) * 2 + __all_sync(FULL, lane == 9)); break;
    case 7: // two halves, each for itself, meet again
        if (lane < 16) r = (unsigned)__shfl_xor_sync(0x0000ffffu, v, 1);
        else r = (unsigned)__shfl_xor_sync(0xffff0000u, v, 2);
        r += (unsigned)__shfl_sync(FULL, v, 0);
        break;
    case 8: r = (unsigned)__reduce_add_sync(FULL, v) + (unsigned)__reduce_min_sync(FULL, -v); break;
    case 9: r = __reduce_max_sync(FULL, lane) + __reduce_xor_sync(FULL, lane * 2 + 1); break;
    case 10: r = __match_any_sync(FULL, lane % 5); break;
    case 11: { // 64 bits
        const unsigned long long wide = __shfl_xor_sync(FULL, 0x100000000ull * lane + 1, 31);
        r = (unsigned)(wide >> 32) + (unsigned)wide;
        break;
    }
    case 12: // those that have returned are not waited for
        if (lane >= 20) return;
        __syncwarp();
        r = __ballot_sync(FULL, 1);
        break;
    case 13: r = __activemask(); break;
    case 14: // two groups wait for a lane that returns last
        if (lane >= 16) return;
        r = lane < 8 ? __ballot_sync(0x800000ffu, 1) : __ballot_sync(0x8000ff00u, 1);
        break;
    // Mistakes.
    case 20:
        if (lane < 16) r = (unsigned)__shfl_xor_sync(FULL, v, 1);
        else __syncwarp(0xffff0000u);
        __syncthreads();
        break;
    case 21:
        if (lane < 16) r = (unsigned)__shfl_sync(0x0000ffffu, v, 20);
        break;
    case 22: r = (unsigned)__shfl_xor_sync(0x0000ffffu, v, 1); break;
    case 23:
        if (lane >= 20) return;
        r = (unsigned)__shfl_sync(FULL, v, 25);
        break;
    case 24:
        r = __ballot_sync(lane < 16 ? FULL : 0xffff0000u, 1);
        __syncthreads();
        break;
    case 25: r = (unsigned)__shfl_sync(FULL, v, 0, 12); break;
    case 26: r = __ballot_sync(lane ? FULL : 0x7fffffffu, 1); break;
    case 27:
        if (lane < 16) r = __ballot_sync(FULL, 1);
        else __syncwarp();
        break;
    }
    p.words[threadIdx.x] = r;
}

// Memory that goes wrong.
GDN_KERNEL(memory, test_params, 1024)
{
    __shared__ float box[64];
    const unsigned t = threadIdx.x;
    switch (p.mode) {
    case 0: p.out[t] = box[t]; break;                                  // nobody has written it
    case 1: p.out[p.n + t] = 1; break;                                 // behind the allocation
    case 2: p.out[t] = __ldg((const float4 *)(p.in + 1) + t).x; break; // not aligned
    case 3:
        box[t % 64] = (float)t;
        p.out[t] = box[(t + 1) % 64];
        break; // no barrier between
    case 4:
        if (t == 0) p.out[0] = (float)blockIdx.x;
        break;                               // every block writes it
    case 5: p.out[t] = p.in[p.n + t]; break; // read behind the allocation
    case 6:
        box[t + 1] = 0;
        __syncthreads();
        p.out[t] = box[t];
        break; // beside a shared array
    case 7:
        if (t == 0) ((volatile float *)p.in)[0] = 1;
        break; // right where it is
    case 8:    // a barrier of the warp orders its lanes: right for 32 threads
        box[t % 64] = (float)t;
        __syncwarp();
        p.out[blockIdx.x * 128 + t] = box[(t / 32 * 32 + (t + 1) % 32) % 64];
        break;
    case 9:
        atomicAdd(&p.words[0], 1);
        atomicMax(&p.words[1], t);
        atomicOr(&p.words[2], 1u << t % 32);
        if (atomicCAS(&p.words[3], 0u, t + 1) == 0) atomicExch(&p.words[4], t + 1);
        break;
    case 11:
        if (t == 40) __trap();
        break;
    case 10: box[t % 32] = 1; break; // two threads write the same, without order
    case 12: {                       // dynamic shared memory that nobody has written
        GDN_SHARED_DYNAMIC(float, tile);
        p.out[t] = tile[t];
        break;
    }
    case 13: { // written too early for another thread that reads it
        box[t % 64] = 1;
        __syncthreads();
        const float next = box[(t + 1) % 64];
        box[t % 64] = next + 1;
        break;
    }
    case 14: // read by one block, written by another
        if (blockIdx.x == 0) p.out[t] = p.in[0];
        else if (t == 0) ((volatile float *)p.in)[0] = 1;
        break;
    case 15: { // right: a barrier of the warp wherever one is needed
        float sum = 0;
        for (int i = 0; i < 4; i++) {
            box[t % 32] = sum + 1;
            __syncwarp();
            sum += box[(t + 1) % 32];
            __syncwarp();
        }
        p.out[t] = sum;
        break;
    }
    case 16: // a barrier of the warp in the wrong place
        box[t % 32] = 0;
        __syncwarp();
        box[t % 32] = 1;
        p.out[blockIdx.x * 32 + t] = box[(t + 1) % 32];
        break;
    case 17: ((volatile test_params *)&p)->n = 3; break;
    }
}

// Copies to shared memory that are made in the background. mode 1: nobody waits for them; 2: also, over what was there.
GDN_KERNEL(copies, test_params, 32)
{
    __shared__ __align__(16) float tile[2][128];
    const unsigned t = threadIdx.x;
    if (p.mode == 2)
        for (int i = 0; i < 4; i++) tile[0][4 * t + i] = 5;
    __pipeline_memcpy_async(&tile[0][4 * t], p.in + 4 * t, 16);
    __pipeline_commit();
    __pipeline_memcpy_async(&tile[1][4 * t], p.in + 128 + 4 * t, 16, 8);
    __pipeline_commit();
    __pipeline_wait_prior(p.mode ? 2 : 1);
    __syncwarp();
    for (int i = 0; i < 4; i++) p.out[t + 32 * i] = tile[0][t + 32 * i];
    __pipeline_wait_prior(0);
    for (int i = 0; i < 4; i++) p.out[128 + 4 * t + i] = tile[1][4 * t + i];
}

// Conversions: words in, words out.
GDN_KERNEL(convert, test_params, 1024)
{
    for (unsigned i = threadIdx.x; i < p.n; i += blockDim.x) {
        const float x = p.in[i];
        unsigned r = 0;
        switch (p.mode) {
        case 0: r = __half_as_ushort(__float2half_rn(x)); break;
        case 1: r = __float_as_uint(__half2float(__ushort_as_half((unsigned short)i))); break;
        case 2: r = __bfloat16_as_ushort(__float2bfloat16_rn(x)); break;
        case 3: r = __float_as_uint(__bfloat162float(__ushort_as_bfloat16((unsigned short)i))); break;
        case 4: r = (unsigned)__float2int_rn(x); break;
        case 5: r = (unsigned)(__clz((int)i) + 100 * __popc(i) + 10000 * __ffs((int)i)); break;
        case 6: r = __float_as_uint(__fmaf_rn(x, x, -1.0f)); break;
        }
        p.words[i] = r;
    }
}

// A kernel for the emulator's own tests: what is right, and the mistakes that it has to find.
#include "tests/emulator/test_kernels.h"

#define FULL 0xffffffffu

GDN_KERNEL(try_mode, test_params, 256)
{
    __shared__ float box[64];
    const unsigned t = threadIdx.x, lane = t % 32, i = blockIdx.x * blockDim.x + t;
    const int v = (int)(lane * 100 + 7);
    float r = 0;
    switch (p.mode) {
    case ADD_ONE: r = i < p.n ? p.in[i] + 1.0f : 0; break;
    case WARP_ORDERED:
        for (int k = 0; k < 4; k++) {
            box[lane] = r + 1;
            __syncwarp();
            r += box[(t + 1) % 32];
            __syncwarp();
        }
        break;
    case WARP_ORDERED_BY_64: // right for 64 threads, a race for more
        box[t % 64] = (float)t;
        __syncwarp();
        r = box[(t / 32 * 32 + (t + 1) % 32) % 64];
        break;
    case ATOMICS:
        atomicMax(&p.words[1], t);
        if (atomicCAS(&p.words[3], 0u, t + 1) == 0) atomicMax(&p.words[4], t + 1);
        break;
    case LEFT_EARLY: // those that have returned are not waited for
        if (lane >= 20) return;
        __syncwarp();
        r = (float)(__all_sync(FULL, 1) + __any_sync(FULL, lane == 19));
        break;
    case MATRICES: { // row i of a has one element that is not zero, -i - 1, at 2 i; b[k][j] = k + j
        const unsigned row = lane / 4, quad = lane % 4;
        unsigned a[4], b[2];
        for (unsigned n = 0; n < 4; n++) {
            const unsigned of = row + n % 2 * 8, k = 16 * (n / 2) + 4 * quad;
            a[n] = 2 * of / 4 == k / 4 ? (255 - of) << 2 * of % 4 * 8 : 0;
        }
        for (unsigned n = 0; n < 2; n++) b[n] = 0x03020100u + (16 * n + 4 * quad + row) * 0x01010101u;
        int c[4] = { 1, 1, 1, 1 };
        __mma_m16n8k32_s8(c, make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]));
        for (int n = 0; n < 4; n++) {
            const int i = (int)row + n / 2 * 8, j = (int)quad * 2 + n % 2;
            r += c[n] == 1 - (i + 1) * (2 * i + j);
        }
        // Of binary16: row i of a has 1024 + i at i, and b[k][j] = 1024 + k + j.
        for (unsigned n = 0; n < 4; n++) {
            const unsigned of = row + n % 2 * 8, k = 8 * (n / 2) + 2 * quad;
            a[n] = of / 2 == k / 2 ? (0x6400u + of) << of % 2 * 16 : 0;
        }
        for (unsigned n = 0; n < 2; n++) b[n] = 0x64016400u + (8 * n + 2 * quad + row) * 0x00010001u;
        float f[4] = { 1, 1, 1, 1 };
        __mma_m16n8k16_f16(f, make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]));
        for (int n = 0; n < 4; n++) {
            const int i = (int)row + n / 2 * 8, j = (int)quad * 2 + n % 2;
            r += f[n] == (float)(1 + (1024 + i) * (1024 + i + j));
        }
        break;
    }

    case HALF_COMES:
        if (t < blockDim.x / 2) __syncthreads();
        else if (t == blockDim.x - 1) __syncwarp(3u << 30);
        break;
    case TWO_BARRIERS:
        if (t < 32) __syncthreads();
        else __syncthreads();
        break;
    case RETURNS_EARLY:
        if (t == 5) return;
        __syncthreads();
        break;
    case SHUFFLE_AND_BARRIER:
        if (lane < 16) r = (float)__shfl_xor_sync(FULL, v, 1);
        else __syncwarp(0xffff0000u);
        __syncthreads();
        break;
    case LANE_TAKES_NO_PART:
        if (lane < 16) r = (float)__shfl_sync(0x0000ffffu, v, 20);
        break;
    case MASK_WITHOUT_ITSELF: r = (float)__shfl_xor_sync(0x0000ffffu, v, 1); break;
    case LANE_THAT_RETURNED:
        if (lane >= 20) return;
        r = (float)__shfl_sync(FULL, v, 25);
        break;
    case TWO_MASKS:
        r = (float)__any_sync(lane < 16 ? FULL : 0xffff0000u, 1);
        __syncthreads();
        break;
    case BAD_WIDTH: r = (float)__shfl_sync(FULL, v, 0, 12); break;
    case ONE_OTHER_MASK: r = (float)__any_sync(lane ? FULL : 0x7fffffffu, 1); break;
    case VOTE_AND_BARRIER:
        if (lane < 16) r = (float)__any_sync(FULL, 1);
        else __syncwarp();
        break;

    case HALF_MULTIPLIES:
        if (lane < 16) return;
        {
            int c[4] = { 0, 0, 0, 0 };
            __mma_m16n8k32_s8(c, make_uint4(0, 0, 0, 0), make_uint2(0, 0));
        }
        break;

    case SUM_ROUNDS: {
        float c[4] = { 0x1p24f, 0, 0, 0 }; // and 1
        __mma_m16n8k16_f16(c, make_uint4(0x3c00, 0, 0, 0), make_uint2(lane % 4 ? 0 : 0x3c00, 0));
        r = c[0];
        break;
    }

    case UNWRITTEN: r = box[t % 64]; break;
    case BEHIND_ALLOCATION: p.out[p.n + t] = 1; break;
    case UNALIGNED: r = __ldg((const float4 *)(p.in + 1) + t).x; break;
    case NO_BARRIER:
        box[t % 64] = (float)t;
        r = box[(t + 1) % 64];
        break;
    case BLOCKS_WRITE:
        if (t == 0) p.words[0] = blockIdx.x;
        break;
    case READ_BEHIND: r = p.in[p.n + t]; break;
    case SAME_WRITE: box[lane] = 1; break; // of two threads, without order
    case WRITTEN_EARLY:                    // for another thread that reads it
        box[t % 64] = 1;
        __syncthreads();
        r = box[(t + 1) % 64];
        box[t % 64] = r + 1;
        break;
    case BLOCK_READS: // what another block writes
        if (blockIdx.x == 0) r = p.in[0];
        else if (t == 0) ((volatile float *)p.in)[0] = 1;
        break;
    case WARP_BARRIER_TOO_EARLY:
        box[lane] = 0;
        __syncwarp();
        box[lane] = 1;
        r = box[(t + 1) % 32];
        break;
    case WRITES_PARAMETER: ((volatile test_params *)&p)->n = 3; break;
    }
    p.out[i] = r;
}

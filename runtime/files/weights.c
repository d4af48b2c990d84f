/* Decodes weights one at a time; defines the meaning of the bytes. The kernels decode whole blocks. See weights.h. */
#include "runtime/files/weights.h"

#include <stddef.h>
#include <string.h>

#include "numerics/convert.h"
#include "numerics/float_env.h"
#include "runtime/files/quant_blocks.h"

/* List of the types, for their sizes and for names in texts. */
// clang-format off
#define TYPES(X)                                                                                                       \
    X(F32, 1, 4) X(F16, 1, 2) X(BF16, 1, 2) X(Q8_0, 32, 34) X(Q4_0, 32, 18) X(Q4_1, 32, 20) X(Q5_0, 32, 22)            \
    X(Q5_1, 32, 24) X(Q2_K, 256, 84) X(Q3_K, 256, 110) X(Q4_K, 256, 144) X(Q5_K, 256, 176) X(Q6_K, 256, 210)           \
    X(IQ1_S, 256, 50) X(IQ1_M, 256, 56) X(IQ2_XXS, 256, 66) X(IQ2_XS, 256, 74) X(IQ2_S, 256, 82) X(IQ3_XXS, 256, 98)   \
    X(IQ3_S, 256, 110) X(IQ4_NL, 32, 18) X(IQ4_XS, 256, 136)
// clang-format on

#define ROW(name, block, bytes)  [RT_##name] = { #name, block, bytes },
#define NAME(name, block, bytes) #name ", "

static const rt_type_info types[] = { TYPES(ROW) ROW(MXFP4, 32, 17) }; /* gaps have no name */

const char *rt_type_names(void) { return TYPES(NAME) "MXFP4"; }

const rt_type_info *rt_type_describe(int32_t type)
{
    const int there = type >= 0 && (size_t)type < sizeof types / sizeof types[0] && types[type].name;
    return there ? &types[type] : NULL;
}

/* Scale and minimum of sub-block j of Q4_K and Q5_K. 8 scales and 8 minima of 6 bits are packed into 12 bytes. The
 * first four of each are the low bits of bytes 0..7. The others have 4 bits in bytes 8..11 and 2 in the high bits of
 * bytes 0..7. */
static void scale_min(const unsigned char *s, int32_t j, int32_t *scale, int32_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}

/* d and dmin (F16), scales, [Q5_K: 32 bytes of fifth bits], then nibbles: 32 bytes hold two sub-blocks. */
static void read_k4_k5(const unsigned char *at, int five, int32_t j, rt_weight_block *out)
{
    const unsigned char *high = at + 16, *nibbles = at + (five ? 48 : 16) + j / 2 * 32;
    int32_t scale, min;
    scale_min(at + 4, j, &scale, &min);
    out->d = gdn_load_f16(at) * (float)scale;
    out->m = gdn_load_f16(at + 2) * (float)min;
    for (int i = 0; i < 32; i++) {
        const int bit = five ? high[i] >> j & 1 : 0;
        out->w[i] = (int8_t)((nibbles[i] >> j % 2 * 4 & 15) | bit << 4);
    }
}

/* 128 bytes of low 4 bits, 64 of high 2 bits, 16 scales, d. Each half has 128 elements: the low nibbles of 64 bytes,
 * then their high nibbles. Each byte of high bits serves four elements, 32 apart. */
static void read_k6(const unsigned char *at, int32_t j, rt_weight_block *out)
{
    const int h = j / 4, quarter = j % 4;
    const unsigned char *low = at + 64 * h + quarter % 2 * 32, *high = at + 128 + 32 * h;
    for (int i = 0; i < 32; i++)
        out->w[i] = (int8_t)(((low[i] >> quarter / 2 * 4 & 15) | (high[i] >> 2 * quarter & 3) << 4) - 32);
    for (int i = 0; i < 2; i++) out->factor[i] = (int8_t)at[192 + 2 * j + i];
    out->d = gdn_load_f16(at + 208);
}

static void read_q8_0(const unsigned char *at, rt_weight_block *out)
{
    out->d = gdn_load_f16(at);
    memcpy(out->w, at + 2, 32);
}

static void read_q4_0(const unsigned char *at, rt_weight_block *out)
{
    out->d = gdn_load_f16(at);
    rt_read_nibbles(at + 2, 0, 8, out);
}

void rt_weight_block_read(int32_t type, const unsigned char *row, int32_t b, rt_weight_block *out)
{
    const rt_type_info *info = rt_type_describe(type);
    const unsigned char *at = row + (int64_t)(32 * (int64_t)b / info->block) * info->block_bytes;
    const int32_t j = b % 8;
    out->factor[0] = out->factor[1] = out->min[0] = out->min[1] = 1;
    out->m = 0;
    switch (type) {
    case RT_Q8_0: read_q8_0(at, out); return;
    case RT_Q4_0: read_q4_0(at, out); return;
    case RT_Q4_K: read_k4_k5(at, 0, j, out); return;
    case RT_Q5_K: read_k4_k5(at, 1, j, out); return;
    case RT_Q6_K: read_k6(at, j, out); return;
    default: rt_read_block(type, at, j, out); return;
    }
}

void rt_weight_row(const rt_weight *w, int64_t row, float *out)
{
    const unsigned char *from = w->data + row * w->row_bytes;
    const gdn_float_env caller = gdn_float_env_enter();
    if (w->type == RT_F32) {
        memcpy(out, from, 4 * (size_t)w->n_columns);
    } else if (w->type == RT_F16 || w->type == RT_BF16) {
        for (int32_t i = 0; i < w->n_columns; i++)
            out[i] = w->type == RT_F16 ? gdn_load_f16(from + 2 * (size_t)i) : gdn_load_bf16(from + 2 * (size_t)i);
    } else {
        for (int32_t b = 0; b < w->n_columns / 32; b++) {
            rt_weight_block block;
            rt_weight_block_read(w->type, from, b, &block);
            for (int i = 0; i < 32; i++) /* only the last operation rounds */
                out[32 * b + i] =
                    block.d * (float)block.factor[i / 16] * (float)block.w[i] - block.m * (float)block.min[i / 16];
        }
    }
    gdn_float_env_leave(caller);
}

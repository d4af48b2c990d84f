/* Angles of the rotary embedding (RoPE) for dense.c, and their scaling for longer contexts. */
#ifndef GDN_RUNTIME_ROPE_H
#define GDN_RUNTIME_ROPE_H

#include "runtime/dense/dense.h"

enum { RT_ROPE_MAX = 1024 }; /* largest n_rot */

/* How the frequencies f_i = base^(-2 i / n_rot), i < n_rot / 2, are scaled. All zeros: no scaling.
 *    RT_ROPE_LINEAR: f_i / factor. Position interpolation, Chen et al., arXiv 2306.15595.
 *    RT_ROPE_YARN: "NTK by parts" and the attention's temperature. Peng et al., "YaRN: Efficient Context Window
 *    Extension of Large Language Models", arXiv 2309.00071, sections 3.2 and 3.4:
 *
 *        d(r) = n_rot ln(n_original / (2 pi r)) / (2 ln base), the dimension that turns r times in the context
 *        low = max(floor d(beta_fast), 0)
 *        high = min(ceil d(beta_slow), n_rot - 1), or low + 0.001 where they are equal
 *        keep_i = ext_factor (1 - min(max((i - low) / (high - low), 0), 1))
 *        f_i' = (1 - keep_i) f_i / factor + keep_i f_i
 *
 *    If factor > 1, cosines and sines are also multiplied by 0.1 ln(factor) + 1. Scores of rotated elements are thus
 *    multiplied by its square, the paper's 1 / t. Elements of a head beyond n_rot are not scaled.
 * All kinds multiply cosines and sines by attn_factor too. */
typedef enum rt_rope_kind { RT_ROPE_PLAIN, RT_ROPE_LINEAR, RT_ROPE_YARN } rt_rope_kind;
typedef struct rt_rope_scaling {
    rt_rope_kind kind;
    float factor;                           /* above 0; ignored with RT_ROPE_PLAIN                           */
    float attn_factor;                      /* 0 means 1                                                     */
    float ext_factor, beta_fast, beta_slow; /* YaRN only: above 0, and beta_fast > beta_slow          */
    int32_t n_original;                     /* YaRN only: context length of training, at least 1             */
} rt_rope_scaling;

/* Creates the object of rt_rope_apply() (dense.h). GDN_UNSUPPORTED: low > high, where implementations differ. */
gdn_status rt_rope_create(int32_t n_rot, float base, const rt_rope_scaling *scaling, int32_t n_positions,
                          rt_rope **rope);

double rt_rope_yarn_magnitude(float factor); /* 0.1 ln(factor) + 1; 1 if factor <= 1 */

int32_t rt_rope_half(const rt_rope *rope); /* n_rot / 2 */

/* Returns n_rot / 2 cosines, then as many sines: from the table, or computed into `made`. */
const float *rt_rope_angles(const rt_rope *rope, int32_t position, float made[RT_ROPE_MAX]);

#endif

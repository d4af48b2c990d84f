/* Angles of the rotary embedding. See dense.h and rope.h. */
#include "runtime/dense/rope.h"

#include <math.h>
#include <stddef.h>

#include "numerics/float_env.h"
#include "runtime/base/error.h"

struct rt_rope {
    int32_t half, n_positions;
    double frequency[RT_ROPE_MAX / 2]; /* `half` of them are used                    */
    double magnitude;                  /* of cosines and sines                       */
    float *table;                      /* [n_positions][2 half]: cosines, then sines */
};

static void angles(const rt_rope *rope, int32_t position, float *out)
{
    for (int32_t i = 0; i < rope->half; i++) {
        const double angle = (double)position * rope->frequency[i];
        out[i] = (float)(rope->magnitude * cos(angle));
        out[i + rope->half] = (float)(rope->magnitude * sin(angle));
    }
}

double rt_rope_yarn_magnitude(float factor) { return factor > 1 ? 0.1 * log((double)factor) + 1 : 1; }

/* The dimension that turns r times in the context trained on. */
static double dimension_of(double r, int32_t n_rot, double base, int32_t n_original)
{
    const double pi = 3.14159265358979323846;
    return n_rot * log(n_original / (2 * pi * r)) / (2 * log(base));
}

static gdn_status check_scaling(float base, const rt_rope_scaling *s)
{
    if (s->attn_factor < 0 || !(s->attn_factor <= 1e6f))
        return rt_fail(GDN_INVALID_ARGUMENT, "the rotary attn_factor is %g; 0 to 1e6 are allowed",
                       (double)s->attn_factor);
    if (s->kind == RT_ROPE_PLAIN) return GDN_OK;
    if (!(s->factor >= 1e-6f && s->factor <= 1e6f))
        return rt_fail(GDN_INVALID_ARGUMENT, "the rotary factor is %g; 1e-6 to 1e6 are allowed", (double)s->factor);
    if (s->kind == RT_ROPE_LINEAR) return GDN_OK;
    if (!(base > 1))
        return rt_fail(GDN_INVALID_ARGUMENT, "the rotary base is %g; with YaRN, above 1 is allowed", (double)base);
    if (!(s->ext_factor > 0 && s->ext_factor <= 1))
        return rt_fail(GDN_INVALID_ARGUMENT, "YaRN's ext_factor is %g; above 0 to 1 are allowed",
                       (double)s->ext_factor);
    if (!(s->beta_slow > 0 && s->beta_fast > s->beta_slow && s->beta_fast <= 1e9f))
        return rt_fail(GDN_INVALID_ARGUMENT,
                       "YaRN's beta_fast is %g and beta_slow %g; beta_fast > beta_slow > 0 is allowed",
                       (double)s->beta_fast, (double)s->beta_slow);
    if (s->n_original < 1)
        return rt_fail(GDN_INVALID_ARGUMENT, "YaRN's original context is %d; 1 and more are allowed",
                       (int)s->n_original);
    return GDN_OK;
}

static gdn_status scale(rt_rope *r, float base, const rt_rope_scaling *s)
{
    const int32_t n_rot = 2 * r->half;
    r->magnitude = s->attn_factor != 0 ? (double)s->attn_factor : 1;
    if (s->kind == RT_ROPE_PLAIN) return GDN_OK;
    double low = 0, high = 0;
    if (s->kind == RT_ROPE_YARN) {
        low = fmax(floor(dimension_of((double)s->beta_fast, n_rot, (double)base, s->n_original)), 0);
        high = fmin(ceil(dimension_of((double)s->beta_slow, n_rot, (double)base, s->n_original)), n_rot - 1);
        if (low > high)
            return rt_fail(GDN_UNSUPPORTED,
                           "YaRN with a base of %g, an original context of %d and %d rotated elements cannot be run: "
                           "its first dimension to scale is %g, behind its last, %g",
                           (double)base, (int)s->n_original, (int)n_rot, low, high);
        high = low < high ? high : low + 0.001;
        r->magnitude *= rt_rope_yarn_magnitude(s->factor);
    }
    for (int32_t i = 0; i < r->half; i++) {
        const double whole = r->frequency[i], scaled = whole / (double)s->factor;
        const double ramp = s->kind == RT_ROPE_YARN ? fmin(fmax((i - low) / (high - low), 0), 1) : 1;
        const double keep = s->kind == RT_ROPE_YARN ? (double)s->ext_factor * (1 - ramp) : 0;
        r->frequency[i] = (1 - keep) * scaled + keep * whole;
    }
    return GDN_OK;
}

gdn_status rt_rope_create(int32_t n_rot, float base, const rt_rope_scaling *scaling, int32_t n_positions,
                          rt_rope **rope)
{
    *rope = NULL;
    if (n_rot < 2 || n_rot > RT_ROPE_MAX || n_rot % 2)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_rot is %d; even numbers from 2 to %d are allowed", (int)n_rot,
                       (int)RT_ROPE_MAX);
    if (!(base > 0) || base > 1e30f)
        return rt_fail(GDN_INVALID_ARGUMENT, "the rotary base is %g; above 0 to 1e30 are allowed", (double)base);
    if (n_positions < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_positions is %d; 0 and more are allowed", (int)n_positions);
    gdn_status status = check_scaling(base, scaling);
    if (status) return status;
    void *table;
    rt_rope *r =
        rt_calloc_with(sizeof *r, (uint64_t)n_positions * (uint64_t)n_rot, sizeof *r->table, "rotary angles", &table);
    if (!r) return GDN_OUT_OF_MEMORY;
    r->half = n_rot / 2;
    r->n_positions = n_positions;
    r->table = table;
    const gdn_float_env caller = gdn_float_env_enter();
    for (int32_t i = 0; i < r->half; i++) r->frequency[i] = pow((double)base, -2.0 * i / n_rot);
    status = scale(r, base, scaling);
    for (int32_t p = 0; !status && p < n_positions; p++) angles(r, p, r->table + (int64_t)p * n_rot);
    gdn_float_env_leave(caller);
    if (status) rt_rope_destroy(r);
    else *rope = r;
    return status;
}

void rt_rope_destroy(rt_rope *rope) { rt_free(rope); }

int32_t rt_rope_half(const rt_rope *rope) { return rope->half; }

const float *rt_rope_angles(const rt_rope *rope, int32_t position, float made[RT_ROPE_MAX])
{
    if (position >= 0 && position < rope->n_positions) return rope->table + (int64_t)position * 2 * rope->half;
    angles(rope, position, made);
    return made;
}

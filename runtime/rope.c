/* Angles of the rotary embedding. See dense.h and rope.h. */
#include "runtime/rope.h"

#include <math.h>
#include <stddef.h>

#include "numerics/float_env.h"
#include "runtime/error.h"

struct rt_rope {
    int32_t half, n_positions;
    double  frequency[RT_ROPE_MAX / 2]; /* half of them                               */
    float  *table;                      /* [n_positions][2 half]: cosines, then sines */
};

static void angles(const rt_rope *rope, int32_t position, float *out)
{
    for (int32_t i = 0; i < rope->half; i++) {
        const double angle = (double)position * rope->frequency[i];
        out[i]              = (float)cos(angle);
        out[i + rope->half] = (float)sin(angle);
    }
}

gdn_status rt_rope_create(int32_t n_rot, float base, int32_t n_positions, rt_rope **rope)
{
    *rope = NULL;
    if (n_rot < 2 || n_rot > RT_ROPE_MAX || n_rot % 2)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_rot is %d; even numbers from 2 to %d are allowed", (int)n_rot,
                       (int)RT_ROPE_MAX);
    if (!(base > 0) || base > 1e30f)
        return rt_fail(GDN_INVALID_ARGUMENT, "the rotary base is %g; above 0 to 1e30 are allowed", (double)base);
    if (n_positions < 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "n_positions is %d; 0 and more are allowed", (int)n_positions);
    void    *table;
    rt_rope *r =
        rt_calloc_with(sizeof *r, (uint64_t)n_positions * (uint64_t)n_rot, sizeof *r->table, "rotary angles", &table);
    if (!r)
        return GDN_OUT_OF_MEMORY;
    r->half        = n_rot / 2;
    r->n_positions = n_positions;
    r->table       = table;
    const gdn_float_env caller = gdn_float_env_enter();
    for (int32_t i = 0; i < r->half; i++)
        r->frequency[i] = pow((double)base, -2.0 * i / n_rot);
    for (int32_t p = 0; p < n_positions; p++)
        angles(r, p, r->table + (int64_t)p * n_rot);
    gdn_float_env_leave(caller);
    *rope = r;
    return GDN_OK;
}

void rt_rope_destroy(rt_rope *rope) { rt_free(rope); }

int32_t rt_rope_half(const rt_rope *rope) { return rope->half; }

const float *rt_rope_angles(const rt_rope *rope, int32_t position, float made[RT_ROPE_MAX])
{
    if (position >= 0 && position < rope->n_positions)
        return rope->table + (int64_t)position * 2 * rope->half;
    angles(rope, position, made);
    return made;
}

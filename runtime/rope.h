/* Angles of the rotary embedding, for dense.c. */
#ifndef GDN_RUNTIME_ROPE_H
#define GDN_RUNTIME_ROPE_H

#include "runtime/dense.h"

enum { RT_ROPE_MAX = 1024 }; /* largest n_rot */

int32_t rt_rope_half(const rt_rope *rope); /* n_rot / 2 */

/* half cosines, then half sines: of the table, or made on the spot in `made`. */
const float *rt_rope_angles(const rt_rope *rope, int32_t position, float made[RT_ROPE_MAX]);

#endif

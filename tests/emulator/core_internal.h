/* Between the core's own files. */
#ifndef GDN_SIMT_CORE_INTERNAL_H
#define GDN_SIMT_CORE_INTERNAL_H

#include "tests/emulator/core.h"

#include <string.h>

simt_warp *simt_warps(void);
void simt_suspend(void);                     /* until the scheduler comes back to this thread */
void simt_warp_exit(simt_thread *thread);    /* it has returned: others may wait for it no longer */
void simt_describe(char *text, size_t size); /* where threads are */

static inline int simt_same_site(simt_site a, simt_site b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

/* The floating-point mode of the host does not matter to a device: round to nearest, subnormals kept. */
typedef uint64_t simt_float_mode;
simt_float_mode simt_float_default(void);
void simt_float_restore(simt_float_mode mode);

#endif

/* Asynchronous copies to shared memory. A copy may land at any time between its call and the wait for its group: here
 * it lands in the wait, and the target is garbage until then, so that a missing wait shows. */
#ifndef GDN_SIMT_COPIES_H
#define GDN_SIMT_COPIES_H

#include "tests/emulator/core.h"

#ifdef __cplusplus
extern "C" {
#endif

void simt_copy_async(void *to, const void *from, unsigned bytes, unsigned zeros, simt_site site);
void simt_copy_commit(void);           /* closes a group */
void simt_copy_wait(unsigned pending); /* until at most this many of the newest groups are in flight */
void simt_copies_forget(void);         /* a block starts */

#ifdef __cplusplus
}
#endif
#endif

/* The --backend, --device and --impl options that commands share, and walks over what there is. */
#ifndef GDN_TOOL_TARGET_H
#define GDN_TOOL_TARGET_H

#include "gdn/gdn.h"

/* The backend that is called `name`; 0 if there is none. */
int target_backend(const char *name, uint32_t *backend);

/* Open what the options name: backend NULL = "cpu", implementation NULL = the best, threads 0 = all cores.
 * On failure NULL, and `message` says why. */
gdn_context *target_open(const char *backend, int64_t device, const char *implementation, uint32_t n_threads,
                         char *message, uint64_t message_bytes);

#endif

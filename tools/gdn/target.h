/* The --backend, --device, --impl and --level options that commands share, and walks over what there is. */
#ifndef GDN_TOOL_TARGET_H
#define GDN_TOOL_TARGET_H

#include "gdn/gdn.h"

/* --level: the level of the contract that is called `name`, NULL = exact. 0, and a text in `message`, if there is none.
 */
extern const char *const target_level_names[GDN_LEVEL_COUNT];
int target_level(const char *name, uint32_t *level, char *message, uint64_t message_bytes);

/* Open what the options name: backend NULL = "cpu"; desc has all the rest, and gets these two. On failure NULL, and
 * `message` says why. */
gdn_context *target_open(const char *backend, int64_t device, gdn_context_desc *desc, char *message,
                         uint64_t message_bytes);

#endif

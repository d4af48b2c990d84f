/* The options --backend, --device, --impl and --level, and enumeration of backends and devices. */
#ifndef GDN_TOOL_TARGET_H
#define GDN_TOOL_TARGET_H

#include "gdn/gdn.h"

/* Finds the backend with this name; returns 0 if there is none. */
int target_backend(const char *name, uint32_t *backend);

/* The level with this name, NULL = exact. Returns 0 and a text in `message` if there is none. */
extern const char *const target_level_names[GDN_LEVEL_COUNT];
int target_level(const char *name, uint32_t *level, char *message, uint64_t message_bytes);

/* Copies an error text of libgdn, with the names of the options for those of gdn_context_desc's members. */
void target_error(const char *text, char *message, uint64_t message_bytes);

/* Opens a context. backend NULL = "cpu"; desc has the other fields, and the function sets backend and device. NULL:
 * failed, `message` says why. */
gdn_context *target_open(const char *backend, int64_t device, gdn_context_desc *desc, char *message,
                         uint64_t message_bytes);

#endif

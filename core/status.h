/* Errors: each is returned through gdn_fail(), which sets the text that gdn_last_error() returns. */
#ifndef GDN_CORE_STATUS_H
#define GDN_CORE_STATUS_H

#include "gdn/gdn.h"

/* Sets the calling thread's error text, printf-like, and returns status. */
gdn_status gdn_fail(gdn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

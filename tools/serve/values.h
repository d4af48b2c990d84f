/* Values in requests. The functions that return an int return 0, with an error, if they refuse. */
#ifndef GDN_TOOL_SERVE_VALUES_H
#define GDN_TOOL_SERVE_VALUES_H

#include "tools/serve/serve.h"

/* A member; NULL: it is absent or null. */
json_t *serve_member(const json_t *object, const char *name);
/* A member that is a text; otherwise "". */
const char *serve_text_in(const json_t *object, const char *name);
/* Refuses the value of a member. */
int serve_wrong(serve_error *e, const char *name, const char *allowed);
/* Refuses what a function of the runtime refused. */
int serve_refused(serve_error *e, gdn_status status, const char *name);
/* Read a member. *to remains if there is none. */
int serve_get_flag(const json_t *object, const char *name, int *to, serve_error *e);
int serve_get_integer(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *to, serve_error *e);
int serve_get_number(const json_t *object, const char *name, float *to, serve_error *e);

#endif

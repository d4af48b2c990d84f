/* JSON schemas: which bytes can come next in a text that a schema describes.
 *
 * rt_schema_compile() turns a schema into rules. A state (rt_schema_state) is a place in a text: an automaton over
 * bytes with a stack, and several of them where alternatives begin alike. A text that it accepts is JSON that is valid
 * under the schema, or calls of tools whose arguments are. It writes JSON in one form, which
 * docs/reference/json-schema.md describes: properties in the schema's order, and no white space but one optional space
 * after each comma and colon. */
#ifndef GDN_RUNTIME_SCHEMA_H
#define GDN_RUNTIME_SCHEMA_H

#include "runtime/files/gguf.h"

enum { RT_SCHEMA_MAX = 1 << 20 }; /* most bytes of a schema */

typedef struct rt_schema rt_schema;
typedef struct rt_schema_state rt_schema_state;

/* Compiles a schema, which is JSON text. The text may be freed afterwards. {"type": "object"} is any object.
 * GDN_INVALID_ARGUMENT: it is not JSON, or no schema. GDN_UNSUPPORTED: a keyword is not supported, or no text is valid.
 * The error text has the keyword and its path. A schema is immutable: any number of threads may use it. */
gdn_status rt_schema_compile(const char *text, uint64_t bytes, rt_schema **schema);

/* Which calls of tools a text may have. */
enum {
    RT_CALLS_FORCED = 1, /* the text is calls and nothing else; else any text may come before, between and after them */
    RT_CALLS_SEVERAL = 2, /* of a forced text: more than one may come */
    RT_CALLS_TAGS = 4     /* arguments are written in tags, as Qwen3.5 does; else as JSON, as Qwen3 does */
};
/* Compiles calls of tools, in the forms that docs/reference/json-schema.md describes. The text is JSON: {"tools":
 * [{"name": NAME, "parameters": SCHEMA}, ...], "format": SCHEMA}. A tool without parameters may have any arguments. A
 * forced text may be JSON that is valid under `format` instead, if that is there. The rest is as in
 * rt_schema_compile(). */
gdn_status rt_schema_compile_calls(const char *text, uint64_t bytes, int flags, rt_schema **schema);
void rt_schema_free(rt_schema *schema);

/* The state at the beginning of a text. The schema must outlive it. thinks 1: any bytes come first, up to </think> and
 * at most two newlines. NULL: out of memory. */
rt_schema_state *rt_schema_begin(const rt_schema *schema, int thinks);
void rt_schema_end(rt_schema_state *state);

/* Goes on by n bytes. Returns n, or the index of the first byte that is not allowed; the state is then that before it.
 */
uint64_t rt_schema_feed(rt_schema_state *state, const char *bytes, uint64_t n);
int rt_schema_complete(const rt_schema_state *state); /* 1: the text may end here                */
int rt_schema_thinks(const rt_schema_state *state);   /* 1: </think> has not come, so any byte may */
int rt_schema_is_free(const rt_schema_state *state);  /* 1: any text may come here, up to a call  */

#endif

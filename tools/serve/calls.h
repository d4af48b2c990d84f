/* Calls of tools in a model's output. */
#ifndef GDN_TOOL_SERVE_CALLS_H
#define GDN_TOOL_SERVE_CALLS_H

#include <jansson.h>

/* The next piece of a text: content, and the call that follows it. */
typedef struct serve_piece {
    size_t content;   /* the first bytes that are content */
    size_t used;      /* bytes of content, whitespace and the call; 0: nothing is certain yet */
    json_t *function; /* of the call: name and arguments, which are JSON of an object in a text; NULL: there is none */
} serve_piece;

/* Reads the next piece of n bytes in the forms
 *   <tool_call>{"name": NAME, "arguments": {...}}</tool_call>
 *   <tool_call><function=NAME><parameter=KEY>VALUE</parameter>...</function></tool_call>
 * with whitespace between the parts. A value is a string where the tool's schema allows one, unless it is null, an
 * array or an object that the schema allows too. Where it allows no string, or says nothing, a value is JSON if it is
 * that. What has neither form, or names none of the tools, is content. Whitespace before a call is dropped. All pieces
 * together do not depend on where the text is cut. after: the piece before ended with a call; last: the text has ended.
 * *seen, 0 at first, is this function's: it keeps a call that comes in many parts from being read from its beginning at
 * each. */
serve_piece serve_next_piece(const json_t *tools, const char *text, size_t n, int after, int last, size_t *seen);

#endif

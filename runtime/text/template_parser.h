/* The parser of chat templates: what template_parse.c (expressions) and template_blocks.c (statements) share. */
#ifndef GDN_RUNTIME_TEMPLATE_PARSER_H
#define GDN_RUNTIME_TEMPLATE_PARSER_H

#include "runtime/text/template_internal.h"

typedef struct tpl_parser {
    tpl_arena *arena;
    const tpl_token *token; /* next token */
    gdn_status status;
    int depth, loops;
} tpl_parser;

/* Makes the parser fail, unless it has failed before. Returns NULL. After a failure all functions return at once. */
void *tpl_unexpected(tpl_parser *p, const char *what);
/* Increments the depth. Returns 0 beyond TPL_DEPTH_MAX, which protects the C stack. */
int tpl_deeper(tpl_parser *p);

tpl_node *tpl_new_node(tpl_parser *p, tpl_op op);
tpl_node *tpl_token_node(tpl_parser *p, tpl_op op); /* with the next token's text; consumes it */

/* tpl_at: true if the next token has this kind and text. tpl_take: also consumes it. */
int tpl_at(const tpl_parser *p, tpl_token_kind kind, const char *text);
int tpl_take(tpl_parser *p, tpl_token_kind kind, const char *text);
#define is_sign(p, text)   tpl_at(p, TPL_SIGN, text)
#define is_name(p, text)   tpl_at(p, TPL_NAME, text)
#define take_sign(p, text) tpl_take(p, TPL_SIGN, text)
#define take_name(p, text) tpl_take(p, TPL_NAME, text)
void tpl_demand(tpl_parser *p, const char *sign);
void tpl_demand_end(tpl_parser *p); /* of a tag */

tpl_node *tpl_expression(tpl_parser *p);
tpl_node *tpl_expressions(tpl_parser *p);           /* one, or several with commas (a tuple)       */
tpl_node *tpl_filtered(tpl_parser *p, tpl_node *n); /* n with the filters that follow, without the first |  */
tpl_node *tpl_condition(tpl_parser *p);             /* one without `a if b else c` */

/* Parses up to a tag whose name is in `ends`, and leaves p->token at that name; ends NULL: to the end of the text. */
tpl_node *tpl_blocks(tpl_parser *p, const char *const *ends);

#endif

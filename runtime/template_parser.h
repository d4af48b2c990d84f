/* The parser of chat templates, between template_parse.c, which has expressions, and template_blocks.c. */
#ifndef GDN_RUNTIME_TEMPLATE_PARSER_H
#define GDN_RUNTIME_TEMPLATE_PARSER_H

#include "runtime/template_internal.h"

typedef struct tpl_parser {
    tpl_arena *arena;
    const tpl_token *token; /* the next one */
    gdn_status status;
    int depth, loops;
} tpl_parser;

/* Fails, unless it has failed before; NULL. Everything returns at once after a failure. */
void *tpl_unexpected(tpl_parser *p, const char *what);
/* Deeper trees than TPL_DEPTH_MAX are nobody's templates, and would be too deep for the stack: 0 then. */
int tpl_deeper(tpl_parser *p);

tpl_node *tpl_new_node(tpl_parser *p, tpl_op op);
tpl_node *tpl_token_node(tpl_parser *p, tpl_op op); /* which has the next token's text, and takes it */

/* Is the next token this; is it, and it is taken. */
int tpl_at(const tpl_parser *p, tpl_token_kind kind, const char *text);
int tpl_take(tpl_parser *p, tpl_token_kind kind, const char *text);
#define is_sign(p, text)   tpl_at(p, TPL_SIGN, text)
#define is_name(p, text)   tpl_at(p, TPL_NAME, text)
#define take_sign(p, text) tpl_take(p, TPL_SIGN, text)
#define take_name(p, text) tpl_take(p, TPL_NAME, text)
void tpl_demand(tpl_parser *p, const char *sign);
void tpl_demand_end(tpl_parser *p); /* of a tag */

tpl_node *tpl_expression(tpl_parser *p);
tpl_node *tpl_expressions(tpl_parser *p); /* one, or several with commas: a tuple        */
tpl_node *tpl_condition(tpl_parser *p);   /* one without "if", which is something else here */

/* Up to a tag whose name is one of `ends`, with p->token at that name; or to the end of the text where ends is NULL. */
tpl_node *tpl_blocks(tpl_parser *p, const char *const *ends);

#endif

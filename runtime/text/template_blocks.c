/* Parses the statements of chat templates. See template_parser.h. */
#include "runtime/text/template_parser.h"

/* Consumes the tag that ends a block, after its name. */
static void end_tag(tpl_parser *p)
{
    if (!p->status) p->token++;
    tpl_demand_end(p);
}

/* Parses names separated by commas; with `attributes`, as for "set", they may be attributes. */
static tpl_node *targets(tpl_parser *p, int attributes)
{
    tpl_node *first = NULL, **last = &first;
    const int bracket = take_sign(p, "(");
    do {
        if (first && (is_name(p, "in") || is_sign(p, ")"))) break;
        if (p->status || p->token->kind != TPL_NAME) return tpl_unexpected(p, "a name is missing");
        tpl_node *n = tpl_token_node(p, TPL_LOOKUP);
        if (attributes && take_sign(p, ".")) {
            if (p->token->kind != TPL_NAME) return tpl_unexpected(p, "a name is missing");
            tpl_node *of = n;
            n = tpl_token_node(p, TPL_ATTRIBUTE);
            if (n) n->a = of;
        }
        if (!n) return NULL;
        *last = n;
        last = &n->next;
    } while (take_sign(p, ","));
    if (bracket) tpl_demand(p, ")");
    return first;
}

/* Sets the parts of a statement; NULL: no memory for the node. */
static tpl_node *with_parts(tpl_node *n, tpl_node *a, tpl_node *b, tpl_node *body, tpl_node *other)
{
    if (!n) return NULL;
    n->a = a;
    n->b = b;
    n->list = body;
    n->c = other;
    return n;
}

/* Parses a condition and its branch, after "if" or "elif". */
static tpl_node *branch(tpl_parser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    if (!tpl_deeper(p)) return NULL;
    tpl_node *n = tpl_new_node(p, TPL_IF);
    tpl_node *condition = tpl_expressions(p);
    tpl_demand_end(p);
    tpl_node *body = tpl_blocks(p, ends), *other = NULL;
    if (take_name(p, "elif")) {
        other = branch(p);
    } else {
        if (take_name(p, "else")) {
            tpl_demand_end(p);
            other = tpl_blocks(p, ends + 2);
        }
        end_tag(p);
    }
    p->depth--;
    return with_parts(n, condition, NULL, body, other);
}

static tpl_node *loop(tpl_parser *p)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    tpl_node *n = tpl_new_node(p, TPL_FOR), *names = targets(p, 0);
    if (!take_name(p, "in")) return tpl_unexpected(p, "an in is missing");
    tpl_node *items = tpl_condition(p); /* a following "if" filters the items */
    tpl_node *filter = take_name(p, "if") ? tpl_expression(p) : NULL, *other = NULL;
    if (is_name(p, "recursive")) return tpl_unexpected(p, "recursive loops are not known here");
    tpl_demand_end(p);
    p->loops++;
    tpl_node *body = tpl_blocks(p, ends);
    p->loops--;
    if (take_name(p, "else")) {
        tpl_demand_end(p);
        other = tpl_blocks(p, ends + 1);
    }
    if (p->status || !n) return NULL;
    end_tag(p);
    n->d = filter;
    return with_parts(n, items, names, body, other);
}

static tpl_node *setting(tpl_parser *p)
{
    static const char *const ends[] = { "endset", NULL };
    tpl_node *n = tpl_new_node(p, TPL_SET), *names = targets(p, 1), *value = NULL, *body = NULL;
    if (take_sign(p, "=")) {
        value = tpl_expressions(p);
        tpl_demand_end(p);
    } else {
        tpl_node *block = is_sign(p, "|") ? tpl_new_node(p, TPL_BLOCK) : NULL;
        if (take_sign(p, "|")) value = tpl_filtered(p, block);
        tpl_demand_end(p);
        const int outside = p->loops;
        p->loops = 0; /* break would leave the block, and nothing is set */
        body = tpl_blocks(p, ends);
        p->loops = outside;
        if (block) block->list = body;
        if (block) body = NULL;
        if (p->status) return NULL;
        end_tag(p);
        if (names && names->next) return tpl_unexpected(p, "a block is set to several names");
    }
    return with_parts(n, value, names, body, NULL);
}

static tpl_node *macro(tpl_parser *p)
{
    static const char *const ends[] = { "endmacro", NULL };
    if (p->status || p->token->kind != TPL_NAME) return tpl_unexpected(p, "a macro's name is missing");
    tpl_node *n = tpl_token_node(p, TPL_MACRO), *first = NULL, **last = &first;
    if (!take_sign(p, "(")) return tpl_unexpected(p, "a ( is missing");
    while (!p->status && !is_sign(p, ")")) {
        if (p->token->kind != TPL_NAME) return tpl_unexpected(p, "a name is missing");
        tpl_node *name = tpl_token_node(p, TPL_NAMED);
        tpl_node *by = take_sign(p, "=") ? tpl_expression(p) : NULL;
        if (!name) return NULL;
        name->a = by;
        *last = name;
        last = &name->next;
        if (!take_sign(p, ",")) break;
    }
    tpl_demand(p, ")");
    tpl_demand_end(p);
    const int outside = p->loops;
    p->loops = 0;
    tpl_node *body = tpl_blocks(p, ends);
    p->loops = outside;
    if (p->status || !n) return NULL;
    end_tag(p);
    return with_parts(n, NULL, first, body, NULL);
}

/* A block whose text goes through filters. */
static tpl_node *filter(tpl_parser *p)
{
    static const char *const ends[] = { "endfilter", NULL };
    tpl_node *n = tpl_new_node(p, TPL_PRINT), *block = tpl_new_node(p, TPL_BLOCK), *value = tpl_filtered(p, block);
    tpl_demand_end(p);
    const int outside = p->loops;
    p->loops = 0; /* break would leave the block */
    tpl_node *body = tpl_blocks(p, ends);
    p->loops = outside;
    if (p->status || !n || !block) return NULL;
    end_tag(p);
    block->list = body;
    n->a = value;
    return n;
}

static tpl_node *tag(tpl_parser *p)
{
    static const char *const ends[] = { "endgeneration", NULL };
    if (take_name(p, "if")) return branch(p);
    if (take_name(p, "for")) return loop(p);
    if (take_name(p, "set")) return setting(p);
    if (take_name(p, "macro")) return macro(p);
    if (take_name(p, "filter")) return filter(p);
    if (is_name(p, "break") || is_name(p, "continue")) {
        if (!p->loops) return tpl_unexpected(p, "this is for loops");
        tpl_node *n = tpl_token_node(p, is_name(p, "break") ? TPL_BREAK : TPL_CONTINUE);
        tpl_demand_end(p);
        return n;
    }
    if (!take_name(p, "generation")) return tpl_unexpected(p, "this tag is not known here");
    tpl_demand_end(p); /* marks the assistant's text for training: ignored */
    tpl_node *n = tpl_new_node(p, TPL_IF);
    tpl_node *body = tpl_blocks(p, ends), *truth = tpl_new_node(p, TPL_CONST_BOOL);
    if (p->status || !n || !truth) return NULL;
    end_tag(p);
    truth->number = 1;
    return with_parts(n, truth, NULL, body, NULL);
}

tpl_node *tpl_blocks(tpl_parser *p, const char *const *ends)
{
    tpl_node *first = NULL, **last = &first;
    if (!tpl_deeper(p)) return NULL;
    while (!p->status) {
        tpl_node *n = NULL;
        if (p->token->kind == TPL_EOF) {
            if (ends) (void)tpl_unexpected(p, "the end of a block is missing");
            break;
        }
        if (p->token->kind == TPL_DATA) {
            n = tpl_token_node(p, TPL_TEXT);
        } else if (p->token->kind == TPL_BEGIN_PRINT) {
            p->token++;
            n = tpl_new_node(p, TPL_PRINT);
            tpl_node *value = tpl_expressions(p);
            tpl_demand_end(p);
            if (n) n->a = value;
        } else {
            p->token++;
            const char *const *end = ends;
            while (end && *end && !is_name(p, *end)) end++;
            if (end && *end) break;
            n = tag(p);
        }
        if (!n) break;
        *last = n;
        last = &n->next;
    }
    p->depth--;
    return first;
}

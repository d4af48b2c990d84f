/* Parses the expressions of chat templates, with Jinja's grammar and precedence. See template_internal.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/text/template_parser.h"

void *tpl_unexpected(tpl_parser *p, const char *what)
{
    const tpl_token *t = p->token;
    if (p->status) return NULL;
    char text[256];
    if (t->kind == TPL_EOF) (void)snprintf(text, sizeof text, "it ends where %s", what);
    else (void)snprintf(text, sizeof text, "%s, at '%.*s'", what, TPL_SHOWN(t->text, t->n));
    p->status = tpl_fail(t->line, text);
    return NULL;
}

tpl_node *tpl_new_node(tpl_parser *p, tpl_op op)
{
    tpl_node *n = p->status ? NULL : tpl_new(p->arena, sizeof *n);
    if (!n) {
        p->status = p->status ? p->status : GDN_OUT_OF_MEMORY;
        return NULL;
    }
    n->op = op;
    n->line = p->token->line;
    return n;
}

tpl_node *tpl_token_node(tpl_parser *p, tpl_op op)
{
    tpl_node *n = tpl_new_node(p, op);
    if (!n) return NULL;
    n->text = p->token->text;
    n->n = p->token->n;
    n->number = p->token->number;
    p->token++;
    return n;
}

static tpl_node *around(tpl_parser *p, tpl_op op, tpl_node *a)
{
    tpl_node *n = tpl_new_node(p, op);
    if (n) n->a = a;
    return n;
}

int tpl_at(const tpl_parser *p, tpl_token_kind kind, const char *text)
{
    const tpl_token *t = p->token;
    return !p->status && t->kind == kind && t->n == strlen(text) && !memcmp(t->text, text, (size_t)t->n);
}

int tpl_take(tpl_parser *p, tpl_token_kind kind, const char *text)
{
    if (!tpl_at(p, kind, text)) return 0;
    p->token++;
    return 1;
}

void tpl_demand(tpl_parser *p, const char *text)
{
    char what[24];
    (void)snprintf(what, sizeof what, "a %s is missing", text);
    if (!take_sign(p, text)) (void)tpl_unexpected(p, what);
}

void tpl_demand_end(tpl_parser *p)
{
    if (p->status) return;
    if (p->token->kind != TPL_END) (void)tpl_unexpected(p, "the end of a tag is missing");
    else p->token++;
}

int tpl_deeper(tpl_parser *p)
{
    if (p->status) return 0;
    if (p->depth == TPL_DEPTH_MAX) return tpl_unexpected(p, "it is nested too deeply"), 0;
    p->depth++;
    return 1;
}

/* ---- Expressions ---- */

/* Parses expressions up to a closing sign and consumes it. `named`: arguments of a call, which may have names. */
static tpl_node *list_until(tpl_parser *p, const char *close, int named)
{
    tpl_node *first = NULL, **last = &first;
    while (!p->status && !is_sign(p, close)) {
        tpl_node *item = NULL;
        if (named && p->token->kind == TPL_NAME && p->token[1].kind == TPL_SIGN && p->token[1].n == 1 &&
            *p->token[1].text == '=') {
            item = tpl_token_node(p, TPL_NAMED);
            p->token++;
            tpl_node *value = tpl_expression(p);
            if (item) item->a = value;
        } else {
            item = tpl_expression(p);
        }
        if (!item) return NULL;
        *last = item;
        last = &item->next;
        if (!take_sign(p, ",")) break;
    }
    tpl_demand(p, close);
    return first;
}

static tpl_node *mapping(tpl_parser *p)
{
    tpl_node *n = tpl_new_node(p, TPL_DICT), **last = n ? &n->list : NULL;
    while (n && !p->status && !is_sign(p, "}")) {
        tpl_node *entry = tpl_new_node(p, TPL_NAMED);
        tpl_node *key = tpl_expression(p);
        tpl_demand(p, ":");
        tpl_node *value = tpl_expression(p);
        if (!entry || p->status) return NULL;
        entry->a = key;
        entry->b = value;
        *last = entry;
        last = &entry->next;
        if (!take_sign(p, ",")) break;
    }
    tpl_demand(p, "}");
    return n;
}

static tpl_node *parenthesis(tpl_parser *p)
{
    tpl_node *const first = is_sign(p, ")") ? NULL : tpl_expression(p);
    if (first && is_sign(p, ")")) {
        p->token++;
        return first;
    }
    tpl_node *n = tpl_new_node(p, TPL_LIST); /* a tuple */
    if (first) {
        if (!take_sign(p, ",")) return tpl_unexpected(p, "a ) is missing");
        first->next = list_until(p, ")", 0);
    } else {
        tpl_demand(p, ")");
    }
    if (n) n->list = first;
    return n;
}

static tpl_node *strings(tpl_parser *p)
{
    tpl_node *n = tpl_token_node(p, TPL_CONST_STRING);
    while (n && !p->status && p->token->kind == TPL_STRING) { /* adjacent strings are concatenated */
        char *joined = tpl_new(p->arena, n->n + p->token->n + 1);
        if (!joined) {
            p->status = GDN_OUT_OF_MEMORY;
            return NULL;
        }
        memcpy(joined, n->text, (size_t)n->n);
        memcpy(joined + n->n, p->token->text, (size_t)p->token->n);
        n->text = joined;
        n->n += p->token->n;
        p->token++;
    }
    return n;
}

static tpl_node *primary(tpl_parser *p)
{
    static const struct {
        const char *name;
        tpl_op op;
        int value;
    } constants[] = { { "true", TPL_CONST_BOOL, 1 },  { "True", TPL_CONST_BOOL, 1 }, { "false", TPL_CONST_BOOL, 0 },
                      { "False", TPL_CONST_BOOL, 0 }, { "none", TPL_CONST_NONE, 0 }, { "None", TPL_CONST_NONE, 0 } };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (is_name(p, constants[i].name)) {
            tpl_node *n = tpl_token_node(p, constants[i].op);
            if (n) n->number = constants[i].value;
            return n;
        }
    if (p->status) return NULL;
    if (p->token->kind == TPL_NAME) return tpl_token_node(p, TPL_LOOKUP);
    if (p->token->kind == TPL_NUMBER) return tpl_token_node(p, TPL_CONST_NUMBER);
    if (p->token->kind == TPL_STRING) return strings(p);
    if (take_sign(p, "(")) return parenthesis(p);
    if (take_sign(p, "{")) return mapping(p);
    if (!take_sign(p, "[")) return tpl_unexpected(p, "an expression is missing");
    tpl_node *n = tpl_new_node(p, TPL_LIST), *items = list_until(p, "]", 0);
    if (n) n->list = items;
    return n;
}

static tpl_node *subscript(tpl_parser *p, tpl_node *of)
{
    tpl_node *part[3] = { NULL, NULL, NULL };
    int colons = 0;
    while (!p->status && !is_sign(p, "]")) {
        if (take_sign(p, ":")) {
            if (++colons == 3) return tpl_unexpected(p, "a ] is missing");
        } else if (part[colons]) {
            return tpl_unexpected(p, "a ] is missing");
        } else {
            part[colons] = tpl_expression(p);
        }
    }
    tpl_demand(p, "]");
    tpl_node *n = around(p, colons ? TPL_SLICE : TPL_ITEM, of);
    if (!n) return NULL;
    if (!colons && !part[0]) return tpl_unexpected(p, "an index is missing");
    n->b = part[0];
    n->c = part[1];
    n->d = part[2];
    return n;
}

static tpl_node *call(tpl_parser *p, tpl_node *of)
{
    tpl_node *n = around(p, TPL_CALL, of);
    tpl_node *list = list_until(p, ")", 1);
    if (n) n->list = list;
    return n;
}

static tpl_node *postfix(tpl_parser *p, tpl_node *n)
{
    while (n && !p->status) {
        if (take_sign(p, ".")) {
            if (p->token->kind == TPL_NUMBER) { /* a.0 is a[0] */
                tpl_node *at = around(p, TPL_ITEM, n);
                if (at) at->b = tpl_token_node(p, TPL_CONST_NUMBER);
                n = at;
                continue;
            }
            if (p->token->kind != TPL_NAME) return tpl_unexpected(p, "a name is missing");
            tpl_node *of = n;
            n = tpl_token_node(p, TPL_ATTRIBUTE);
            if (n) n->a = of;
        } else if (take_sign(p, "[")) {
            n = subscript(p, n);
        } else if (take_sign(p, "(")) {
            n = call(p, n);
        } else {
            break;
        }
    }
    return n;
}

/* Parses the name of a filter or test, and its arguments. */
static tpl_node *applied(tpl_parser *p, tpl_op op, tpl_node *to)
{
    if (p->token->kind != TPL_NAME) return tpl_unexpected(p, "a name is missing");
    tpl_node *n = tpl_token_node(p, op);
    if (!n) return NULL;
    n->a = to;
    if (is_sign(p, ".")) return tpl_unexpected(p, "names with dots are not known here");
    if (take_sign(p, "(")) {
        n->list = list_until(p, ")", 1);
    } else if (op == TPL_TEST && !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and") && !is_name(p, "is") &&
               !is_name(p, "in") && !is_name(p, "not") && !is_name(p, "if") &&
               (p->token->kind == TPL_NAME || p->token->kind == TPL_STRING || p->token->kind == TPL_NUMBER ||
                is_sign(p, "[") || is_sign(p, "{"))) {
        n->list = postfix(p, primary(p)); /* "is divisibleby 3" */
    }
    return n;
}

static tpl_node *filters(tpl_parser *p, tpl_node *n)
{
    while (n && !p->status) {
        if (take_sign(p, "|")) {
            n = applied(p, TPL_FILTER, n);
        } else if (take_name(p, "is")) {
            const int negated = take_name(p, "not");
            n = applied(p, TPL_TEST, n);
            if (negated) n = around(p, TPL_NOT, n);
        } else if (take_sign(p, "(")) {
            n = call(p, n);
        } else {
            break;
        }
    }
    return n;
}

tpl_node *tpl_filtered(tpl_parser *p, tpl_node *n) { return filters(p, applied(p, TPL_FILTER, n)); }

static tpl_node *unary(tpl_parser *p, int with_filters)
{
    if (!tpl_deeper(p)) return NULL;
    tpl_node *n = NULL;
    if (take_sign(p, "-")) n = around(p, TPL_NEGATE, unary(p, 0));
    else if (is_sign(p, "+")) (void)tpl_unexpected(p, "this sign is not known here");
    else n = primary(p);
    n = postfix(p, n);
    p->depth--;
    return with_filters ? filters(p, n) : n;
}

/* Parses left-associative operators of one precedence: products, "~", sums. */
static tpl_node *binary(tpl_parser *p, int strength)
{
    static const char *const signs[3][5] = { { "*", "/", "//", "%", NULL }, { "~", NULL }, { "+", "-", NULL } };
    tpl_node *n = strength ? binary(p, strength - 1) : unary(p, 1);
    while (n && !p->status) {
        const char *const *s = signs[strength];
        while (*s && !is_sign(p, *s)) s++;
        if (!*s) break;
        tpl_node *with = tpl_token_node(p, TPL_BINARY);
        tpl_node *b = strength ? binary(p, strength - 1) : unary(p, 1);
        if (!with) return NULL;
        with->a = n;
        with->b = b;
        n = with;
    }
    if (is_sign(p, "**")) return tpl_unexpected(p, "this operator is not known here");
    return n;
}

static tpl_node *comparison(tpl_parser *p)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    tpl_node *n = binary(p, 2), *first = NULL, **last = &first;
    while (n && !p->status) {
        tpl_node *with = NULL;
        for (size_t i = 0; i < sizeof signs / sizeof *signs && !with; i++)
            if (is_sign(p, signs[i])) with = tpl_token_node(p, TPL_NAMED);
        if (!with && is_name(p, "in")) with = tpl_token_node(p, TPL_NAMED);
        if (!with && is_name(p, "not") && p->token[1].kind == TPL_NAME && p->token[1].n == 2 &&
            !memcmp(p->token[1].text, "in", 2)) {
            with = tpl_token_node(p, TPL_NAMED);
            p->token++;
        }
        if (!with) break;
        with->a = binary(p, 2);
        *last = with;
        last = &with->next;
    }
    tpl_node *all = first ? around(p, TPL_COMPARE, n) : NULL;
    if (all) all->list = first;
    return first ? all : n;
}

static tpl_node *negation(tpl_parser *p)
{
    if (!is_name(p, "not")) return comparison(p);
    if (!tpl_deeper(p)) return NULL;
    p->token++;
    tpl_node *n = around(p, TPL_NOT, negation(p));
    p->depth--;
    return n;
}

/* Parses "and" (strength 0) or "or". */
static tpl_node *logic(tpl_parser *p, int strength)
{
    tpl_node *n = strength ? logic(p, 0) : negation(p);
    while (n && take_name(p, strength ? "or" : "and")) {
        tpl_node *with = around(p, strength ? TPL_OR : TPL_AND, n);
        tpl_node *b = strength ? logic(p, 0) : negation(p);
        if (!with) return NULL;
        with->b = b;
        n = with;
    }
    return n;
}

tpl_node *tpl_condition(tpl_parser *p) { return logic(p, 1); }

tpl_node *tpl_expression(tpl_parser *p)
{
    if (!tpl_deeper(p)) return NULL;
    tpl_node *n = logic(p, 1);
    while (n && take_name(p, "if")) {
        tpl_node *choice = around(p, TPL_CHOOSE, n);
        tpl_node *b = logic(p, 1);
        tpl_node *c = take_name(p, "else") ? tpl_expression(p) : NULL;
        if (!choice) return NULL;
        choice->b = b;
        choice->c = c;
        n = choice;
    }
    p->depth--;
    return p->status ? NULL : n;
}

tpl_node *tpl_expressions(tpl_parser *p)
{
    tpl_node *n = tpl_expression(p);
    if (!n || !is_sign(p, ",")) return n;
    tpl_node *all = tpl_new_node(p, TPL_LIST), **last = &n->next;
    while (take_sign(p, ",") && p->token->kind != TPL_END) {
        tpl_node *item = tpl_expression(p);
        if (!item) return NULL;
        *last = item;
        last = &item->next;
    }
    if (all) all->list = n;
    return all;
}

gdn_status tpl_parse(tpl_arena *a, const char *text, uint64_t bytes, tpl_node **program)
{
    tpl_token *tokens = NULL;
    uint64_t count = 0;
    gdn_status status = tpl_lex(a, text, bytes, &tokens, &count);
    if (status) return status;
    tpl_parser p = { .arena = a, .token = tokens };
    *program = tpl_blocks(&p, NULL);
    return p.status;
}

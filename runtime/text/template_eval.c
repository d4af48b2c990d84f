/* Evaluates expressions of chat templates. See template_internal.h. */
#include <string.h>

#include "runtime/text/template_internal.h"

enum { RAISE = 1, NAMESPACE, RANGE, DATE }; /* global functions */

static tpl_value lookup(tpl_run *r, const tpl_scope *scope, tpl_text name)
{
    /* variables of transformers whose value is unknown here */
    static const char unknown[] =
        "eos_token unk_token pad_token sep_token cls_token mask_token additional_special_tokens "
        "caller varargs kwargs self dict lipsum cycler joiner super";
    static const char *const functions[] = { "raise_exception", "namespace", "range", "strftime_now" };
    tpl_value v = { .kind = TPL_UNDEFINED };
    for (; scope; scope = scope->parent) {
        const tpl_value *found = tpl_get(r, &scope->names, name);
        if (found) return *found;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (tpl_is(name, functions[i])) {
            v.kind = TPL_FUNCTION;
            v.of.number = (int64_t)i + RAISE;
            return v;
        }
    if (tpl_among(name, unknown))
        return tpl_refuse(r, "it asks for %.*s, which is not known here", TPL_SHOWN(name.text, name.n));
    return v;
}

static tpl_value list(tpl_run *r, tpl_scope *scope, const tpl_node *items)
{
    uint64_t n = 0;
    for (const tpl_node *i = items; i; i = i->next) n++;
    tpl_value all = tpl_list_of(r, n);
    n = 0;
    for (const tpl_node *i = items; i && !r->status; i = i->next) all.of.list.item[n++] = tpl_eval(r, scope, i);
    return all;
}

static tpl_value new_map(tpl_run *r, tpl_kind kind)
{
    tpl_value v = { .kind = kind };
    v.of.map = tpl_new(&r->arena, sizeof *v.of.map);
    if (!v.of.map) {
        r->status = r->status ? r->status : r->arena.status;
        v.kind = TPL_UNDEFINED;
    }
    return v;
}

static tpl_value mapping(tpl_run *r, tpl_scope *scope, const tpl_node *entries)
{
    tpl_value all = new_map(r, TPL_MAPPING);
    for (const tpl_node *e = entries; e && !r->status; e = e->next) {
        const tpl_value key = tpl_eval(r, scope, e->a), value = tpl_eval(r, scope, e->b);
        if (key.kind != TPL_CHARACTERS && key.kind != TPL_INTEGER)
            return tpl_refuse(r, "a key of a mapping is %s", tpl_kind_name(&key));
        tpl_put_of(r, all.of.map, &key, value);
    }
    return all;
}

static tpl_value item(tpl_run *r, const tpl_value *of, const tpl_value *index)
{
    const tpl_value undefined = { .kind = TPL_UNDEFINED };
    if (index->kind == TPL_CHARACTERS) return tpl_attribute(r, of, index->of.text, 1);
    if (of->kind == TPL_MAPPING && index->kind == TPL_INTEGER) {
        const tpl_value *found = tpl_get_of(r, of->of.map, index);
        return found ? *found : undefined;
    }
    if (of->kind == TPL_SEQUENCE && index->kind == TPL_INTEGER) {
        const int64_t n = (int64_t)of->of.list.n, i = index->of.number < 0 ? n + index->of.number : index->of.number;
        return i >= 0 && i < n ? of->of.list.item[i] : undefined;
    }
    if (of->kind == TPL_CHARACTERS && index->kind == TPL_INTEGER) {
        const tpl_text t = of->of.text;
        const int64_t n = (int64_t)tpl_count_characters(r, t),
                      i = index->of.number < 0 ? n + index->of.number : index->of.number;
        uint64_t at = 0;
        uint32_t code;
        if (i < 0 || i >= n) return undefined;
        for (int64_t k = 0; k < i; k++) at += (uint64_t)utf8_character(t.text + at, t.n - at, &code);
        tpl_value one = tpl_characters(tpl_part(t, at, at + (uint64_t)utf8_character(t.text + at, t.n - at, &code)));
        one.safe = of->safe;
        return one;
    }
    return tpl_refuse(r, "%s cannot be an index of %s here", tpl_kind_name(index), tpl_kind_name(of));
}

/* A bound of a slice, with Python's rules, clamped to [low, high]. */
static int64_t bound(const tpl_value *v, int64_t n, int64_t missing, int64_t low, int64_t high)
{
    if (v->kind != TPL_INTEGER) return missing;
    int64_t i = v->of.number;
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static tpl_value slice(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    const tpl_value none = { .kind = TPL_NONE };
    const tpl_value of = tpl_eval(r, scope, node->a), from = node->b ? tpl_eval(r, scope, node->b) : none,
                    to = node->c ? tpl_eval(r, scope, node->c) : none,
                    by = node->d ? tpl_eval(r, scope, node->d) : none;
    const tpl_value *bounds[] = { &from, &to, &by };
    for (int i = 0; i < 3; i++)
        if (bounds[i]->kind != TPL_NONE && bounds[i]->kind != TPL_INTEGER)
            return tpl_refuse(r, "a bound of a slice is %s", tpl_kind_name(bounds[i]));
    const int64_t step = by.kind == TPL_INTEGER ? by.of.number : 1;
    if (of.kind == TPL_CHARACTERS && step == 1) {
        const int64_t n = (int64_t)tpl_count_characters(r, of.of.text);
        const int64_t i = bound(&from, n, 0, 0, n), k = bound(&to, n, n, 0, n);
        uint64_t begin = 0, end = 0;
        uint32_t code;
        for (int64_t at = 0; at < k; at++) {
            if (at == i) begin = end;
            end += (uint64_t)utf8_character(of.of.text.text + end, of.of.text.n - end, &code);
        }
        tpl_value part = tpl_characters(tpl_part(of.of.text, i < k ? begin : end, end));
        part.safe = of.safe;
        return part;
    }
    if (of.kind != TPL_SEQUENCE || !step || step < -(INT64_C(1) << 32) || step > INT64_C(1) << 32)
        return tpl_refuse(r, "this slice of %s is not known here", tpl_kind_name(&of));
    const int64_t n = (int64_t)of.of.list.n, up = step > 0;
    const int64_t i = up ? bound(&from, n, 0, 0, n) : bound(&from, n, n - 1, -1, n - 1);
    const int64_t k = up ? bound(&to, n, n, 0, n) : bound(&to, n, -1, -1, n - 1);
    int64_t count = 0;
    for (int64_t at = i; up ? at < k : at > k; at += step) count++;
    tpl_value part = tpl_list_of(r, (uint64_t)count);
    for (int64_t m = 0; m < count && !r->status; m++) part.of.list.item[m] = of.of.list.item[i + m * step];
    return part;
}

static tpl_value arithmetic(tpl_run *r, tpl_text sign, int64_t a, int64_t b)
{
    int64_t done = 0;
    int bad = 0;
    switch (sign.n == 2 ? 'd' : sign.text[0]) {
    case '+': bad = __builtin_add_overflow(a, b, &done); break;
    case '-': bad = __builtin_sub_overflow(a, b, &done); break;
    case '*': bad = __builtin_mul_overflow(a, b, &done); break;
    case 'd':
    case '%': /* Python's % floors */
        if (!b || (b == -1 && a == INT64_MIN)) return tpl_refuse(r, "a division by %lld", (long long)b);
        done = sign.n == 2 ? a / b - (a % b != 0 && (a < 0) != (b < 0))
                           : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
        break;
    default: return tpl_refuse(r, "numbers with '%.*s' are not known here", TPL_SHOWN(sign.text, sign.n));
    }
    return bad ? tpl_refuse(r, "a number is too large") : tpl_integer(done);
}

static tpl_value binary(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    const tpl_text sign = tpl_text_of(node);
    const tpl_value a = tpl_eval(r, scope, node->a), b = tpl_eval(r, scope, node->b);
    if (r->status) return a;
    if (tpl_is(sign, "~")) {
        const tpl_text left = tpl_to_text(r, &a);
        return tpl_characters(tpl_join(r, left, tpl_to_text(r, &b)));
    }
    if (a.kind == TPL_INTEGER && b.kind == TPL_INTEGER) return arithmetic(r, sign, a.of.number, b.of.number);
    if (tpl_is(sign, "%") && a.kind == TPL_CHARACTERS && !a.safe && b.kind < TPL_SEQUENCE && b.kind != TPL_UNDEFINED)
        return tpl_format(r, a.of.text, &b, 1);
    if (tpl_is(sign, "+") && a.kind == TPL_CHARACTERS && b.kind == TPL_CHARACTERS) {
        const int safe = a.safe || b.safe;
        const tpl_text left = safe && !a.safe ? tpl_escape(r, a.of.text) : a.of.text;
        tpl_value sum = tpl_characters(tpl_join(r, left, safe && !b.safe ? tpl_escape(r, b.of.text) : b.of.text));
        sum.safe = safe;
        return sum;
    }
    if (tpl_is(sign, "+") && a.kind == TPL_SEQUENCE && b.kind == TPL_SEQUENCE) {
        tpl_value all = tpl_list_of(r, a.of.list.n + b.of.list.n);
        for (uint64_t i = 0; i < all.of.list.n; i++)
            all.of.list.item[i] = i < a.of.list.n ? a.of.list.item[i] : b.of.list.item[i - a.of.list.n];
        return all;
    }
    return tpl_refuse(r, "'%.*s' of %s and %s", TPL_SHOWN(sign.text, sign.n), tpl_kind_name(&a), tpl_kind_name(&b));
}

static tpl_value comparison(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value left = tpl_eval(r, scope, node->a);
    for (const tpl_node *o = node->list; o && !r->status; o = o->next) {
        const tpl_text sign = tpl_text_of(o);
        const tpl_value right = tpl_eval(r, scope, o->a);
        int good;
        if (r->status) break;
        if (tpl_is(sign, "==")) good = tpl_equal(r, &left, &right);
        else if (tpl_is(sign, "!=")) good = !tpl_equal(r, &left, &right);
        else if (tpl_is(sign, "in")) good = tpl_in(r, &left, &right);
        else if (tpl_is(sign, "not")) good = !tpl_in(r, &left, &right);
        else if (tpl_is(sign, "<")) good = tpl_order(r, &left, &right) < 0;
        else if (tpl_is(sign, "<=")) good = tpl_order(r, &left, &right) <= 0;
        else if (tpl_is(sign, ">")) good = tpl_order(r, &left, &right) > 0;
        else good = tpl_order(r, &left, &right) >= 0;
        if (!good) return tpl_bool(0);
        left = right;
    }
    return tpl_bool(1);
}

/* Evaluates the arguments of a call, filter or test. */
static void arguments_of(tpl_run *r, tpl_scope *scope, const tpl_node *nodes, tpl_arguments *a)
{
    a->n = 0;
    a->named = (tpl_map){ 0 };
    for (const tpl_node *n = nodes; n && !r->status; n = n->next) {
        if (n->op == TPL_NAMED) {
            tpl_put(r, &a->named, tpl_text_of(n), tpl_eval(r, scope, n->a));
        } else if (a->n == TPL_ARGUMENTS || a->named.n) {
            (void)tpl_refuse(r, "a call has more than %d arguments, or one without a name behind one with a name",
                             (int)TPL_ARGUMENTS);
        } else {
            a->value[a->n] = tpl_eval(r, scope, n);
            a->n++;
        }
    }
}

static tpl_value range(tpl_run *r, const tpl_arguments *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->value[i].kind != TPL_INTEGER || a->value[i].of.number > 1 << 20 || a->value[i].of.number < -(1 << 20))
            return tpl_refuse(r, "range of %s, or beyond 2^20, is not known here", tpl_kind_name(&a->value[i]));
    const int64_t from = a->n > 1 ? a->value[0].of.number : 0, to = a->n ? a->value[a->n > 1].of.number : 0;
    const int64_t step = a->n > 2 ? a->value[2].of.number : 1;
    if (a->n < 1 || a->n > 3 || a->named.n || !step) return tpl_refuse(r, "this range is not known here");
    int64_t count = 0;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) count++;
    tpl_value all = tpl_list_of(r, (uint64_t)count);
    for (int64_t i = 0; i < count && !r->status; i++) all.of.list.item[i] = tpl_integer(from + i * step);
    return all;
}

static tpl_value builtin(tpl_run *r, int64_t which, const tpl_arguments *a)
{
    if (which == RANGE) return range(r, a);
    if (which == DATE) return tpl_date(r, a);
    if (which == RAISE) {
        const tpl_text text = a->n ? tpl_to_text(r, &a->value[0]) : tpl_string("").of.text;
        return tpl_refuse(r, "it refuses this conversation: %.*s", TPL_SHOWN(text.text, text.n));
    }
    tpl_value space = new_map(r, TPL_NAMESPACE);
    if (a->n) return tpl_refuse(r, "a namespace of something without a name is not known here");
    for (const tpl_entry *e = a->named.first; e && !r->status; e = e->next)
        tpl_put_of(r, space.of.map, &e->key, *e->value);
    return space;
}

static tpl_value call_macro(tpl_run *r, const tpl_macro *m, const tpl_arguments *a)
{
    tpl_buffer written;
    int i = 0;
    uint64_t named = 0;
    tpl_value undefined = { .kind = TPL_UNDEFINED };
    tpl_scope *scope = tpl_new_scope(r, m->scope);
    if (!scope) return undefined;
    for (const tpl_node *p = m->node->b; p && !r->status; p = p->next, i++) {
        const tpl_value *given = tpl_get(r, &a->named, tpl_text_of(p));
        if (given && i < a->n) return tpl_refuse(r, "an argument is given twice");
        named += given != NULL;
        tpl_put(r, &scope->names, tpl_text_of(p),
                i < a->n ? a->value[i]
                : given  ? *given
                : p->a   ? tpl_eval(r, scope, p->a)
                         : undefined);
    }
    if (i < a->n || named < a->named.n)
        return tpl_refuse(r, "the macro %.*s does not take these arguments", TPL_SHOWN(m->node->text, m->node->n));
    tpl_buffer *const outside = tpl_begin(r, &written);
    tpl_statements(r, scope, m->node->list);
    return tpl_end(r, outside);
}

/* Calls a function or macro. */
static tpl_value call_of(tpl_run *r, const tpl_value *callee, const tpl_arguments *a)
{
    if (callee->kind == TPL_FUNCTION) return builtin(r, callee->of.number, a);
    if (callee->kind == TPL_MACRO_VALUE) return call_macro(r, callee->of.macro, a);
    return tpl_refuse(r, "%s is called", tpl_kind_name(callee));
}

static tpl_value call(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_arguments a;
    const int method = node->a->op == TPL_ATTRIBUTE;
    const tpl_value of = tpl_eval(r, scope, method ? node->a->a : node->a);
    arguments_of(r, scope, node->list, &a);
    if (r->status) return of;
    if (!method && of.kind == TPL_UNDEFINED && node->a->op == TPL_LOOKUP)
        return tpl_refuse(r, "the function %.*s is not known here", TPL_SHOWN(node->a->text, node->a->n));
    return method ? tpl_method(r, &of, tpl_text_of(node->a), &a) : call_of(r, &of, &a);
}

/* Applies a filter or test. */
static tpl_value applied(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_arguments a;
    const tpl_value of = tpl_eval(r, scope, node->a);
    arguments_of(r, scope, node->list, &a);
    if (r->status) return of;
    r->line = node->line;
    return node->op == TPL_FILTER ? tpl_filter(r, &of, tpl_text_of(node), &a)
                                  : tpl_bool(tpl_test(r, &of, tpl_text_of(node), &a));
}

static tpl_value eval(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value v = { .kind = TPL_UNDEFINED }, b;
    switch (node->op) {
    case TPL_CONST_STRING: return tpl_characters(tpl_text_of(node));
    case TPL_CONST_NUMBER: return tpl_integer(node->number);
    case TPL_CONST_BOOL: return tpl_bool((int)node->number);
    case TPL_CONST_NONE: v.kind = TPL_NONE; return v;
    case TPL_LOOKUP: return lookup(r, scope, tpl_text_of(node));
    case TPL_LIST: return list(r, scope, node->list);
    case TPL_DICT: return mapping(r, scope, node->list);
    case TPL_ATTRIBUTE:
        v = tpl_eval(r, scope, node->a);
        return r->status ? v : tpl_attribute(r, &v, tpl_text_of(node), 0);
    case TPL_ITEM:
        v = tpl_eval(r, scope, node->a);
        b = tpl_eval(r, scope, node->b);
        return r->status ? v : item(r, &v, &b);
    case TPL_SLICE: return slice(r, scope, node);
    case TPL_CALL: return call(r, scope, node);
    case TPL_FILTER:
    case TPL_TEST: return applied(r, scope, node);
    case TPL_NOT: v = tpl_eval(r, scope, node->a); return tpl_bool(!tpl_true(&v));
    case TPL_NEGATE:
        v = tpl_eval(r, scope, node->a);
        if (v.kind != TPL_INTEGER || v.of.number == INT64_MIN) return tpl_refuse(r, "minus %s", tpl_kind_name(&v));
        return tpl_integer(-v.of.number);
    case TPL_AND: v = tpl_eval(r, scope, node->a); return tpl_true(&v) ? tpl_eval(r, scope, node->b) : v;
    case TPL_OR: v = tpl_eval(r, scope, node->a); return tpl_true(&v) ? v : tpl_eval(r, scope, node->b);
    case TPL_CHOOSE:
        b = tpl_eval(r, scope, node->b);
        return tpl_true(&b) ? tpl_eval(r, scope, node->a) : node->c ? tpl_eval(r, scope, node->c) : v;
    case TPL_BINARY: return binary(r, scope, node);
    case TPL_COMPARE: return comparison(r, scope, node);
    case TPL_BLOCK: return tpl_written(r, scope, node->list);
    default: return tpl_refuse(r, "a statement stands where an expression is expected");
    }
}

tpl_value tpl_eval(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value v = { .kind = TPL_UNDEFINED };
    if (r->status) return v;
    r->line = node->line;
    if (r->depth == TPL_CALLS_MAX) return tpl_refuse(r, "it is nested too deeply");
    if (--r->steps < 0) return tpl_refuse(r, "it does not come to an end");
    r->depth++;
    v = eval(r, scope, node);
    r->depth--;
    return v;
}

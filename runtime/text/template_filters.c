/* Attributes, methods, filters and tests of chat templates. See template_internal.h. */
#include <string.h>

#include "runtime/text/template_internal.h"

/* ---- Attributes ---- */

static tpl_value loop_attribute(tpl_run *r, const tpl_loop *loop, tpl_text name)
{
    const int64_t index = (int64_t)loop->index, n = (int64_t)loop->items.n;
    tpl_value undefined = { .kind = TPL_UNDEFINED };
    if (tpl_is(name, "index")) return tpl_integer(index + 1);
    if (tpl_is(name, "index0")) return tpl_integer(index);
    if (tpl_is(name, "revindex")) return tpl_integer(n - index);
    if (tpl_is(name, "revindex0")) return tpl_integer(n - index - 1);
    if (tpl_is(name, "first")) return tpl_bool(!index);
    if (tpl_is(name, "last")) return tpl_bool(index + 1 == n);
    if (tpl_is(name, "length")) return tpl_integer(n);
    if (tpl_is(name, "previtem")) return index ? loop->items.item[index - 1] : undefined;
    if (tpl_is(name, "nextitem")) return index + 1 < n ? loop->items.item[index + 1] : undefined;
    return tpl_refuse(r, "loop.%.*s is not known here", TPL_SHOWN(name.text, name.n));
}

tpl_value tpl_attribute(tpl_run *r, const tpl_value *of, tpl_text name, int by_item)
{
    /* attribute names of Python's strings, lists and mappings; the methods are below */
    static const char python[] =
        "append capitalize casefold center clear copy count encode endswith expandtabs extend find format "
        "format_map fromkeys get index insert isalnum isalpha isascii isdecimal isdigit isidentifier islower "
        "isnumeric isprintable isspace istitle isupper items join keys ljust lower lstrip maketrans partition "
        "pop popitem removeprefix removesuffix remove replace reverse rfind rindex rjust rpartition rsplit "
        "rstrip setdefault sort split splitlines startswith strip swapcase title translate update upper "
        "values zfill real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes "
        "as_integer_ratio is_integer";
    const tpl_value undefined = { .kind = TPL_UNDEFINED };
    const tpl_value *found = NULL;
    switch (of->kind) {
    case TPL_UNDEFINED: return tpl_refuse(r, "'%.*s' is asked of something undefined", TPL_SHOWN(name.text, name.n));
    case TPL_LOOP: return loop_attribute(r, of->of.loop, name);
    case TPL_NAMESPACE:
    case TPL_MAPPING: found = tpl_get(r, of->of.map, name); break;
    default: break;
    }
    if (found && (by_item || of->kind == TPL_NAMESPACE)) return *found;
    if (of->kind != TPL_NAMESPACE && ((name.n && name.text[0] == '_') || tpl_among(name, python)))
        return tpl_refuse(r, "%.*s of %s is not known here", TPL_SHOWN(name.text, name.n), tpl_kind_name(of));
    if (of->kind == TPL_FUNCTION || of->kind == TPL_MACRO_VALUE)
        return tpl_refuse(r, "%.*s of %s is not known here", TPL_SHOWN(name.text, name.n), tpl_kind_name(of));
    return found ? *found : undefined;
}

/* ---- Methods ---- */

static int takes(tpl_run *r, const tpl_arguments *a, tpl_text name, int least, int most)
{
    if (a->n >= least && a->n <= most && !a->named.n) return 1;
    (void)tpl_refuse(r, "%.*s with %d arguments%s is not known here", TPL_SHOWN(name.text, name.n), a->n,
                     a->named.n ? " and names" : "");
    return 0;
}

static int all_of(const tpl_arguments *a, tpl_kind kind)
{
    for (int i = 0; i < a->n; i++)
        if (a->value[i].kind != kind) return 0;
    return 1;
}

static tpl_value split(tpl_run *r, tpl_text text, tpl_text by, int64_t most)
{
    uint64_t n = 1;
    if (!by.n) return tpl_refuse(r, "split by an empty string");
    for (uint64_t at = tpl_find(r, text, by, 0); at <= text.n && (most < 0 || n <= (uint64_t)most);
         at = tpl_find(r, text, by, at + by.n))
        n++;
    tpl_value parts = tpl_list_of(r, n);
    uint64_t from = 0;
    for (uint64_t i = 0; i < parts.of.list.n && !r->status; i++) {
        const uint64_t to = i + 1 < n ? tpl_find(r, text, by, from) : text.n;
        parts.of.list.item[i] = tpl_characters(tpl_part(text, from, to));
        from = to + by.n;
    }
    return parts;
}

static tpl_value replace(tpl_run *r, tpl_text text, tpl_text what, tpl_text by)
{
    tpl_buffer written;
    uint64_t from = 0;
    if (!what.n) return tpl_refuse(r, "an empty string is replaced");
    tpl_buffer *const outside = tpl_begin(r, &written);
    for (uint64_t at = tpl_find(r, text, what, 0); !r->status && at <= text.n; at = tpl_find(r, text, what, from)) {
        tpl_write(r, tpl_part(text, from, at));
        tpl_write(r, by);
        from = at + what.n;
    }
    tpl_write(r, tpl_part(text, from, text.n));
    return tpl_end(r, outside);
}

/* str.find(): places are counted in characters; -1: it is not there. */
static tpl_value find(tpl_run *r, tpl_text text, tpl_text what, int64_t from)
{
    const int64_t n = (int64_t)tpl_count_characters(r, text);
    uint64_t at = 0;
    uint32_t code;
    from = from < -n ? 0 : from < 0 ? from + n : from;
    if (from > n) return tpl_integer(-1);
    for (int64_t i = 0; i < from; i++) at += (uint64_t)utf8_character(text.text + at, text.n - at, &code);
    const uint64_t found = tpl_find(r, text, what, at);
    return tpl_integer(found > text.n ? -1 : (int64_t)tpl_count_characters(r, tpl_part(text, 0, found)));
}

static tpl_value string_method(tpl_run *r, tpl_text text, tpl_text name, const tpl_arguments *a)
{
    static const char *const strips[] = { "lstrip", "rstrip", "strip" };
    const tpl_value *const v = a->value;
    const tpl_value nothing = { .kind = TPL_UNDEFINED };
    for (int i = 0; i < 3; i++)
        if (tpl_is(name, strips[i])) {
            if (!takes(r, a, name, 0, 1) || !(all_of(a, TPL_CHARACTERS) || all_of(a, TPL_NONE))) break;
            return tpl_characters(
                tpl_strip(r, text, a->n && v[0].kind == TPL_CHARACTERS ? &v[0].of.text : NULL, i + 1));
        }
    if (tpl_is(name, "split") && takes(r, a, name, 1, 2) && v[0].kind == TPL_CHARACTERS &&
        (a->n == 1 || v[1].kind == TPL_INTEGER))
        return split(r, text, v[0].of.text, a->n == 2 ? v[1].of.number : -1);
    const int begins = tpl_is(name, "startswith");
    if ((begins || tpl_is(name, "endswith")) && takes(r, a, name, 1, 1) && all_of(a, TPL_CHARACTERS)) {
        const uint64_t n = v[0].of.text.n;
        return tpl_bool(
            n <= text.n && tpl_work(r, n / 16) &&
            tpl_same_text(begins ? tpl_part(text, 0, n) : tpl_part(text, text.n - n, text.n), v[0].of.text));
    }
    if (tpl_is(name, "find") && takes(r, a, name, 1, 2) && v[0].kind == TPL_CHARACTERS &&
        (a->n == 1 || v[1].kind == TPL_INTEGER))
        return find(r, text, v[0].of.text, a->n == 2 ? v[1].of.number : 0);
    if (tpl_is(name, "replace") && takes(r, a, name, 2, 2) && all_of(a, TPL_CHARACTERS))
        return replace(r, text, v[0].of.text, v[1].of.text);
    if (tpl_is(name, "format") && !a->named.n) return tpl_format_braces(r, text, v, a->n);
    if ((tpl_is(name, "upper") || tpl_is(name, "lower")) && takes(r, a, name, 0, 0))
        return tpl_change_case(r, text, tpl_is(name, "upper"));
    if (tpl_is(name, "capitalize") && takes(r, a, name, 0, 0) && (!text.n || (unsigned char)text.text[0] < 0x80)) {
        const tpl_value rest = tpl_change_case(r, tpl_part(text, text.n > 0, text.n), 0);
        const tpl_value first = tpl_change_case(r, tpl_part(text, 0, text.n > 0), 1);
        return r->status ? nothing : tpl_characters(tpl_join(r, first.of.text, rest.of.text));
    }
    if (r->status) return nothing;
    return tpl_refuse(r, "the method %.*s of a string, with these arguments, is not known here",
                      TPL_SHOWN(name.text, name.n));
}

/* 0: pairs, 1: keys, 2: values */
static tpl_value entries(tpl_run *r, const tpl_map *map, int which)
{
    tpl_value all = tpl_list_of(r, map->n);
    uint64_t i = 0;
    for (const tpl_entry *e = map->first; e && !r->status && i < all.of.list.n; e = e->next, i++) {
        const tpl_value key = e->key;
        if (which) {
            all.of.list.item[i] = which == 1 ? key : *e->value;
            continue;
        }
        tpl_value pair = tpl_list_of(r, 2);
        if (pair.of.list.n != 2) break;
        pair.of.list.item[0] = key;
        pair.of.list.item[1] = *e->value;
        all.of.list.item[i] = pair;
    }
    return all;
}

/* A method of a string, or the filter of its name. Those that escape their arguments in a safe string are refused. */
static tpl_value of_string(tpl_run *r, const tpl_value *of, tpl_text text, tpl_text name, const tpl_arguments *a)
{
    const int safe = of->kind == TPL_CHARACTERS && of->safe;
    if (safe && tpl_among(name, "split replace format"))
        return tpl_refuse(r, "%.*s of a string behind the filter safe is not known here", TPL_SHOWN(name.text, name.n));
    tpl_value made = string_method(r, text, name, a);
    made.safe = safe && made.kind == TPL_CHARACTERS;
    return made;
}

tpl_value tpl_method(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *a)
{
    static const char *const whole[] = { "items", "keys", "values" };
    const tpl_value none = { .kind = TPL_NONE };
    if (of->kind == TPL_CHARACTERS) return of_string(r, of, of->of.text, name, a);
    if (of->kind == TPL_MAPPING) {
        for (int i = 0; i < 3; i++)
            if (tpl_is(name, whole[i]) && takes(r, a, name, 0, 0)) return entries(r, of->of.map, i);
        if (tpl_is(name, "get") && takes(r, a, name, 1, 2) &&
            (a->value[0].kind == TPL_CHARACTERS || a->value[0].kind == TPL_INTEGER)) {
            const tpl_value *found = tpl_get_of(r, of->of.map, &a->value[0]);
            return found ? *found : a->n == 2 ? a->value[1] : none;
        }
    }
    return tpl_refuse(r, "the method %.*s of %s is not known here", TPL_SHOWN(name.text, name.n), tpl_kind_name(of));
}

/* ---- Filters ---- */

static uint64_t length(tpl_run *r, const tpl_value *of)
{
    switch (of->kind) {
    case TPL_UNDEFINED: return 0;
    case TPL_CHARACTERS: return tpl_count_characters(r, of->of.text);
    case TPL_SEQUENCE: return of->of.list.n;
    case TPL_MAPPING: return of->of.map->n;
    default: (void)tpl_refuse(r, "%s has no length", tpl_kind_name(of)); return 0;
    }
}

/* The filters selectattr, rejectattr, and map by attribute. */
static tpl_value by_attribute(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *a)
{
    static const tpl_text as = { "attribute", NULL, 9 };
    const int maps = tpl_is(name, "map"), keeps = tpl_is(name, "selectattr");
    const tpl_value *which = maps ? tpl_get(r, &a->named, as) : a->n ? &a->value[0] : NULL;
    const tpl_value nothing = { .kind = TPL_UNDEFINED };
    tpl_value done;
    if (!which || which->kind != TPL_CHARACTERS || (maps ? a->n || a->named.n != 1 : a->named.n != 0) ||
        tpl_find(r, which->of.text, tpl_string(".").of.text, 0) <= which->of.text.n)
        return tpl_refuse(r, "the filter %.*s with these arguments is not known here", TPL_SHOWN(name.text, name.n));
    done = tpl_list_of(r, of->of.list.n);
    if (r->status) return nothing;
    done.of.list.n = 0;
    for (uint64_t i = 0; !r->status && i < of->of.list.n; i++) {
        const tpl_value value = tpl_attribute(r, &of->of.list.item[i], which->of.text, 1);
        int good = tpl_true(&value);
        if (!maps && a->n > 1) {
            tpl_arguments rest = { .n = a->n - 2 };
            if (a->value[1].kind != TPL_CHARACTERS) return tpl_refuse(r, "a test has no name");
            for (int k = 0; k < rest.n; k++) rest.value[k] = a->value[k + 2];
            good = tpl_test(r, &value, a->value[1].of.text, &rest);
        }
        if (maps || good == keeps) done.of.list.item[done.of.list.n++] = maps ? value : of->of.list.item[i];
    }
    return done;
}

/* Compares as filters that sort do: letters of either case are equal. */
static int folded_order(tpl_run *r, const tpl_value *a, const tpl_value *b)
{
    if (a->kind != TPL_CHARACTERS || b->kind != TPL_CHARACTERS) return tpl_order(r, a, b);
    const tpl_value x = tpl_change_case(r, a->of.text, 0), y = tpl_change_case(r, b->of.text, 0);
    return r->status ? 0 : tpl_order(r, &x, &y);
}

/* The filter dictsort: pairs in the order of keys. */
static tpl_value sorted(tpl_run *r, const tpl_map *map)
{
    tpl_value all = entries(r, map, 0);
    for (uint64_t i = 1; !r->status && i < all.of.list.n; i++)
        for (uint64_t k = i; k && !r->status; k--) {
            tpl_value *const pair = &all.of.list.item[k], *const before = pair - 1;
            if (folded_order(r, &pair->of.list.item[0], &before->of.list.item[0]) >= 0 || !tpl_work(r, 4)) break;
            const tpl_value kept = *pair;
            *pair = *before;
            *before = kept;
        }
    return all;
}

/* The filters min and max: the first of equals. */
static tpl_value extreme(tpl_run *r, tpl_list list, int largest)
{
    const tpl_value nothing = { .kind = TPL_UNDEFINED };
    tpl_value best = list.n ? list.item[0] : nothing;
    for (uint64_t i = 1; i < list.n && tpl_work(r, 4); i++) {
        const int order = folded_order(r, &list.item[i], &best);
        if (largest ? order > 0 : order < 0) best = list.item[i];
    }
    return best;
}

static tpl_value join(tpl_run *r, const tpl_value *of, const tpl_arguments *a)
{
    tpl_buffer written;
    const tpl_text between = a->n ? tpl_to_text(r, &a->value[0]) : tpl_string("").of.text;
    tpl_buffer *const outside = tpl_begin(r, &written);
    for (uint64_t i = 0; tpl_work(r, 4) && i < of->of.list.n; i++) {
        if (i) tpl_write(r, between);
        tpl_write(r, tpl_to_text(r, &of->of.list.item[i]));
    }
    return tpl_end(r, outside);
}

static tpl_value reversed(tpl_run *r, tpl_list list)
{
    tpl_value back = tpl_list_of(r, list.n);
    for (uint64_t i = 0; i < back.of.list.n; i++) back.of.list.item[i] = list.item[list.n - 1 - i];
    return back;
}

static tpl_value list_filter(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *a)
{
    const tpl_list list = of->of.list;
    const tpl_value nothing = { .kind = TPL_UNDEFINED };
    if (tpl_among(name, "selectattr rejectattr map")) return by_attribute(r, of, name, a);
    if (tpl_is(name, "join")) return takes(r, a, name, 0, 1) ? join(r, of, a) : nothing;
    if (!takes(r, a, name, 0, 0)) return nothing;
    if (tpl_is(name, "first")) return list.n ? list.item[0] : nothing;
    if (tpl_is(name, "last")) return list.n ? list.item[list.n - 1] : nothing;
    if (tpl_is(name, "reverse")) return reversed(r, list);
    if (tpl_is(name, "min") || tpl_is(name, "max")) return extreme(r, list, tpl_is(name, "max"));
    if (tpl_is(name, "list")) return *of;
    return tpl_refuse(r, "the filter %.*s is not known here", TPL_SHOWN(name.text, name.n));
}

/* The filter tojson of transformers: ensure_ascii=false, which is its default, and indent may be given. */
static tpl_value json(tpl_run *r, const tpl_value *of, const tpl_arguments *a)
{
    const tpl_value *const ascii = tpl_get(r, &a->named, tpl_string("ensure_ascii").of.text);
    const tpl_value *const indent = tpl_get(r, &a->named, tpl_string("indent").of.text);
    const int64_t by = indent && indent->kind == TPL_INTEGER ? indent->of.number : -1;
    if (a->n || a->named.n != (uint64_t) !!ascii + !!indent || (ascii && tpl_true(ascii)) || by > 100 ||
        (indent && by < 0 && indent->kind != TPL_NONE))
        return tpl_refuse(r, "the filter tojson with these arguments is not known here");
    return tpl_to_json(r, of, by);
}

tpl_value tpl_filter(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *a)
{
    const tpl_value *const v = a->value;
    if ((tpl_is(name, "length") || tpl_is(name, "count")) && takes(r, a, name, 0, 0))
        return tpl_integer((int64_t)length(r, of));
    if ((tpl_is(name, "default") || tpl_is(name, "d")) && takes(r, a, name, 1, 2)) {
        const int falls = of->kind == TPL_UNDEFINED || (a->n == 2 && tpl_true(&v[1]) && !tpl_true(of));
        return falls ? v[0] : *of;
    }
    if (of->kind == TPL_MAPPING && tpl_is(name, "items") && takes(r, a, name, 0, 0)) return entries(r, of->of.map, 0);
    if (of->kind == TPL_MAPPING && tpl_is(name, "dictsort") && takes(r, a, name, 0, 0)) return sorted(r, of->of.map);
    if (tpl_is(name, "int") && takes(r, a, name, 0, 1)) {
        const tpl_value zero = tpl_integer(0);
        return tpl_to_whole(r, of, a->n ? &v[0] : &zero);
    }
    if (tpl_is(name, "tojson")) return json(r, of, a);
    if (tpl_is(name, "safe") && of->kind == TPL_CHARACTERS && takes(r, a, name, 0, 0)) {
        tpl_value safe = *of;
        safe.safe = 1;
        return safe;
    }
    if (tpl_is(name, "string") && of->kind >= TPL_NONE && of->kind <= TPL_DECIMAL && takes(r, a, name, 0, 0))
        return tpl_characters(tpl_to_text(r, of));
    if (tpl_is(name, "string") && (of->kind == TPL_SEQUENCE || of->kind == TPL_MAPPING) && takes(r, a, name, 0, 0))
        return tpl_to_python(r, of);
    if (tpl_is(name, "format") && of->kind == TPL_CHARACTERS && !of->safe && !a->named.n)
        return tpl_format(r, of->of.text, v, a->n);
    if ((of->kind == TPL_NONE || of->kind == TPL_UNDEFINED) && tpl_among(name, "selectattr rejectattr map"))
        return tpl_list_of(r, 0);
    if (of->kind == TPL_SEQUENCE && !tpl_is(name, "string")) return list_filter(r, of, name, a);
    if (!r->status && tpl_among(name, "trim string upper lower capitalize replace") &&
        (of->kind == TPL_CHARACTERS || of->kind == TPL_UNDEFINED || of->kind == TPL_INTEGER)) {
        const tpl_text text = tpl_to_text(r, of);
        tpl_value string = tpl_characters(text);
        string.safe = of->kind == TPL_CHARACTERS && of->safe;
        if (tpl_is(name, "trim")) return of_string(r, of, text, tpl_string("strip").of.text, a);
        if (tpl_is(name, "replace")) return string_method(r, text, name, a); /* this filter makes no Markup */
        if (!tpl_is(name, "string")) return of_string(r, of, text, name, a);
        if (takes(r, a, name, 0, 0)) return string;
    }
    return tpl_refuse(r, "the filter %.*s of %s is not known here", TPL_SHOWN(name.text, name.n), tpl_kind_name(of));
}

/* ---- Tests ---- */

int tpl_test(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *a)
{
    const tpl_kind k = of->kind;
    const int equals = tpl_among(name, "equalto eq ==");
    if (equals || tpl_among(name, "ne !=")) return takes(r, a, name, 1, 1) && tpl_equal(r, of, &a->value[0]) == equals;
    if (tpl_is(name, "in")) return takes(r, a, name, 1, 1) && tpl_in(r, of, &a->value[0]);
    if (!takes(r, a, name, 0, 0)) return 0;
    if (tpl_is(name, "defined")) return k != TPL_UNDEFINED;
    if (tpl_is(name, "undefined")) return k == TPL_UNDEFINED;
    if (tpl_is(name, "none")) return k == TPL_NONE;
    if (tpl_is(name, "string")) return k == TPL_CHARACTERS;
    if (tpl_is(name, "boolean")) return k == TPL_BOOL;
    if (tpl_is(name, "integer")) return k == TPL_INTEGER;
    if (tpl_is(name, "number")) return k == TPL_INTEGER || k == TPL_DECIMAL || k == TPL_BOOL;
    if (tpl_is(name, "true")) return k == TPL_BOOL && of->of.number;
    if (tpl_is(name, "false")) return k == TPL_BOOL && !of->of.number;
    if (k <= TPL_MAPPING) {
        if (tpl_is(name, "mapping")) return k == TPL_MAPPING;
        if (tpl_is(name, "iterable") || tpl_is(name, "sequence"))
            return k == TPL_CHARACTERS || k == TPL_SEQUENCE || k == TPL_MAPPING || k == TPL_UNDEFINED;
    }
    if (k == TPL_INTEGER && tpl_is(name, "odd")) return of->of.number % 2 != 0;
    if (k == TPL_INTEGER && tpl_is(name, "even")) return of->of.number % 2 == 0;
    (void)tpl_refuse(r, "the test %.*s of %s is not known here", TPL_SHOWN(name.text, name.n), tpl_kind_name(of));
    return 0;
}

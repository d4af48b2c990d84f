/* Compiles a JSON schema to rules. See schema_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/schema/schema_internal.h"

enum { NESTED_SCHEMAS = 500, COMPARED = 10000 }; /* COMPARED: most pairs of rules for one oneOf */

/* ---- Messages ---- */

/* Writes the path of a node, as #/properties/a. */
static int path_of(const compiler *c, int32_t at, char *to, int room)
{
    const json_node *const node = &c->json.node[at];
    if (node->parent < 0) return snprintf(to, (size_t)room, "#");
    int n = path_of(c, node->parent, to, room), index = 0;
    if (n >= room - 1) return n;
    for (int32_t i = c->json.node[node->parent].child; i != at && i >= 0; i = c->json.node[i].next) index++;
    if (node->key.text) return n + snprintf(to + n, (size_t)(room - n), "/%.*s", (int)node->key.bytes, node->key.text);
    return n + snprintf(to + n, (size_t)(room - n), "/%d", index);
}

int32_t schema_refuse(compiler *c, gdn_status status, int32_t node, const char *why)
{
    char path[200];
    (void)path_of(c, node, path, (int)sizeof path);
    if (!c->status) c->status = rt_fail(status, "the schema: %s %s", path, why);
    return 0;
}

/* ---- Rules ---- */

int32_t schema_add_rule(compiler *c, rule_kind kind, int32_t node)
{
    c->schema->rule[c->schema->n_rules] = (rule){ .kind = kind, .more = -1, .node = node, .most = INT64_MAX };
    return c->schema->n_rules++;
}

rule_part *schema_add_parts(compiler *c, int32_t of, int32_t n)
{
    c->schema->rule[of].part = c->schema->n_parts;
    c->schema->rule[of].n = n;
    c->schema->n_parts += n;
    return c->schema->part + c->schema->rule[of].part;
}

rt_string schema_add_text(compiler *c, char *end)
{
    const rt_string text = { c->end, (uint64_t)(end - c->end) };
    c->end = end;
    return text;
}

/* The rules of any value. */
static void add_any(compiler *c)
{
    static const rule_kind kinds[RULES_OF_ANY] = { RULE_UNION,    RULE_STRING, RULE_NUMBER,
                                                   RULE_LITERALS, RULE_OBJECT, RULE_ARRAY };
    static const char *const words[] = { "true", "false", "null" };
    for (int32_t i = 0; i < RULES_OF_ANY; i++) (void)schema_add_rule(c, kinds[i], 0);
    rule_part *part = schema_add_parts(c, RULE_ANY, RULES_OF_ANY - 1);
    for (int32_t i = 1; i < RULES_OF_ANY; i++) part[i - 1].rule = i;
    part = schema_add_parts(c, 3, 3);
    for (int i = 0; i < 3; i++) part[i].text = (rt_string){ words[i], strlen(words[i]) };
    c->schema->rule[4].more = c->schema->rule[5].more = RULE_ANY;
}

/* A number of characters, items, or a bound of an integer. */
static void bound(compiler *c, int32_t node, const char *keyword, int64_t low, int64_t add, int64_t *to)
{
    const int32_t at = json_member(&c->json, node, keyword);
    if (at < 0) return;
    const json_node *const value = &c->json.node[at];
    char digits[32] = "";
    if (value->kind == JSON_NUMBER && value->text.bytes < 20)
        memcpy(digits, value->text.text, (size_t)value->text.bytes);
    char *end = digits;
    const long long number = strtoll(digits, &end, 10);
    if (!digits[0] || *end || number < low || number > RULE_LARGEST)
        (void)schema_refuse(c, GDN_UNSUPPORTED, at, "is not supported: only whole numbers of at most 18 digits are");
    else *to = number + add;
}

static void bounds(compiler *c, int32_t node, const char *least, const char *most, rule *r)
{
    bound(c, node, least, 0, 0, &r->least);
    bound(c, node, most, 0, 0, &r->most);
}

static int is_required(compiler *c, int32_t list, rt_string name)
{
    int32_t at = list < 0 ? -1 : c->json.node[list].child;
    for (; at >= 0; at = c->json.node[at].next) {
        const json_node *const value = &c->json.node[at];
        if (value->text.bytes == name.bytes && !memcmp(value->text.text, name.text, (size_t)name.bytes)) return 1;
    }
    return 0;
}

/* The rule of further items or properties: a schema, true, or false. */
static int32_t compile_more(compiler *c, int32_t at, int otherwise)
{
    if (at < 0) return otherwise ? RULE_ANY : -1;
    return c->json.node[at].kind == JSON_FALSE ? -1 : schema_rule(c, at);
}

static int32_t count(const compiler *c, int32_t of) { return of < 0 ? 0 : c->json.node[of].n; }

static void compile_object(compiler *c, int32_t node, int32_t of)
{
    const int32_t all = json_member(&c->json, node, "properties"), list = json_member(&c->json, node, "required");
    const int32_t n = count(c, all);
    rule_part *const part = schema_add_parts(c, of, n);
    int32_t at = all < 0 ? -1 : c->json.node[all].child, found = 0;
    if (all >= 0 && c->json.node[all].kind != JSON_OBJECT)
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, all, "is not an object");
    if (list >= 0 && c->json.node[list].kind != JSON_LIST)
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, list, "is not a list");
    for (int32_t i = 0; !c->status && i < n; i++, at = c->json.node[at].next) {
        const rt_string name = c->json.node[at].key;
        part[i].required = is_required(c, list, name);
        part[i].text = schema_add_text(c, json_write_string(name, c->end));
        found += part[i].required;
        part[i].rule = schema_rule(c, at);
    }
    for (int32_t i = 0; !c->status && i < n; i++)
        for (int32_t j = 0; j < i; j++)
            if (part[i].text.bytes == part[j].text.bytes &&
                !memcmp(part[i].text.text, part[j].text.text, (size_t)part[i].text.bytes))
                (void)schema_refuse(c, GDN_INVALID_ARGUMENT, all, "has a name twice");
    if (!c->status && found < count(c, list))
        (void)schema_refuse(c, GDN_UNSUPPORTED, list,
                            "is not supported: it names a property that properties does not have, or one twice");
    const int32_t more = compile_more(c, json_member(&c->json, node, "additionalProperties"), all < 0);
    c->schema->rule[of].more = more;
}

static void compile_array(compiler *c, int32_t node, int32_t of)
{
    const int32_t all = json_member(&c->json, node, "prefixItems"), n = count(c, all);
    rule_part *const part = schema_add_parts(c, of, n);
    int32_t at = all < 0 ? -1 : c->json.node[all].child;
    if (all >= 0 && c->json.node[all].kind != JSON_LIST)
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, all, "is not a list");
    for (int32_t i = 0; !c->status && i < n; i++, at = c->json.node[at].next) part[i].rule = schema_rule(c, at);
    const int32_t more = compile_more(c, json_member(&c->json, node, "items"), 1);
    rule *const r = &c->schema->rule[of];
    r->more = more;
    bounds(c, node, "minItems", "maxItems", r);
    if (more < 0 && r->most > n) r->most = n;
    if (!c->status && r->least > r->most)
        (void)schema_refuse(c, GDN_UNSUPPORTED, node, "has no valid value: minItems is too large");
}

static void compile_integer(compiler *c, int32_t node, rule *r)
{
    int64_t above = -RULE_LARGEST, below = RULE_LARGEST;
    r->least = above;
    r->most = below;
    bound(c, node, "minimum", -RULE_LARGEST, 0, &r->least);
    bound(c, node, "maximum", -RULE_LARGEST, 0, &r->most);
    bound(c, node, "exclusiveMinimum", -RULE_LARGEST, 1, &above);
    bound(c, node, "exclusiveMaximum", -RULE_LARGEST, -1, &below);
    r->least = above > r->least ? above : r->least;
    r->most = below < r->most ? below : r->most;
    if (!c->status && r->least > r->most)
        (void)schema_refuse(c, GDN_UNSUPPORTED, node, "has no valid value: minimum is above maximum");
}

static void compile_type(compiler *c, int32_t node, int32_t at, rt_string type, int32_t of)
{
    static const char *const names[] = { "string", "integer", "number", "array", "object", "boolean", "null" };
    static const char *const limits[] = { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" };
    int i = 0;
    while (i < 7 && !json_is(type, names[i])) i++;
    rule *const r = &c->schema->rule[of];
    if (i == 7) (void)schema_refuse(c, GDN_INVALID_ARGUMENT, at, "is not the name of a type");
    r->kind = i < 5 ? (rule_kind)(RULE_STRING + i) : RULE_LITERALS;
    if (i == 0) bounds(c, node, "minLength", "maxLength", r);
    if (i == 0 && !c->status && r->least > r->most)
        (void)schema_refuse(c, GDN_UNSUPPORTED, node, "has no valid value: minLength is above maxLength");
    if (i == 1) compile_integer(c, node, r);
    for (int k = 0; i == 2 && k < 4; k++)
        if (json_member(&c->json, node, limits[k]) >= 0)
            (void)schema_refuse(c, GDN_UNSUPPORTED, json_member(&c->json, node, limits[k]),
                                "is not supported for numbers, only for integers");
    if (i == 3) compile_array(c, node, of);
    if (i == 4) compile_object(c, node, of);
    if (i < 5) return;
    r->n = i == 5 ? 2 : 1; /* those of any value: true, false, null */
    r->part = c->schema->rule[3].part + (i == 5 ? 0 : 2);
}

/* A schema with type: a name or a list of names. Without type the keywords tell it. */
static void compile_types(compiler *c, int32_t node, int32_t of)
{
    const int32_t at = json_member(&c->json, node, "type");
    static const char *const by_keyword[][2] = { { "properties", "object" },
                                                 { "required", "object" },
                                                 { "additionalProperties", "object" },
                                                 { "items", "array" },
                                                 { "prefixItems", "array" },
                                                 { "minItems", "array" },
                                                 { "maxItems", "array" },
                                                 { "minLength", "string" },
                                                 { "maxLength", "string" },
                                                 { "minimum", "integer" },
                                                 { "maximum", "integer" },
                                                 { "exclusiveMinimum", "integer" },
                                                 { "exclusiveMaximum", "integer" } };
    for (size_t i = 0; at < 0 && i < sizeof by_keyword / sizeof by_keyword[0]; i++)
        if (json_member(&c->json, node, by_keyword[i][0]) >= 0) {
            const char *const name = by_keyword[i][1];
            compile_type(c, node, node, (rt_string){ name, strlen(name) }, of);
            return;
        }
    const json_node *const type = at < 0 ? NULL : &c->json.node[at];
    c->schema->rule[of].kind = RULE_UNION;
    if (!type) schema_add_parts(c, of, 1)->rule = RULE_ANY;
    else if (type->kind == JSON_STRING) compile_type(c, node, at, type->text, of);
    else if (type->kind != JSON_LIST || !type->n) (void)schema_refuse(c, GDN_INVALID_ARGUMENT, at, "is not a type");
    else {
        rule_part *part = schema_add_parts(c, of, type->n);
        for (int32_t i = type->child; !c->status && i >= 0; i = c->json.node[i].next, part++) {
            part->rule = schema_add_rule(c, RULE_UNION, node);
            compile_type(c, node, i, c->json.node[i].text, part->rule);
        }
    }
}

/* True if a value has the type; `type` is a node of the schema, or -1. */
static int has_type(const compiler *c, int32_t value, int32_t type)
{
    static const char *const names[] = { "null", "boolean", "boolean", "number", "string", "array", "object" };
    if (type < 0) return 1;
    const json_node *const t = &c->json.node[type], *const v = &c->json.node[value];
    if (t->kind == JSON_LIST) {
        for (int32_t i = t->child; i >= 0; i = c->json.node[i].next)
            if (has_type(c, value, i)) return 1;
        return 0;
    }
    if (json_is(t->text, "integer")) {
        int whole = v->kind == JSON_NUMBER;
        for (uint64_t i = 0; whole && i < v->text.bytes; i++) whole = !strchr(".eE", v->text.text[i]);
        return whole;
    }
    return json_is(t->text, names[v->kind]);
}

/* const, or enum: the values that have the type. */
static void compile_literals(compiler *c, int32_t node, int32_t at, int is_list, int32_t of)
{
    const int32_t type = json_member(&c->json, node, "type");
    if (is_list && c->json.node[at].kind != JSON_LIST) {
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, at, "is not a list");
        return;
    }
    rule_part *const part = schema_add_parts(c, of, is_list ? c->json.node[at].n : 1);
    rule *const r = &c->schema->rule[of];
    r->kind = RULE_LITERALS;
    r->n = 0;
    for (int32_t value = is_list ? c->json.node[at].child : at; value >= 0;
         value = is_list ? c->json.node[value].next : -1)
        if (has_type(c, value, type)) part[r->n++].text = schema_add_text(c, json_write(&c->json, value, c->end));
}

/* ---- oneOf ---- */

const rule *schema_plain(const rt_schema *s, int32_t at)
{
    while (s->rule[at].kind == RULE_UNION && s->rule[at].n == 1 && s->part[s->rule[at].part].rule != at)
        at = s->part[s->rule[at].part].rule;
    return &s->rule[at];
}

/* The kind of value that a literal is. */
static rule_kind kind_of(rt_string text)
{
    const char c = text.text[0];
    return c == '"'           ? RULE_STRING
           : c == '['         ? RULE_ARRAY
           : c == '{'         ? RULE_OBJECT
           : strchr("tfn", c) ? RULE_LITERALS
                              : RULE_NUMBER;
}

static int literals_meet(const rt_schema *s, const rule *a, const rule *b)
{
    for (int32_t i = 0; i < a->n; i++) {
        const rt_string x = s->part[a->part + i].text;
        const rule_kind kind = kind_of(x);
        if (b->kind == kind || (b->kind == RULE_INTEGER && kind == RULE_NUMBER)) return 1;
        for (int32_t j = 0; b->kind == RULE_LITERALS && j < b->n; j++) {
            const rt_string y = s->part[b->part + j].text;
            /* numbers and compound values are equal in several forms */
            if (kind_of(y) == kind && kind != RULE_STRING && kind != RULE_LITERALS) return 1;
            if (x.bytes == y.bytes && !memcmp(x.text, y.text, (size_t)x.bytes)) return 1;
        }
    }
    return 0;
}

/* False if a property that both objects require has different constants. */
static int objects_meet(const rt_schema *s, const rule *a, const rule *b)
{
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t j = 0; j < b->n; j++) {
            const rule_part *const x = &s->part[a->part + i], *const y = &s->part[b->part + j];
            if (!x->required || !y->required || x->text.bytes != y->text.bytes ||
                memcmp(x->text.text, y->text.text, (size_t)x->text.bytes) != 0)
                continue;
            const rule *const v = schema_plain(s, x->rule), *const w = schema_plain(s, y->rule);
            if (v->kind == RULE_LITERALS && w->kind == RULE_LITERALS && !literals_meet(s, v, w)) return 0;
        }
    return 1;
}

/* 1: a value may be valid under both. */
static int rules_meet(const rt_schema *s, int32_t one, int32_t other, int *left)
{
    const rule *a = schema_plain(s, one), *b = schema_plain(s, other);
    if (--*left < 0) return 1;
    if (a->kind != RULE_UNION && b->kind == RULE_UNION) return rules_meet(s, other, one, left);
    for (int32_t i = 0; a->kind == RULE_UNION && i < a->n; i++)
        if (rules_meet(s, s->part[a->part + i].rule, other, left)) return 1;
    if (a->kind == RULE_UNION) return 0;
    if (a->kind == RULE_LITERALS) return literals_meet(s, a, b);
    if (b->kind == RULE_LITERALS) return literals_meet(s, b, a);
    if (a->kind == RULE_OBJECT && b->kind == RULE_OBJECT) return objects_meet(s, a, b);
    const int numbers =
        a->kind <= RULE_NUMBER && a->kind >= RULE_INTEGER && b->kind <= RULE_NUMBER && b->kind >= RULE_INTEGER;
    return a->kind == b->kind || numbers;
}

static void check_exclusive(compiler *c, int32_t at, int32_t of)
{
    const rule *const r = &c->schema->rule[of];
    int left = COMPARED;
    for (int32_t i = 0; !c->status && i < r->n; i++)
        for (int32_t j = 0; !c->status && j < i; j++)
            if (rules_meet(c->schema, c->schema->part[r->part + i].rule, c->schema->part[r->part + j].rule, &left))
                (void)schema_refuse(c, GDN_UNSUPPORTED, at,
                                    "is not supported where two alternatives may be valid at once; anyOf is");
}

/* ---- A schema ---- */

static void compile_alternatives(compiler *c, int32_t at, int32_t of)
{
    const json_node *const list = &c->json.node[at];
    if (list->kind != JSON_LIST || !list->n) {
        (void)schema_refuse(c, GDN_INVALID_ARGUMENT, at, "is not a list of schemas");
        return;
    }
    if (list->n > SCHEMA_TOPS)
        (void)schema_refuse(c, GDN_UNSUPPORTED, at, "is not supported with more than 16 alternatives");
    rule_part *part = schema_add_parts(c, of, list->n);
    for (int32_t i = list->child; !c->status && i >= 0; i = c->json.node[i].next, part++)
        part->rule = schema_rule(c, i);
}

/* The schema that $ref names: #, #/$defs/NAME or #/definitions/NAME. */
static void compile_reference(compiler *c, int32_t at, int32_t of)
{
    const rt_string to = c->json.node[at].text;
    static const char *const folders[] = { "$defs", "definitions" };
    int32_t found = c->json.node[at].kind == JSON_STRING && json_is(to, "#") ? c->root : -1;
    for (int i = 0; found < 0 && c->json.node[at].kind == JSON_STRING && i < 2; i++) {
        const size_t n = strlen(folders[i]) + 3;
        char begin[20], name[200];
        (void)snprintf(begin, sizeof begin, "#/%s/", folders[i]);
        if (to.bytes <= n || to.bytes - n >= sizeof name || memcmp(to.text, begin, n) != 0) continue;
        memcpy(name, to.text + n, (size_t)(to.bytes - n));
        name[to.bytes - n] = 0;
        const int32_t folder = json_member(&c->json, c->root, folders[i]);
        found = folder < 0 ? -1 : json_member(&c->json, folder, name);
    }
    if (found < 0)
        (void)schema_refuse(c, GDN_UNSUPPORTED, at,
                            "is not supported: only #, #/$defs/NAME and #/definitions/NAME of this schema are");
    else schema_add_parts(c, of, 1)->rule = schema_rule(c, found);
}

enum { IGNORED = 1, PLAIN, VALUES, ALTERNATIVES };

/* The class of a keyword; 0: not supported. */
static int keyword(rt_string name)
{
    static const struct {
        int is;
        const char *names;
    } known[] = { { IGNORED, " title description default examples format $schema $id $comment $defs definitions "
                             "deprecated readOnly writeOnly discriminator " },
                  { PLAIN,
                    " type properties required additionalProperties items prefixItems minItems maxItems minLength "
                    "maxLength minimum maximum exclusiveMinimum exclusiveMaximum " },
                  { VALUES, " const enum " },
                  { ALTERNATIVES, " anyOf oneOf $ref " } };
    char word[40] = " ";
    if (name.bytes > 30 || memchr(name.text, ' ', (size_t)name.bytes)) return 0;
    memcpy(word + 1, name.text, (size_t)name.bytes);
    word[name.bytes + 1] = ' ';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(known[i].names, word)) return known[i].is;
    return 0;
}

/* The keyword that says most of a schema, or -1. Refuses what is not supported beside it. */
static int32_t main_keyword(compiler *c, int32_t node)
{
    int32_t found = -1;
    for (int32_t i = c->json.node[node].child; !c->status && i >= 0; i = c->json.node[i].next) {
        const int is = keyword(c->json.node[i].key);
        if (!is) (void)schema_refuse(c, GDN_UNSUPPORTED, i, "is not supported");
        if (is < VALUES) continue;
        if (found >= 0)
            (void)schema_refuse(c, GDN_UNSUPPORTED, i, "is not supported beside const, enum, anyOf, oneOf or $ref");
        found = i;
    }
    const int is = found < 0 ? PLAIN : keyword(c->json.node[found].key);
    for (int32_t i = c->json.node[node].child; is > PLAIN && !c->status && i >= 0; i = c->json.node[i].next)
        if (keyword(c->json.node[i].key) == PLAIN && !(is == VALUES && json_is(c->json.node[i].key, "type")))
            (void)schema_refuse(c, GDN_UNSUPPORTED, i, "is not supported beside const, enum, anyOf, oneOf or $ref");
    return found;
}

int32_t schema_rule(compiler *c, int32_t node)
{
    json_node *const of = &c->json.node[node];
    if (of->rule >= 0 || c->status) return of->rule >= 0 ? of->rule : 0;
    if (of->kind == JSON_TRUE) return RULE_ANY;
    if (of->kind != JSON_OBJECT)
        return schema_refuse(c, of->kind == JSON_FALSE ? GDN_UNSUPPORTED : GDN_INVALID_ARGUMENT, node,
                             of->kind == JSON_FALSE ? "has no valid value: it is false" : "is not a schema");
    const int32_t r = of->rule = schema_add_rule(c, RULE_UNION, node), at = main_keyword(c, node);
    if (++c->depth > NESTED_SCHEMAS) (void)schema_refuse(c, GDN_UNSUPPORTED, node, "is nested too deeply");
    if (c->status) return r;
    const rt_string key = at < 0 ? (rt_string){ "", 0 } : c->json.node[at].key;
    if (at < 0) compile_types(c, node, r);
    else if (json_is(key, "const") || json_is(key, "enum")) compile_literals(c, node, at, json_is(key, "enum"), r);
    else if (json_is(key, "$ref")) compile_reference(c, at, r);
    else compile_alternatives(c, at, r);
    c->depth--;
    return r;
}

/* ---- Heights ---- */

/* Levels of nesting of the smallest value of a rule; 0: not known. */
static int32_t height_of(const rt_schema *s, const rule *r)
{
    const rule_part *const part = s->part + r->part;
    int32_t height = r->kind == RULE_UNION || (r->kind == RULE_LITERALS && !r->n) ? 0 : 1;
    const int compound = r->kind == RULE_ARRAY || r->kind == RULE_OBJECT;
    for (int32_t i = 0; i < r->n && r->kind != RULE_LITERALS; i++) {
        const int32_t of = s->rule[part[i].rule].height;
        if (r->kind == RULE_UNION) height = of && (!height || of < height) ? of : height;
        if (!compound || (r->kind == RULE_OBJECT ? !part[i].required : i >= r->least)) continue;
        if (!of) return 0;
        height = of + 1 > height ? of + 1 : height;
    }
    if (r->kind != RULE_ARRAY || r->least <= r->n) return height;
    const int32_t of = s->rule[r->more].height;
    return !of ? 0 : of + 1 > height ? of + 1 : height;
}

/* Finds a union that has itself as an alternative, also through others. */
static int loops(rt_schema *s, int32_t at)
{
    rule *const r = &s->rule[at];
    if (r->kind != RULE_UNION || r->colour == 2) return 0;
    if (r->colour == 1) return 1;
    r->colour = 1;
    for (int32_t i = 0; i < r->n; i++)
        if (loops(s, s->part[r->part + i].rule)) return 1;
    r->colour = 2;
    return 0;
}

void schema_check_values(compiler *c)
{
    rt_schema *const s = c->schema;
    int changed = 1;
    while (changed) {
        changed = 0;
        for (int32_t i = 0; i < s->n_rules; i++) {
            const int32_t height = height_of(s, &s->rule[i]);
            changed |= height != s->rule[i].height && !s->rule[i].height;
            if (!s->rule[i].height) s->rule[i].height = height;
        }
    }
    for (int32_t i = 0; !c->status && i < s->n_rules; i++) {
        if (loops(s, i)) (void)schema_refuse(c, GDN_UNSUPPORTED, s->rule[i].node, "is an alternative of itself");
        else if (!s->rule[i].height || s->rule[i].height >= SCHEMA_DEPTH)
            (void)schema_refuse(c, GDN_UNSUPPORTED, s->rule[i].node, "has no valid value of less than 64 levels");
    }
    for (int32_t i = 0; !c->status && i < c->json.n; i++) { /* once all rules are known */
        const int32_t at = c->json.node[i].rule < 0 ? -1 : json_member(&c->json, i, "oneOf");
        if (at >= 0) check_exclusive(c, at, c->json.node[i].rule);
    }
}

static gdn_status read_text(const char *text, uint64_t bytes, json_text *json)
{
    uint64_t at;
    if (bytes > RT_SCHEMA_MAX)
        return rt_fail(GDN_INVALID_ARGUMENT, "the schema has %llu bytes; %d are allowed", (unsigned long long)bytes,
                       (int)RT_SCHEMA_MAX);
    json->node = rt_calloc(json_values(text, bytes), sizeof *json->node, "a schema");
    json->string = rt_calloc(bytes + 4, 1, "a schema");
    if (!json->node || !json->string) return GDN_OUT_OF_MEMORY;
    const gdn_status status = json_read(text, bytes, json, &at);
    if (!status) return GDN_OK;
    return rt_fail(status,
                   status == GDN_UNSUPPORTED ? "the schema is nested too deeply at byte %llu"
                                             : "the schema is not valid JSON at byte %llu",
                   (unsigned long long)at);
}

/* Compiles a schema, or with flags >= 0 calls of tools. */
static gdn_status compile_text(const char *text, uint64_t bytes, int flags, rt_schema **schema)
{
    compiler c = { 0 };
    *schema = NULL;
    c.status = read_text(text, bytes, &c.json);
    c.schema = rt_calloc(1, sizeof *c.schema, "a schema");
    if (!c.status && c.schema) {
        const uint64_t n = (uint64_t)c.json.n;
        c.schema->rule = rt_calloc(3 * n + RULES_OF_ANY + 8, sizeof *c.schema->rule, "a schema");
        c.schema->part = rt_calloc(6 * n + 16, sizeof *c.schema->part, "a schema");
        c.schema->text = c.end = rt_calloc(16 * bytes + 64, 1, "a schema");
    }
    if (!c.status && (!c.schema || !c.schema->rule || !c.schema->part || !c.schema->text)) c.status = GDN_OUT_OF_MEMORY;
    if (!c.status) {
        add_any(&c);
        if (flags >= 0) schema_add_calls(&c, flags);
        else c.schema->root = schema_rule(&c, 0);
    }
    if (!c.status && flags < 0) schema_check_values(&c);
    rt_free(c.json.node);
    rt_free(c.json.string);
    if (c.status) rt_schema_free(c.schema);
    else *schema = c.schema;
    return c.status;
}

gdn_status rt_schema_compile(const char *text, uint64_t bytes, rt_schema **schema)
{
    return compile_text(text, bytes, -1, schema);
}

gdn_status rt_schema_compile_calls(const char *text, uint64_t bytes, int flags, rt_schema **schema)
{
    return compile_text(text, bytes, flags, schema);
}

void rt_schema_free(rt_schema *schema)
{
    if (!schema) return;
    rt_free(schema->rule);
    rt_free(schema->part);
    rt_free(schema->text);
    rt_free(schema);
}

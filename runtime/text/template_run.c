/* Runs the statements of chat templates, and has the public functions. See template.h and template_internal.h. */
#include <string.h>

#include "runtime/text/template_internal.h"

struct rt_template {
    tpl_arena arena;
    char *text;
    tpl_node *program;
};

/* Assigns a value to a name, or unpacks a list into several. */
static void assign(tpl_run *r, tpl_scope *scope, const tpl_node *names, const tpl_value *value)
{
    uint64_t n = 0;
    for (const tpl_node *name = names; name; name = name->next) n++;
    if (n > 1 && (value->kind != TPL_SEQUENCE || value->of.list.n != n)) {
        (void)tpl_refuse(r, "%s is no list of %d items", tpl_kind_name(value), (int)n);
        return;
    }
    uint64_t i = 0;
    for (const tpl_node *name = names; name && !r->status; name = name->next, i++) {
        const tpl_value one = n > 1 ? value->of.list.item[i] : *value;
        if (name->op == TPL_LOOKUP) {
            tpl_put(r, &scope->names, tpl_text_of(name), one);
            continue;
        }
        const tpl_value space = tpl_eval(r, scope, name->a);
        if (space.kind == TPL_NAMESPACE) tpl_put(r, space.of.map, tpl_text_of(name), one);
        else (void)tpl_refuse(r, "an attribute of %s, which is no namespace, is set", tpl_kind_name(&space));
    }
}

/* The items of a loop, filtered by its "if". */
static tpl_list items_of(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value v = tpl_eval(r, scope, node->a);
    tpl_list none = { NULL, 0 };
    if (r->status || v.kind == TPL_UNDEFINED) return none;
    if (v.kind == TPL_MAPPING) {
        const tpl_arguments nothing = { .n = 0 };
        v = tpl_method(r, &v, tpl_string("keys").of.text, &nothing);
    }
    if (v.kind != TPL_SEQUENCE) {
        (void)tpl_refuse(r, "a loop through %s is not known here", tpl_kind_name(&v));
        return none;
    }
    if (!node->d) return v.of.list;
    tpl_value kept = tpl_list_of(r, v.of.list.n);
    uint64_t n = 0;
    for (uint64_t i = 0; i < v.of.list.n && !r->status; i++) {
        tpl_scope *inside = tpl_new_scope(r, scope);
        if (!inside) break;
        assign(r, inside, node->b, &v.of.list.item[i]);
        const tpl_value good = tpl_eval(r, inside, node->d);
        if (tpl_true(&good)) kept.of.list.item[n++] = v.of.list.item[i];
    }
    kept.of.list.n = n;
    return kept.of.list;
}

static void loop(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    const tpl_list items = items_of(r, scope, node);
    if (r->status) return;
    if (!items.n) { /* the else branch has its own scope */
        tpl_scope *inside = tpl_new_scope(r, scope);
        if (inside) tpl_statements(r, inside, node->c);
        return;
    }
    for (uint64_t i = 0; i < items.n && !r->status; i++) {
        tpl_scope *inside = tpl_new_scope(r, scope); /* a new scope per iteration */
        tpl_loop *at = inside ? tpl_new(&r->arena, sizeof *at) : NULL;
        if (!at) {
            r->status = r->status ? r->status : r->arena.status;
            return;
        }
        *at = (tpl_loop){ items, i };
        assign(r, inside, node->b, &items.item[i]);
        const tpl_value about = { .kind = TPL_LOOP, .of.loop = at };
        tpl_put(r, &inside->names, tpl_string("loop").of.text, about);
        tpl_statements(r, inside, node->list);
        const int ends = r->flow == TPL_BREAKS;
        r->flow = TPL_ON;
        if (ends) return;
    }
}

static void define(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value v = { .kind = TPL_MACRO_VALUE };
    v.of.macro = tpl_new(&r->arena, sizeof *v.of.macro);
    if (!v.of.macro) {
        r->status = r->status ? r->status : r->arena.status;
        return;
    }
    *v.of.macro = (tpl_macro){ node, scope };
    tpl_put(r, &scope->names, tpl_text_of(node), v);
}

tpl_value tpl_written(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_buffer written, *const outside = tpl_begin(r, &written);
    tpl_scope *inside = tpl_new_scope(r, scope);
    if (inside) tpl_statements(r, inside, node);
    return tpl_end(r, outside);
}

static void set(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    const tpl_value v = node->a ? tpl_eval(r, scope, node->a) : tpl_written(r, scope, node->list);
    if (!r->status) assign(r, scope, node->b, &v);
}

static void statement(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    tpl_value v;
    switch (node->op) {
    case TPL_TEXT: tpl_write(r, tpl_text_of(node)); return;
    case TPL_PRINT:
        v = tpl_eval(r, scope, node->a);
        if (!r->status) tpl_write(r, tpl_to_text(r, &v));
        return;
    case TPL_IF:
        v = tpl_eval(r, scope, node->a);
        if (!r->status) tpl_statements(r, scope, tpl_true(&v) ? node->list : node->c);
        return;
    case TPL_FOR: loop(r, scope, node); return;
    case TPL_SET: set(r, scope, node); return;
    case TPL_MACRO: define(r, scope, node); return;
    case TPL_BREAK: r->flow = TPL_BREAKS; return;
    case TPL_CONTINUE: r->flow = TPL_CONTINUES; return;
    default: (void)tpl_refuse(r, "an expression stands where a statement is expected"); return;
    }
}

void tpl_statements(tpl_run *r, tpl_scope *scope, const tpl_node *node)
{
    if (r->depth == TPL_CALLS_MAX) {
        (void)tpl_refuse(r, "it is nested too deeply");
        return;
    }
    r->depth++;
    for (; node && !r->status && r->flow == TPL_ON; node = node->next) {
        r->line = node->line;
        if (--r->steps < 0) (void)tpl_refuse(r, "it does not come to an end");
        if (!r->status) statement(r, scope, node);
    }
    r->depth--;
}

/* ---- Public ---- */

gdn_status rt_template_parse(const char *text, uint64_t bytes, rt_template **t)
{
    *t = NULL;
    if (bytes > RT_TEMPLATE_MAX)
        return rt_fail(GDN_UNSUPPORTED, "the chat template has %llu bytes; at most %d are allowed",
                       (unsigned long long)bytes, (int)RT_TEMPLATE_MAX);
    rt_template *made = rt_calloc(1, sizeof *made, "a chat template");
    if (!made) return GDN_OUT_OF_MEMORY;
    made->arena.limit = UINT64_C(512) << 20;
    made->text = tpl_new(&made->arena, bytes + 1);
    gdn_status status = made->text ? GDN_OK : made->arena.status;
    uint64_t n = 0;
    for (uint64_t i = 0; !status && i < bytes; i++) /* Jinja normalises line ends and drops the last one */
        if (text[i] != '\r') made->text[n++] = text[i];
        else if (i + 1 == bytes || text[i + 1] != '\n') made->text[n++] = '\n';
    if (n && made->text[n - 1] == '\n') n--;
    if (!status) status = tpl_parse(&made->arena, made->text, n, &made->program);
    if (status) rt_template_free(made);
    else *t = made;
    return status;
}

void rt_template_free(rt_template *t)
{
    if (!t) return;
    tpl_arena_free(&t->arena);
    rt_free(t);
}

static tpl_value of_message(tpl_run *r, rt_string s)
{
    tpl_text text = { s.text ? s.text : "", NULL, s.bytes };
    unsigned char *mark = s.bytes && !r->status ? tpl_new(&r->arena, s.bytes) : NULL;
    if (mark) memset(mark, 1, (size_t)s.bytes);
    if (s.bytes && !mark) r->status = r->status ? r->status : r->arena.status;
    text.mark = mark;
    return tpl_characters(text);
}

static void put(tpl_run *r, tpl_map *map, const char *name, tpl_value value)
{
    tpl_put(r, map, tpl_string(name).of.text, value);
}

static void put_token(tpl_run *r, tpl_map *map, const char *name, rt_string token)
{
    const tpl_text text = { token.text, NULL, token.bytes };
    if (token.text) put(r, map, name, tpl_characters(text));
}

/* Adds the members of a JSON object. */
static void put_all(tpl_run *r, tpl_map *map, rt_string json)
{
    const tpl_value v = tpl_from_json(r, json);
    if (v.kind != TPL_MAPPING) (void)tpl_refuse(r, "a JSON object is needed, and %s is given", tpl_kind_name(&v));
    for (const tpl_entry *e = r->status ? NULL : v.of.map->first; e && !r->status; e = e->next) {
        const tpl_text name = e->key.of.text;
        if (tpl_get_of(r, map, &e->key))
            (void)tpl_refuse(r, "the variable %.*s is set in another way", TPL_SHOWN(name.text, name.n));
        tpl_put_of(r, map, &e->key, *e->value);
    }
}

static tpl_value messages(tpl_run *r, const rt_template_input *input)
{
    tpl_value all = tpl_list_of(r, (uint64_t)input->n_messages);
    for (int32_t i = 0; i < input->n_messages && !r->status; i++) {
        const rt_template_message *m = &input->messages[i];
        tpl_value message = { .kind = TPL_MAPPING };
        message.of.map = tpl_new(&r->arena, sizeof *message.of.map);
        if (!message.of.map) {
            r->status = r->arena.status;
            break;
        }
        put(r, message.of.map, "role", tpl_string(m->role));
        put(r, message.of.map, "content", of_message(r, m->text));
        if (m->reasoning.text) { /* under both names that templates use */
            put(r, message.of.map, "reasoning_content", of_message(r, m->reasoning));
            put(r, message.of.map, "thinking", of_message(r, m->reasoning));
        }
        if (m->more.text) put_all(r, message.of.map, m->more);
        all.of.list.item[i] = message;
    }
    return all;
}

gdn_status rt_template_render(const rt_template *t, const rt_template_input *input, rt_template_text *out)
{
    const tpl_value none = { .kind = TPL_NONE };
    tpl_buffer written = { 0 };
    tpl_scope given = { 0 }, own = { .parent = &given };
    tpl_run r = { .input = input, .line = 1, .out = &written };
    uint64_t bytes = input->tools.bytes + input->variables.bytes;
    for (int32_t i = 0; i < input->n_messages; i++)
        bytes += input->messages[i].text.bytes + input->messages[i].reasoning.bytes + input->messages[i].more.bytes;
    r.arena.limit = (UINT64_C(64) << 20) + 64 * bytes + 16384 * (uint64_t)input->n_messages;
    r.steps = 1000000 + 1000 * (int64_t)input->n_messages;
    r.work = (INT64_C(1) << 28) + 256 * (int64_t)bytes + 65536 * (int64_t)input->n_messages;
    *out = (rt_template_text){ 0 };
    put(&r, &given.names, "messages", messages(&r, input));
    put(&r, &given.names, "tools", input->tools.text ? tpl_from_json(&r, input->tools) : none); /* as transformers */
    put(&r, &given.names, "documents", none);
    put(&r, &given.names, "add_generation_prompt", tpl_bool(input->generation_prompt));
    put_token(&r, &given.names, "bos_token", input->bos);
    put_token(&r, &given.names, "eos_token", input->eos);
    const gdn_status before = r.status;
    if (input->variables.text) put_all(&r, &given.names, input->variables);
    if (!before && r.status == GDN_UNSUPPORTED) r.status = GDN_INVALID_ARGUMENT;
    if (input->thinking >= 0) put(&r, &given.names, "enable_thinking", tpl_bool(input->thinking));
    tpl_statements(&r, &own, t->program);
    if (!r.status) {
        out->text = rt_calloc(written.n + 1, 2, "a conversation");
        if (!out->text) r.status = GDN_OUT_OF_MEMORY;
    }
    if (!r.status) {
        out->mark = (unsigned char *)out->text + written.n + 1;
        out->bytes = written.n;
        if (written.n) {
            memcpy(out->text, written.text, (size_t)written.n);
            memcpy(out->mark, written.mark, (size_t)written.n);
        }
    }
    tpl_arena_free(&r.arena);
    return r.status;
}

void rt_template_free_text(rt_template_text *text)
{
    rt_free(text->text);
    *text = (rt_template_text){ 0 };
}

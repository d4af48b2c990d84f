/* What the files of schemas share. schema_compile.c makes rules of JSON and schema_calls.c those of calls of
 * tools, schema_step.c is the automaton. mask.c finds the tokens that it allows. */
#ifndef GDN_RUNTIME_SCHEMA_INTERNAL_H
#define GDN_RUNTIME_SCHEMA_INTERNAL_H

#include "runtime/schema/schema.h"
#include "runtime/text/json.h"

/* ---- Rules ---- */

typedef enum rule_kind {
    RULE_END, /* below the whole text */
    RULE_UNION,
    RULE_LITERALS,
    RULE_STRING,
    RULE_INTEGER,
    RULE_NUMBER,
    RULE_ARRAY,
    RULE_OBJECT,
    RULE_CASES, /* some of its parts in their order: each is its text, then a value of its rule, then the rule's text */
    RULE_TEXT   /* text as it is, without the rule's text in it */
} rule_kind;

/* A property, an element of prefixItems, a literal, an alternative or a case. */
typedef struct rule_part {
    rt_string text; /* a literal; a property's name without quotes, as the automaton writes it */
    int32_t rule;   /* -1: the value ends after the text                                       */
    int required;
    int32_t next; /* of a case: the first one that may come after it */
} rule_part;

typedef struct rule {
    rule_kind kind;
    int32_t part, n;     /* the first of its parts, their number                                       */
    int32_t more;        /* rule of further items or properties; -1: none                              */
    int32_t height;      /* levels of nesting that its smallest value has; 0: it has no finite value   */
    int32_t node;        /* of the schema, for messages                                                */
    int32_t colour;      /* of the search for circles                                                  */
    int64_t least, most; /* characters, items, or an integer's value */
    rt_string text;
} rule;

enum { RULE_ANY = 0, RULES_OF_ANY = 6 };         /* the first rules: any value, and its alternatives */
#define RULE_LARGEST INT64_C(999999999999999999) /* of integers: 18 digits */

struct rt_schema {
    rule *rule;
    rule_part *part;
    char *text;
    int32_t n_rules, n_parts, root;
    int has_calls, is_free; /* the root has calls of tools; any text may come around them */
    int in_tags;            /* no string of JSON has the beginning of a tag's end         */
};

/* ---- Compiling ---- */

typedef struct compiler {
    json_text json;
    rt_schema *schema;
    char *end;    /* of the schema's text */
    int32_t root; /* node of the schema that # refers to */
    int depth;
    gdn_status status;
} compiler;

#define TOOL_MARK "<tool_call>" /* in mask.c with its end */

/* Compiles the schema of a node to a rule. */
int32_t schema_rule(compiler *c, int32_t node);
int32_t schema_add_rule(compiler *c, rule_kind kind, int32_t node);
/* Reserves n parts of a rule, which are filled later. */
rule_part *schema_add_parts(compiler *c, int32_t of, int32_t n);
/* Keeps the text between c->end and `end`. */
rt_string schema_add_text(compiler *c, char *end);
/* Notes what is wrong with a node, unless something was before; returns 0. */
int32_t schema_refuse(compiler *c, gdn_status status, int32_t node, const char *why);
/* The rule behind unions of one alternative. */
const rule *schema_plain(const rt_schema *s, int32_t at);
/* Finds the heights of all rules, and those without a value. */
void schema_check_values(compiler *c);
/* Makes the rule of calls from the document's tools and format. */
void schema_add_calls(compiler *c, int flags);

/* ---- The automaton ---- */

enum { SCHEMA_DEPTH = 64, SCHEMA_TOPS = 16, SCHEMA_TRIED = 1000, SCHEMA_FRAMES = SCHEMA_TOPS * (SCHEMA_DEPTH + 2) };

/* A level of the stack. A frame does not change, so stacks share them; its parent has a lower index. */
typedef struct frame {
    int32_t parent, rule;
    uint8_t phase, utf8, escaped, minus; /* utf8: of a character that is not complete, see continues()      */
    int32_t depth;
    int32_t k;         /* bytes of a literal or a name, digits                                            */
    int32_t candidate; /* the first part that has these k bytes; -1: none                                 */
    int64_t at;        /* next property, items, characters, or an integer's magnitude                     */
} frame;

typedef struct machine {
    const rt_schema *schema;
    frame *frame; /* [room] */
    int32_t n, room;
    int tried; /* alternatives of this byte */
} machine;

struct rt_schema_state {
    machine machine;
    int32_t n_tops, top[SCHEMA_TOPS];
    int32_t moved[SCHEMA_FRAMES]; /* while frames move */
    frame frame[SCHEMA_FRAMES];
};

/* The stacks after a byte, at most SCHEMA_TOPS; returns their number. */
int32_t schema_step(machine *m, const int32_t *top, int32_t n, unsigned char byte, int32_t *to);

#endif

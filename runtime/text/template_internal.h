/* What the files of chat templates share. template_lex.c makes tokens, template_parse.c and template_blocks.c a syntax
 * tree. template_eval.c evaluates expressions, template_run.c runs statements. template_values.c has strings, lists and
 * their memory, template_filters.c filters, tests and methods, template_text.c the texts that these make, and
 * template_json.c JSON. */
#ifndef GDN_RUNTIME_TEMPLATE_INTERNAL_H
#define GDN_RUNTIME_TEMPLATE_INTERNAL_H

#include "runtime/base/error.h"
#include "runtime/text/template.h"
#include "runtime/text/utf8.h"

/* ---- Arena: memory that is freed as a whole ---- */

typedef struct tpl_chunk {
    struct tpl_chunk *next;
    uint64_t used, room;
} tpl_chunk;

typedef struct tpl_arena {
    tpl_chunk *chunks;
    uint64_t total, limit; /* bytes */
    gdn_status status;     /* the first failure; later calls return NULL */
} tpl_arena;

void *tpl_new(tpl_arena *a, uint64_t bytes); /* zeroed; NULL after a failure */
void tpl_arena_free(tpl_arena *a);

/* ---- Tokens ---- */

typedef enum tpl_token_kind {
    TPL_DATA,        /* text between tags             */
    TPL_BEGIN_PRINT, /* {{                            */
    TPL_BEGIN_TAG,   /* {%                            */
    TPL_END,         /* }} or %}                      */
    TPL_NAME,
    TPL_STRING, /* decoded                            */
    TPL_NUMBER,
    TPL_SIGN, /* operators and brackets              */
    TPL_EOF
} tpl_token_kind;

typedef struct tpl_token {
    tpl_token_kind kind;
    uint32_t line;
    const char *text;
    uint64_t n;
    int64_t number;
} tpl_token;

/* Splits text into tokens, allocated in the arena. The text must outlive them. */
gdn_status tpl_lex(tpl_arena *a, const char *text, uint64_t bytes, tpl_token **tokens, uint64_t *count);

/* ---- The tree ---- */

typedef enum tpl_op {
    /* expressions */
    TPL_CONST_STRING, /* text                                             */
    TPL_CONST_NUMBER, /* number                                           */
    TPL_CONST_BOOL,
    TPL_CONST_NONE,
    TPL_LOOKUP,    /* a name: text                                           */
    TPL_LIST,      /* list                                                   */
    TPL_DICT,      /* list of a: key, b: value                               */
    TPL_ATTRIBUTE, /* a.text                                              */
    TPL_ITEM,      /* a[b]                                                */
    TPL_SLICE,     /* a[b:c:d], each may be missing                       */
    TPL_CALL,      /* a(list)                                             */
    TPL_NAMED,     /* text=a among the arguments of a call                */
    TPL_FILTER,    /* a | text(list)                                      */
    TPL_TEST,      /* a is text(list)                                     */
    TPL_NOT,
    TPL_NEGATE,
    TPL_AND,
    TPL_OR,
    TPL_CHOOSE,  /* a if b else c                                         */
    TPL_BINARY,  /* a text b: + - * / // % ~                              */
    TPL_COMPARE, /* a, then list of text, a: operators and operands       */
    TPL_BLOCK,   /* what list (statements) writes                         */
    /* statements */
    TPL_TEXT,  /* text                                                 */
    TPL_PRINT, /* {{ a }}                                              */
    TPL_IF,    /* if a: list, else c (statements)                      */
    TPL_FOR,   /* for b (names) in a if d: list, else c                */
    TPL_SET,   /* b (names or attributes) = a; without a, of list      */
    TPL_MACRO, /* text(b: names with defaults a): list                 */
    TPL_BREAK,
    TPL_CONTINUE
} tpl_op;

typedef struct tpl_node {
    tpl_op op;
    uint32_t line;
    const char *text;
    uint64_t n; /* bytes of text */
    int64_t number;
    struct tpl_node *a, *b, *c, *d, *list, *next;
} tpl_node;

enum { TPL_DEPTH_MAX = 200, TPL_CALLS_MAX = 500 }; /* depth of the tree; of evaluation */

gdn_status tpl_parse(tpl_arena *a, const char *text, uint64_t bytes, tpl_node **program);

/* ---- Values ---- */

/* A string. mark NULL: all bytes come from the template. */
typedef struct tpl_text {
    const char *text;
    const unsigned char *mark;
    uint64_t n;
} tpl_text;

static inline tpl_text tpl_text_of(const tpl_node *node) { return (tpl_text){ node->text, NULL, node->n }; }

typedef enum tpl_kind {
    TPL_UNDEFINED,
    TPL_NONE,
    TPL_BOOL,
    TPL_INTEGER,
    TPL_DECIMAL, /* a number of JSON with a fraction or an exponent: its text */
    TPL_CHARACTERS,
    TPL_SEQUENCE, /* a list or tuple */
    TPL_MAPPING,
    TPL_NAMESPACE,
    TPL_FUNCTION, /* a global function of Jinja */
    TPL_MACRO_VALUE,
    TPL_LOOP
} tpl_kind;

typedef struct tpl_value tpl_value;

typedef struct tpl_list {
    tpl_value *item;
    uint64_t n;
    int of_json; /* 1: a list of JSON, which is no tuple of Python */
} tpl_list;

typedef struct tpl_entry tpl_entry;

typedef struct tpl_map {
    tpl_entry *first, *last;
    uint64_t n;
} tpl_map;

typedef struct tpl_loop {
    tpl_list items;
    uint64_t index;
} tpl_loop;

typedef struct tpl_scope {
    tpl_map names;
    struct tpl_scope *parent;
} tpl_scope;

typedef struct tpl_macro {
    const tpl_node *node;
    tpl_scope *scope;
} tpl_macro;

struct tpl_value {
    tpl_kind kind;
    int safe; /* a string from the filter safe, to which others are added with escapes, as Jinja's Markup does */
    union {
        int64_t number; /* also for a bool, and the number of a function */
        tpl_text text;
        tpl_list list;
        tpl_map *map;
        tpl_macro *macro;
        tpl_loop *loop;
    } of;
};

struct tpl_entry {
    tpl_value key; /* a string or a number */
    struct tpl_entry *next;
    tpl_value *value;
};

/* The output buffer: of the template, a macro or a block. */
typedef struct tpl_buffer {
    char *text;
    unsigned char *mark;
    uint64_t n, room;
} tpl_buffer;

typedef struct tpl_run {
    tpl_arena arena;
    const rt_template_input *input;
    gdn_status status; /* the first failure; afterwards all functions return at once */
    uint32_t line;
    int depth;
    int64_t steps; /* left: evaluations and statements                       */
    int64_t work;  /* left: of what takes time and neither steps nor memory  */
    tpl_buffer *out;
    enum { TPL_ON, TPL_BREAKS, TPL_CONTINUES } flow;
} tpl_run;

enum { TPL_ARGUMENTS = 16 };
typedef struct tpl_arguments {
    tpl_value value[TPL_ARGUMENTS];
    int n;
    tpl_map named;
} tpl_arguments;

/* Returns GDN_UNSUPPORTED with a text; bytes that a terminal may interpret become "?". */
gdn_status tpl_fail(uint32_t line, char *text);
/* Makes the run fail with the current line, unless it has failed before. Returns an undefined value. */
tpl_value tpl_refuse(tpl_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Zeroed memory of the run; NULL after a failure. */
void *tpl_memory(tpl_run *r, uint64_t bytes);
/* Counts n units of work, of some nanoseconds each. Returns 0 after a failure: the template has used up its work. */
int tpl_work(tpl_run *r, uint64_t n);
/* For error texts: at most 60 bytes of a template's text, as the arguments of "%.*s". */
#define TPL_SHOWN(text, n) (int)((n) < 60 ? (n) : 60), (text)

tpl_value tpl_eval(tpl_run *r, tpl_scope *scope, const tpl_node *node);
void tpl_statements(tpl_run *r, tpl_scope *scope, const tpl_node *node);
tpl_value tpl_written(tpl_run *r, tpl_scope *scope,
                      const tpl_node *node); /* what statements write, in a scope of their own */

tpl_value tpl_integer(int64_t n);
tpl_value tpl_bool(int truth);
tpl_value tpl_string(const char *text); /* text must outlive the run; counts as the template's */
tpl_value tpl_characters(tpl_text text);
int tpl_is(tpl_text text, const char *string);
int tpl_among(tpl_text text, const char *names); /* names: separated by a space */
int tpl_same_text(tpl_text a, tpl_text b);
int tpl_true(const tpl_value *v);
/* The order of two numbers or two strings: -1, 0 or 1. */
int tpl_order(tpl_run *r, const tpl_value *a, const tpl_value *b);
int tpl_equal(tpl_run *r, const tpl_value *a, const tpl_value *b);
int tpl_in(tpl_run *r, const tpl_value *item, const tpl_value *where);
const char *tpl_kind_name(const tpl_value *v);
/* The text that printing the value gives. */
tpl_text tpl_to_text(tpl_run *r, const tpl_value *v);
tpl_text tpl_join(tpl_run *r, tpl_text a, tpl_text b);
tpl_text tpl_part(tpl_text t, uint64_t from, uint64_t to);
/* Position of `part` in t, at or after byte `from`; t.n + 1: not found. */
uint64_t tpl_find(tpl_run *r, tpl_text t, tpl_text part, uint64_t from);
uint64_t tpl_count_characters(tpl_run *r, tpl_text t);
/* Strips characters of `of` (NULL: Python's whitespace) from a string. sides: 1 the beginning, 2 the end, 3 both. r may
 * be NULL where `of` is. */
tpl_text tpl_strip(tpl_run *r, tpl_text t, const tpl_text *of, int sides);
void tpl_write(tpl_run *r, tpl_text text);
/* tpl_begin: from here on tpl_write() writes to *b, which it clears. Returns the buffer before, for tpl_end(), which
 * returns what was written. */
tpl_buffer *tpl_begin(tpl_run *r, tpl_buffer *b);
tpl_value tpl_end(tpl_run *r, tpl_buffer *before);

tpl_value *tpl_get(tpl_run *r, const tpl_map *map, tpl_text key); /* NULL: there is none */
void tpl_put(tpl_run *r, tpl_map *map, tpl_text key, tpl_value value);
tpl_value *tpl_get_of(tpl_run *r, const tpl_map *map, const tpl_value *key); /* key: a string or a number */
void tpl_put_of(tpl_run *r, tpl_map *map, const tpl_value *key, tpl_value value);
tpl_value tpl_list_of(tpl_run *r, uint64_t n); /* n undefined values */
tpl_scope *tpl_new_scope(tpl_run *r, tpl_scope *parent);

/* Attribute lookup of a value, for a.name (by_item 0) and a['name'] (by_item 1). */
tpl_value tpl_attribute(tpl_run *r, const tpl_value *of, tpl_text name, int by_item);
tpl_value tpl_method(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *arguments);
tpl_value tpl_filter(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *arguments);

/* template_json.c: a value of JSON text, whose strings are marked as a message's; and the filter tojson, as
 * transformers has it. indent: spaces of a level, on lines of their own; below 0: one line. */
tpl_value tpl_from_json(tpl_run *r, rt_string json);
tpl_value tpl_to_json(tpl_run *r, const tpl_value *v, int64_t indent);
/* What Python prints of a list or mapping of JSON. */
tpl_value tpl_to_python(tpl_run *r, const tpl_value *v);

/* template_text.c */
tpl_text tpl_escape(tpl_run *r, tpl_text text); /* as MarkupSafe does: & < > ' " */
tpl_value tpl_change_case(tpl_run *r, tpl_text text, int up);
tpl_value tpl_to_whole(tpl_run *r, const tpl_value *of, const tpl_value *otherwise); /* the filter int */
/* Python's text % values: %s, %d and %% are known. */
tpl_value tpl_format(tpl_run *r, tpl_text text, const tpl_value *value, int n);
tpl_value tpl_format_braces(tpl_run *r, tpl_text text, const tpl_value *value, int n);
tpl_value tpl_date(tpl_run *r, const tpl_arguments *a); /* strftime_now() */

int tpl_test(tpl_run *r, const tpl_value *of, tpl_text name, const tpl_arguments *arguments);

#endif

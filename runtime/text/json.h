/* JSON as a tree: read from a text, and written. */
#ifndef GDN_RUNTIME_JSON_H
#define GDN_RUNTIME_JSON_H

#include <stdint.h>

#include "runtime/files/gguf.h"

typedef enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT } json_kind;

/* A value. Nodes refer to each other by index; -1: none. */
typedef struct json_node {
    json_kind kind;
    int32_t parent, child, next, n; /* first element or member, the next one of the same parent, their number */
    rt_string key;                  /* of a member, without escapes                                             */
    rt_string text;                 /* of a string without escapes; of a number as it is written                */
    int32_t rule;                   /* of a schema; -1: not compiled                                            */
} json_node;

typedef struct json_text {
    json_node *node; /* [0] is the whole. The caller's, with room for json_values()      */
    char *string;    /* bytes of strings. The caller's, with room for 4 bytes and the text */
    int32_t n;
} json_text;

/* At least the number of a text's values. */
uint64_t json_values(const char *text, uint64_t bytes);
/* Reads a text. GDN_INVALID_ARGUMENT: it is not JSON in UTF-8. GDN_UNSUPPORTED: it nests too deeply. *at is where. */
gdn_status json_read(const char *text, uint64_t bytes, json_text *json, uint64_t *at);
int json_is(rt_string a, const char *b);
int32_t json_member(const json_text *json, int32_t of, const char *key); /* -1: there is none */
/* Writes a value without white space; returns the end. A byte takes 6 at most. */
char *json_write(const json_text *json, int32_t node, char *to);
char *json_write_string(rt_string text, char *to);

#endif

/* A streaming JSON writer, which handles commas, indentation, escapes and numbers. Its names leave those of the library
 * jansson free.
 *
 *   json_writer w;
 *   json_open(&w, stdout);
 *   json_put_object(&w, NULL);
 *   json_put_string(&w, "name", "decode");
 *   json_put_array(&w, "times");
 *   json_put_double(&w, NULL, 0.5);
 *   json_close(&w);                   // the array
 *   json_close(&w);                   // the object
 *   if (!json_finish(&w)) ...         // writing failed
 *
 * Pass the key of each value in an object, and NULL in an array or at the top. Doubles are written with the fewest
 * digits that read back as the same value. NaN and infinities, which JSON lacks, become null. Invalid UTF-8 becomes
 * U+FFFD. */
#ifndef GDN_TOOL_JSON_H
#define GDN_TOOL_JSON_H

#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH_MAX = 32 };

typedef struct json_writer {
    FILE *out;
    int depth;                    /* open objects and arrays; more than JSON_DEPTH_MAX is an error */
    int failed;                   /* 1: misuse, such as an unbalanced close, a missing key, or too much depth */
    char closing[JSON_DEPTH_MAX]; /* '}' or ']'                                                      */
    char not_empty[JSON_DEPTH_MAX];
} json_writer;

void json_open(json_writer *w, FILE *out);
void json_put_object(json_writer *w, const char *key);
void json_put_array(json_writer *w, const char *key);
void json_close(json_writer *w);                                          /* closes the innermost object or array */
void json_put_string(json_writer *w, const char *key, const char *value); /* NULL becomes null */
void json_put_bytes(json_writer *w, const char *key, const char *value,
                    uint64_t bytes); /* terminated, and NULs before that */
void json_put_double(json_writer *w, const char *key, double value);
void json_put_int(json_writer *w, const char *key, int64_t value);
void json_put_uint(json_writer *w, const char *key, uint64_t value);
void json_put_bool(json_writer *w, const char *key, int value);
void json_put_null(json_writer *w, const char *key);

/* Copies n bytes, with U+FFFD for each that is not UTF-8. Returns the length, at most 3 n. */
size_t json_valid_utf8(const char *bytes, size_t n, char *to);

/* Ends the text with a newline and flushes it. 1: the text is well-formed and was written. */
int json_finish(json_writer *w);

#endif

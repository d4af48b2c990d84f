/* Reads GGUF files, versions 2 and 3, little endian.
 *
 * The reader maps the file, checks every offset, length, count and type once, and then serves lookups by name. A
 * malformed file gives GDN_INVALID_ARGUMENT and a text that names the key or tensor and the position in the file.
 * GDN_UNSUPPORTED: other versions, and arrays of arrays. The reader reads nothing outside the mapping. It allocates at
 * most 4 MiB for keys, 20 MiB for tensors, and half a byte per string of an array. Tensors follow each
 * other without gaps, up to the alignment.
 *
 * An open file is immutable: any number of threads may read it. The file must not shrink while it is open, since the
 * system sends SIGBUS to a program that reads a lost page of a mapping. */
#ifndef GDN_RUNTIME_GGUF_H
#define GDN_RUNTIME_GGUF_H

#include "runtime/base/budget.h"

typedef struct rt_gguf rt_gguf;

/* Types of metadata values, with the numbers of GGUF. */
typedef enum rt_gguf_kind {
    RT_GGUF_U8 = 0,
    RT_GGUF_I8 = 1,
    RT_GGUF_U16 = 2,
    RT_GGUF_I16 = 3,
    RT_GGUF_U32 = 4,
    RT_GGUF_I32 = 5,
    RT_GGUF_F32 = 6,
    RT_GGUF_BOOL = 7,
    RT_GGUF_STRING = 8,
    RT_GGUF_ARRAY = 9,
    RT_GGUF_U64 = 10,
    RT_GGUF_I64 = 11,
    RT_GGUF_F64 = 12
} rt_gguf_kind;

typedef struct rt_string {
    const char *text; /* not terminated; points into the mapping */
    uint64_t bytes;
} rt_string;

typedef struct rt_gguf_tensor {
    rt_string name;
    int32_t type;              /* ggml's number, maybe of a type the runtime does not support     */
    int32_t n_dims;            /* 1 to 4                                                         */
    int64_t ne[4];             /* ne[0] contiguous, whole blocks; 1 beyond n_dims; never 0       */
    const unsigned char *data; /* in the mapping; NULL for a type unknown to the reader */
    uint64_t bytes;            /* 0 for an unknown type                                          */
} rt_gguf_tensor;

/* Open a file, or a file's bytes in memory, which must stay valid until rt_gguf_close(). A path must name a regular
 * file; directories, pipes, sockets and devices are refused without waiting. The reader's allocations count
 * against `budget`, which may be NULL.
 *
 * A model split into several files (split.count; NAME-00001-of-00003.gguf) is opened by its first file. The reader maps
 * the other files of the same directory, checks each in the same way, and puts all tensors in one list. The function
 * rt_gguf_open_memory_parts() does the same for files in memory, in their order, and ignores parts beyond split.count.
 */
typedef struct rt_gguf_part {
    const void *at;
    uint64_t n;
} rt_gguf_part;

gdn_status rt_gguf_open(const char *path, rt_budget *budget, rt_gguf **file);
gdn_status rt_gguf_open_memory(const void *bytes, uint64_t n, rt_budget *budget, rt_gguf **file);
gdn_status rt_gguf_open_memory_parts(const rt_gguf_part *parts, int32_t n_parts, rt_budget *budget, rt_gguf **file);
void rt_gguf_close(rt_gguf *file);

/* Tensors, in file order or by name (NULL: absent). */
int64_t rt_gguf_n_tensors(const rt_gguf *file);
const rt_gguf_tensor *rt_gguf_tensor_at(const rt_gguf *file, int64_t index);
const rt_gguf_tensor *rt_gguf_find(const rt_gguf *file, const char *name);

/* ggml's name of an element type ("Q4_K"); "unknown" for other numbers. */
const char *rt_gguf_type_name(int32_t type);

/* Metadata. GDN_OK fills *value. GDN_NOT_FOUND, with a text: the key is absent. GDN_INVALID_ARGUMENT: the value has
 * another kind or is outside [low, high]. Integer functions accept integers of every width. */
int rt_gguf_has(const rt_gguf *file, const char *key);
gdn_status rt_gguf_get_int(const rt_gguf *file, const char *key, int64_t low, int64_t high, int64_t *value);
gdn_status rt_gguf_get_float(const rt_gguf *file, const char *key, float *value);
/* A number of any kind; a bool is 0 or 1. */
gdn_status rt_gguf_get_number(const rt_gguf *file, const char *key, double *value);
gdn_status rt_gguf_get_bool(const rt_gguf *file, const char *key, int *value);
gdn_status rt_gguf_get_string(const rt_gguf *file, const char *key, rt_string *value);
/* An array of strings: its count, and its elements in O(1), through an index of every 16th element that opening builds.
 * To read all elements, start with element 0 and call _next. An index out of range gives an empty string; _next does
 * not check for the end of the array. */
gdn_status rt_gguf_get_strings(const rt_gguf *file, const char *key, int64_t *count);
rt_string rt_gguf_string_at(const rt_gguf *file, const char *key, int64_t index);
rt_string rt_gguf_string_next(rt_string string); /* `string` must not be the last element */
/* Reads an array of integers or bools of any width: at most `capacity` elements, from element `first` on. *count is the
 * length of the array. */
gdn_status rt_gguf_get_ints(const rt_gguf *file, const char *key, int64_t first, int64_t *values, int64_t capacity,
                            int64_t *count);

/* Enumerate all keys in file order; text is NULL past the end. kind may be NULL. rt_gguf_element returns the kind of an
 * array's elements and stores their number in *count (may be NULL); -1: the key is not an array. */
int64_t rt_gguf_n_keys(const rt_gguf *file);
rt_string rt_gguf_key_at(const rt_gguf *file, int64_t index, rt_gguf_kind *kind);
/* The bytes of a key's value in the file: a scalar; a string, or all strings of an array, with their lengths; the
 * elements of another array. */
rt_string rt_gguf_value_at(const rt_gguf *file, int64_t index);
int rt_gguf_element(const rt_gguf *file, const char *key, int64_t *count);

#endif

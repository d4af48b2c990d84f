/* Reads GGUF files (versions 2 and 3, little endian): maps the file, checks every offset, length, count and
 * type against it once, and then answers by name. A malformed file gives GDN_INVALID_ARGUMENT and a text that
 * names the key or tensor and the position in the file (GDN_UNSUPPORTED for other versions and for arrays of
 * arrays); nothing is ever read outside the mapping, and what the reader allocates is limited: at most 4 MiB for
 * keys, 22 MiB for tensors, and half a byte for each string of an array. No two tensors share a byte. An open file is
 * immutable: any number of threads may read it. The file must not shrink while it is open: the system sends SIGBUS to
 * a program that reads a mapping's lost pages, and what then becomes of it is the program's affair. */
#ifndef GDN_RUNTIME_GGUF_H
#define GDN_RUNTIME_GGUF_H

#include "runtime/budget.h"

typedef struct rt_gguf rt_gguf;

/* Types of metadata values, with GGUF's numbers. */
typedef enum rt_gguf_kind {
    RT_GGUF_U8 = 0, RT_GGUF_I8 = 1, RT_GGUF_U16 = 2, RT_GGUF_I16 = 3, RT_GGUF_U32 = 4, RT_GGUF_I32 = 5,
    RT_GGUF_F32 = 6, RT_GGUF_BOOL = 7, RT_GGUF_STRING = 8, RT_GGUF_ARRAY = 9,
    RT_GGUF_U64 = 10, RT_GGUF_I64 = 11, RT_GGUF_F64 = 12
} rt_gguf_kind;

typedef struct rt_string {
    const char *text; /* not terminated; points into the mapping */
    uint64_t    bytes;
} rt_string;

typedef struct rt_gguf_tensor {
    rt_string            name;
    int32_t              type;    /* ggml's number; may be one the runtime cannot multiply with      */
    int32_t              n_dims;  /* 1..4                                                           */
    int64_t              ne[4];   /* ne[0] contiguous, whole blocks; 1 beyond n_dims; never 0       */
    const unsigned char *data;    /* within the mapping; NULL where the type is unknown to the reader */
    uint64_t             bytes;   /* 0 where the type is unknown                                    */
} rt_gguf_tensor;

/* Open a file, or a file's bytes in memory (kept by the caller; what the fuzz target uses). A path is a regular file's:
 * what is a folder, a pipe, a socket or a device is refused, and never waited for. _within: what the reader allocates
 * is counted against `budget`, which may be NULL. */
/* A model in several files (split.count; NAME-00001-of-00003.gguf) is opened by its first: the others beside it are
 * mapped too, each is checked as strictly, and all tensors are in one list. _memory_parts: the same of files in memory,
 * in their order; those that are more than split.count are not looked at. */
typedef struct rt_gguf_part {
    const void *at;
    uint64_t    n;
} rt_gguf_part;

gdn_status rt_gguf_open(const char *path, rt_gguf **file);
gdn_status rt_gguf_open_within(const char *path, rt_budget *budget, rt_gguf **file);
gdn_status rt_gguf_open_memory(const void *bytes, uint64_t n, rt_gguf **file);
gdn_status rt_gguf_open_memory_within(const void *bytes, uint64_t n, rt_budget *budget, rt_gguf **file);
gdn_status rt_gguf_open_memory_parts(const rt_gguf_part *parts, int32_t n_parts, rt_budget *budget, rt_gguf **file);
void       rt_gguf_close(rt_gguf *file);

const char *rt_gguf_path(const rt_gguf *file); /* of the first part; "memory" where there is none */
uint64_t    rt_gguf_bytes(const rt_gguf *file); /* of all parts */

/* Tensors: in file order, and by name (NULL when absent). */
int64_t               rt_gguf_n_tensors(const rt_gguf *file);
const rt_gguf_tensor *rt_gguf_tensor_at(const rt_gguf *file, int64_t index);
const rt_gguf_tensor *rt_gguf_find(const rt_gguf *file, const char *name);

/* ggml's name of an element type, "Q4_K"; "unknown" for a number that is not ggml's. */
const char *rt_gguf_type_name(int32_t type);

/* Metadata. The get functions return GDN_OK and fill *value; GDN_NOT_FOUND, with a text, when the key is
 * absent; GDN_INVALID_ARGUMENT when it has another kind or is out of the range asked for. Integers of every
 * width are accepted where an integer is wanted. */
int        rt_gguf_has(const rt_gguf *file, const char *key);
gdn_status rt_gguf_get_int(const rt_gguf *file, const char *key, int64_t low, int64_t high, int64_t *value);
gdn_status rt_gguf_get_float(const rt_gguf *file, const char *key, float *value);
/* A number of any kind, and bools as 0 and 1. */
gdn_status rt_gguf_get_number(const rt_gguf *file, const char *key, double *value);
gdn_status rt_gguf_get_bool(const rt_gguf *file, const char *key, int *value);
gdn_status rt_gguf_get_string(const rt_gguf *file, const char *key, rt_string *value);
/* An array of strings: count, then element by element, in O(1) (an index of every 16th is built when the file is
 * opened). To read them all, begin with element 0 and go on with _next; neither looks where the array ends. */
gdn_status rt_gguf_get_strings(const rt_gguf *file, const char *key, int64_t *count);
rt_string  rt_gguf_string_at(const rt_gguf *file, const char *key, int64_t index);
rt_string  rt_gguf_string_next(rt_string string); /* of an element that is not the last */
/* An array of integers or bools (any width), at most `capacity` of them, of _from element `first` on; *count is how
 * many the array has. */
gdn_status rt_gguf_get_ints(const rt_gguf *file, const char *key, int64_t *values, int64_t capacity, int64_t *count);
gdn_status rt_gguf_get_ints_from(const rt_gguf *file, const char *key, int64_t first, int64_t *values, int64_t capacity,
                                 int64_t *count);

/* Walk all keys, in file order: text is NULL past the end. kind may be NULL. rt_gguf_element: the kind of an
 * array's elements, and how many in *count (may be NULL); -1 where the key is no array. */
int64_t   rt_gguf_n_keys(const rt_gguf *file);
rt_string rt_gguf_key_at(const rt_gguf *file, int64_t index, rt_gguf_kind *kind);
int       rt_gguf_element(const rt_gguf *file, const char *key, int64_t *count);

#endif

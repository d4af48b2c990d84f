/* What the files of the GGUF reader share. gguf.c opens files and finds tensors, gguf_parse.c checks the bytes,
 * gguf_get.c reads metadata, gguf_split.c joins the parts of a split model. */
#ifndef GDN_RUNTIME_GGUF_INTERNAL_H
#define GDN_RUNTIME_GGUF_INTERNAL_H

#include "runtime/files/gguf.h"

typedef struct gguf_key {
    rt_string name;             /* must be first: the index holds pointers to names             */
    const unsigned char *value; /* a scalar, a string's length or an array's first element      */
    uint64_t count;             /* elements of an array                                         */
    uint64_t first_mark;        /* array of strings: its first entry in string_at               */
    int32_t kind;               /* rt_gguf_kind                                                 */
    int32_t element;            /* rt_gguf_kind of an array's elements, or -1                   */
} gguf_key;

struct rt_gguf {
    const unsigned char *bytes;
    uint64_t n_bytes;
    int mapped;
    char *path;
    const char *label; /* last component of the path, for error texts                  */
    gguf_key *keys;
    int64_t n_keys;
    rt_gguf_tensor *tensors;
    int64_t n_tensors;
    const rt_string **key_index;    /* sorted names; each is the first member                       */
    const rt_string **tensor_index; /* of a gguf_key or an rt_gguf_tensor                           */
    rt_gguf **part;                 /* split model: the parts after this one, whose             */
    int32_t n_parts;                /* tensors are in the list above                            */
    uint64_t *string_at;            /* file position of every GGUF_MARK-th string of each array */
};

enum { GGUF_MARK = 16 };

/* Checks all of file->bytes and fills the other members. budget: see gguf.h. */
gdn_status gguf_parse(rt_gguf *file, rt_budget *budget);

/* Opens one file, or one file's bytes, without joining parts. *file is NULL after a failure. */
gdn_status gguf_open_file(const char *path, rt_budget *budget, rt_gguf **file);
gdn_status gguf_open_bytes(const void *bytes, uint64_t n, rt_budget *budget, rt_gguf **file);
void gguf_close_parts(rt_gguf *first);

/* The sorted names of n entries, which are `stride` bytes apart and begin with their names; NULL: no memory. *twice:
 * where the index has a name that it also has before; 0: nowhere. */
const rt_string **gguf_index(const void *entries, uint64_t stride, int64_t n, int64_t *twice);
/* Finds a name in an index; NULL: absent. */
const rt_string *gguf_lookup(const rt_string *const *index, int64_t n, const char *name, uint64_t bytes);

int gguf_compare(rt_string a, rt_string b); /* like memcmp; a prefix sorts first */

/* Bytes of a scalar of a kind; 0 for strings, arrays and invalid kinds. */
int gguf_kind_bytes(int64_t kind);

static inline uint64_t gguf_load(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

#endif

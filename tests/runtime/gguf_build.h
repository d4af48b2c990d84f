/* Builds GGUF files in memory, well-formed or not: what is put is appended as it is. */
#ifndef GDN_TESTS_RUNTIME_GGUF_BUILD_H
#define GDN_TESTS_RUNTIME_GGUF_BUILD_H

#include <stdint.h>

#include "runtime/files/gguf.h"

enum { GGUF_BUILD_MAX = 1 << 20 };

typedef struct gguf_build {
    unsigned char bytes[GGUF_BUILD_MAX];
    uint64_t n; /* what does not fit is left out */
} gguf_build;

void build_bytes(gguf_build *b, const void *bytes, uint64_t n);
void build_number(gguf_build *b, uint64_t value, int bytes);
void build_string(gguf_build *b, const char *text);
void build_pad(gguf_build *b, uint64_t alignment);

/* Begin anew: magic, version 3, counts. */
void build_header(gguf_build *b, uint64_t n_tensors, uint64_t n_keys);

/* Keys. The number of a number's bytes follows from its kind. */
void build_key(gguf_build *b, const char *name, uint32_t kind);
void build_key_number(gguf_build *b, const char *name, rt_gguf_kind kind, uint64_t bits);
void build_key_float(gguf_build *b, const char *name, float value);
void build_key_string(gguf_build *b, const char *name, const char *value);
void build_key_array(gguf_build *b, const char *name, uint32_t element, uint64_t count);

/* A tensor's description. */
void build_tensor(gguf_build *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset);

/* A whole file without tensors: a vocabulary of the 256 bytes, some merges, and special tokens. `pre` may be NULL. */
enum {
    BUILD_N_MERGES = 13,
    BUILD_ENDOFTEXT = 256 + BUILD_N_MERGES, /* <|endoftext|>, a control token                    */
    BUILD_IM_START,                         /* <|im_start|>                                      */
    BUILD_IM_END,                           /* <|im_end|>, which is eos                          */
    BUILD_THINK,                            /* <think>, user-defined                             */
    BUILD_IM_END_X,                         /* <|im_end|>x, a control token                      */
    BUILD_N_TOKENS
};
void build_vocabulary(gguf_build *b, const char *pre);

#endif

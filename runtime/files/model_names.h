/* Checks the keys and tensors of a model file against model_names.def: which the runtime uses, ignores or refuses. */
#ifndef GDN_RUNTIME_MODEL_NAMES_H
#define GDN_RUNTIME_MODEL_NAMES_H

#include "runtime/files/gguf.h"

enum { RT_KEY_NAME = 64 };

typedef enum rt_arch { RT_QWEN3NEXT, RT_QWEN35, RT_QWEN35MOE } rt_arch;

const char *rt_arch_name(rt_arch arch);

/* 1 if the list marks `<arch>.<key>`, or a tensor (of a block: without `blk.<n>.`), as used. The loader checks this
 * before it reads, so that everything it uses is in the list. */
int rt_key_is_used(rt_arch arch, const char *key);
int rt_tensor_is_used(rt_arch arch, const char *tensor);
int rt_text_key_is_used(rt_string key); /* a key `tokenizer.*` or `general.*` */

/* Checks all keys `<arch>.*`. GDN_UNSUPPORTED, with a text that names the key: it is not listed, or its value requests
 * a computation that the runtime does not implement. */
gdn_status rt_check_keys(const rt_gguf *file, rt_arch arch);
/* The same for the keys `tokenizer.*` and `general.*`; keys that are not listed are allowed. */
gdn_status rt_check_text_keys(const rt_gguf *file);
/* Index of the next key, at or after `from`, to warn the user about, with the reason in *why; -1: none. It is a key
 * `tokenizer.*` or `general.*` that may change tokens or text and that the runtime does not use: not listed, or listed
 * as such. */
int64_t rt_next_noted_key(const rt_gguf *file, int64_t from, const char **why);
/* A key that the file lacks and that converters write, since what stands for it may not suit the model: the key's name
 * in `key`, and *instead. Call with *at 0 at first; 0: there are no more. */
int rt_next_default(const rt_gguf *file, rt_arch arch, int *at, char key[RT_KEY_NAME], const char **instead);
/* GDN_UNSUPPORTED for a tensor without a mark in used[index in the file], unless the list says that it is harmless.
 * used NULL: checks only for the tensors that no model may have. */
gdn_status rt_check_tensors(const rt_gguf *file, rt_arch arch, const unsigned char *used);

/* Reads a number that the list marks as advice. Returns 0 if the key is absent, not a number or out of its range. */
int rt_get_advice(const rt_gguf *file, const char *key, double *value);

#endif

/* What the runtime knows of the names in a model file, and what it refuses: the list is model_names.def. */
#ifndef GDN_RUNTIME_MODEL_NAMES_H
#define GDN_RUNTIME_MODEL_NAMES_H

#include "runtime/gguf.h"

typedef enum rt_arch { RT_QWEN3NEXT, RT_QWEN35, RT_QWEN35MOE } rt_arch;

const char *rt_arch_name(rt_arch arch);

/* Whether the list says that the loader uses `<arch>.<key>`, or a tensor (of a block, without `blk.<n>.`). The loader
 * asks before it reads, so that nothing is used that the list does not have. */
int rt_key_is_used(rt_arch arch, const char *key);
int rt_tensor_is_used(rt_arch arch, const char *tensor);

/* GDN_UNSUPPORTED, with a text that names it, for a key `<arch>.*` that is not listed and for one whose value changes
 * what is computed in a way that the runtime does not have. */
gdn_status rt_check_keys(const rt_gguf *file, rt_arch arch);
/* The same for the keys `tokenizer.*` and `general.*`; those that are not listed are let through. */
gdn_status rt_check_text_keys(const rt_gguf *file);
/* The index of the next key from `from` on that may change tokens or texts and is not used, with the reason, for a
 * note to the user: a key `tokenizer.*` or `general.*` that is not listed, or listed as such. -1: there is none. */
int64_t rt_next_noted_key(const rt_gguf *file, int64_t from, const char **why);
/* GDN_UNSUPPORTED for a tensor that is not marked in used[index in the file], unless it is known to be harmless.
 * Without `used`: for those alone that no model may have. */
gdn_status rt_check_tensors(const rt_gguf *file, rt_arch arch, const unsigned char *used);

/* The number of a key that the list has as advice; 0 where it is not there, or none, or not in its range. */
int rt_get_advice(const rt_gguf *file, const char *key, double *value);

#endif

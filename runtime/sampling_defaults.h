/* What a model's file recommends for sampling: the keys general.sampling.*, which converters make of a model's
 * generation_config.json. */
#ifndef GDN_RUNTIME_SAMPLING_DEFAULTS_H
#define GDN_RUNTIME_SAMPLING_DEFAULTS_H

#include <stddef.h>

#include "runtime/gguf.h"
#include "runtime/sampler.h"

/* For a conversation where neither the user nor the file says anything; as in llama.cpp. */
rt_sampling rt_sampling_usual(uint64_t seed);

/* Replaces the values of *s that the file has; *n_found: how many. unsupported: names of keys, separated by ", ", that
 * ask for what this sampler has not, such as mirostat; cut to n_unsupported bytes, "" where there are none. Values that
 * turn a filter off in llama.cpp do so here; others are not checked: see rt_sampling_check(). GDN_INVALID_ARGUMENT: a
 * key is of the wrong kind. */
gdn_status rt_sampling_of_model(const rt_gguf *file, rt_sampling *s, int *n_found, char *unsupported,
                                size_t n_unsupported);

#endif

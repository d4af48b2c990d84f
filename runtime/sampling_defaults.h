/* What a model's file recommends for sampling: the keys general.sampling.*, which converters make of a model's
 * generation_config.json. */
#ifndef GDN_RUNTIME_SAMPLING_DEFAULTS_H
#define GDN_RUNTIME_SAMPLING_DEFAULTS_H

#include <stddef.h>

#include "runtime/gguf.h"
#include "runtime/sampler.h"

/* For a conversation where neither the user nor the file says anything; as in llama.cpp. */
rt_sampling rt_sampling_usual(uint64_t seed);

/* Sets the values of *s that the file recommends (general.sampling.*); *n_found: how many. Values that switch a filter
 * off in llama.cpp do so here. GDN_INVALID_ARGUMENT: a value is not a number, or outside the range of model_names.def;
 * *s is then as it was. */
gdn_status rt_sampling_of_model(const rt_gguf *file, rt_sampling *s, int *n_found);

#endif

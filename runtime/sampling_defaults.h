/* What a model's file recommends for sampling: the keys general.sampling.*, which converters make of a model's
 * generation_config.json. */
#ifndef GDN_RUNTIME_SAMPLING_DEFAULTS_H
#define GDN_RUNTIME_SAMPLING_DEFAULTS_H

#include <stddef.h>

#include "runtime/gguf.h"
#include "runtime/sampler.h"

/* For a conversation where neither the user nor the file says anything; as in llama.cpp. */
rt_sampling rt_sampling_usual(uint64_t seed);

/* Sets the values of *s that the file recommends (general.sampling.*), and returns how many. A value outside the range
 * of model_names.def leaves the default; rt_next_noted_key() names it. Values that switch a filter off in llama.cpp do
 * so here. */
int rt_sampling_of_model(const rt_gguf *file, rt_sampling *s);

#endif

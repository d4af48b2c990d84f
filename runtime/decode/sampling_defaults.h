/* Sampling parameters that a model file recommends: the keys general.sampling.*, which converters take from the model's
 * generation_config.json. */
#ifndef GDN_RUNTIME_SAMPLING_DEFAULTS_H
#define GDN_RUNTIME_SAMPLING_DEFAULTS_H

#include <stddef.h>

#include "runtime/files/gguf.h"
#include "runtime/decode/sampler.h"

/* Defaults of llama.cpp, for parameters that neither the user nor the file sets. */
rt_sampling rt_sampling_usual(uint64_t seed);

/* Sets the members of *s that the file recommends (general.sampling.*); *n_found: how many. Values that switch off a
 * filter in llama.cpp do so here. GDN_INVALID_ARGUMENT, with *s unchanged: a value is not a number, or outside the
 * range of model_names.def. */
gdn_status rt_sampling_of_model(const rt_gguf *file, rt_sampling *s, int *n_found);

#endif

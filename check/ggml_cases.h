/* The cases of ggml's own operator tests, as calls of ours. */
#ifndef GDN_CHECK_GGML_CASES_H
#define GDN_CHECK_GGML_CASES_H

#include "specs.h"

int ggml_n_delta(void);
void ggml_delta(int i, delta_spec *spec, char *name, size_t bytes);
int ggml_n_conv(void);
void ggml_conv(int i, conv_spec *spec, char *name, size_t bytes);
int ggml_n_rows(void);
void ggml_rows(int i, rows_spec *spec, char *name, size_t bytes);

#endif

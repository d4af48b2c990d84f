/* The families of each kernel: comparisons over several calls. */
#ifndef GDN_CHECK_FAMILIES_H
#define GDN_CHECK_FAMILIES_H

#include "suite.h"

extern const check_family check_families_gated_delta_net[]; /* invariances_gated_delta_net.c */

/* A part of gated_delta_net's fixed list (gated_delta_net_forms.c): what is done to q, k, g and beta first, and 16-bit
 * types. */
void delta_fixed_forms(check_walk *w);
/* Parts of both kernels' lists (checkpoints.c). */
void delta_fixed_checkpoints(check_walk *w, delta_spec *spec);
void conv_fixed_checkpoints(check_walk *w, conv_spec *spec);
/* And of gated_delta_net's (log.c). */
void delta_fixed_log(check_walk *w, delta_spec *spec);
/* And of both (tree.c). */
void delta_fixed_tree(check_walk *w, delta_spec *spec);
void conv_fixed_tree(check_walk *w, conv_spec *spec);
/* And of gated_delta_net's (state16.c). */
void delta_fixed_state16(check_walk *w, delta_spec *spec);

/* Families in files of their own. */
void check_speculation(struct check_trial *trial,
                       check_rng *rng);                    /* invariances_speculation.c: conv and state together */
void check_log(struct check_trial *trial, check_rng *rng); /* invariances_log.c */
void check_state_trees(struct check_trial *trial, check_rng *rng); /* invariances_tree.c */
void check_history_trees(struct check_trial *trial, check_rng *rng);
void check_state16(struct check_trial *trial, check_rng *rng);    /* invariances_state16.c */
void check_far_states(struct check_trial *trial, check_rng *rng); /* far_rows.c: beyond 2^31 elements */
void check_far_histories(struct check_trial *trial, check_rng *rng);
void check_far_rows(struct check_trial *trial, check_rng *rng);

#endif

/* The families of each kernel: comparisons over several calls. */
#ifndef GDN_CHECK_FAMILIES_H
#define GDN_CHECK_FAMILIES_H

#include "specs.h"

/* Families in files of their own. */
void check_speculation(struct check_trial *trial,
                       check_rng *rng);                    /* invariances_speculation.c: conv and state together */
void check_log(struct check_trial *trial, check_rng *rng); /* invariances_log.c */
void check_state16(struct check_trial *trial, check_rng *rng);
void check_state_trees(struct check_trial *trial, check_rng *rng); /* invariances_tree.c */
void check_history_trees(struct check_trial *trial, check_rng *rng);
void check_far_states(struct check_trial *trial, check_rng *rng); /* far_rows.c: beyond 2^31 elements */
void check_far_histories(struct check_trial *trial, check_rng *rng);
void check_far_rows(struct check_trial *trial, check_rng *rng);

#endif

/* Trees of tokens: random ones in calls that may have them. What a branch must come to is in invariances_tree.c. */
#include "specs.h"

void delta_random_tree(delta_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    for (int i = 0; i < 23; i++) /* away from what checkpoints and the log were drawn from */
        check_next(rng);
    if (!spec->log_columns || spec->n_snapshots || spec->interval || check_one_in(rng, 4)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].src != GDN_SKIP && spec->seq[s].length && spec->seq[s].log_row < 0) return;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
}

void conv_random_tree(conv_spec *spec, check_rng own)
{
    check_rng *const rng = &own;
    int longest = 0;
    for (int i = 0; i < 23; i++) check_next(rng);
    if (spec->interval || !check_one_in(rng, 3)) return;
    for (int s = 0; s < spec->n_seqs; s++)
        if (spec->seq[s].length > longest && spec->seq[s].src != GDN_SKIP) longest = spec->seq[s].length;
    spec->tree = 1;
    spec->map_parent = !check_one_in(rng, 8);
    const int least = spec->width - 1 + longest + (check_one_in(rng, 2) ? 0 : check_between(rng, 1, 5));
    if (spec->n_columns < least) spec->n_columns = least;
}

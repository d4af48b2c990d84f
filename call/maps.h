/* Rules for the entries of maps that both kernels over tokens have. Written once, for all languages: each includes a
 * dialect_*.h before. Of it, MAP_ADDRESS is the type of a map that is present, and ENTRY(map, i) its entry i. */
#ifndef GDN_CALL_MAPS_H
#define GDN_CALL_MAPS_H

#define GDN_BAD -3 /* what the functions below return for an entry that is out of range */

/* The tokens of a sequence, [first, after) of n_tokens. */
RULE bool gdn_range_fits(GDN_I32T first, GDN_I32T after, GDN_I32T n_tokens)
{
    return first >= 0 && after >= first && after <= n_tokens;
}

/* The position of a sequence's first token of T: the sequence's length stays below 2^31. */
RULE bool gdn_position_fits(GDN_I32T position, GDN_I32T T) { return position >= 0 && position <= 2147483647 - T; }

/* An entry that is read: a slot, none, or padding. */
RULE bool gdn_source_fits(GDN_I32T entry, GDN_I32T n_entries) { return entry >= GDN_SKIP && entry < n_entries; }

/* An entry that is written: a slot, or none. */
RULE bool gdn_target_fits(GDN_I32T entry, GDN_I32T n_entries) { return entry >= GDN_NONE && entry < n_entries; }

/* The parent of token t, both counted within the sequence: an earlier token, or none. */
RULE bool gdn_parent_fits(GDN_I32T parent, GDN_I32T t) { return parent >= GDN_NONE && parent < t; }

/* Of the tokens t, t + n, ... of a sequence, the first whose parent does not fit; T or more if there is none. */
RULE GDN_I32T gdn_bad_parent(MAP_ADDRESS parent, GDN_I32T first, GDN_I32T T, GDN_I32T t, GDN_I32T n)
{
    while (t < T && gdn_parent_fits(ENTRY(parent, LONG(first) + t), t)) t += n;
    return t;
}

/* How many checkpoints T tokens reach that begin at `position`: the multiples of the interval. */
RULE GDN_I32T gdn_checkpoints_reached(GDN_I32T interval, GDN_I32T position, GDN_I32T T)
{
    return (position + T) / interval - position / interval;
}

/* Which of its n checkpoints a sequence writes after token t; -1: none. */
RULE GDN_I32T gdn_checkpoint_index(GDN_I32T interval, GDN_I32T n, GDN_I32T position, GDN_I32T t)
{
    if (interval == 0 || (position + t + 1) % interval != 0) return -1;
    const GDN_I32T i = gdn_checkpoints_reached(interval, position, t + 1) - 1;
    return i < n ? i : -1;
}

#endif

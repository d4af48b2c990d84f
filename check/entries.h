/* Records which entries of a pool the random call reads and writes so far. The next draw takes an entry that the rules
 * allow: no entry is written twice, nor written by one sequence and read by another. */
#ifndef GDN_CHECK_ENTRIES_H
#define GDN_CHECK_ENTRIES_H

#include "specs.h"

enum { CHECK_NOBODY = -1, CHECK_SEVERAL = -2, CHECK_MAX_ENTRIES = 256 };

typedef struct check_entries {
    int n, reader[CHECK_MAX_ENTRIES], writer[CHECK_MAX_ENTRIES];
} check_entries;

/* n entries, none of them read or written. */
void check_entries_clear(check_entries *e, int n);
void check_entries_read(check_entries *e, int s, int entry);
/* One that sequence s may write, which it then does; or GDN_NONE where eight attempts found none. */
int check_entries_take(check_entries *e, int s, check_rng *rng);
/* 1, and written, where sequence s may write this one. */
int check_entries_write(check_entries *e, int s, int entry);
/* An entry for each of the n checkpoints of sequence s, of which the first n_used are used; and how many tokens apart
 * these are. */
void check_entries_checkpoints(check_entries *e, int s, int *checkpoint, int n, int64_t n_used, check_rng *rng);
int check_draw_interval(check_rng *rng);
/* What a call of gated_delta_net reads and writes without checkpoints and a log. */
void check_entries_of_delta(check_entries *e, const delta_spec *spec);

/* Is seq_start given? It has to be where the lengths of n sequences, `stride` bytes apart, differ. Then tokens may lie
 * before the first sequence and after the last. */
int check_draw_starts(const int *length, size_t stride, int n, int *lead, int *tail, check_rng *rng);

#endif

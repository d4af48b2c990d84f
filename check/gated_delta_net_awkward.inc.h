/* Part of gated_delta_net.c: what the awkward cases of the fixed list set. */

static void set_no_sequences(delta_spec *spec) { delta_batch(spec, 0, 0); }
static void set_no_tokens(delta_spec *spec) { delta_batch(spec, 3, 0); }
static void set_no_tokens_maps(delta_spec *spec)
{
    delta_batch(spec, 3, 0);
    spec->map_start = spec->map_src = spec->map_dst = 1;
    spec->lead = 2;
}
static void set_ragged(delta_spec *spec)
{
    static const int lengths[] = { 0, 5, 0, 0, 1, 12, 0, 2 };
    delta_batch(spec, 8, 1);
    for (int s = 0; s < 8; s++) spec->seq[s].length = lengths[s];
    spec->map_start = 1;
}
static void set_ragged_windows(delta_spec *spec)
{
    set_ragged(spec);
    spec->lead = 3;
    spec->tail = 4;
    spec->strided = 1;
}
/* Of n sequences each step-th. */
static void skip(delta_spec *spec, int n, int step)
{
    delta_batch(spec, n, 3);
    spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < n; s += step) spec->seq[s].src = GDN_SKIP;
}
static void set_all_skipped(delta_spec *spec) { skip(spec, 4, 1); }
static void set_some_skipped(delta_spec *spec) { skip(spec, 6, 2); }
/* Padding in both maps, while row 0 belongs to a live sequence: a peer clamped -1 to 0 and overwrote it. */
static void set_padding_beside_row_0(delta_spec *spec)
{
    delta_batch(spec, 4, 2);
    spec->map_src = spec->map_dst = 1;
    for (int s = 1; s < 4; s++) {
        spec->seq[s].src = s == 1 ? GDN_SKIP : GDN_NONE;
        spec->seq[s].dst[0] = GDN_NONE;
    }
}
static void set_from_zero(delta_spec *spec)
{
    delta_batch(spec, 4, 2);
    spec->map_src = 1;
    for (int s = 0; s < 4; s++) spec->seq[s].src = GDN_NONE;
}
static void set_nothing_kept(delta_spec *spec)
{
    delta_batch(spec, 4, 2);
    spec->map_dst = 1;
    for (int s = 0; s < 4; s++) spec->seq[s].dst[0] = GDN_NONE;
}
static void set_shared_source(delta_spec *spec)
{
    delta_batch(spec, 4, 2);
    spec->n_rows = spec->n_rows_out = 5;
    spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < 4; s++) {
        spec->seq[s].src = 2;
        spec->seq[s].dst[0] = s < 2 ? s : s + 1;
    }
}
static void set_permuted_rows(delta_spec *spec)
{
    delta_batch(spec, 6, 1);
    spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < 6; s++) spec->seq[s].src = spec->seq[s].dst[0] = (s * 5 + 3) % 6;
}
static void set_other_slot(delta_spec *spec)
{
    spec->n_slots = spec->n_slots_out = 3;
    delta_batch(spec, 3, 4);
    spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < 3; s++) {
        spec->seq[s].src = s * 3 + 1;
        spec->seq[s].dst[0] = s * 3 + 2;
    }
}
static void set_only_older_snapshot(delta_spec *spec)
{
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = 4;
    delta_batch(spec, 2, 6);
    spec->map_dst = 1;
    for (int s = 0; s < 2; s++) spec->seq[s].dst[0] = spec->seq[s].dst[1] = spec->seq[s].dst[3] = GDN_NONE;
}
static void set_strided(delta_spec *spec)
{
    spec->n_slots = spec->n_slots_out = spec->n_snapshots = 3;
    delta_batch(spec, 3, 5);
    spec->strided = 1;
}
static void set_strided_half(delta_spec *spec)
{
    set_strided(spec);
    spec->dtype[0] = spec->dtype[1] = spec->dtype[2] = GDN_F16;
    spec->dim_k = 33;
    spec->dim_v = 47;
}
static void set_same_keys(delta_spec *spec)
{
    delta_batch(spec, 2, 3);
    spec->same_keys = 1;
}
static void set_long_memory(delta_spec *spec)
{
    delta_batch(spec, 1, 300);
    spec->values[DELTA_G] = CHECK_GATE_SLOW;
}
static void set_tiny_scale(delta_spec *spec)
{
    delta_batch(spec, 1, 3);
    spec->scale = -1e-41f;
}
/* Every other sequence is empty and names as its source the slot that the next one writes: allowed, since it
 * reads nothing. Who reads all the same races with that writer, which ThreadSanitizer sees. */
static void set_empty_source(delta_spec *spec)
{
    delta_batch(spec, 12, 2);
    spec->map_start = spec->map_src = spec->map_dst = 1;
    for (int s = 0; s < 12; s += 2) {
        spec->seq[s].length = 0;
        spec->seq[s].src = s + 1;
        spec->seq[s].dst[0] = GDN_NONE;
        spec->seq[s + 1].src = GDN_NONE;
    }
}

/* gdn bench: what the files of gated_delta_net's rows share: the shape, and the setup of rows with several calls. */
#ifndef GDN_BENCH_GATED_DELTA_NET_H
#define GDN_BENCH_GATED_DELTA_NET_H

#include "bench/bench.h"

/* Qwen3-Next and Qwen3.5 */
enum { HEADS_V = 32, HEADS_K = 16, HEAD_DIM = 128, STATE = HEADS_V * HEAD_DIM * HEAD_DIM };

/* Arguments for `tokens` tokens in all, with a state per sequence. */
gdn_gated_delta_net_args bench_delta_args(int seqs, int64_t tokens);
/* Inputs as a model's projections give them: q and k to be normalised, raw gates. */
gdn_delta_inputs bench_raw_inputs(void);

/* Rows of HEAD_DIM with an l2 norm of 1; malloc. */
float *bench_unit_rows(uint64_t seed, int64_t n_rows);

/* Traffic of tokens: reads operands first_read .. last_read, and writes `write`. */
void bench_token_traffic(bench_row *row, int first_read, int last_read, int write);

/* Verification of four tokens with a replay log. round: with three entries replayed and the state committed. */
gdn_status bench_log_setup(bench_row *row, int seqs, int round);

/* The chunked form: 32 calls of one token, or a call of more. */
gdn_status bench_chunked_setup(bench_row *row, int seqs, int tokens, int digits);

/* One token through the operations between a layer's projections, with norms and gates inside the calls. */
gdn_status bench_layer_setup(bench_row *row, int seqs);

#endif

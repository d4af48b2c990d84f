/* See memory_fixture.h. */
#include "memory_fixture.h"

const rt_model memory_model = { .n_recurrent = 1,
                                .n_attention = 1,
                                .fingerprint = { 1, 2, 3 },
                                .hp = FIELDS(.n_embd = 1, .n_mtp = 1, .n_head_kv = 1, .head_dim = 1, .conv_kernel = 3,
                                             .state_size = 1, .n_value_heads = 1, .n_channels = 1) };

rt_memory *memory_open(gdn_context *context, int32_t n_seqs, int32_t n_cells, int32_t n_rollback)
{
    const rt_memory_desc desc = FIELDS(.model = &memory_model, .device = context, .host = context, .n_seqs = n_seqs,
                                       .n_cells = n_cells, .n_rollback = n_rollback, .kv_type = GDN_F16, .draft = 1);
    rt_memory *m;
    NEED(!rt_memory_create(&desc, &m));
    const rt_pool pool = rt_memory_pool(m, 0);
    memset(pool.state.data, 1, pool.state.bytes);
    memset(pool.conv.data, 2, pool.conv.bytes);
    for (int32_t layer = 0; layer < 2; layer++) {
        memset(rt_memory_k(m, layer), 3, (size_t)n_cells * 2);
        memset(rt_memory_v(m, layer), 4, (size_t)n_cells * 2);
    }
    return m;
}

gdn_status memory_advance(rt_memory *m, int32_t seq, int32_t n)
{
    rt_step *step;
    const gdn_status status = rt_memory_step_begin(m, &(rt_token_run){ seq, 0, n }, 1, &step);
    if (status) return status;
    rt_memory_step_commit(m, step);
    for (int32_t p = rt_memory_seq_length(m, seq) - n; p < rt_memory_seq_length(m, seq); p++)
        rt_memory_hidden_put(m, seq, p, p, &(float){ (float)p });
    return GDN_OK;
}

/* Adds the MTP block of a file of its own to a model. See model.h. */
#include <string.h>

#include "runtime/model/model_internal.h"

/* Compares what the block has to share with the model. Sizes of the feed forward are the block's own. */
static gdn_status check_same(const rt_model *m, const rt_model *mtp)
{
    const rt_hparams *a = &m->hp, *b = &mtp->hp;
    const struct {
        const char *key;
        double model, file;
    } list[] = {
        { "embedding_length", a->n_embd, b->n_embd },
        { "block_count - nextn_predict_layers", a->n_layer, b->n_layer },
        { "attention.head_count", a->n_head, b->n_head },
        { "attention.head_count_kv", a->n_head_kv, b->n_head_kv },
        { "attention.key_length", a->head_dim, b->head_dim },
        { "attention.scale", (double)a->attention_scale, (double)b->attention_scale },
        { "attention.layer_norm_rms_epsilon", (double)a->rms_eps, (double)b->rms_eps },
        { "rope.dimension_count", a->n_rot, b->n_rot },
        { "rope.freq_base", (double)a->rope_base, (double)b->rope_base },
        { "feed_forward_length", a->n_ff, b->n_ff },
        { "expert_count", a->n_expert, b->n_expert },
        { "expert_used_count", a->n_expert_used, b->n_expert_used },
        { "expert_feed_forward_length", a->n_ff_expert, b->n_ff_expert },
        { "expert_shared_feed_forward_length", a->n_ff_shared, b->n_ff_shared },
        { "expert_weights_scale", (double)a->expert_scale, (double)b->expert_scale },
        { "expert_weights_norm", a->expert_norm, b->expert_norm },
        { "token_embd.weight: tokens", a->n_vocab, b->n_vocab },
    };
    if (a->arch != b->arch)
        return rt_fail(GDN_INVALID_ARGUMENT, "general.architecture is %s, and the model's is %s", rt_arch_name(b->arch),
                       rt_arch_name(a->arch));
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i].model != list[i].file)
            return rt_fail(GDN_INVALID_ARGUMENT, "%s is %.9g, and the model's is %.9g", list[i].key, list[i].file,
                           list[i].model);
    if (memcmp(&a->rope_scaling, &b->rope_scaling, sizeof a->rope_scaling) != 0)
        return rt_fail(GDN_INVALID_ARGUMENT, "rope.scaling differs from the model's");
    if (rt_gguf_has(mtp->file, "tokenizer.ggml.tokens") && m->fingerprint.tokenizer != mtp->fingerprint.tokenizer)
        return rt_fail(GDN_INVALID_ARGUMENT, "the tokenizer (tokenizer.ggml.*) differs from the model's");
    return GDN_OK;
}

/* Gives the model the block, and what the file leaves to it. */
static gdn_status attach(rt_model *m, rt_model *mtp)
{
    rt_layer *const layer = rt_calloc((uint64_t)m->hp.n_layer + 1, sizeof *layer, "layers");
    if (!layer) return GDN_OUT_OF_MEMORY;
    memcpy(layer, m->layer, (size_t)m->hp.n_layer * sizeof *layer);
    rt_layer *const block = &layer[m->hp.n_layer];
    *block = mtp->layer[m->hp.n_layer];
    block->index_in_kind = m->n_attention;
    if (block->head_norm == mtp->output_norm) block->head_norm = m->output_norm;
    rt_free(m->layer);
    m->layer = layer;
    m->mtp_embd = mtp->mtp_embd.data == mtp->tok_embd.data ? m->tok_embd : mtp->mtp_embd;
    m->mtp_head = mtp->mtp_head.data == mtp->output.data ? m->output : mtp->mtp_head;
    m->weight_bytes += mtp->weight_bytes;
    m->hp.n_mtp = 1;
    m->mtp = mtp;
    return GDN_OK;
}

gdn_status rt_model_add_mtp(rt_model *m, const char *path, rt_budget *budget)
{
    rt_gguf *file;
    rt_model *mtp = NULL;
    gdn_status status = rt_gguf_open(path, budget, &file);
    if (!status) status = model_load(file, budget, 0, 1, &mtp);
    if (!status) status = check_same(m, mtp);
    if (!status) status = attach(m, mtp);
    if (status) rt_model_free(mtp);
    return status;
}

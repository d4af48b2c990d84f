/* Loads a model: binds the tensors of a file by name and converts vectors. See model.h. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model/model_internal.h"

static gdn_status find_arch(rt_model *m, const char **name)
{
    static const rt_arch arches[] = { RT_QWEN3NEXT, RT_QWEN35, RT_QWEN35MOE };
    rt_string given;
    gdn_status status = rt_gguf_get_string(m->file, "general.architecture", &given);
    for (int i = 0; !status && i < 3; i++) {
        *name = rt_arch_name(arches[i]);
        if (given.bytes == strlen(*name) && !memcmp(given.text, *name, given.bytes)) {
            m->hp.arch = arches[i];
            return GDN_OK;
        }
    }
    if (status) return status;
    return rt_fail(GDN_UNSUPPORTED, "general.architecture is \"%.*s\"; qwen3next, qwen35 and qwen35moe can be run",
                   given.bytes > 64 ? 64 : (int)given.bytes, given.text);
}

/* ---- Tensors ---- */

enum { OPTIONAL = 1, NAME_BYTES = 96 };

static int is_mtp(const reader *r, int32_t l) { return l >= r->model->hp.n_layer; }

/* Finds the tensor `name` of block l (-1: of no block), or NULL; writes its full name to `full`. */
static const rt_gguf_tensor *find(reader *r, int flags, int32_t l, const char *name, char full[NAME_BYTES])
{
    const int prefix = l < 0 ? 0 : snprintf(full, NAME_BYTES, "blk.%d.", (int)l);
    (void)snprintf(full + prefix, NAME_BYTES - (size_t)prefix, "%s", name);
    const rt_gguf_tensor *t = r->status ? NULL : rt_gguf_find(r->model->file, full);
    if (!t && !r->status && !(flags & OPTIONAL))
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "tensor %s is missing", full);
    if (t && !rt_tensor_is_used(r->model->hp.arch, name))
        r->status = rt_fail(GDN_INTERNAL, "tensor %s is read, but model_names.def does not have it", full);
    if (t) r->model->used[t - rt_gguf_tensor_at(r->model->file, 0)] = is_mtp(r, l) ? OF_MTP : OF_TRUNK;
    return t;
}

/* Counts the bytes of a used tensor, in the counting pass. */
static void count(reader *r, int32_t l, const rt_gguf_tensor *t)
{
    if (!r->storage) *(is_mtp(r, l) ? &r->mtp_bytes : &r->model->weight_bytes) += t->bytes;
}

static rt_weight matrix(reader *r, int flags, int32_t n_columns, int32_t n_rows, int32_t n_matrices, int32_t l,
                        const char *tensor)
{
    rt_weight none = { 0 };
    char name[NAME_BYTES];
    const rt_gguf_tensor *t = find(r, flags, l, tensor, name);
    if (!t) return none;
    const rt_type_info *type = rt_type_describe(t->type);
    if (!type || !t->data) {
        r->status = rt_fail(GDN_UNSUPPORTED, "tensor %s has type %s (ggml type %d); %s can be run", name,
                            rt_gguf_type_name(t->type), (int)t->type, rt_type_names());
        return none;
    }
    const int64_t rows = n_rows ? n_rows : t->ne[1]; /* 0: any number (the vocabulary) */
    if (t->ne[0] != n_columns || t->ne[1] != rows || t->ne[2] != n_matrices || t->ne[3] != 1 || rows > INT32_MAX) {
        r->status =
            rt_fail(GDN_INVALID_ARGUMENT, "tensor %s has ne = {%lld, %lld, %lld, %lld}; {%d, %lld, %d, 1} is expected",
                    name, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3],
                    (int)n_columns, (long long)rows, (int)n_matrices);
        return none;
    }
    const rt_weight w = {
        t->data, t->type, n_columns, (int32_t)rows, n_matrices, n_columns / type->block * type->block_bytes, 0
    };
    count(r, l, t);
    return w;
}

/* The shape without dimensions of 1. */
static void squeeze(const int64_t ne[4], int64_t out[4])
{
    int n = 0;
    for (int d = 0; d < 4; d++) out[d] = 1;
    for (int d = 0; d < 4; d++)
        if (ne[d] != 1) out[n++] = ne[d];
}

/* Converts a tensor of few elements to F32 in the model's storage; NULL while counting. Dimensions of 1 may lie
 * anywhere: converters leave them out or not. */
static const float *table(reader *r, int flags, int64_t n_columns, int64_t n_rows, int32_t l, const char *tensor)
{
    const int64_t n = n_columns * n_rows, shape[4] = { n_columns, n_rows, 1, 1 };
    int64_t want[4], have[4];
    char name[NAME_BYTES];
    const rt_gguf_tensor *t = find(r, flags, l, tensor, name);
    if (!t) return NULL;
    const rt_type_info *type = rt_type_describe(t->type);
    if (!type || !t->data || t->ne[0] % type->block) {
        r->status = rt_fail(GDN_UNSUPPORTED, "tensor %s has type %s (ggml type %d), which cannot be run here", name,
                            rt_gguf_type_name(t->type), (int)t->type);
        return NULL;
    }
    squeeze(shape, want);
    squeeze(t->ne, have);
    if (memcmp(want, have, sizeof want) != 0) {
        r->status =
            rt_fail(GDN_INVALID_ARGUMENT, "tensor %s has ne = {%lld, %lld, %lld, %lld}; {%lld, %lld, 1, 1} is expected",
                    name, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3],
                    (long long)n_columns, (long long)n_rows);
        return NULL;
    }
    count(r, l, t);
    if (r->trunk && is_mtp(r, l)) return NULL;
    const uint64_t at = r->n_vectors;
    r->n_vectors += (uint64_t)(n + 15) / 16 * 16;
    if (!r->storage) return NULL;
    const rt_weight w = {
        t->data, t->type, (int32_t)t->ne[0], (int32_t)(n / t->ne[0]), 1, t->ne[0] / type->block * type->block_bytes, 0
    };
    for (int64_t row = 0; row < n / t->ne[0]; row++) rt_weight_row(&w, row, r->storage + at + row * t->ne[0]);
    return r->storage + at;
}

static const float *vector(reader *r, int flags, int64_t n, int32_t l, const char *tensor)
{
    return table(r, flags, n, 1, l, tensor);
}

static int has_tensor(const reader *r, int l, const char *tensor)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "blk.%d.%s", l, tensor);
    return rt_gguf_find(r->model->file, name) != NULL;
}

static const unsigned char *copy_rows(const rt_weight *to, int64_t row, const unsigned char *from, int64_t n_rows)
{
    unsigned char *at;
    memcpy(&at, &to->data, sizeof at); /* data points into the model's own storage */
    memcpy(at + row * to->row_bytes, from, (size_t)(n_rows * to->row_bytes));
    return from + n_rows * to->row_bytes;
}

/* Splits ssm_in, which has q, k, v and z of the first key head, then of the second, and so on. Copies its rows into the
 * order of attn_qkv (q of all heads, k of all heads, v of all heads) and attn_gate (z of all heads). */
static void split_qkvz(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t nk = hp->n_key_heads, dk = hp->state_size;
    const int32_t inner = hp->n_value_heads * dk, of_head = inner / nk;
    const rt_weight all = matrix(r, 0, hp->n_embd, hp->n_channels + inner, 1, l, "ssm_in.weight");
    const uint64_t at = r->n_split;
    if (r->status) return;
    layer->qkv = all;
    layer->gate = all;
    layer->qkv.n_rows = hp->n_channels;
    layer->gate.n_rows = inner;
    r->n_split += (uint64_t)(hp->n_channels + inner) * (uint64_t)all.row_bytes;
    if (!r->split) return;
    layer->qkv.data = r->split + at;
    layer->gate.data = layer->qkv.data + hp->n_channels * all.row_bytes;
    const unsigned char *from = all.data;
    for (int32_t h = 0; h < nk; h++) {
        from = copy_rows(&layer->qkv, (int64_t)h * dk, from, dk);
        from = copy_rows(&layer->qkv, (int64_t)(nk + h) * dk, from, dk);
        from = copy_rows(&layer->qkv, 2 * (int64_t)nk * dk + (int64_t)h * of_head, from, of_head);
        from = copy_rows(&layer->gate, (int64_t)h * of_head, from, of_head);
    }
}

/* ssm_a is -exp(A_log): with a value above 0 a state would grow. */
static void check_decay(reader *r, int l, const float *a)
{
    for (int32_t h = 0; a && !r->status && h < r->model->hp.n_value_heads; h++)
        if (!(a[h] <= 0 && a[h] >= -FLT_MAX))
            r->status = rt_fail(GDN_INVALID_ARGUMENT,
                                "tensor blk.%d.ssm_a has %g for head %d; finite numbers up to 0 are allowed, since it "
                                "is -exp(A_log)",
                                l, (double)a[h], (int)h);
}

static void bind_recurrent(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t E = hp->n_embd, nv = hp->n_value_heads;
    const int32_t inner = nv * hp->state_size;
    if (hp->arch == RT_QWEN3NEXT && !has_tensor(r, l, "attn_qkv.weight") && has_tensor(r, l, "ssm_in.weight")) {
        split_qkvz(r, layer, l);
    } else {
        layer->qkv = matrix(r, 0, E, hp->n_channels, 1, l, "attn_qkv.weight");
        layer->gate = matrix(r, 0, E, inner, 1, l, "attn_gate.weight");
    }
    if (hp->arch == RT_QWEN3NEXT) {
        layer->ba = matrix(r, 0, E, 2 * nv, 1, l, "ssm_ba.weight");
    } else {
        layer->beta = matrix(r, 0, E, nv, 1, l, "ssm_beta.weight");
        layer->alpha = matrix(r, 0, E, nv, 1, l, "ssm_alpha.weight");
    }
    layer->conv = table(r, 0, hp->conv_kernel, hp->n_channels, l, "ssm_conv1d.weight");
    layer->dt_bias = vector(r, 0, nv, l, has_tensor(r, l, "ssm_dt") ? "ssm_dt" : "ssm_dt.bias");
    layer->a = vector(r, 0, nv, l, "ssm_a");
    check_decay(r, l, layer->a);
    layer->ssm_norm = vector(r, 0, hp->state_size, l, "ssm_norm.weight");
    layer->ssm_out = matrix(r, 0, inner, E, 1, l, "ssm_out.weight");
}

/* Rows [first, first + n) of each matrix of `all`. */
static rt_weight part_of(const rt_weight *all, int32_t first, int32_t n)
{
    rt_weight part = *all;
    if (!all->data) return part;
    part.data += first * all->row_bytes;
    part.n_rows = n;
    part.matrix_bytes = all->n_rows * all->row_bytes;
    return part;
}

static void bind_attention(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t E = hp->n_embd, hd = hp->head_dim;
    const int32_t q = 2 * hd * hp->n_head, kv = hd * hp->n_head_kv;
    const int fused = !has_tensor(r, l, "attn_q.weight") && has_tensor(r, l, "attn_qkv.weight");
    if (fused) {
        const rt_weight all = matrix(r, 0, E, q + 2 * kv, 1, l, "attn_qkv.weight");
        layer->wq = part_of(&all, 0, q);
        layer->wk = part_of(&all, q, kv);
        layer->wv = part_of(&all, q + kv, kv);
    } else {
        layer->wq = matrix(r, 0, E, q, 1, l, "attn_q.weight");
        layer->wk = matrix(r, 0, E, kv, 1, l, "attn_k.weight");
        layer->wv = matrix(r, 0, E, kv, 1, l, "attn_v.weight");
    }
    layer->wo = matrix(r, 0, hd * hp->n_head, E, 1, l, "attn_output.weight");
    layer->q_norm = vector(r, 0, hd, l, "attn_q_norm.weight");
    layer->k_norm = vector(r, 0, hd, l, "attn_k_norm.weight");
    if (fused && has_tensor(r, l, "attn_qkv.bias")) {
        const float *const all = vector(r, 0, q + 2 * (int64_t)kv, l, "attn_qkv.bias");
        layer->q_bias = all;
        layer->k_bias = all ? all + q : NULL;
        layer->v_bias = all ? all + q + kv : NULL;
    } else {
        layer->q_bias = vector(r, OPTIONAL, q, l, "attn_q.bias");
        layer->k_bias = vector(r, OPTIONAL, kv, l, "attn_k.bias");
        layer->v_bias = vector(r, OPTIONAL, kv, l, "attn_v.bias");
    }
    layer->o_bias = vector(r, OPTIONAL, E, l, "attn_output.bias");
}

static void bind_feed_forward(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t E = hp->n_embd;
    if (!hp->n_expert) {
        layer->ffn_gate = matrix(r, 0, E, hp->n_ff, 1, l, "ffn_gate.weight");
        layer->ffn_up = matrix(r, 0, E, hp->n_ff, 1, l, "ffn_up.weight");
        layer->ffn_down = matrix(r, 0, hp->n_ff, E, 1, l, "ffn_down.weight");
        return;
    }
    const int32_t X = hp->n_expert, F = hp->n_ff_expert;
    layer->router = matrix(r, 0, E, X, 1, l, "ffn_gate_inp.weight");
    if (!has_tensor(r, l, "ffn_gate_exps.weight") && has_tensor(r, l, "ffn_gate_up_exps.weight")) {
        const rt_weight all = matrix(r, 0, E, 2 * F, X, l, "ffn_gate_up_exps.weight");
        layer->gate_exps = part_of(&all, 0, F);
        layer->up_exps = part_of(&all, F, F);
    } else {
        layer->gate_exps = matrix(r, 0, E, F, X, l, "ffn_gate_exps.weight");
        layer->up_exps = matrix(r, 0, E, F, X, l, "ffn_up_exps.weight");
    }
    layer->down_exps = matrix(r, 0, F, E, X, l, "ffn_down_exps.weight");
    if (hp->n_ff_shared) {
        layer->gate_shexp = matrix(r, 0, E, hp->n_ff_shared, 1, l, "ffn_gate_shexp.weight");
        layer->up_shexp = matrix(r, 0, E, hp->n_ff_shared, 1, l, "ffn_up_shexp.weight");
        layer->down_shexp = matrix(r, 0, hp->n_ff_shared, E, 1, l, "ffn_down_shexp.weight");
        layer->shexp_gate = vector(r, 0, E, l, "ffn_gate_inp_shexp.weight");
    }
}

static void bind(reader *r)
{
    rt_model *m = r->model;
    rt_hparams *hp = &m->hp;
    m->tok_embd = matrix(r, 0, hp->n_embd, 0, 1, -1, "token_embd.weight");
    if (r->status) return;
    hp->n_vocab = m->tok_embd.n_rows;
    m->output = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, -1, "output.weight");
    m->output = m->output.data ? m->output : m->tok_embd;
    m->output_norm = vector(r, r->only_mtp ? OPTIONAL : 0, hp->n_embd, -1, "output_norm.weight");
    m->mtp_embd = m->tok_embd;
    m->mtp_head = m->output;
    for (int32_t l = r->only_mtp ? hp->n_layer : 0; l < hp->n_layer + hp->n_mtp; l++) {
        rt_layer *layer = &m->layer[l];
        layer->attn_norm = vector(r, 0, hp->n_embd, l, "attn_norm.weight");
        layer->post_attention_norm = vector(r, 0, hp->n_embd, l, "post_attention_norm.weight");
        (layer->recurrent ? bind_recurrent : bind_attention)(r, layer, (int)l);
        bind_feed_forward(r, layer, (int)l);
        if (l < hp->n_layer) continue;
        layer->eh_proj = matrix(r, 0, 2 * hp->n_embd, hp->n_embd, 1, l, "nextn.eh_proj.weight");
        layer->enorm = vector(r, 0, hp->n_embd, l, "nextn.enorm.weight");
        layer->hnorm = vector(r, 0, hp->n_embd, l, "nextn.hnorm.weight");
        layer->head_norm = vector(r, OPTIONAL, hp->n_embd, l, "nextn.shared_head_norm.weight");
        layer->head_norm = layer->head_norm ? layer->head_norm : m->output_norm;
        const rt_weight embd = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, l, "nextn.embed_tokens.weight");
        const rt_weight head = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, l, "nextn.shared_head_head.weight");
        m->mtp_embd = embd.data ? embd : m->mtp_embd;
        m->mtp_head = head.data ? head : m->mtp_head;
    }
}

/* True if the file has a tensor of block l whose name goes on with `rest`. */
static int has_block(const rt_gguf *file, int32_t l, const char *rest)
{
    char prefix[32];
    const int n = snprintf(prefix, sizeof prefix, "blk.%d.%s", (int)l, rest);
    for (int64_t i = 0; i < rt_gguf_n_tensors(file); i++) {
        const rt_string name = rt_gguf_tensor_at(file, i)->name;
        if (name.bytes > (uint64_t)n && !memcmp(name.text, prefix, (size_t)n)) return 1;
    }
    return 0;
}

/* Handles files that declare an MTP block without having its tensors, or have it without declaring it, or have nothing
 * else. */
static void check_last_block(reader *r)
{
    rt_hparams *hp = &r->model->hp;
    const rt_gguf *file = r->model->file;
    const int32_t last = hp->n_layer + hp->n_mtp - 1;
    char key[64];
    (void)snprintf(key, sizeof key, "%s.nextn_predict_layers", r->arch);
    if (!hp->n_mtp && (has_block(file, last, "nextn.") || has_block(file, last + 1, "nextn."))) {
        const int32_t l = has_block(file, last, "nextn.") ? last : last + 1;
        r->status = rt_fail(GDN_INVALID_ARGUMENT,
                            "%s is %s, but block %d is an MTP block; it has to be 1, and "
                            "%s.block_count %d",
                            key, rt_gguf_has(file, key) ? "0" : "missing", (int)l, r->arch, (int)l + 1);
        return;
    }
    if (r->only_mtp) {
        if (!hp->n_mtp || !has_block(file, last, "nextn."))
            r->status = rt_fail(GDN_UNSUPPORTED, "the file has no MTP block (%s is %d)", key, (int)hp->n_mtp);
        else if (has_block(file, 0, ""))
            r->status =
                rt_fail(GDN_UNSUPPORTED, "the file has the blocks of a whole model; one with the MTP block only "
                                         "can be added to another file");
        return;
    }
    if (hp->n_mtp && has_block(file, last, "") && !has_block(file, 0, "")) {
        r->status = rt_fail(GDN_UNSUPPORTED,
                            "the file has the MTP block of a model only, block %d, as llama.cpp's converter writes it "
                            "with --mtp; run the file of the model, and name this one with --draft-model",
                            (int)last);
        return;
    }
    if (has_block(file, last, "")) return;
    if (!hp->n_mtp)
        r->status = rt_fail(GDN_INVALID_ARGUMENT,
                            "%s.block_count is %d, but the file has no tensor of block %d; if that is the MTP block, "
                            "%s.nextn_predict_layers has to be 1",
                            r->arch, (int)hp->n_layer, (int)hp->n_layer - 1, r->arch);
    else if (!r->trunk)
        r->status =
            rt_fail(GDN_UNSUPPORTED,
                    "%s.nextn_predict_layers is 1, but the file has no tensor of block %d, the MTP block; it can "
                    "be run without drafts of that block (--spec off)",
                    r->arch, (int)hp->n_layer);
    hp->n_mtp = 0;
}

gdn_status model_load(rt_gguf *file, rt_budget *budget, int trunk, int only_mtp, rt_model **model)
{
    *model = NULL;
    rt_model *m = rt_calloc(1, sizeof *m, "the model");
    if (!m) {
        rt_gguf_close(file);
        return GDN_OUT_OF_MEMORY;
    }
    m->file = file;
    const uint64_t n_tensors = (uint64_t)rt_gguf_n_tensors(file);
    reader r = { .model = m, .trunk = trunk, .only_mtp = only_mtp };
    r.status = find_arch(m, &r.arch);
    if (!r.status) r.status = rt_check_keys(file, m->hp.arch);
    if (!r.status) model_read_hparams(&r);
    if (!r.status) check_last_block(&r);
    if (!r.status) r.status = rt_budget_take(budget, n_tensors, "which tensors are used");
    if (!r.status) {
        m->used = rt_calloc(n_tensors, 1, "which tensors are used");
        r.status = m->used ? GDN_OK : GDN_OUT_OF_MEMORY;
    }
    if (!r.status)
        r.status = rt_budget_take(budget, (uint64_t)(m->hp.n_layer + m->hp.n_mtp) * sizeof *m->layer, "layers");
    if (!r.status) {
        m->layer = rt_calloc((uint64_t)(m->hp.n_layer + m->hp.n_mtp), sizeof *m->layer, "layers");
        r.status = m->layer ? GDN_OK : GDN_OUT_OF_MEMORY;
    }
    if (!r.status) model_read_layer_kinds(&r);
    if (!r.status) r.status = rt_check_tensors(file, m->hp.arch, NULL);
    if (!r.status) bind(&r);                     /* first pass checks and counts, second fills */
    if (only_mtp) m->weight_bytes = r.mtp_bytes; /* the rest is the model's */
    else if (!trunk) m->weight_bytes += r.mtp_bytes;
    if (!r.status) r.status = rt_check_tensors(file, m->hp.arch, m->used);
    if (!r.status) r.status = rt_budget_take(budget, m->weight_bytes, "the weights");
    if (!r.status)
        r.status = rt_budget_take(budget, r.n_vectors * sizeof *m->vectors, "norms and other vectors, as F32,");
    if (!r.status) r.status = rt_budget_take(budget, r.n_split, "matrices that are split");
    if (!r.status && r.n_split) {
        m->split = rt_calloc(r.n_split, 1, "matrices that are split");
        r.status = m->split ? GDN_OK : GDN_OUT_OF_MEMORY;
        r.split = m->split;
        r.n_split = 0;
    }
    if (!r.status) {
        m->vectors = rt_calloc(r.n_vectors, sizeof *m->vectors, "norms and other vectors");
        r.status = m->vectors ? GDN_OK : GDN_OUT_OF_MEMORY;
        r.storage = m->vectors;
        r.n_vectors = 0;
        if (!r.status) bind(&r);
    }
    if (!r.status) m->fingerprint = model_fingerprint(m);
    if (trunk) m->hp.n_mtp = 0;
    if (r.status) rt_model_free(m);
    else *model = m;
    return r.status;
}

gdn_status rt_model_from_gguf(rt_gguf *file, rt_budget *budget, rt_model **model)
{
    return model_load(file, budget, 0, 0, model);
}

gdn_status rt_model_load(const char *path, rt_budget *budget, rt_model **model)
{
    rt_gguf *file;
    *model = NULL;
    const gdn_status status = rt_gguf_open(path, budget, &file);
    return status ? status : rt_model_from_gguf(file, budget, model);
}

gdn_status rt_model_load_trunk(const char *path, rt_budget *budget, rt_model **model)
{
    rt_gguf *file;
    *model = NULL;
    const gdn_status status = rt_gguf_open(path, budget, &file);
    return status ? status : model_load(file, budget, 1, 0, model);
}

void rt_model_free(rt_model *model)
{
    if (!model) return;
    rt_model_free(model->mtp);
    rt_gguf_close(model->file);
    rt_free(model->used);
    rt_free(model->layer);
    rt_free(model->vectors);
    rt_free(model->split);
    rt_free(model);
}

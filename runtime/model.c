/* Hyperparameters and tensors of a model file. See model.h. */
#include "runtime/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/error.h"

/* A file being read: the first failure sticks, so that the lists below need no checks between them. */
typedef struct reader {
    rt_model   *model;
    const char *arch;
    gdn_status  status;
    uint64_t    n_vectors; /* floats of vectors so far; where storage is given, also written          */
    float      *storage;   /* NULL while counting                                                    */
    unsigned char *used;   /* [tensors of the file] 1 where one was found by its name                */
    int         trunk;     /* the MTP block is only checked                                          */
    uint64_t    mtp_bytes; /* of the MTP block's tensors, which weight_bytes does not have at first   */
} reader;

static const char *key_of(reader *r, const char *name, char *buffer, size_t bytes)
{
    if (!r->status && !rt_key_is_used(r->model->hp.arch, name))
        r->status = rt_fail(GDN_INTERNAL, "the key %s.%s is read, but model_names.def does not have it", r->arch, name);
    snprintf(buffer, bytes, "%s.%s", r->arch, name);
    return buffer;
}

static int64_t whole(reader *r, const char *name, int64_t low, int64_t high)
{
    char    key[128];
    int64_t value = 0;
    if (!r->status)
        r->status = rt_gguf_get_int(r->model->file, key_of(r, name, key, sizeof key), low, high, &value);
    return value;
}

static int64_t whole_or(reader *r, const char *name, int64_t low, int64_t high, int64_t otherwise)
{
    char key[128];
    return rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key)) ? whole(r, name, low, high) : otherwise;
}

static float real(reader *r, const char *name, float low, float high)
{
    char  key[128];
    float value = 0;
    if (!r->status)
        r->status = rt_gguf_get_float(r->model->file, key_of(r, name, key, sizeof key), &value);
    if (!r->status && !(value >= low && value <= high))
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s is %g; %g to %g are allowed", key, (double)value, (double)low,
                            (double)high);
    return value;
}

static float real_or(reader *r, const char *name, float low, float high, float otherwise)
{
    char key[128];
    return rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key)) ? real(r, name, low, high) : otherwise;
}

static int truth_or(reader *r, const char *name, int otherwise)
{
    char key[128];
    int  value = otherwise;
    if (!r->status && rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key)))
        r->status = rt_gguf_get_bool(r->model->file, key, &value);
    return value;
}

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
    if (status)
        return status;
    return rt_fail(GDN_UNSUPPORTED, "general.architecture is \"%.*s\"; qwen3next, qwen35 and qwen35moe can be run",
                   given.bytes > 64 ? 64 : (int)given.bytes, given.text);
}

static int has(reader *r, const char *name)
{
    char key[128];
    return rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key));
}

/* rope.scaling.*, of a model whose n_rot, rope_base and n_ctx_train are known. */
static void read_rope_scaling(reader *r)
{
    static const char *const names[] = { "none", "linear", "yarn" };
    rt_hparams      *hp = &r->model->hp;
    rt_rope_scaling *s  = &hp->rope_scaling;
    const float factor  = has(r, "rope.scaling.factor") ? real(r, "rope.scaling.factor", 0, 1e6f)
                                                        : real_or(r, "rope.scale_linear", 0, 1e6f, 0);
    s->factor      = factor == 0 ? 1 : factor;
    s->kind        = s->factor == 1 ? RT_ROPE_PLAIN : RT_ROPE_LINEAR;
    s->attn_factor = real_or(r, "rope.scaling.attn_factor", 1e-6f, 1e6f, 1);
    if (has(r, "rope.scaling.type") && !r->status) {
        char      key[128];
        rt_string type;
        int       kind = 0;
        r->status = rt_gguf_get_string(r->model->file, key_of(r, "rope.scaling.type", key, sizeof key), &type);
        while (!r->status && kind < 3 &&
               (type.bytes != strlen(names[kind]) || memcmp(type.text, names[kind], (size_t)type.bytes)))
            kind++;
        if (kind == 3)
            r->status = rt_fail(GDN_UNSUPPORTED, "%s is \"%.*s\"; none, linear and yarn can be run", key,
                                type.bytes > 64 ? 64 : (int)type.bytes, type.text);
        s->kind = (rt_rope_kind)kind;
    }
    const float ext = real_or(r, "rope.scaling.yarn_ext_factor", -1, 1, -1); /* below 0: not said */
    if (!r->status && s->kind != RT_ROPE_YARN && ext > 0)
        r->status = rt_fail(GDN_UNSUPPORTED, "%s.rope.scaling.yarn_ext_factor is %g, but rope.scaling.type is not yarn",
                            r->arch, (double)ext);
    if (r->status)
        return;
    s->ext_factor = ext < 0 ? 1 : ext;
    s->beta_fast  = real_or(r, "rope.scaling.yarn_beta_fast", 0, 1e9f, 32);
    s->beta_slow  = real_or(r, "rope.scaling.yarn_beta_slow", 0, 1e9f, 1);
    s->n_original = (int32_t)whole_or(r, "rope.scaling.original_context_length", 0, INT32_MAX, 0);
    s->n_original = s->n_original ? s->n_original : hp->n_ctx_train;
    const float magnitude = real_or(r, "rope.scaling.yarn_attn_factor", -1e6f, 1e6f, 0);
    if (!r->status && s->kind == RT_ROPE_YARN && has(r, "rope.scaling.yarn_attn_factor") &&
        !(fabs((double)magnitude - rt_rope_yarn_magnitude(s->factor)) <= 1e-5))
        r->status =
            rt_fail(GDN_UNSUPPORTED,
                    "%s.rope.scaling.yarn_attn_factor is %g; only %g, which YaRN recommends for a factor of %g, "
                    "can be run",
                    r->arch, (double)magnitude, rt_rope_yarn_magnitude(s->factor), (double)s->factor);
    rt_rope *rope = NULL;
    if (!r->status)
        r->status = rt_rope_create_scaled(hp->n_rot, hp->rope_base, s, 0, &rope); /* says what cannot be */
    rt_rope_destroy(rope);
}

/* Sections of M-RoPE matter for images: a text's token has one position. A fourth section would be of something else.
 */
static void read_sections(reader *r)
{
    char    key[128];
    int64_t sections[4] = { 0 }, count = 0;
    if (!has(r, "rope.dimension_sections") || r->status)
        return;
    key_of(r, "rope.dimension_sections", key, sizeof key);
    r->status = rt_gguf_get_ints(r->model->file, key, sections, 4, &count);
    if (!r->status && (count > 4 || sections[3]))
        r->status = rt_fail(GDN_UNSUPPORTED, "%s has %lld sections, the fourth of %lld; three can be run", key,
                            (long long)count, (long long)sections[3]);
}

static void read_hparams(reader *r)
{
    rt_hparams *hp   = &r->model->hp;
    hp->n_ctx_train  = (int32_t)whole(r, "context_length", 1, INT32_MAX);
    hp->n_embd       = (int32_t)whole(r, "embedding_length", 32, 1 << 20);
    hp->n_mtp        = (int32_t)whole_or(r, "nextn_predict_layers", 0, 1, 0);
    hp->n_layer      = (int32_t)whole(r, "block_count", 1, 4096) - hp->n_mtp;
    hp->rms_eps      = real(r, "attention.layer_norm_rms_epsilon", 0, 1);
    hp->n_head       = (int32_t)whole(r, "attention.head_count", 1, 4096);
    hp->n_head_kv    = (int32_t)whole(r, "attention.head_count_kv", 1, 4096);
    hp->head_dim = (int32_t)whole_or(r, "attention.key_length", 2, 4096, hp->n_embd / (hp->n_head ? hp->n_head : 1));
    hp->n_rot        = (int32_t)whole_or(r, "rope.dimension_count", 2, 4096, hp->head_dim);
    hp->rope_base    = real_or(r, "rope.freq_base", 1, 1e12f, 10000.0f);
    hp->attention_scale = real_or(r, "attention.scale", 0, 1e6f, 0);
    hp->conv_kernel  = (int32_t)whole(r, "ssm.conv_kernel", 1, 16);
    hp->state_size   = (int32_t)whole(r, "ssm.state_size", 16, 256);
    hp->n_key_heads  = (int32_t)whole(r, "ssm.group_count", 1, 4096);
    hp->n_value_heads = (int32_t)whole(r, "ssm.time_step_rank", 1, 4096);
    hp->n_expert     = (int32_t)whole_or(r, "expert_count", 0, 65536, 0);
    hp->head_map     = hp->arch == RT_QWEN3NEXT ? GDN_HEADS_GROUPED : GDN_HEADS_TILED;
    hp->l2_eps       = 1e-6f; /* HF's and FLA's; converters do not record it */
    hp->l2_mode      = 0;
    if (hp->n_expert) {
        hp->n_expert_used = (int32_t)whole(r, "expert_used_count", 1, hp->n_expert < 1024 ? hp->n_expert : 1024);
        hp->n_ff_expert   = (int32_t)whole(r, "expert_feed_forward_length", 32, 1 << 24);
        hp->n_ff_shared   = (int32_t)whole_or(r, "expert_shared_feed_forward_length", 0, 1 << 24, 0);
        hp->expert_scale  = real_or(r, "expert_weights_scale", 0, 1e6f, 1.0f);
        hp->expert_scale  = hp->expert_scale == 0.0f ? 1.0f : hp->expert_scale;
        hp->expert_norm   = truth_or(r, "expert_weights_norm", 1);
    } else {
        hp->n_ff = (int32_t)whole(r, "feed_forward_length", 32, 1 << 24);
    }
    const int64_t inner  = whole(r, "ssm.inner_size", 16, 1 << 24);
    const int64_t length = whole_or(r, "attention.value_length", 2, 4096, hp->head_dim);
    if (r->status)
        return;
    hp->n_channels = hp->state_size * (2 * hp->n_key_heads + hp->n_value_heads);
    if (hp->head_dim < 2 || hp->head_dim > 4096) /* where the file does not say it, it is derived */
        r->status = rt_fail(GDN_INVALID_ARGUMENT,
                            "%s.embedding_length / attention.head_count is %d; a head has 2 to 4096 elements", r->arch,
                            (int)hp->head_dim);
    else if (hp->n_layer < 1)
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s.block_count leaves no layers before the MTP block", r->arch);
    else if (inner != (int64_t)hp->state_size * hp->n_value_heads)
        r->status = rt_fail(GDN_INVALID_ARGUMENT,
                            "%s.ssm.inner_size is %lld; ssm.state_size x ssm.time_step_rank = %d x %d is expected",
                            r->arch, (long long)inner, (int)hp->state_size, (int)hp->n_value_heads);
    else if (hp->n_value_heads % hp->n_key_heads)
        r->status =
            rt_fail(GDN_INVALID_ARGUMENT, "%s.ssm.time_step_rank is %d, which is no multiple of ssm.group_count, %d",
                    r->arch, (int)hp->n_value_heads, (int)hp->n_key_heads);
    else if (hp->n_head % hp->n_head_kv)
        r->status =
            rt_fail(GDN_INVALID_ARGUMENT, "%s.attention.head_count is %d, which is no multiple of head_count_kv, %d",
                    r->arch, (int)hp->n_head, (int)hp->n_head_kv);
    else if (length != hp->head_dim)
        r->status = rt_fail(GDN_UNSUPPORTED, "%s.attention.value_length is %lld; only key_length, %d, can be run",
                            r->arch, (long long)length, (int)hp->head_dim);
    else if (hp->n_rot > hp->head_dim || hp->n_rot % 2)
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s.rope.dimension_count is %d; even numbers to %d are allowed",
                            r->arch, (int)hp->n_rot, (int)hp->head_dim);
    if (!r->status)
        read_rope_scaling(r);
    if (!r->status)
        read_sections(r);
}

/* Which layers are recurrent: as listed, or all but every full_attention_interval-th. */
static void read_layer_kinds(reader *r)
{
    rt_model *m = r->model;
    char      key[128];
    int64_t   count = 0, listed[4096];
    key_of(r, "attention.recurrent_layers", key, sizeof key);
    const int     listed_too = rt_gguf_has(m->file, key);
    const int64_t interval = whole_or(r, "full_attention_interval", 1, 4096, 4);
    if (!r->status && listed_too)
        r->status = rt_gguf_get_ints(m->file, key, listed, 4096, &count);
    if (!r->status && listed_too && count < m->hp.n_layer)
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s has %lld entries; %d layers are expected", key, (long long)count,
                            (int)m->hp.n_layer);
    for (int32_t l = 0; !r->status && l < m->hp.n_layer + m->hp.n_mtp; l++) {
        rt_layer *layer      = &m->layer[l];
        layer->recurrent     = l < m->hp.n_layer && (listed_too ? listed[l] != 0 : (l + 1) % interval != 0);
        layer->index_in_kind = layer->recurrent ? m->n_recurrent++ : m->n_attention;
        if (!layer->recurrent && l < m->hp.n_layer)
            m->n_attention++;
    }
    if (!r->status && !m->n_recurrent)
        r->status = rt_fail(GDN_UNSUPPORTED, "the model has no recurrent layers");
}

/* ---- Tensors ---- */

enum { OPTIONAL = 1, NAME_BYTES = 96 };

/* The tensor `name`, of block l unless l is -1, or NULL; its whole name is written to `full`. */
static const rt_gguf_tensor *find(reader *r, int flags, int32_t l, const char *name, char full[NAME_BYTES])
{
    const int prefix = l < 0 ? 0 : snprintf(full, NAME_BYTES, "blk.%d.", (int)l);
    (void)snprintf(full + prefix, NAME_BYTES - (size_t)prefix, "%s", name);
    const rt_gguf_tensor *t = r->status ? NULL : rt_gguf_find(r->model->file, full);
    if (!t && !r->status && !(flags & OPTIONAL))
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "tensor %s is missing", full);
    if (t && !rt_tensor_is_used(r->model->hp.arch, name))
        r->status = rt_fail(GDN_INTERNAL, "tensor %s is read, but model_names.def does not have it", full);
    if (t)
        r->used[t - rt_gguf_tensor_at(r->model->file, 0)] = 1;
    return t;
}

static int is_mtp(const reader *r, int32_t l) { return l >= r->model->hp.n_layer; }

/* A tensor that is used; once, while counting. */
static void count(reader *r, int32_t l, const rt_gguf_tensor *t)
{
    if (!r->storage)
        *(is_mtp(r, l) ? &r->mtp_bytes : &r->model->weight_bytes) += t->bytes;
}

static rt_weight matrix(reader *r, int flags, int32_t n_columns, int32_t n_rows, int32_t n_matrices, int32_t l,
                        const char *tensor)
{
    rt_weight none = { 0 };
    char      name[NAME_BYTES];
    const rt_gguf_tensor *t = find(r, flags, l, tensor, name);
    if (!t)
        return none;
    const rt_type_info *type = rt_type_describe(t->type);
    if (!type || !t->data) {
        r->status = rt_fail(GDN_UNSUPPORTED,
                            "tensor %s has ggml type %d; %s can be run", name, (int)t->type, rt_type_names());
        return none;
    }
    const int64_t rows = n_rows ? n_rows : t->ne[1]; /* 0: as many as there are, which is the vocabulary */
    if (t->ne[0] != n_columns || t->ne[1] != rows || t->ne[2] != n_matrices || t->ne[3] != 1 || rows > INT32_MAX) {
        r->status =
            rt_fail(GDN_INVALID_ARGUMENT, "tensor %s has ne = {%lld, %lld, %lld, %lld}; {%d, %lld, %d, 1} is expected",
                    name, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2], (long long)t->ne[3],
                    (int)n_columns, (long long)rows, (int)n_matrices);
        return none;
    }
    const rt_weight w = { t->data,       t->type,    n_columns,
                          (int32_t)rows, n_matrices, n_columns / type->block * type->block_bytes };
    count(r, l, t);
    return w;
}

/* A vector as F32 in the model's storage; NULL while counting. */
static const float *vector(reader *r, int flags, int64_t n, int32_t l, const char *tensor)
{
    char    name[NAME_BYTES];
    const rt_gguf_tensor *t = find(r, flags, l, tensor, name);
    if (!t)
        return NULL;
    const rt_type_info *type = rt_type_describe(t->type);
    const int64_t       have = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    if (!type || !t->data || t->ne[0] % type->block) {
        r->status =
            rt_fail(GDN_UNSUPPORTED, "tensor %s has ggml type %d, which cannot be run here", name, (int)t->type);
        return NULL;
    }
    if (have != n) {
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "tensor %s has %lld elements; %lld are expected", name,
                            (long long)have, (long long)n);
        return NULL;
    }
    count(r, l, t);
    if (r->trunk && is_mtp(r, l))
        return NULL;
    const uint64_t at = r->n_vectors;
    r->n_vectors += (uint64_t)(n + 15) / 16 * 16;
    if (!r->storage)
        return NULL;
    const rt_weight w = {
        t->data, t->type, (int32_t)t->ne[0], (int32_t)(n / t->ne[0]), 1, t->ne[0] / type->block * type->block_bytes
    };
    for (int64_t row = 0; row < n / t->ne[0]; row++)
        rt_weight_row(&w, row, r->storage + at + row * t->ne[0]);
    return r->storage + at;
}

static void bind_recurrent(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp    = &r->model->hp;
    const int32_t     E     = hp->n_embd, nv = hp->n_value_heads;
    const int32_t     inner = nv * hp->state_size;
    layer->qkv  = matrix(r, 0, E, hp->n_channels, 1, l, "attn_qkv.weight");
    layer->gate = matrix(r, 0, E, inner, 1, l, "attn_gate.weight");
    if (hp->arch == RT_QWEN3NEXT) {
        layer->ba = matrix(r, 0, E, 2 * nv, 1, l, "ssm_ba.weight");
    } else {
        layer->beta  = matrix(r, 0, E, nv, 1, l, "ssm_beta.weight");
        layer->alpha = matrix(r, 0, E, nv, 1, l, "ssm_alpha.weight");
    }
    layer->conv     = vector(r, 0, (int64_t)hp->n_channels * hp->conv_kernel, l, "ssm_conv1d.weight");
    layer->dt_bias  = vector(r, 0, nv, l, "ssm_dt.bias");
    layer->a        = vector(r, 0, nv, l, "ssm_a");
    layer->ssm_norm = vector(r, 0, hp->state_size, l, "ssm_norm.weight");
    layer->ssm_out  = matrix(r, 0, inner, E, 1, l, "ssm_out.weight");
}

static void bind_attention(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t     E  = hp->n_embd, hd = hp->head_dim;
    layer->wq     = matrix(r, 0, E, 2 * hd * hp->n_head, 1, l, "attn_q.weight");
    layer->wk     = matrix(r, 0, E, hd * hp->n_head_kv, 1, l, "attn_k.weight");
    layer->wv     = matrix(r, 0, E, hd * hp->n_head_kv, 1, l, "attn_v.weight");
    layer->wo     = matrix(r, 0, hd * hp->n_head, E, 1, l, "attn_output.weight");
    layer->q_norm = vector(r, 0, hd, l, "attn_q_norm.weight");
    layer->k_norm = vector(r, 0, hd, l, "attn_k_norm.weight");
    layer->q_bias = vector(r, OPTIONAL, 2 * (int64_t)hd * hp->n_head, l, "attn_q.bias");
    layer->k_bias = vector(r, OPTIONAL, (int64_t)hd * hp->n_head_kv, l, "attn_k.bias");
    layer->v_bias = vector(r, OPTIONAL, (int64_t)hd * hp->n_head_kv, l, "attn_v.bias");
    layer->o_bias = vector(r, OPTIONAL, E, l, "attn_output.bias");
}

static void bind_feed_forward(reader *r, rt_layer *layer, int l)
{
    const rt_hparams *hp = &r->model->hp;
    const int32_t     E  = hp->n_embd;
    if (!hp->n_expert) {
        layer->ffn_gate = matrix(r, 0, E, hp->n_ff, 1, l, "ffn_gate.weight");
        layer->ffn_up   = matrix(r, 0, E, hp->n_ff, 1, l, "ffn_up.weight");
        layer->ffn_down = matrix(r, 0, hp->n_ff, E, 1, l, "ffn_down.weight");
        return;
    }
    const int32_t X = hp->n_expert, F = hp->n_ff_expert;
    layer->router    = matrix(r, 0, E, X, 1, l, "ffn_gate_inp.weight");
    layer->gate_exps = matrix(r, 0, E, F, X, l, "ffn_gate_exps.weight");
    layer->up_exps   = matrix(r, 0, E, F, X, l, "ffn_up_exps.weight");
    layer->down_exps = matrix(r, 0, F, E, X, l, "ffn_down_exps.weight");
    if (hp->n_ff_shared) {
        layer->gate_shexp = matrix(r, 0, E, hp->n_ff_shared, 1, l, "ffn_gate_shexp.weight");
        layer->up_shexp   = matrix(r, 0, E, hp->n_ff_shared, 1, l, "ffn_up_shexp.weight");
        layer->down_shexp = matrix(r, 0, hp->n_ff_shared, E, 1, l, "ffn_down_shexp.weight");
        layer->shexp_gate = vector(r, 0, E, l, "ffn_gate_inp_shexp.weight");
    }
}

static void bind(reader *r)
{
    rt_model   *m  = r->model;
    rt_hparams *hp = &m->hp;
    m->tok_embd    = matrix(r, 0, hp->n_embd, 0, 1, -1, "token_embd.weight");
    if (r->status)
        return;
    hp->n_vocab    = m->tok_embd.n_rows;
    m->output      = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, -1, "output.weight");
    m->output      = m->output.data ? m->output : m->tok_embd;
    m->output_norm = vector(r, 0, hp->n_embd, -1, "output_norm.weight");
    m->mtp_embd    = m->tok_embd;
    m->mtp_head    = m->output;
    for (int32_t l = 0; l < hp->n_layer + hp->n_mtp; l++) {
        rt_layer *layer            = &m->layer[l];
        layer->attn_norm           = vector(r, 0, hp->n_embd, l, "attn_norm.weight");
        layer->post_attention_norm = vector(r, 0, hp->n_embd, l, "post_attention_norm.weight");
        (layer->recurrent ? bind_recurrent : bind_attention)(r, layer, (int)l);
        bind_feed_forward(r, layer, (int)l);
        if (l < hp->n_layer)
            continue;
        layer->eh_proj   = matrix(r, 0, 2 * hp->n_embd, hp->n_embd, 1, l, "nextn.eh_proj.weight");
        layer->enorm     = vector(r, 0, hp->n_embd, l, "nextn.enorm.weight");
        layer->hnorm     = vector(r, 0, hp->n_embd, l, "nextn.hnorm.weight");
        layer->head_norm = vector(r, OPTIONAL, hp->n_embd, l, "nextn.shared_head_norm.weight");
        layer->head_norm = layer->head_norm ? layer->head_norm : m->output_norm;
        const rt_weight embd = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, l, "nextn.embed_tokens.weight");
        const rt_weight head = matrix(r, OPTIONAL, hp->n_embd, hp->n_vocab, 1, l, "nextn.shared_head_head.weight");
        m->mtp_embd = embd.data ? embd : m->mtp_embd;
        m->mtp_head = head.data ? head : m->mtp_head;
    }
}

/* FNV-1a over what a saved state depends on. */
static uint64_t fingerprint(const rt_model *m, uint64_t weight_bytes)
{
    const rt_hparams *hp = &m->hp;
    const int64_t of[] = { hp->arch,
                           hp->n_vocab,
                           hp->n_embd,
                           hp->n_layer,
                           hp->n_mtp,
                           hp->n_head,
                           hp->n_head_kv,
                           hp->head_dim,
                           hp->n_rot,
                           hp->conv_kernel,
                           hp->state_size,
                           hp->n_key_heads,
                           hp->n_value_heads,
                           hp->n_ff,
                           hp->n_expert,
                           hp->n_ff_expert,
                           (int64_t)weight_bytes,
                           m->n_recurrent,
                           m->n_attention };
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof of; i++)
        hash = (hash ^ ((const unsigned char *)of)[i]) * UINT64_C(1099511628211);
    /* and over some of the weights themselves: two models of one shape are two models */
    const uint64_t step = (uint64_t)m->tok_embd.row_bytes / 8 + 1;
    for (int32_t row = 0; row < hp->n_vocab; row += hp->n_vocab / 64 + 1)
        for (uint64_t i = 0; i < (uint64_t)m->tok_embd.row_bytes; i += step)
            hash = (hash ^ m->tok_embd.data[row * m->tok_embd.row_bytes + (int64_t)i]) * UINT64_C(1099511628211);
    /* keys are kept as they were rotated; without scaling the fingerprint is what it was before there was any */
    const rt_rope_scaling *s = &hp->rope_scaling;
    const double scaling[] = { s->kind, (double)s->factor, (double)s->ext_factor, (double)s->attn_factor,
                               (double)s->beta_fast, (double)s->beta_slow, s->n_original };
    for (size_t i = 0; (s->kind != RT_ROPE_PLAIN || s->attn_factor != 1) && i < sizeof scaling; i++)
        hash = (hash ^ ((const unsigned char *)scaling)[i]) * UINT64_C(1099511628211);
    return hash;
}

gdn_status rt_model_from_gguf(rt_gguf *file, rt_model **model) { return rt_model_from_gguf_within(file, NULL, model); }

static gdn_status load(rt_gguf *file, rt_budget *budget, int trunk, rt_model **model)
{
    *model      = NULL;
    rt_model *m = rt_calloc(1, sizeof *m, "the model");
    if (!m) {
        rt_gguf_close(file);
        return GDN_OUT_OF_MEMORY;
    }
    m->file  = file;
    const uint64_t n_tensors = (uint64_t)rt_gguf_n_tensors(file);
    reader r = { .model = m, .trunk = trunk };
    r.status = find_arch(m, &r.arch);
    if (!r.status)
        r.status = rt_check_keys(file, m->hp.arch);
    if (!r.status)
        read_hparams(&r);
    if (!r.status)
        r.status = rt_budget_take(budget, n_tensors, "which tensors are used");
    if (!r.status) {
        r.used   = rt_calloc(n_tensors, 1, "which tensors are used");
        r.status = r.used ? GDN_OK : GDN_OUT_OF_MEMORY;
    }
    if (!r.status)
        r.status = rt_budget_take(budget, (uint64_t)(m->hp.n_layer + m->hp.n_mtp) * sizeof *m->layer, "layers");
    if (!r.status) {
        m->layer = rt_calloc((uint64_t)(m->hp.n_layer + m->hp.n_mtp), sizeof *m->layer, "layers");
        r.status = m->layer ? GDN_OK : GDN_OUT_OF_MEMORY;
    }
    if (!r.status)
        read_layer_kinds(&r);
    if (!r.status)
        r.status = rt_check_tensors(file, m->hp.arch, NULL);
    if (!r.status)
        bind(&r); /* once to check and count, once to fill */
    const uint64_t weight_bytes = m->weight_bytes + r.mtp_bytes;
    m->weight_bytes = trunk ? m->weight_bytes : weight_bytes;
    if (!r.status)
        r.status = rt_check_tensors(file, m->hp.arch, r.used);
    if (!r.status)
        r.status = rt_budget_take(budget, m->weight_bytes, "the weights");
    if (!r.status)
        r.status = rt_budget_take(budget, r.n_vectors * sizeof *m->vectors, "norms and other vectors, as F32,");
    if (!r.status) {
        m->vectors  = rt_calloc(r.n_vectors, sizeof *m->vectors, "norms and other vectors");
        r.status    = m->vectors ? GDN_OK : GDN_OUT_OF_MEMORY;
        r.storage   = m->vectors;
        r.n_vectors = 0;
        if (!r.status)
            bind(&r);
    }
    if (!r.status)
        m->fingerprint = fingerprint(m, weight_bytes);
    rt_free(r.used);
    if (trunk)
        m->hp.n_mtp = 0;
    if (r.status)
        rt_model_free(m);
    else
        *model = m;
    return r.status;
}

gdn_status rt_model_from_gguf_within(rt_gguf *file, rt_budget *budget, rt_model **model)
{
    return load(file, budget, 0, model);
}

gdn_status rt_model_load(const char *path, rt_model **model) { return rt_model_load_within(path, NULL, model); }

gdn_status rt_model_load_within(const char *path, rt_budget *budget, rt_model **model)
{
    rt_gguf *file;
    *model = NULL;
    const gdn_status status = rt_gguf_open_within(path, budget, &file);
    return status ? status : rt_model_from_gguf_within(file, budget, model);
}

gdn_status rt_model_load_trunk_within(const char *path, rt_budget *budget, rt_model **model)
{
    rt_gguf *file;
    *model = NULL;
    const gdn_status status = rt_gguf_open_within(path, budget, &file);
    return status ? status : load(file, budget, 1, model);
}

void rt_model_free(rt_model *model)
{
    if (!model)
        return;
    rt_gguf_close(model->file);
    rt_free(model->layer);
    rt_free(model->vectors);
    rt_free(model);
}

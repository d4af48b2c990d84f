/* Reads the hyperparameters of a model file. See model.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model/model_internal.h"

enum { MAX_LAYERS = 4096 };

static const char *key_of(reader *r, const char *name, char *buffer, size_t bytes)
{
    if (!r->status && !rt_key_is_used(r->model->hp.arch, name))
        r->status = rt_fail(GDN_INTERNAL, "the key %s.%s is read, but model_names.def does not have it", r->arch, name);
    snprintf(buffer, bytes, "%s.%s", r->arch, name);
    return buffer;
}

static int64_t whole(reader *r, const char *name, int64_t low, int64_t high)
{
    char key[128];
    int64_t value = 0;
    if (!r->status) r->status = rt_gguf_get_int(r->model->file, key_of(r, name, key, sizeof key), low, high, &value);
    return value;
}

static int64_t whole_or(reader *r, const char *name, int64_t low, int64_t high, int64_t otherwise)
{
    char key[128];
    return rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key)) ? whole(r, name, low, high) : otherwise;
}

static float real(reader *r, const char *name, float low, float high)
{
    char key[128];
    float value = 0;
    if (!r->status) r->status = rt_gguf_get_float(r->model->file, key_of(r, name, key, sizeof key), &value);
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
    int value = otherwise;
    if (!r->status && rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key)))
        r->status = rt_gguf_get_bool(r->model->file, key, &value);
    return value;
}

static int has(reader *r, const char *name)
{
    char key[128];
    return rt_gguf_has(r->model->file, key_of(r, name, key, sizeof key));
}

/* Reads rope.scaling.*; n_rot, rope_base and n_ctx_train must be known. */
static void read_rope_scaling(reader *r)
{
    static const char *const names[] = { "none", "linear", "yarn" };
    rt_hparams *hp = &r->model->hp;
    rt_rope_scaling *s = &hp->rope_scaling;
    const float factor = has(r, "rope.scaling.factor") ? real(r, "rope.scaling.factor", 0, 1e6f)
                                                       : real_or(r, "rope.scale_linear", 0, 1e6f, 0);
    s->factor = factor == 0 ? 1 : factor;
    s->kind = s->factor == 1 ? RT_ROPE_PLAIN : RT_ROPE_LINEAR;
    s->attn_factor = real_or(r, "rope.scaling.attn_factor", 1e-6f, 1e6f, 1);
    if (has(r, "rope.scaling.type") && !r->status) {
        char key[128];
        rt_string type;
        int kind = 0;
        r->status = rt_gguf_get_string(r->model->file, key_of(r, "rope.scaling.type", key, sizeof key), &type);
        while (!r->status && kind < 3 &&
               (type.bytes != strlen(names[kind]) || memcmp(type.text, names[kind], (size_t)type.bytes)))
            kind++;
        if (kind == 3)
            r->status = rt_fail(GDN_UNSUPPORTED, "%s is \"%.*s\"; none, linear and yarn can be run", key,
                                type.bytes > 64 ? 64 : (int)type.bytes, type.text);
        s->kind = (rt_rope_kind)kind;
    }
    const float ext = real_or(r, "rope.scaling.yarn_ext_factor", -1, 1, -1); /* negative: not given */
    if (!r->status && s->kind != RT_ROPE_YARN && ext > 0)
        r->status = rt_fail(GDN_UNSUPPORTED, "%s.rope.scaling.yarn_ext_factor is %g, but rope.scaling.type is not yarn",
                            r->arch, (double)ext);
    if (r->status) return;
    s->ext_factor = ext < 0 ? 1 : ext;
    s->beta_fast = real_or(r, "rope.scaling.yarn_beta_fast", 0, 1e9f, 32);
    s->beta_slow = real_or(r, "rope.scaling.yarn_beta_slow", 0, 1e9f, 1);
    s->n_original = (int32_t)whole_or(r, "rope.scaling.original_context_length", 0, INT32_MAX, 0);
    s->n_original = s->n_original ? s->n_original : hp->n_ctx_train;
    if (s->kind != RT_ROPE_YARN) s->n_original = 0; /* only YaRN depends on the context */
    const float magnitude = real_or(r, "rope.scaling.yarn_attn_factor", -1e6f, 1e6f, 0);
    if (!r->status && s->kind == RT_ROPE_YARN && has(r, "rope.scaling.yarn_attn_factor") &&
        !(fabs((double)magnitude - rt_rope_yarn_magnitude(s->factor)) <= 1e-5))
        r->status =
            rt_fail(GDN_UNSUPPORTED,
                    "%s.rope.scaling.yarn_attn_factor is %g; only %g, which YaRN recommends for a factor of %g, "
                    "can be run",
                    r->arch, (double)magnitude, rt_rope_yarn_magnitude(s->factor), (double)s->factor);
    rt_rope *rope = NULL;
    if (!r->status) r->status = rt_rope_create(hp->n_rot, hp->rope_base, s, 0, &rope); /* sets the error text */
    rt_rope_destroy(rope);
}

/* Checks the sections of M-RoPE. They matter only for images, since a text token has one position. A fourth section is
 * unknown and refused. */
static void read_sections(reader *r)
{
    char key[128];
    int64_t sections[4] = { 0 }, count = 0;
    if (!has(r, "rope.dimension_sections") || r->status) return;
    key_of(r, "rope.dimension_sections", key, sizeof key);
    r->status = rt_gguf_get_ints(r->model->file, key, 0, sections, 4, &count);
    if (!r->status && (count > 4 || sections[3]))
        r->status = rt_fail(GDN_UNSUPPORTED, "%s has %lld sections, the fourth of %lld; three can be run", key,
                            (long long)count, (long long)sections[3]);
}

/* Reads a number that all layers share. An array has an entry per layer, maybe with the MTP block, all equal. With
 * `of_attention` the entry of a recurrent layer may be 0. */
static int64_t of_layers(reader *r, const char *name, int64_t low, int64_t high, int of_attention)
{
    char key[128];
    const rt_hparams *hp = &r->model->hp;
    int64_t listed[MAX_LAYERS], count = 0, first = -1;
    if (r->status || rt_gguf_element(r->model->file, key_of(r, name, key, sizeof key), NULL) < 0)
        return whole(r, name, low, high);
    r->status = rt_gguf_get_ints(r->model->file, key, 0, listed, MAX_LAYERS, &count);
    if (!r->status && (count < hp->n_layer || count > hp->n_layer + hp->n_mtp))
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s has %lld elements; %d, one for each layer, are expected", key,
                            (long long)count, (int)hp->n_layer);
    for (int64_t i = 0; !r->status && i < count; i++) {
        if (of_attention && !listed[i]) continue; /* model_read_layer_kinds() checks that it may be 0 */
        first = first < 0 ? i : first;
        if (listed[i] < low || listed[i] > high)
            r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s[%lld] is %lld; %lld to %lld are allowed", key, (long long)i,
                                (long long)listed[i], (long long)low, (long long)high);
        else if (listed[i] != listed[first])
            r->status =
                rt_fail(GDN_UNSUPPORTED,
                        "%s[%lld] is %lld and %s[%lld] is %lld; only layers that are alike can "
                        "be run",
                        key, (long long)first, (long long)listed[first], key, (long long)i, (long long)listed[i]);
    }
    if (!r->status && first < 0) r->status = rt_fail(GDN_INVALID_ARGUMENT, "all elements of %s are 0", key);
    return r->status ? 0 : listed[first];
}

/* Checks that attention layers have heads. */
static void check_heads(reader *r, const char *name)
{
    char key[128];
    int64_t listed[MAX_LAYERS], count = 0;
    if (r->status || rt_gguf_element(r->model->file, key_of(r, name, key, sizeof key), NULL) < 0) return;
    r->status = rt_gguf_get_ints(r->model->file, key, 0, listed, MAX_LAYERS, &count);
    for (int64_t l = 0; !r->status && l < count; l++)
        if (!listed[l] && !r->model->layer[l].recurrent)
            r->status = rt_fail(GDN_INVALID_ARGUMENT,
                                "%s[%lld] is 0, but layer %lld is one of attention, by full_attention_interval or "
                                "attention.recurrent_layers",
                                key, (long long)l, (long long)l);
}

void model_read_hparams(reader *r)
{
    rt_hparams *hp = &r->model->hp;
    hp->n_ctx_train = (int32_t)whole(r, "context_length", 1, INT32_MAX);
    hp->n_embd = (int32_t)whole(r, "embedding_length", 32, 1 << 20);
    hp->n_mtp = (int32_t)whole_or(r, "nextn_predict_layers", 0, 1, 0);
    hp->n_layer = (int32_t)whole(r, "block_count", 1, MAX_LAYERS) - hp->n_mtp;
    hp->rms_eps = real(r, "attention.layer_norm_rms_epsilon", 0, 1);
    hp->n_head = (int32_t)of_layers(r, "attention.head_count", 1, 4096, 1);
    hp->n_head_kv = (int32_t)of_layers(r, "attention.head_count_kv", 1, 4096, 1);
    hp->head_dim = (int32_t)whole_or(r, "attention.key_length", 2, 4096, hp->n_embd / (hp->n_head ? hp->n_head : 1));
    hp->n_rot = (int32_t)whole_or(r, "rope.dimension_count", 2, 4096, hp->head_dim);
    hp->rope_base = real_or(r, "rope.freq_base", 1, 1e12f, 10000.0f);
    hp->attention_scale = real_or(r, "attention.scale", 0, 1e6f, 0);
    hp->conv_kernel = (int32_t)whole(r, "ssm.conv_kernel", 1, 16);
    hp->state_size = (int32_t)whole(r, "ssm.state_size", 16, 256);
    hp->n_key_heads = (int32_t)whole(r, "ssm.group_count", 1, 4096);
    hp->n_value_heads = (int32_t)whole(r, "ssm.time_step_rank", 1, 4096);
    hp->n_expert = (int32_t)whole_or(r, "expert_count", 0, 65536, 0);
    hp->head_map = hp->arch == RT_QWEN3NEXT ? GDN_HEADS_GROUPED : GDN_HEADS_TILED;
    hp->l2_eps = 1e-6f; /* as HF and FLA; files do not store it */
    hp->l2_mode = 0;
    if (hp->n_expert) {
        hp->n_expert_used = (int32_t)whole(r, "expert_used_count", 1, hp->n_expert < 1024 ? hp->n_expert : 1024);
        hp->n_ff_expert = (int32_t)whole(r, "expert_feed_forward_length", 32, 1 << 24);
        hp->n_ff_shared = (int32_t)whole_or(r, "expert_shared_feed_forward_length", 0, 1 << 24, 0);
        hp->expert_scale = real_or(r, "expert_weights_scale", 0, 1e6f, 1.0f);
        hp->expert_scale = hp->expert_scale == 0.0f ? 1.0f : hp->expert_scale;
        hp->expert_norm = truth_or(r, "expert_weights_norm", 1);
    } else {
        hp->n_ff = (int32_t)of_layers(r, "feed_forward_length", 32, 1 << 24, 0);
    }
    const int64_t inner = whole(r, "ssm.inner_size", 16, 1 << 24);
    const int64_t length = whole_or(r, "attention.value_length", 2, 4096, hp->head_dim);
    if (r->status) return;
    hp->n_channels = hp->state_size * (2 * hp->n_key_heads + hp->n_value_heads);
    if (hp->head_dim < 2 || hp->head_dim > 4096) /* derived if the file has no value */
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
    if (!r->status) read_rope_scaling(r);
    if (!r->status) read_sections(r);
}

/* Sets which layers are recurrent: from the list, or all but every full_attention_interval-th. */
void model_read_layer_kinds(reader *r)
{
    rt_model *m = r->model;
    char key[128];
    int64_t count = 0, listed[MAX_LAYERS];
    key_of(r, "attention.recurrent_layers", key, sizeof key);
    const int listed_too = rt_gguf_has(m->file, key);
    const int64_t interval = whole_or(r, "full_attention_interval", 1, 4096, 4);
    if (!r->status && listed_too) r->status = rt_gguf_get_ints(m->file, key, 0, listed, MAX_LAYERS, &count);
    if (!r->status && listed_too && count < m->hp.n_layer)
        r->status = rt_fail(GDN_INVALID_ARGUMENT, "%s has %lld entries; %d layers are expected", key, (long long)count,
                            (int)m->hp.n_layer);
    for (int32_t l = 0; !r->status && l < m->hp.n_layer + m->hp.n_mtp; l++) {
        rt_layer *layer = &m->layer[l];
        layer->recurrent = l < m->hp.n_layer && (listed_too ? listed[l] != 0 : (l + 1) % interval != 0);
        layer->index_in_kind = layer->recurrent ? m->n_recurrent++ : m->n_attention;
        if (!layer->recurrent && l < m->hp.n_layer) m->n_attention++;
    }
    check_heads(r, "attention.head_count");
    check_heads(r, "attention.head_count_kv");
    if (!r->status && !m->n_recurrent) r->status = rt_fail(GDN_UNSUPPORTED, "the model has no recurrent layers");
}

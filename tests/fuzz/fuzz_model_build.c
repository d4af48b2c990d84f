/* See fuzz_model.h. */
#include "fuzz_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TENSORS = 80, MAX_KEYS = 32, N_TOKENS = 40 };

typedef struct tensor {
    char name[48];
    uint64_t ne[3], offset;
    uint32_t n_dims, type;
    uint64_t dims_at; /* where its dimensions, type and offset stand in the file */
} tensor;

typedef struct draw {
    const uint8_t *data;
    size_t size, at;
    gguf_build *file;
    tensor tensors[MAX_TENSORS];
    int n_tensors, n_keys;
    uint64_t key_at[MAX_KEYS]; /* values of 4 bytes */
    uint64_t n_bytes;          /* of data           */
} draw;

static unsigned next(draw *d) { return d->at < d->size ? d->data[d->at++] : 0; }
static unsigned next2(draw *d)
{
    const unsigned high = next(d);
    return high << 8 | next(d);
}

static const int32_t types[] = { 0, 1, 30, 8, 2, 12, 13, 14, 3, 6, 7, 20, 39, 10, 11, 16, 17, 18, 19, 21, 22, 23, 29 };
enum { FIRST = 8, LATER = 24 };

/* The type of that number, or one that can have such rows. From LATER on it is one of those that came after FIRST. */
static int32_t type_for(unsigned wanted, uint64_t columns)
{
    const unsigned more = sizeof types / sizeof *types - FIRST;
    const int32_t type = types[wanted >= LATER  ? FIRST + wanted % more
                               : columns >= 256 ? 3 + wanted % 5
                                                : wanted % FIRST];
    return columns % (uint64_t)rt_type_describe(type)->block ? types[wanted % 3] : type; /* wide ones in few bytes */
}

static void put(draw *d, unsigned type, uint32_t n_dims, uint64_t a, uint64_t b, uint64_t c, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
static void put(draw *d, unsigned type, uint32_t n_dims, uint64_t a, uint64_t b, uint64_t c, const char *format, ...)
{
    if (d->n_tensors == MAX_TENSORS) return;
    tensor *t = &d->tensors[d->n_tensors++];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    t->ne[0] = a;
    t->ne[1] = b;
    t->ne[2] = c;
    t->n_dims = n_dims;
    t->type = (uint32_t)type_for(type, a);
    t->offset = d->n_bytes;
    const rt_type_info *of = rt_type_describe((int32_t)t->type);
    d->n_bytes += (a / (uint64_t)of->block * (uint64_t)of->block_bytes * b * c + 31) / 32 * 32;
}

static void key(draw *d, const char *arch, const char *name, rt_gguf_kind kind, uint32_t bits)
{
    char full[64];
    (void)snprintf(full, sizeof full, "%s%s%s", arch, *arch ? "." : "", name);
    build_key_number(d->file, full, kind, bits);
    if (d->n_keys < MAX_KEYS && kind != RT_GGUF_BOOL) d->key_at[d->n_keys++] = d->file->n - 4;
}

typedef struct sizes {
    uint32_t E, heads, kv, hd, rot, conv, S, nk, nv, layers, mtp, interval, X, U, F, shared;
} sizes;

/* Tensors of layer l. type: of each its number and what the input says. */
static void put_layer(draw *d, const sizes *z, uint32_t l, int moe, int next_arch, unsigned kinds)
{
    const uint32_t inner = z->nv * z->S, C = z->S * (2 * z->nk + z->nv);
    unsigned k = kinds;
    put(d, 0, 1, z->E, 1, 1, "blk.%u.attn_norm.weight", l);
    put(d, 0, 1, z->E, 1, 1, "blk.%u.post_attention_norm.weight", l);
    if (l < z->layers && (l + 1) % z->interval) {
        put(d, k++, 2, z->E, C, 1, "blk.%u.attn_qkv.weight", l);
        put(d, k++, 2, z->E, inner, 1, "blk.%u.attn_gate.weight", l);
        if (next_arch) {
            put(d, k++, 2, z->E, 2 * (uint64_t)z->nv, 1, "blk.%u.ssm_ba.weight", l);
        } else {
            put(d, k++, 2, z->E, z->nv, 1, "blk.%u.ssm_beta.weight", l);
            put(d, k++, 2, z->E, z->nv, 1, "blk.%u.ssm_alpha.weight", l);
        }
        put(d, 0, 2, z->conv, C, 1, "blk.%u.ssm_conv1d.weight", l);
        put(d, 0, 1, z->nv, 1, 1, "blk.%u.ssm_dt.bias", l);
        put(d, 0, 1, z->nv, 1, 1, "blk.%u.ssm_a", l);
        put(d, kinds % 3, 1, z->S, 1, 1, "blk.%u.ssm_norm.weight", l);
        put(d, k++, 2, inner, z->E, 1, "blk.%u.ssm_out.weight", l);
    } else {
        put(d, k++, 2, z->E, 2 * (uint64_t)z->hd * z->heads, 1, "blk.%u.attn_q.weight", l);
        put(d, k++, 2, z->E, (uint64_t)z->hd * z->kv, 1, "blk.%u.attn_k.weight", l);
        put(d, k++, 2, z->E, (uint64_t)z->hd * z->kv, 1, "blk.%u.attn_v.weight", l);
        put(d, k++, 2, (uint64_t)z->hd * z->heads, z->E, 1, "blk.%u.attn_output.weight", l);
        put(d, 0, 1, z->hd, 1, 1, "blk.%u.attn_q_norm.weight", l);
        put(d, 0, 1, z->hd, 1, 1, "blk.%u.attn_k_norm.weight", l);
    }
    const char *const names[] = { "gate", "up", "down" };
    for (int i = 0; i < 3; i++) {
        const uint64_t in = i == 2 ? z->F : z->E, out = i == 2 ? z->E : z->F;
        if (moe) put(d, k++, 3, in, out, z->X, "blk.%u.ffn_%s_exps.weight", l, names[i]);
        else put(d, k++, 2, in, out, 1, "blk.%u.ffn_%s.weight", l, names[i]);
        if (moe && z->shared) put(d, k++, 2, in, out, 1, "blk.%u.ffn_%s_shexp.weight", l, names[i]);
    }
    if (moe) put(d, k++, 2, z->E, z->X, 1, "blk.%u.ffn_gate_inp.weight", l);
    if (moe && z->shared) put(d, 0, 1, z->E, 1, 1, "blk.%u.ffn_gate_inp_shexp.weight", l);
    if (l >= z->layers) {
        put(d, k++, 2, 2 * (uint64_t)z->E, z->E, 1, "blk.%u.nextn.eh_proj.weight", l);
        put(d, 0, 1, z->E, 1, 1, "blk.%u.nextn.enorm.weight", l);
        put(d, 0, 1, z->E, 1, 1, "blk.%u.nextn.hnorm.weight", l);
    }
}

static void put_keys(draw *d, const sizes *z, const char *arch, int moe)
{
    build_key_string(d->file, "general.architecture", arch);
    key(d, arch, "context_length", RT_GGUF_U32, 512);
    key(d, arch, "embedding_length", RT_GGUF_U32, z->E);
    key(d, arch, "block_count", RT_GGUF_U32, z->layers + z->mtp);
    key(d, arch, "nextn_predict_layers", RT_GGUF_U32, z->mtp);
    key(d, arch, "attention.layer_norm_rms_epsilon", RT_GGUF_F32, 0x358637BD /* 1e-6 */);
    key(d, arch, "attention.head_count", RT_GGUF_U32, z->heads);
    key(d, arch, "attention.head_count_kv", RT_GGUF_U32, z->kv);
    key(d, arch, "attention.key_length", RT_GGUF_U32, z->hd);
    key(d, arch, "attention.value_length", RT_GGUF_U32, z->hd);
    key(d, arch, "rope.dimension_count", RT_GGUF_U32, z->rot);
    key(d, arch, "rope.freq_base", RT_GGUF_F32, 0x461C4000 /* 10000 */);
    key(d, arch, "ssm.conv_kernel", RT_GGUF_U32, z->conv);
    key(d, arch, "ssm.state_size", RT_GGUF_U32, z->S);
    key(d, arch, "ssm.group_count", RT_GGUF_U32, z->nk);
    key(d, arch, "ssm.time_step_rank", RT_GGUF_U32, z->nv);
    key(d, arch, "ssm.inner_size", RT_GGUF_U32, z->nv * z->S);
    key(d, arch, "full_attention_interval", RT_GGUF_U32, z->interval);
    key(d, arch, "feed_forward_length", RT_GGUF_U32, z->F);
    key(d, arch, "expert_count", RT_GGUF_U32, moe ? z->X : 0);
    key(d, arch, "expert_used_count", RT_GGUF_U32, z->U);
    key(d, arch, "expert_feed_forward_length", RT_GGUF_U32, z->F);
    key(d, arch, "expert_shared_feed_forward_length", RT_GGUF_U32, z->shared);
}

enum { N_KEYS = 1 + 22 + 6 };

static void put_vocabulary(draw *d)
{
    build_key_string(d->file, "tokenizer.ggml.model", "gpt2");
    build_key_array(d->file, "tokenizer.ggml.tokens", RT_GGUF_STRING, N_TOKENS);
    static const char *const merged[] = { "\xC4\xA0",     "ab",         "ca",      "abb", "cab",
                                          "<|im_start|>", "<|im_end|>", "<think>", "",    "\xC4\x8A" };
    for (int i = 0; i < N_TOKENS; i++) {
        const char letter[2] = { (char)(i < 26 ? 'a' + i : 'A' + i - 26), 0 };
        build_string(d->file, i < 30 ? letter : merged[i - 30]);
    }
    build_key_array(d->file, "tokenizer.ggml.token_type", RT_GGUF_I32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) build_number(d->file, i == 35 || i == 36 ? 3 : i == 37 ? 4 : 1, 4);
    build_key_array(d->file, "tokenizer.ggml.merges", RT_GGUF_STRING, 4);
    build_string(d->file, "a b");
    build_string(d->file, "c a");
    build_string(d->file, "ab b");
    build_string(d->file, "c ab");
    key(d, "", "tokenizer.ggml.eos_token_id", RT_GGUF_U32, 36);
    key(d, "", "tokenizer.ggml.bos_token_id", RT_GGUF_U32, 35);
}

/* Small numbers of either sign in every type: a scale of 2^-7 as F16 stands wherever a block has one. */
static void put_data(draw *d, const tensor *t, uint64_t bytes, unsigned salt)
{
    const uint64_t begin = d->file->n;
    const unsigned minus = strstr(t->name, "ssm_a") && !strstr(t->name, "ssm_alpha") ? 0x80 : 0; /* -exp(A_log) */
    uint32_t z = salt * 2654435761u + 1;
    for (uint64_t i = 0; i < bytes; i++) {
        z = z * 1664525u + 1013904223u;
        const unsigned r = z >> 24, scale = i % 2 ? 0x20 : 0;
        const uint64_t in_q8 = i % 34, in_q4 = i % 18, in_k = i % (t->type == 12 ? 144 : 176);
        unsigned byte = r;
        if (t->type == 0) byte = i % 4 == 3 ? 0x3D | (r & 0x80) | minus : i % 4 == 2 ? r & 0x7F : r; /* 2^-5 to 2^-4 */
        else if (t->type == 1) byte = i % 2 ? 0x28 | (r & 0x83) : r;
        else if (t->type == 30) byte = i % 2 ? 0x3D | (r & 0x80) : r & 0x7F;
        else if (t->type == 8 ? in_q8 < 2 : t->type == 2 ? in_q4 < 2 : t->type == 14 ? i % 210 >= 208 : in_k < 4)
            byte = scale;
        build_number(d->file, byte, 1);
    }
    while (d->file->n - begin < (bytes + 31) / 32 * 32) build_number(d->file, 0, 1);
}

static const uint64_t numbers[] = { 0,          1,
                                    2,          3,
                                    4,          5,
                                    7,          8,
                                    15,         16,
                                    17,         31,
                                    32,         33,
                                    40,         48,
                                    63,         64,
                                    65,         127,
                                    128,        255,
                                    256,        257,
                                    1000,       4095,
                                    4096,       4097,
                                    65535,      65536,
                                    1 << 20,    1 << 24,
                                    INT32_MAX,  (uint64_t)1 << 31,
                                    UINT32_MAX, (uint64_t)1 << 32,
                                    INT64_MAX,  (uint64_t)1 << 63,
                                    UINT64_MAX, 0x7FC00000,
                                    0x7F800000, 0xFF800000,
                                    0x3F800000, 1 };

static void overwrite(draw *d, uint64_t at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes && at + (uint64_t)i < d->file->n; i++)
        d->file->bytes[at + (uint64_t)i] = (unsigned char)(value >> 8 * i);
}

/* One change; returns the file's length after it. */
static uint64_t change(draw *d, uint64_t data_at, uint64_t length)
{
    const unsigned what = next(d), which = next2(d), to = next2(d);
    const uint64_t number = numbers[to % (sizeof numbers / sizeof *numbers)];
    const tensor *t = &d->tensors[which % (unsigned)d->n_tensors];
    switch (what % 8) {
    case 1: overwrite(d, d->key_at[which % (unsigned)d->n_keys], number, 4); break;
    case 2: overwrite(d, t->dims_at + 8 * (to >> 8) % t->n_dims, number, 8); break;
    case 3: overwrite(d, t->dims_at + 8 * t->n_dims, to % 40, 4); break;
    case 4: overwrite(d, t->dims_at + 8 * t->n_dims + 4, to % 2 ? number : 32 * (uint64_t)(to >> 1), 8); break;
    case 5: overwrite(d, which % data_at, to & 0xFF, 1); break;
    case 6: /* an element of a tensor: NaN, infinity, large and small numbers */
        overwrite(d, data_at + t->offset + 4 * (uint64_t)(to >> 4),
                  (const uint32_t[]){ 0x7FC07FC0, 0x7F807C00, 0xFF80FC00, 0x7F7F7BFF, 0x00000001, 0, 0x7F000000,
                                      0xFFFFFFFF }[to % 8],
                  4);
        break;
    case 7: length = (to % 16) ? length : (uint64_t)which * 64 % length; break;
    default: break; /* none */
    }
    return length;
}

static void choose_use(draw *d, fuzz_choices *c)
{
    static const char *const isas[] = { NULL, "scalar" };
    const unsigned a = next(d), b = next(d);
    c->n_seqs = 1 + (int32_t)(a & 1);
    c->n_batch = (int32_t[]){ 4, 1, 16, 7 }[a >> 1 & 3];
    c->n_rollback = (int32_t)(a >> 3 & 3);
    c->kv_type = (int32_t[]){ GDN_F16, GDN_F32, GDN_BF16, GDN_Q8_0 }[a >> 5 & 3];
    c->isa = isas[a >> 7];
    c->spec = (rt_spec[]){ RT_SPEC_MTP, RT_SPEC_NGRAM, RT_SPEC_OFF, RT_SPEC_MTP }[b & 3];
    c->p_min = b & 4 ? 0.1f : 0;
    c->sampling = (rt_sampling){
        b & 8 ? 0.8f : 0, b & 16 ? 5 : 0, b & 32 ? 0.9f : 1, b & 64 ? 0.05f : 0, b & 128 ? 1.3f : 1, 8, 1
    };
}

size_t fuzz_model_build(const uint8_t *data, size_t size, gguf_build *file, fuzz_choices *choices)
{
    static const char *const arches[] = { "qwen35", "qwen35moe", "qwen3next" };
    draw d = { .data = data, .size = size, .file = file };
    sizes z = { 0 };
    const unsigned a = next(&d), b = next(&d), c = next(&d), e = next(&d), kinds = next(&d);
    const int moe = a % 3 != 0, next_arch = a % 3 == 2;
    z.mtp = a / 3 % 2;
    z.E = (uint32_t[]){ 32, 64, 256, 48 }[a / 6 % 4];
    z.S = a / 24 % 3 == 2 ? 32 : 16;
    z.kv = 1 + b % 2;
    z.heads = z.kv * (1 + b / 2 % 3);
    z.hd = (uint32_t[]){ 16, 2, 32, 20 }[b / 6 % 4];
    z.rot = (uint32_t[]){ z.hd, 2, z.hd / 2 * 2, z.hd }[b / 24 % 4];
    z.conv = 1 + (c + 3) % 4;
    z.nk = 1 + c / 4 % 2;
    z.nv = z.nk * (1 + c / 8 % 3);
    z.layers = 2 + c / 24 % 2;
    z.interval = 2 + c / 48 % 2;
    z.X = 2 + e % 3;
    z.U = 1 + e / 3 % 2;
    z.F = e / 6 % 2 ? 64 : 32;
    z.shared = e / 12 % 2 ? z.F : 0;
    choose_use(&d, choices);
    const int n_changes = (int[]){ 0, 1, 1, 2, 1, 2, 3, 6 }[next(&d) % 8]; /* few leave most of the file as it is */

    put(&d, kinds, 2, z.E, N_TOKENS, 1, "token_embd.weight");
    put(&d, 0, 1, z.E, 1, 1, "output_norm.weight");
    if (e / 24 % 2) put(&d, kinds + 1, 2, z.E, N_TOKENS, 1, "output.weight");
    for (uint32_t l = 0; l < z.layers + z.mtp; l++) put_layer(&d, &z, l, moe, next_arch, kinds / 8 + l);
    if (d.n_bytes > GGUF_BUILD_MAX - (1 << 15)) return 0;
    build_header(file, (uint64_t)d.n_tensors, N_KEYS);
    put_keys(&d, &z, arches[a % 3], moe);
    put_vocabulary(&d);
    for (int i = 0; i < d.n_tensors; i++) {
        tensor *t = &d.tensors[i];
        build_tensor(file, t->name, t->n_dims, t->ne, t->type, t->offset);
        t->dims_at = file->n - 12 - 8 * (uint64_t)t->n_dims;
    }
    build_pad(file, 32);
    const uint64_t data_at = file->n;
    for (int i = 0; i < d.n_tensors; i++)
        put_data(&d, &d.tensors[i], (i + 1 < d.n_tensors ? d.tensors[i + 1].offset : d.n_bytes) - d.tensors[i].offset,
                 (unsigned)i);
    uint64_t length = file->n;
    for (int i = 0; i < n_changes && d.at < d.size; i++) length = change(&d, data_at, length);
    return (size_t)length;
}

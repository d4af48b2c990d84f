/* A hybrid model from a GGUF file: hyperparameters, and tensors bound by name. Immutable after loading. Weights stay in
 * the file's mapping. Architectures: qwen3next, qwen35, qwen35moe. */
#ifndef GDN_RUNTIME_MODEL_H
#define GDN_RUNTIME_MODEL_H

#include <math.h>

#include "runtime/files/model_names.h"
#include "runtime/dense/rope.h"
#include "runtime/files/weights.h"

typedef struct rt_hparams {
    rt_arch arch;
    int32_t n_vocab, n_ctx_train, n_embd;
    int32_t n_layer; /* trunk layers, without the MTP block                                    */
    int32_t n_mtp;   /* 0 or 1: MTP blocks after the trunk                                     */
    float rms_eps;
    /* attention */
    int32_t n_head, n_head_kv, head_dim, n_rot;
    float rope_base;
    rt_rope_scaling rope_scaling;
    float attention_scale; /* scale of the scores; 0: 1 / sqrt(head_dim)                             */
    /* gated delta net: dk = dv = state_size */
    int32_t conv_kernel, state_size, n_key_heads, n_value_heads;
    int32_t n_channels; /* of the convolution: 2 n_key_heads dk + n_value_heads dv                */
    int32_t head_map;   /* GDN_HEADS_GROUPED (qwen3next) or GDN_HEADS_TILED (qwen35*)             */
    float l2_eps;
    int32_t l2_mode; /* 0: HF's rsqrt(sum + eps), eps 1e-6; 1: ggml's                           */
    /* feed forward: dense if n_expert is 0 */
    int32_t n_ff, n_expert, n_expert_used, n_ff_expert, n_ff_shared;
    float expert_scale;  /* factor of the experts' weights, after normalisation                    */
    int32_t expert_norm; /* 1: the used experts' weights are normalised to sum 1                   */
} rt_hparams;

/* The scale argument of gated_delta_net. */
static inline float rt_delta_scale(const rt_hparams *hp) { return (float)(1.0 / sqrt((double)hp->state_size)); }

/* The tensors of a layer. Vectors are F32, converted at load and aligned; matrices are views. Absent: data == NULL. */
typedef struct rt_layer {
    int32_t recurrent;
    int32_t index_in_kind; /* among recurrent layers, or among attention layers (MTP: after the trunk's) */
    const float *attn_norm, *post_attention_norm;
    /* recurrent */
    rt_weight qkv, gate, ba, beta, alpha, ssm_out; /* either ba (fused, per key head) or beta and alpha   */
    const float *conv;        /* [n_channels][conv_kernel]                                               */
    const float *dt_bias, *a; /* a = -exp(A_log)                                                         */
    const float *ssm_norm;
    /* attention: rows of wq are [q | gate] per head */
    rt_weight wq, wk, wv, wo;
    const float *q_norm, *k_norm;
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* added to the products; NULL: none                    */
    /* feed forward */
    rt_weight ffn_gate, ffn_up, ffn_down;
    rt_weight router, gate_exps, up_exps, down_exps, gate_shexp, up_shexp, down_shexp;
    const float *shexp_gate; /* router of the shared expert, [n_embd]                                   */
    /* MTP only */
    rt_weight eh_proj;
    const float *enorm, *hnorm, *head_norm;
} rt_layer;

/* Hashes of what a saved state depends on; saves store them. The MTP block is not in them: it may be in a file of its
 * own, or left out, and changes no text. */
typedef struct rt_fingerprint {
    uint64_t hparams;   /* what rt_hparams sets for results, and which layers are recurrent  */
    uint64_t tokenizer; /* all keys that the tokenizer reads                                 */
    uint64_t weights;   /* names, types, shapes and bytes of all tensors that the trunk uses */
} rt_fingerprint;

typedef struct rt_model {
    rt_hparams hp;
    rt_gguf *file;
    rt_layer *layer;                  /* [n_layer + n_mtp]                                                       */
    int32_t n_recurrent, n_attention; /* of the trunk; the MTP block has one more attention layer      */
    rt_weight tok_embd, output;       /* output is tok_embd if the file has none                       */
    const float *output_norm;
    rt_weight mtp_embd, mtp_head; /* the MTP block's own, or the trunk's                           */
    uint64_t weight_bytes;
    unsigned char *used;        /* [tensors of the file] 1: the trunk uses it; 2: the MTP block; 0: not used */
    rt_fingerprint fingerprint; /* without the bytes of tensors: see rt_model_fingerprint()                 */
    float *vectors;             /* storage of all vectors                                                  */
    unsigned char *split;       /* storage of matrices that the loader reorders                            */
    struct rt_model *mtp;       /* the file of rt_model_add_mtp(), or NULL                                 */
} rt_model;

/* Load a model. The mapped weights and what the loader allocates count against the budget (may be NULL), before they
 * are touched. rt_model_from_gguf() takes ownership of the file, also on failure. */
gdn_status rt_model_load(const char *path, rt_budget *budget, rt_model **model);
gdn_status rt_model_from_gguf(rt_gguf *file, rt_budget *budget, rt_model **model);
/* Loads the trunk only, for engines that do not draft. The MTP block's tensors are checked, but neither counted nor
 * converted; hp.n_mtp is 0. Saves are interchangeable with those of the full model. The file may declare an MTP block
 * that it does not contain; the other functions refuse such a file. */
gdn_status rt_model_load_trunk(const char *path, rt_budget *budget, rt_model **model);
/* Adds the MTP block of a file that has no other block, as llama.cpp's converter writes it with --mtp, to a model that
 * was loaded by rt_model_load_trunk(). GDN_INVALID_ARGUMENT: the file is of another model: another architecture,
 * hyperparameter or vocabulary. GDN_UNSUPPORTED: it has other blocks, or no MTP block. Errors change nothing. */
gdn_status rt_model_add_mtp(rt_model *model, const char *path, rt_budget *budget);
/* The model's fingerprint. Reads the bytes of all tensors that the trunk uses. */
rt_fingerprint rt_model_fingerprint(const rt_model *model);
void rt_model_free(rt_model *model);
#endif

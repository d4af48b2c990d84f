/* Writes the operands of a program's calls of gdn_gated_delta_net to a file, for errors.py:
 *
 *     GDN_CAPTURE=calls LD_PRELOAD=build-test/libgdn_capture.so build-test/bin/gdn run ...
 *
 * It takes calls of one sequence with a raw gate per head, whose operands are float32 in the host's memory. Of each it
 * writes a line of JSON, then the elements of q, k, v, g, beta, ssm_a and dt_bias. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gdn/gdn.h>

static void put(FILE *f, const gdn_tensor *x, int64_t tokens, int64_t heads, int64_t inner)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < heads; h++)
            (void)fwrite((const char *)x->data + x->offset + t * x->stride[1] + h * x->stride[2], 4, (size_t)inner, f);
}

static void capture(FILE *f, const gdn_gated_delta_net_args *a)
{
    const gdn_delta_inputs *in = a->inputs;
    const int64_t nk = a->n_heads_k, nv = a->n_heads_v, T = a->n_tokens;
    if (a->n_seqs != 1 || a->gate != GDN_GATE_SCALAR || !in || in->gate_input != GDN_G_RAW) return;
    (void)fprintf(f,
                  "{\"tokens\": %d, \"heads_k\": %d, \"heads_v\": %d, \"dim_k\": %d, \"dim_v\": %d, \"head_map\": %d, "
                  "\"norm\": %d, \"eps\": %.9g, \"scale\": %.9g, \"position\": %d}\n",
                  (int)T, (int)nk, (int)nv, (int)a->head_dim_k, (int)a->head_dim_v, (int)a->head_map, (int)in->qk_norm,
                  (double)in->qk_norm_eps, (double)a->scale,
                  a->position.data ? *(const int *)(const void *)((const char *)a->position.data + a->position.offset)
                                   : 0);
    put(f, &a->q, T, nk, a->head_dim_k);
    put(f, &a->k, T, nk, a->head_dim_k);
    put(f, &a->v, T, nv, a->head_dim_v);
    put(f, &a->g, T, nv, 1);
    put(f, &a->beta, T, nv, 1);
    for (int64_t h = 0; h < nv; h++)
        (void)fwrite((const char *)in->ssm_a.data + in->ssm_a.offset + h * in->ssm_a.stride[2], 4, 1, f);
    for (int64_t h = 0; h < nv; h++)
        (void)fwrite((const char *)in->dt_bias.data + in->dt_bias.offset + h * in->dt_bias.stride[2], 4, 1, f);
}

gdn_status gdn_gated_delta_net(gdn_context *ctx, const gdn_gated_delta_net_args *args, gdn_stream stream)
{
    static FILE *file;
    gdn_status (*next)(gdn_context *, const gdn_gated_delta_net_args *, gdn_stream);
    void *const found = dlsym(RTLD_NEXT, "gdn_gated_delta_net");
    memcpy(&next, &found, sizeof next);
    if (!file && getenv("GDN_CAPTURE")) file = fopen(getenv("GDN_CAPTURE"), "wb");
    if (file) capture(file, args);
    return next(ctx, args, stream);
}

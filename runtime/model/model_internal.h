/* What the files of the model loader share. model_hparams.c reads the metadata keys, model.c binds the tensors. */
#ifndef GDN_RUNTIME_MODEL_INTERNAL_H
#define GDN_RUNTIME_MODEL_INTERNAL_H

#include "runtime/base/error.h"
#include "runtime/model/model.h"

/* State of the loader. After the first failure all functions return at once, so callers need no checks in between. */
typedef struct reader {
    rt_model *model;
    const char *arch;
    gdn_status status;
    uint64_t n_vectors;   /* floats of vectors counted (and, with storage, written) so far           */
    float *storage;       /* NULL while counting                                                    */
    int trunk;            /* 1: the MTP block is only checked                                       */
    int only_mtp;         /* 1: a file of rt_model_add_mtp(): no block but that one                 */
    uint64_t mtp_bytes;   /* bytes of the MTP block's tensors, first kept out of weight_bytes        */
    uint64_t n_split;     /* bytes of reordered matrices so far; like n_vectors                      */
    unsigned char *split; /* NULL while counting                                                     */
} reader;

enum { OF_TRUNK = 1, OF_MTP = 2 }; /* model->used: the trunk's tensors, and those of the MTP block only */

/* Fill model->hp, layer[].recurrent and layer[].index_in_kind. Failures set r->status. */
void model_read_hparams(reader *r);
void model_read_layer_kinds(reader *r);

/* Loads a file, which it owns also after an error (model.c). The reader's members `trunk` and `only_mtp`. */
gdn_status model_load(rt_gguf *file, rt_budget *budget, int trunk, int only_mtp, rt_model **model);

/* Call when all tensors are bound, with the file's hp.n_mtp. */
rt_fingerprint model_fingerprint(const rt_model *m);

#endif

/* The loader of model files, between its files: model_hparams.c reads the keys, model.c binds the tensors. */
#ifndef GDN_RUNTIME_MODEL_INTERNAL_H
#define GDN_RUNTIME_MODEL_INTERNAL_H

#include "runtime/error.h"
#include "runtime/model.h"

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
    uint64_t    n_split;   /* bytes of matrices that are split so far; as n_vectors                   */
    unsigned char *split;  /* NULL while counting                                                     */
} reader;

/* Fill model->hp, layer[].recurrent and index_in_kind. A failure is the reader's status. */
void model_read_hparams(reader *r);
void model_read_layer_kinds(reader *r);

#endif

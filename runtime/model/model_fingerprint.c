/* Identifies a model, so that a saved state is refused by another one. See rt_fingerprint in model.h. */
#include <string.h>

#include "numerics/checksum.h"
#include "runtime/model/model_internal.h"

static const uint64_t BEGIN = UINT64_C(14695981039346656037);

static uint64_t add(uint64_t hash, const void *bytes, uint64_t n) /* FNV-1a */
{
    for (uint64_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Its name, type and shape. */
static uint64_t of_tensor(const rt_gguf_tensor *t)
{
    const uint64_t hash = add(add(BEGIN, t->name.text, t->name.bytes), &t->type, sizeof t->type);
    return add(hash, t->ne, sizeof t->ne);
}

/* Keys and tensors are added up, so that their order in the file does not matter. */
rt_fingerprint model_fingerprint(const rt_model *m)
{
    static const char tokenizer[] = "tokenizer.ggml.";
    const uint64_t prefix = sizeof tokenizer - 1;
    rt_hparams hp;
    _Static_assert(sizeof hp % 4 == 0 && _Alignof(rt_hparams) == 4, "rt_hparams has padding");
    memcpy(&hp, &m->hp, sizeof hp);
    hp.n_ctx_train = 0;
    hp.n_mtp = 0;
    rt_fingerprint made = { add(BEGIN, &hp, sizeof hp), 0, 0 };
    for (int32_t l = 0; l < hp.n_layer; l++)
        made.hparams = add(made.hparams, &m->layer[l].recurrent, sizeof m->layer[l].recurrent);
    for (int64_t i = 0; i < rt_gguf_n_keys(m->file); i++) {
        const rt_string name = rt_gguf_key_at(m->file, i, NULL), value = rt_gguf_value_at(m->file, i);
        if (name.bytes > prefix && !memcmp(name.text, tokenizer, (size_t)prefix) && rt_text_key_is_used(name))
            made.tokenizer += add(add(BEGIN, name.text, name.bytes), value.text, value.bytes);
    }
    for (int64_t i = 0; i < rt_gguf_n_tensors(m->file); i++)
        if (m->used[i] == OF_TRUNK) made.weights += of_tensor(rt_gguf_tensor_at(m->file, i));
    return made;
}

rt_fingerprint rt_model_fingerprint(const rt_model *model)
{
    rt_fingerprint made = model->fingerprint;
    for (int64_t i = 0; model->file && i < rt_gguf_n_tensors(model->file); i++) {
        const rt_gguf_tensor *const t = rt_gguf_tensor_at(model->file, i);
        if (model->used[i] != OF_TRUNK) continue;
        const uint64_t both[2] = { of_tensor(t), gdn_checksum(t->data, t->bytes) };
        made.weights += gdn_checksum(both, sizeof both);
    }
    return made;
}

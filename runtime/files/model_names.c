/* Looks up the names of a model file in model_names.def. See model_names.h. */
#include "runtime/files/model_names.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"

enum { N = 1 << RT_QWEN3NEXT, D = 1 << RT_QWEN35, M = 1 << RT_QWEN35MOE, A = N | D | M, NAME_BYTES = 128, SHOWN = 100 };

typedef enum use { USED, ONLY, HARMLESS, ADVICE, NOTED, REFUSED } use;

typedef struct known {
    const char *name;
    int arches;
    use use;
    double low, high; /* allowed range of ONLY, of ADVICE, and of NOTED without a note */
    const char *why;
} known;

#define RT_KEY(name, arches, use, low, high, why) { name, arches, use, low, high, why },
#define RT_TEXT_KEY(name, use, low, high, why)
#define RT_TENSOR(name, arches, where, use, why)
static const known known_keys[] = {
#include "runtime/files/model_names.def"
};
#undef RT_KEY
#undef RT_TEXT_KEY
#define RT_KEY(name, arches, use, low, high, why)
#define RT_TEXT_KEY(name, use, low, high, why) { name, A, use, low, high, why },
static const known known_text_keys[] = {
#include "runtime/files/model_names.def"
};
#undef RT_TEXT_KEY
#undef RT_TENSOR
#define RT_TEXT_KEY(name, use, low, high, why)
#define RT_TENSOR(name, arches, where, use, why) { name, arches, use, 0, 0, why },
static const known known_tensors[] = {
#include "runtime/files/model_names.def"
};

enum {
    N_KEYS = sizeof known_keys / sizeof *known_keys,
    N_TEXT_KEYS = sizeof known_text_keys / sizeof *known_text_keys,
    N_TENSORS = sizeof known_tensors / sizeof *known_tensors
};

const char *rt_arch_name(rt_arch arch)
{
    return arch == RT_QWEN3NEXT ? "qwen3next" : arch == RT_QWEN35 ? "qwen35" : "qwen35moe";
}

/* Finds the entry of a name. An entry that ends in * matches any name with that beginning. */
static const known *look_up(const known *list, int n, int arches, rt_string name)
{
    for (int i = 0; i < n; i++) {
        const size_t bytes = strlen(list[i].name), stem = list[i].name[bytes - 1] == '*' ? bytes - 1 : bytes;
        if (list[i].arches & arches && (stem < bytes ? name.bytes >= stem : name.bytes == stem) &&
            !memcmp(list[i].name, name.text, stem))
            return &list[i];
    }
    return NULL;
}

static int is_used(const known *list, int n, rt_arch arch, const char *name)
{
    const rt_string text = { name, strlen(name) };
    const known *found = look_up(list, n, 1 << arch, text);
    return found && found->use == USED;
}

int rt_key_is_used(rt_arch arch, const char *key) { return is_used(known_keys, N_KEYS, arch, key); }
int rt_tensor_is_used(rt_arch arch, const char *tensor) { return is_used(known_tensors, N_TENSORS, arch, tensor); }

/* Reads the value of a listed key, which must be a number. */
static gdn_status get_value(const rt_gguf *file, rt_string name, double *value)
{
    char key[NAME_BYTES];
    (void)snprintf(key, sizeof key, "%.*s", (int)name.bytes, name.text); /* at most as long as a listed name, so it
                                                                            fits */
    return rt_gguf_get_number(file, key, value);
}

static gdn_status check_value(const rt_gguf *file, rt_string name, const known *entry)
{
    double value = 0;
    const gdn_status status = get_value(file, name, &value);
    const int n = (int)name.bytes;
    if (status || (value >= entry->low && value <= entry->high)) return status;
    if (entry->low < entry->high)
        return rt_fail(GDN_UNSUPPORTED, "%.*s is %g; only %g to %g can be run: %s", n, name.text, value, entry->low,
                       entry->high, entry->why);
    return rt_fail(GDN_UNSUPPORTED, "%.*s is %g; only %g can be run: %s", n, name.text, value, entry->low, entry->why);
}

gdn_status rt_check_keys(const rt_gguf *file, rt_arch arch)
{
    const char *prefix = rt_arch_name(arch);
    const size_t bytes = strlen(prefix);
    gdn_status status = GDN_OK;
    for (int64_t i = 0; !status && i < rt_gguf_n_keys(file); i++) {
        const rt_string name = rt_gguf_key_at(file, i, NULL);
        if (name.bytes <= bytes || memcmp(name.text, prefix, bytes) || name.text[bytes] != '.') continue;
        const rt_string own = { name.text + bytes + 1, name.bytes - bytes - 1 };
        const known *entry = look_up(known_keys, N_KEYS, 1 << arch, own);
        if (!entry)
            status = rt_fail(GDN_UNSUPPORTED,
                             "the key %.*s is none that this runtime knows, and may change what the model computes",
                             name.bytes > SHOWN ? SHOWN : (int)name.bytes, name.text);
        else if (entry->use == ONLY) status = check_value(file, name, entry);
    }
    return status;
}

static const known *look_up_text(rt_string name) { return look_up(known_text_keys, N_TEXT_KEYS, A, name); }

int rt_text_key_is_used(rt_string key)
{
    const known *entry = look_up_text(key);
    return entry && entry->use == USED;
}

gdn_status rt_check_text_keys(const rt_gguf *file)
{
    gdn_status status = GDN_OK;
    for (int64_t i = 0; !status && i < rt_gguf_n_keys(file); i++) {
        const rt_string name = rt_gguf_key_at(file, i, NULL);
        const known *entry = look_up_text(name);
        if (entry && entry->use == ONLY) status = check_value(file, name, entry);
    }
    return status;
}

static int begins(rt_string name, const char *with)
{
    return name.bytes >= strlen(with) && !memcmp(name.text, with, strlen(with));
}

static int in_range(const rt_gguf *file, rt_string name, const known *entry, double *value)
{
    return !get_value(file, name, value) && *value >= entry->low && *value <= entry->high;
}

int64_t rt_next_noted_key(const rt_gguf *file, int64_t from, const char **why)
{
    for (int64_t i = from; i < rt_gguf_n_keys(file); i++) {
        const rt_string name = rt_gguf_key_at(file, i, NULL);
        const known *entry = look_up_text(name);
        double value;
        if (!begins(name, "tokenizer.") && !begins(name, "general.")) continue;
        *why = entry ? entry->why : "this program does not know it";
        if (!entry || ((entry->use == NOTED || entry->use == ADVICE) && !in_range(file, name, entry, &value))) return i;
    }
    return -1;
}

int rt_next_default(const rt_gguf *file, rt_arch arch, int *at, char key[RT_KEY_NAME], const char **instead)
{
    static const struct {
        const char *key, *instead;
        const char *other; /* a key that makes this one needless */
    } keys[] = { { "attention.key_length", "embedding_length / attention.head_count", NULL },
                 { "rope.dimension_count", "the whole head, attention.key_length", NULL },
                 { "rope.freq_base", "10000", NULL },
                 { "full_attention_interval", "4", "attention.recurrent_layers" },
                 { "tokenizer.ggml.pre", "default, the words of GPT-2", NULL } };
    while (*at < (int)(sizeof keys / sizeof *keys)) {
        const int i = (*at)++;
        const char *dot = strncmp(keys[i].key, "tokenizer.", 10) ? "." : "", *prefix = *dot ? rt_arch_name(arch) : "";
        *instead = keys[i].instead;
        (void)snprintf(key, RT_KEY_NAME, "%s%s%s", prefix, dot, keys[i].other ? keys[i].other : keys[i].key);
        const int other = keys[i].other && rt_gguf_has(file, key);
        (void)snprintf(key, RT_KEY_NAME, "%s%s%s", prefix, dot, keys[i].key);
        if (!other && !rt_gguf_has(file, key)) return 1;
    }
    return 0;
}

int rt_get_advice(const rt_gguf *file, const char *key, double *value)
{
    const rt_string name = { key, strlen(key) };
    const known *entry = look_up_text(name);
    return entry && entry->use == ADVICE && rt_gguf_has(file, key) && in_range(file, name, entry, value);
}

/* A tensor's name without `blk.<n>.`. */
static rt_string without_block(rt_string name)
{
    uint64_t at = 4;
    if (name.bytes < 6 || memcmp(name.text, "blk.", 4)) return name;
    while (at < name.bytes && name.text[at] >= '0' && name.text[at] <= '9') at++;
    if (at == 4 || at >= name.bytes || name.text[at] != '.') return name;
    return (rt_string){ name.text + at + 1, name.bytes - at - 1 };
}

gdn_status rt_check_tensors(const rt_gguf *file, rt_arch arch, const unsigned char *used)
{
    for (int64_t i = 0; i < rt_gguf_n_tensors(file); i++) {
        if (used && used[i]) continue;
        const rt_string name = rt_gguf_tensor_at(file, i)->name, own = without_block(name);
        const known *entry = look_up(known_tensors, N_TENSORS, 1 << arch, own);
        const int shown = name.bytes > SHOWN ? SHOWN : (int)name.bytes;
        if (entry && entry->use == HARMLESS && own.text == name.text) continue;
        if (entry && entry->use == REFUSED)
            return rt_fail(GDN_UNSUPPORTED, "tensor %.*s: %s", shown, name.text, entry->why);
        if (!used) continue;
        return rt_fail(GDN_UNSUPPORTED,
                       "tensor %.*s is not used by a model of these hyperparameters, and may change what it computes",
                       shown, name.text);
    }
    return GDN_OK;
}

/* The options --backend, --device, --impl and --level; see target.h. */
#include "tools/cli/target.h"

#include <stdio.h>
#include <string.h>

int target_backend(const char *name, uint32_t *backend)
{
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info info = { .size = sizeof info };
        if (gdn_backend_describe(b, &info) == GDN_OK && !strcmp(info.name, name)) {
            *backend = b;
            return 1;
        }
    }
    return 0;
}

const char *const target_level_names[GDN_LEVEL_COUNT] = { "exact", "exact_ftz" };

int target_level(const char *name, uint32_t *level, char *message, uint64_t message_bytes)
{
    for (*level = 0; name && *level < GDN_LEVEL_COUNT; ++*level)
        if (!strcmp(name, target_level_names[*level])) return 1;
    if (!name) return 1;
    *level = GDN_EXACT;
    snprintf(message, message_bytes, "--level: there is no level '%s'; exact and exact_ftz are the two", name);
    return 0;
}

void target_error(const char *text, char *message, uint64_t message_bytes)
{
    static const struct {
        const char *member, *option;
    } names[] = { { "desc->implementation", "--impl" }, { "desc->device", "--device" }, { "desc->level", "--level" } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *const at = strstr(text, names[i].member);
        if (!at) continue;
        snprintf(message, message_bytes, "%.*s%s%s", (int)(at - text), text, names[i].option,
                 at + strlen(names[i].member));
        return;
    }
    snprintf(message, message_bytes, "%s", text);
}

gdn_context *target_open(const char *backend, int64_t device, gdn_context_desc *desc, char *message,
                         uint64_t message_bytes)
{
    gdn_context *ctx = NULL;
    if (!target_backend(backend ? backend : "cpu", &desc->backend)) {
        snprintf(message, message_bytes, "there is no backend '%s'; 'gdn info' lists them", backend);
        return NULL;
    }
    if (device < 0 || device > UINT32_MAX) {
        snprintf(message, message_bytes, "device %lld is out of range", (long long)device);
        return NULL;
    }
    desc->device = (uint32_t)device;
    if (gdn_context_create(desc, &ctx) != GDN_OK) {
        target_error(gdn_last_error(), message, message_bytes);
        return NULL;
    }
    return ctx;
}

/* Structs that grow. See structs.h. */
#include "core/structs.h"

#include <string.h>

#include "core/status.h"

gdn_status gdn_struct_check(const char *name, const void *caller, size_t first)
{
    uint32_t size;
    if (!caller) return gdn_fail(GDN_INVALID_ARGUMENT, "%s is NULL", name);
    memcpy(&size, caller, sizeof size);
    if (size < first)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s->size is %u; set it to sizeof the struct, at least %zu", name,
                        (unsigned)size, first);
    if (size > 65536)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s->size is %u; at most 65536 is believable", name, (unsigned)size);
    return GDN_OK;
}

gdn_status gdn_struct_read(const char *name, const void *caller, size_t first, size_t known, void *copy)
{
    gdn_status status = gdn_struct_check(name, caller, first);
    if (status) return status;
    uint32_t size;
    memcpy(&size, caller, sizeof size);
    const size_t have = size < known ? size : known;
    memcpy(copy, caller, have);
    memset((char *)copy + have, 0, known - have);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)caller)[i])
            return gdn_fail(GDN_INVALID_ARGUMENT,
                            "%s has a member at byte %zu that this library, version %d.%d.%d, ABI %d, which knows %zu "
                            "bytes, does not have; it is older than the header that the program was built with",
                            name, i, GDN_VERSION_MAJOR, GDN_VERSION_MINOR, GDN_VERSION_PATCH, GDN_ABI_VERSION, known);
    return GDN_OK;
}

gdn_status gdn_part_read(const char *name, const void *part, size_t first, size_t known, void *copy)
{
    if (part) return gdn_struct_read(name, part, first, known, copy);
    memset(copy, 0, known);
    return GDN_OK;
}

/* What GDN_INIT makes of each struct. */
#define DEFAULTS(type, last, first_size) static const type defaults_of_##type = GDN_INIT(type);
GDN_FIRST_STRUCTS(DEFAULTS)
#undef DEFAULTS

gdn_status gdn_struct_init(const char *name, void *object, uint32_t size)
{
    static const struct {
        const char *name;
        const void *defaults;
        size_t first, known;
    } structs[] = {
#define LINE(type, last, first_size) { #type, &defaults_of_##type, GDN_FIRST_SIZE(type), sizeof(type) },
        GDN_FIRST_STRUCTS(LINE)
#undef LINE
    };
    const size_t n = sizeof structs / sizeof structs[0];
    size_t i = 0;
    if (!name) return gdn_fail(GDN_INVALID_ARGUMENT, "name is NULL");
    if (!object) return gdn_fail(GDN_INVALID_ARGUMENT, "object is NULL");
    while (i < n && strcmp(structs[i].name, name)) i++;
    if (i == n)
        return gdn_fail(GDN_INVALID_ARGUMENT, "name is '%.64s'; the structs that begin with `size` have defaults",
                        name);
    if (size < structs[i].first || size > 65536)
        return gdn_fail(GDN_INVALID_ARGUMENT, "size is %u; pass sizeof(%s), at least %zu", (unsigned)size, name,
                        structs[i].first);
    memset(object, 0, size);
    memcpy(object, structs[i].defaults, size < structs[i].known ? size : structs[i].known);
    memcpy(object, &size, sizeof size);
    return GDN_OK;
}

void gdn_struct_write(void *caller, const void *full, size_t known)
{
    uint32_t size;
    memcpy(&size, caller, sizeof size);
    const size_t n = size < known ? size : known;
    memcpy((char *)caller + sizeof size, (const char *)full + sizeof size, n - sizeof size);
    if (size > known) memset((char *)caller + known, 0, size - known);
}

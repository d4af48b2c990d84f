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

gdn_status gdn_struct_init(const char *name, void *caller, uint32_t size, size_t first, const void *defaults,
                           size_t known)
{
    if (!caller) return gdn_fail(GDN_INVALID_ARGUMENT, "%s is NULL", name);
    if (size < first || size > 65536)
        return gdn_fail(GDN_INVALID_ARGUMENT, "size is %u; pass sizeof the struct, at least %zu", (unsigned)size,
                        first);
    memset(caller, 0, size);
    memcpy(caller, defaults, size < known ? size : known);
    memcpy(caller, &size, sizeof size);
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

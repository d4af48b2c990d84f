/* Environment variables. See environment.h. */
#include "core/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "system/system.h"

const char *gdn_environment(const char *name)
{
    const char *value = gdn_process_variable(name);
    return value && value[0] ? value : NULL;
}

static const char *const level_names[] = { "", "error", "warning", "info", "debug" };
enum { N_LEVELS = sizeof level_names / sizeof level_names[0] };

/* The default log callback. user points to the highest level to print. One call of stdio per line, so that lines of
 * several threads do not mix. */
static void log_line(void *user, int32_t level, const char *message)
{
    const char *const *wanted = user;
    if (level >= GDN_LOG_ERROR && level < N_LEVELS && level <= wanted - level_names)
        (void)fprintf(stderr, "gdn: %s: %s\n", level_names[level], message);
}

static gdn_status read_log(gdn_context_desc *desc)
{
    const char *value = desc->log ? NULL : gdn_environment("GDN_LOG");
    if (!value) return GDN_OK;
    for (int level = GDN_LOG_ERROR; level < N_LEVELS; level++)
        if (!strcmp(value, level_names[level])) {
            desc->log = log_line;
            desc->log_user = (void *)&level_names[level];
            return GDN_OK;
        }
    return gdn_fail(GDN_INVALID_ARGUMENT,
                    "GDN_LOG in the environment is \"%.64s\"; error, warning, info and debug are allowed", value);
}

gdn_status gdn_environment_switch(const char *name, int *on)
{
    const char *value = gdn_environment(name);
    *on = !value || !strcmp(value, "on");
    if (*on || !strcmp(value, "off")) return GDN_OK;
    return gdn_fail(GDN_INVALID_ARGUMENT, "%s in the environment is \"%.64s\"; on and off are allowed", name, value);
}

gdn_status gdn_environment_number(const char *name, int low, int high, int *number)
{
    const char *value = gdn_environment(name);
    char *end = NULL;
    const long given = value ? strtol(value, &end, 10) : 0;
    if (!value) return GDN_OK;
    if (*end || value[0] < '0' || value[0] > '9' || given < low || given > high)
        return gdn_fail(GDN_INVALID_ARGUMENT, "%s in the environment is \"%.64s\"; %d to %d are allowed", name, value,
                        low, high);
    *number = (int)given;
    return GDN_OK;
}

static gdn_status read_implementation(gdn_context_desc *desc, const char *const *names)
{
    const char *value = desc->implementation ? NULL : gdn_environment("GDN_IMPLEMENTATION");
    const char *colon = value ? strchr(value, ':') : NULL;
    if (value && !colon) desc->implementation = value;
    if (!colon) return GDN_OK;
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++)
        if (strlen(names[b]) == (size_t)(colon - value) && !strncmp(value, names[b], (size_t)(colon - value))) {
            if (b == desc->backend) desc->implementation = colon + 1;
            return GDN_OK;
        }
    return gdn_fail(GDN_NOT_FOUND,
                    "GDN_IMPLEMENTATION in the environment is \"%.64s\"; before the colon, cpu, reference, cuda, "
                    "vulkan and metal are allowed",
                    value);
}

gdn_status gdn_environment_read(gdn_context_desc *desc, const char *const *names)
{
    gdn_status status;
    int self_test;
    if ((status = read_log(desc)) || (status = gdn_environment_switch("GDN_KNOWN_ANSWERS", &self_test))) return status;
    return read_implementation(desc, names);
}

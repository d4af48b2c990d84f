/* Names and texts of results. */
#include "tests/emulator/driver_api.h"
#include "tests/emulator/driver_internal.h"

#include <string.h>

static const struct {
    simt_result result;
    const char *name, *text;
} results[] = {
#define X(name, value, text) { value, "CUDA_" #name, text },
    SIMT_RESULTS(X)
#undef X
};

static simt_result look_up(simt_result result, const char **out, int text)
{
    if (!out) return SIMT_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i].result == result) {
            *out = text ? results[i].text : results[i].name;
            if (!text && result) { /* all but CUDA_SUCCESS have ERROR in their name */
                static char names[sizeof results / sizeof *results][48];
                if (!names[i][0]) {
                    strcpy(names[i], "CUDA_ERROR_");
                    strncat(names[i], results[i].name + 5, sizeof names[i] - 12);
                }
                *out = names[i];
            }
            return SIMT_SUCCESS;
        }
    return SIMT_INVALID_VALUE;
}

simt_result cuGetErrorName(simt_result result, const char **name)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    LEAVE(look_up(result, name, 0));
}

simt_result cuGetErrorString(simt_result result, const char **text)
{
    const simt_result entered = simt_enter(__func__, 0);
    if (entered) LEAVE(entered);
    LEAVE(look_up(result, text, 1));
}

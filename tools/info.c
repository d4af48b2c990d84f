/* gdn info: lists what this build contains and this machine can run, without opening a context. */
#include <stdio.h>

#include "tools/cli/cli.h"
#include "tools/cli/commands.h"
#include "gdn/gdn.h"
#include "tools/cli/json.h"

static int as_json;

static const cli_option options[] = {
    { "json", CLI_FLAG, &as_json, NULL, "print JSON instead of a table" },
    { NULL, CLI_FLAG, NULL, NULL, NULL },
};
static const cli_command command = {
    "gdn info",
    "list backends, devices and implementations",
    options,
    "Implementations are listed best first; the first one is the default. 'exact' means that\n"
    "all results are the bits of the reference; 'exact_ftz' means the same at the level at which\n"
    "subnormal numbers are flushed to zero. 'emulated' means that the device is not the\n"
    "hardware it is named for.\n\n"
    "Exit status: 0 success, 1 failure, also if the output cannot be written, 2 wrong command line.",
};

static const char *backend_state(const gdn_backend_info *b)
{
    return !b->built ? "not built" : b->available ? "available" : "unavailable";
}

static void print_table(void)
{
    printf("libgdn %u.%u.%u\n\n", gdn_version() >> 16, gdn_version() >> 8 & 0xff, gdn_version() & 0xff);
    printf("%-11s %-12s %s\n", "BACKEND", "STATE", "DEVICES AND IMPLEMENTATIONS");
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info backend = { .size = sizeof backend };
        if (gdn_backend_describe(b, &backend) != GDN_OK) continue;
        printf("%-11s ", backend.name);
        if (backend.available) printf("%s\n", backend_state(&backend));
        else printf("%-12s %s\n", backend_state(&backend), backend.reason);
        for (uint32_t d = 0; d < backend.n_devices; d++) {
            gdn_device_info device = { .size = sizeof device };
            if (gdn_device_describe(b, d, &device) != GDN_OK) continue;
            printf("%24s %u: %s", "", d, device.name);
            if (device.memory_bytes) printf(", %.1f GiB", (double)device.memory_bytes / (1 << 30));
            printf("%s%s\n", device.shared_memory ? ", host memory" : "", device.emulated ? ", emulated" : "");
            for (uint32_t i = 0; i < device.n_implementations; i++) {
                gdn_implementation_info impl = { .size = sizeof impl };
                if (gdn_implementation_describe(b, d, i, &impl) != GDN_OK) continue;
                printf("%24s    %-16s %s%s%s%s\n", "", impl.name, impl.levels >> GDN_EXACT & 1 ? "exact" : "not exact",
                       impl.levels >> GDN_EXACT_FTZ & 1 ? ", exact_ftz" : "", impl.reason[0] ? ": " : "", impl.reason);
            }
        }
    }
}

static int print_json(void)
{
    json_writer w;
    char version[32];
    snprintf(version, sizeof version, "%u.%u.%u", gdn_version() >> 16, gdn_version() >> 8 & 0xff, gdn_version() & 0xff);
    json_open(&w, stdout);
    json_put_object(&w, NULL);
    json_put_string(&w, "library_version", version);
    json_put_uint(&w, "abi_version", gdn_abi_version());
    json_put_array(&w, "backends");
    for (uint32_t b = 0; b < GDN_BACKEND_COUNT; b++) {
        gdn_backend_info backend = { .size = sizeof backend };
        if (gdn_backend_describe(b, &backend) != GDN_OK) continue;
        json_put_object(&w, NULL);
        json_put_string(&w, "name", backend.name);
        json_put_bool(&w, "built", backend.built);
        json_put_bool(&w, "available", backend.available);
        json_put_string(&w, "reason", backend.reason[0] ? backend.reason : NULL);
        json_put_array(&w, "devices");
        for (uint32_t d = 0; d < backend.n_devices; d++) {
            gdn_device_info device = { .size = sizeof device };
            if (gdn_device_describe(b, d, &device) != GDN_OK) continue;
            json_put_object(&w, NULL);
            json_put_uint(&w, "index", d);
            json_put_string(&w, "name", device.name);
            json_put_uint(&w, "memory_bytes", device.memory_bytes);
            json_put_bool(&w, "shared_memory", device.shared_memory);
            json_put_bool(&w, "emulated", device.emulated);
            json_put_array(&w, "implementations");
            for (uint32_t i = 0; i < device.n_implementations; i++) {
                gdn_implementation_info impl = { .size = sizeof impl };
                if (gdn_implementation_describe(b, d, i, &impl) != GDN_OK) continue;
                json_put_object(&w, NULL);
                json_put_string(&w, "name", impl.name);
                json_put_bool(&w, "exact", (int)(impl.levels >> GDN_EXACT & 1));
                json_put_bool(&w, "exact_ftz", (int)(impl.levels >> GDN_EXACT_FTZ & 1));
                json_put_string(&w, "reason", impl.reason[0] ? impl.reason : NULL);
                json_close(&w);
            }
            json_close(&w);
            json_close(&w);
        }
        json_close(&w);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    return json_finish(&w);
}

int gdn_info_main(int argc, char **argv)
{
    int parsed = cli_parse(&command, argc, argv);
    if (parsed != CLI_RUN) return cli_exit_code(parsed);
    if (as_json) return print_json() ? 0 : 1;
    print_table();
    return 0;
}

/* See sides.h. */
#include "tests/device/sides.h"

#include <string.h>

int sides_open(sides *s, gdn_context *ctx)
{
    memset(s, 0, sizeof *s);
    s->ctx = ctx;
    s->device = check_target_adopt(ctx);
    s->reference = check_target_open(GDN_BACKEND_REFERENCE, 0, 0, GDN_EXACT);
    REQUIRE(s->device && s->reference);
    return s->device && s->reference;
}

void sides_close(sides *s)
{
    check_result_free(&s->got);
    check_result_free(&s->expected);
    check_target_close(s->device);
    check_target_close(s->reference);
}

void sides_build(check_case *c, const check_kernel *kernel, const check_spec *spec)
{
    check_rng rng = { 1 };
    check_case_init(c, kernel);
    kernel->build(c, spec, &rng);
}

void sides_expect(sides *s, const check_case *c, check_result *expected)
{
    check_target_run(s->reference, c, expected);
    REQUIRE(expected->outcome == CHECK_RAN);
}

void sides_run(sides *s, const check_case *c, const char *name)
{
    check_target_run(s->device, c, &s->got);
    REQUIRE(name ? s->got.status == GDN_BAD_MAP && strstr(s->got.text, name) : s->got.outcome == CHECK_RAN);
    REQUIRE(gdn_poll(s->ctx) == GDN_OK); /* reported once */
}

int sides_memory(const check_case *c, const char *map)
{
    const check_view *v = check_find(c, map);
    return v ? v->memory : -1;
}

/* Values in requests, and what is wrong with them. See values.h. */
#include "tools/serve/values.h"

#include <jansson.h>
#include <stdarg.h>

int serve_fail(serve_error *e, int status, const char *code, const char *param, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    e->status = status;
    e->code = code;
    (void)snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    (void)vsnprintf(e->message, sizeof e->message, format, arguments);
    va_end(arguments);
    return 0;
}

json_t *serve_member(const json_t *object, const char *name)
{
    json_t *const value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

const char *serve_text_in(const json_t *object, const char *name)
{
    const char *const text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

int serve_wrong(serve_error *e, const char *name, const char *allowed)
{
    return serve_fail(e, 400, "invalid_value", name, "%s: %s", name, allowed);
}

int serve_refused(serve_error *e, gdn_status status, const char *name)
{
    return serve_fail(e, status == GDN_OUT_OF_MEMORY ? 500 : 400, NULL, name, "%s: %s", name, rt_last_error());
}

int serve_get_flag(const json_t *object, const char *name, int *to, serve_error *e)
{
    const json_t *const value = serve_member(object, name);
    if (value) *to = json_is_true(value);
    return !value || json_is_boolean(value) || serve_wrong(e, name, "true and false are allowed");
}

int serve_get_integer(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *to, serve_error *e)
{
    const json_t *const value = serve_member(object, name);
    const double real = json_real_value(value); /* some clients write 16.0 */
    const int whole = json_is_real(value) && real > -0x1p53 && real < 0x1p53 && real == (double)(int64_t)real;
    const int64_t n = whole ? (int64_t)real : json_integer_value(value);
    if (value) *to = n;
    return !value || ((whole || json_is_integer(value)) && n >= low && n <= high) ||
           serve_fail(e, 400, "invalid_value", name, "%s: integers from %lld to %lld are allowed", name, (long long)low,
                      (long long)high);
}

int serve_get_number(const json_t *object, const char *name, float *to, serve_error *e)
{
    const json_t *const value = serve_member(object, name);
    if (value) *to = (float)json_number_value(value);
    return !value || json_is_number(value) || serve_wrong(e, name, "a number is allowed");
}

/* Refuses requests whose head proxies and servers read in different ways, as RFC 9112 wants: such a request may hide
 * another one. libmicrohttpd accepts most of them. See serve.h. */
#include <ctype.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "tools/serve/serve.h"

enum { HOST, LENGTH, CODING, N_COUNTED };
typedef struct head {
    int n[N_COUNTED];
    const char *value[N_COUNTED];
    const char *end; /* of what is checked */
    int odd_lines, odd_names, odd_values;
} head;

static int is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i]))) return 0;
    return n > 0;
}

int serve_is_token_list(const char *text)
{
    for (size_t n = 0; *text; text += n + strspn(text + n, ", "))
        if (!is_token(text, n = strcspn(text, ", "))) return 0;
    return 1;
}

static enum MHD_Result check_field(void *user, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                   const char *value, size_t n_value)
{
    static const char *const counted[N_COUNTED] = { "Host", "Content-Length", "Transfer-Encoding" };
    head *const h = user;
    (void)kind;
    h->odd_names |= !is_token(name, n_name);
    for (size_t i = 0; i < n_value; i++) h->odd_values |= iscntrl((unsigned char)value[i]) && value[i] != '\t';
    h->odd_lines |= name != h->end + 2;
    h->end = value + n_value;
    for (int i = 0; i < N_COUNTED; i++)
        if (!strcasecmp(name, counted[i])) {
            h->n[i]++;
            h->value[i] = value;
        }
    return MHD_YES;
}

static int malformed(serve_error *e, const char *why)
{
    return serve_fail(e, 400, "malformed_request", NULL, "%s", why);
}

/* libmicrohttpd 0.9 ends a text at its first NUL and does not tell what follows. It reads the head in place: behind a
 * text are the two bytes of the line's end, then the next line. Later versions refuse a NUL. */
int serve_check_head(struct MHD_Connection *to, const char *method, const char *target, size_t n_target,
                     const char *version, serve_error *e)
{
    const size_t size = MHD_get_connection_info(to, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    const int is_1_1 = strcmp(version, "HTTP/1.0") != 0;
    head h = { .end = version + strlen(version) };
    (void)MHD_get_connection_values_n(to, MHD_HEADER_KIND, check_field, &h);
    h.odd_lines |= target + n_target + 1 != version || h.end + 4 != method + size;
    if (h.odd_values || (h.odd_lines && *MHD_get_version() == '0'))
        return malformed(e, "the head has a control character, or a line that does not end with CR and LF alone");
    if (h.odd_names || !is_token(method, strlen(method)))
        return malformed(e, "the method and the names of headers: letters, digits and !#$%&'*+-.^_`|~ are allowed");
    if (h.n[HOST] > 1 || (is_1_1 && !h.n[HOST])) return malformed(e, "Host: one is needed");
    if (h.n[LENGTH] > 1) return malformed(e, "Content-Length: one is allowed");
    if (h.n[LENGTH] && h.n[CODING]) return malformed(e, "Content-Length and Transfer-Encoding: one of them is allowed");
    if (h.n[LENGTH] && !isdigit((unsigned char)*h.value[LENGTH]))
        return malformed(e, "Content-Length: a number is needed");
    if (h.n[CODING] && (h.n[CODING] > 1 || !is_1_1 || strcasecmp(h.value[CODING], "chunked") != 0))
        return malformed(e, "Transfer-Encoding: chunked is allowed, once and in HTTP/1.1");
    return 1;
}

/* The HTTP server: who may use it, and its endpoints. No path of a request names a file. See serve.h. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "system/files.h"
#include "system/sockets.h"
#include "numerics/checksum.h"
#include "system/interrupt.h"
#include "tools/cli/output.h"
#include "tools/serve/serve.h"
#include "page.inc.h" /* of page.html */

/* A connection and its request. */
typedef struct http_request {
    serve_connection connection;
    serve_server *server;
    struct MHD_Connection *to;
    const char *target; /* as the client sent it, where libmicrohttpd has it */
    size_t n_target;
    int has_nul;        /* the path has %00, with which libmicrohttpd would end it */
    const char *origin; /* of the page, if it is allowed; or NULL */
    const char *name;   /* of a model, behind the endpoint */
    int endpoint, last; /* last: the connection is closed after it */
    uint32_t owner;     /* of owner_of() */
    int status;         /* of the answer; 0: none yet */
    double began;       /* when its first line had come */
    char *body;
    size_t n;
    serve_call *call;
} http_request;

/* Of a connection's thread: values in JSON nest. Some C libraries give 128 KiB. */
static const size_t STACK_BYTES = (size_t)8 << 20;

enum {
    PAGE,
    MODELS,
    MODEL,
    PROPS,
    TOKENIZER_INFO,
    COMPLETIONS,
    CHATS,
    RESPONSES,
    TOKENIZE,
    DETOKENIZE,
    APPLY_TEMPLATE,
    MESSAGES,
    COUNT_TOKENS,
    HEALTH,
    METRICS,
    N_ENDPOINTS,
    PREFLIGHT = N_ENDPOINTS
};
/* A path may begin with /v1. One that ends with a slash is followed by a name. protocol: of a chat in another form. */
static const struct {
    const char *method, *path;
    const serve_protocol *protocol;
} endpoints[N_ENDPOINTS] = {
    { "GET", "/", NULL },
    { "GET", "/models", NULL },
    { "GET", "/models/", NULL },
    { "GET", "/props", NULL },
    { "GET", "/tokenizer_info", NULL },
    { "POST", "/completions", NULL },
    { "POST", "/chat/completions", NULL },
    { "POST", "/responses", &serve_responses },
    { "POST", "/tokenize", NULL },
    { "POST", "/detokenize", NULL },
    { "POST", "/apply-template", NULL },
    { "POST", "/messages", &serve_messages },
    { "POST", "/messages/count_tokens", &serve_counting },
    { "GET", "/health", NULL },
    { "GET", "/metrics", NULL },
};

/* The endpoint of a path, and the name behind it. */
static int endpoint_of(const char *path, const char **name)
{
    const char *const own = !strncmp(path, "/v1/", 4) && path[4] ? path + 3 : path;
    const size_t n = strlen(endpoints[MODEL].path);
    int i = 0;
    *name = own + n;
    if (!strncmp(own, endpoints[MODEL].path, n)) return MODEL;
    while (i < N_ENDPOINTS && strcmp(own, endpoints[i].path) != 0) i++;
    return i;
}

static const serve_protocol *protocol_of(const http_request *q)
{
    return q->endpoint < N_ENDPOINTS ? endpoints[q->endpoint].protocol : NULL;
}

static const char *header(const http_request *q, const char *name)
{
    const char *const value = MHD_lookup_connection_value(q->to, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* For a preflight: a page of an allowed origin may use any method and headers. */
static void allow_what_is_asked(const http_request *q, struct MHD_Response *r)
{
    const char *const method = header(q, "Access-Control-Request-Method"), *const names = header(
                                                                               q, "Access-Control-Request-Headers");
    const int good = *method && serve_is_token_list(method), some = *names && serve_is_token_list(names);
    (void)MHD_add_response_header(r, "Access-Control-Allow-Methods", good ? method : "GET, POST");
    (void)MHD_add_response_header(r, "Access-Control-Allow-Headers", some ? names : "Authorization, Content-Type");
    (void)MHD_add_response_header(r, "Access-Control-Max-Age", "7200"); /* seconds; browsers allow no more */
    (void)MHD_add_response_header(r, "Vary", "Access-Control-Request-Method, Access-Control-Request-Headers");
}

/* Sends a response, which it frees. */
static enum MHD_Result send_response(http_request *q, int status, const char *type, struct MHD_Response *r)
{
    if (!r) return MHD_NO;
    q->status = status;
    (void)MHD_add_response_header(r, "Content-Type", type);
    (void)MHD_add_response_header(r, "Cache-Control", "no-store");
    if (q->origin) {
        (void)MHD_add_response_header(r, "Access-Control-Allow-Origin", q->origin);
        (void)MHD_add_response_header(r, "Vary", "Origin");
    }
    if (status == 204) allow_what_is_asked(q, r);
    if (q->last) (void)MHD_add_response_header(r, "Connection", "close");
    if (q->endpoint == PAGE) (void)MHD_add_response_header(r, "Content-Security-Policy", serve_page_policy);
    if (status == 405) (void)MHD_add_response_header(r, "Allow", "GET, POST");
    if (status == 429 || status == 503) (void)MHD_add_response_header(r, "Retry-After", "1");
    if (status == 401) (void)MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    const enum MHD_Result sent = MHD_queue_response(q->to, (unsigned)status, r);
    MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result send_text(http_request *q, int status, const char *type, char *text)
{
    if (!text) return MHD_NO;
    return send_response(q, status, type, MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE));
}

/* Sends an object, which it frees, or without one the error. */
static enum MHD_Result send_json(http_request *q, json_t *object, const serve_error *e)
{
    const serve_protocol *const p = protocol_of(q);
    json_t *const answer = object ? object : p ? p->error_of(e) : serve_error_object(e);
    char *const text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    return send_text(q, object ? 200 : e->status, "application/json", text);
}

/* libmicrohttpd takes the time that a callback waits for the client's. It counts from 0 after `counts` was 0. */
static void set_timeout(const http_request *q, int counts)
{
    (void)MHD_set_connection_option(q->to, MHD_CONNECTION_OPTION_TIMEOUT, counts ? (unsigned)serve_opt.timeout : 0U);
}

/* ---- Endpoints ---- */

static ssize_t read_answer(void *user, uint64_t at, char *to, size_t room)
{
    const http_request *const q = user;
    (void)at;
    set_timeout(q, 0);
    const size_t n = serve_next(q->call, to, room);
    set_timeout(q, 1);
    if (n) return (ssize_t)n;
    return q->call->over > 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result generate(http_request *q, int chat)
{
    serve_error e = { 0 };
    q->call = serve_read(q->server, q->body, q->n, chat, protocol_of(q), &e);
    if (!q->call) return send_json(q, NULL, &e);
    q->call->fd = q->connection.fd;
    q->call->owner = q->owner;
    if (!serve_add(q->server, q->call, &e)) return send_json(q, NULL, &e);
    set_timeout(q, 0);
    char *const whole = q->call->stream ? NULL : serve_wait(q->call, &e);
    set_timeout(q, 1);
    if (e.status) return send_json(q, NULL, &e);
    if (whole) return send_text(q, 200, "application/json", whole);
    return send_response(q, 200, q->call->stream ? "text/event-stream" : "application/json",
                         MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_answer, q, NULL));
}

static enum MHD_Result answer(http_request *q)
{
    serve_server *const v = q->server;
    serve_error e = { 0 };
    switch (q->endpoint) {
    case PAGE:
        return send_response(
            q, 200, "text/html; charset=utf-8",
            MHD_create_response_from_buffer(sizeof serve_page, (void *)serve_page, MHD_RESPMEM_PERSISTENT));
    case MODELS: return send_json(q, serve_models(v, &e), &e);
    case MODEL: return send_json(q, serve_model(v, q->name, &e), &e);
    case PROPS: return send_json(q, serve_props(v), &e);
    case TOKENIZER_INFO: return send_json(q, serve_tokenizer_info(v), &e);
    case COMPLETIONS:
    case CHATS:
    case RESPONSES:
    case MESSAGES: return generate(q, q->endpoint != COMPLETIONS);
    case COUNT_TOKENS: return send_json(q, serve_count_tokens(v, q->body, q->n, protocol_of(q), &e), &e);
    case TOKENIZE: return send_json(q, serve_read_tokenize(v, q->body, q->n, &e), &e);
    case DETOKENIZE: return send_json(q, serve_read_detokenize(v, q->body, q->n, &e), &e);
    case APPLY_TEMPLATE: return send_json(q, serve_apply_template(v, q->body, q->n, &e), &e);
    case HEALTH: return send_json(q, serve_is_up(v, &e) ? json_pack("{s:s}", "status", "ok") : NULL, &e);
    case METRICS: return send_text(q, 200, "text/plain; version=0.0.4", serve_metrics(v));
    default: return send_text(q, 204, "text/plain", calloc(1, 1));
    }
}

/* ---- Who may use it ---- */

/* True if the key is a line of `keys`. The time depends on lengths only. */
static int is_key(const char *keys, const char *key)
{
    const size_t n = strlen(key);
    int found = 0;
    for (size_t length; *keys; keys += length + (keys[length] != 0)) {
        length = strcspn(keys, "\r\n");
        unsigned differs = length != n || !n;
        for (size_t i = 0; length && i < n; i++) differs |= (unsigned char)(key[i] ^ keys[i % length]);
        found |= !differs;
    }
    return found;
}

/* The key of a request, in OpenAI's header or Anthropic's; "": none. */
static const char *key_of(const http_request *q)
{
    const char *const given = header(q, "Authorization");
    return strncasecmp(given, "Bearer ", 7) ? header(q, "X-Api-Key") : given + 7;
}

/* The number of a key for rt_request.owner. It outlives the process in --prefix-file, and tells little of the key. */
static uint32_t owner_of(const char *key)
{
    const uint64_t sum = gdn_checksum(key, strlen(key));
    const uint32_t owner = (uint32_t)(sum ^ sum >> 32);
    return owner ? owner : 1; /* 0: of requests without a key */
}

static int too_large(uint64_t n, serve_error *e)
{
    if (n <= (uint64_t)serve_opt.body_kib << 10) return 0;
    (void)serve_fail(e, 413, "body_too_large", NULL, "the body has more than %lld KiB", (long long)serve_opt.body_kib);
    return 1;
}

/* True for hosts that cannot be another's name with this server's address: "localhost", addresses, and the names of
 * --host-name. */
static int is_own(const char *host)
{
    char name[256];
    const int is_6 = *host == '[';
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(host + is_6, is_6 ? "]" : ":"), host + is_6);
    return socket_is_address(name, is_6) || !strcasecmp(name, "localhost") ||
           (*serve_opt.names.text && cli_has_name(&serve_opt.names, name));
}

/* Checks what is known before the body arrives. */
static int check_request(http_request *q, const char *path, const char *method, const char *version, serve_error *e)
{
    q->last = !serve_check_head(q->to, method, q->target, q->n_target, version, e);
    if (q->last) return 0;
    if (q->has_nul) return serve_fail(e, 400, "malformed_request", NULL, "the path has %%00; no path has that here");
    const char *const origin = header(q, "Origin"), *const key = key_of(q), *host = header(q, "Host");
    const char *const origins = serve_opt.origins.text, *const of = strstr(origin, "://");
    char named[256];
    if (!strncasecmp(path, "http://", 7)) { /* a target with a host, which counts instead of the header */
        (void)snprintf(named, sizeof named, "%.*s", (int)strcspn(path + 7, "/"), path + 7);
        host = named;
        path += 7 + strcspn(path + 7, "/");
        if (!*path) path = "/";
    }
    if (*host && q->server->local && !is_own(host))
        return serve_fail(e, 403, "host_not_allowed", NULL, "this server is not reached as %.200s (--host-name)", host);
    const int own = of && !strcmp(of + 3, host) && is_own(host); /* of the page at / */
    if (*origin && !own && !(*origins && (cli_has_name(&serve_opt.origins, origin) || !strcmp(origins, "*"))))
        return serve_fail(e, 403, "origin_not_allowed", NULL, "other origins may not use this server (--origin)");
    if (*origin) q->origin = origin;
    const int i = endpoint_of(path, &q->name);
    q->endpoint = *origin && !strcmp(method, "OPTIONS") ? PREFLIGHT : i;
    if (i < N_ENDPOINTS && q->endpoint == PREFLIGHT) return 1;
    if (q->server->keys && i != HEALTH && i != PAGE && !is_key(q->server->keys, key))
        return serve_fail(e, 401, "invalid_api_key", NULL,
                          "an API key is needed: Authorization: Bearer KEY, or X-Api-Key");
    q->owner = q->server->keys ? owner_of(key) : 0;
    if (i == N_ENDPOINTS) return serve_fail(e, 404, "not_found", NULL, "there is no %.200s", path);
    if (strcmp(method, endpoints[i].method) != 0)
        return serve_fail(e, 405, "method_not_allowed", NULL, "%s is for %s", path, endpoints[i].method);
    return !too_large(strtoull(header(q, "Content-Length"), NULL, 10), e);
}

/* ---- libmicrohttpd's callbacks ---- */

static int append(http_request *q, const char *bytes, size_t n)
{
    char *const larger = realloc(q->body, q->n + n);
    if (!larger) return 0;
    memcpy(larger + q->n, bytes, n);
    q->body = larger;
    q->n += n;
    return 1;
}

static void on_connection(void *user, struct MHD_Connection *to, void **state, enum MHD_ConnectionNotificationCode code)
{
    serve_server *const v = user;
    http_request *const q = *state ? *state : calloc(1, sizeof *q);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && q) {
        const gdn_socket fd = (gdn_socket)MHD_get_connection_info(to, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        *q = (http_request){ .server = v, .to = to, .connection.fd = fd };
        *state = q;
        serve_connected(v, &q->connection);
    } else if (q) {
        serve_disconnected(v, &q->connection);
        free(q);
    }
}

static http_request *request_of(struct MHD_Connection *to)
{
    return MHD_get_connection_info(to, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Called with the first line. */
static void *on_target(void *user, const char *target, struct MHD_Connection *to)
{
    http_request *const q = request_of(to);
    if (!q) return NULL;
    q->target = target;
    q->n_target = strlen(target);
    q->began = run_now();
    const char *const nul = strstr(target, "%00");
    q->has_nul = nul && nul < target + strcspn(target, "?");
    serve_request_begins(user, &q->connection);
    return NULL;
}

/* Called with the headers, with each part of the body, and at its end. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *to, const char *path, const char *method,
                                  const char *version, const char *bytes, size_t *n_bytes, void **state)
{
    http_request *const q = request_of(to);
    serve_error e = { 0 };
    (void)user;
    if (!q) return MHD_NO;
    if (!*state) {
        *state = q;
        return check_request(q, path, method, version, &e) ? MHD_YES : send_json(q, NULL, &e);
    }
    if (*n_bytes) { /* of a body that is too large the rest is not kept */
        if (!too_large(q->n, &e) && !append(q, bytes, *n_bytes)) return MHD_NO;
        *n_bytes = 0;
        return MHD_YES;
    }
    q->last = !serve_request_is_complete(q->server, &q->connection, &e) && q->endpoint != HEALTH;
    return q->last || too_large(q->n, &e) ? send_json(q, NULL, &e) : answer(q);
}

static void on_completed(void *user, struct MHD_Connection *to, void **state, enum MHD_RequestTerminationCode code)
{
    http_request *const q = *state;
    (void)to;
    if (!q) return;
    serve_note_answer(user, q->endpoint < N_ENDPOINTS ? endpoints[q->endpoint].path : "-", q->status, q->call,
                      run_now() - q->began, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (q->call) serve_release(q->call);
    free(q->body);
    q->origin = q->body = NULL;
    q->call = NULL;
    q->n = 0;
    q->status = 0;
    serve_request_waits(q->server, &q->connection);
}

/* ---- Start and end ---- */

/* Reads the file of keys, a key per line. NULL: failed. */
static char *read_keys(const char *path)
{
    enum { MOST = 65536 };
    FILE *const f = file_open(path, "r");
    char *const keys = calloc(1, MOST + 1);
    const size_t n = f && keys ? fread(keys, 1, MOST, f) : 0;
    if (f) (void)fclose(f);
    if (n && n < MOST && strspn(keys, "\r\n") < n) return keys;
    (void)fprintf(stderr, "gdn serve: %s: %s\n", path, f ? "it needs a key, and at most 64 KiB" : strerror(errno));
    free(keys);
    return NULL;
}

/* Stops listening; requests on open connections are still answered. */
static void close_port(void *user)
{
    const MHD_socket fd = MHD_quiesce_daemon(user);
    if (fd != MHD_INVALID_SOCKET) socket_close(fd);
}

static int serve(serve_server *v)
{
    socket_address at;
    char port[16];
    (void)snprintf(port, sizeof port, "%lld", (long long)serve_opt.port);
    const char *const unknown = socket_find(serve_opt.host, port, &at);
    if (unknown) {
        (void)fprintf(stderr, "gdn serve: --host %s: %s\n", serve_opt.host, unknown);
        return 1;
    }
    v->local = at.is_local;
    const unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                           MHD_USE_ITC | (at.is_6 ? MHD_USE_IPv6 : 0);
    struct MHD_Daemon *const daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, v, MHD_OPTION_SOCK_ADDR, at.address, MHD_OPTION_CONNECTION_LIMIT,
        2 * (unsigned)(serve_opt.connections + v->reserve), MHD_OPTION_URI_LOG_CALLBACK, on_target, v,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)serve_opt.timeout, MHD_OPTION_NOTIFY_COMPLETED, on_completed, v,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, v, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES, MHD_OPTION_END);
    socket_address_free(&at);
    if (!daemon) {
        (void)fprintf(stderr, "gdn serve: cannot listen at %s port %s: %s\n", serve_opt.host, port, strerror(errno));
        return 1;
    }
    (void)printf("gdn serve: listening on http://%s%s%s:%d\n", at.is_6 ? "[" : "", serve_opt.host, at.is_6 ? "]" : "",
                 (int)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    (void)output_flush();
    const int code = serve_loop(v, close_port, daemon);
    MHD_stop_daemon(daemon);
    return code;
}

int serve_run(run_session *s, const rt_sampling defaults[2])
{
    serve_server v = {
        .session = s, .defaults = { defaults[0], defaults[1] }, .started = (int64_t)time(NULL), .lock = GDN_MUTEX_INIT
    };
    if (!sockets_begin() || serve_limit_connections(&v)) return 1;
    if (serve_opt.key_file && !(v.keys = read_keys(serve_opt.key_file))) return 1;
    if (!serve_name_model(&v)) return 1;
    gdn_condition_init(&v.work);
    interrupt_catch();
    const int code = serve(&v);
    json_decref(v.said);
    json_decref(v.names);
    free(v.keys);
    return code;
}

/* The connections: how many there are, and which of them are closed when room is needed. See serve.h.
 *
 * A new connection is accepted at once: --connections of them may be open for long, and a reserve for a second. Then
 * those that wait for a request are closed. If all have one, further requests are refused. */
#include <stdio.h>

#include "system/sockets.h"
#include "system/system.h"
#include "runtime/base/clock.h"
#include "tools/serve/serve.h"

enum { OTHER_FILES = 24 };     /* the model, the port, --prefix-file and some more */
static const double grace = 1; /* seconds for which a connection may wait for a request though there are too many */

int serve_limit_connections(serve_server *v)
{
    const int64_t wanted = serve_opt.connections ? serve_opt.connections : run_opt.parallel + serve_opt.queue + 512;
    const int64_t files = wanted + SERVE_RESERVE + OTHER_FILES, room = sockets_limit(files) - OTHER_FILES;
    v->reserve = room < wanted + SERVE_RESERVE && room < 2 * SERVE_RESERVE ? room / 2 : SERVE_RESERVE;
    if (v->reserve < 1) v->reserve = 1;
    const int64_t most = room - v->reserve < 1 ? 1 : room - v->reserve;
    if (wanted > most && serve_opt.connections) {
        (void)fprintf(stderr, "gdn serve: --connections is %lld; the limit of open files (ulimit -n) allows %lld\n",
                      (long long)wanted, (long long)most);
        return 1;
    }
    serve_opt.connections = wanted < most ? wanted : most;
    return 0;
}

/* ---- The lock is held ---- */

static void disconnect(serve_connection *c)
{
    c->closing = 1;
    socket_shut(c->fd); /* its thread then sees the end */
}

/* Closes connections that wait for a request while more than `most` are open: first those of which no request has
 * begun, the longest waiting first. Returns how many are open. */
static int64_t close_waiting(serve_server *v, int64_t most)
{
    const double latest = rt_now() - grace;
    for (;;) {
        serve_connection *first = NULL;
        int64_t n = 0;
        for (serve_connection *c = v->connections; c; c = c->next) {
            if (c->closing) continue;
            n++;
            if (c->since && c->since < latest &&
                (!first || c->begun < first->begun || (c->begun == first->begun && c->since < first->since)))
                first = c;
        }
        if (n <= most || !first) return n;
        disconnect(first);
    }
}

void serve_close_late(serve_server *v)
{
    const double latest = rt_now() - 10 * (double)serve_opt.timeout;
    (void)close_waiting(v, serve_opt.connections);
    for (serve_connection *c = v->connections; c; c = c->next)
        if (c->since && c->since < latest && !c->closing) disconnect(c);
}

/* ---- The lock is not held ---- */

void serve_connected(serve_server *v, serve_connection *c)
{
    gdn_mutex_lock(&v->lock);
    while (close_waiting(v, serve_opt.connections - 1) >= serve_opt.connections + v->reserve) {
        gdn_mutex_unlock(&v->lock);
        gdn_sleep(5000000); /* further clients wait in the system's queue */
        gdn_mutex_lock(&v->lock);
    }
    c->since = rt_now();
    c->next = v->connections;
    v->connections = c;
    gdn_mutex_unlock(&v->lock);
}

void serve_disconnected(serve_server *v, serve_connection *c)
{
    gdn_mutex_lock(&v->lock);
    serve_connection **at = &v->connections;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    gdn_mutex_unlock(&v->lock);
}

void serve_request_waits(serve_server *v, serve_connection *c)
{
    gdn_mutex_lock(&v->lock);
    c->since = rt_now();
    c->begun = 0;
    gdn_mutex_unlock(&v->lock);
}

void serve_request_begins(serve_server *v, serve_connection *c)
{
    gdn_mutex_lock(&v->lock);
    c->since = rt_now();
    c->begun = 1;
    gdn_mutex_unlock(&v->lock);
}

int serve_request_is_complete(serve_server *v, serve_connection *c, serve_error *e)
{
    int64_t n = 0;
    gdn_mutex_lock(&v->lock);
    c->since = 0;
    for (const serve_connection *at = v->connections; at; at = at->next) n += !at->since;
    gdn_mutex_unlock(&v->lock);
    return n <= serve_opt.connections ||
           serve_fail(e, 503, "too_many_connections", NULL,
                      "the server has requests on %lld connections, which are all (--connections)",
                      (long long)serve_opt.connections);
}

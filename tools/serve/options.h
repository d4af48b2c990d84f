/* The command line of `gdn serve`; the options of the engine are those of run_opt. */
#ifndef GDN_TOOL_SERVE_OPTIONS_H
#define GDN_TOOL_SERVE_OPTIONS_H

#include "tools/run/run.h"

typedef struct serve_options {
    const char *host, *key_file, *alias;
    cli_names origins;
    int64_t port, queue, max_tokens, body_kib, timeout;
} serve_options;
extern serve_options serve_opt;

/* Runs the server with an opened model; returns the exit code. defaults: the sampling parameters of completions and of
 * chats. */
int serve_run(run_session *s, const rt_sampling defaults[2]);

#endif

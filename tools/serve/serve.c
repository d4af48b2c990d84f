/* gdn serve - an HTTP server with OpenAI's interface and Anthropic's. This file has the command line. See serve.h. */
#include "tools/serve/serve.h"

#include <string.h>

#include "runtime/decode/sampling_defaults.h"
#include "tools/cli/commands.h"
#include "system/interrupt.h"
#include "tools/cli/output.h"

serve_options serve_opt = {
    .host = "127.0.0.1", .port = 8080, .queue = 64, .body_kib = 1024, .timeout = 30, .log_format = "text"
};

/* Those of its own; those of the engine are gdn run's. */
static const cli_option own[] = {
    { "host", CLI_STRING, &serve_opt.host, "ADDRESS", "address to listen at (default 127.0.0.1: this machine only)" },
    { "port", CLI_INT, &serve_opt.port, "N", "port (default 8080); 0: any free one, which is printed" },
    { "parallel", CLI_INT, &run_opt.parallel, "N", "texts that are generated at once (default 4)" },
    { "queue", CLI_INT, &serve_opt.queue, "N", "texts that wait at most; more are refused with 429 (default 64)" },
    { "connections", CLI_INT, &serve_opt.connections, "N",
      "connections at once; beyond them those that wait for a request\n"
      "are closed, and others get 503 (default 0: --parallel + --queue\n"
      "+ 512)" },
    { "prefix-cache", CLI_INT, &run_opt.prefix_mib, "MIB",
      "memory for the states of prompts that begin alike; 0: none\n"
      "(default: 64 of them, in at most 512 MiB)" },
    { "max-tokens", CLI_INT, &serve_opt.max_tokens, "N", "most tokens of a text (default 0: what --ctx holds)" },
    { "body-limit", CLI_INT, &serve_opt.body_kib, "KIB",
      "most KiB of a request's body (default: 16 bytes for each token of\n"
      "the context, and at least 1024 KiB)" },
    { "ctx", CLI_INT, &run_opt.context, "N",
      "context size in tokens (default: the model's; half of it, or less,\n"
      "while it takes more than three quarters of the memory)",
      'c' },
    { "temp", CLI_DOUBLE, &run_opt.temperature, "T",
      "default of requests' temperature. Without these defaults\n"
      "completions take the most likely token, and chats have the model\n"
      "file's parameters, or temp 0.8, top-k 40, top-p 0.95, min-p 0.05" },
    { "top-k", CLI_INT, &run_opt.top_k, "K", "default of requests' top_k" },
    { "top-p", CLI_DOUBLE, &run_opt.top_p, "P", "default of requests' top_p" },
    { "min-p", CLI_DOUBLE, &run_opt.min_p, "P", "default of requests' min_p" },
    { "repeat-penalty", CLI_DOUBLE, &run_opt.repeat_penalty, "X", "default of requests' repeat_penalty" },
    { "repeat-last", CLI_INT, &run_opt.repeat_last, "N", "default of requests' repeat_last_n" },
    { "presence-penalty", CLI_DOUBLE, &run_opt.presence_penalty, "X", "default of requests' presence_penalty" },
    { "frequency-penalty", CLI_DOUBLE, &run_opt.frequency_penalty, "X", "default of requests' frequency_penalty" },
    { "timeout", CLI_INT, &serve_opt.timeout, "S",
      "seconds after which a client that neither sends nor receives is\ndisconnected (default 30)" },
    { "api-key-file", CLI_STRING, &serve_opt.key_file, "FILE",
      "file with a key per line; requests need one of them, except\n"
      "/health, and find only prefixes of their key" },
    { "origin", CLI_NAMES, &serve_opt.origins, "LIST",
      "origins whose pages may use the server from a browser, as in\n"
      "https://example.org; * alone is every origin (default: none)" },
    { "host-name", CLI_NAMES, &serve_opt.names, "LIST",
      "names of this machine that clients may use; at an address of\n"
      "this machine only, others are refused (default: localhost and\n"
      "addresses)" },
    { "strict", CLI_FLAG, &serve_opt.strict, NULL,
      "refuse members of requests that are unknown, and other models'\n"
      "names (default: they are ignored, which is said once)" },
    { "log-requests", CLI_FLAG, &serve_opt.log_requests, NULL,
      "a line on standard error for each request: time, endpoint, id,\n"
      "status, tokens, seconds" },
    { "log-format", CLI_STRING, &serve_opt.log_format, "NAME",
      "... as text (default), or as json: an object on each line" },
    { "alias", CLI_TEXTS, &serve_opt.alias, "NAME",
      "name of the model for clients; may be given several times\n(default: its file's name)" },
};
static const cli_names of_run = {
    "model,chat-template,chat-template-kwargs,reasoning,spec,draft-model,draft-max,draft-vocab,rollback,"
    "p-min,always-draft,cells,prefix-interval,prefix-file,batch,step,kv,form,threads,"
    "backend,device,impl,level,isa,memory"
};
static cli_option option_table[80]; /* made when the command begins; ends with a NULL */

static void make_options(void)
{
    cli_option *to = option_table;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) *to++ = own[i];
    for (const cli_option *o = run_command.options; o->name; o++)
        if (cli_has_name(&of_run, o->name)) *to++ = *o;
}

static const cli_command serve_command = {
    "gdn serve",
    "serve a model over HTTP, with OpenAI's interface and Anthropic's",
    option_table,
    "Standard output gets one line, 'gdn serve: listening on http://127.0.0.1:8080', once requests are accepted.\n"
    "Endpoints: / (a page to chat), /v1/models, /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages,\n"
    "/v1/messages/count_tokens, /tokenize, /detokenize, /apply-template, /props, /tokenizer_info, /health, /metrics. "
    "The guide lists\n"
    "what is read of requests.\n"
    "\n"
    "A text depends only on the model, the request, --ctx, --kv and --form, and not on other requests. What a request\n"
    "does not set is as in gdn run: completions take the most likely token, and chats the model file's sampling\n"
    "parameters. A request without a seed gets a random one, and the answer tells it.\n"
    "\n"
    "Exit status: 0 success; 1 failure; 2 wrong command line; 130 after Ctrl-C and 143 after SIGTERM. The first\n"
    "signal refuses new requests and ends the server after the last answer, the second one ends it at once.",
    "model,host,port,parallel,queue,api-key-file,origin,ctx,prefix-cache,prefix-file,threads,backend",
    run_foreign,
};

static int check_options(void)
{
    if (run_check_engine_options() || !run_in_range("port", serve_opt.port, 0, 65535) ||
        !run_in_range("parallel", run_opt.parallel, 1, 1024) || !run_in_range("queue", serve_opt.queue, 0, 65536) ||
        !run_in_range("connections", serve_opt.connections, 0, 65536) ||
        !run_in_range("max-tokens", serve_opt.max_tokens, 0, 1 << 26) ||
        !run_in_range("body-limit", serve_opt.body_kib, 1, 1 << 20) ||
        !run_in_range("timeout", serve_opt.timeout, 1, 86400))
        return 2;
    serve_opt.log_json = !strcmp(serve_opt.log_format, "json");
    serve_opt.log_requests |= cli_given(&serve_command, "log-format");
    if (!serve_opt.log_json && strcmp(serve_opt.log_format, "text") != 0)
        return cli_error(&serve_command, "--log-format is '%s'; text and json are allowed", serve_opt.log_format);
    if (!run_opt.prefix_mib && (run_opt.prefix_file || cli_given(&serve_command, "prefix-interval")))
        return cli_error(&serve_command, "--prefix-interval and --prefix-file need a --prefix-cache above 0");
    return 0;
}

/* Says on standard error what is served. */
static void tell(const run_session *s)
{
    const rt_prefix_stats p = rt_memory_prefix_stats_of(rt_engine_memory(s->engine));
    const rt_memory_bytes *const m = &s->memory;
    const uint64_t up = (1 << 20) - 1, state = m->state + m->conv + m->snapshots + m->log + m->hidden + s->scratch;
    (void)fprintf(
        stderr,
        "gdn serve: note: %s (%s), context %d, %d texts at once in %d cells, %d threads, drafts %s\n"
        "gdn serve: note: MiB of memory: weights %llu, KV cells %llu, prefixes %llu, states and buffers %llu\n",
        run_opt.model, rt_arch_name(s->model->hp.arch), (int)s->context, (int)s->n_seqs,
        (int)rt_engine_limits_of(s->engine).n_cells, (int)rt_threads_wanted((int32_t)run_opt.threads),
        run_spec_name(s->spec), (unsigned long long)((s->model->weight_bytes + up) >> 20),
        (unsigned long long)((m->kv + up) >> 20), (unsigned long long)((m->prefixes + up) >> 20),
        (unsigned long long)((state + up) >> 20));
    if (p.n_max)
        (void)fprintf(stderr, "gdn serve: note: %d prefixes are kept at most, one every %d tokens\n", (int)p.n_max,
                      (int)p.interval);
}

int gdn_serve_main(int argc, char **argv)
{
    run_set_defaults();
    run_opt.parallel = 4;
    run_opt.prefix_mib = 512;
    make_options();
    run_caller = &serve_command;
    const int cli = cli_parse(&serve_command, argc, argv);
    if (cli != CLI_RUN) return cli_exit_code(cli);
    int code = check_options();
    if (code) return code;
    run_session s = { 0 };
    rt_sampling defaults[2] = { run_sampling(1) };
    int n_found = 0;
    if (rt_sampling_check(&defaults[0])) return cli_error(&serve_command, "%s", rt_last_error());
    s.rollback = run_rollback();
    code = run_load_model(&s);
    if (!code && (run_opt.chat_template || run_opt.chat_template_kwargs ||
                  rt_gguf_has(s.model->file, "tokenizer.chat_template")))
        code = run_load_template(&s);
    if (!code) code = run_choose_spec(&s);
    if (!code) code = run_set_chat_sampling(&s, &n_found);
    defaults[1] = run_sampling(1);
    if (!code) code = run_open_engine(&s, (int32_t)run_opt.parallel, s.spec, s.rollback, &s.engine);
    if (!code) tell(&s);
    if (!cli_given(&serve_command, "body-limit") && s.context / 64 > serve_opt.body_kib)
        serve_opt.body_kib = s.context / 64;
    if (!code) code = serve_run(&s, defaults);
    run_close(&s);
    return interrupt_noted() && !code ? interrupt_end(output_end("gdn", code)) : code;
}

#if !GDN_HAVE_SERVE
int serve_run(run_session *s, const rt_sampling defaults[2])
{
    (void)s;
    (void)defaults;
    (void)fprintf(stderr, "gdn serve: this gdn was built without libmicrohttpd and jansson, which the server needs; "
                          "install libmicrohttpd-dev, libjansson-dev and pkg-config, and configure again\n");
    return 1;
}
#endif

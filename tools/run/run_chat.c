/* `gdn run --chat` without prompts, or with --save or --load: a conversation. See run.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system/files.h"
#include "system/interrupt.h"
#include "system/replace.h"
#include "tools/cli/output.h"
#include "tools/run/line.h"
#include "tools/run/run.h"
#include "runtime/serve/conversation.h"

typedef struct talk {
    run_session *session;
    rt_conversation *conversation;
    run_output *output; /* of the current turn */
    progress_bar bar;
    json_writer json;
    int begun, lost, terminal; /* lost: RUN_LOST or RUN_NO_MEMORY; terminal: input is a terminal */
    int64_t turns, kept, read, generated, drafted, accepted;
} talk;

/* ---- A turn ---- */

static int on_token(void *user, int32_t token)
{
    talk *t = user;
    progress_clear(&t->bar);
    const int end = run_output_token(t->output, 0, token);
    if (end) t->lost = end;
    return end || interrupt_noted();
}

static int on_reading(void *user, int32_t done, int32_t total, int thinks)
{
    talk *t = user;
    progress_to(&t->bar, done, "tokens of the conversation");
    if (done < total) return interrupt_noted();
    progress_end(&t->bar);
    if (thinks && !run_opt.json) (void)fputs("<think>\n", stdout);
    return interrupt_noted();
}

static void print_turn(talk *t, const run_bytes *said, const rt_turn_result *r)
{
    int32_t n;
    json_writer *const w = &t->json;
    const rt_message *const all = rt_conversation_messages(t->conversation, &n);
    const rt_message last = r->n_tokens ? all[n - 1] : (rt_message){ .text = "" };
    json_put_object(w, NULL);
    json_put_bytes(w, "user", said->bytes, said->n);
    json_put_bytes(w, "text", last.text, last.bytes);
    if (last.reasoning) json_put_bytes(w, "reasoning", last.reasoning, last.n_reasoning);
    else json_put_null(w, "reasoning");
    json_put_string(w, "finish", run_finish_name(r->finish, 0));
    json_put_int(w, "prompt_tokens", r->n_prompt);
    json_put_int(w, "kept_tokens", r->n_kept);
    json_put_int(w, "read_tokens", r->n_read);
    json_put_int(w, "drafted", r->n_drafted);
    json_put_int(w, "accepted", r->n_accepted);
    json_put_array(w, "tokens");
    for (int32_t i = 0; i < r->n_tokens; i++) json_put_int(w, NULL, r->tokens[i]);
    json_close(w);
    json_close(w);
}

/* Runs a turn. 1: the conversation cannot continue, and the error was printed. */
static int turn(talk *t, const run_bytes *said)
{
    static const run_request request = { 0 };
    static const run_prompt prompt = { { NULL, 0 }, NULL, NULL, 0 };
    rt_turn_result r;
    const rt_turn what = { .text = said->bytes,
                           .n_text = said->n,
                           .n_max = run_opt.n_predict < 0 ? 0 : (int32_t)run_opt.n_predict,
                           .ignore_end = run_opt.ignore_end,
                           .on_token = on_token,
                           .on_reading = on_reading,
                           .user = t };
    t->output = run_output_create(t->session, &prompt, &request, 1, !run_opt.json);
    if (!t->output) {
        (void)fprintf(stderr, "gdn run: out of memory\n");
        return 1;
    }
    progress_begin(&t->bar, t->session->context);
    interrupt_catch();
    const gdn_status status = rt_conversation_turn(t->conversation, &what, &r);
    progress_end(&t->bar);
    if (status) {
        char which[32];
        (void)snprintf(which, sizeof which, "turn %lld", (long long)t->turns + 1);
        (void)run_fail(which);
    } else {
        const int lost = run_output_end(t->output, 0);
        t->lost = t->lost ? t->lost : lost;
        t->turns++;
        t->kept += r.n_kept;
        t->read += r.n_read;
        t->generated += r.n_tokens;
        t->drafted += r.n_drafted;
        t->accepted += r.n_accepted;
        if (run_opt.json) print_turn(t, said, &r);
        if (r.finish == RT_FINISH_CONTEXT) run_tell_full(t->session, "", t->terminal ? "; /clear begins anew" : "");
        if (r.finish == RT_FINISH_LENGTH) run_tell_cut("");
    }
    run_output_destroy(t->output);
    t->output = NULL;
    if (t->lost == RUN_NO_MEMORY) (void)fprintf(stderr, "gdn run: out of memory\n");
    return status || t->lost;
}

/* ---- Files ---- */

static int file_trouble(const char *path)
{
    (void)fprintf(stderr, "gdn run: %s: %s\n", path, replace_error());
    return 1;
}

/* Replaces the file of --save. NULL: only checks that it can be written. */
static int save(const rt_conversation *c)
{
    replacement r;
    if (!replace_begin(&r, run_opt.save, 5)) return file_trouble(run_opt.save);
    const gdn_status status = c ? rt_conversation_save(c, run_write_bytes, r.file) : GDN_OK;
    if (replace_end(&r, c && !status) || !c) return 0;
    return status ? run_fail(run_opt.save) : file_trouble(run_opt.save);
}

static int load_conversation(talk *t)
{
    run_bytes all = { NULL, 0 };
    FILE *f = file_open(run_opt.load, "r");
    if (!f) return file_trouble(run_opt.load);
    int code = run_read_all(f, run_opt.load, UINT64_MAX, &all);
    (void)fclose(f);
    if (!code && rt_conversation_load(t->conversation, all.bytes, all.n)) code = run_fail(run_opt.load);
    free(all.bytes);
    return code;
}

/* ---- The conversation ---- */

static int is(const run_bytes *line, const char *what)
{
    return line->n == strlen(what) && !memcmp(line->bytes, what, (size_t)line->n);
}

/* Handles Ctrl-C: on a terminal it ends the answer, otherwise the conversation. 1: the conversation ends. */
static int interrupted(const talk *t)
{
    if (!interrupt_noted()) return 0;
    if (!t->terminal || !interrupt_is_key()) return 1;
    interrupt_forget();
    return 0;
}

static void help(void)
{
    (void)fprintf(stderr, "A line is a message; one that ends with \\ goes on in the next. Ctrl-C stops an answer,\n"
                          "/clear begins anew, /exit or Ctrl-D ends the conversation, /help prints this.\n");
}

/* True for a command followed by other words, which is a mistake and not a message. */
static int is_wrong(const run_bytes *line)
{
    static const char *const commands[] = { "/clear", "/exit", "/help" };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const size_t n = strlen(commands[i]);
        if (line->n <= n || memcmp(line->bytes, commands[i], n) != 0 || !strchr(" \t", line->bytes[n])) continue;
        (void)fprintf(stderr,
                      "gdn run: %s takes nothing behind it, so nothing was done; a message that begins so wants a "
                      "space before it\n",
                      commands[i]);
        return 1;
    }
    return 0;
}

static int from_input(talk *t)
{
    line_text line = { { NULL, 0 }, 0 };
    const run_bytes *const text = &line.bytes;
    int code = 0;
    line_begin();
    t->terminal = line_is_typed();
    int32_t n;
    const rt_message *const before = rt_conversation_messages(t->conversation, &n);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(before[i].role, "user")) line_remember(before[i].text, before[i].bytes);
    if (t->terminal) help();
    while (!code) {
        const line_kind what = line_read(&line);
        if (what == LINE_TROUBLE) code = 1;
        if (what != LINE_TEXT || is(text, "/exit")) break;
        if (is(text, "/clear")) rt_conversation_clear(t->conversation);
        else if (is(text, "/help")) help();
        else if (is_wrong(text)) code = 1;
        else if (text->n) code = turn(t, text);
        if (code && t->terminal && !t->lost) code = 0; /* the error was printed; another message, or /clear, may work */
        if (interrupted(t)) break;
    }
    line_end();
    if (t->terminal) (void)fputc('\n', stderr);
    free(line.bytes.bytes);
    return code;
}

static void report(const talk *t, double seconds)
{
    (void)fprintf(
        stderr, "\nconversation %lld turns in %.2f s: %lld tokens read, %lld kept from turn to turn, %lld generated\n",
        (long long)t->turns, seconds, (long long)t->read, (long long)t->kept, (long long)t->generated);
    if (t->session->spec != RT_SPEC_OFF)
        (void)fprintf(stderr, "drafts       %lld drafted, %lld accepted\n", (long long)t->drafted,
                      (long long)t->accepted);
    run_print_memory(t->session);
}

int run_talk(run_session *s, const run_prompt *prompts, int32_t n)
{
    talk t = { .session = s };
    const rt_conversation_desc desc = { .engine = s->engine,
                                        .tokenizer = s->tokenizer,
                                        .chat = s->chat,
                                        .thinking = s->thinking,
                                        .sampling = run_sampling(run_opt.seed),
                                        .spec = s->spec,
                                        .draft_max = s->spec == RT_SPEC_OFF ? 0 : (int32_t)run_opt.draft_max,
                                        .p_min = (float)run_opt.p_min,
                                        .always = run_opt.always_draft,
                                        .system = s->system.bytes,
                                        .n_system = s->system.n,
                                        .schema = s->schema };
    const double begin = run_now();
    file_lock lock = { NULL, 0 };
    int code = 0;
    if (run_opt.save && !file_lock_take(&lock, run_opt.save, 5)) code = file_trouble(run_opt.save);
    if (run_opt.save && !code) code = save(NULL);
    if (!code && rt_conversation_create(&desc, &t.conversation)) code = run_fail("the conversation");
    if (!code && run_opt.load) code = load_conversation(&t);
    if (!code) {
        if (run_opt.json) {
            run_begin_json(&t.json, s, s->engine);
            json_put_int(&t.json, "context", s->context);
            json_put_array(&t.json, "turns");
        }
        for (int32_t i = 0; !code && i < n && !interrupted(&t); i++) code = turn(&t, &prompts[i].text);
        if (!n) code = from_input(&t);
        if (run_opt.save && save(t.conversation)) code = 1;
        if (run_opt.json) {
            json_close(&t.json);
            json_put_uint(&t.json, "rows", rt_engine_counters(s->engine).rows);
            json_close(&t.json);
            if (!json_finish(&t.json)) code = 1;
        }
        if (run_opt.stats) report(&t, run_now() - begin);
    }
    file_lock_free(&lock);
    rt_conversation_destroy(t.conversation);
    return code;
}

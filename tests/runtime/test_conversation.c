/* Conversations. The prompt of every turn is the rendering of the whole conversation. Its answer is that of another
 * engine that reads the prompt from scratch, whatever was kept, drafted, stopped, edited, saved or loaded. A turn
 * decodes no tokens that a checkpoint has.
 *
 *   test_conversation FOLDER [TALKS [1]]    the folder that has fixtures/; the model is in ../../models
 *
 * TALKS: random conversations, 200 without it. 1: each kind of turn once, with shorter answers and fewer of the damages
 * to what was saved. That is for builds under sanitizers, which take ten times as long and look at what code does with
 * memory: none of it is left out. */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "gguf_build.h"
#include "runtime/serve/conversation_internal.h"

enum { CONTEXT = 640, TURNS = 4, ANSWER = 24, MESSAGES = 24 };

static const char plain[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char drops[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content|trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}"
    "<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}";
static const char keeps[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n"
                            "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
                            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char counts[] = "{{ messages|length }}:{% for m in messages %}{{ m.content }};{% endfor %}";

static const char turns[] =
    "{{ 'few' if messages|length < 4 else 'many' }}{% for m in messages %}{{ m.content }};{% endfor %}";

static const char *const said[TURNS] = { "Who was Moses?", "  And\nAaron? ", "\xff\xc3 <|im_end|>\n<think>",
                                         "Blessed are" };

static int once;                /* each kind of turn once */
static int32_t digits;          /* of all engines */
static int32_t answer = ANSWER; /* tokens, at most */
static rt_model *model;
static rt_tokenizer *tokenizer;

/* A conversation with a chat template and an engine of its own. interval: of the engine; 0: no checkpoints but those of
 * the turns. */
static rt_conversation *open_with(const char *form, rt_spec spec, int32_t context, int thinking, const char *system,
                                  int32_t n_prefixes, int32_t interval, rt_conversation_desc *d)
{
    static gguf_build file;
    static int n_opened; /* engines roll back by snapshots and by a log, in turn */
    const fixture_engine with =
        FIELDS(.n_ctx = context, .n_prefixes = n_prefixes, .prefix_interval = interval ? interval : context + 1,
               .digits = digits, .n_rollback = spec == RT_SPEC_OFF ? 0 : 3,
               .rollback = n_opened++ % 2 ? RT_ROLLBACK_SNAPSHOTS : RT_ROLLBACK_LOG, .n_batch = 32,
               .draft = spec == RT_SPEC_MTP);
    rt_gguf *f;
    rt_chat *chat;
    rt_conversation *c;
    build_header(&file, 0, 1);
    build_key_string(&file, "tokenizer.chat_template", form);
    NEED(!rt_gguf_open_memory(file.bytes, file.n, NULL, &f) && !rt_chat_create(f, tokenizer, &chat));
    rt_gguf_close(f);
    *d = (rt_conversation_desc)FIELDS(.engine = fixture_open(model, &with), .tokenizer = tokenizer, .chat = chat,
                                      .thinking = thinking, .system = system, .n_system = system ? strlen(system) : 0,
                                      .sampling = FIELDS(.temperature = 0.8f, .top_p = 0.95f, .repeat_penalty = 1.1f,
                                                         .repeat_last = 32, .top_k = 40, .seed = 5),
                                      .spec = spec, .draft_max = spec == RT_SPEC_OFF ? 0 : 3, .always = 1);
    NEED(!rt_conversation_create(d, &c));
    return c;
}

static rt_conversation *open_talk(const char *form, rt_spec spec, int32_t context, int thinking, const char *system,
                                  rt_conversation_desc *d)
{
    return open_with(form, spec, context, thinking, system, 1, 0, d);
}

static void close_talk(rt_conversation *c, const rt_conversation_desc *d)
{
    rt_conversation_destroy(c);
    rt_engine_destroy(d->engine);
    rt_chat_destroy((rt_chat *)d->chat);
}

/* What an engine says that reads all of the prompt. */
static int32_t from_scratch(rt_engine *engine, const rt_sampling *sampling, const int32_t *prompt, int32_t n_prompt,
                            int32_t *tokens, int32_t most)
{
    const rt_scheduler_desc desc = { .engine = engine, .tokenizer = tokenizer, .n_parallel = 1 };
    const rt_request r = { .prompt = prompt, .n_prompt = n_prompt, .n_max = most, .sampling = *sampling };
    rt_scheduler *s;
    int32_t id, n;
    int busy = 1;
    NEED(!rt_scheduler_create(&desc, &s) && !rt_scheduler_submit(s, &r, &id));
    while (busy) NEED(!rt_scheduler_step(s, &busy));
    const int32_t *got = rt_scheduler_tokens(s, id, &n);
    memcpy(tokens, got, (size_t)n * sizeof *tokens);
    rt_scheduler_destroy(s);
    return n;
}

typedef struct watch {
    int32_t n, stop_at, done, stop_reading; /* tokens so far; 0: never */
} watch;

static int on_token(void *user, int32_t token)
{
    watch *w = user;
    (void)token;
    return ++w->n == w->stop_at;
}

static int on_reading(void *user, int32_t done, int32_t total, int thinks)
{
    watch *w = user;
    (void)thinks;
    REQUIRE(done > w->done && done <= total);
    w->done = done;
    return w->stop_reading && done >= w->stop_reading;
}

/* The engine's stop function: ends a step at the last of these calls. */
static int64_t calls_left;
static int stops(void *user)
{
    (void)user;
    return calls_left > 0 && --calls_left == 0;
}

/* A turn, against all of it from scratch. Messages as the caller knows them, without what the conversation keeps. */
static rt_turn_result turn(rt_conversation *c, const rt_conversation_desc *d, const char *text, rt_engine *other,
                           watch *w)
{
    rt_turn_result r;
    rt_chat_prompt p;
    int32_t n, expected[ANSWER], n_before;
    rt_message talk[MESSAGES + 8];
    const int stopping = calls_left > 0;
    const rt_message *const earlier = rt_conversation_messages(c, &n_before);
    NEED(n_before < MESSAGES + 8);
    if (n_before) memcpy(talk, earlier, (size_t)n_before * sizeof *talk);
    talk[n_before] = (rt_message){ .role = "user", .text = text };
    const rt_turn what = FIELDS(.text = text, .n_text = strlen(text), .n_max = answer, .on_token = on_token,
                                .on_reading = on_reading, .user = w);
    NEED(!rt_chat_render(d->chat, talk, n_before + 1, d->thinking, 1, &p));
    const uint64_t rows = rt_engine_counters(d->engine).rows;
    NEED(!rt_conversation_turn(c, &what, &r));
    REQUIRE(r.n_prompt == p.n && !memcmp(r.prompt, p.tokens, (size_t)p.n * sizeof *p.tokens)); /* as from scratch */
    REQUIRE(r.thinks == p.thinks);
    rt_free(p.tokens);
    calls_left = 0;
    const rt_message *all = rt_conversation_messages(c, &n);
    if (!r.n_tokens) { /* the turn was taken back */
        REQUIRE(r.finish == RT_FINISH_CANCELLED && (w->stop_reading || stopping) && n == n_before);
        return r;
    }
    const int32_t n_expected = from_scratch(other, &d->sampling, r.prompt, r.n_prompt, expected, answer);
    REQUIRE((w->stop_at || stopping || r.n_tokens == n_expected) && r.n_tokens <= n_expected);
    REQUIRE(!memcmp(r.tokens, expected, (size_t)r.n_tokens * sizeof *expected));
    REQUIRE(r.n_kept + r.n_read == r.n_prompt && w->n == r.n_tokens && w->done == r.n_prompt);
    if (d->spec == RT_SPEC_OFF && !stopping) /* what the engine was given is what is reported */
        REQUIRE(rt_engine_counters(d->engine).rows - rows == (uint64_t)(r.n_read + r.n_tokens - 1));
    REQUIRE(n == n_before + 2 && !strcmp(all[n - 2].text, text) && !strcmp(all[n - 1].role, "assistant"));
    return r;
}

/* The draft head has read all that is kept of the turn. */
static void drafts_go_on(const rt_conversation_desc *d, const rt_turn_result *r)
{
    rt_memory *m = rt_engine_memory(d->engine);
    int32_t length;
    NEED(!rt_memory_prefix_start(m, 0, r->prompt, r->n_prompt + r->n_tokens, &length));
    REQUIRE(length > 0 && rt_memory_draft_length(m, 0) == length && !rt_memory_draft_from(m, 0));
    NEED(!rt_memory_seq_rm(m, 0, 0, -1));
}

static void talk(const char *form, rt_spec spec, int thinking, int32_t tail, rt_engine *other)
{
    rt_conversation_desc d;
    rt_conversation *c = open_talk(form, spec, CONTEXT, thinking, "Be kind.", &d);
    int32_t before = 0, answered = 0, whole = 0;
    for (int i = 0; i < TURNS; i++) {
        watch w = { .stop_at = i == 2 ? 3 : 0 };
        const rt_turn_result r = turn(c, &d, said[i], other, &w);
        REQUIRE(w.n == w.stop_at ? r.finish == RT_FINISH_CANCELLED
                                 : r.finish == RT_FINISH_STOP || r.finish == RT_FINISH_LENGTH);
        if (spec == RT_SPEC_MTP) drafts_go_on(&d, &r);
        REQUIRE(r.n_kept >= before - tail); /* nothing that the renderings have in common is read again ... */
        whole += i && !tail && r.n_kept == before + answered - 1; /* ... and where they go on, not even the answer */
        before = r.n_prompt;
        answered = r.n_tokens;
    }
    REQUIRE(tail || whole > 0);
    rt_conversation_clear(c);
    watch w = { 0 };
    const rt_turn_result r = turn(c, &d, said[0], other, &w);
    REQUIRE(r.n_kept == 0);
    close_talk(c, &d);
}

/* Templates that write how many messages there are at their beginning: nothing can be kept where that changes, and all
 * is right. */
static void nothing_in_common(const char *form, int32_t first, rt_engine *other)
{
    rt_conversation_desc d;
    rt_conversation *c = open_talk(form, RT_SPEC_OFF, CONTEXT, RT_THINK_AUTO, NULL, &d);
    for (int i = 0; i < 3; i++) {
        watch w = { 0 };
        const rt_turn_result r = turn(c, &d, said[i], other, &w);
        REQUIRE((r.n_kept == 0) == (i == 0 || i >= first));
    }
    close_talk(c, &d);
}

/* A turn that was taken back, and those that fail, leave no trace. */
static void without_trace(rt_engine *other)
{
    rt_conversation_desc d, bad;
    rt_conversation *c = open_talk(plain, RT_SPEC_NGRAM, 160, RT_THINK_AUTO, NULL, &d);
    rt_conversation *b;
    char vast[1000];
    rt_turn_result r;
    int32_t n;
    watch w = { 0 };
    const rt_turn_result first = turn(c, &d, said[0], other, &w);
    const int32_t held = first.n_prompt;
    w = (watch){ .stop_reading = 1 };
    rt_turn what = FIELDS(.text = "And God said, Let there be light: and there was light. And God saw the light",
                          .n_text = 76, .n_max = answer, .on_token = on_token, .on_reading = on_reading, .user = &w);
    REQUIRE(!rt_conversation_turn(c, &what, &r) && r.finish == RT_FINISH_CANCELLED && !r.n_tokens);
    (void)rt_conversation_messages(c, &n);
    REQUIRE(n == 2);
    memset(vast, 'a', sizeof vast);
    what.text = vast;
    what.n_text = sizeof vast;
    FAILS(rt_conversation_turn(c, &what, &r), GDN_OUT_OF_MEMORY, "the context holds 160");
    what.text = NULL;
    REQUIRE(rt_conversation_turn(c, &what, &r) == GDN_INVALID_ARGUMENT);
    (void)rt_conversation_messages(c, &n);
    REQUIRE(n == 2);
    w = (watch){ 0 };
    REQUIRE(turn(c, &d, said[1], other, &w).n_kept >= held);
    /* until the context is full, which is said, and another turn refused */
    what = (rt_turn){ .text = "Go on.", .n_text = 6, .ignore_end = 1 };
    NEED(!rt_conversation_turn(c, &what, &r));
    REQUIRE(r.finish == RT_FINISH_CONTEXT && r.n_prompt + r.n_tokens == 160);
    REQUIRE(rt_conversation_turn(c, &what, &r) == GDN_OUT_OF_MEMORY);
    rt_conversation_clear(c);
    w = (watch){ 0 };
    REQUIRE(turn(c, &d, said[0], other, &w).n_tokens == first.n_tokens);

    bad = d;
    bad.thinking = RT_THINK_ON;
    REQUIRE(rt_conversation_create(&bad, &b) == GDN_UNSUPPORTED && strstr(rt_last_error(), "no switch") && !b);
    bad.thinking = RT_THINK_AUTO;
    bad.draft_max = 4;
    FAILS(rt_conversation_create(&bad, &b), GDN_INVALID_ARGUMENT, "draft_max is 4");
    bad.spec = RT_SPEC_MTP;
    bad.draft_max = 3;
    REQUIRE(rt_conversation_create(&bad, &b) == GDN_UNSUPPORTED);
    bad.engine = other;
    FAILS(rt_conversation_create(&bad, &b), GDN_INVALID_ARGUMENT, "n_prefixes is 0");
    close_talk(c, &d);
}

/* ---- Saves ---- */

typedef struct save {
    unsigned char *bytes; /* exactly n, so that a sanitizer sees the end */
    uint64_t n;
} save;

static gdn_status append(void *user, const void *bytes, uint64_t n)
{
    save *s = user;
    s->bytes = realloc(s->bytes, (size_t)(s->n + n));
    NEED(s->bytes);
    memcpy(s->bytes + s->n, bytes, (size_t)n);
    s->n += n;
    return GDN_OK;
}

static save save_of(const rt_conversation *c)
{
    save s = { NULL, 0 };
    NEED(!rt_conversation_save(c, append, &s));
    return s;
}

/* Saved and resumed in another engine: the same answers, and as much is read. */
static void resumed(const char *form, rt_spec spec, rt_engine *other)
{
    rt_conversation_desc d, e;
    rt_conversation *c = open_talk(form, spec, CONTEXT, RT_THINK_AUTO, "Be kind.", &d);
    rt_conversation *b = open_talk(form, spec, CONTEXT, RT_THINK_AUTO, NULL, &e);
    int32_t tokens[ANSWER], n_messages;
    save s = save_of(c); /* before the first turn */
    REQUIRE(!rt_conversation_load(b, s.bytes, s.n));
    FAILS(rt_conversation_load(b, s.bytes, s.n), GDN_INVALID_ARGUMENT, "has begun");
    close_talk(b, &e);
    free(s.bytes);
    for (int i = 0; i < 2; i++) {
        watch w = { .stop_at = i ? 5 : 0 };
        (void)turn(c, &d, said[i], other, &w);
    }
    s = save_of(c);
    watch w = { 0 };
    const rt_turn_result r = turn(c, &d, said[2], other, &w);
    memcpy(tokens, r.tokens, (size_t)r.n_tokens * sizeof *tokens);

    b = open_talk(form, spec, CONTEXT, RT_THINK_AUTO, NULL, &e);
    const uint64_t n = s.n, step = once ? n / 32 + 1 : 997;
    unsigned char *const cut = malloc((size_t)n + 1);
    NEED(cut);
    memcpy(cut, s.bytes, (size_t)n);
    for (uint64_t i = 0; i < n; i += i < 900 ? 1 : step) {
        s.bytes[i] ^= 0x10;
        REQUIRE(rt_conversation_load(b, s.bytes, n) == GDN_INVALID_ARGUMENT, "byte %d of a save", (int)i);
        s.bytes[i] ^= 0x10;
    }
    for (uint64_t i = 0; i < n; i += i < 900 ? 1 : step)
        REQUIRE(rt_conversation_load(b, cut, i) == GDN_INVALID_ARGUMENT);
    REQUIRE(rt_conversation_load(b, cut, n + 1) == GDN_INVALID_ARGUMENT);
    memcpy(cut, "GDNTALK1", 8);
    FAILS(rt_conversation_load(b, cut, n), GDN_INVALID_ARGUMENT, "continue it with that release, or begin a new one");
    free(cut);
    REQUIRE(!rt_conversation_messages(b, &n_messages) || !n_messages); /* nothing of the above was taken */

    REQUIRE(!rt_conversation_load(b, s.bytes, n));
    (void)rt_conversation_messages(b, &n_messages);
    REQUIRE(n_messages == 5);
    const save again = save_of(b);
    REQUIRE(again.n == n && !memcmp(again.bytes, s.bytes, (size_t)n)); /* all of it */
    free(again.bytes);
    w = (watch){ 0 };
    const rt_turn_result same = turn(b, &e, said[2], other, &w);
    REQUIRE(same.n_tokens == r.n_tokens && !memcmp(same.tokens, tokens, (size_t)r.n_tokens * sizeof *tokens));
    REQUIRE(same.n_kept == r.n_kept && same.n_read == r.n_read);
    close_talk(b, &e);

    b = open_talk(form, spec, 40, RT_THINK_AUTO, NULL, &e);
    FAILS(rt_conversation_load(b, s.bytes, n), GDN_INVALID_ARGUMENT, "the context holds 40");
    close_talk(b, &e);
    b = open_talk(counts, spec, 40, RT_THINK_AUTO, NULL, &e);
    FAILS(rt_conversation_load(b, s.bytes, n), GDN_INVALID_ARGUMENT, "another chat template");
    FAILS(rt_conversation_load(c, s.bytes, n), GDN_INVALID_ARGUMENT, "system message");
    close_talk(b, &e);
    free(s.bytes);
    close_talk(c, &d);
}

/* A conversation is not continued with another form. */
static void other_form(void)
{
    for (int32_t saved = 0; saved < 4; saved += saved ? 1 : 2) {
        rt_conversation_desc d;
        char message[128];
        digits = saved;
        rt_conversation *c = open_talk(plain, RT_SPEC_OFF, CONTEXT, RT_THINK_AUTO, NULL, &d);
        const save s = save_of(c);
        close_talk(c, &d);
        for (digits = 0; digits < 4; digits += digits ? 1 : 2) {
            c = open_talk(plain, RT_SPEC_OFF, CONTEXT, RT_THINK_AUTO, NULL, &d);
            (void)snprintf(message, sizeof message, "saved with --form %s, and the form is %s here",
                           rt_form_name(saved), rt_form_name(digits));
            if (digits == saved) REQUIRE(!rt_conversation_load(c, s.bytes, s.n));
            else FAILS(rt_conversation_load(c, s.bytes, s.n), GDN_INVALID_ARGUMENT, message);
            close_talk(c, &d);
        }
        free(s.bytes);
    }
    digits = 0;
}

/* The engine's stop function undoes the turn during prefill, and ends the answer later. Later turns have the tokens
 * that they have from scratch, and the conversation can be saved at once. */
static void stopped(const char *form, rt_spec spec, rt_engine *other)
{
    rt_conversation_desc d;
    rt_conversation *c = open_talk(form, spec, CONTEXT, RT_THINK_AUTO, NULL, &d);
    int n_taken_back = 0, n_ended = 0;
    rt_engine_stop_when(d.engine, stops, NULL);
    for (int64_t at = 1; at < (once ? 200 : 1200); at += at / 4 + 3) {
        watch w = { 0 };
        const int32_t held = turn(c, &d, said[0], other, &w).n_prompt;
        calls_left = at;
        w = (watch){ 0 };
        const rt_turn_result r = turn(c, &d, said[1], other, &w);
        n_taken_back += !r.n_tokens;
        n_ended += r.n_tokens > 0 && r.finish == RT_FINISH_CANCELLED;
        free(save_of(c).bytes);
        w = (watch){ 0 };
        REQUIRE(turn(c, &d, said[3], other, &w).n_kept >= held);
        rt_conversation_clear(c);
    }
    printf("%d turns taken back, %d answers ended by the engine's stop function\n", n_taken_back, n_ended);
    REQUIRE(n_taken_back > 1 && n_ended > 1);
    close_talk(c, &d);
}

/* ---- Random conversations ---- */

static uint64_t seed;
static int32_t below(int32_t n) { return (int32_t)(test_random(&seed) % (uint64_t)n); }

static const char marks[] = /* the end of a prompt is written in another way once it is history */
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if loop.last and add_generation_prompt %} /now"
    "{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

static const char
    shortens[] = /* an answer loses its last two characters, so the next prompt goes on just before its end */
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{{ m.content[:-2] }}{% else %}"
    "{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif "
    "%}";

static void random_text(char text[64])
{
    static const char *const words[] = { "And God said", " light", "  ",       "<think>", "<|endoftext|>",
                                         " the LORD",    "|",      "</think>", " Aaron",  "th" };
    text[0] = 0;
    for (int i = below(4); i >= 0; i--) (void)strncat(text, words[below(10)], 15);
}

/* The template for the tokens of a tiny model: printable characters and one control token. */
static void tiny_form(char *to, const char *form)
{
    static const char *const words[][2] = { { "<|im_start|>", "[" },
                                            { "<|im_end|>\n", "<|endoftext|>" },
                                            { "\n", " " } };
    while (*form) {
        int i = 0;
        while (i < 3 && strncmp(form, words[i][0], strlen(words[i][0])) != 0) i++;
        to += sprintf(to, "%.*s", i < 3 ? 20 : 1, i < 3 ? words[i][1] : form);
        form += i < 3 ? strlen(words[i][0]) : 1;
    }
}

static int32_t same_tokens(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b)
{
    int32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

static int n_turns, n_kept_all, n_kept_part, n_edits, n_restarts, n_taken_back;

/* Turns with messages edited, turns repeated, taken back and stopped, and restarts from a save between them. */
static void random_talk(rt_engine *other)
{
    static const char *const forms[] = { plain, drops, keeps, counts, turns, marks, shortens };
    static const rt_spec specs[] = { RT_SPEC_OFF, RT_SPEC_NGRAM, RT_SPEC_MTP };
    char form[1000];
    const int32_t interval = digits ? RT_CHUNK : 16, unit = digits ? RT_CHUNK : 1; /* unit: states are at multiples */
    const int which = below(7), thinking = which == 1 ? RT_THINK_ON - below(3) : RT_THINK_AUTO;
    int one = below(3) > 0; /* 1: only the turns keep checkpoints */
    tiny_form(form, forms[which]);
    int32_t last[CONTEXT], n_last = 0, n_prompt = 0; /* the last turn's tokens, which the next one may begin with */
    rt_conversation_desc d;
    rt_conversation *c = open_with(form, specs[below(model->hp.n_mtp ? 3 : 2)], CONTEXT, thinking,
                                   below(2) ? "Be kind." : NULL, one ? 1 : 1 + below(3), one ? 0 : interval, &d);
    rt_engine_stop_when(d.engine, stops, NULL);
    for (int i = 0; i < 7; i++) {
        char text[64];
        int32_t n;
        const rt_message *const all = rt_conversation_messages(c, &n);
        const int32_t what = below(9), first = n && !strcmp(all[0].role, "system");
        if (n_prompt > CONTEXT / 2 || n > MESSAGES) rt_conversation_clear(c), n_last = 0;
        else if (what == 0 && n) { /* another byte in a message */
            char *const said_before = (char *)(uintptr_t)c->message[below(n)].text;
            if (*said_before) *said_before = *said_before == 'A' ? 'B' : 'A';
            n_last = 0;
            n_edits++;
        } else if (what == 1 && n > first) { /* another message in the place of an earlier one */
            rt_conversation_cut(c, first + 2 * below((n - first) / 2));
            n_last = 0;
            n_edits++;
        } else if (what <= 3) {
            const save s = save_of(c);
            close_talk(c, &d);
            n_last = one ? n_last : 0;
            one = below(3) > 0;
            c = open_with(form, specs[below(model->hp.n_mtp ? 3 : 2)], CONTEXT, thinking, NULL, one ? 1 : 1 + below(3),
                          one ? 0 : interval, &d);
            rt_engine_stop_when(d.engine, stops, NULL);
            REQUIRE(!rt_conversation_load(c, s.bytes, s.n), "%s", rt_last_error());
            const save again = save_of(c); /* the number of bytes of the messages is at byte 8 */
            REQUIRE(!memcmp(again.bytes, s.bytes, (size_t) * (uint64_t *)(void *)(s.bytes + 8)));
            free(again.bytes);
            free(s.bytes);
            n_restarts++;
        }
        random_text(text);
        watch w = { .stop_at = below(3) ? 0 : 1 + below(4), .stop_reading = below(12) ? 0 : 1 };
        answer = 1 + below(8);
        const int stopping = !below(8);
        if (stopping) calls_left = 1 + below(150);
        const rt_turn_result r = turn(c, &d, text, other, &w);
        n_turns++;
        n_taken_back += !r.n_tokens;
        const int32_t common = same_tokens(last, n_last, r.prompt, r.n_prompt);
        if (!r.n_tokens) n_last = 0; /* its checkpoint may have replaced that of the turn before */
        if (!r.n_tokens) continue;
        /* what the prompts have in common is not read again, nor is the answer where the prompt goes on with it */
        const int32_t least = common >= n_last - 1 ? n_last - 1 : common < n_prompt ? common : n_prompt;
        if (one && n_last && which != 3 && which != 4)
            REQUIRE(r.n_kept >= least / unit * unit,
                    "template %d, action %d: %d kept, %d in common, the last prompt had %d and the text %d", which,
                    (int)what, (int)r.n_kept, (int)common, (int)n_prompt, (int)n_last);
        n_kept_all += n_last && r.n_kept == (n_last - 1) / unit * unit && r.n_kept > 0;
        n_kept_part += n_last && r.n_kept > n_prompt && r.n_kept < n_last - 1;
        n_prompt = r.n_prompt;
        n_last = r.n_prompt + r.n_tokens;
        memcpy(last, r.prompt, (size_t)n_last * sizeof *last);
        if (stopping) n_last = 0; /* the state of its end may be lost */
    }
    close_talk(c, &d);
}

static void random_talks(const char *folder, int which, int n)
{
    model = fixture_tiny_model(folder, which);
    NEED(!rt_tokenizer_create(model->file, NULL, &tokenizer));
    for (digits = 0; digits < 4; digits += digits ? 1 : 2) {
        rt_engine *other = fixture_open(model, &(fixture_engine){ .n_ctx = CONTEXT, .digits = digits });
        for (int i = 0; i < (digits ? n / 4 : n) && !test_failed; i++) {
            seed = (uint64_t)(i * FIXTURE_TINY + which);
            random_talk(other);
            if (test_failed) printf("random conversation %d of model %d, %d digits\n", i, which, (int)digits);
        }
        rt_engine_destroy(other);
    }
    digits = 0;
    rt_tokenizer_destroy(tokenizer);
    rt_model_free(model);
}

int main(int argc, char **argv)
{
    NEED(argc >= 2 && argc <= 4);
    const int n_talks = argc > 2 ? atoi(argv[2]) : 200;
    once = argc == 4;
    if (once) answer = 8;
    model = fixture_model(argv[1], "../../models/kjv-small-q8_0.gguf");
    NEED(!rt_tokenizer_create(model->file, NULL, &tokenizer));
    rt_engine *other = fixture_open(model, &(fixture_engine){ .n_ctx = CONTEXT });
    talk(plain, RT_SPEC_OFF, RT_THINK_AUTO, 0, other);
    if (!once) {
        talk(plain, RT_SPEC_MTP, RT_THINK_AUTO, 0, other);
        talk(keeps, RT_SPEC_NGRAM, RT_THINK_AUTO, 0, other);
        talk(drops, RT_SPEC_OFF, RT_THINK_ON, 8, other); /* the opening of the block is dropped */
        nothing_in_common(counts, 1, other);
        resumed(plain, RT_SPEC_OFF, other);
    }
    talk(drops, RT_SPEC_MTP, RT_THINK_OFF, 24, other);
    other_form();
    nothing_in_common(turns, 2, other);
    without_trace(other);
    stopped(plain, RT_SPEC_MTP, other);
    if (!once) stopped(plain, RT_SPEC_NGRAM, other);
    resumed(drops, RT_SPEC_MTP, other);
    rt_engine_destroy(other);
    rt_tokenizer_destroy(tokenizer);
    rt_model_free(model);
    for (int i = 0; i < FIXTURE_TINY; i++) random_talks(argv[1], i, n_talks / FIXTURE_TINY);
    printf("%d random conversations: %d turns, %d that read no answer again, %d a part of it, %d after an edit, %d "
           "after a restart, %d taken back\n",
           n_talks, n_turns, n_kept_all, n_kept_part, n_edits, n_restarts, n_taken_back);
    REQUIRE(n_talks < 99 || (n_kept_all > n_talks && n_kept_part > n_talks / 20 && n_edits > n_talks / 2 &&
                             n_restarts > n_talks && n_taken_back > 9));
    return test_summary();
}

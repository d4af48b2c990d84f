/* Runs the runtime on a model file or a chat template, for tests in Python that compare the results. Reads commands
 * from standard input, one per line, and writes a line for each: `ok` with the results, or `refused STATUS` with a
 * text. HEX is bytes in hexadecimal digits, `-` no bytes. KV is f32, f16, bf16 or q8_0; BATCH is the rows of a
 * micro-batch.
 *
 *     logits PATH KV BATCH ROWS TOKEN...
 *         the logits after the last ROWS tokens, one after another
 *     trunk PATH KV BATCH ROWS TOKEN...
 *         the same, loaded for engines that do not draft
 *     drafts PATH KV BATCH N TOKEN...
 *         up to N tokens that the MTP block drafts after the last token, which is not decoded yet
 *     text PATH HEX
 *         the tokens of a text, `;`, the tokens that end one, `;`, bos, and whether it is put in front;
 *         PATH `-` is the path of the previous text command
 *     notes PATH
 *         the keys that notes report
 *     template HEX
 *         the template that later commands render
 *     render OPENS THINKING BOS EOS [ROLE TEXT REASONING]...
 *         the conversation's text, and per byte 1 if it is of a message, otherwise 0; OPENS is 0 or 1, THINKING
 *         -1 to 1; BOS, EOS and texts are HEX, or `*` for none
 *     given TOOLS VARIABLES MORE
 *         JSON for later renderings: tools, variables, and further members of the last message; `*` for none
 *     now SECONDS
 *         the time of strftime_now(); 0: the clock's
 *     answer THINKS TEXT
 *         the text and the reasoning of what an assistant wrote */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/decode/engine.h"
#include "runtime/base/error.h"
#include "runtime/text/chat.h"

enum { LINE = 1 << 25, MAX_TOKENS = 1 << 16, MAX_DRAFTS = 16, MESSAGES = 256 };

typedef struct order {
    char *what, *path;
    int32_t kv_type, n_batch, count, n;
    int32_t token[MAX_TOKENS];
} order;

static void refused(gdn_status status) { printf("refused %d %s\n", (int)status, rt_last_error()); }

static char *word(void) { return strtok(NULL, " \n"); }

static int nibble(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

/* Decodes in place. */
static rt_string hex(char *word)
{
    rt_string s = { word, 0 };
    if (!word || *word == '*') return (rt_string){ NULL, 0 };
    if (*word == '-') return s;
    for (char *at = word; at[0] && at[1]; at += 2) word[s.bytes++] = (char)(nibble(at[0]) << 4 | nibble(at[1]));
    return s;
}

static gdn_status draft(rt_engine *e, const order *o)
{
    int32_t drafted[MAX_DRAFTS], n = 0;
    static const int32_t seqs[MAX_TOKENS];
    static const uint8_t none[MAX_TOKENS];
    const rt_batch batch = { o->n - 1, o->token, seqs, none };
    const rt_draft_request request = { 0, o->token[o->n - 1], o->count };
    gdn_status status = rt_engine_decode(e, &batch);
    if (!status) status = rt_draft_mtp(e, &request, 1, o->count, 0, drafted, &n);
    if (!status) {
        printf("ok");
        for (int32_t i = 0; i < n; i++) printf(" %d", (int)drafted[i]);
        printf("\n");
    }
    return status;
}

static gdn_status logits(rt_engine *e, const order *o, int32_t n_vocab)
{
    static uint8_t wanted[MAX_TOKENS];
    static int32_t seqs[MAX_TOKENS];
    for (int32_t i = 0; i < o->n; i++) wanted[i] = i >= o->n - o->count;
    const rt_batch batch = { o->n, o->token, seqs, wanted };
    const gdn_status status = rt_engine_decode(e, &batch);
    if (status) return status;
    printf("ok");
    for (int32_t i = o->n - o->count; i < o->n; i++)
        for (int32_t v = 0; v < n_vocab; v++) printf(" %.9g", (double)rt_engine_logits(e, i)[v]);
    printf("\n");
    return GDN_OK;
}

static void run_model(const order *o)
{
    rt_model *model = NULL;
    rt_engine *engine = NULL;
    const int trunk = !strcmp(o->what, "trunk");
    gdn_status status = trunk ? rt_model_load_trunk(o->path, NULL, &model) : rt_model_load(o->path, NULL, &model);
    if (!status) {
        rt_engine_desc d = { .model = model };
        d.n_threads = 1;
        d.n_seqs = 1;
        d.n_ctx = o->n + 16;
        d.n_batch = o->n_batch;
        d.kv_type = o->kv_type;
        d.draft = !strcmp(o->what, "drafts");
        d.n_rollback = d.draft ? o->count : 0;
        status = rt_engine_create(&d, &engine);
    }
    if (!status) status = strcmp(o->what, "drafts") ? logits(engine, o, model->hp.n_vocab) : draft(engine, o);
    if (status) refused(status);
    rt_engine_destroy(engine);
    rt_model_free(model);
}

static void run_notes(const char *path)
{
    rt_model *model = NULL;
    const char *why = NULL;
    const gdn_status status = rt_model_load(path, NULL, &model);
    if (status) {
        refused(status);
        return;
    }
    printf("ok");
    for (int64_t i = 0; (i = rt_next_noted_key(model->file, i, &why)) >= 0; i++) {
        const rt_string name = rt_gguf_key_at(model->file, i, NULL);
        printf(" %.*s", (int)name.bytes, name.text);
    }
    printf("\n");
    rt_model_free(model);
}

static void run_text(const char *path, rt_string text)
{
    static int32_t tokens[LINE / 2];
    static rt_tokenizer *t;
    rt_gguf *file = NULL;
    int64_t count = 0;
    gdn_status status = GDN_OK;
    if (strcmp(path, "-")) {
        rt_tokenizer_destroy(t);
        t = NULL;
        status = rt_gguf_open(path, NULL, &file);
        if (!status) status = rt_tokenizer_create(file, NULL, &t);
        rt_gguf_close(file);
    }
    if (!status && !t) status = rt_fail(GDN_NOT_FOUND, "there is no text before");
    if (!status) status = rt_tokenize(t, text.text, text.bytes, 0, tokens, LINE / 2, &count);
    if (status) refused(status);
    else {
        printf("ok");
        for (int64_t i = 0; i < count; i++) printf(" %d", (int)tokens[i]);
        printf(" ;");
        for (int32_t i = 0; i < rt_tokenizer_n_tokens(t); i++)
            if (rt_tokenizer_is_end(t, i)) printf(" %d", (int)i);
        printf(" ; %d %d\n", (int)rt_tokenizer_bos(t), rt_tokenizer_add_bos(t));
    }
}

static void print(rt_string s)
{
    if (!s.text) {
        printf(" *");
        return;
    }
    printf(s.bytes ? " " : " -");
    for (uint64_t i = 0; i < s.bytes; i++) printf("%02x", (unsigned char)s.text[i]);
}

static int64_t now;
static struct {
    rt_string tools, variables, more;
} given;

static void render(const rt_template *t)
{
    rt_template_message messages[MESSAGES];
    rt_template_input input = { .messages = messages, .now = now };
    rt_template_text text;
    input.generation_prompt = atoi(word());
    input.thinking = atoi(word());
    input.bos = hex(word());
    input.eos = hex(word());
    for (char *role; input.n_messages < MESSAGES && (role = word());) {
        rt_template_message *m = &messages[input.n_messages++];
        m->role = role;
        m->text = hex(word());
        m->reasoning = hex(word());
    }
    for (int32_t i = 0; i < input.n_messages; i++) messages[i].more = (rt_string){ NULL, 0 };
    if (input.n_messages) messages[input.n_messages - 1].more = given.more;
    input.tools = given.tools;
    input.variables = given.variables;
    const gdn_status status = rt_template_render(t, &input, &text);
    if (status) {
        refused(status);
        return;
    }
    printf("ok");
    print((rt_string){ text.text, text.bytes });
    printf(" ");
    for (uint64_t i = 0; i < text.bytes; i++) putchar('0' + text.mark[i]);
    printf("\n");
    rt_template_free_text(&text);
}

/* An answer that grows by 1, 2 or more bytes is split as the whole one. */
static void check_split(rt_string all, int thinks, const rt_message *whole)
{
    const rt_string wanted[2] = { { whole->reasoning, whole->n_reasoning }, { whole->text, whole->bytes } };
    for (uint64_t step = 1; step <= all.bytes + 1; step++) {
        rt_chat_split s = { 0 };
        uint64_t n[2] = { 0, 0 };
        int good = 1;
        for (uint64_t to = 0, last = 0; !last; to += step) {
            rt_string got[2];
            last = to >= all.bytes;
            char *const bytes = malloc((size_t)(last ? all.bytes : to) + 1); /* so that reading on is noticed */
            memcpy(bytes, all.text, (size_t)(last ? all.bytes : to));
            rt_chat_split_next(&s, thinks, bytes, last ? all.bytes : to, (int)last, &got[0], &got[1]);
            for (int i = 0; i < 2; i++) {
                good = good && n[i] + got[i].bytes <= wanted[i].bytes &&
                       (!got[i].bytes || !memcmp(wanted[i].text + n[i], got[i].text, (size_t)got[i].bytes));
                n[i] += got[i].bytes;
            }
            free(bytes);
        }
        if (!good || n[0] != wanted[0].bytes || n[1] != wanted[1].bytes)
            printf("in steps of %d otherwise: ", (int)step);
    }
}

/* Templates, their renderings, and answers; 0: `what` is none of them. */
static int run_chat(const char *what)
{
    static rt_template *t;
    if (!strcmp(what, "template")) {
        const rt_string form = hex(word());
        rt_template_free(t);
        const gdn_status status = rt_template_parse(form.text, form.bytes, &t);
        if (status) refused(status);
        else printf("ok\n");
    } else if (!strcmp(what, "now")) {
        now = strtoll(word(), NULL, 10);
        printf("ok\n");
    } else if (!strcmp(what, "given")) {
        rt_string *const all[] = { &given.tools, &given.variables, &given.more };
        for (int i = 0; i < 3; i++) {
            const rt_string s = hex(word());
            free((void *)all[i]->text);
            *all[i] = (rt_string){ s.text ? malloc((size_t)s.bytes + 1) : NULL, s.bytes };
            if (s.text) memcpy((void *)all[i]->text, s.text, (size_t)s.bytes);
        }
        printf("ok\n");
    } else if (!strcmp(what, "render") && t) {
        render(t);
    } else if (!strcmp(what, "answer")) {
        rt_message m;
        const int thinks = atoi(word());
        const rt_string text = hex(word());
        rt_chat_answer(text.text, text.bytes, thinks, &m);
        check_split(text, thinks, &m);
        printf("ok");
        print((rt_string){ m.text, m.bytes });
        print((rt_string){ m.reasoning, m.n_reasoning });
        printf("\n");
    } else {
        return 0;
    }
    return 1;
}

int main(void)
{
    static char line[LINE];
    static order o;
    while (fgets(line, sizeof line, stdin)) {
        o.what = strtok(line, " \n");
        if (!o.what) return 2;
        if (run_chat(o.what)) {
            (void)fflush(stdout);
            continue;
        }
        if (!(o.path = word())) return 2;
        if (!strcmp(o.what, "text")) {
            run_text(o.path, hex(word()));
        } else if (!strcmp(o.what, "notes")) {
            run_notes(o.path);
        } else {
            const char *kv = word(), *batch = word(), *count = word();
            if (!kv || !batch || !count) return 2;
            o.kv_type = !strcmp(kv, "f32")    ? GDN_F32
                        : !strcmp(kv, "f16")  ? GDN_F16
                        : !strcmp(kv, "bf16") ? GDN_BF16
                                              : GDN_Q8_0;
            o.n_batch = (int32_t)strtol(batch, NULL, 10);
            o.count = (int32_t)strtol(count, NULL, 10);
            o.n = 0;
            for (char *token; (token = word()) && o.n < MAX_TOKENS;) o.token[o.n++] = (int32_t)strtol(token, NULL, 10);
            if (o.count < 1 || o.n < 1 || o.count > (strcmp(o.what, "drafts") ? o.n : MAX_DRAFTS)) return 2;
            run_model(&o);
        }
        (void)fflush(stdout);
    }
    return 0;
}

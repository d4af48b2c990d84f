/* What the files of `gdn serve` share. serve.c reads the command line and opens the model. queue.c has the calls of
 * clients and the engine's loop. about.c has the model's names and settings. request.c reads JSON requests, members.c
 * has their members, values.c reads values, constraint.c has what an answer must be. answer.c writes answers, calls.c
 * reads calls of tools. responses.c and messages.c translate other interfaces to chats and back. seen.c has the log and
 * the metrics. http.c is the HTTP server, framing.c checks heads of requests, connections.c has the connections.
 *
 * One thread, the engine's, steps the scheduler. Each HTTP connection has a thread, which adds a call to the queue and
 * waits for its texts. */
#ifndef GDN_TOOL_SERVE_H
#define GDN_TOOL_SERVE_H

#include "system/sockets.h"
#include "system/system.h"
#include "tools/run/run.h"

enum { SERVE_STOPS = 16, SERVE_TEXTS = 128, SERVE_RESERVE = 512 };
typedef struct json_t json_t; /* of jansson, which may be missing */
struct serve_server;

typedef struct serve_options {
    const char *host, *key_file;
    cli_texts alias;
    cli_names origins, names;
    int strict, log_requests, log_json; /* log_json: of --log-format */
    const char *log_format;
    int64_t port, queue, connections, max_tokens, body_kib, timeout;
} serve_options;
extern serve_options serve_opt;

/* Runs the server with an opened model; returns the exit code. defaults: the sampling parameters of completions and of
 * chats. */
int serve_run(run_session *s, const rt_sampling defaults[2]);

/* An answer that is an error, in OpenAI's form. status 0: none. */
typedef struct serve_error {
    int status;
    const char *code; /* static; NULL: null */
    char param[96], message[640];
} serve_error;
int serve_fail(serve_error *e, int status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6))); /* returns 0 */

/* An interface whose requests become chats and whose answers are made from theirs. Its requests have one text and no
 * log-probabilities. A call's `kept` is the interface's. */
struct serve_call;
typedef struct serve_protocol {
    /* Makes the body of a chat, and *kept; NULL: refused, with an error. A stream's chat needs
     * stream_options.include_usage. */
    json_t *(*chat_of)(struct serve_server *v, json_t *body, json_t **kept, serve_error *e);
    json_t *(*answer_of)(struct serve_call *call, json_t *chat); /* of a chat's whole answer, which it takes */
    /* Writes to call->events what an event of a chat becomes. NULL: the stream's end. The chat's last events have
     * finish_reason, then usage; or one has the member error. */
    void (*put_event)(struct serve_call *call, const json_t *chat);
    json_t *(*error_of)(const serve_error *e);
    int counts; /* nothing is generated, and a prompt may have more tokens than the context */
} serve_protocol;

extern const serve_protocol serve_responses; /* of OpenAI's /v1/responses */
/* What is said of a tool that the interface's own server would run. */
#define SERVE_NO_TOOL "this server runs no such tool, and the model does not see it (--strict refuses it)"

/* One text of an answer: a request of the scheduler. */
typedef struct serve_choice {
    struct serve_call *call;
    int32_t id;                   /* the scheduler's number */
    int32_t n_drawn;              /* tokens                                                                */
    double first;                 /* when the first token came; 0: not yet */
    int submitted, ended, string; /* string: ended at a stop string                                            */
    rt_result result;             /* once ended                                                                 */
    char error[256];
    run_text text;
    rt_logprob *logprob; /* [n_logprobs][1 + call->n_top]                                              */
    size_t n_logprobs, room;
    rt_chat_split split;         /* these are the reader's */
    int told, n_calls, after;    /* calls of tools; after: the last piece of text was one                      */
    size_t begin, done, seen;    /* with tools: 1 + where the text after the thinking begins; its bytes that are done;
                                    what serve_next_piece() has seen of the rest */
    size_t n_told, n_characters; /* entries of logprob that are sent, and their characters                  */
    int column;                  /* of a whole answer: the array of log-probabilities that is written       */
} serve_choice;

/* A client's request for texts. The connection's thread makes and releases it; the engine's thread frees it. The
 * members after `lock` of the server protect: everything from `next` on. */
typedef struct serve_call {
    int chat, stream, usage, ignore_end, thinks; /* usage: stream_options.include_usage                       */
    int usage_of_each;                           /* stream_options.continuous_usage_stats, with `usage` */
    int32_t n_prompts, n, n_max, n_min;          /* n: texts of each prompt                                   */
    int32_t *prompt[SERVE_TEXTS], n_prompt[SERVE_TEXTS];
    int32_t boundary[RT_CHAT_BOUNDARIES]; /* of a chat's prompt: rt_request.boundary                   */
    uint32_t owner;                       /* of the client's key: rt_request.owner                      */
    json_t *body, *tools;                 /* the request; those of its tools that may be called, or NULL */
    const serve_protocol *protocol;       /* NULL: OpenAI's completions or chats */
    json_t *kept;                         /* the protocol's */
    int one_call, is_json; /* of tools at most: the answer has no later ones; with response_format        */
    rt_schema *schema;     /* of response_format and tools; NULL: any text */
    int logprobs, ids;     /* 1: with log-probabilities of n_top tokens; that name tokens by their numbers */
    int32_t n_top;
    int echo, no_text;           /* the text begins with the prompt; it is the prompt: what is drawn is dropped */
    rt_bias *bias;               /* of logit_bias; NULL: none */
    rt_sampling sampling;        /* of the first text; later ones have the next seeds */
    run_bytes stop[SERVE_STOPS]; /* the body's */
    int n_stop;
    char id[48];
    int64_t created;
    double arrived; /* of run_now() */
    gdn_socket fd;  /* of the connection */
    struct serve_server *server;
    FILE *events; /* while they are written */
    char *out;    /* bytes of the answer, sent up to `sent` */
    size_t n_out, sent;
    int32_t n_whole; /* texts that are written of a whole answer */
    int over;        /* 1: all is written; -1: it ends early     */
    gdn_condition news;
    struct serve_call *next;
    int half, probe;    /* the client sends nothing more; whether it still receives is to be found out */
    int gone, released; /* the client went away; the connection's thread needs the call no longer */
    int32_t n_choices;
    serve_choice choice[SERVE_TEXTS];
} serve_call;

enum { SERVE_BUCKETS = 19, SERVE_HISTOGRAMS = 6, SERVE_ANSWERS = 128 };

typedef struct serve_histogram {
    uint64_t n[SERVE_BUCKETS + 1]; /* values of each bucket; those above all of them */
    double sum;
} serve_histogram;

/* How often an endpoint answered with a status. */
typedef struct serve_answers {
    const char *endpoint;
    int status;
    uint64_t n;
} serve_answers;

typedef struct serve_server {
    run_session *session;
    rt_sampling defaults[2]; /* of completions and chats */
    json_t *names;           /* of the model, for clients; an array */
    const char *model;       /* the first of them */
    char fingerprint[48];    /* of the model's form and of the settings that texts depend on */
    char *keys;              /* each terminated; the last one empty. NULL: no key is needed */
    int64_t started;
    int64_t reserve; /* connections beyond --connections that may be open for a second */
    int local;       /* listens on a loopback address */
    gdn_mutex lock;  /* protects the rest */
    gdn_condition work;
    serve_call *calls;
    struct serve_connection *connections;
    int32_t n_live, n_running; /* texts that have not ended, and those of them that have a sequence */
    int draining;
    json_t *said; /* its members are what serve_say_once() has said; NULL: nothing */
    uint64_t n_calls, n_refused, n_ended[RT_FINISH_FAILED + 1];
    rt_totals totals;
    serve_histogram histogram[SERVE_HISTOGRAMS];
    serve_answers answers[SERVE_ANSWERS]; /* up to the first with n == 0 */
    double prefixes_at;                   /* time when --prefix-file was last considered */
    char failure[RT_ERROR_MAX];           /* the engine cannot continue */
} serve_server;

/* ---- connections.c ---- */

/* A connection. The server's lock protects it. */
typedef struct serve_connection {
    struct serve_connection *next;
    gdn_socket fd;
    double since;       /* when it began to wait for a request; 0: it has a complete one                 */
    int begun, closing; /* the request's first line has come; the server closes the connection           */
} serve_connection;

/* Sets --connections and the reserve to their defaults and to what open files allow. Nonzero: that is too little. */
int serve_limit_connections(serve_server *v);
/* A new connection. Waits until there is room for it. */
void serve_connected(serve_server *v, serve_connection *c);
void serve_disconnected(serve_server *v, serve_connection *c);
/* The connection waits for a request; its first line has come; all of it has. 0: there are too many, with an error. */
void serve_request_waits(serve_server *v, serve_connection *c);
void serve_request_begins(serve_server *v, serve_connection *c);
int serve_request_is_complete(serve_server *v, serve_connection *c, serve_error *e);
/* Closes connections that are too many or take more than ten times --timeout to send a request. The lock is held. */
void serve_close_late(serve_server *v);

/* ---- framing.c ---- */

struct MHD_Connection; /* of libmicrohttpd */
/* 0: the request's head is refused, with an error. target: as the client sent it. The other texts are libmicrohttpd's,
 * at their addresses. */
int serve_check_head(struct MHD_Connection *to, const char *method, const char *target, size_t n_target,
                     const char *version, serve_error *e);
/* True for names of headers or methods, and lists of them. */
int serve_is_token_list(const char *text);

/* ---- queue.c ---- */

/* 0: the server ends, with an error. */
int serve_is_up(serve_server *v, serve_error *e);
/* Adds a call. 0: refused, with an error; the caller still has to release it. */
int serve_add(serve_server *v, serve_call *call, serve_error *e);
/* The connection's thread is done with the call, whether or not it was added. */
void serve_release(serve_call *call);
/* Steps the scheduler until the server drains and no call is left. Returns the exit code. */
int serve_loop(serve_server *v, void (*close_port)(void *), void *user);

/* ---- members.c ---- */

/* Where a member is: SERVE_OPTIONS of a stream; SERVE_TOOL, or its function; SERVE_INPUT, a message of the user or the
 * system; SERVE_RESULT of a tool. SERVE_RESPONSES_PART and SERVE_MESSAGES_PART are items, blocks and tools of the other
 * interfaces. Of several places the first that members.c lists a name for counts. */
enum {
    SERVE_COMPLETION = 1,
    SERVE_CHAT = 2,
    SERVE_OPTIONS = 4,
    SERVE_TOOL = 8,
    SERVE_INPUT = 16,
    SERVE_ASSISTANT = 32,
    SERVE_RESULT = 64,
    SERVE_TOKENIZE = 128,
    SERVE_DETOKENIZE = 256,
    SERVE_RESPONSES = 512,
    SERVE_RESPONSES_PART = 1024,
    SERVE_MESSAGES = 2048,
    SERVE_MESSAGES_PART = 4096
};
/* Removes members that are ignored, and says of each name once that it is. 0: one would change the text and is not
 * supported, or --strict refuses it; with an error. */
int serve_check_members(serve_server *v, json_t *object, int place, const char *where, serve_error *e);
/* Says on standard error what is done with a member, unless that has been said. */
void serve_say_once(serve_server *v, const char *name, const char *what);

/* ---- request.c ---- */

/* Reads the body of a completion, or of a chat in the form of a protocol or NULL, into a call; NULL: refused, with an
 * error. */
serve_call *serve_read(serve_server *v, const char *body, size_t n, int chat, const serve_protocol *protocol,
                       serve_error *e);
/* Answers, to be freed; NULL: refused, with an error. */
json_t *serve_read_tokenize(serve_server *v, const char *body, size_t n, serve_error *e);
json_t *serve_read_detokenize(serve_server *v, const char *body, size_t n, serve_error *e);
json_t *serve_apply_template(serve_server *v, const char *body, size_t n, serve_error *e);
json_t *serve_count_tokens(serve_server *v, const char *body, size_t n, const serve_protocol *p, serve_error *e);

/* ---- constraint.c ---- */

/* Reads response_format and, of a chat, tools and tool_choice. 0: refused, with an error. */
int serve_read_constraint(serve_server *v, serve_call *call, json_t *o, serve_error *e);

/* ---- messages.c ---- */

extern const serve_protocol serve_messages, serve_counting; /* Anthropic's; the latter counts tokens */

/* ---- about.c ---- */

/* Sets the model's names: those of --alias, or its file's. 0: no memory. */
int serve_name_model(serve_server *v);
int serve_is_name(const serve_server *v, const char *name);
/* Answers, to be freed. serve_model() gives NULL, with an error, for another model's name. */
json_t *serve_models(const serve_server *v, serve_error *e);
json_t *serve_model(const serve_server *v, const char *name, serve_error *e);
json_t *serve_props(const serve_server *v);
json_t *serve_tokenizer_info(const serve_server *v);

/* ---- answer.c ---- */

/* Text as JSON; what is not UTF-8 becomes U+FFFD, byte for byte, so that pieces give the same as the whole. */
json_t *serve_text(const char *bytes, size_t n);

/* Tokens of a call: of its prompts, those of them that the prefix cache had, and those of its texts that have ended. */
typedef struct serve_usage {
    int64_t prompt, kept, written;
} serve_usage;
serve_usage serve_usage_of(serve_call *call);

json_t *serve_error_object(const serve_error *e);
/* Waits until all texts have ended and returns the answer, to be freed. NULL: failed, if there is an error; otherwise
 * serve_next() gives the answer, since it is large or since the client sends nothing more. */
char *serve_wait(serve_call *call, serve_error *e);
/* Waits for the next bytes of an answer and copies at most `room`. After some seconds without any it gives some that
 * mean nothing. 0: the answer is over; call->over tells whether it is complete. */
size_t serve_next(serve_call *call, char *to, size_t room);

/* ---- seen.c ---- */

/* An answer was sent, or its client went away. endpoint: static; call: NULL: none. */
void serve_note_answer(serve_server *v, const char *endpoint, int status, serve_call *call, double seconds, int cut);
/* A text has ended. The lock is held. */
void serve_note_text(serve_server *v, const serve_choice *c);
/* Metrics in Prometheus' form, to be freed. */
char *serve_metrics(serve_server *v);

#endif

/* Output of `gdn run --stats` and `--json`. See run.h. */
#include "tools/run/run.h"

const char *run_finish_name(int32_t finish, int at_string)
{
    return finish == RT_FINISH_STOP      ? "stop"
           : finish == RT_FINISH_LENGTH  ? "length"
           : finish == RT_FINISH_CONTEXT ? "context"
           : finish == RT_FINISH_FAILED  ? "failed"
           : at_string                   ? "string"
                                         : "cancelled";
}

void run_tell_full(const run_session *s, const char *number, const char *hint)
{
    (void)fprintf(stderr, "gdn run: %sstopped: the context of %d tokens is full (--ctx)%s\n", number, (int)s->context,
                  hint);
}

void run_tell_cut(const char *number)
{
    (void)fprintf(stderr,
                  "gdn run: %sstopped: the answer has %lld tokens, which is the limit (-n; -1: until the context is "
                  "full)\n",
                  number, (long long)run_opt.n_predict);
}

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }
static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

const char *run_spec_name(rt_spec spec)
{
    return spec == RT_SPEC_MTP ? "mtp" : spec == RT_SPEC_NGRAM ? "ngram" : "off";
}

const char *run_rollback_name(rt_rollback rollback) { return rollback == RT_ROLLBACK_LOG ? "log" : "snapshots"; }

void run_print_memory(const run_session *s)
{
    const rt_memory_bytes *m = &s->memory;
    const uint64_t recurrent = m->state + m->conv + m->snapshots + m->log;
    (void)fprintf(
        stderr,
        "memory      weights %.1f, KV cells (on the host) %.1f, states %.2f, convolution %.2f, snapshots %.2f, "
        "log %.2f, hidden rows %.2f, prefixes %.2f, scratch %.1f MiB; recurrent layers %.3f MiB a sequence\n",
        mib(s->model->weight_bytes), mib(m->kv), mib(m->state), mib(m->conv), mib(m->snapshots), mib(m->log),
        mib(m->hidden), mib(m->prefixes), mib(s->scratch), mib(recurrent) / s->n_seqs);
}

void run_print_stats(const run_session *s, const rt_scheduler *scheduler, int32_t n, double seconds)
{
    const rt_totals t = rt_scheduler_totals(scheduler);
    const rt_counters c = rt_engine_counters(s->engine);
    const rt_prefix_stats prefixes = rt_memory_prefix_stats_of(rt_engine_memory(s->engine));
    (void)fprintf(stderr, "\nrequests    %d, at most %d at once, in %.2f s; %s on %s, dense kernels %s\n", (int)n,
                  (int)s->n_seqs, seconds, rt_arch_name(s->model->hp.arch), run_opt.backend,
                  rt_dense_isa(rt_engine_dense(s->engine)));
    (void)fprintf(stderr, "prompts     %lld tokens, %.1f tokens/s\n", (long long)t.prompt_tokens,
                  rate(t.prompt_tokens, t.prompt_seconds));
    (void)fprintf(stderr, "cells       %d; %lld requests gave theirs to others, %lld tokens were read again for it\n",
                  (int)rt_engine_limits_of(s->engine).n_cells, (long long)t.preemptions, (long long)t.reread_tokens);
    (void)fprintf(
        stderr, "generation  %lld tokens, %.1f tokens/s after the first of each request, which comes with its prompt\n",
        (long long)t.generated_tokens, rate(t.decoded_tokens, t.generation_seconds));
    if (prefixes.n_max)
        (void)fprintf(stderr,
                      "prefixes    %lld tokens were not read again; %d kept in %d cells, of %d at most, one every %d "
                      "tokens; %llu written, %llu gave way\n",
                      (long long)t.prefix_tokens, (int)prefixes.n_held, (int)prefixes.n_cells, (int)prefixes.n_max,
                      (int)prefixes.interval, (unsigned long long)prefixes.n_written,
                      (unsigned long long)prefixes.n_evicted);
    if (s->spec != RT_SPEC_OFF)
        (void)fprintf(stderr,
                      "drafts      %s: %lld drafted, %lld accepted (%.1f%%), %.2f tokens per round, %lld rollbacks by "
                      "%s\n",
                      run_spec_name(s->spec), (long long)t.drafted, (long long)t.accepted,
                      t.drafted ? 100.0 * (double)t.accepted / (double)t.drafted : 0.0,
                      t.rounds ? 1.0 + (double)t.accepted / (double)t.rounds : 0.0, (long long)t.rollbacks,
                      run_rollback_name(s->rollback));
    (void)fprintf(stderr,
                  "steps       %llu, %llu rows, %llu recurrent launches, %llu rows of the draft head in %llu passes\n",
                  (unsigned long long)c.steps, (unsigned long long)c.rows, (unsigned long long)c.recurrent_launches,
                  (unsigned long long)c.draft_rows, (unsigned long long)c.draft_passes);
    run_print_memory(s);
}

static void print_requests(json_writer *w, const rt_scheduler *scheduler, const run_prompt *prompts,
                           const run_request *requests, int32_t n, const run_output *output)
{
    json_put_array(w, "requests");
    for (int32_t i = 0; i < n; i++) {
        rt_result r = { 0 };
        int32_t n_tokens;
        const int32_t *tokens = rt_scheduler_tokens(scheduler, i, &n_tokens);
        (void)rt_scheduler_result(scheduler, i, &r);
        json_put_object(w, NULL);
        json_put_int(w, "prompt", requests[i].prompt);
        json_put_uint(w, "seed", requests[i].seed);
        json_put_int(w, "prompt_tokens", prompts[requests[i].prompt].n_tokens);
        json_put_array(w, "tokens");
        for (int32_t j = 0; tokens && j < n_tokens; j++) json_put_int(w, NULL, tokens[j]);
        json_close(w);
        const run_bytes text = run_output_text(output, i);
        json_put_bytes(w, "text", text.bytes, text.n);
        json_put_string(w, "finish", run_finish_name(r.finish, requests[i].string));
        json_put_int(w, "drafted", r.n_drafted);
        json_put_int(w, "accepted", r.n_accepted);
        json_put_int(w, "rounds", r.n_rounds);
        json_put_int(w, "preempted", r.n_preempted);
        json_put_int(w, "prefix_tokens", r.n_prefix);
        json_put_double(w, "prompt_seconds", r.prompt_seconds);
        json_put_double(w, "generation_seconds", r.generation_seconds);
        json_close(w);
    }
    json_close(w);
}

void run_begin_json(json_writer *w, const run_session *s, rt_engine *engine)
{
    json_open(w, stdout);
    json_put_object(w, NULL);
    json_put_string(w, "model", run_opt.model);
    json_put_string(w, "architecture", rt_arch_name(s->model->hp.arch));
    json_put_string(w, "backend", run_opt.backend);
    json_put_string(w, "form", run_opt.form);
    json_put_string(w, "isa", rt_dense_isa(rt_engine_dense(engine)));
}

int run_print_json(const run_session *s, const rt_scheduler *scheduler, const run_prompt *prompts,
                   const run_request *requests, int32_t n, const run_output *output, double seconds)
{
    const rt_totals t = rt_scheduler_totals(scheduler);
    const rt_counters c = rt_engine_counters(s->engine);
    const rt_prefix_stats prefixes = rt_memory_prefix_stats_of(rt_engine_memory(s->engine));
    json_writer w;
    run_begin_json(&w, s, s->engine);
    json_put_string(&w, "spec", run_spec_name(s->spec));
    json_put_string(&w, "rollback", run_rollback_name(s->rollback));
    json_put_int(&w, "parallel", s->n_seqs);
    json_put_int(&w, "context", s->context);
    json_put_int(&w, "cells", rt_engine_limits_of(s->engine).n_cells);
    print_requests(&w, scheduler, prompts, requests, n, output);
    json_put_double(&w, "seconds", seconds);
    json_put_int(&w, "prompt_tokens", t.prompt_tokens);
    json_put_double(&w, "prompt_tokens_per_second", rate(t.prompt_tokens, t.prompt_seconds));
    json_put_int(&w, "generated_tokens", t.generated_tokens);
    json_put_double(&w, "generated_tokens_per_second", rate(t.decoded_tokens, t.generation_seconds));
#define TOTAL(name) json_put_int(&w, #name, t.name)
    TOTAL(drafted), TOTAL(accepted), TOTAL(rounds), TOTAL(rollbacks), TOTAL(preemptions);
    TOTAL(reread_tokens), TOTAL(prefix_tokens);
#undef TOTAL
    json_put_object(&w, "prefixes");
    json_put_int(&w, "interval", prefixes.interval);
    json_put_int(&w, "most", prefixes.n_max);
    json_put_int(&w, "kept", prefixes.n_held);
    json_put_int(&w, "cells", prefixes.n_cells);
    json_put_uint(&w, "written", prefixes.n_written);
    json_put_uint(&w, "gave_way", prefixes.n_evicted);
    json_close(&w);
    json_put_object(&w, "counters");
#define COUNTER(name) json_put_uint(&w, #name, c.name)
    COUNTER(steps), COUNTER(rows), COUNTER(recurrent_launches), COUNTER(folds), COUNTER(transfers);
    COUNTER(draft_rows), COUNTER(draft_passes);
#undef COUNTER
    json_close(&w);
    json_put_object(&w, "memory_bytes");
    json_put_uint(&w, "weights", s->model->weight_bytes);
    json_put_uint(&w, "kv", s->memory.kv);
    json_put_uint(&w, "state", s->memory.state);
    json_put_uint(&w, "convolution", s->memory.conv);
    json_put_uint(&w, "snapshots", s->memory.snapshots);
    json_put_uint(&w, "log", s->memory.log);
    json_put_uint(&w, "hidden", s->memory.hidden);
    json_put_uint(&w, "prefixes", s->memory.prefixes);
    json_put_uint(&w, "scratch", s->scratch);
    json_close(&w);
    json_close(&w);
    return json_finish(&w);
}

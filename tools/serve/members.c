/* The members of requests: what the server reads, what it ignores since no text depends on it, and what it refuses. See
 * serve.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/json.h"
#include "tools/serve/serve.h"

/* What happens to a member that is not null. A JSON array in place of these has the values without effect; other values
 * are refused. */
static const char reads[] = "reads", ignores[] = "ignores", refuses[] = "[]";

enum {
    COMPLETION = SERVE_COMPLETION,
    CHAT = SERVE_CHAT,
    BODY = COMPLETION | CHAT,
    OPTIONS = SERVE_OPTIONS,
    TOOL = SERVE_TOOL,
    INPUT = SERVE_INPUT,
    ASSISTANT = SERVE_ASSISTANT,
    RESULT = SERVE_RESULT,
    MESSAGE = INPUT | ASSISTANT | RESULT,
    TOKENIZE = SERVE_TOKENIZE,
    DETOKENIZE = SERVE_DETOKENIZE,
    RESPONSES = SERVE_RESPONSES,
    PART = SERVE_RESPONSES_PART,
    MESSAGES = SERVE_MESSAGES,
    MESSAGES_PART = SERVE_MESSAGES_PART
};

/* Members of OpenAI's interface, and those that vLLM, llama.cpp and others add. Names are between spaces. */
static const struct {
    int places;
    const char *names, *what;
} members[] = {
    /* Anthropic's; others of its requests are as in chats. */
    { MESSAGES, " system stop_sequences thinking output_config output_format ", reads },
    { MESSAGES, " context_management ",
      "[{\"edits\":[]},{\"edits\":[{\"type\":\"clear_thinking_20251015\"}]},"
      "{\"edits\":[{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]},"
      "{\"edits\":[{\"type\":\"clear_thinking_20251015\",\"keep\":{\"type\":\"thinking_turns\",\"value\":1}}]}]" },
    { MESSAGES, " cache_control inference_geo speed anthropic_version anthropic_beta betas user_profile_id ", ignores },
    { MESSAGES, " mcp_servers ", "[[]]" },
    { MESSAGES, " n ", "[1]" },
    { MESSAGES,
      " container stop logprobs prompt response_format max_completion_tokens stream_options parallel_tool_calls"
      " reasoning_effort ",
      refuses },
    { MESSAGES_PART,
      " type text id name input tool_use_id content is_error thinking signature data description input_schema strict ",
      reads },
    { MESSAGES_PART, " cache_control citations caller display defer_loading eager_input_streaming allowed_callers ",
      ignores },

    { BODY,
      " model user prompt messages n max_tokens max_completion_tokens temperature top_p min_p top_k presence_penalty"
      " frequency_penalty repeat_penalty repetition_penalty repeat_last_n logit_bias seed stop stream stream_options "
      "ignore_eos"
      " logprobs return_tokens_as_token_ids min_tokens ",
      reads },
    { COMPLETION, " echo ", reads },
    { CHAT, " chat_template_kwargs reasoning_effort top_logprobs tools tool_choice parallel_tool_calls ", reads },
    { BODY, " response_format json_schema guided_json structured_outputs ", reads },
    { OPTIONS, " include_usage continuous_usage_stats ", reads },
    { MESSAGE, " role content name ", reads },
    { INPUT | ASSISTANT, " reasoning_content reasoning ", reads },
    { ASSISTANT, " tool_calls ", reads },
    { RESULT, " tool_call_id ", reads },
    { TOKENIZE, " content prompt model add_special add_special_tokens parse_special with_pieces ", reads },
    { DETOKENIZE, " tokens model ", reads },
    { RESPONSES,
      " model input instructions tools tool_choice parallel_tool_calls max_output_tokens temperature top_p top_k min_p"
      " seed presence_penalty frequency_penalty repeat_penalty repetition_penalty repeat_last_n logit_bias stop "
      "ignore_eos"
      " text reasoning stream stream_options chat_template_kwargs previous_response_id"
      " user metadata store safety_identifier prompt_cache_key ",
      reads },
    { PART, " type role content call_id name arguments output summary description parameters strict format effort ",
      reads },

    /* Names, storage, caches, scheduling, and more in the answer. */
    { BODY,
      " store metadata service_tier prompt_cache_key prompt_cache_retention safety_identifier prediction cache_prompt"
      " id_slot priority request_id keep_alive n_cache_reuse timings_per_token return_progress return_tokens"
      " return_token_ids response_fields guided_decoding_backend n_discard n_keep ",
      ignores },
    { OPTIONS, " include_obfuscation ", ignores },
    { MESSAGE, " annotations refusal cache_control reasoning_details ", ignores },
    { RESULT, " reasoning_content reasoning ", ignores },
    { TOOL, " strict cache_control ", ignores },
    { RESPONSES, " service_tier prompt_cache_retention prompt_cache_options max_tool_calls client_metadata moderation ",
      ignores },
    { PART,
      " id status encrypted_content phase verbosity generate_summary output_schema allowed_callers namespace caller ",
      ignores },
    /* Parameters of samplers that are refused unless they are off. */
    { BODY,
      " mirostat_tau mirostat_eta dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers xtc_threshold"
      " dynatemp_exponent length_penalty early_stopping ",
      ignores },

    { BODY, " best_of ", "[1]" },
    { BODY, " echo use_beam_search penalize_nl post_sampling_probs ", "[false]" },
    { BODY, " include_stop_str_in_output return_prompt ", "[false]" },
    { BODY, " suffix grammar cache_salt ", "[\"\"]" },
    { BODY, " stop_token_ids bad_words bad_words_ids lora documents functions ", "[[]]" },
    { BODY, " function_call ", "[\"none\",\"auto\"]" },
    { BODY, " mirostat dry_multiplier xtc_probability dynatemp_range top_a n_probs min_keep ", "[0]" },
    { BODY, " typical_p tfs_z ", "[1]" },
    { BODY, " top_n_sigma ", "[-1,0]" },
    { BODY, " t_max_predict_ms truncate_prompt_tokens ", "[-1]" },
    { BODY, " skip_special_tokens spaces_between_special_tokens ", "[true]" },
    { COMPLETION, " add_special_tokens ", "[true]" },
    { COMPLETION, " tools ", "[[]]" },
    { COMPLETION, " tool_choice ", "[\"none\",\"auto\"]" },
    { CHAT, " add_special_tokens ", "[false]" },
    { CHAT, " include_reasoning ", "[true]" },
    { CHAT, " reasoning_format ", "[\"auto\",\"deepseek\"]" },
    { CHAT, " modalities ", "[[\"text\"]]" },
    { CHAT, " verbosity ", "[\"medium\"]" },
    { BODY,
      " n_predict allowed_token_ids prompt_logprobs prompt_embeds logits_processors samplers sampler_seq chat_template"
      " guided_regex guided_choice guided_grammar enable_thinking thinking"
      " reasoning web_search_options audio options top_logprobs chat_template_kwargs ",
      refuses },
    { RESPONSES, " truncation ", "[\"disabled\"]" },
    { RESPONSES, " background ", "[false]" },
    { RESPONSES, " top_logprobs ", "[0]" },
    { RESPONSES, " context_management ", "[[]]" },
    { RESPONSES, " include ", "[[],[\"reasoning.encrypted_content\"]]" },
    { RESPONSES, " prompt conversation n logprobs ", refuses },
    { PART, " defer_loading async ", "[false]" },
    { INPUT, " tool_calls ", "[[]]" },
    { RESULT, " tool_calls ", "[[]]" },
    { MESSAGE, " prefix ", "[false]" },
    { MESSAGE, " audio function_call ", refuses },
};

static const char *what_of(int place, const char *name)
{
    char spaced[64];
    (void)snprintf(spaced, sizeof spaced, " %.60s ", name);
    for (size_t i = 0; i < sizeof members / sizeof *members && !strchr(name, ' '); i++)
        if (members[i].places & place && strstr(members[i].names, spaced)) return members[i].what;
    return place == TOOL ? reads : NULL; /* the template has all of a tool */
}

/* 1 and 1.0 are the same. */
static int is_among(const json_t *value, const char *allowed)
{
    json_t *const list = json_loads(allowed, 0, NULL);
    int found = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *const one = json_array_get(list, i);
        found |= json_is_number(value) && json_is_number(one) ? json_number_value(value) == json_number_value(one)
                                                              : json_equal(value, one);
    }
    json_decref(list);
    return found;
}

void serve_say_once(serve_server *v, const char *name, const char *what)
{
    enum { MOST = 256 }; /* since clients choose the names */
    char cut[64], text[3 * sizeof cut];
    (void)snprintf(cut, sizeof cut, "%.60s", name);
    text[json_valid_utf8(cut, strlen(cut), text)] = 0;
    gdn_mutex_lock(&v->lock);
    if (!v->said) v->said = json_object();
    const int is_new = !json_object_get(v->said, text) && json_object_size(v->said) < MOST;
    if (is_new) (void)json_object_set_new(v->said, text, json_true());
    gdn_mutex_unlock(&v->lock);
    json_t *const key = is_new ? json_string(text) : NULL;
    char *const quoted = json_dumps(key, JSON_ENCODE_ANY | JSON_ENSURE_ASCII); /* without control characters */
    if (quoted) (void)fprintf(stderr, "gdn serve: note: a request has %s: %s; this is said once\n", quoted, what);
    free(quoted);
    json_decref(key);
}

int serve_check_members(serve_server *v, json_t *object, int place, const char *where, serve_error *e)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, name, value)
    {
        const char *const what = what_of(place, name);
        char path[128];
        (void)snprintf(path, sizeof path, "%s%.60s", where, name);
        if (json_is_null(value) || what == reads) continue;
        if (!what && serve_opt.strict)
            return serve_fail(e, 400, "unsupported_parameter", path, "%s is unknown to this server (--strict)", path);
        if (what && what != ignores && !is_among(value, what))
            return serve_fail(e, 400, "unsupported_parameter", path, "%s is not supported by this server%s%s", path,
                              what == refuses ? "" : "; these values are ignored: ", what == refuses ? "" : what);
        if (!what || what == ignores)
            serve_say_once(v, name, what ? "no text depends on it" : "it is unknown and ignored (--strict refuses it)");
        (void)json_object_del(object, name);
    }
    return 1;
}

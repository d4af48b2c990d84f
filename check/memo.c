/* Results to be had again. See memo.h. */
#include "memo.h"

#include <stdlib.h>
#include <string.h>

/* By member: padding may be anything. */
static int same_view(const check_view *a, const check_view *b)
{
    for (int i = 0; i < CHECK_MAX_AXES; i++)
        if (!a->axis[i] != !b->axis[i] || (a->axis[i] && strcmp(a->axis[i], b->axis[i]))) return 0;
    return !strcmp(a->name, b->name) && a->memory == b->memory && a->first == b->first && a->dtype == b->dtype &&
           a->rank == b->rank && !memcmp(a->extent, b->extent, sizeof a->extent) &&
           !memcmp(a->stride, b->stride, sizeof a->stride) && a->field == b->field && a->is_span == b->is_span &&
           !memcmp(a->given, b->given, sizeof a->given) && a->stated == b->stated;
}

static int same_memory(const check_memory *a, const check_memory *b)
{
    return a->bytes == b->bytes && a->before == b->before && a->body == b->body && a->written == b->written &&
           a->n_ranges == b->n_ranges && !memcmp(a->image, b->image, a->bytes) &&
           (!a->n_ranges || !memcmp(a->range, b->range, (size_t)a->n_ranges * sizeof a->range[0]));
}

static int same_call(const check_case *a, const check_case *b)
{
    if (a->kernel != b->kernel || a->n_memories != b->n_memories || a->n_views != b->n_views ||
        a->placement != b->placement || a->use_offset != b->use_offset || a->executor != b->executor ||
        a->environment != b->environment || memcmp(&a->args, &b->args, a->kernel->args_size))
        return 0;
    for (int i = 0; i < a->n_views; i++)
        if (!same_view(&a->view[i], &b->view[i])) return 0;
    for (int m = 0; m < a->n_memories; m++)
        if (!same_memory(&a->memory[m], &b->memory[m])) return 0;
    return 1;
}

static void *copy_of(const void *from, uint64_t bytes) { return memcpy(check_alloc(bytes), from, bytes); }

static void copy_call(check_case *to, const check_case *from)
{
    *to = *from;
    for (int m = 0; m < from->n_memories; m++) {
        check_memory *memory = &to->memory[m];
        memory->cut = 0; /* this copy belongs to nobody else */
        memory->image = copy_of(memory->image, memory->bytes);
        if (memory->n_ranges)
            memory->range = copy_of(memory->range, (uint64_t)memory->n_ranges * sizeof memory->range[0]);
        else memory->range = NULL;
    }
}

const check_memo_call *check_memo_expect(check_memo *memo, check_target *reference, const check_case *c)
{
    for (int i = 0; i < memo->n; i++)
        if (same_call(&memo->call[i].c, c)) return &memo->call[i];
    if (memo->n == CHECK_MEMO_CALLS) /* no trial has as many; should one, it begins again */
        check_memo_clear(memo);
    check_memo_call *call = &memo->call[memo->n++];
    copy_call(&call->c, c);
    call->expectable = check_expect(reference, c, &call->expected, &call->text);
    return call;
}

void check_memo_clear(check_memo *memo)
{
    for (int i = 0; i < memo->n; i++) {
        check_case_free(&memo->call[i].c);
        check_result_free(&memo->call[i].expected);
        memo->call[i].text = (check_text){ "", 0 };
    }
    memo->n = 0;
}

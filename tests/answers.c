/* The known answers of devices (gpu/answers.h) are what the reference gives.
 *
 *     test_answers          compares gpu/answer_table.c with the reference
 *     test_answers write    writes that file to standard output, made by the reference */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/answers.h"

static gdn_status run(gdn_context *ctx, const gdn_gpu_answer_call *call)
{
    switch (call->kernel) {
#define GDN_KERNEL(stem, number, title)                                                                                \
    case GDN_KERNEL_##stem:                                                                                            \
        return gdn_##stem(ctx, &call->args.stem, NULL);
#include "core/kernels.def"
#undef GDN_KERNEL
    }
    return GDN_INTERNAL;
}

/* What the reference makes of a call; *changed: the call wrote something. */
static uint64_t answer_of(gdn_context *ctx, int number, unsigned char *memory, int *changed)
{
    gdn_gpu_answer_call call;
    gdn_gpu_answer_call_of(number, memory, &call);
    gdn_gpu_answer_fill(&call, memory);
    const uint64_t before = gdn_gpu_answer_digest(&call, memory);
    if (call.n_parts > GDN_ANSWER_PARTS || run(ctx, &call)) {
        (void)printf("known answer %d: %s\n", number, gdn_last_error());
        exit(1);
    }
    for (uint32_t i = 0; i < call.n_parts; i++) { /* any NaN equals any NaN, but not in a digest */
        const gdn_gpu_part *part = &call.part[i];
        for (uint32_t e = 0; part->at >= call.written && part->dtype == GDN_F32 && e < part->n; e++) {
            uint32_t word;
            memcpy(&word, memory + part->at + 4 * (uint64_t)e, 4);
            if ((word & 0x7f800000u) != 0x7f800000u) continue;
            (void)printf("known answer %d: it has an infinity or a NaN, whose bits are not everybody's\n", number);
            exit(1);
        }
    }
    const uint64_t after = gdn_gpu_answer_digest(&call, memory);
    *changed = after != before;
    return after;
}

/* How many calls the kernels have. */
static int all_answers(void)
{
    gdn_gpu_answer_call call;
    int n = 0;
#define GDN_KERNEL(stem, number, title) n += gdn_gpu_answers_##stem(-1, &call);
#include "core/kernels.def"
#undef GDN_KERNEL
    return n;
}

int main(int argc, char **argv)
{
    const int write = argc > 1 && !strcmp(argv[1], "write");
    const gdn_context_desc desc = { .size = sizeof desc, .backend = GDN_BACKEND_REFERENCE };
    gdn_context *ctx = NULL;
    unsigned char *memory = aligned_alloc(64, GDN_ANSWER_BYTES);
    int wrong = 0;
    if (all_answers() != GDN_ANSWERS) {
        (void)printf("the kernels have %d known answers, and GDN_ANSWERS is %d\n", all_answers(), GDN_ANSWERS);
        return 1;
    }
    if (!memory || gdn_context_create(&desc, &ctx)) return 1;
    memset(memory, 0, GDN_ANSWER_BYTES);
    if (write)
        (void)printf(
            "/* Made by `test_answers write`: what the reference gives for each known answer. See answers.h. */\n"
            "#include \"gpu/answers.h\"\n\nconst uint64_t gdn_gpu_answer_table[GDN_ANSWERS] = {\n");
    for (int i = 0; i < GDN_ANSWERS; i++) {
        int changed = 0;
        const uint64_t answer = answer_of(ctx, i, memory, &changed);
        if (write) {
            (void)printf("%s0x%016llx,%s", i % 5 ? " " : "    ", (unsigned long long)answer,
                         i % 5 == 4 || i + 1 == GDN_ANSWERS ? "\n" : "");
        } else if (answer != gdn_gpu_answer_table[i] || !changed) {
            if (wrong++ < 5)
                (void)printf("known answer %d: the reference gives %016llx, the table has %016llx%s\n", i,
                             (unsigned long long)answer, (unsigned long long)gdn_gpu_answer_table[i],
                             changed ? "" : ", and nothing was written");
        }
    }
    if (write) (void)printf("};\n");
    else (void)printf("%d known answers, %d of them wrong\n", GDN_ANSWERS, wrong);
    gdn_context_destroy(ctx);
    free(memory);
    return wrong != 0;
}

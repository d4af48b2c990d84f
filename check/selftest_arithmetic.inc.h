/* Part of selftest.c: a floating-point mode that is not restored, and multiply-adds that are not fused. */

/* ---- a caller's floating-point mode that is not restored ------------------------------------------------------ */

static gdn_status (*true_run)(gdn_context *ctx, const void *args, gdn_stream stream);

static gdn_status run_and_leave_flushing(gdn_context *ctx, const void *args, gdn_stream stream)
{
    const gdn_status status = true_run(ctx, args, stream);
    check_environment_enter(CHECK_ENV_FLUSH);
    return status;
}

static void leave_mode(const check_suite *suite)
{
    check_kernel wrong = *suite->kernel;
    check_rng rng = { self.seed };
    check_result result;
    check_case c;
    memset(&result, 0, sizeof result);
    begin_random(&c, suite, &rng);
    true_run = wrong.run;
    wrong.run = run_and_leave_flushing;
    c.kernel = &wrong;
    const uint64_t mode = check_environment_get();
    if (check_environment_enter(CHECK_ENV_FLUSH), check_environment_get() != mode) { /* the machine has such a mode */
        check_environment_put(mode);
        check_target_run(self.target, &c, &result);
        verdict(wrong.name, "the caller's floating-point mode is not restored", result.outcome == CHECK_FAILED,
                "not noticed");
    }
    check_environment_put(mode);
    check_result_free(&result);
    check_case_free(&c);
}

/* ---- multiply-adds that are not fused -------------------------------------------------------------------------- */

static float *floats_of(const check_case *c, unsigned char *const *image, const char *name)
{
    const check_view *v = check_find(c, name);
    return (float *)(void *)check_at(c, v, image[v->memory], 0, 0, 0, 0);
}

/* A plain case of a kernel that the model knows; 0: there is none. */
static int draw_plain(const check_kernel *kernel, int i, check_spec *spec, check_rng *rng)
{
    if (kernel == &check_kernel_gated_delta_net) {
        delta_spec *delta = &spec->gated_delta_net;
        delta_defaults(delta, 2, 2, 16 + 9 * i, 24 + 5 * i);
        delta_batch(delta, 1, 4);
        delta->values[DELTA_G] = CHECK_GATE_ZERO;
        delta->scale = 0.1f;
        delta->seed = check_next(rng);
        return 1;
    }
    if (kernel == &check_kernel_ssm_conv) {
        conv_spec *conv = &spec->ssm_conv;
        conv_defaults(conv, 20 + i, 2 + i);
        conv_batch(conv, 1, 9);
        conv->where = CONV_NOWHERE;
        conv->seed = check_next(rng);
        return 1;
    }
    return 0;
}

static int model_differs(const check_case *c, int fused, const check_result *expected)
{
    unsigned char *before[CHECK_MAX_MEMORIES], *image[CHECK_MAX_MEMORIES];
    check_initial(c, before);
    copy_images(c, before, image);
    if (c->kernel == &check_kernel_gated_delta_net) {
        const gdn_gated_delta_net_args *a = &c->args.gated_delta_net.args;
        const model_delta m = { a->n_tokens,
                                a->n_heads_v,
                                a->head_dim_k,
                                a->head_dim_v,
                                a->scale,
                                floats_of(c, image, "q"),
                                floats_of(c, image, "k"),
                                floats_of(c, image, "v"),
                                floats_of(c, image, "beta"),
                                floats_of(c, image, "state"),
                                floats_of(c, image, "out") };
        check_model_delta(&m, fused);
    } else {
        const gdn_ssm_conv_args *a = &c->args.ssm_conv.args;
        const model_conv m = { a->n_tokens,
                               a->n_channels,
                               a->kernel_width,
                               floats_of(c, image, "x"),
                               floats_of(c, image, "weight"),
                               floats_of(c, image, "bias"),
                               floats_of(c, image, "out") };
        check_model_conv(&m, fused);
    }
    const int differs = check_compare(c, expected->image, image, NULL) != 0;
    free_images(c, image);
    return differs;
}

static void unfuse(const check_kernel *kernel)
{
    int fused_differs = 0, unfused_same = 0, refused = 0;
    check_result expected;
    memset(&expected, 0, sizeof expected);
    for (int i = 0; i < WANTED; i++) {
        check_rng rng = { check_mix(self.seed, 9000u + (uint64_t)i) };
        static const check_setting plain = { 0 };
        check_spec spec;
        check_case c;
        check_text text = { "", 0 };
        if (!draw_plain(kernel, i, &spec, &rng)) return; /* a kernel without arithmetic */
        check_case_begin(&c, kernel, &plain);
        kernel->build(&c, &spec, &rng);
        if (!check_expect(self.reference, &c, NULL, &expected, &text)) refused++;
        else {
            fused_differs += model_differs(&c, 1, &expected);
            unfused_same += !model_differs(&c, 0, &expected);
        }
        check_case_free(&c);
    }
    verdict(kernel->name, "a second implementation from the documentation agrees", !refused && !fused_differs,
            "it differs");
    verdict(kernel->name, "multiply-adds that are not fused", !refused && !unfused_same, "not noticed");
    check_result_free(&expected);
}

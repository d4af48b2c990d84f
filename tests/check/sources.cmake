gdn_kernel_sources(gdn_tool tests/check)
target_sources(gdn_tool PRIVATE
  tests/check/case.c
  tests/check/check.c
  tests/check/compare.c
  tests/check/crash.c
  tests/check/executor.c
  tests/check/far_rows.c
  tests/check/gated_delta_net_build.c
  tests/check/ggml_cases.c
  tests/check/invariances_gated_delta_net.c
  tests/check/invariances_set_rows.c
  tests/check/invariances_speculation.c
  tests/check/invariances_ssm_conv.c
  tests/check/model.c
  tests/check/report.c
  tests/check/selftest.c
  tests/check/ssm_conv_build.c
  tests/check/target.c
  tests/check/trial.c
  tests/check/values.c)
find_package(Threads REQUIRED) # the pool that tests/check/executor.c brings
target_link_libraries(gdn_tool PRIVATE Threads::Threads)

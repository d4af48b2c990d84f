gdn_kernel_sources(gdn_tool tools/check)
foreach(stem IN LISTS GDN_KERNELS)
  target_sources(gdn_tool PRIVATE tools/check/invariances_${stem}.c)
endforeach()
target_sources(gdn_tool PRIVATE
  tools/check/case.c
  tools/check/check.c
  tools/check/compare.c
  tools/check/crash.c
  tools/check/executor.c
  tools/check/far_rows.c
  tools/check/gated_delta_net_build.c
  tools/check/gated_delta_net_forms.c
  tools/check/ggml_cases.c
  tools/check/invariances_speculation.c
  tools/check/model.c
  tools/check/report.c
  tools/check/selftest.c
  tools/check/ssm_conv_build.c
  tools/check/target.c
  tools/check/trial.c
  tools/check/values.c)
find_package(Threads REQUIRED) # the pool that tools/check/executor.c brings
target_link_libraries(gdn_tool PRIVATE Threads::Threads)

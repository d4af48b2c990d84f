# What builds, runs and compares calls, and the fixed lists: for gdn check, and for tests that do the same (gdn_cases).
add_library(gdn_cases STATIC
  check/build_gated_delta_net.c
  check/build_set_rows.c
  check/build_ssm_conv.c
  check/case.c
  check/cases_gated_delta_net.c
  check/cases_gated_delta_net_log.c
  check/cases_set_rows.c
  check/cases_ssm_conv.c
  check/compare.c
  check/digests.c
  check/entries.c
  check/executor.c
  check/far_rows.c
  check/invariances_gated_delta_net.c
  check/invariances_chunked.c
  check/invariances_log.c
  check/invariances_set_rows.c
  check/invariances_ssm_conv.c
  check/invariances_tree.c
  check/kernel.c
  check/random_gated_delta_net.c
  check/random_set_rows.c
  check/random_ssm_conv.c
  check/same.c
  check/target.c
  check/trial.c
  check/values.c
  check/write_calls.c)
target_link_libraries(gdn_cases PRIVATE gdn_build_options gdn_files gdn_machine gdn_system)

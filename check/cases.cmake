# What builds, runs and compares calls, and the fixed lists: for gdn check, and for tests that do the same (gdn_cases).
add_library(gdn_cases STATIC
  check/build_gated_delta_net.c
  check/build_set_rows.c
  check/build_ssm_conv.c
  check/case.c
  check/compare.c
  check/digests.c
  check/entries.c
  check/executor.c
  check/far_rows.c
  check/gated_delta_net.c
  check/invariances_gated_delta_net.c
  check/invariances_log.c
  check/invariances_speculation.c
  check/invariances_tree.c
  check/kernel.c
  check/random_gated_delta_net.c
  check/same.c
  check/set_rows.c
  check/ssm_conv.c
  check/suite.c
  check/target.c
  check/trial.c
  check/values.c)
find_package(Threads REQUIRED) # the pool that check/executor.c brings
target_link_libraries(gdn_cases PRIVATE gdn_build_options Threads::Threads)

# gdn check. What it makes of calls is in gdn_cases; see cases.cmake.
gdn_kernel_sources(gdn_tool check/)
target_sources(gdn_tool PRIVATE
  check/check.c
  check/crash.c
  check/digests.c
  check/far_rows.c
  check/invariances_gated_delta_net.c
  check/invariances_log.c
  check/invariances_speculation.c
  check/invariances_tree.c
  check/same.c
  check/report.c
  check/selftest.c
  check/suite.c
  check/trial.c)
target_link_libraries(gdn_tool PRIVATE gdn_cases)

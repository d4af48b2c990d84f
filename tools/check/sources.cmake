# gdn check. What it makes of calls is in gdn_cases; see cases.cmake.
gdn_kernel_sources(gdn_tool tools/check/)
target_sources(gdn_tool PRIVATE
  tools/check/check.c
  tools/check/crash.c
  tools/check/elsewhere.c
  tools/check/far_rows.c
  tools/check/invariances_gated_delta_net.c
  tools/check/invariances_log.c
  tools/check/invariances_speculation.c
  tools/check/invariances_state16.c
  tools/check/invariances_tree.c
  tools/check/same.c
  tools/check/memo.c
  tools/check/model.c
  tools/check/report.c
  tools/check/selftest.c
  tools/check/suite.c
  tools/check/trial.c)
target_link_libraries(gdn_tool PRIVATE gdn_cases)

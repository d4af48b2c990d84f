# What builds, runs and compares calls, and the fixed lists: for gdn check, and for tests that do the same (gdn_cases).
add_library(gdn_cases STATIC
  check/case.c
  check/cases_gated_delta_net_log.c
  check/compare.c
  check/digests.c
  check/entries.c
  check/executor.c
  check/far_rows.c
  check/invariances_log.c
  check/invariances_speculation.c
  check/invariances_tree.c
  check/kernel.c
  check/same.c
  check/target.c
  check/trial.c
  check/values.c)
foreach(stem IN LISTS GDN_KERNELS)
  target_sources(gdn_cases PRIVATE check/build_${stem}.c check/random_${stem}.c check/cases_${stem}.c
    check/invariances_${stem}.c)
endforeach()
find_package(Threads REQUIRED) # the pool that check/executor.c brings
target_link_libraries(gdn_cases PRIVATE gdn_build_options Threads::Threads)

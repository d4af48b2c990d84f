# What builds, runs and compares calls: for gdn check, and for tests that do the same (gdn_cases).
add_library(gdn_cases STATIC
  check/case.c
  check/compare.c
  check/entries.c
  check/executor.c
  check/kernel.c
  check/random_gated_delta_net.c
  check/target.c
  check/values.c)
foreach(stem IN LISTS GDN_KERNELS)
  target_sources(gdn_cases PRIVATE check/build_${stem}.c)
endforeach()
find_package(Threads REQUIRED) # the pool that check/executor.c brings
target_link_libraries(gdn_cases PRIVATE gdn_build_options Threads::Threads)

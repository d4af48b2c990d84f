# What builds, runs and compares calls: for gdn check, and for tests that do the same (gdn_cases).
add_library(gdn_cases STATIC
  tools/check/case.c
  tools/check/compare.c
  tools/check/entries.c
  tools/check/executor.c
  tools/check/kernel.c
  tools/check/random_gated_delta_net.c
  tools/check/target.c
  tools/check/values.c)
foreach(stem IN LISTS GDN_KERNELS)
  target_sources(gdn_cases PRIVATE tools/check/build_${stem}.c)
endforeach()
find_package(Threads REQUIRED) # the pool that tools/check/executor.c brings
target_link_libraries(gdn_cases PRIVATE gdn_build_options Threads::Threads)

# The kernels. scripts/lint_kernels.py compares this list with core/problem.h.
set(GDN_KERNELS gated_delta_net ssm_conv set_rows)

target_sources(gdn_objects PRIVATE
  core/calls.c
  core/context.c
  core/environment.c
  core/gated_delta_net.c
  core/hints.c
  core/maps.c
  core/memory.c
  core/operands.c
  core/record.c
  core/set_rows.c
  core/ssm_conv.c
  core/status.c
  core/structs.c)
# A call clears structs of some hundred bytes. For these, gcc's string instructions take longer to start than to run.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_property(SOURCE core/operands.c core/gated_delta_net.c core/ssm_conv.c core/set_rows.c APPEND PROPERTY COMPILE_OPTIONS
    -mmemset-strategy=unrolled_loop:64:noalign,libcall:-1:noalign)
endif()

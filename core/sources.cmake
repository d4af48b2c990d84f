# The kernels. scripts/lint_kernels.py compares this list with core/problem.h.
set(GDN_KERNELS gated_delta_net ssm_conv set_rows)

# gdn_list_kernels(BACKEND SOURCE...): <build>/<backend>/gdn_<backend>_kernels.inc with GDN_<BACKEND>_KERNELS(X), the
# device functions that each source lists, in one line or several:
#   // Kernels: rows_clear rows_write
# A line that begins like this must have this form.
function(gdn_list_kernels backend)
  string(TOUPPER ${backend} upper)
  set(list "")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" lines REGEX "^ *// *[Kk]ernels? *:")
    if(NOT lines)
      message(FATAL_ERROR "${source} does not say which kernels it has. It needs a line like `// Kernels: rows_clear rows_write`.")
    endif()
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "^// Kernels:( [a-z0-9_]+)+$")
        message(FATAL_ERROR "${source} has `${line}`, which is not like `// Kernels: rows_clear rows_write`.")
      endif()
    endforeach()
    list(TRANSFORM lines REPLACE "^// Kernels: " "")
    string(REGEX REPLACE "([a-z0-9_]+)[ ;]*" "    X(\\1) \\\\\n" lines "${lines}")
    string(APPEND list "${lines}")
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${backend}/gdn_${backend}_kernels.inc" @ONLY
    CONTENT "#define GDN_@upper@_KERNELS(X) \\\n@list@\n")
endfunction()

target_sources(gdn_objects PRIVATE
  core/calls.c
  core/context.c
  core/environment.c
  core/gated_delta_net.c
  core/maps.c
  core/memory.c
  core/operands.c
  core/set_rows.c
  core/ssm_conv.c
  core/status.c
  core/structs.c)
# A call clears structs of some hundred bytes. For these, gcc's string instructions take longer to start than to run.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_property(SOURCE core/operands.c core/gated_delta_net.c core/ssm_conv.c core/set_rows.c APPEND PROPERTY COMPILE_OPTIONS
    -mmemset-strategy=unrolled_loop:64:noalign,libcall:-1:noalign)
endif()

# The registry names the kernels. Each has a file of its name in core, reference, check and bench.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS core/kernels.def)
file(STRINGS core/kernels.def gdn_registry REGEX "^GDN_KERNEL\\(")
list(TRANSFORM gdn_registry REPLACE "^GDN_KERNEL\\(([a-z0-9_]+),.*" "\\1" OUTPUT_VARIABLE GDN_KERNELS)

# gdn_kernel_sources(TARGET PREFIX): <prefix><stem>.c of every kernel, where the prefix may be a folder
function(gdn_kernel_sources target prefix)
  foreach(stem IN LISTS GDN_KERNELS)
    target_sources(${target} PRIVATE ${prefix}${stem}.c)
  endforeach()
endfunction()

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

gdn_kernel_sources(gdn_objects core/)
target_sources(gdn_objects PRIVATE
  core/calls.c
  core/context.c
  core/environment.c
  core/maps.c
  core/memory.c
  core/operands.c
  core/status.c
  core/structs.c)
# A call clears structs of some hundred bytes. For these, gcc's string instructions take longer to start than to run.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(TRANSFORM GDN_KERNELS REPLACE "(.+)" "core/\\1.c" OUTPUT_VARIABLE gdn_core_kernels)
  set_property(SOURCE core/operands.c ${gdn_core_kernels} APPEND PROPERTY COMPILE_OPTIONS
    -mmemset-strategy=unrolled_loop:64:noalign,libcall:-1:noalign)
endif()

# The registry names the kernels; each has one file of its name in core, reference, tools/check and bench.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS core/kernels.def)
file(STRINGS core/kernels.def gdn_registry REGEX "^GDN_KERNEL\\(")
list(TRANSFORM gdn_registry REPLACE "^GDN_KERNEL\\(([a-z0-9_]+),.*" "\\1" OUTPUT_VARIABLE GDN_KERNELS)

# gdn_kernel_sources(TARGET FOLDER): FOLDER/<stem>.c of every kernel
function(gdn_kernel_sources target folder)
  foreach(stem IN LISTS GDN_KERNELS)
    target_sources(${target} PRIVATE ${folder}/${stem}.c)
  endforeach()
endfunction()

gdn_kernel_sources(gdn_objects core)
target_sources(gdn_objects PRIVATE
  core/calls.c
  core/context.c
  core/environment.c
  core/maps.c
  core/memory.c
  core/operands.c
  core/status.c
  core/structs.c)

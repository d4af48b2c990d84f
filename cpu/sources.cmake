target_sources(gdn_objects PRIVATE
  cpu/backend.c
  cpu/scalar.c
  cpu/tables.c)

# A file for each kernel and instruction set, made from kernel.c.in. simd/features.c detects what a processor can run.
foreach(stem IN LISTS GDN_KERNELS)
  foreach(isa IN LISTS GDN_CPU_ISAS)
    if(NOT isa STREQUAL "scalar")
      configure_file(cpu/kernel.c.in "${PROJECT_BINARY_DIR}/cpu/${stem}_${isa}.c" @ONLY)
    endif()
  endforeach()
  gdn_isa_sources(gdn_objects "${PROJECT_BINARY_DIR}/cpu/${stem}")
endforeach()
if(GDN_FUZZ) # clang does not end in minutes, instrumented for fuzzing and optimised
  foreach(isa avx2 avx512 neon)
    set_property(SOURCE "${PROJECT_BINARY_DIR}/cpu/gated_delta_net_${isa}.c" APPEND PROPERTY COMPILE_OPTIONS -O0)
  endforeach()
endif()

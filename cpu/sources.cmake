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
# Clang takes minutes for each of these, instrumented and optimised.
if(GDN_FUZZ OR (GDN_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID MATCHES "Clang"))
  foreach(kernel gated_delta_net ssm_conv)
    foreach(isa avx2 avx512 neon)
      set_property(SOURCE "${PROJECT_BINARY_DIR}/cpu/${kernel}_${isa}.c" APPEND PROPERTY COMPILE_OPTIONS -O0)
    endforeach()
  endforeach()
  target_compile_definitions(gdn_threads INTERFACE GDN_STACK_MIB=16) # the library's and the runtime's threads
endif()

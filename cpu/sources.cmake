# One file per kernel and instruction set; simd/features.c finds out what a processor gets.
target_sources(gdn_objects PRIVATE
  cpu/backend.c
  cpu/scalar.c
  cpu/tables.c)
foreach(stem IN LISTS GDN_KERNELS)
  gdn_isa_sources(gdn_objects cpu/${stem})
endforeach()
if(GDN_FUZZ) # clang does not end in minutes, instrumented for fuzzing and optimised
  foreach(isa avx2 avx512 neon)
    set_property(SOURCE cpu/gated_delta_net_${isa}.c APPEND PROPERTY COMPILE_OPTIONS -O0)
  endforeach()
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND GDN_SANITIZE MATCHES "undefined") # else over four times as long; GCC has it
  foreach(isa avx2 avx512 neon)
    set_property(SOURCE cpu/gated_delta_net_${isa}.c APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=pointer-overflow)
  endforeach()
endif()

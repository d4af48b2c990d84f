# The hybrid runtime: a static library over the public interface of libgdn (docs/runtime.md), for the tool and tests.
# It compiles cpu/simd_*.h and the elementary functions as headers, for dense kernels with the contract's bits; every
# kernel call goes through include/gdn.
add_library(gdn_runtime STATIC
  # errors, memory and threads of the process
  runtime/error.c
  runtime/parallel.c
  # weights and dense kernels
  runtime/dense.c
  runtime/dense_scalar.c
  runtime/rope.c
  runtime/top_k.c
  runtime/weights.c
)
# as cpu/sources.cmake does it; VNNI is a set of its own, because processors have AVX-512 without it
set(gdn_flags_avx512_vnni ${gdn_flags_avx512} -mavx512vnni)
foreach(isa IN LISTS GDN_CPU_ISAS)
  if(NOT isa STREQUAL "scalar")
    gdn_isa_source(gdn_runtime runtime/dense_${isa}.c ${isa})
  endif()
endforeach()
if(GDN_ARCH STREQUAL "x86_64")
  gdn_isa_source(gdn_runtime runtime/dense_avx512_vnni.c avx512_vnni)
endif()
if(GDN_SANITIZE) # GCC 12 takes more than ten minutes for one of them, instrumented and optimised
  foreach(name avx2 avx512 avx512_vnni neon)
    set_property(SOURCE runtime/dense_${name}.c APPEND PROPERTY COMPILE_OPTIONS -O0)
  endforeach()
endif()
target_link_libraries(gdn_runtime PUBLIC gdn_build_options PRIVATE gdn::gdn)

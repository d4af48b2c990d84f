target_sources(gdn_objects PRIVATE
  cpu/backend.c
  cpu/openmp.c
  cpu/scalar.c
  cpu/tables.c)

gdn_isa_sources(gdn_objects cpu/gated_delta_net)
if(GDN_ARCH STREQUAL "x86_64") # the chunked form alone has code for these
  target_sources(gdn_objects PRIVATE cpu/gated_delta_net_avx512_bf16.c)
  gdn_isa_source(gdn_objects cpu/gated_delta_net_avx512_vnni.c avx512_vnni)
  gdn_isa_source(gdn_objects cpu/gated_delta_net_avx512_amx.c avx512_amx)
  gdn_isa_source(gdn_objects cpu/gated_delta_net_avx2_vnni.c avx2_vnni)
endif()
gdn_isa_sources(gdn_objects cpu/ssm_conv)
gdn_isa_sources(gdn_objects cpu/set_rows)
# Clang takes minutes for each of these, instrumented and optimised.
if(GDN_FUZZ OR (GDN_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID MATCHES "Clang"))
  set_property(SOURCE
    cpu/gated_delta_net_avx2.c cpu/gated_delta_net_avx512.c cpu/gated_delta_net_neon.c
    cpu/ssm_conv_avx2.c cpu/ssm_conv_avx512.c cpu/ssm_conv_neon.c
    APPEND PROPERTY COMPILE_OPTIONS -O0)
  target_compile_definitions(gdn_threads INTERFACE GDN_STACK_MIB=16) # the library's and the runtime's threads
endif()

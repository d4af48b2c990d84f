gdn_kernel_sources(gdn_objects reference/)
target_sources(gdn_objects PRIVATE
  reference/backend.c
  reference/choose.c)
# The reference once more, for x86-64 processors that have fma as an instruction: see reference.h.
if(GDN_ARCH STREQUAL "x86_64")
  list(TRANSFORM GDN_KERNELS REPLACE "(.+)" "#include \"reference/\\1.c\"" OUTPUT_VARIABLE gdn_reference_includes)
  list(JOIN gdn_reference_includes "\n" gdn_reference_includes)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/reference/fma.c" @ONLY CONTENT "#define GDN_REF(name) gdn_ref_##name##_fma
@gdn_reference_includes@
")
  gdn_isa_source(gdn_objects "${PROJECT_BINARY_DIR}/reference/fma.c" fma)
endif()

target_sources(gdn_objects PRIVATE
  reference/backend.c
  reference/choose.c
  reference/gated_delta_net.c
  reference/set_rows.c
  reference/ssm_conv.c)
# The reference again for the level that flushes, and both again for x86-64 processors with fma instructions: see
# reference.h.
list(TRANSFORM GDN_KERNELS REPLACE "(.+)" "#include \"reference/\\1.c\"" OUTPUT_VARIABLE gdn_reference_includes)
list(JOIN gdn_reference_includes "\n" gdn_reference_includes)
foreach(version fma flush flush_fma)
  set(gdn_reference_file "${PROJECT_BINARY_DIR}/reference/${version}.c")
  set(gdn_reference_suffix "${version}")
  set(gdn_reference_level "")
  if(version MATCHES "flush")
    set(gdn_reference_level "#define GDN_FLUSH\n")
  endif()
  if(version STREQUAL "flush")
    set(gdn_reference_suffix flush_any)
  elseif(NOT GDN_ARCH STREQUAL "x86_64")
    continue()
  endif()
  file(CONFIGURE OUTPUT "${gdn_reference_file}" @ONLY CONTENT "@gdn_reference_level@#define GDN_REF(name) gdn_ref_##name##_@gdn_reference_suffix@
@gdn_reference_includes@
")
  if(version STREQUAL "flush")
    target_sources(gdn_objects PRIVATE "${gdn_reference_file}")
  else()
    gdn_isa_source(gdn_objects "${gdn_reference_file}" fma)
  endif()
endforeach()

target_sources(gdn_objects PRIVATE
  reference/backend.c
  reference/choose.c
  reference/chunked.c
  reference/flush.c
  reference/gated_delta_net.c
  reference/set_rows.c
  reference/ssm_conv.c)
# For x86-64 processors with fma instructions: see reference.h.
if(GDN_ARCH STREQUAL "x86_64")
  gdn_isa_source(gdn_objects reference/fma.c fma)
  gdn_isa_source(gdn_objects reference/flush_fma.c fma)
endif()

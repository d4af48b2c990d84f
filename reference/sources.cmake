gdn_kernel_sources(gdn_objects reference)
target_sources(gdn_objects PRIVATE
  reference/backend.c
  reference/choose.c)
if(GDN_ARCH STREQUAL "x86_64")
  gdn_isa_source(gdn_objects reference/fma.c fma)
endif()

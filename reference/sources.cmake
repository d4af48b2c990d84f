gdn_kernel_sources(gdn_objects reference)
target_sources(gdn_objects PRIVATE reference/backend.c)

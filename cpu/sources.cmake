# One file per kernel and instruction set; simd/features.c finds out what a processor gets.
target_sources(gdn_objects PRIVATE
  cpu/backend.c
  cpu/scalar.c
  cpu/tables.c
  simd/features.c)
foreach(stem IN LISTS GDN_KERNELS)
  gdn_isa_sources(gdn_objects cpu/${stem})
endforeach()

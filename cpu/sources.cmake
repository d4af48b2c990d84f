# One file per kernel and instruction set. Only the files of an instruction set are compiled for it, and
# without link-time optimization, so that none of its instructions can reach code that other processors
# run; cpu/features.c finds out what a processor gets.
set(gdn_flags_avx2 -mavx2 -mfma -mf16c)
set(gdn_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
set(gdn_flags_neon "")

set(GDN_CPU_ISAS scalar)
if(GDN_ARCH STREQUAL "x86_64")
  set(GDN_CPU_ISAS avx512 avx2 scalar)
elseif(GDN_ARCH STREQUAL "arm64")
  set(GDN_CPU_ISAS neon scalar)
endif()

target_sources(gdn_objects PRIVATE
  cpu/backend.c
  cpu/features.c
  cpu/scalar.c
  cpu/tables.c)

# The elementary functions as tables, which only tests call: kernels inline the functions.
add_library(gdn_elementary OBJECT EXCLUDE_FROM_ALL cpu/elementary_scalar.c)
target_link_libraries(gdn_elementary PRIVATE gdn_build_options)

function(gdn_isa_source target file isa)
  target_sources(${target} PRIVATE "${file}")
  set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${gdn_flags_${isa}};-fno-lto")
endfunction()
foreach(isa IN LISTS GDN_CPU_ISAS)
  if(NOT isa STREQUAL "scalar")
    gdn_isa_source(gdn_elementary cpu/elementary_${isa}.c ${isa})
    foreach(stem IN LISTS GDN_KERNELS)
      gdn_isa_source(gdn_objects cpu/${stem}_${isa}.c ${isa})
    endforeach()
  endif()
endforeach()

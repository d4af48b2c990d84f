# The vector vocabulary (avx512.h, avx2.h, neon.h), the elementary functions over it, and the detection of instruction
# sets. Shared by cpu/, runtime/ and bench/. Only the files of an instruction set are compiled for it, and without
# link-time optimization, so that none of its instructions can reach code for other processors.
set(gdn_flags_fma -mfma)
set(gdn_flags_avx2 -mavx2 -mfma -mf16c)
set(gdn_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
set(gdn_flags_avx512_vnni ${gdn_flags_avx512} -mavx512vnni) # a set of its own: processors have AVX-512 without it
set(gdn_flags_avx512_amx ${gdn_flags_avx512_vnni} -mamx-tile -mamx-int8)
if(WIN32) # GCC's macros have strides in a long, which has 32 bits there, and no process asks for tiles
  set(gdn_flags_avx512_amx ${gdn_flags_avx512_vnni})
endif()
set(gdn_flags_avx2_vnni ${gdn_flags_avx2} -mavxvnni)
set(gdn_flags_neon "")

set(GDN_CPU_ISAS scalar)
if(GDN_ARCH STREQUAL "x86_64")
  set(GDN_CPU_ISAS avx512 avx2 scalar)
elseif(GDN_ARCH STREQUAL "arm64")
  set(GDN_CPU_ISAS neon scalar)
endif()

# Everything is inlined in these files, so inline checks at every access take compilers minutes. AddressSanitizer stops
# at null pointers and at accesses outside objects, so with it the other sanitizers' checks of these are off. With GCC
# its check of an access is a call. With clang, which then does not unroll (cmake/compile.cmake), a call gains nothing,
# and tests run at a fifth of the speed.
set(gdn_flags_sanitized "")
if(GDN_SANITIZE MATCHES "address")
  if(GDN_SANITIZE MATCHES "undefined")
    list(APPEND gdn_flags_sanitized -fno-sanitize=null,object-size)
  endif()
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    list(APPEND gdn_flags_sanitized --param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

function(gdn_isa_source target file isa)
  target_sources(${target} PRIVATE "${file}")
  set(flags ${gdn_flags_${isa}} -fno-lto)
  if(NOT isa STREQUAL "fma") # scalar code, which is soon compiled, and slow where every access is a call
    list(APPEND flags ${gdn_flags_sanitized})
  endif()
  set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${flags}")
endfunction()

# gdn_isa_sources(TARGET STEM): STEM_<isa>.c for every instruction set that has code of its own
function(gdn_isa_sources target stem)
  foreach(isa IN LISTS GDN_CPU_ISAS)
    if(NOT isa STREQUAL "scalar")
      gdn_isa_source(${target} ${stem}_${isa}.c ${isa})
    endif()
  endforeach()
endfunction()

add_library(gdn_simd INTERFACE)
target_sources(gdn_simd INTERFACE "${CMAKE_CURRENT_LIST_DIR}/features.c")
target_link_libraries(gdn_simd INTERFACE gdn_system)

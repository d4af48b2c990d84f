# The CUDA backend: host code in C, which needs nothing of CUDA to build, and kernels. nvcc compiles the kernels into
# one image for all architectures, which is embedded in the library. The library does not link CUDA; it loads the driver
# at run time.
#
# Without nvcc there is GDN_CUDA_EMULATED=ON: the same host code with an image without code, from
# tests/device/cuda/sources.cmake. Only the tests' driver (tests/emulator) accepts it; to NVIDIA's it is an invalid image.
find_program(GDN_NVCC nvcc PATHS /usr/local/cuda/bin "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin")
mark_as_advanced(GDN_NVCC)
set(gdn_cuda_kernel_sources "${PROJECT_SOURCE_DIR}/cuda/gated_delta_net.cu" "${PROJECT_SOURCE_DIR}/cuda/chunked.cu" "${PROJECT_SOURCE_DIR}/cuda/ssm_conv.cu"
  "${PROJECT_SOURCE_DIR}/cuda/set_rows.cu" "${PROJECT_SOURCE_DIR}/cuda/probe.cu")
file(GLOB gdn_cuda_kernel_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cuda/*.cuh")
file(GLOB gdn_call_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/call/*.h" "${PROJECT_SOURCE_DIR}/gpu/delta_*.h"
  "${PROJECT_SOURCE_DIR}/gpu/conv.h")
list(APPEND gdn_cuda_kernel_headers "${PROJECT_SOURCE_DIR}/cuda/shape.h" "${PROJECT_SOURCE_DIR}/cuda/chunked.h" "${PROJECT_SOURCE_DIR}/numerics/chunked.h" ${gdn_call_headers} "${PROJECT_SOURCE_DIR}/gpu/probe_call.h" "${PROJECT_SOURCE_DIR}/numerics/elementary.h"
  "${PROJECT_SOURCE_DIR}/numerics/arithmetic.h" "${PROJECT_SOURCE_DIR}/gpu/convert16.h" "${PROJECT_SOURCE_DIR}/numerics/prepare.h"
  "${PROJECT_SOURCE_DIR}/gpu/set_rows.h" "${PROJECT_SOURCE_DIR}/numerics/q8_0.h")

if(NOT GDN_CUDA_EMULATED AND NOT GDN_NVCC)
  set(GDN_CUDA_MISSING "the CUDA compiler nvcc was not found")
elseif(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(GDN_CUDA_MISSING "it needs 64-bit pointers")
endif()

set(gdn_cuda_folder "${PROJECT_BINARY_DIR}/cuda")
set(gdn_cuda_toolkit 13000) # of the image without code: as new as the tests' driver says that it is
if(NOT GDN_CUDA_MISSING AND NOT GDN_CUDA_EMULATED)
  execute_process(COMMAND "${GDN_NVCC}" --list-gpu-arch OUTPUT_VARIABLE gdn_cuda_known RESULT_VARIABLE gdn_cuda_failed)
  if(gdn_cuda_failed)
    message(FATAL_ERROR "${GDN_NVCC} --list-gpu-arch failed; it has to be of CUDA 11.4 or newer.")
  endif()
  # The CUDA release of nvcc decides which drivers can use the image (docs/reference/backends/cuda.md).
  execute_process(COMMAND "${GDN_NVCC}" --version OUTPUT_VARIABLE gdn_cuda_version)
  if(NOT gdn_cuda_version MATCHES "release ([0-9]+)\\.([0-9]+)")
    message(FATAL_ERROR "${GDN_NVCC} --version does not say which release of CUDA it is of.")
  endif()
  math(EXPR gdn_cuda_toolkit "1000 * ${CMAKE_MATCH_1} + 10 * ${CMAKE_MATCH_2}")
  # The first architecture of each generation; its code runs on the others: 80 on 86 and 89, 100 on 103. For
  # architectures between generations and later ones (110) the driver compiles PTX.
  set(gdn_cuda_wanted ${GDN_CUDA_ARCHITECTURES})
  if(NOT gdn_cuda_wanted)
    set(gdn_cuda_wanted 75 80 90 100 120)
  endif()
  set(gdn_cuda_code "")
  set(gdn_cuda_newest "")
  foreach(arch IN LISTS gdn_cuda_wanted)
    if(gdn_cuda_known MATCHES "compute_${arch}\n")
      list(APPEND gdn_cuda_code "-gencode=arch=compute_${arch},code=sm_${arch}")
      set(gdn_cuda_newest ${arch})
    elseif(GDN_CUDA_ARCHITECTURES)
      message(FATAL_ERROR "GDN_CUDA_ARCHITECTURES has ${arch}, which ${GDN_NVCC} does not know.")
    endif()
  endforeach()
  foreach(arch IN ITEMS 100 ${gdn_cuda_newest})
    if(gdn_cuda_code MATCHES "sm_${arch}")
      list(APPEND gdn_cuda_code "-gencode=arch=compute_${arch},code=compute_${arch}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES gdn_cuda_code)
  # -fmad=false: only what is written as fma is fused. One .cu includes all kernels, because an image is one module.
  set(gdn_cuda_all "${gdn_cuda_folder}/all.cu")
  set(gdn_cuda_includes "")
  foreach(source IN LISTS gdn_cuda_kernel_sources)
    string(APPEND gdn_cuda_includes "#include \"${source}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT "${gdn_cuda_all}" CONTENT "${gdn_cuda_includes}")
  set(gdn_cuda_flags -std=c++17 -O3 -fmad=false -ftz=false -Werror all-warnings "-I${PROJECT_SOURCE_DIR}")
  set(gdn_cuda_image "${gdn_cuda_folder}/gdn_cuda.fatbin")
  # The assembler's report of registers and spills (scripts/cuda_resources.py) goes into a file, which is printed on failure.
  set(gdn_cuda_said "${gdn_cuda_folder}/gdn_cuda.ptxas")
  add_custom_command(
    OUTPUT "${gdn_cuda_image}" "${gdn_cuda_said}"
    COMMAND sh -c "\"$@\" >\"$0\" 2>&1 || (cat \"$0\" && false)" "${gdn_cuda_said}"
            "${GDN_NVCC}" ${gdn_cuda_flags} -fatbin -t 0 -Xptxas -v ${gdn_cuda_code} "${gdn_cuda_all}" -o "${gdn_cuda_image}"
    DEPENDS ${gdn_cuda_kernel_sources} ${gdn_cuda_kernel_headers} "${gdn_cuda_all}"
    COMMENT "CUDA kernels for all architectures" VERBATIM)
  target_sources(gdn_objects PRIVATE "${gdn_cuda_image}")
  target_compile_definitions(gdn_objects PRIVATE "GDN_CUDA_IMAGE=\"${gdn_cuda_image}\"")
  set_source_files_properties(cuda/kernels.c PROPERTIES OBJECT_DEPENDS "${gdn_cuda_image}")
endif()

if(NOT GDN_CUDA_MISSING)
  target_sources(gdn_objects PRIVATE
    cuda/backend.c
    cuda/device.c
    cuda/digits.c
    cuda/dispatch_gated_delta_net.c
    cuda/dispatch_set_rows.c
    cuda/dispatch_ssm_conv.c
    cuda/kernels.c
    cuda/loader.c
    cuda/memory.c
    cuda/queue.c)
  target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_CUDA=1 GDN_CUDA_TOOLKIT=${gdn_cuda_toolkit})
endif()

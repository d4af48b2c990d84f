# Tests of the CUDA backend, included by tests/CMakeLists.txt where the backend is built. All but `cuda.header` and
# `cuda.no_driver` run its kernels on the emulator of tests/simt.
add_library(test_cuda_header OBJECT cuda/header.c) # by itself, as C99
set_target_properties(test_cuda_header PROPERTIES C_STANDARD 99)
target_include_directories(test_cuda_header PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_compile_options(test_cuda_header PRIVATE -Wall -Wextra -Wpedantic -Werror)

if(GDN_BUILD_TOOLS AND TARGET gdn)
  add_test(NAME cuda.no_driver COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/cuda/no_driver.sh" $<TARGET_FILE:gdn_tool> $<TARGET_FILE:gdn>)
  set_tests_properties(cuda.no_driver PROPERTIES LABELS cuda)
endif()

if(GDN_SIMT) # a C++ compiler was found
  gdn_simt_library(gdn_simt_cuda
    "${PROJECT_SOURCE_DIR}/cuda/gated_delta_net.cu"
    "${PROJECT_SOURCE_DIR}/cuda/probe.cu"
    "${PROJECT_SOURCE_DIR}/cuda/set_rows.cu"
    "${PROJECT_SOURCE_DIR}/cuda/ssm_conv.cu")
  get_target_property(gdn_simt_cuda_folder gdn_simt_cuda GDN_SIMT_FOLDER)
  set(gdn_cuda_tests "")
  if(GDN_BUILD_TOOLS)
    foreach(kernel IN LISTS GDN_KERNELS)
      add_test(NAME cuda.check_${kernel} COMMAND gdn_tool check --backend cuda --kernel ${kernel})
      list(APPEND gdn_cuda_tests check_${kernel})
    endforeach()
  endif()
  foreach(name IN LISTS gdn_cuda_tests)
    set_property(TEST cuda.${name} APPEND PROPERTY LABELS cuda)
    set_tests_properties(cuda.${name} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder}")
  endforeach()
endif()

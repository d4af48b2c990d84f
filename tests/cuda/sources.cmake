# Tests of the CUDA backend, included by tests/CMakeLists.txt where the backend is built. They run its kernels on the emulator
# of tests/simt, which needs a C++ compiler.
if(GDN_CUDA_EMULATED) # the image in the place of what nvcc makes
  target_include_directories(gdn_objects PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/cuda/image")
endif()
add_library(test_cuda_header OBJECT cuda/header.c) # by itself, as C99
set_target_properties(test_cuda_header PROPERTIES C_STANDARD 99)
target_include_directories(test_cuda_header PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_compile_options(test_cuda_header PRIVATE -Wall -Wextra -Wpedantic -Werror)

if(GDN_SIMT) # a C++ compiler was found
  gdn_simt_library(gdn_simt_cuda
    "${PROJECT_SOURCE_DIR}/cuda/gated_delta_net.cu"
    "${PROJECT_SOURCE_DIR}/cuda/probe.cu"
    "${PROJECT_SOURCE_DIR}/cuda/set_rows.cu"
    "${PROJECT_SOURCE_DIR}/cuda/ssm_conv.cu")
  get_target_property(gdn_simt_cuda_folder gdn_simt_cuda GDN_SIMT_FOLDER)
  gdn_test_program(test_cuda cuda/test_cuda.c cuda/test_graphs.c)
  target_link_libraries(test_cuda PRIVATE ${GDN_PRIVATE_LIBRARIES} gdn_simt_cuda gdn_device_tests)
  add_test(NAME cuda.robustness COMMAND test_cuda)
  set_tests_properties(cuda.robustness PROPERTIES LABELS unit)
  set(gdn_cuda_tests robustness)
  if(GDN_BUILD_TOOLS)
    foreach(kernel IN LISTS GDN_KERNELS)
      add_test(NAME cuda.check_${kernel} COMMAND gdn_tool check --backend cuda --kernel ${kernel})
      list(APPEND gdn_cuda_tests check_${kernel})
    endforeach()
  endif()
  if(GDN_BUILD_TOOLS)
    add_test(NAME cuda.check_shuffled COMMAND gdn_tool check --backend cuda --quick --cases 100)
    set_tests_properties(cuda.check_shuffled PROPERTIES LABELS cuda
      ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder};GDN_SIMT_SEED=2;GDN_SIMT_CONTROL=async=2")
  endif()
  if(GDN_BUILD_TOOLS AND TARGET gdn)
    add_test(NAME cuda.no_driver COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/cuda/no_driver.sh" $<TARGET_FILE:gdn_tool> $<TARGET_FILE:gdn>
      "${gdn_simt_cuda_folder}")
    set_tests_properties(cuda.no_driver PROPERTIES LABELS cuda)
  endif()
  if(GDN_BUILD_TOOLS AND Python3_FOUND AND NOT GDN_SANITIZE)
    add_test(NAME cuda.mutations COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/simt/mutations.py" --backend cuda
      --cxx "${CMAKE_CXX_COMPILER}" --gdn $<TARGET_FILE:gdn_tool> --test $<TARGET_FILE:test_cuda>
      --objects $<TARGET_OBJECTS:gdn_simt_objects> COMMAND_EXPAND_LISTS)
    set_tests_properties(cuda.mutations PROPERTIES LABELS cuda RUN_SERIAL ON) # takes all cores itself
  endif()
  foreach(name IN LISTS gdn_cuda_tests)
    set_property(TEST cuda.${name} APPEND PROPERTY LABELS cuda)
    set_tests_properties(cuda.${name} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder}")
  endforeach()
endif()

# Tests of the CUDA backend, included by tests/CMakeLists.txt where the backend is built. They run its kernels on the emulator
# of tests/emulator, which needs a C++ compiler.
if(GDN_CUDA_EMULATED) # the image in the place of what nvcc makes
  target_include_directories(gdn_objects PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/image")
endif()
gdn_device_header(cuda)

if(GDN_SIMT) # a C++ compiler was found
  gdn_simt_library(gdn_simt_cuda ${gdn_cuda_kernel_sources})
  get_target_property(gdn_simt_cuda_folder gdn_simt_cuda GDN_SIMT_FOLDER)
  gdn_device_program(cuda device/cuda/test_cuda.c device/cuda/test_self_test.c device/cuda/test_graphs.c device/cuda/test_streams.c)
  target_link_libraries(test_cuda PRIVATE gdn_simt_cuda)
  gdn_emulated_tests(cuda "${gdn_simt_cuda_folder}" no_driver)
  if(GDN_BUILD_TOOLS)
    add_test(NAME cuda.check_chunked_f16 COMMAND gdn_tool check --backend cuda --kernel gated_delta_net --case "chunked/*")
    set_tests_properties(cuda.check_chunked_f16 PROPERTIES LABELS cuda ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder};GDN_CUDA_DIGITS=f16")
    gdn_self_tests_all(cuda.check_chunked_f16)
    set_property(TEST cuda.check_chunked_f16 APPEND PROPERTY FAIL_REGULAR_EXPRESSION "wrong sums of digits")
    add_test(NAME cuda.check_shuffled COMMAND gdn_tool check --backend cuda --quick --cases 100)
    set_tests_properties(cuda.check_shuffled PROPERTIES LABELS "cuda;full"
      ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder};GDN_SIMT_SEED=2;GDN_SIMT_CONTROL=async=2")
  endif()
  if(GDN_BUILD_TOOLS AND Python3_FOUND)
    add_test(NAME cuda.bench COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/test_bench.py" $<TARGET_FILE:gdn_tool>)
    set_tests_properties(cuda.bench PROPERTIES LABELS cuda ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_folder}")
  endif()
  if(NOT GDN_SANITIZE) # the bytes that kernels move: a library of a few of them, with a call before each access
    gdn_simt_library(gdn_simt_cuda_traffic CHECKED "${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/traffic_kernels.cu")
    get_target_property(gdn_simt_cuda_traffic_folder gdn_simt_cuda_traffic GDN_SIMT_FOLDER)
    gdn_device_program(cuda_traffic device/cuda/test_traffic.c)
    target_link_libraries(test_cuda_traffic PRIVATE gdn_simt_cuda_traffic)
    add_test(NAME cuda.traffic COMMAND test_cuda_traffic)
    # The library has only the kernels that are counted; those of the self-test would be all.
    set_tests_properties(cuda.traffic PROPERTIES LABELS "cuda;unit"
      ENVIRONMENT "LD_LIBRARY_PATH=${gdn_simt_cuda_traffic_folder};GDN_KNOWN_ANSWERS=off")
  endif()
endif()

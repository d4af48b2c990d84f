# The SIMT emulator: runs .cu files on the CPU, behind a fake libcuda.so.1. tests/emulator/README.md is its manual.
# Included by tests/CMakeLists.txt.
#
#   gdn_simt_library(<target> <file.cu> ... [CHECKED])
#
# makes <build>/tests/emulator/<target>/libcuda.so.1 with the kernels of these files. A program finds it through
# LD_LIBRARY_PATH (GDN_SIMT_FOLDER of the target's properties), or links the target.
set(GDN_SIMT OFF)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CXX_COMPILER)
  message(STATUS "Without the SIMT emulator: no C++ cross compiler is set")
  return()
endif()
if(APPLE OR GDN_ARCH STREQUAL "other")
  message(STATUS "Without the SIMT emulator: it needs the sections of ELF, and an x86-64 or 64-bit Arm processor")
  return()
endif()
if(GDN_SANITIZE MATCHES "thread")
  message(STATUS "Without the SIMT emulator: ThreadSanitizer does not follow its fibers")
  return()
endif()
if(NOT CMAKE_CXX_COMPILER) # also where an earlier run found none, which is in the cache
  unset(CMAKE_CXX_COMPILER CACHE)
  include(CheckLanguage)
  check_language(CXX)
endif()
if(NOT CMAKE_CXX_COMPILER)
  if(GDN_CUDA_EMULATED OR GDN_METAL_EMULATED)
    message(FATAL_ERROR "GDN_CUDA_EMULATED or GDN_METAL_EMULATED is ON, but there is no C++ compiler, which their emulator needs.")
  endif()
  gdn_left_out("the SIMT emulator" "no C++ compiler")
  return()
endif()
enable_language(CXX)
set(GDN_SIMT ON)

set(gdn_simt_sources fiber.c core.c warp.c garbage.c traffic.c registry.c control.c handles.c driver_device.c
  driver_context.c driver_memory.c driver_copy.c driver_stream.c driver_module.c driver_graph.c)
list(TRANSFORM gdn_simt_sources PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
find_package(Threads REQUIRED)

add_library(gdn_simt_objects OBJECT ${gdn_simt_sources})
set_target_properties(gdn_simt_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(gdn_simt_objects PRIVATE gdn_build_options)

add_library(gdn_simt_checker OBJECT "${CMAKE_CURRENT_LIST_DIR}/check.c" "${CMAKE_CURRENT_LIST_DIR}/check_hooks.c")
set_target_properties(gdn_simt_checker PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(gdn_simt_checker PRIVATE gdn_build_options)

# As for nvcc: no contraction. Nothing here needs a C++ library.
set(gdn_simt_flags -std=c++17 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti
  -fno-threadsafe-statics -fvisibility=hidden -Wall -Wextra -Wno-unknown-pragmas -Wno-unused-function -Wno-unused-parameter)
if(GDN_WERROR)
  list(APPEND gdn_simt_flags -Werror)
endif()
# fmaf() is a call into the C library where the processor that is compiled for may lack the instruction. The emulator stays on
# the machine that builds it, so it is compiled for what that has; the bits are the same.
list(APPEND gdn_simt_flags ${GDN_HOST_FMA})
set(gdn_simt_sanitized OFF) # see cmake/compile.cmake
if(GDN_SANITIZE MATCHES "address") # every access has its checks: once per function, and not again where it is called
  set(gdn_simt_sanitized ON)
  list(APPEND gdn_simt_flags -DSIMT_CALLS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang") # GCC 12 takes minutes for one of them, instrumented and optimised
    list(APPEND gdn_simt_flags -O0)
  endif()
endif()
# CUDA's kernels without a call before each access: in a third of -O3's time, and as fast. With the calls -O1 runs twice as long,
# since there are more accesses.
set(gdn_simt_level "")
if(NOT gdn_simt_sanitized)
  set(gdn_simt_level -O1)
endif()

function(gdn_simt_library target)
  cmake_parse_arguments(PARSE_ARGV 1 simt "CHECKED" "" "")
  set(folder "${CMAKE_BINARY_DIR}/tests/emulator/${target}")
  add_library(${target} SHARED ${simt_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:gdn_simt_objects>)
  if(simt_CHECKED) # the sanitizer's calls, without its library
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:gdn_simt_checker>)
    target_compile_options(${target} PRIVATE -fsanitize=thread -g)
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  else()
    target_compile_options(${target} PRIVATE ${gdn_simt_level})
  endif()
  set_source_files_properties(${simt_UNPARSED_ARGUMENTS} PROPERTIES LANGUAGE CXX)
  target_compile_options(${target} PRIVATE ${gdn_simt_flags}
    "SHELL:-include \"${PROJECT_SOURCE_DIR}/tests/emulator/cuda_shim.h\"")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${target} PRIVATE Threads::Threads m)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME cuda SOVERSION 1 LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY "${folder}" GDN_SIMT_FOLDER "${folder}")
endfunction()

# ---- The emulator's own tests ----
function(gdn_simt_test name)
  gdn_simt_library(gdn_simt_${name} "${gdn_simt_source_folder}/test_kernels.cu" ${ARGN})
  add_executable(test_simt_${name} "${gdn_simt_source_folder}/test_simt.c")
  target_link_libraries(test_simt_${name} PRIVATE gdn_build_options gdn_simt_${name})
  add_test(NAME simt.${name} COMMAND test_simt_${name} ${ARGN})
  set_tests_properties(simt.${name} PROPERTIES LABELS "simt;unit")
endfunction()
set(gdn_simt_source_folder "${CMAKE_CURRENT_LIST_DIR}")
gdn_simt_test(plain)
if(GDN_SANITIZE MATCHES "address")
  add_test(NAME simt.overflow COMMAND test_simt_plain overflow)
  set_tests_properties(simt.overflow PROPERTIES LABELS "simt;unit" WILL_FAIL ON)
endif()
if(NOT GDN_SANITIZE) # two sanitizers do not go together
  gdn_simt_test(checked CHECKED)
endif()

# Against NVIDIA's header, where it is installed.
find_path(GDN_CUDA_HEADER cuda.h PATHS /usr/local/cuda/include)
if(GDN_CUDA_HEADER)
  add_library(gdn_simt_abi OBJECT "${CMAKE_CURRENT_LIST_DIR}/abi_cuda.c")
  target_include_directories(gdn_simt_abi SYSTEM PRIVATE "${GDN_CUDA_HEADER}")
  target_include_directories(gdn_simt_abi PRIVATE "${PROJECT_SOURCE_DIR}")
endif()

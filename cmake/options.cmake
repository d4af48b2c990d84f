# What the options of CMakeLists.txt lead to: compiler settings, the target architecture, how backends come in.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

if(NOT CMAKE_C_COMPILER_ID MATCHES "^(GNU|Clang|AppleClang)$")
  message(FATAL_ERROR "libgdn needs GCC or Clang; this is ${CMAKE_C_COMPILER_ID}.")
endif()

# The architecture decides which instruction sets are compiled and which of their tables are linked.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(GDN_ARCH x86_64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(GDN_ARCH arm64)
else()
  set(GDN_ARCH other) # scalar code only
endif()

# What all of libgdn's own code is compiled with; never passed on to users of the library.
add_library(gdn_build_options INTERFACE)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
target_include_directories(gdn_build_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
target_compile_definitions(gdn_build_options INTERFACE
  $<$<STREQUAL:${GDN_ARCH},x86_64>:GDN_ARCH_X86=1>
  $<$<STREQUAL:${GDN_ARCH},arm64>:GDN_ARCH_ARM64=1>)
# The bits are the contract (docs/numerics.md). Contraction would change them, so it is off; errno and
# floating-point exception flags are no part of it, so nothing is spent on them. Never -ffast-math.
target_compile_options(gdn_build_options INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wwrite-strings -Wvla -Wno-missing-field-initializers # { sizeof x } is how the header wants it
  $<$<BOOL:${GDN_WERROR}>:-Werror>)
if(NOT WIN32)
  target_link_libraries(gdn_build_options INTERFACE m)
endif()

# Without optimisation prefill is fifty times slower, and a project that has libgdn inside itself may well have no build type, or
# be debugged itself. So whichever configurations have no -O1 or more get Release's -O3, unless this library is to be debugged.
if(NOT GDN_DEBUG_KERNELS)
  foreach(config IN LISTS CMAKE_CONFIGURATION_TYPES CMAKE_BUILD_TYPE ITEMS "")
    string(TOUPPER "${config}" upper)
    string(REGEX MATCHALL "(^| )-O[^ ]*" levels "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${upper}}")
    list(POP_BACK levels level) # the last one counts
    if(NOT level MATCHES "-O($|[123s]|fast)")
      target_compile_options(gdn_build_options INTERFACE "$<$<CONFIG:${config}>:-O3>")
    endif()
  endforeach()
endif()

if(GDN_SANITIZE) # -g1 is what their reports need; more takes GCC several times as long
  string(REPLACE ";" "," gdn_sanitizers "${GDN_SANITIZE}")
  add_compile_options(-fsanitize=${gdn_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${gdn_sanitizers})
endif()

if(GDN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "GDN_FUZZ needs clang's libFuzzer; the compiler is ${CMAKE_C_COMPILER_ID}.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Libraries that libgdn itself links; users of libgdn.a must link them too.
set(GDN_PRIVATE_LIBRARIES m)
set(GDN_HAVE_OPENMP OFF)
if(NOT "${GDN_OPENMP}" MATCHES "^(OFF|FALSE|NO|0|)$")
  find_package(OpenMP COMPONENTS C)
  if(OpenMP_C_FOUND)
    set(GDN_HAVE_OPENMP ON)
    list(APPEND GDN_PRIVATE_LIBRARIES OpenMP::OpenMP_C)
    target_link_libraries(gdn_build_options INTERFACE OpenMP::OpenMP_C)
    target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_OPENMP=1)
  elseif(NOT GDN_OPENMP STREQUAL "AUTO")
    message(FATAL_ERROR "GDN_OPENMP is ${GDN_OPENMP}, but the C compiler has no OpenMP.")
  endif()
endif()

# A backend is the fragment <backend>/sources.cmake, which adds to gdn_objects and defines
# GDN_HAVE_<BACKEND>=1, or sets GDN_<BACKEND>_MISSING to a reason and changes nothing.
set(GDN_BACKENDS cpu reference)
macro(gdn_backend upper)
  string(TOLOWER ${upper} gdn_lower)
  set(GDN_${upper}_MISSING "")
  if(NOT GDN_${upper} MATCHES "^(OFF|FALSE|NO|0)$")
    if(EXISTS "${PROJECT_SOURCE_DIR}/${gdn_lower}/sources.cmake")
      include("${PROJECT_SOURCE_DIR}/${gdn_lower}/sources.cmake")
    else()
      set(GDN_${upper}_MISSING "this release of libgdn does not contain it yet")
    endif()
    if(NOT GDN_${upper}_MISSING)
      list(APPEND GDN_BACKENDS ${gdn_lower})
    elseif(GDN_${upper} STREQUAL "AUTO")
      message(STATUS "Without the ${gdn_lower} backend: ${GDN_${upper}_MISSING}")
    else()
      message(FATAL_ERROR "GDN_${upper} is ${GDN_${upper}}, but ${GDN_${upper}_MISSING}.")
    endif()
  endif()
endmacro()

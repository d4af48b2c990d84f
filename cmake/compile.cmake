# What all of libgdn's own code is compiled with, the library's and the runtime's, and the options that say so.
include_guard(GLOBAL)
option(GDN_WERROR "Treat warnings as errors" OFF)
option(GDN_DEBUG_KERNELS "Compile libgdn as the build type says, not optimised for Debug or none" ${PROJECT_IS_TOP_LEVEL})
set(GDN_SANITIZE "" CACHE STRING "Sanitizers, e.g. address;undefined, or thread")

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

# Never passed on to users of the library.
add_library(gdn_compile_options INTERFACE)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
target_compile_definitions(gdn_compile_options INTERFACE
  $<$<PLATFORM_ID:Darwin>:_DARWIN_C_SOURCE> # there POSIX alone hides SIGWINCH, _SC_NPROCESSORS_ONLN and others
  $<$<STREQUAL:${GDN_ARCH},x86_64>:GDN_ARCH_X86=1>
  $<$<STREQUAL:${GDN_ARCH},arm64>:GDN_ARCH_ARM64=1>)
# The bits are the contract (docs/reference/numerics.md). Contraction would change them, so it is off; errno and
# floating-point exception flags are no part of it, so nothing is spent on them. Never -ffast-math.
target_compile_options(gdn_compile_options INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Werror=implicit-function-declaration # the result would be an int, and a pointer be cut
  -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wwrite-strings -Wvla -Wno-missing-field-initializers # { sizeof x } is how the header wants it
  $<$<BOOL:${GDN_WERROR}>:-Werror>)
if(WIN32)
  # C's own printf instead of the system's, whose checks of formats then do not fit. What GCC's libraries have is linked into
  # each program and DLL: without libgcc_s and libwinpthread beside them these would not start, and not say why.
  target_compile_definitions(gdn_compile_options INTERFACE __USE_MINGW_ANSI_STDIO=1 _WIN32_WINNT=0x0A00)
  target_compile_options(gdn_compile_options INTERFACE -Wno-format -Wno-format-extra-args)
  add_link_options(-static)
else()
  target_link_libraries(gdn_compile_options INTERFACE m)
endif()

# Without optimisation prefill is fifty times slower, and a project that has libgdn inside itself may well have no build type, or
# be debugged itself. So whichever configurations have no -O1 or more get Release's -O3, unless this library is to be debugged.
if(NOT GDN_DEBUG_KERNELS)
  foreach(config IN LISTS CMAKE_CONFIGURATION_TYPES CMAKE_BUILD_TYPE ITEMS "")
    string(TOUPPER "${config}" upper)
    string(REGEX MATCHALL "(^| )-O[^ ]*" levels "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${upper}}")
    list(POP_BACK levels level) # the last one counts
    if(NOT level MATCHES "-O($|[123s]|fast)")
      target_compile_options(gdn_compile_options INTERFACE "$<$<CONFIG:${config}>:-O3>")
    endif()
  endforeach()
endif()

# What makes fmaf an instruction on the machine that builds, for what only runs there: builds under sanitizers, the emulator.
set(GDN_HOST_FMA "")
if(GDN_ARCH STREQUAL "x86_64" AND NOT CMAKE_CROSSCOMPILING)
  include(CheckCSourceRuns)
  check_c_source_runs("int main(void) { return !__builtin_cpu_supports(\"fma\"); }" GDN_HOST_HAS_FMA)
  if(GDN_HOST_HAS_FMA)
    set(GDN_HOST_FMA -mfma)
  endif()
endif()

if(GDN_SANITIZE) # -g1 is what their reports need; more takes GCC several times as long
  string(REPLACE ";" "," gdn_sanitizers "${GDN_SANITIZE}")
  set(gdn_sanitized $<COMPILE_LANGUAGE:C,CXX>) # C++ is the emulated kernels alone
  add_compile_options(
    "$<${gdn_sanitized}:-fsanitize=${gdn_sanitizers};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-g1>")
  add_link_options(-fsanitize=${gdn_sanitizers})
  # Kernels say which loops are to be unrolled. Clang does it before it adds the checks, and every copy gets its own: without,
  # kernels compile in a half to a seventh of the time, and the emulated ones run faster too.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_compile_options(
      "SHELL:$<${gdn_sanitized}:-mllvm -pragma-unroll-threshold=1 -mllvm -unroll-full-max-count=0 -Wno-pass-failed>")
  endif()
  # Most of the time of scalar code would be calls of the C library's fmaf. Release builds have them, and give the same bits.
  add_compile_options("$<${gdn_sanitized}:${GDN_HOST_FMA}>")
endif()

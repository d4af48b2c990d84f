# Cross builds with zig, a C compiler for many systems that needs nothing of them; PyPI has it as ziglang:
#   cmake -B build --toolchain cmake/zig.cmake -DGDN_TARGET=riscv64-linux-musl
# GDN_TARGET is one of zig's targets, machine-system-abi, such as x86_64-linux-musl, x86_64-linux-gnu.2.17 or aarch64-macos.
# zig is looked for in PATH, and then in the Python package; -DGDN_ZIG names it.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GDN_TARGET GDN_ZIG)
if(NOT GDN_TARGET MATCHES "^([a-z0-9_]+)-([a-z]+)")
  message(FATAL_ERROR "GDN_TARGET is '${GDN_TARGET}'; a target of zig is wanted, such as riscv64-linux-musl")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(gdn_system ${CMAKE_MATCH_2})
set(gdn_name_linux Linux)
set(gdn_name_macos Darwin)
set(gdn_name_windows Windows)
set(gdn_name_freebsd FreeBSD)
if(NOT DEFINED gdn_name_${gdn_system})
  message(FATAL_ERROR "GDN_TARGET is '${GDN_TARGET}'; linux, macos, windows and freebsd are known as systems")
endif()
set(CMAKE_SYSTEM_NAME ${gdn_name_${gdn_system}})

find_program(GDN_ZIG zig)
if(NOT GDN_ZIG)
  execute_process(COMMAND python3 -c "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))"
    OUTPUT_VARIABLE gdn_zig OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(GDN_ZIG "${gdn_zig}" CACHE FILEPATH "zig" FORCE)
endif()
if(NOT GDN_ZIG)
  message(FATAL_ERROR "zig is neither in PATH nor among python3's packages; pip install ziglang, or -DGDN_ZIG=PATH")
endif()

# CMake wants a program where zig has a subcommand. In the build folder, as a program with arguments is none in its cache.
foreach(tool ar ranlib)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/zig/${tool}" CONTENT "#!/bin/sh\nexec '@GDN_ZIG@' @tool@ \"$@\"\n" @ONLY)
  string(TOUPPER ${tool} upper)
  set(CMAKE_${upper} "${CMAKE_BINARY_DIR}/zig/${tool}")
endforeach()
# zig adds checks of undefined behaviour to a build without optimisation.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/zig/cc" @ONLY CONTENT
  "#!/bin/sh\nexec '@GDN_ZIG@' cc -target @GDN_TARGET@ -fno-sanitize=all \"$@\"\n")
foreach(tool ar ranlib cc)
  file(CHMOD "${CMAKE_BINARY_DIR}/zig/${tool}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER "${CMAKE_BINARY_DIR}/zig/cc")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# As on a Mac: the name of a library for macOS is @rpath/FILE. CMake elsewhere names it by the path where it was built.
set(CMAKE_INSTALL_NAME_DIR @rpath)
set(CMAKE_BUILD_WITH_INSTALL_NAME_DIR ON)

# Cross build for 64-bit Arm on Debian, tests under qemu-user:
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# A processor without SVE: with it, as qemu has it by default, the C library copies memory by SVE, which qemu emulates element by
# element, and "max" looks up more at every jump: a quarter of the time. libgdn has no code for what this one lacks.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu neoverse-n1 -L /usr/aarch64-linux-gnu)

# Tests of the Metal backend, included by tests/CMakeLists.txt where the backend is built. They run its kernels on the emulator of
# tests/emulator, which needs a C++ compiler, behind a fake Metal. On Apple's systems `gdn check` runs on the device.
if(GDN_METAL_EMULATED AND NOT APPLE) # in the place of metal/frameworks.c
  target_sources(gdn_objects PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/device/metal/frameworks.c")
endif()
gdn_device_header(metal)

if(GDN_SIMT AND GDN_METAL_EMULATED) # a C++ compiler was found
  set(gdn_metal_fake_sources device/metal/fake_commands.c device/metal/fake_device.c device/metal/fake_runtime.c)
  set(gdn_metal_core fiber.c core.c warp.c garbage.c traffic.c registry.c)
  list(TRANSFORM gdn_metal_core PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/emulator/")
  add_library(gdn_metal_fake_objects OBJECT ${gdn_metal_fake_sources} ${gdn_metal_core})
  set_target_properties(gdn_metal_fake_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(gdn_metal_fake_objects PRIVATE gdn_build_options)

  # The kernels as the one source that the library embeds.
  function(gdn_metal_fake target)
    set(folder "${CMAKE_BINARY_DIR}/tests/device/metal/${target}")
    set(text "${PROJECT_BINARY_DIR}/metal/gdn_metal_source.metal")
    add_custom_command(OUTPUT "${folder}/kernels.cpp" COMMAND "${CMAKE_COMMAND}" -E copy "${text}" "${folder}/kernels.cpp"
      DEPENDS "${text}" "${PROJECT_BINARY_DIR}/metal/gdn_metal_source.inc" VERBATIM)
    add_library(${target} SHARED "${folder}/kernels.cpp" $<TARGET_OBJECTS:gdn_metal_fake_objects>)
    add_dependencies(${target} gdn_objects)
    target_compile_options(${target} PRIVATE ${gdn_simt_flags} -fno-strict-aliasing -Wno-attributes
      "SHELL:-include \"${PROJECT_SOURCE_DIR}/tests/emulator/metal_shim.h\"")
    if(ARGN STREQUAL "CHECKED")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:gdn_simt_checker>)
      target_compile_options(${target} PRIVATE -fsanitize=thread -g)
      target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
    endif()
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${target} PRIVATE Threads::Threads m)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME gdn-metal-emulated LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY "${folder}")
  endfunction()
  gdn_metal_fake(gdn_metal_plain)
  gdn_device_program(metal device/metal/test_metal.c)
  target_link_libraries(test_metal PRIVATE gdn_metal_plain)
  gdn_emulated_tests(metal "${CMAKE_BINARY_DIR}/tests/device/metal/gdn_metal_plain" no_metal)
  if(GDN_BUILD_TOOLS AND GDN_ARCH STREQUAL "x86_64") # a device that flushes subnormal numbers
    add_test(NAME metal.check_flush COMMAND gdn_tool check --backend metal --level exact_ftz --quick --cases 10)
    set_tests_properties(metal.check_flush PROPERTIES LABELS metal ENVIRONMENT
      "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/device/metal/gdn_metal_plain;GDN_METAL_FAKE=flush=1")
  endif()
  # The same kernels with every access to memory checked: races, and what lies outside of a buffer.
  if(GDN_BUILD_TOOLS AND NOT GDN_SANITIZE) # two sanitizers do not go together
    gdn_metal_fake(gdn_metal_checked CHECKED)
    add_test(NAME metal.memory COMMAND gdn_tool check --backend metal --quick --cases 60)
    set_tests_properties(metal.memory PROPERTIES LABELS metal ENVIRONMENT
      "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/device/metal/gdn_metal_checked")
  endif()
elseif(APPLE AND GDN_BUILD_TOOLS)
  add_test(NAME metal.device COMMAND gdn_tool check --backend metal)
  set_tests_properties(metal.device PROPERTIES LABELS metal)
endif()

# The Metal backend: C over the Objective-C runtime, which needs no Apple compiler, and kernels. The library embeds
# their source, and Metal compiles it at run time. The library does not link Metal; it loads the frameworks at run time.
#
# On systems other than Apple's there is GDN_METAL_EMULATED=ON: the same code, for the tests' Metal. In place of
# frameworks.c it has a file of tests/device/metal/sources.cmake. Such a library is for tests only, and reports that.
if(NOT APPLE AND NOT GDN_METAL_EMULATED)
  set(GDN_METAL_MISSING "this is no Apple system")
elseif(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(GDN_METAL_MISSING "it needs 64-bit pointers")
else()
  set(gdn_metal_folder "${PROJECT_BINARY_DIR}/metal")
  file(MAKE_DIRECTORY "${gdn_metal_folder}")
  # What the one source is made of: these, and what they include.
  set(gdn_metal_sources metal/probe.metal metal/gated_delta_net.metal metal/ssm_conv.metal metal/set_rows.metal)
  list(JOIN gdn_metal_sources ":" gdn_metal_source_list)
  file(GLOB gdn_metal_source_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/metal/*.metal" "${PROJECT_SOURCE_DIR}/metal/*.h"
    "${PROJECT_SOURCE_DIR}/call/*.h" "${PROJECT_SOURCE_DIR}/numerics/*.h" "${PROJECT_SOURCE_DIR}/gpu/*.h")
  add_custom_command(
    OUTPUT "${gdn_metal_folder}/gdn_metal_source.inc" "${gdn_metal_folder}/gdn_metal_source.metal"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCES=${gdn_metal_source_list}" "-DROOT=${PROJECT_SOURCE_DIR}"
            "-DTEXT=${gdn_metal_folder}/gdn_metal_source.metal" "-DBYTES=${gdn_metal_folder}/gdn_metal_source.inc"
            -P "${PROJECT_SOURCE_DIR}/metal/embed.cmake"
    DEPENDS ${gdn_metal_source_files} "${PROJECT_SOURCE_DIR}/metal/embed.cmake"
    COMMENT "Metal kernels as one source" VERBATIM)
  target_sources(gdn_objects PRIVATE
    metal/backend.c
    metal/device.c
    metal/dispatch_gated_delta_net.c
    metal/dispatch_set_rows.c
    metal/dispatch_ssm_conv.c
    metal/library.c
    metal/loader.c
    metal/memory.c
    metal/queue.c
    metal/record.c
    "${gdn_metal_folder}/gdn_metal_source.inc")
  if(APPLE OR NOT GDN_METAL_EMULATED)
    target_sources(gdn_objects PRIVATE metal/frameworks.c)
  endif()
  set_source_files_properties(metal/library.c PROPERTIES OBJECT_DEPENDS "${gdn_metal_folder}/gdn_metal_source.inc")
  target_include_directories(gdn_objects PRIVATE "${gdn_metal_folder}")
  target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_METAL=1)
endif()

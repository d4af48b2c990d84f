# The Metal backend: C over the Objective-C runtime, which needs no Apple compiler, and kernels that are embedded as
# source and compiled by Metal when the library runs. Nothing of Metal is linked: the frameworks are looked for then.
#
# Elsewhere than on Apple's systems there is GDN_METAL_EMULATED=ON: the same code, for the tests' Metal, whose name
# tests/metal/sources.cmake puts in the place of frameworks.c. Such a library has no use elsewhere, and says so.
if(NOT APPLE AND NOT GDN_METAL_EMULATED)
  set(GDN_METAL_MISSING "this is no Apple system")
elseif(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  set(GDN_METAL_MISSING "it needs 64-bit pointers")
else()
  set(gdn_metal_folder "${PROJECT_BINARY_DIR}/metal")
  file(MAKE_DIRECTORY "${gdn_metal_folder}")
  # In the order in which they stand in the one source.
  list(TRANSFORM GDN_KERNELS REPLACE "(.+)" "metal/\\1.metal" OUTPUT_VARIABLE gdn_metal_kernel_sources)
  set(gdn_metal_sources metal/language.h gpu/params.h metal/shape.h numerics/arithmetic.h numerics/elementary.h
    numerics/prepare.h gpu/half.h metal/kernel.h metal/gated_delta_net.h metal/gated_delta_net_log.h
    metal/gated_delta_net_tiles.h metal/probe.metal ${gdn_metal_kernel_sources})
  list(TRANSFORM gdn_metal_sources PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE gdn_metal_source_files)
  list(JOIN gdn_metal_sources ":" gdn_metal_source_list)
  add_custom_command(
    OUTPUT "${gdn_metal_folder}/gdn_metal_source.inc" "${gdn_metal_folder}/gdn_metal_source.metal"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCES=${gdn_metal_source_list}" "-DROOT=${PROJECT_SOURCE_DIR}"
            "-DTEXT=${gdn_metal_folder}/gdn_metal_source.metal" "-DBYTES=${gdn_metal_folder}/gdn_metal_source.inc"
            -P "${PROJECT_SOURCE_DIR}/metal/embed.cmake"
    DEPENDS ${gdn_metal_source_files} "${PROJECT_SOURCE_DIR}/metal/embed.cmake"
    COMMENT "Metal kernels as one source" VERBATIM)
  set(gdn_metal_kernel_files ${gdn_metal_source_files})
  list(FILTER gdn_metal_kernel_files INCLUDE REGEX "\\.metal$")
  gdn_list_kernels(metal ${gdn_metal_kernel_files})
  gdn_kernel_sources(gdn_objects metal/dispatch_)
  target_sources(gdn_objects PRIVATE
    metal/backend.c
    metal/device.c
    metal/library.c
    metal/loader.c
    metal/memory.c
    metal/probe.c
    metal/queue.c
    metal/record.c
    "${gdn_metal_folder}/gdn_metal_source.inc")
  if(APPLE OR NOT GDN_METAL_EMULATED)
    target_sources(gdn_objects PRIVATE metal/frameworks.c)
  endif()
  set_source_files_properties(metal/library.c PROPERTIES OBJECT_DEPENDS "${gdn_metal_folder}/gdn_metal_source.inc")
  target_include_directories(gdn_build_options INTERFACE "${gdn_metal_folder}")
  target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_METAL=1)
  find_package(Threads REQUIRED)
  list(APPEND GDN_PRIVATE_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
endif()

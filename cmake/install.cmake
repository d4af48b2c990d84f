# Install rules: three components, which become the packages libgdn<abi>, libgdn-dev and gdn-tools.
include(CMakePackageConfigHelpers)
set(gdn_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gdn")

set(gdn_installed "")
foreach(target gdn gdn_static)
  if(TARGET ${target})
    list(APPEND gdn_installed ${target})
  endif()
endforeach()
install(TARGETS ${gdn_installed} EXPORT gdn-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY include/gdn DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev
  FILES_MATCHING PATTERN "*.h")
install(EXPORT gdn-targets NAMESPACE gdn:: DESTINATION "${gdn_config_dir}" COMPONENT dev)

set(gdn_with_threads OFF)
if("Threads::Threads" IN_LIST GDN_PRIVATE_LIBRARIES)
  set(gdn_with_threads ON)
endif()
configure_package_config_file(cmake/gdn-config.cmake.in "${PROJECT_BINARY_DIR}/gdn-config.cmake"
  INSTALL_DESTINATION "${gdn_config_dir}")
# Before 1.0 a minor release may break the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/gdn-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/gdn-config.cmake" "${PROJECT_BINARY_DIR}/gdn-config-version.cmake"
  DESTINATION "${gdn_config_dir}" COMPONENT dev)

# gdn.pc finds its prefix from where it lies, so an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(gdn_pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(gdn_pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(gdn_pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  file(RELATIVE_PATH gdn_pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" gdn_pc_up "${gdn_pc_up}")
  set(gdn_pc_prefix "\${pcfiledir}/${gdn_pc_up}")
  set(gdn_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(gdn_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(gdn_pc_private "-lm")
if(GDN_HAVE_OPENMP)
  foreach(library IN LISTS OpenMP_C_LIB_NAMES)
    string(APPEND gdn_pc_private " -l${library}")
  endforeach()
endif()
if(gdn_with_threads)
  string(APPEND gdn_pc_private " -lpthread")
endif()
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND gdn_pc_private " -l${library}")
endforeach()
configure_file(cmake/gdn.pc.in "${PROJECT_BINARY_DIR}/gdn.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/gdn.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)

if(GDN_BUILD_TOOLS)
  install(TARGETS gdn_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
endif()
foreach(pair "runtime;libgdn${header_ABI_VERSION}" "dev;libgdn-dev" "tools;gdn-tools")
  list(GET pair 0 component)
  list(GET pair 1 package)
  if(NOT component STREQUAL "tools" OR GDN_BUILD_TOOLS)
    install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package}" RENAME copyright
      COMPONENT ${component})
  endif()
endforeach()
install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libgdn-dev" COMPONENT dev)

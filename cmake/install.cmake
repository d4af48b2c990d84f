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
if(WIN32 AND TARGET gdn) # Microsoft's tools make their import library of it: lib /def:gdn.def /machine:x64 /out:gdn.lib
  install(FILES "${PROJECT_BINARY_DIR}/gdn.def" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
endif()
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
  include("${CMAKE_CURRENT_LIST_DIR}/man.cmake")
  if(GDN_BUILD_RUNTIME)
    install(FILES models/kjv-small-q8_0.gguf DESTINATION "${CMAKE_INSTALL_DATADIR}/gdn/models" COMPONENT models)
  endif()
endif()

# README.md and what it and the header name, laid out as here, so that their links lead somewhere.
set(gdn_doc_dir "${CMAKE_INSTALL_DATADIR}/doc/libgdn-dev")
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION "${gdn_doc_dir}" COMPONENT dev)
install(DIRECTORY docs examples DESTINATION "${gdn_doc_dir}" COMPONENT dev
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.json" PATTERN "*.[ch]" PATTERN "CMakeLists.txt" PATTERN man EXCLUDE)
install(CODE "set(GDN_DOCUMENTS \"${gdn_doc_dir}\")
set(GDN_HEADERS \"${CMAKE_INSTALL_INCLUDEDIR}\")
include(\"${CMAKE_CURRENT_LIST_DIR}/documents.cmake\")" COMPONENT dev)

# Manual pages, made of the tool's --help; included by cmake/install.cmake. Without them where the tool cannot run here, or
# where it is built for looking for mistakes.
find_program(GDN_SH sh)
find_program(GDN_AWK awk)
set(gdn_man_missing "")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  set(gdn_man_missing "the tool cannot run on this machine")
elseif(WIN32)
  set(gdn_man_missing "Windows has none")
elseif(GDN_SANITIZE OR GDN_FUZZ)
  set(gdn_man_missing "this is a build with sanitizers")
elseif(NOT GDN_SH OR NOT GDN_AWK)
  set(gdn_man_missing "sh or awk was not found")
endif()
if(gdn_man_missing)
  message(STATUS "Without the manual pages: ${gdn_man_missing}")
  return()
endif()

set(gdn_man_folder "${PROJECT_BINARY_DIR}/man")
set(gdn_man_pages gdn.1 gdn-info.1 gdn-check.1 gdn-bench.1)
if(GDN_BUILD_RUNTIME)
  list(APPEND gdn_man_pages gdn-run.1 gdn-serve.1)
endif()
list(TRANSFORM gdn_man_pages PREPEND "${gdn_man_folder}/")
file(GLOB gdn_man_parts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*")
add_custom_command(OUTPUT ${gdn_man_pages}
  COMMAND "${GDN_SH}" "${PROJECT_SOURCE_DIR}/docs/man/man_pages.sh" "${PROJECT_VERSION}" "${gdn_man_folder}"
    ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:gdn_tool>
  DEPENDS gdn_tool ${gdn_man_parts} COMMENT "Writing the manual pages" VERBATIM)
add_custom_target(gdn_man ALL DEPENDS ${gdn_man_pages})
install(FILES ${gdn_man_pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tools)
find_package(Python3 QUIET COMPONENTS Interpreter)
if(GDN_BUILD_TESTS AND Python3_FOUND)
  add_test(NAME tool.man COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/unit/test_man.py" "${gdn_man_folder}"
    ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:gdn_tool>)
  set_tests_properties(tool.man PROPERTIES LABELS unit)
endif()

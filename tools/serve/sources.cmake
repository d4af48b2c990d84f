# The server of gdn serve, on libmicrohttpd and jansson. Without them the command says what is missing.
set(GDN_HAVE_SERVE OFF)
if(NOT "${GDN_SERVE}" MATCHES "^(OFF|FALSE|NO|0|)$" AND (NOT CMAKE_CROSSCOMPILING OR DEFINED ENV{PKG_CONFIG_LIBDIR})) # else pkg-config finds this machine's
  find_package(Threads)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND AND Threads_FOUND)
    pkg_check_modules(gdn_serve QUIET IMPORTED_TARGET libmicrohttpd>=0.9.74 jansson>=2.10)
  endif()
  if(gdn_serve_FOUND)
    set(GDN_HAVE_SERVE ON)
    target_sources(gdn_tool PRIVATE
      tools/serve/about.c
      tools/serve/answer.c
      tools/serve/calls.c
      tools/serve/connections.c
      tools/serve/constraint.c
      tools/serve/framing.c
      tools/serve/http.c
      tools/serve/members.c
      tools/serve/messages.c
      tools/serve/queue.c
      tools/serve/request.c
      tools/serve/responses.c
      tools/serve/seen.c
      tools/serve/values.c)
    set(page "${CMAKE_CURRENT_BINARY_DIR}/tools/serve/page.inc.h")
    add_custom_command(OUTPUT "${page}"
      COMMAND "${CMAKE_COMMAND}" "-DFROM=${CMAKE_CURRENT_SOURCE_DIR}/tools/serve/page.html" "-DTO=${page}" -P "${CMAKE_CURRENT_SOURCE_DIR}/tools/serve/page.cmake"
      DEPENDS tools/serve/page.html tools/serve/page.cmake VERBATIM)
    target_sources(gdn_tool PRIVATE "${page}")
    set_property(SOURCE tools/serve/http.c APPEND PROPERTY COMPILE_OPTIONS "-I${CMAKE_CURRENT_BINARY_DIR}/tools/serve")
    target_compile_definitions(gdn_tool PRIVATE GDN_HAVE_SERVE=1)
    target_link_libraries(gdn_tool PRIVATE PkgConfig::gdn_serve Threads::Threads)
  elseif(GDN_SERVE STREQUAL "AUTO")
    message(STATUS "Without gdn serve: it needs libmicrohttpd 0.9.74, jansson 2.10 and pkg-config")
  else()
    message(FATAL_ERROR "GDN_SERVE is ${GDN_SERVE}, but libmicrohttpd 0.9.74, jansson 2.10 or pkg-config was not found.")
  endif()
endif()

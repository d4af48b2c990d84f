# The server of gdn serve, where libmicrohttpd and jansson are installed. Without them the command says so.
find_package(Threads)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND AND Threads_FOUND)
  pkg_check_modules(gdn_serve QUIET IMPORTED_TARGET libmicrohttpd>=0.9.71 jansson>=2.10)
endif()
if(gdn_serve_FOUND)
  target_sources(gdn_tool PRIVATE
    tools/serve/answer.c
    tools/serve/http.c
    tools/serve/queue.c
    tools/serve/request.c)
  target_compile_definitions(gdn_tool PRIVATE GDN_HAVE_SERVE=1)
  target_link_libraries(gdn_tool PRIVATE PkgConfig::gdn_serve Threads::Threads)
else()
  message(STATUS "gdn serve is left out: libmicrohttpd 0.9.71, jansson 2.10 and pkg-config are needed")
endif()

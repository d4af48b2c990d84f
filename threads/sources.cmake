# The team of threads. libgdn, the runtime and the tool compile it in, with hidden symbols.
add_library(gdn_threads INTERFACE)
target_sources(gdn_threads INTERFACE "${CMAKE_CURRENT_LIST_DIR}/team.c")
target_link_libraries(gdn_threads INTERFACE gdn_system)

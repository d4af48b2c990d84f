# The team of threads, and the processors that it may use. libgdn, the runtime and the tool compile it in, with hidden symbols.
find_package(Threads REQUIRED)
add_library(gdn_threads INTERFACE)
target_sources(gdn_threads INTERFACE "${CMAKE_CURRENT_LIST_DIR}/processors.c" "${CMAKE_CURRENT_LIST_DIR}/team.c")
target_link_libraries(gdn_threads INTERFACE Threads::Threads)

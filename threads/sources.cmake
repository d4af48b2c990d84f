# The team of threads. Those who use it compile it in, hidden: libgdn, the runtime and the tool.
find_package(Threads REQUIRED)
target_sources(gdn_objects PRIVATE threads/team.c)
list(APPEND GDN_PRIVATE_LIBRARIES Threads::Threads)
target_link_libraries(gdn_build_options INTERFACE Threads::Threads)

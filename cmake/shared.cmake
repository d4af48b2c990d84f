# What the library and the runtime share as sources: numerics/, which is headers only, system/, simd/ and threads/. Both compile
# what they link of it (gdn_system, gdn_simd, gdn_threads) themselves, hidden: the library exports none of it.
include_guard(GLOBAL)
set(GDN_SHARED_FOLDERS numerics system simd threads)
include("${CMAKE_CURRENT_LIST_DIR}/../system/sources.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/../simd/sources.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/../threads/sources.cmake")

# gdn_sees(TARGET WHAT...): of this tree TARGET can include these folders and files, and what its libraries hand on, but nothing
# else. The include path is a folder of the build tree with a link to each of them, so that an include of another floor finds no
# file, rather than one that a script complains about later. Links, not copies or headers that forward: an edited header is
# compiled as it is, and a new one needs no configuring.
function(gdn_sees target)
  set(view "${CMAKE_CURRENT_BINARY_DIR}/${target}_sees")
  file(REMOVE_RECURSE "${view}") # what is no longer listed; links are removed, not followed
  foreach(what IN LISTS ARGN)
    get_filename_component(folder "${view}/${what}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    get_filename_component(original "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../${what}" ABSOLUTE)
    file(CREATE_LINK "${original}" "${view}/${what}" SYMBOLIC)
  endforeach()
  target_include_directories(${target} PUBLIC "${view}")
endfunction()

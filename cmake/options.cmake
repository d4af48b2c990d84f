# What the options of CMakeLists.txt lead to, beyond compiler settings: who includes what, how backends come in.

# For the library itself and for tests of what it does not export: they include whatever they like.
add_library(gdn_build_options INTERFACE)
target_include_directories(gdn_build_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}")
target_link_libraries(gdn_build_options INTERFACE gdn_compile_options Threads::Threads)

if(GDN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "GDN_FUZZ needs clang's libFuzzer; the compiler is ${CMAKE_C_COMPILER_ID}.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Libraries that libgdn itself links; users of libgdn.a must link them too.
set(GDN_PRIVATE_LIBRARIES m Threads::Threads)
if(WIN32)
  set(GDN_PRIVATE_LIBRARIES synchronization)
endif()
set(GDN_HAVE_OPENMP OFF)
if(NOT "${GDN_OPENMP}" MATCHES "^(OFF|FALSE|NO|0|)$")
  find_package(OpenMP COMPONENTS C)
  if(OpenMP_C_FOUND)
    set(GDN_HAVE_OPENMP ON)
    list(APPEND GDN_PRIVATE_LIBRARIES OpenMP::OpenMP_C)
    target_link_libraries(gdn_compile_options INTERFACE ${OpenMP_C_LIBRARIES})
    target_compile_definitions(gdn_compile_options INTERFACE GDN_HAVE_OPENMP=1)
    # What has pragmas. The kernels compile as without, so ccache has them.
    set_property(SOURCE cpu/backend.c bench/roofline.c APPEND PROPERTY COMPILE_OPTIONS ${OpenMP_C_FLAGS})
  elseif(NOT GDN_OPENMP STREQUAL "AUTO")
    message(FATAL_ERROR "GDN_OPENMP is ${GDN_OPENMP}, but the C compiler has no OpenMP.")
  endif()
endif()

# A backend is the fragment <backend>/sources.cmake, which adds to gdn_objects and defines
# GDN_HAVE_<BACKEND>=1, or sets GDN_<BACKEND>_MISSING to a reason and changes nothing.
set(GDN_BACKENDS cpu reference)
macro(gdn_backend upper)
  string(TOLOWER ${upper} gdn_lower)
  set(GDN_${upper}_MISSING "")
  if(NOT GDN_${upper} MATCHES "^(OFF|FALSE|NO|0)$")
    if(EXISTS "${PROJECT_SOURCE_DIR}/${gdn_lower}/sources.cmake")
      include("${PROJECT_SOURCE_DIR}/${gdn_lower}/sources.cmake")
    else()
      set(GDN_${upper}_MISSING "this release of libgdn does not contain it yet")
    endif()
    if(NOT GDN_${upper}_MISSING)
      list(APPEND GDN_BACKENDS ${gdn_lower})
    elseif(GDN_${upper} STREQUAL "AUTO")
      message(STATUS "Without the ${gdn_lower} backend: ${GDN_${upper}_MISSING}")
    else()
      message(FATAL_ERROR "GDN_${upper} is ${GDN_${upper}}, but ${GDN_${upper}_MISSING}.")
    endif()
  endif()
endmacro()

# What the shared library exports: exactly the functions that the headers declare. The internal ones are named gdn_ too, so
# every public one stands by name in the version script, or on Windows in the list of exports. The test abi.exports compares.
function(gdn_export_list output)
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/gdn/*.h")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
  set(functions "")
  foreach(header IN LISTS headers)
    file(STRINGS "${header}" lines REGEX "^GDN_API ")
    list(TRANSFORM lines REPLACE "^GDN_API [^(]*[ *](gdn_[a-z0-9_]+)\\(.*" "\\1")
    list(APPEND functions ${lines})
  endforeach()
  list(SORT functions)
  set(exports "")
  foreach(name IN LISTS functions)
    string(APPEND exports "        ${name};\n")
  endforeach()
  if(WIN32)
    string(REPLACE ";\n" "\n" exports "${exports}")
    file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT "EXPORTS\n@exports@")
    return()
  endif()
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT "GDN_@header_ABI_VERSION@ {
    global:
@exports@    local:
        *;
};
")
endfunction()

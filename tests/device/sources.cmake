# What the tests of the GPU backends share. Included by tests/CMakeLists.txt before those.

# What every device is tested with.
add_library(gdn_device_tests STATIC EXCLUDE_FROM_ALL device/suite.c device/maps.c device/rules.c device/placed.c device/step.c)
target_link_libraries(gdn_device_tests PRIVATE gdn_build_options PUBLIC gdn_cases)
target_compile_definitions(gdn_device_tests PRIVATE TEST_LAST_ERROR=gdn_last_error)

# test_<backend>; further arguments: its own sources.
function(gdn_device_program backend)
  gdn_test_program(test_${backend} ${ARGN})
  target_link_libraries(test_${backend} PRIVATE ${GDN_PRIVATE_LIBRARIES} gdn_device_tests)
endfunction()

# Contexts in any floating-point mode of the caller.
gdn_test_program(test_float_modes device/float_modes.c)
target_link_libraries(test_float_modes PRIVATE ${GDN_PRIVATE_LIBRARIES} gdn_device_tests)
function(gdn_float_modes name label) # backends...
  add_test(NAME ${name} COMMAND test_float_modes ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "${label}")
endfunction()
gdn_float_modes(float_modes unit cpu reference)

# The backend's public header by itself, as C99.
function(gdn_device_header backend)
  add_library(test_${backend}_header OBJECT device/header.c)
  set_target_properties(test_${backend}_header PROPERTIES C_STANDARD 99)
  target_compile_definitions(test_${backend}_header PRIVATE "GDN_TEST_HEADER=\"gdn/${backend}.h\"" GDN_TEST_DESC=gdn_${backend}_desc)
  target_include_directories(test_${backend}_header PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_compile_options(test_${backend}_header PRIVATE -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Werror)
endfunction()

# Tests that fail where a pipeline was made that no self-test covers (gpu/self_test.c says so at this level of the log).
function(gdn_self_tests_all)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT GDN_LOG=warning)
  set_tests_properties(${ARGN} PROPERTIES FAIL_REGULAR_EXPRESSION "no self-test")
endfunction()

# Tests of a backend whose kernels run on the emulator: test_<backend>, the check of every kernel, and what the library says where
# there is no driver.
#   folder: of the emulated driver; missing: the name of the last test
function(gdn_emulated_tests backend folder missing)
  add_test(NAME ${backend}.robustness COMMAND test_${backend})
  set_tests_properties(${backend}.robustness PROPERTIES LABELS unit)
  gdn_float_modes(${backend}.float_modes unit ${backend})
  set(names robustness float_modes)
  if(GDN_BUILD_TOOLS)
    foreach(kernel IN LISTS GDN_KERNELS)
      add_test(NAME ${backend}.check_${kernel} COMMAND gdn_tool check --backend ${backend} --kernel ${kernel})
      list(APPEND names check_${kernel})
    endforeach()
  endif()
  foreach(name IN LISTS names)
    set_property(TEST ${backend}.${name} APPEND PROPERTY LABELS ${backend})
    set_tests_properties(${backend}.${name} PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${folder}")
    if(name MATCHES check_)
      gdn_self_tests_all(${backend}.${name})
    endif()
  endforeach()
  if(TARGET test_edges_dlclose)
    add_test(NAME ${backend}.dlclose COMMAND test_edges_dlclose $<TARGET_FILE:gdn> ${backend})
    set_tests_properties(${backend}.dlclose PROPERTIES LABELS ${backend} ENVIRONMENT "LD_LIBRARY_PATH=${folder}")
  endif()
  if(GDN_BUILD_TOOLS AND TARGET gdn)
    add_test(NAME ${backend}.${missing} COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/device/no_driver.sh" ${backend} $<TARGET_FILE:gdn_tool>
      $<TARGET_FILE:gdn> "${folder}")
    set_tests_properties(${backend}.${missing} PROPERTIES LABELS ${backend})
  endif()
endfunction()

# Tests of the Vulkan backend, included by tests/CMakeLists.txt where the backend is built. Those that need a device, which
# lavapipe is, are skipped where there is none; scripts/test.sh takes that for a failure.
gdn_device_program(vulkan device/vulkan/test_vulkan.c device/vulkan/limits.c device/vulkan/long_sequences.c
  device/vulkan/parameters.c device/vulkan/levels.c device/vulkan/support.c device/vulkan/flush.c)
target_include_directories(test_vulkan PRIVATE "${GDN_VULKAN_INCLUDE}")
set_target_properties(test_vulkan PROPERTIES ENABLE_EXPORTS ON) # its dlopen and pthread_create replace the C library's
set(gdn_vulkan_tests robustness missing_loader long_sequences)
add_test(NAME vulkan.robustness COMMAND test_vulkan)
add_test(NAME vulkan.long_sequences COMMAND test_vulkan long-sequences)
add_test(NAME vulkan.missing_loader COMMAND test_vulkan missing-loader)

if(TARGET test_edges_dlclose)
  add_test(NAME vulkan.dlclose COMMAND test_edges_dlclose $<TARGET_FILE:gdn> vulkan)
  list(APPEND gdn_vulkan_tests dlclose)
endif()
gdn_float_modes(vulkan.float_modes unit vulkan)
list(APPEND gdn_vulkan_tests float_modes)
gdn_device_header(vulkan)

function(gdn_vulkan_script name) # arguments of the script
  add_test(NAME vulkan.${name} COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/device/vulkan/${name}.sh" ${ARGN})
  set(gdn_vulkan_tests ${gdn_vulkan_tests} ${name} PARENT_SCOPE)
endfunction()

find_program(GDN_SPIRV_VAL spirv-val)
if(GDN_SPIRV_VAL)
  gdn_vulkan_script(spirv "${GDN_SPIRV_VAL}" $<TARGET_FILE:test_vulkan> "${gdn_shader_folder}")
else()
  gdn_left_out("the validation of the shaders" "spirv-val was not found (Debian: spirv-tools)")
endif()
if(GDN_BUILD_TOOLS)
  # The whole suite, in parts that run side by side: nearly all of its time is the driver's compiler.
  set(gdn_vulkan_check sh "${CMAKE_CURRENT_SOURCE_DIR}/device/vulkan/check.sh" $<TARGET_FILE:gdn_tool>)
  add_test(NAME vulkan.check_gated_delta_net COMMAND ${gdn_vulkan_check} gated_delta_net)
  add_test(NAME vulkan.check_others COMMAND ${gdn_vulkan_check} ssm_conv,set_rows)
  list(APPEND gdn_vulkan_tests check_gated_delta_net check_others)
  gdn_self_tests_all(vulkan.check_gated_delta_net vulkan.check_others)
  gdn_vulkan_script(control $<TARGET_FILE:gdn_tool>)
  gdn_vulkan_script(registers $<TARGET_FILE:gdn_tool>)
  gdn_vulkan_script(validation $<TARGET_FILE:gdn_tool> $<TARGET_FILE:test_vulkan>)
  # A device that flushes subnormal numbers: a mode of x86's, which sanitizers' own pthread_create stands in the way of.
  set(gdn_vulkan_flush "")
  if(GDN_ARCH STREQUAL "x86_64" AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT GDN_SANITIZE)
    add_library(gdn_vulkan_flush MODULE device/vulkan/flush.c)
    target_link_libraries(gdn_vulkan_flush PRIVATE gdn_build_options Threads::Threads ${CMAKE_DL_LIBS})
    set(gdn_vulkan_flush $<TARGET_FILE:gdn_vulkan_flush>)
    gdn_vulkan_script(flush $<TARGET_FILE:gdn_tool> ${gdn_vulkan_flush})
    gdn_self_tests_all(vulkan.flush)
  endif()
  if(TARGET gdn)
    add_test(NAME vulkan.no_driver COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/device/no_driver.sh" vulkan $<TARGET_FILE:gdn_tool>
      $<TARGET_FILE:gdn>)
    list(APPEND gdn_vulkan_tests no_driver)
  endif()
endif()
# Drivers keep what they have compiled on disk. What needs the pipelines of the whole check comes after it and finds them there,
# instead of having each compiled once more beside it.
if(TEST vulkan.validation)
  set_tests_properties(vulkan.validation PROPERTIES DEPENDS "vulkan.check_gated_delta_net;vulkan.check_others")
endif()
# Part of `unit` too, which sanitizers run.
set_tests_properties(vulkan.robustness vulkan.missing_loader PROPERTIES LABELS unit)
foreach(name check_gated_delta_net check_others control flush long_sequences registers validation)
  if(TEST vulkan.${name})
    set_property(TEST vulkan.${name} APPEND PROPERTY LABELS full)
  endif()
endforeach()
foreach(name IN LISTS gdn_vulkan_tests)
  set_property(TEST vulkan.${name} APPEND PROPERTY LABELS vulkan)
  set_tests_properties(vulkan.${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()

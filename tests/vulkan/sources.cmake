# Tests of the Vulkan backend, included by tests/CMakeLists.txt where the backend is built. They need a device, which
# lavapipe is, and are skipped where there is none.
gdn_test_program(test_vulkan vulkan/test_vulkan.c vulkan/test_maps.c vulkan/support.c)
target_link_libraries(test_vulkan PRIVATE ${GDN_PRIVATE_LIBRARIES})
target_include_directories(test_vulkan PRIVATE "${GDN_VULKAN_INCLUDE}")
set_target_properties(test_vulkan PROPERTIES ENABLE_EXPORTS ON) # its dlopen replaces the C library's
add_test(NAME vulkan.robustness COMMAND test_vulkan)
add_test(NAME vulkan.missing_loader COMMAND test_vulkan missing-loader)
set_tests_properties(vulkan.robustness PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
set_tests_properties(vulkan.missing_loader PROPERTIES TIMEOUT 60)

# The header by itself, as C99 and as C++.
add_library(test_vulkan_header OBJECT vulkan/header.c)
set_target_properties(test_vulkan_header PROPERTIES C_STANDARD 99)
target_include_directories(test_vulkan_header PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_compile_options(test_vulkan_header PRIVATE -Wall -Wextra -Wpedantic -Werror)

find_program(GDN_SPIRV_VAL spirv-val)
if(GDN_SPIRV_VAL)
  add_test(NAME vulkan.spirv
    COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/spirv.sh" "${GDN_SPIRV_VAL}" $<TARGET_FILE:test_vulkan> "${gdn_shader_folder}")
endif()
if(GDN_BUILD_TOOLS)
  add_test(NAME vulkan.control
    COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/control.sh" $<TARGET_FILE:gdn_tool>)
  add_test(NAME vulkan.validation
    COMMAND sh "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/validation.sh" $<TARGET_FILE:gdn_tool> $<TARGET_FILE:test_vulkan>)
  set_tests_properties(vulkan.control vulkan.validation PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1500)
endif()

# cpack: a TGZ of everything, and DEBs of the three components. Use the preset `package`.
set(CPACK_PACKAGE_NAME libgdn)
set(CPACK_PACKAGE_VENDOR "the libgdn authors")
set(CPACK_PACKAGE_CONTACT "the libgdn authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_SOURCE_GENERATOR TXZ)
set(CPACK_SOURCE_IGNORE_FILES "/\\.git/" "/build[^/]*/")
set(CPACK_PACKAGE_FILE_NAME "libgdn-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_SOURCE_PACKAGE_FILE_NAME "libgdn-${PROJECT_VERSION}")
set(CPACK_COMPONENTS_ALL runtime dev)
if(GDN_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_COMPONENT_DEV_DEPENDS runtime)
set(CPACK_COMPONENT_TOOLS_DEPENDS runtime)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}") # where the tool's libgdn.so is
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(gdn_description "libgdn computes gated_delta_net, ssm_conv and set_rows over snapshot states,
with the same bits on every backend and however the work is cut.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libgdn${header_ABI_VERSION}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "kernels of hybrid language models, shared library
${gdn_description}")
if("vulkan" IN_LIST GDN_BACKENDS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS libvulkan1) # looked for at run time
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgdn-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "kernels of hybrid language models, header and static library
${gdn_description}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME gdn-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "kernels of hybrid language models, the tool gdn
The tool gdn tells which backends run on a machine, checks them bit for bit
against the scalar reference, and measures them.")
include(CPack)

# cpack: a TGZ of everything, and DEBs of the components. Use the preset `package`.
set(GDN_PACKAGE_CONTACT "libgdn maintainers <maintainers@libgdn.example>" CACHE STRING
  "Name and address of who makes the packages: Maintainer of the Debian packages")
set(CPACK_PACKAGE_NAME libgdn)
set(CPACK_PACKAGE_VENDOR "the libgdn authors")
set(CPACK_PACKAGE_CONTACT "${GDN_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_GDN_FOLDER_PERMISSIONS # whatever the umask
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_SOURCE_GENERATOR TXZ)
set(CPACK_SOURCE_IGNORE_FILES "/\\.git/" "/build[^/]*/")
set(CPACK_PACKAGE_FILE_NAME "libgdn-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_SOURCE_PACKAGE_FILE_NAME "libgdn-${PROJECT_VERSION}")
set(CPACK_COMPONENTS_ALL runtime dev)
if(GDN_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
  if(GDN_BUILD_RUNTIME)
    list(APPEND CPACK_COMPONENTS_ALL models)
  endif()
endif()
set(CPACK_COMPONENT_DEV_DEPENDS runtime)
set(CPACK_COMPONENT_TOOLS_DEPENDS runtime)

# What CPack cannot do for DEBs is in cmake/debian: tree.cmake completes the files before they are packed, control.cmake the
# control data afterwards.
set(GDN_DEBIAN_FOLDER "${PROJECT_SOURCE_DIR}/cmake/debian")
set(CPACK_PRE_BUILD_SCRIPTS "${GDN_DEBIAN_FOLDER}/tree.cmake")
set(CPACK_POST_BUILD_SCRIPTS "${GDN_DEBIAN_FOLDER}/control.cmake")
set(CPACK_GDN_DEBIAN_FOLDER "${GDN_DEBIAN_FOLDER}")
set(CPACK_GDN_SOURCE_FOLDER "${PROJECT_SOURCE_DIR}")
set(CPACK_GDN_WORK_FOLDER "${PROJECT_BINARY_DIR}/debian")
set(CPACK_GDN_VERSION "${PROJECT_VERSION}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 0upstream1) # less than 1: a package of the distribution's own replaces it
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}") # where the tool's libgdn.so is
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SOURCE libgdn)
list(JOIN GDN_KERNELS ", " gdn_kernel_names)
set(gdn_description "libgdn computes ${gdn_kernel_names}:
the kernels of language models such as Qwen3-Next that general tensor libraries
lack, over a recurrent state with snapshots, with the same bits on every
backend and however the work is cut.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "libgdn${header_ABI_VERSION}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_GDN_RUNTIME_MULTI_ARCH same)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "kernels of hybrid language models - shared library
${gdn_description}
.
This package contains the shared library.")
if("vulkan" IN_LIST GDN_BACKENDS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS libvulkan1) # looked for at run time
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgdn-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, pkgconf | pkg-config")
set(CPACK_GDN_DEV_MULTI_ARCH same)
set(CPACK_COMPONENT_DEV_DESCRIPTION "kernels of hybrid language models - development files
${gdn_description}
.
This package contains the headers, the static library, files for CMake and
pkg-config, documentation and examples.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME gdn-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS gdn-models)
set(CPACK_GDN_TOOLS_MULTI_ARCH foreign)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "kernels of hybrid language models - the tool gdn
The tool gdn tells which backends run on a machine, checks them bit for bit
against the scalar reference, measures them against the limits of the machine,
and generates text with models in GGUF files.")
set(CPACK_DEBIAN_MODELS_PACKAGE_NAME gdn-models)
set(CPACK_DEBIAN_MODELS_PACKAGE_SECTION misc)
set(CPACK_DEBIAN_MODELS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_MODELS_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_MODELS_PACKAGE_ENHANCES gdn-tools)
set(CPACK_GDN_MODELS_MULTI_ARCH foreign)
set(CPACK_COMPONENT_MODELS_DESCRIPTION "small trained language model for the tool gdn
A model of 5.7 million parameters that was trained on the King James Version of
the Bible and continues text in that manner, with a block that drafts tokens.
For demonstrations and tests of the tool gdn.")
include(CPack)

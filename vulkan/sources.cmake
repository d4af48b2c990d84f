# The Vulkan backend: C, and shaders that glslc compiles to SPIR-V at build time. Nothing of Vulkan is linked: the
# loader is looked for when the library runs.
find_path(GDN_VULKAN_INCLUDE vulkan/vulkan_core.h)
find_program(GDN_GLSLC glslc)
mark_as_advanced(GDN_VULKAN_INCLUDE GDN_GLSLC)

# Compile one variant, without optimization: where spirv-opt unrolls a loop, its copies of the instructions lose their
# NoContraction (seen with SPIRV-Tools 2022.4), and with it the bits. Drivers optimize anyway. <out>.spv, which tests validate, and <out>.inc, which vulkan/shaders.c includes.
set(gdn_shader_folder "${PROJECT_BINARY_DIR}/vulkan")
set(GDN_SHADERS "")
function(gdn_shader out source)
  list(TRANSFORM ARGN PREPEND "-D" OUTPUT_VARIABLE defines)
  foreach(kind spv inc)
    add_custom_command(
      OUTPUT "${gdn_shader_folder}/${out}.${kind}"
      COMMAND "${GDN_GLSLC}" --target-env=vulkan1.2 -O0 -Werror "-I${PROJECT_SOURCE_DIR}" ${defines} $<$<STREQUAL:${kind},inc>:-mfmt=c>
              "${PROJECT_SOURCE_DIR}/vulkan/${source}" -o "${gdn_shader_folder}/${out}.${kind}"
      DEPENDS ${gdn_shader_sources}
      COMMENT "Shader ${out}.${kind}" COMMAND_EXPAND_LISTS VERBATIM)
  endforeach()
  set(GDN_SHADERS ${GDN_SHADERS} "${gdn_shader_folder}/${out}" PARENT_SCOPE)
endfunction()

if(NOT GDN_VULKAN_INCLUDE)
  set(GDN_VULKAN_MISSING "the Vulkan headers were not found (Debian: libvulkan-dev)")
elseif(NOT GDN_GLSLC)
  set(GDN_VULKAN_MISSING "the shader compiler glslc was not found (Debian: glslc)")
else()
  file(MAKE_DIRECTORY "${gdn_shader_folder}")
  set(gdn_shader_sources arithmetic.glsl elementary.glsl memory.glsl push.h gated_delta_net.comp probe.comp set_rows.comp ssm_conv.comp)
  list(TRANSFORM gdn_shader_sources PREPEND "${PROJECT_SOURCE_DIR}/vulkan/")
  list(APPEND gdn_shader_sources "${PROJECT_SOURCE_DIR}/gpu/params.h")
  # A variant per capability that a device may lack; vulkan/shaders.c chooses.
  set(gdn_fma_fma "")
  set(gdn_fma_soft GDN_SOFT_FMA)
  set(gdn_exchange_shared "")
  set(gdn_exchange_subgroup GDN_SUBGROUP)
  set(gdn_storage_32 "")
  set(gdn_storage_16 GDN_STORAGE_16)
  foreach(fma fma soft)
    gdn_shader(probe_${fma} probe.comp ${gdn_fma_${fma}})
    foreach(storage 32 16)
      gdn_shader(ssm_conv_${fma}_${storage} ssm_conv.comp ${gdn_fma_${fma}} ${gdn_storage_${storage}})
      gdn_shader(set_rows_${fma}_${storage} set_rows.comp ${gdn_fma_${fma}} ${gdn_storage_${storage}})
      foreach(exchange shared subgroup)
        set(defines ${gdn_fma_${fma}} ${gdn_exchange_${exchange}} ${gdn_storage_${storage}})
        gdn_shader(gated_delta_net_${fma}_${exchange}_${storage} gated_delta_net.comp ${defines})
        gdn_shader(gated_delta_net_general_${fma}_${exchange}_${storage} gated_delta_net.comp GDN_GENERAL ${defines})
      endforeach()
    endforeach()
  endforeach()
  set(gdn_shader_words ${GDN_SHADERS})
  list(TRANSFORM gdn_shader_words APPEND ".inc")
  set(gdn_shader_binaries ${GDN_SHADERS})
  list(TRANSFORM gdn_shader_binaries APPEND ".spv")

  target_sources(gdn_objects PRIVATE
    vulkan/backend.c
    vulkan/device.c
    vulkan/dispatch_gated_delta_net.c
    vulkan/dispatch_set_rows.c
    vulkan/dispatch_ssm_conv.c
    vulkan/loader.c
    vulkan/memory.c
    vulkan/pipelines.c
    vulkan/probe.c
    vulkan/queue.c
    vulkan/record.c
    vulkan/shaders.c
    ${gdn_shader_words})
  set_source_files_properties(vulkan/shaders.c PROPERTIES OBJECT_DEPENDS "${gdn_shader_words}")
  add_custom_target(gdn_shaders ALL DEPENDS ${gdn_shader_binaries})
  target_include_directories(gdn_objects PRIVATE "${GDN_VULKAN_INCLUDE}" "${gdn_shader_folder}")
  target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_VULKAN=1)
  find_package(Threads REQUIRED)
  list(APPEND GDN_PRIVATE_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
endif()

# The Vulkan backend: C, and shaders that glslc compiles to SPIR-V at build time. The library does not link Vulkan; it
# loads the loader at run time.
find_path(GDN_VULKAN_INCLUDE vulkan/vulkan_core.h)
find_program(GDN_GLSLC glslc)
mark_as_advanced(GDN_VULKAN_INCLUDE GDN_GLSLC)

# Compiles one variant, without optimization: if spirv-opt unrolls a loop, the copies of its instructions lose their
# NoContraction (for example in SPIRV-Tools 2022.4), which changes bits. Drivers optimize anyway. Makes <out>.spv, which
# tests validate, and <out>.inc, which vulkan/shaders.c includes.
set(gdn_shader_folder "${PROJECT_BINARY_DIR}/vulkan")
set(GDN_SHADERS "")
set(gdn_shader_lines "")
set(gdn_shader_rows "")
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

# The choices of a shader's variants; each choice has two. The lists below have, for each choice: the names of the first and
# the second in names of files, and the definition for the second.
set(gdn_way_general  "" "general_" GDN_GENERAL)
set(gdn_way_fma      "fma_" "soft_" GDN_SOFT_FMA)
set(gdn_way_exchange "shared_" "subgroup_" GDN_SUBGROUP)
set(gdn_way_storage  "32_" "16_" GDN_STORAGE_16)

# gdn_shaders(STEM CHOICE...): all variants of vulkan/<stem>.comp for these choices, and their lines in the list that
# vulkan/shaders.c includes. A line has the variant's values of the choices, or GDN_VULKAN_EITHER. A choice is listed if the
# shader tests its definition: else one variant would serve both.
function(gdn_shaders stem)
  set(gdn_variants "${stem}_|") # name | defines | columns of the list
  foreach(way general fma exchange storage)
    set(gdn_next "")
    foreach(variant IN LISTS gdn_variants)
      if(way IN_LIST ARGN)
        list(GET gdn_way_${way} 0 first)
        list(GET gdn_way_${way} 1 second)
        list(GET gdn_way_${way} 2 define)
        string(REGEX MATCH "^([^|]*)\\|([^,]*)(.*)" unused "${variant}")
        list(APPEND gdn_next "${CMAKE_MATCH_1}${first}|${CMAKE_MATCH_2}${CMAKE_MATCH_3}, 0"
                             "${CMAKE_MATCH_1}${second}|${CMAKE_MATCH_2} ${define}${CMAKE_MATCH_3}, 1")
      else()
        list(APPEND gdn_next "${variant}, GDN_VULKAN_EITHER")
      endif()
    endforeach()
    set(gdn_variants ${gdn_next})
  endforeach()
  foreach(variant IN LISTS gdn_variants)
    string(REGEX MATCH "^([^|]*)_\\|([^,]*)(.*)" unused "${variant}")
    set(name "${CMAKE_MATCH_1}")
    set(columns "${CMAKE_MATCH_3}")
    string(STRIP "${CMAKE_MATCH_2}" defines)
    separate_arguments(defines)
    gdn_shader(${name} ${stem}.comp ${defines})
    string(APPEND gdn_shader_lines "static const uint32_t code_${name}[] =\n#include \"${name}.inc\"\n;\n")
    string(APPEND gdn_shader_rows "    SHADER(${name}, GDN_VULKAN_${stem}${columns}) \\\n")
  endforeach()
  foreach(list GDN_SHADERS gdn_shader_lines gdn_shader_rows)
    set(${list} "${${list}}" PARENT_SCOPE)
  endforeach()
endfunction()

if(NOT GDN_VULKAN_INCLUDE)
  set(GDN_VULKAN_MISSING "the Vulkan headers were not found (Debian: libvulkan-dev)")
elseif(NOT GDN_GLSLC)
  set(GDN_VULKAN_MISSING "the shader compiler glslc was not found (Debian: glslc)")
else()
  file(MAKE_DIRECTORY "${gdn_shader_folder}")
  set(gdn_shader_sources gated_delta_net.comp ssm_conv.comp set_rows.comp arithmetic.glsl exchange.glsl gated_delta_net_forms.glsl gated_delta_net_state16.glsl
    gated_delta_net_log.glsl gated_delta_net_token.glsl gated_delta_net_tree.glsl memory.glsl push.h probe.comp)
  list(TRANSFORM gdn_shader_sources PREPEND "${PROJECT_SOURCE_DIR}/vulkan/")
  file(GLOB gdn_call_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/call/*.h")
  list(APPEND gdn_shader_sources ${gdn_call_headers} "${PROJECT_SOURCE_DIR}/gpu/probe_call.h" "${PROJECT_SOURCE_DIR}/gpu/convert16.h" "${PROJECT_SOURCE_DIR}/numerics/arithmetic.h" "${PROJECT_SOURCE_DIR}/numerics/elementary.h"
    "${PROJECT_SOURCE_DIR}/numerics/prepare.h" "${PROJECT_SOURCE_DIR}/gpu/set_rows.h" "${PROJECT_SOURCE_DIR}/numerics/q8_0.h")
  gdn_shaders(gated_delta_net general fma exchange storage)
  gdn_shaders(ssm_conv fma storage)
  gdn_shaders(set_rows fma storage)
  gdn_shaders(probe fma)
  file(CONFIGURE OUTPUT "${gdn_shader_folder}/shaders.inc" @ONLY CONTENT "@gdn_shader_lines@#define GDN_VULKAN_SHADERS(SHADER) \\
@gdn_shader_rows@
")
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
  set_source_files_properties(vulkan/shaders.c PROPERTIES OBJECT_DEPENDS "${gdn_shader_folder}/shaders.inc;${gdn_shader_words}")
  add_custom_target(gdn_shaders ALL DEPENDS ${gdn_shader_binaries})
  target_include_directories(gdn_objects PRIVATE "${GDN_VULKAN_INCLUDE}" "${gdn_shader_folder}")
  target_compile_definitions(gdn_build_options INTERFACE GDN_HAVE_VULKAN=1)
endif()

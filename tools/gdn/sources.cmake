# The tool gdn with its commands info (tools/gdn), check (tools/check), bench (bench) and, with the runtime, run
# (tools/gdn). It can include the public interface only, so it checks and measures the library that programs load.
add_executable(gdn_tool
  tools/gdn/cli.c
  tools/gdn/info.c
  tools/gdn/interrupt.c
  tools/gdn/json.c
  tools/gdn/main.c
  tools/gdn/output.c
  tools/gdn/progress.c
  tools/gdn/target.c)
if(GDN_BUILD_RUNTIME)
  target_sources(gdn_tool PRIVATE
    tools/gdn/fault.c
    tools/gdn/run.c
    tools/gdn/run_bench.c
    tools/gdn/run_chat.c
    tools/gdn/run_depth.c
    tools/gdn/run_load.c
    tools/gdn/run_options.c
    tools/gdn/run_prompt.c
    tools/gdn/run_report.c
    tools/gdn/run_text.c)
  target_compile_definitions(gdn_tool PRIVATE GDN_HAVE_RUNTIME=1)
  target_link_libraries(gdn_tool PRIVATE gdn_runtime)
endif()
include(tools/check/sources.cmake)
include(bench/sources.cmake)
set_target_properties(gdn_tool PROPERTIES OUTPUT_NAME gdn)
gdn_sees(gdn_tool bench core/kernels.def ${GDN_SHARED_FOLDERS} runtime tools)
target_include_directories(gdn_tool PRIVATE "${PROJECT_SOURCE_DIR}/tools/gdn")
target_link_libraries(gdn_tool PRIVATE gdn_compile_options gdn::gdn)
if(UNIX AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(RELATIVE_PATH gdn_rpath "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(gdn_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${gdn_rpath}")
endif()

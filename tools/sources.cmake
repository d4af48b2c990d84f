# The tool gdn with its commands info (tools), check (check), bench (bench) and, with the runtime, run (tools/run) and serve (tools/serve). All use
# tools/cli. It can include the public interface only, so it checks and measures the library that programs load.
add_executable(gdn_tool
  tools/cli/cli.c
  tools/info.c
  tools/cli/json.c
  tools/main.c
  tools/cli/output.c
  tools/cli/progress.c
  tools/cli/target.c)
if(GDN_BUILD_RUNTIME)
  target_sources(gdn_tool PRIVATE
    tools/run/edit.c
    tools/run/line.c
    tools/run/prefix_file.c
    tools/run/run.c
    tools/run/run_bench.c
    tools/run/run_perplexity.c
    tools/run/run_chat.c
    tools/run/run_foreign.c
    tools/run/run_load.c
    tools/run/run_options.c
    tools/run/run_prompt.c
    tools/run/run_report.c
    tools/run/run_text.c
    tools/run/text.c
    tools/serve/serve.c)
  target_compile_definitions(gdn_tool PRIVATE GDN_HAVE_RUNTIME=1)
  target_link_libraries(gdn_tool PRIVATE gdn_runtime)
  include(tools/run/sources.cmake)
  include(tools/serve/sources.cmake)
endif()
include(check/sources.cmake)
include(bench/sources.cmake)
# A path relative to the tool, so that where it is built leaves no trace in it.
set_target_properties(gdn_tool PROPERTIES OUTPUT_NAME gdn BUILD_RPATH_USE_ORIGIN ON
  ARCHIVE_OUTPUT_NAME gdn_tool) # on Windows its import library must not take the place of the library's
gdn_sees(gdn_tool bench check ${GDN_SHARED_FOLDERS} runtime tools)
target_link_libraries(gdn_tool PRIVATE gdn_compile_options gdn::gdn gdn_files gdn_machine gdn_program gdn_system)
if(UNIX AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(RELATIVE_PATH gdn_rpath "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set(gdn_here $ORIGIN)
  if(APPLE)
    set(gdn_here @loader_path)
  endif()
  set_target_properties(gdn_tool PROPERTIES INSTALL_RPATH "${gdn_here}/${gdn_rpath}")
endif()

target_sources(gdn_tool PRIVATE
  bench/bench.c
  bench/roofline.c
  bench/roofline_cuda.c
  bench/gated_delta_net.c
  bench/gated_delta_net_chunked.c
  bench/gated_delta_net_layer.c
  bench/gated_delta_net_log.c
  bench/harness.c
  bench/report.c
  bench/set_rows.c
  bench/ssm_conv.c)
target_link_libraries(gdn_tool PRIVATE gdn_threads gdn_simd # of the rooflines; the library exports none of them
  ${CMAKE_DL_LIBS})
gdn_isa_sources(gdn_tool bench/roofline)

if(NOT GDN_GGML_DIR)
  target_sources(gdn_tool PRIVATE bench/peer_none.c)
else()
  find_path(GDN_GGML_INCLUDE ggml.h PATHS "${GDN_GGML_DIR}" PATH_SUFFIXES include NO_DEFAULT_PATH REQUIRED)
  target_sources(gdn_tool PRIVATE bench/peer_ggml.c)
  target_include_directories(gdn_tool SYSTEM PRIVATE "${GDN_GGML_INCLUDE}")
  target_compile_definitions(gdn_tool PRIVATE GDN_BENCH_GGML=1)
  foreach(library ggml ggml-cpu ggml-base)
    find_library(GDN_GGML_${library} ${library} PATHS "${GDN_GGML_DIR}"
      PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH REQUIRED)
    target_link_libraries(gdn_tool PRIVATE "${GDN_GGML_${library}}")
  endforeach()
endif()

if(GDN_BUILD_TESTS AND GDN_BUILD_SHARED AND NOT GDN_SANITIZE AND NOT WIN32) # for errors/errors.py
  add_library(gdn_capture MODULE bench/errors/capture.c)
  target_include_directories(gdn_capture PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(gdn_capture PRIVATE ${CMAKE_DL_LIBS})
endif()

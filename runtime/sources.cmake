# The hybrid runtime: a static library over the public interface of libgdn (docs/runtime.md), for the tool and tests.
# It shares numerics/ and simd/ with the library, as sources, for dense kernels with the contract's bits; every kernel
# call goes through include/gdn.
add_library(gdn_runtime STATIC
  # errors, memory and threads of the process
  runtime/budget.c
  runtime/error.c
  runtime/parallel.c
  threads/team.c
  # model files
  runtime/gguf.c
  runtime/gguf_get.c
  runtime/gguf_parse.c
  # text
  runtime/chat.c
  runtime/tokenizer.c
  runtime/tokenizer_bpe.c
  runtime/tokenizer_split.c
  runtime/tokenizer_text.c
  # weights and dense kernels
  runtime/dense.c
  runtime/dense_scalar.c
  runtime/rope.c
  runtime/top_k.c
  runtime/weights.c
  simd/features.c
  # states, convolution history, KV cells and hidden rows
  runtime/memory.c
  runtime/memory_load.c
  runtime/memory_save.c
  runtime/memory_seq.c
  runtime/memory_step.c
  # the model and the forward pass
  runtime/decode.c
  runtime/draft_mtp.c
  runtime/engine.c
  runtime/feed_forward.c
  runtime/layers.c
  runtime/model.c
  runtime/stage.c
  # what comes next: sampling, drafts, many requests
  runtime/draft_ngram.c
  runtime/payoff.c
  runtime/sampler.c
  runtime/scheduler.c
  runtime/scheduler_step.c
)
gdn_isa_sources(gdn_runtime runtime/dense)
if(GDN_ARCH STREQUAL "x86_64")
  gdn_isa_source(gdn_runtime runtime/dense_avx512_vnni.c avx512_vnni)
endif()
if(GDN_SANITIZE) # GCC 12 takes more than ten minutes for one of them, instrumented and optimised
  foreach(name avx2 avx512 avx512_vnni neon)
    set_property(SOURCE runtime/dense_${name}.c APPEND PROPERTY COMPILE_OPTIONS -O0)
  endforeach()
endif()
find_package(Threads REQUIRED)
target_link_libraries(gdn_runtime PUBLIC gdn_build_options Threads::Threads PRIVATE gdn::gdn)

# PCRE2 cuts text into words. Without it everything is built, and creating a tokenizer says what is missing.
set(GDN_HAVE_PCRE2 OFF)
if(NOT GDN_PCRE2 MATCHES "^(OFF|FALSE|NO|0)$")
  find_path(GDN_PCRE2_INCLUDE pcre2.h)
  find_library(GDN_PCRE2_LIBRARY pcre2-8)
  mark_as_advanced(GDN_PCRE2_INCLUDE GDN_PCRE2_LIBRARY)
  if(GDN_PCRE2_INCLUDE AND GDN_PCRE2_LIBRARY)
    set(GDN_HAVE_PCRE2 ON)
    target_include_directories(gdn_runtime SYSTEM PRIVATE "${GDN_PCRE2_INCLUDE}")
    target_link_libraries(gdn_runtime PRIVATE "${GDN_PCRE2_LIBRARY}")
    target_compile_definitions(gdn_runtime PRIVATE GDN_HAVE_PCRE2=1)
  elseif(GDN_PCRE2 STREQUAL "AUTO")
    message(STATUS "The runtime has no tokenizer: PCRE2 (libpcre2-dev) was not found")
  else()
    message(FATAL_ERROR "GDN_PCRE2 is ${GDN_PCRE2}, but PCRE2 was not found.")
  endif()
endif()

# The hybrid runtime: a static library over the public interface of libgdn (docs/runtime.md), for the tool and tests.
# It compiles cpu/simd_*.h and the elementary functions as headers, for dense kernels with the contract's bits; every
# kernel call goes through include/gdn.
add_library(gdn_runtime STATIC
  # errors, memory and threads of the process
  runtime/error.c
  runtime/parallel.c
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
target_link_libraries(gdn_runtime PUBLIC gdn_build_options PRIVATE gdn::gdn)

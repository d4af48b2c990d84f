# The hybrid runtime: a static library over the public interface of libgdn (docs/runtime.md), for the tool and tests.
# It compiles cpu/simd_*.h and the elementary functions as headers, for dense kernels with the contract's bits; every
# kernel call goes through include/gdn.
add_library(gdn_runtime STATIC
  # errors, memory and threads of the process
  runtime/error.c
  runtime/parallel.c
  # model files
  runtime/gguf.c
  runtime/gguf_get.c
  runtime/gguf_parse.c
)
target_link_libraries(gdn_runtime PUBLIC gdn_build_options PRIVATE gdn::gdn)

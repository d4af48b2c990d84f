# Code that the GPU backends share: parameter blocks, plans, bad maps, the probe, the self-test. Built with any of them.
gdn_kernel_sources(gdn_objects gpu/)
target_sources(gdn_objects PRIVATE
  gpu/self_test_calls.c
  gpu/self_test.c
  gpu/bad_maps.c
  gpu/context.c
  gpu/plan.c
  gpu/probe.c
  gpu/probe_flush.c)

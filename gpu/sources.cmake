# Code that the GPU backends share: plans, bad maps, the probe, the self-test. Built with any of them.
target_sources(gdn_objects PRIVATE
  gpu/self_test_calls.c
  gpu/self_test.c
  gpu/bad_maps.c
  gpu/context.c
  gpu/gated_delta_net.c
  gpu/plan.c
  gpu/probe.c
  gpu/probe_flush.c
  gpu/set_rows.c
  gpu/ssm_conv.c)
list(APPEND GDN_PRIVATE_LIBRARIES ${CMAKE_DL_LIBS}) # drivers are loaded at run time

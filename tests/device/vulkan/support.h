/* What the tests of the Vulkan backend share, besides tests/device/suite.h: faults that are injected by answering
 * vkGetDeviceProcAddr with functions of our own. */
#ifndef GDN_TEST_VULKAN_SUPPORT_H
#define GDN_TEST_VULKAN_SUPPORT_H

#include "tests/device/suite.h"
#include "vulkan/device.h"

/* ---- Faults ---- */
typedef struct faults {
    VkResult submit, wait, allocate, pipeline, counter; /* what the function returns instead, where not VK_SUCCESS */
    int allocate_after;                                 /* this many allocations succeed first                     */
    int no_device_function;                             /* 1: vkGetDeviceProcAddr knows no vkCmdDispatch           */
    uint64_t longest_wait;                              /* timeout of the longest wait that was asked for          */
    int creations, submissions, frees;                  /* vkCreate*, vkAllocate*; vkQueueSubmit; vkFreeMemory     */
    int dispatches, hazards;                            /* vkCmdDispatch; accesses that no barrier separates       */
    int transfer_barriers;                              /* in this command buffer, before transfers                */
    int barriers, updates;                              /* vkCmdPipelineBarrier, vkCmdUpdateBuffer                 */
    int drop_barrier;                                   /* this one of them is left out, where not 0               */
    int no_required_size;                               /* 1: no subgroup size can be asked for                    */
    uint32_t min_subgroup;                              /* what the device says instead, where not 0               */
    uint64_t max_allocation;
    int pipelines, sized;         /* made; with a subgroup size asked for                    */
    uint32_t required_size;       /* the last one                                            */
    gdn_vulkan_code wrong_shader; /* is compiled wrongly; no words: none is                  */
    int wrong_shaders;            /* so many times                                           */
    int can_flush;                /* 1: the device says that it can be asked to flush subnormals of binary32, */
    int not_alone;                /* and that it has one mode for all widths                 */
    int flushes_asked;            /* 1: and flushes where it is asked to, and not elsewhere (flush.h)         */
    int flushes_unasked;          /* 1: flushes; but results are kept where it is asked to round to even      */
} faults;
extern faults fault;
/* A vkGetInstanceProcAddr through which `fault` has effect. */
gdn_vulkan_function faulty_loader(void);
/* A context on a device of the library's own behind that loader. */
gdn_status faulty_context(gdn_context **ctx, uint64_t timeout_ns);
gdn_context *context_with(faults of_it);
/* Without a fault as yet; and the step on it. */
gdn_context *sound_context(void);
gdn_context *faulty_step(step_on *on);
void compile_wrongly(const gdn_vulkan_device *dev); /* from now on its shader of gated_delta_net */

/* parameters.c */
void test_parameters(void);

/* levels.c */
void test_levels(void);

/* limits.c */
void test_limits(void);

/* long_sequences.c */
int long_sequences(void); /* exit status */

#endif

/* Any kernel's call on a device and on the reference, for tests of maps. */
#ifndef GDN_TEST_CALL_H
#define GDN_TEST_CALL_H

#include <stddef.h>

#include "gdn/gdn.h"

/* An operand of a call: host memory, and where its data pointer is in the arguments. */
typedef struct device_operand {
    size_t   field;
    void    *host;
    uint64_t bytes;
} device_operand;

enum { MAX_OPERANDS = 12 };

/* The kernels behind one signature. */
typedef struct device_kernel {
    size_t     args_size, workspace;
    gdn_status (*query)(const gdn_context *ctx, const void *args, gdn_capability *c);
    gdn_status (*run)(gdn_context *ctx, const void *args);
} device_kernel;
extern const device_kernel device_kernel_gated_delta_net, device_kernel_ssm_conv, device_kernel_set_rows;

typedef union any_args {
    gdn_gated_delta_net_args gated_delta_net;
    gdn_ssm_conv_args        ssm_conv;
    gdn_set_rows_args        set_rows;
} any_args;

/* On the operands' host memory. */
void device_reference(const device_kernel *k, any_args args, const device_operand *o, int n);
/* Runs the call, reads every operand back into its host memory, and returns what was reported after it. Bytes before and after
 * an operand have to stay as they are. */
gdn_status device_run(gdn_context *ctx, const device_kernel *k, any_args args, const device_operand *o, int n);
void       device_fill(float *x, size_t n, uint32_t seed); /* numbers between -1 and 1 */

#endif

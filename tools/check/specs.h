/* A specification of a call of any kernel. */
#ifndef GDN_CHECK_SPECS_H
#define GDN_CHECK_SPECS_H

#include "gated_delta_net.h"
#include "set_rows.h"
#include "ssm_conv.h"

typedef union check_spec {
    delta_spec gated_delta_net;
    conv_spec ssm_conv;
    rows_spec set_rows;
} check_spec;

#endif

/* gdn/metal.h by itself, as C99. */
#include "gdn/metal.h"

extern int gdn_test_metal_header;
int gdn_test_metal_header = (int)sizeof(gdn_metal_desc);

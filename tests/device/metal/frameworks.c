/* Where a build for the emulator looks for Metal, in the place of metal/frameworks.c. */
#include "metal/device.h"

const char *const gdn_metal_frameworks[GDN_METAL_MAX_FRAMEWORKS] = { "libgdn-metal-emulated.so" };

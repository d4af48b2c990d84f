/* Apple's frameworks. See device.h. CoreGraphics is among them because a program without a window finds no default
 * device unless it is loaded. */
#include "metal/device.h"

const char *const gdn_metal_frameworks[GDN_METAL_MAX_FRAMEWORKS] = {
    "/System/Library/Frameworks/Metal.framework/Metal",
    "/usr/lib/libobjc.A.dylib",
    "/System/Library/Frameworks/Foundation.framework/Foundation",
    "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
};

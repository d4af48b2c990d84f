/* include/gdn/vulkan.h compiles on its own, as C99 and without any Vulkan header. */
#include "gdn/vulkan.h"

#ifdef VK_VERSION_1_0
#error "gdn/vulkan.h must not include a Vulkan header"
#endif

gdn_vulkan_desc gdn_test_vulkan_header(void);
gdn_vulkan_desc gdn_test_vulkan_header(void)
{
    gdn_vulkan_desc native = { 0 };
    native.size = sizeof native;
    return native;
}

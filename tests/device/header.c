/* A backend's public header by itself, as C99, without the headers of the interface that it is for. */
#include GDN_TEST_HEADER

#ifdef VK_VERSION_1_0
#error "gdn/vulkan.h must not include a Vulkan header"
#endif

extern const GDN_TEST_DESC gdn_test_header;
const GDN_TEST_DESC gdn_test_header = { sizeof(GDN_TEST_DESC) };

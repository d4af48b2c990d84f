/* gdn/cuda.h needs nothing else. */
#include <gdn/cuda.h>

int main(void)
{
    const gdn_cuda_desc desc = { sizeof desc, 0, 0 };
    return desc.context != 0;
}

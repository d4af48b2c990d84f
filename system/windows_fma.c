/* MinGW's fmaf() computes with the wider registers of the x87, and so rounds twice. Here the sum is rounded to odd in
 * double, whose 53 bits keep enough of it for the one rounding to float that follows (Boldo and Melquiond, "Emulation
 * of a FMA and correctly rounded sums", 2008). For code that is compiled for processors without FMA. */
#include <math.h>
#include <stdint.h>
#include <string.h>

float fmaf(float a, float b, float c)
{
    const double product = (double)a * b; /* exact */
    double sum = product + c;
    if (!isfinite(sum)) return (float)sum;
    const double part = sum - product, error = (product - (sum - part)) + (c - part); /* exact: two-sum */
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && !(bits & 1)) { /* the neighbour on the side of the exact sum is odd */
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

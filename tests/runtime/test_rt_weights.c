/* Dequantisation against fixtures/weights.bin, which scripts/make_weight_fixtures.py made with PyPI's gguf. */
#include <fenv.h>

#include "dense_test.h"

int main(int argc, char **argv)
{
    enum { TYPES = 7, N = 768 };
    static unsigned char data[4 * N];
    char                 path[4096];
    int32_t              head[2];
    int                  n = 0;
    snprintf(path, sizeof path, "%s/fixtures/weights.bin", argc > 1 ? argv[1] : ".");
    FILE *file = fopen(path, "rb");
    CHECK(file, "%s", path);
    for (; file && fread(head, 4, 2, file) == 2; n++) {
        const rt_type_info *info = rt_type_describe(head[0]);
        CHECK(info && head[1] == N, "type %d, %d elements", (int)head[0], (int)head[1]);
        if (!info || head[1] != N)
            break;
        const rt_weight w = { data, head[0], N, 1, 1, (int64_t)N / info->block * info->block_bytes };
        float           want[N], got[N];
        CHECK(fread(data, (size_t)w.row_bytes, 1, file) == 1 && fread(want, sizeof want, 1, file) == 1,
              "%s is cut short", path);
        rt_weight_row(&w, 0, got);
        const int64_t at = differs(want, got, N);
        CHECK(at < 0, "%s: [%d] is %a, gguf has %a", info->name, (int)at, (double)got[at], (double)want[at]);
    }
    CHECK(n == TYPES, "%d types, not %d", n, (int)TYPES);
    if (file)
        fclose(file);
    /* any row of any matrix, and the types there are */
    const float     rows[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    const rt_weight w = { (const unsigned char *)rows, RT_F32, 2, 1, 3, 8 };
    float           row[2];
    rt_weight_row(&w, 2, row);
    CHECK(row[0] == 5 && row[1] == 6, "%g %g", (double)row[0], (double)row[1]);
    /* in the caller's floating-point mode; a small minimum does not fit behind a large value, so that it matters */
    unsigned char block[144] = { 0x01, 0x3c, 0x01, 0x00 }; /* d, dmin */
    float         nearest[256], downward[256];
    memset(block + 4, 0xff, sizeof block - 4);
    const rt_weight k4 = { block, RT_Q4_K, 256, 1, 1, sizeof block };
    rt_weight_row(&k4, 0, nearest);
    (void)fesetround(FE_DOWNWARD);
    rt_weight_row(&k4, 0, downward);
    (void)fesetround(FE_TONEAREST);
    CHECK(differs(nearest, downward, 256) < 0, "%a and %a", (double)nearest[0], (double)downward[0]);
    CHECK(!rt_type_describe(3) && !rt_type_describe(-1) && !strcmp(rt_type_describe(RT_Q6_K)->name, "Q6_K"), "types");
    return report("weights");
}

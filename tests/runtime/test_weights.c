/* Dequantisation against fixtures/weights.bin, which scripts/make_weight_fixtures.py made with PyPI's gguf. */
#include <fenv.h>

#include "dense_test.h"
#include "runtime/files/quant_grids.h"

/* Every row of the file, and how many there are of each type. */
static void check_rows(FILE *file, const char *path, int n_rows[RT_MXFP4 + 1])
{
    enum { N = 1024 };
    static unsigned char data[4 * N];
    int32_t head[2];
    while (fread(head, 4, 2, file) == 2) {
        const int32_t n = head[1];
        const rt_type_info *info = rt_type_describe(head[0]);
        REQUIRE(info && n >= info->block && n <= N && n % info->block == 0, "type %d, %d elements", (int)head[0],
                (int)n);
        if (!info || n < info->block || n > N) return;
        const rt_weight w = { data, head[0], n, 1, 1, (int64_t)n / info->block * info->block_bytes };
        float want[N], got[N];
        REQUIRE(fread(data, (size_t)w.row_bytes, 1, file) == 1 && fread(want, 4 * (size_t)n, 1, file) == 1,
                "%s is cut short", path);
        rt_weight_row(&w, 0, got);
        const int64_t at = differs(want, got, n);
        REQUIRE(at < 0, "%s, row %d: [%d] is %a, gguf has %a", info->name, n_rows[head[0]], (int)at, (double)got[at],
                (double)want[at]);
        n_rows[head[0]]++;
    }
}

/* FNV-1a of a grid's entries, of gguf's tables of the same type. Rows of weights do not use all entries. */
static void check_grids(void)
{
    static const struct {
        const uint64_t *of8;
        const uint32_t *of4;
        int n;
        uint64_t hash;
    } grids[] = { { rt_grid_iq1, NULL, 2048, UINT64_C(0x34932f82fd32d255) },
                  { rt_grid_iq2_xxs, NULL, 256, UINT64_C(0xd8556d755db7ee40) },
                  { rt_grid_iq2_xs, NULL, 512, UINT64_C(0x7328de7db0e6bc0a) },
                  { rt_grid_iq2_s, NULL, 1024, UINT64_C(0x46217f96b769fad5) },
                  { NULL, rt_grid_iq3_xxs, 256, UINT64_C(0xad67a04de7629a07) },
                  { NULL, rt_grid_iq3_s, 512, UINT64_C(0x46782a8383af15b) } };
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        uint64_t hash = UINT64_C(14695981039346656037);
        for (int k = 0; k < grids[i].n; k++)
            hash = (hash ^ (grids[i].of8 ? grids[i].of8[k] : grids[i].of4[k])) * UINT64_C(1099511628211);
        REQUIRE(hash == grids[i].hash, "grid %d has the hash %llx", (int)i, (unsigned long long)hash);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    int n_rows[RT_MXFP4 + 1] = { 0 }, n_types = 0;
    check_grids();
    snprintf(path, sizeof path, "%s/fixtures/weights.bin", argc > 1 ? argv[1] : ".");
    FILE *file = fopen(path, "rb");
    REQUIRE(file, "%s", path);
    if (file) {
        check_rows(file, path, n_rows);
        fclose(file);
    }
    for (int32_t type = 0; type <= RT_MXFP4 + 1; type++) { /* ordinary and extreme rows of all types but F32 */
        const rt_type_info *info = rt_type_describe(type);
        const int least = !info || type == RT_F32 ? 0 : info->block == 1 ? 1 : 2;
        REQUIRE(!least || n_rows[type] >= least, "%s has %d rows", info->name, n_rows[type]);
        REQUIRE(!info || strstr(rt_type_names(), info->name), "%s is not in \"%s\"", info->name, rt_type_names());
        n_types += info != NULL;
    }
    REQUIRE(n_types == 23, "%d types, not 23", n_types);
    /* any row of any matrix, and the types there are */
    const float rows[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    const rt_weight w = { (const unsigned char *)rows, RT_F32, 2, 1, 3, 8 };
    float row[2];
    rt_weight_row(&w, 2, row);
    REQUIRE(row[0] == 5 && row[1] == 6, "%g %g", (double)row[0], (double)row[1]);
    /* in the caller's floating-point mode; a small minimum does not fit behind a large value, so that it matters */
    unsigned char block[144] = { 0x01, 0x3c, 0x01, 0x00 }; /* d, dmin */
    float nearest[256], downward[256];
    memset(block + 4, 0xff, sizeof block - 4);
    const rt_weight k4 = { block, RT_Q4_K, 256, 1, 1, sizeof block };
    rt_weight_row(&k4, 0, nearest);
    (void)fesetround(FE_DOWNWARD);
    rt_weight_row(&k4, 0, downward);
    (void)fesetround(FE_TONEAREST);
    REQUIRE(differs(nearest, downward, 256) < 0, "%a and %a", (double)nearest[0], (double)downward[0]);
    REQUIRE(!rt_type_describe(4) && !rt_type_describe(40) && !rt_type_describe(-1), "types");
    REQUIRE(!strcmp(rt_type_describe(RT_Q6_K)->name, "Q6_K"), "names");
    return test_summary();
}

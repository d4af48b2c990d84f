/* Products of tiles of signed bytes (AMX-INT8): 16 rows by 16 columns, sums of int32.
 *
 * Tiles 0 to 2 are the sums of each power of 256, [16][16]. Tile 3 has 16 rows of `depth` bytes, tiles 4 to 6 columns:
 * [depth / 4][16][4]. A thread sets the shapes before its products, and releases the tiles when it has no more: the
 * system saves them in each switch between threads. */
#ifndef GDN_SIMD_TILES_H
#define GDN_SIMD_TILES_H

#include <stdint.h>

/* The bytes of n that a tile takes at once: 64, 32 or 16, n a multiple of 16. */
static inline int tile_depth(int n) { return n % 64 == 0 ? 64 : n % 32 == 0 ? 32 : 16; }

#ifdef __AMX_INT8__
#include <immintrin.h>
#define GDN_TILES 1

typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;

static inline void tiles_begin(int depth)
{
    tile_shapes s __attribute__((aligned(64))) = { .palette = 1 };
    for (int i = 0; i < 7; i++) {
        s.rows[i] = (uint8_t)(i < 4 ? 16 : depth / 4);
        s.bytes[i] = (uint16_t)(i == 3 ? depth : 64);
    }
    __asm__ volatile("" : : "r"(&s) : "memory"); /* GCC 12 believes that the instruction reads 8 bytes */
    _tile_loadconfig(&s);
}

static inline void tiles_end(void) { _tile_release(); }

/* Sums of 16 rows with 16 columns over n elements, with the shapes of tile_depth(n). Rows, and digits of a row, are so
 * many bytes apart; columns are [n / 4][digit][16][4]. */
static inline __attribute__((always_inline)) void tile_sums(const int digits, const int8_t *row, int64_t row_step,
                                                            int64_t digit_step, const int8_t *column, int n,
                                                            int32_t (*sum)[16][16])
{
    const int depth = tile_depth(n);
    __asm__ volatile("" : : : "memory"); /* GCC 12 does not know that loads of tiles read memory */
    _tile_zero(0);
    _tile_zero(1);
    if (digits == 3) _tile_zero(2);
    for (int i = 0; i < n; i += depth) {
        const int8_t *const a = row + i, *const b = column + (int64_t)i / 4 * digits * 64;
        _tile_loadd(3, a, row_step);
        _tile_loadd(4, b, digits * 64);
        _tile_loadd(5, b + 64, digits * 64);
        _tile_dpbssd(0, 3, 4);
        _tile_dpbssd(1, 3, 5);
        if (digits == 3) {
            _tile_loadd(6, b + 128, digits * 64);
            _tile_dpbssd(2, 3, 6);
        }
        _tile_loadd(3, a + digit_step, row_step);
        _tile_dpbssd(1, 3, 4);
        if (digits == 3) {
            _tile_dpbssd(2, 3, 5);
            _tile_loadd(3, a + 2 * digit_step, row_step);
            _tile_dpbssd(2, 3, 4);
        }
    }
    _tile_stored(0, sum[0], 64);
    _tile_stored(1, sum[1], 64);
    if (digits == 3) _tile_stored(2, sum[2], 64);
}
#else /* compiled without tiles: nothing calls these */
#define GDN_TILES 0
static inline void tiles_begin(int depth) { (void)depth; }
static inline void tiles_end(void) {}
static inline void tile_sums(int digits, const int8_t *row, int64_t row_step, int64_t digit_step, const int8_t *column,
                             int n, int32_t (*sum)[16][16])
{
    (void)digits, (void)row, (void)row_step, (void)digit_step, (void)column, (void)n, (void)sum;
}
#endif

#endif

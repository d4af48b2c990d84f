/* Watches every access of a kernel to memory. The kernels of a CHECKED library are compiled with -fsanitize=thread,
 * which puts a call before each access. check_hooks.c has the called functions, in place of that sanitizer's own
 * library.
 *
 * It finds accesses outside of any memory, writes to parameters and constants, reads of uninitialised shared memory,
 * and races. A race is two threads that access the same bytes, one of which writes. Between them is neither a barrier
 * of the block nor a __syncwarp of both lanes, or they are in different blocks. Shuffles and votes order nothing, as
 * CUDA says.
 *
 * What it may miss: of two threads that wrote the bytes of one cell, only the last is remembered; of readers, those of
 * one warp. */
#define _GNU_SOURCE
#include "tests/emulator/check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct cell { /* of 2 bytes: neighbours of 16 bits may be two threads', or two blocks' */
    uint32_t base;    /* epoch in which its memory began; older: nothing is known */
    uint8_t init, write_mask, read_mask, atomic;
    uint32_t write_epoch, write_clock, write_block;
    uint16_t write_thread, read_warp;
    uint32_t read_epoch, read_clock, read_lanes, read_block;
} cell;
#define SEVERAL 0xffffu /* warps, or blocks */

static uint32_t epoch = 1, block_base, grid_base; /* epochs count barriers, of all blocks and grids */
static uint32_t block_number;
static uint32_t clocks[SIMT_MAX_THREADS];            /* a thread's own time within its warp */
static uint32_t known[SIMT_MAX_THREADS][SIMT_LANES]; /* and that of each lane, when they last synchronised */
static const char *params;
static size_t param_bytes;
static simt_region region; /* the last that was met */
static cell *shared_cells;

extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));

static void *new_cells(size_t bytes) /* of what is touched of it, zeroed */
{
    void *at = mmap(NULL, (bytes / 2 + 2) * sizeof(cell), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void release_shadow(void *shadow, size_t bytes) { munmap(shadow, (bytes / 2 + 2) * sizeof(cell)); }

static size_t all_shared(void) { return (size_t)(__stop_simt_shared - __start_simt_shared); }

static void start_grid(const void *at, size_t bytes)
{
    params = at;
    param_bytes = bytes;
    region.bytes = 0;
    grid_base = ++epoch;
    if (!shared_cells) shared_cells = new_cells(all_shared());
}

static void start_block(void)
{
    block_base = ++epoch;
    block_number = simt_current.index.x +
                   simt_current.grid.x * (simt_current.index.y + simt_current.grid.y * simt_current.index.z);
    memset(known, 0, simt_current.n_threads * sizeof *known);
    for (unsigned i = 0; i < simt_current.n_threads; i++) clocks[i] = 1;
}

static void barrier(void) { epoch++; }

static void sync_lanes(simt_warp *warp, uint32_t lanes)
{
    const unsigned first = warp->number * SIMT_LANES;
    uint32_t latest[SIMT_LANES] = { 0 }, clock = 0;
    for (uint32_t left = lanes; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        for (unsigned m = 0; m < SIMT_LANES; m++)
            if (known[first + l][m] > latest[m]) latest[m] = known[first + l][m];
        if (clocks[first + l] > clock) clock = clocks[first + l];
    }
    clock++;
    for (uint32_t left = lanes; left; left &= left - 1) latest[__builtin_ctz(left)] = clock;
    for (uint32_t left = lanes; left; left &= left - 1) {
        const unsigned l = (unsigned)__builtin_ctz(left);
        clocks[first + l] = clock;
        memcpy(known[first + l], latest, sizeof latest);
    }
}

/* ---- One access ---- */
static void report(const char *what, const void *at, const void *pc)
{
    Dl_info info = { 0 };
    dladdr(pc, &info);
    simt_fault("%s at %p; addr2line -e %s 0x%zx", what, at, info.dli_fname ? info.dli_fname : "?",
               (size_t)((const char *)pc - 1 - (const char *)info.dli_fbase));
}

static int ordered_after(const simt_thread *self, unsigned thread, uint32_t clock)
{
    if (thread == self->number) return 1;
    return thread / SIMT_LANES == self->warp->number && known[self->number][thread % SIMT_LANES] > clock;
}

static int readers_ordered(const simt_thread *self, const cell *c)
{
    if (c->read_warp == SEVERAL) return 0;
    for (uint32_t left = c->read_lanes; left; left &= left - 1)
        if (!ordered_after(self, c->read_warp * SIMT_LANES + (unsigned)__builtin_ctz(left), c->read_clock)) return 0;
    return 1;
}

/* The bytes `mask` of a cell. `local`: shared memory, where only this block's accesses count. */
static void word(cell *c, unsigned mask, enum simt_access access, int local, const char *at, const void *pc)
{
    const simt_thread *self = simt_self;
    const uint32_t base = local ? block_base : grid_base;
    const char *const memory = local ? "shared" : "device";
    char text[200];
    if (c->base != base) *c = (cell){ .base = base };
    /* Against the last write. */
    if (c->write_mask & mask && !(access == SIMT_ATOMIC && c->atomic)) {
        if (c->write_block != block_number) {
            snprintf(text, sizeof text, "a race: block %u has written %s memory that another block uses",
                     c->write_block, memory);
            report(text, at, pc);
        }
        if (c->write_epoch == epoch && !ordered_after(self, c->write_thread, c->write_clock)) {
            snprintf(text, sizeof text, "a race: thread %u has written %s memory, and no barrier lies between",
                     c->write_thread, memory);
            report(text, at, pc);
        }
    }
    if (access == SIMT_READ) {
        if (local && (c->init & mask) != mask && !simt_unwritten)
            report("a read of shared memory that nobody has written", at, pc);
        if (c->read_block != block_number && c->read_mask) c->read_block = 0xffffffffu;
        else c->read_block = block_number;
        const int older = !c->read_mask || c->read_epoch != epoch || readers_ordered(self, c);
        if (older) {
            c->read_warp = (uint16_t)self->warp->number;
            c->read_lanes = 1u << self->lane;
            c->read_clock = clocks[self->number];
        } else {
            if (c->read_warp != self->warp->number) c->read_warp = SEVERAL;
            c->read_lanes |= 1u << self->lane;
            if (clocks[self->number] > c->read_clock) c->read_clock = clocks[self->number];
        }
        c->read_epoch = epoch;
        c->read_mask |= (uint8_t)mask;
        return;
    }
    /* A write, also against the reads. */
    if (c->read_mask & mask) {
        if (c->read_block != block_number) {
            snprintf(text, sizeof text, "a race: another block has read %s memory that this one writes", memory);
            report(text, at, pc);
        }
        if (c->read_epoch == epoch && !readers_ordered(self, c)) {
            snprintf(text, sizeof text, "a race: another thread has read %s memory, and no barrier lies between",
                     memory);
            report(text, at, pc);
        }
        c->read_mask = 0;
    }
    const int same = c->write_mask && c->write_epoch == epoch && c->write_thread == self->number &&
                     c->write_block == block_number && c->write_clock == clocks[self->number];
    c->init |= (uint8_t)mask;
    c->write_mask = (uint8_t)((same ? c->write_mask : 0) | mask);
    c->write_epoch = epoch;
    c->write_clock = clocks[self->number];
    c->write_block = block_number;
    c->write_thread = (uint16_t)self->number;
    c->atomic = access == SIMT_ATOMIC;
}

static void words(cell *cells, const char *from, const char *at, size_t bytes, enum simt_access access, int local,
                  const void *pc)
{
    if (!cells) return;
    size_t offset = (size_t)(at - from);
    const size_t end = offset + bytes;
    while (offset < end) {
        const size_t next = offset / 2 * 2 + 2, stop = next < end ? next : end;
        const unsigned mask = ((1u << (stop - offset)) - 1) << offset % 2;
        word(&cells[offset / 2], mask, access, local, from + offset, pc);
        offset = stop;
    }
}

static int within(const char *at, size_t bytes, const char *from, size_t size)
{
    return at >= from && (size_t)(at - from) <= size && bytes <= size - (size_t)(at - from);
}

static void device_words(const char *at, size_t bytes, enum simt_access access, const void *pc)
{
    if (simt_counts && access != SIMT_WRITE) simt_count_bytes(at, bytes, 0);
    if (simt_counts && access != SIMT_READ) simt_count_bytes(at, bytes, 1);
    words(*region.shadow, region.at, at, bytes, access, 0, pc);
}

void simt_accessed(const void *address, size_t bytes, enum simt_access access, const void *pc)
{
    const simt_thread *self = simt_self;
    const char *at = address;
    if (!self) return; /* a constructor */
    if (within(at, bytes, self->fiber.stack, self->fiber.size)) return;
    if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && (uintptr_t)at % bytes)
        report("an access that is not aligned", at, pc);
    if (region.bytes && within(at, bytes, region.at, region.bytes)) {
        device_words(at, bytes, access, pc);
        return;
    }
    if (within(at, bytes, __start_simt_shared, all_shared())) {
        words(shared_cells, __start_simt_shared, at, bytes, access, 1, pc);
        return;
    }
    const int constant =
        within(at, bytes, params, param_bytes) || within(at, bytes, __ehdr_start, (size_t)(_end - __ehdr_start));
    if (constant && access == SIMT_READ) return;
    if (constant) report("a write to a parameter or to a variable of the program", at, pc);
    if (!simt_region_of || !simt_region_of(at, &region) || !within(at, bytes, region.at, region.bytes)) {
        region.bytes = 0;
        report(access == SIMT_READ ? "a read outside of any memory" : "a write outside of any memory", at, pc);
    }
    if (!*region.shadow) {
        *region.shadow = new_cells(region.bytes);
        *region.shadow_bytes = region.bytes;
    }
    device_words(at, bytes, access, pc);
}

static const simt_checker checker = { start_grid, start_block, barrier, sync_lanes, release_shadow };
__attribute__((constructor)) static void install(void) { simt_check = &checker; }

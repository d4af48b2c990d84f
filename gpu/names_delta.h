// The names that gpu/delta_*.h take from cuda/gated_delta_net.cuh or metal/gated_delta_net.h: see gpu/names.h.
#ifndef GDN_GPU_NAMES_DELTA_H
#define GDN_GPU_NAMES_DELTA_H

#include "gpu/names.h"
#include "call/gated_delta_net.h"
#include "gpu/convert16.h"

// ---- The call. X is a shape (gpu/delta_item.h).
#define FUNCTION        template <class X> GDN_INLINE
#define CALL            const gdn_gated_delta_net_call &p, X,
#define PASS            p, X(),
#define SOURCE          p.state.data // the address of the pool of states that is read
#define GOOD_TREE(seq)  (seq.T > 0)  // false, and reported, if a parent is not an earlier token of the sequence
#define DELTA_VALUES(C) (4 * (C))    // value channels of a thread block; C: of eight lanes
#define LOAD_ABSENT     true // lanes may load a state that another lane of the warp stores later, and not use it

// ---- Four floats, componentwise.
struct float4 {
    float x, y, z, w;
};
float4 make_float4(float x, float y, float z, float w);
float4 zero4();
float4 all4(float x);
float4 add4(float4 x, float4 y);
float4 mul4(float4 x, float4 y);
float4 fma4(float4 x, float4 y, float4 z);

// ---- Memory
float read_raw(const char *at, int dtype); // the bits of an element
float widen_raw(float raw, int dtype);     // the bits as F32
// Elements i .. i + 3 of a row of q, k, g or dt_bias, likewise; several.
template <class X> float4 read_row(const char *at, int dtype, int i, int n_keys);
template <class X> float4 widen_row(float4 raw, int dtype);
template <class X, int N> void widen_rows(float4 (&x)[N], int dtype);
// An element of a state, or four adjacent ones.
template <class X> float load_number(const char *at, int dtype);
template <class X> float4 load_quad(const char *at, int dtype);
// All of a state that a lane has, as F32. pairs: load_quad() loaded it.
template <class X> void widen_state(const gdn_gated_delta_net_call &p, bool pairs, float4 (&S)[X::NB][X::C]);
float load_float(const char *at);
float4 load_float4(const char *at);
void store_float(char *at, float x);
void store_float4(char *at, float4 x);
void store_pair(char *at, uint32_t x, uint32_t y); // four of 16 bits

// ---- Warps
struct Item;
template <class X> int lane_of_warp(const Item &w); // the thread's lane of its 32
template <class T> T of_lane(T x, int lane);        // x of that lane
float4 of_lane4(float4 x, int lane);
float exchange(float x, int mask); // x of the lane whose number differs in the bits of mask
float4 exchange4(float4 x, int mask);
int lowest_bit(uint32_t x); // the number of the lowest bit that is set
int here(int x);            // x, opaque to the compiler: expressions of it are computed where they are written
// Together they load the deltas of an entry that the call has logged.
void sync_warp();
template <class X> void load_deltas(CALL const Item &w, char *entry, float (&delta)[X::C]);
template <class X> const char *read_key_at(CALL const Item &w, int t); // the address of token t's read key

#endif

/*
 * gdn.h - libgdn's C interface, and the first page of its manual.
 *
 * libgdn computes the kernels that hybrid (recurrent + attention) language models need and general
 * tensor libraries do badly: gated_delta_net, ssm_conv and set_rows. The recurrent state keeps K snapshots
 * per row and is addressed through maps. So one call serves many sequences. To roll back a rejected draft,
 * the caller chooses another snapshot; nothing is computed again.
 *
 * Every backend gives the bits of the scalar reference (docs/reference/numerics.md). The bits do not depend on how
 * the work is divided: into calls, into batches, over threads, or in place against out of place.
 *
 *   1  Five minutes            here            6  Memory of a backend          base.h
 *   2  Status and errors       base.h          7  Operands: tensors and spans  base.h
 *   3  Versions                base.h          8  gated_delta_net              gated_delta_net.h
 *   4  Backends and devices    base.h          9  ssm_conv                     ssm_conv.h
 *   5  Contexts                base.h         10  set_rows                     set_rows.h
 *                                             11  Records: sequences moved     record.h
 *
 * ---- 1  Five minutes -------------------------------------------------------------------------------
 *
 *     gdn_context *ctx;
 *     gdn_context_desc desc = GDN_INIT(gdn_context_desc);      // zero = default: the CPU, all its cores
 *     if (gdn_context_create(&desc, &ctx)) fail(gdn_last_error());
 *
 *     gdn_gated_delta_net_args a = GDN_INIT(gdn_gated_delta_net_args); // one token for each of 8 sequences
 *     a.n_seqs = a.n_tokens = a.state.n_rows = 8;
 *     a.n_heads_k = 16; a.n_heads_v = 32;  a.head_dim_k = a.head_dim_v = 128;  a.scale = 1 / sqrtf(128);
 *     a.q.data = q; a.k.data = k; a.v.data = v; a.g.data = g; a.beta.data = beta; a.out.data = out;
 *     a.state.data = state;                                    // [8][1][32][128][128], updated in place
 *
 *     gdn_capability can = GDN_INIT(gdn_capability);           // how much scratch memory, once per shape
 *     if (gdn_gated_delta_net_query(ctx, &a, &can)) fail(gdn_last_error());
 *     if (can.workspace_bytes && gdn_buffer_create(ctx, can.workspace_bytes, &a.workspace)) fail(gdn_last_error());
 *
 *     if (gdn_gated_delta_net(ctx, &a, NULL)) fail(gdn_last_error());
 *
 *     gdn_buffer_destroy(ctx, &a.workspace);
 *     gdn_context_destroy(ctx);
 *
 * Conventions
 *   - Structs that are passed by pointer begin with `uint32_t size`. GDN_INIT sets it, and the defaults that are not
 *     zero. The library refuses a struct that was only zeroed. Reserved members must be zero.
 *   - From version 0.1.0 on, structs only grow at their end. Zero in a new member means the behaviour without it.
 *       older program, newer library: works. The library reads and writes nothing past the caller's size.
 *       newer program, older library: works while the members that the library lacks are zero. Otherwise the call
 *       fails, and the error text says that the library is older.
 *   - gdn_span, gdn_tensor and gdn_pool have no size because they are members of other structs. They cannot grow
 *     within one GDN_ABI_VERSION.
 *   - Shapes are written outermost first: [a][b][c] has c contiguous. Strides are in bytes.
 *   - The caller supplies scratch memory; each kernel's query function returns the size. On the CPU, the reference and
 *     CUDA only gdn_context_create() and gdn_buffer_create() allocate. On Vulkan and Metal the first call of a kernel
 *     variant also allocates, for its pipeline and its self-test (gdn/vulkan.h, gdn/metal.h).
 *   - A call that returns anything but GDN_OK has written nothing, except the capability of a query. The library never
 *     aborts. A call takes up to 128 KiB of the calling thread's stack.
 */
#ifndef GDN_GDN_H
#define GDN_GDN_H

#include "gdn/base.h"
#include "gdn/gated_delta_net.h"
#include "gdn/record.h"
#include "gdn/set_rows.h"
#include "gdn/ssm_conv.h"

#endif /* GDN_GDN_H */

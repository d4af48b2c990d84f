#!/usr/bin/env python3
"""The heads of a gated-delta layer over several processes, gathered again: the same bits as in one process.

    ranks.py [--ranks 2] [--tokens 64]

Heads are independent. So each rank takes a share of the key heads with their value heads, and only the outputs are exchanged. Exit status 0 where outputs and states are the same bits as one process has.
Needs torch, with its gloo backend.
"""
import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as distributed
import torch.multiprocessing as processes

from gdn.torch import causal_conv1d_fn, chunk_gated_delta_rule

HEADS_K, HEADS_V, DIM, WIDTH = 4, 8, 64, 4


def inputs(tokens):
    """What the projections of a layer gave: channels of q, k and v by head, and weights of the convolution as well."""
    made = torch.Generator().manual_seed(7)
    q, k = (torch.randn(2, tokens, HEADS_K, DIM, generator=made) for _ in range(2))
    v = torch.randn(2, tokens, HEADS_V, DIM, generator=made)
    weights = [torch.randn(heads, DIM, WIDTH, generator=made) for heads in (HEADS_K, HEADS_K, HEADS_V)]
    g, beta = -torch.rand(2, tokens, HEADS_V, generator=made), torch.rand(2, tokens, HEADS_V, generator=made)
    return (q, k, v), weights, g, beta


def heads_of(tensors, weights, g, beta, rank, ranks):
    """The convolution and the delta rule for one rank's heads: (out, final state)."""
    def share(heads):
        return slice(rank * heads // ranks, (rank + 1) * heads // ranks)

    mixed = []
    for x, weight in zip(tensors, weights):
        mine = share(x.shape[2])
        channels = x[:, :, mine].flatten(2).transpose(1, 2)
        done = causal_conv1d_fn(channels, weight[mine].flatten(0, 1), activation="silu")
        mixed.append(done.transpose(1, 2).unflatten(2, (-1, DIM)))
    mine = share(HEADS_V)
    return chunk_gated_delta_rule(*mixed, g[:, :, mine], beta[:, :, mine], output_final_state=True, use_qk_l2norm_in_kernel=True)


def work(rank, ranks, tokens, place):
    distributed.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    given = inputs(tokens)
    out, state = heads_of(*given, rank, ranks)
    for name, part, axis in (("out", out, 2), ("state", state, 1)):
        parts = [torch.empty_like(part.contiguous()) for _ in range(ranks)]
        distributed.all_gather(parts, part.contiguous())
        if rank == 0:
            torch.save(torch.cat(parts, axis), os.path.join(place, name))
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    if given.ranks < 1 or HEADS_K % given.ranks:
        parser.error(f"--ranks is {given.ranks}; it must divide {HEADS_K} key heads")
    with tempfile.TemporaryDirectory() as place:
        processes.spawn(work, (given.ranks, given.tokens, place), nprocs=given.ranks)
        want = heads_of(*inputs(given.tokens), 0, 1)
        same = [torch.equal(torch.load(os.path.join(place, name)).view(torch.int32), one.contiguous().view(torch.int32))
                for name, one in zip(("out", "state"), want)]
    print(f"{given.ranks} ranks, {HEADS_V // given.ranks} value heads each: "
          f"{'the same bits as one process' if all(same) else 'OTHER BITS than one process'}")
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()

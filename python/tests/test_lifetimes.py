"""Contexts, arrays, scratch memory and prepared calls end in any order: in reference cycles, in other threads, in forked
children, when the interpreter exits. Under AddressSanitizer (scripts/stages.sh) this shows memory that is used after it
was freed."""
import copy
import gc
import os
import pickle
import random
import subprocess
import sys
import threading
import unittest

import numpy as np

import gdn
from gdn._kernels import _build_ssm_conv
from gdn._prepared import Prepared

X, WEIGHT = np.ones((1, 64, 1024), np.float32), np.ones((1024, 4), np.float32)  # needs scratch memory
WANT = np.minimum(np.arange(1, 65), 4)[None, :, None] * np.ones((1, 64, 1024), np.float32)


class Node:
    """Part of a random graph: holds one object of the package, and other nodes."""

    def __init__(self, held):
        self.held, self.others = held, []


class Kept:
    """A prepared call with its context and the arrays that it reads and writes."""

    def __init__(self, context):
        self.context, self.x, self.out = context, X.copy(), np.empty_like(X)
        self.call = Prepared(_build_ssm_conv(self.x, WEIGHT, out=self.out, context=context), ["x", "out"])

    def run(self):
        self.call(self.context, [self.x.ctypes.data, self.out.ctypes.data])
        return self.out


def use(held):
    """Use an object; True if its results are right. A closed context raises."""
    try:
        if isinstance(held, gdn.Context):
            return (gdn.ssm_conv(X, WEIGHT, context=held) == WANT).all()
        return (held.run() == WANT).all() if isinstance(held, Kept) else (held.numpy() == WANT).all()
    except ValueError as error:
        return "closed" in str(error)


def graph(rng, steps):
    """Build, use and drop random graphs, with cycles. Returns the number of wrong results."""
    nodes, wrong = [], 0
    for _ in range(steps):
        contexts = [node.held for node in nodes if isinstance(node.held, gdn.Context)]
        what = rng.randrange(8)
        if what == 0 or not contexts:
            nodes.append(Node(gdn.Context(rng.choice(("cpu", "cpu", "reference")), n_threads=rng.randint(1, 2))))
        elif what in (1, 2):
            try:
                context = rng.choice(contexts)
                nodes.append(Node(context.array(WANT) if what == 1 else Kept(context)))
            except ValueError as error:
                wrong += "closed" not in str(error)
        elif what == 3:
            rng.choice(nodes).others.append(rng.choice(nodes))
        elif what == 4:
            nodes.pop(rng.randrange(len(nodes)))
        elif what == 5 and rng.random() < 0.3:
            rng.choice(contexts).close()
        elif what == 6 and rng.random() < 0.2:
            gc.collect()
        else:
            wrong += not use(rng.choice(nodes).held)
    return wrong


class Copies(unittest.TestCase):
    """What owns memory of the library is not copied: the copy would free it a second time."""

    def test_refusals(self):
        context = gdn.Context(n_threads=1)
        array, kept = context.array(WANT), Kept(context)
        self.assertTrue(use(kept))
        owners = (context, context.opened, array, array._buffer, context.scratch(1), kept.call)
        for owner in owners:
            for make in (copy.copy, pickle.dumps) + (() if owner is context else (copy.deepcopy,)):
                with self.assertRaisesRegex(TypeError, f"a {type(owner).__name__} cannot be copied or pickled: it owns memory of the library"):
                    make(owner)
                gc.collect()  # whatever was made of a copy is freed
                self.assertTrue(use(context) and use(array) and use(kept), (owner, make))
        for owner, instead in ((context, r"; make another one with gdn.Context\(\)"), (array, r"; context.array\(x.numpy\(\)\) makes another one")):
            with self.assertRaisesRegex(TypeError, instead):
                pickle.dumps(owner)
        with self.assertRaises(TypeError):
            copy.deepcopy(kept)  # which holds a prepared call

    def test_holders(self):
        """A deep copy of an object that holds a context shares it."""
        holder = Node(gdn.Context(n_threads=1))
        holder.others = [{"context": holder.held}, (holder.held,)]
        other = copy.deepcopy(holder)
        self.assertTrue(other.held is other.others[0]["context"] is other.others[1][0] is holder.held and other.others is not holder.others)
        del holder
        gc.collect()
        self.assertTrue(use(other.held))


class Lifetimes(unittest.TestCase):
    def test_random_graphs(self):
        for seed in range(20):
            self.assertEqual(graph(random.Random(seed), 60), 0, f"seed {seed}")
            gc.collect()

    def test_cycles(self):
        """The whole of a context is found by the collector, which finalises its parts in any order."""
        for _ in range(5):
            context = gdn.Context(n_threads=1)
            nodes = [Node(context), Node(context.array(WANT)), Node(Kept(context))]
            for node in nodes:
                self.assertTrue(use(node.held))
                node.others = nodes
            del context, nodes, node
            gc.collect()

    def test_beside_threads(self):
        """One thread closes contexts and collects while others use them."""
        wrong, contexts = [], [gdn.Context(n_threads=2) for _ in range(4)]

        def work(seed):
            rng = random.Random(seed)
            for _ in range(60):
                wrong.extend([seed] * (not use(contexts[rng.randrange(4)])))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            at = random.randrange(4)
            contexts[at].close()
            contexts[at] = gdn.Context(n_threads=2)
            gc.collect()
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_in_forked_children(self):
        for seed in range(4):
            context = gdn.Context(n_threads=2)
            nodes = [Node(context), Node(context.array(WANT)), Node(Kept(context))]
            nodes[0].others = nodes
            del context
            child = os.fork()
            if not child:
                status = 1
                try:
                    rng = random.Random(seed)
                    right = all(use(node.held) for node in nodes)
                    while nodes:
                        nodes.pop(rng.randrange(len(nodes)))
                        gc.collect()
                    status = 0 if right and not graph(rng, 20) else 2
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(all(use(node.held) for node in nodes))

    def test_at_exit(self):
        """Globals, cycles and threads that are left when the interpreter ends."""
        program = ("import gdn, numpy as np, threading, test_lifetimes as t\n"
                   "context = gdn.Context(n_threads=2); array = context.array(t.WANT); call = t.Kept(context)\n"
                   "loop = t.Node(gdn.Context(n_threads=1)); loop.others.append(loop)\n"
                   "assert all(map(t.use, (context, array, call, loop.held, gdn.default_context())))\n"
                   "def work():\n"
                   "    while True: t.use(context)\n"
                   "threading.Thread(target=work, daemon=True).start()\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()

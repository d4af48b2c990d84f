"""What is not a plain array, what is refused, threads and forks, contexts, and memory of devices."""
import array
import gc
import os
import threading
import time
import unittest

import numpy as np

import gdn
from cases import gdn_operands, same


class Foreign:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, source):
        self.source = source

    def __dlpack__(self, **named):
        return self.source.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.source.__dlpack_device__()


class Operands(unittest.TestCase):
    def setUp(self):
        self.operands = gdn_operands(np.random.default_rng(1), 2, 5, 1, 2, 32, 32)
        self.state = np.zeros((2, 2, 32, 32), np.float32)
        self.out = gdn.gated_delta_net(*self.operands, self.state)

    def test_dlpack_and_buffers_in_place(self):
        state, out = np.zeros_like(self.state), np.zeros_like(self.out)
        target = Foreign(out)
        got = gdn.gated_delta_net(*map(Foreign, self.operands), Foreign(state), out=target)
        self.assertIs(got, target)
        self.assertTrue(same(out, self.out) and same(state, self.state))
        wide = np.zeros((2, 5, 2, 96), np.float32)
        wide[..., 32:64] = self.operands[2]
        strided = list(map(Foreign, self.operands))
        strided[2] = Foreign(wide[..., 32:64])
        self.assertTrue(same(gdn.gated_delta_net(*strided), gdn.gated_delta_net(*self.operands)))
        views = [memoryview(x) for x in self.operands]
        self.assertTrue(same(gdn.gated_delta_net(*views, memoryview(state)), gdn.gated_delta_net(*self.operands, self.state)))
        self.assertTrue(same(state, self.state))
        flat = array.array("f", range(6))
        self.assertTrue(same(gdn.ssm_conv(memoryview(flat).cast("B").cast("f", (3, 2)), np.ones((2, 1), np.float32)),
                             np.arange(6, dtype=np.float32).reshape(3, 2)))

    def test_memory_is_not_kept(self):
        import weakref
        operands = [x.copy() for x in self.operands]
        watched = weakref.ref(operands[2])
        gdn.gated_delta_net(*operands)
        del operands
        gc.collect()
        self.assertIsNone(watched())

    def refused(self, kind, text, change, **named):
        operands = dict(zip(("q", "k", "v", "g", "beta"), self.operands), state=self.state.copy())
        operands.update(change)
        before = operands["state"].copy() if isinstance(operands["state"], np.ndarray) else None
        with self.assertRaisesRegex(kind, text):
            gdn.gated_delta_net(**operands, **named)
        if before is not None:
            self.assertTrue(same(operands["state"], before))

    def test_refusals(self):
        q, k, v, g, beta = self.operands
        self.refused(ValueError, r"k has shape \[2, 5, 1, 16\]; it must be \[2, 5, 1, 32\]: as q", {"k": k[..., :16]})
        self.refused(ValueError, "v has shape", {"v": v[:1]})
        self.refused(ValueError, "beta has shape", {"beta": beta[..., :1]})
        self.refused(ValueError, "q has shape .* 3 axes", {"q": q[0, 0]})
        self.refused(ValueError, "last axis has stride", {"v": np.asfortranarray(v)})
        self.refused(ValueError, "v: axis 1 runs backwards", {"v": v[:, ::-1]})
        self.refused(ValueError, "v: axis 0 repeats one element", {"v": np.broadcast_to(v[:1], v.shape)})
        self.refused(TypeError, "q has dtype float64", {"q": q.astype(np.float64)})
        self.refused(TypeError, "byte order", {"q": q.astype(">f4")})
        self.refused(TypeError, "q has dtype int32; allowed: float32", {"q": q.astype(np.int32)})
        self.refused(TypeError, "q is of type list", {"q": q.tolist()})
        self.refused(TypeError, "beta is None", {"beta": None})
        self.refused(ValueError, "state has shape", {"state": self.state[:, :1]})
        self.refused(TypeError, "state has dtype float64", {"state": self.state.astype(np.float64)})
        self.refused(ValueError, "at least one row", {"state": self.state[:0]})
        locked = self.state.copy()
        locked.flags.writeable = False
        self.refused(ValueError, "state is written, and this array is read-only", {"state": locked})
        self.refused(ValueError, "out has shape", {}, out=np.empty((2, 5, 2, 16), np.float32))
        self.refused(ValueError, "qk_norm is 'l2'; allowed: None, 'add', 'clamp'", {}, qk_norm="l2")
        self.refused(ValueError, "state_src are given|state_src and state_dst are given", {"state": None}, state_src=[0, 1])
        self.refused(TypeError, "state_src has dtype float64", {}, state_src=np.array([0.0, 1.0]))
        self.refused(ValueError, "int32 is what maps hold", {}, state_src=[0, 1 << 40])
        self.refused(ValueError, r"state_src has shape \[3\]", {}, state_src=[0, 1, 1])
        self.refused(gdn.InvalidArgument, "rows of q overlap", {}, seq_start=[0, 6, 10])
        self.refused(gdn.InvalidArgument, "state_src", {}, state_src=[0, 2])
        self.refused(gdn.InvalidArgument, "state_dst", {}, state_dst=[1, 1])
        self.refused(gdn.InvalidArgument, "scale is nan", {}, scale=float("nan"))
        self.refused(gdn.InvalidArgument, "qk_norm_eps", {}, qk_norm_eps=1e-6)
        self.refused(gdn.InvalidArgument, "n_heads_v is 2 and n_heads_k is 3", {"q": np.ones((2, 5, 3, 32), np.float32),
                                                                               "k": np.ones((2, 5, 3, 32), np.float32)})
        self.refused(gdn.InvalidArgument, "overlap", {}, out=self.operands[2])
        self.refused(TypeError, "no argument 'chunk_size'", {}, chunk_size=64)

    def test_options_of_other_types(self):
        for text, named in (("context is 'cpu'; a gdn.Context is needed", {"context": "cpu"}), ("scale is 'auto'; a number is needed", {"scale": "auto"}),
                            ("qk_norm_eps is None; a number is needed", {"qk_norm_eps": None}), ("beta_factor is '2'; a number", {"beta_factor": "2"}),
                            ("n_snapshots is 2.0; an integer is needed", {"n_snapshots": 2.0}), ("stream is 's'; an address", {"stream": "s"}),
                            ("checkpoint_interval is 2.0; an integer", {"checkpoint_interval": 2.0, "checkpoints": [-1, -1]}),
                            ("rounding_interval is 2.5; an integer", {"rounding_interval": 2.5})):
            self.refused(TypeError, text, {}, **named)
        with self.assertRaisesRegex(TypeError, "context is 'cpu'; a gdn.Context is needed"):
            gdn.ssm_conv(np.ones((1, 2), np.float32), np.ones((2, 1), np.float32), context="cpu")
        self.refused(ValueError, "n_snapshots is 4294967297, which does not fit", {}, n_snapshots=(1 << 32) + 1)  # ctypes makes 1 of it
        self.refused(ValueError, "checkpoint_interval is 4294967298, which does not fit", {}, checkpoint_interval=(1 << 32) + 2, checkpoints=[-1, -1])
        self.refused(gdn.InvalidArgument, r"^scale is 0; set it, usually 1 / sqrt\(head_dim_k\)$", {}, scale=0)
        for index in (np.zeros(1), np.zeros(1, np.int16)):
            with self.assertRaisesRegex(TypeError, f"index has dtype {index.dtype}; allowed: int32, int64$"):
                gdn.set_rows(np.zeros((3, 4), np.float32), index, np.ones((1, 4), np.float32))

    def test_layouts_of_what_is_written(self):
        """A copy of a state would keep the results."""
        for state in (self.state.swapaxes(2, 3), np.zeros((4, 2, 32, 32), np.float32)[::-2]):
            self.refused(ValueError, "^state: .*; it is written in place, so allocate it with another layout$", {"state": state})
        self.refused(ValueError, r"^v: .*; copy it \(numpy.ascontiguousarray\)$", {"v": np.asfortranarray(self.operands[2])})

    def test_words(self):
        """The library's texts have the names of Python's arguments."""
        log = np.zeros((2, 8, 32 + 2 * 33), np.float32)
        for text, named in (("^rounding_interval is -1;", {"rounding_interval": -1}), (r"^log_row\[1\] is 5; 0 to 1 and gdn.NONE are allowed", {"log": log, "log_row": [0, 5]}),
                            (r"^base_position\[0\] is 3; 0 to 0", {"log": log, "base_position": [3, 0]}), (r"^commit\[0\] is 7; .*gdn.NONE", {"log": log, "commit": [7, 0]}),
                            (r"^parent\[0\] is 1; it is the first token .* gdn.NONE", {"log": log, "parent": [1] * 10}), ("^checkpoint_interval is 0", {"checkpoints": [-1, -1]}),
                            (r"^checkpoints\[0\].* is 9", {"checkpoints": [9, -1], "checkpoint_interval": 4}),
                            ("^lower_bound is 1 and gate_input is 'bounded'; 'bounded' needs a negative one", {"gate_input": "bounded", "lower_bound": 1.0}),
                            ("ssm_a is given and gate_input is 'log'; 'raw', 'raw_a_log' and 'bounded' use it", {"ssm_a": np.ones(2, np.float32)}),
                            ("parent are given|parent is given", {"log": log, "parent": [-1] * 10, "checkpoints": [1, 1], "checkpoint_interval": 2}),
                            (r"state_src\[0\] is 5; .*gdn.NONE and gdn.SKIP are allowed", {"state_src": [5, 0]})):
            with self.subTest(text):
                self.refused(gdn.InvalidArgument, text, {}, **named)
        from gdn import _abi, _words
        self.assertEqual(_words.in_python("qk_norm is 9; NULL, x.GDN_NUM_THREADS"), "qk_norm is '9'; None, x.GDN_NUM_THREADS")
        self.assertEqual(_words.in_python(f"inputs.qk_norm is {_abi.GDN_NORM_CLAMP}"), "qk_norm is 'clamp'")

    def test_errors_have_the_librarys_text_and_status(self):
        with self.assertRaises(gdn.InvalidArgument) as caught:
            gdn.gated_delta_net(*(x[..., :8] if x.shape[-1] == 32 else x for x in self.operands))
        self.assertEqual(str(caught.exception), "head_dim_k is 8; 16 to 256 are allowed")
        self.assertEqual(caught.exception.status, 1)
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(gdn.InvalidArgument):
            gdn.ssm_conv(np.ones((4, 2), np.float32), np.ones((2, 17), np.float32))
        with self.assertRaises(gdn.InvalidArgument):
            gdn.set_rows(np.zeros((2, 2), np.float32), np.array([2]), np.ones((1, 2), np.float32))

    def test_capability(self):
        can = gdn.capability(gdn.gated_delta_net, *self.operands, self.state)
        self.assertTrue(can.supported and can.exact and not can.emulated)
        self.assertIn(gdn.default_context().implementation.name, can.implementation)
        with self.assertRaises(ValueError):
            gdn.capability(print)
        small = [x[..., :8] if x.shape[-1] == 32 else x for x in self.operands]
        can = gdn.capability(gdn.gated_delta_net, *small, stream=None)
        self.assertEqual((can.supported, can.exact, can.reason), (False, False, "head_dim_k is 8; 16 to 256 are allowed"))


class Contexts(unittest.TestCase):
    def test_lists(self):
        found = {one.name: one for one in gdn.backends()}
        self.assertEqual(list(found), ["cpu", "reference", "cuda", "vulkan", "metal"])
        self.assertTrue(found["cpu"].built and found["cpu"].devices[0].shared_memory)
        self.assertEqual(found["cpu"].devices[0].implementations[-1].name, "scalar")
        for one in found.values():
            self.assertEqual(one.available, bool(one.devices))
            self.assertEqual(not one.available, bool(one.reason))

    def test_refusals(self):
        for kind, text, arguments in ((gdn.NotFound, "backend is 'tpu'", {"backend": "tpu"}), (gdn.NotFound, "device", {"device": 99}),
                                      (gdn.NotFound, "implementation", {"implementation": "sse9"}),
                                      (ValueError, "n_threads is -1", {"n_threads": -1}), (ValueError, "timeout is 0", {"timeout": 0}),
                                      (ValueError, "level is 'fast'; exact and exact_ftz are allowed", {"level": "fast"})):
            with self.assertRaisesRegex(kind, text):
                gdn.Context(**arguments)

    def test_levels(self):
        """Subnormal numbers, as operands and as results, stay at one level and are zeros of their sign at the other."""
        tiny, one, weight = np.float32(2.0 ** -130), np.ones((1, 1), np.float32), np.float32([[-2.0 ** -30]])
        operands = gdn_operands(np.random.default_rng(4), 2, 9, 1, 2, 32, 32)
        operands[2] *= np.float32(2.0 ** -125)
        kept, flushed = (gdn.gated_delta_net(*operands, context=gdn.Context("reference", level=level)) for level in ("exact", "exact_ftz"))
        subnormal = (np.abs(kept) < 2.0 ** -126) & (kept != 0)
        self.assertTrue(subnormal.any() and same(kept, gdn.gated_delta_net(*operands)))
        self.assertTrue((flushed[np.abs(kept) < 2.0 ** -130] == 0).all() and not ((np.abs(flushed) < 2.0 ** -126) & (flushed != 0)).any())
        found = 0
        for device in (device for backend in gdn.backends() for device in backend.devices):
            for implementation in device.implementations:
                given = dict(backend=device.backend, device=device.number, implementation=implementation.name)
                self.assertEqual("exact" in implementation.levels, implementation.exact)
                if "exact_ftz" not in implementation.levels:
                    with self.assertRaises(gdn.Unsupported):
                        gdn.Context(**given, level="exact_ftz")
                elif device.shared_memory:
                    with self.subTest(**given), gdn.Context(**given, level="exact_ftz") as flush, gdn.Context(**given) as keep:
                        found += 1
                        self.assertEqual((flush.level, keep.level, gdn.default_context().level), ("exact_ftz", "exact", "exact"))
                        self.assertIn("exact_ftz", repr(flush))
                        for x in (tiny * one, np.float32(2.0 ** -100) * one):  # an operand that is subnormal, and a result
                            w = one if x < 2.0 ** -126 else weight
                            self.assertTrue(same(gdn.ssm_conv(x, w, context=keep), x * w) and (x * w)[0, 0] != 0)
                            self.assertTrue(same(gdn.ssm_conv(x, w, context=flush), np.float32([[np.copysign(0, w[0, 0])]])))
                        self.assertTrue(same(gdn.gated_delta_net(*operands, context=flush), flushed))
                        self.assertTrue(same(gdn.gated_delta_net(*operands, context=keep), kept))
                        self.assertEqual(tiny * np.float32(1), tiny)  # this thread's own arithmetic is as it was
        self.assertGreaterEqual(found, 2)  # the reference, and an implementation of the CPU
        self.assertIn("exact_ftz", gdn.Context(level="exact_ftz").implementation.levels)

    def test_log(self):
        lines = []
        with gdn.Context(log=lambda level, message: lines.append((level, message))) as context:
            operands = gdn_operands(np.random.default_rng(1), 1, 1, 1, 1, 16, 16)
            gdn.gated_delta_net(*operands, context=context)
        for level, message in lines:
            self.assertIn(level, ("error", "warning", "info", "debug"))
            self.assertIsInstance(message, str)

    def test_closed(self):
        context = gdn.Context("reference")
        memory = context.empty((2, 3))
        context.close()
        context.close()
        self.assertIn("closed", repr(context))
        for use in (context.poll, memory.numpy, lambda: context.empty(1)):
            with self.assertRaisesRegex(ValueError, "closed"):
                use()

    def test_shapes_without_memory(self):
        with gdn.Context("reference") as context:
            for shape in (-1, (2, -3), (-2, -3), (1 << 32, 1 << 32), ((1 << 62) + 8,)):  # bytes below 0, or a small number mod 2^64
                with self.assertRaisesRegex(ValueError, "less than 2\\^63 bytes"):
                    context.empty(shape)

    def test_arrays_of_a_context(self):
        with gdn.Context() as context, gdn.Context("reference") as other:
            source = np.arange(12, dtype=np.float32).reshape(3, 4)
            held = context.array(source[:, ::2])
            self.assertTrue(same(held.numpy(), np.ascontiguousarray(source[:, ::2])))
            with self.assertRaisesRegex(ValueError, "source has shape"):
                held.write(source)
            with self.assertRaisesRegex(ValueError, "x is of"):
                gdn.ssm_conv(held, np.ones((2, 1), np.float32), context=other)
            self.assertTrue(same(gdn.ssm_conv(held, np.ones((2, 1), np.float32), context=context), held.numpy()))

    def test_devices_without_shared_memory(self):
        devices = [device for backend in gdn.backends() for device in backend.devices if not device.shared_memory]
        if not devices:
            self.skipTest("this build of the library, or this machine, has no device with memory of its own")
        rng = np.random.default_rng(3)
        operands = gdn_operands(rng, 2, 6, 1, 2, 32, 32)
        state = np.zeros((2, 2, 32, 32), np.float32)
        out = gdn.gated_delta_net(*operands, state)
        for device in devices:
            with self.subTest(device=device.name), gdn.Context(device.backend, device.number) as context:
                with self.assertRaisesRegex(TypeError, "q is of type ndarray; on .* operands are arrays of the device"):
                    gdn.gated_delta_net(*operands, state, context=context)
                held = context.array(np.zeros_like(state))
                there = [context.array(x) for x in operands]
                got = gdn.gated_delta_net(*there, held, state_src=context.array(np.array([-1, 1], np.int32)), context=context)
                self.assertTrue(same(got.numpy(), out) and same(held.numpy(), state))
                gdn.gated_delta_net(*there, held, state_src=context.array(np.array([9, 9], np.int32)), context=context)
                with self.assertRaises(gdn.BadMap):
                    context.synchronize()


class Threads(unittest.TestCase):
    def test_many_threads_on_one_context(self):
        operands = gdn_operands(np.random.default_rng(5), 1, 40, 2, 2, 64, 64)
        want = gdn.gated_delta_net(*operands)
        wrong = []

        def work(channels):
            for _ in range(5):
                if not same(gdn.gated_delta_net(*operands), want):
                    wrong.append("bits")
                try:  # the text is the thread's own
                    gdn.ssm_conv(np.ones((1, channels), np.float32), np.ones((channels, 20 + channels), np.float32))
                except gdn.InvalidArgument as error:
                    if str(20 + channels) not in str(error):
                        wrong.append(str(error))
        threads = [threading.Thread(target=work, args=(channels,)) for channels in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_gil_is_released(self):
        """A thread in a call does not keep others from running: this one counts while the call lasts. Where the machine is
        so busy that it does not come to it, the call is made longer."""
        reference = gdn.Context("reference")
        counted = 0
        for tokens in (2000, 8000, 32000):
            operands = gdn_operands(np.random.default_rng(6), 1, tokens, 1, 1, 64, 64)
            running, done = threading.Event(), threading.Event()

            def work():
                running.set()
                gdn.gated_delta_net(*operands, context=reference)
                done.set()
            thread = threading.Thread(target=work)
            thread.start()
            running.wait()
            time.sleep(0.005)
            while not done.is_set():
                counted += 1
                time.sleep(0.0005)
            thread.join()
            if counted > 3:
                return
        self.fail(f"this thread ran {counted} times while the other one was in the library")

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_fork(self):
        operands = gdn_operands(np.random.default_rng(7), 1, 20, 2, 2, 64, 64)
        before = gdn.Context(n_threads=2)
        want = gdn.gated_delta_net(*operands, context=before)
        mine = gdn.default_context()
        child = os.fork()
        if not child:
            status = 1
            try:
                there = gdn.default_context()
                status = 0 if (there is not mine and same(gdn.gated_delta_net(*operands), want)
                               and same(gdn.gated_delta_net(*operands, context=before), want)) else 2
                before.close()
            finally:
                os._exit(status)
        for _ in range(1200):  # a hanging child is a failure, not a hanging test
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            time.sleep(0.1)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            self.fail("the child hangs")
        self.assertEqual(status, 0)
        self.assertIs(gdn.default_context(), mine)
        before.close()


if __name__ == "__main__":
    unittest.main()

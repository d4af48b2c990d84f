"""Arrays of other libraries on CUDA devices, by DLPack: the bits of the CPU, on the stream that is given. All of it emulated."""
import unittest

import numpy as np

import gdn
from gdn import _cuda
from support import Driver, OnDevice, devices, zeros
from cases import gdn_operands, same


class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.n_devices = devices()
        cls.context = gdn.Context("cuda")

    def setUp(self):
        self.operands = gdn_operands(np.random.default_rng(1), 2, 5, 1, 2, 32, 32)
        self.state = zeros((2, 2, 32, 32))
        self.out = gdn.gated_delta_net(*self.operands, self.state)

    def rule(self, change=(), **named):
        given = dict(zip(("q", "k", "v", "g", "beta"), map(OnDevice, self.operands)), context=self.context, stream=1)
        given.update(state=OnDevice(zeros(self.state.shape)), out=OnDevice(zeros(self.out.shape)))
        given.update(change, **named)
        gdn.gated_delta_net(**given)
        return given

    def test_bits_and_places(self):
        given = self.rule()
        self.context.synchronize(1)
        self.assertTrue(same(given["out"].array, self.out) and same(given["state"].array, self.state))
        wide = zeros((2, 5, 2, 96))
        wide[..., 32:64] = self.operands[2]
        given = self.rule({"v": OnDevice(wide[..., 32:64])}, state_src=OnDevice(np.array([-1, 1], np.int32)))
        self.context.synchronize(1)
        self.assertTrue(same(given["out"].array, self.out))
        managed = self.rule({"v": OnDevice(self.operands[2], kind=13)})
        self.context.synchronize(1)
        self.assertTrue(same(managed["out"].array, self.out))

    def test_conv_and_rows(self):
        rng = np.random.default_rng(2)
        x, weight = rng.standard_normal((2, 7, 24), dtype=np.float32), rng.standard_normal((24, 4), dtype=np.float32)
        want, out = gdn.ssm_conv(x, weight, silu=True), OnDevice(zeros(x.shape))
        gdn.ssm_conv(OnDevice(x), OnDevice(weight), out=out, silu=True, context=self.context, stream=1)
        source, index = rng.standard_normal((3, 8), dtype=np.float32), np.array([4, 0, 2])
        rows, there = zeros((5, 8)), OnDevice(zeros((5, 8)))
        gdn.set_rows(rows, index, source)
        gdn.set_rows(there, OnDevice(index), OnDevice(source), context=self.context, stream=1)
        self.context.synchronize(1)
        self.assertTrue(same(out.array, want) and same(there.array, rows))

    def test_the_call_is_on_the_stream_that_is_given(self):
        """The emulator runs a stream's work when a caller waits for that stream, and not when one waits for another."""
        driver = Driver()
        mine, other = driver.stream(), driver.stream()
        given = self.rule(stream=mine)
        driver.wait(other)
        self.context.synchronize()
        self.assertFalse(given["out"].array.any())
        driver.wait(mine)
        self.assertTrue(same(given["out"].array, self.out))
        self.assertEqual({one for name in ("q", "state", "out") for one in given[name].streams}, {-1})
        with self.assertRaisesRegex(gdn.InvalidArgument, "stream is"):
            self.rule(stream=id(self))

    def test_the_runtimes_default_stream(self):
        self.assertEqual((_cuda.stream(0), _cuda.stream(1), _cuda.stream(2), _cuda.stream(4096)), (1, 1, 2, 4096))
        given = self.rule(stream=_cuda.stream(0))
        self.context.synchronize()  # the library's own stream does not wait for it
        self.assertFalse(given["out"].array.any())
        Driver().wait(0)
        self.assertTrue(same(given["out"].array, self.out))

    def test_refusals(self):
        self.assertEqual(self.n_devices, 2)
        for name in ("q", "k", "v", "g", "beta", "state", "out"):
            array = dict(zip(("q", "k", "v", "g", "beta"), self.operands), state=self.state, out=self.out)[name]
            with self.assertRaisesRegex(TypeError, f"^{name} lies on CUDA device 1; the call is on <gdn.Context cuda:0"):
                self.rule({name: OnDevice(array, 1)})
            with self.assertRaisesRegex(TypeError, f"^{name} is of type ndarray; on <gdn.Context cuda:0"):
                self.rule({name: array})
            with self.assertRaisesRegex(TypeError, f"^{name} lies in host memory; the call is on <gdn.Context cuda:0"):
                self.rule({name: OnDevice(array, kind=1)})
        with self.assertRaisesRegex(TypeError, "q lies on CUDA device 0; the call is on <gdn.Context cpu"):
            gdn.gated_delta_net(OnDevice(self.operands[0]), *self.operands[1:])
        with self.assertRaisesRegex(TypeError, "q lies on a device of DLPack's type 7"):
            gdn.gated_delta_net(OnDevice(self.operands[0], kind=7), *self.operands[1:])
        with self.assertRaisesRegex(TypeError, "seq_start is of type"):
            self.rule(seq_start=[0, 5, 10])
        with self.assertRaisesRegex(TypeError, "state is None; on"):
            self.rule({"state": None})

    def test_other_devices(self):
        with gdn.Context("cuda", 1) as there:
            moved = {name: OnDevice(array, 1) for name, array in zip(("q", "k", "v", "g", "beta"), self.operands)}
            given = self.rule({**moved, "state": OnDevice(zeros(self.state.shape), 1), "out": OnDevice(zeros(self.out.shape), 1)},
                              context=there)
            there.synchronize(1)
            self.assertTrue(same(given["out"].array, self.out))

    def test_contexts_of_a_runtime(self):
        self.assertEqual(_cuda.why_not(), "")
        first = _cuda.device(0)
        self.assertIs(_cuda.device(0), first)
        self.assertEqual((first.context.backend, first.context.device.number, _cuda.device(1).context.device.number), ("cuda", 0, 1))
        with self.assertRaises(gdn.NotFound):
            _cuda.device(2)

    def test_maps_that_are_bad(self):
        self.rule(state_src=OnDevice(np.array([9, 9], np.int32)))
        with self.assertRaises(gdn.BadMap):
            self.context.synchronize(1)


if __name__ == "__main__":
    unittest.main()

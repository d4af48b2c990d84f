"""gdn.torch with tensors that say they are on a CUDA device, on the emulated driver: no PyTorch for CUDA is needed, and none is
tested. They are a subclass's, whose memory is the host's, as the emulator's devices' is."""
import unittest
import unittest.mock

import numpy as np
import torch

import gdn
import gdn.torch as G
from gdn import _cuda
from gdn.torch import _conv, _fla, _operators
from support import Driver, devices
from cases import gdn_operands


class There(torch.Tensor):
    """A tensor of cuda:0; so is whatever is computed from it."""

    number = 0

    @property
    def device(self):
        return torch.device("cuda", self.number)


class Elsewhere(There):
    number = 1


def same(a, b):
    a, b = (x.as_subclass(torch.Tensor) for x in (a, b))
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


class Tensors(unittest.TestCase):
    def setUp(self):
        self.assertEqual(devices(), 2)
        self.driver = Driver()
        self.stream = self.driver.stream()
        self.asked = []

        def current(device):
            self.asked.append(device)
            return unittest.mock.Mock(cuda_stream=self.stream)

        # PyTorch's allocator for a device hands memory out again in the stream's order; the host's does at once.
        strided, kept = _operators.strided, []

        def keeping(*view):
            kept.append(view)
            return strided(*view)

        # PyTorch's dispatcher knows where these tensors really are; the operators' own functions do not ask it.
        for module, name, value in ((torch.cuda, "current_stream", current), (torch.cuda, "get_device_capability", lambda number: (7, 5)),
                                    (_operators, "strided", keeping), (_fla, "gated_delta_net", G.gated_delta_net._init_fn),
                                    (_conv, "ssm_conv", G.ssm_conv._init_fn)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.operands = [torch.from_numpy(x) for x in gdn_operands(np.random.default_rng(1), 2, 6, 1, 2, 32, 48)]
        self.state = torch.randn(2, 2, 32, 48) * 0.1

    def there(self, *tensors, kind=There):
        return [None if x is None else x.as_subclass(kind) for x in tensors]

    def test_rule(self):
        for dtype in (torch.float32, torch.bfloat16):
            for state in (None, self.state):
                ops = [x.to(dtype) for x in self.operands]
                want = G.chunk_gated_delta_rule(*ops, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)
                got = G.chunk_gated_delta_rule(*self.there(*ops), initial_state=self.there(state)[0], output_final_state=True,
                                               use_qk_l2norm_in_kernel=True)
                self.assertFalse(same(got[0], want[0]))  # nobody has waited
                self.driver.wait(self.stream)
                self.assertTrue(same(got[0], want[0]) and same(got[1], want[1]))
                self.assertIsInstance(got[1], There)
        self.assertEqual(set(self.asked), {torch.device("cuda", 0)})

    def test_packed(self):
        ops = [x[:1] for x in self.operands]
        starts = torch.tensor([0, 2, 2, 6])
        state = torch.randn(3, 2, 32, 48) * 0.1
        for initial in (None, state):
            want = G.fused_recurrent_gated_delta_rule(*ops[:4], beta=ops[4], initial_state=initial, output_final_state=True, cu_seqlens=starts)
            q, k, v, g, beta, start, before = self.there(*ops, starts, initial)
            got = G.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, initial_state=before, output_final_state=True, cu_seqlens=start)
            self.driver.wait(self.stream)
            self.assertTrue(same(got[0], want[0]) and same(got[1], want[1]))

    def test_conv(self):
        x, weight, bias = torch.randn(2, 24, 11), torch.randn(24, 4), torch.randn(24)
        before = torch.randn(2, 24, 3)
        for initial in (None, before):
            want = G.causal_conv1d_fn(x, weight, bias, initial_states=initial, activation="silu")
            there = self.there(x, weight, bias, initial)
            got = G.causal_conv1d_fn(*there[:3], initial_states=there[3], activation="silu")
            self.driver.wait(self.stream)
            self.assertTrue(same(got, want))

    def test_the_default_stream(self):
        self.stream = 0
        want, _ = G.chunk_gated_delta_rule(*self.operands)
        got, _ = G.chunk_gated_delta_rule(*self.there(*self.operands))
        _cuda.device(0).context.synchronize()  # the library's own stream
        self.assertFalse(same(got, want))
        self.driver.wait(0)
        self.assertTrue(same(got, want))

    def test_numbers_leave_out_old_devices(self):
        with unittest.mock.patch.object(torch.cuda, "get_device_capability", lambda number: (7, 0)):
            self.driver = Driver(0)
            got, _ = G.chunk_gated_delta_rule(*self.there(*self.operands, kind=Elsewhere))  # the library's number 0
            self.driver.wait(self.stream)
            self.assertTrue(same(got, G.chunk_gated_delta_rule(*self.operands)[0]))

    def test_refusals(self):
        q, k, v, g, beta = self.there(*self.operands)
        rule = G.chunk_gated_delta_rule
        with self.assertRaisesRegex(ValueError, "k is on cuda:1, and q on cuda:0; all operands have to be on one device"):
            rule(q, *self.there(self.operands[1], kind=Elsewhere), v, g, beta)
        with self.assertRaisesRegex(ValueError, "initial_state is on cpu, and q on cuda:0"):
            rule(q, k, v, g, beta, initial_state=self.state)
        with self.assertRaisesRegex(ValueError, "weight is on cpu, and x on cuda:0"):
            G.causal_conv1d_fn(self.there(torch.randn(2, 8, 5))[0], torch.randn(8, 4))
        with self.assertRaisesRegex(TypeError, "^v lies in host memory; the call is on <gdn.Context cuda:0"):
            _fla.gated_delta_net(q, k, self.operands[2], g, beta)
        with self.assertRaisesRegex(TypeError, "^k lies on CUDA device 1"):
            _fla.gated_delta_net(q, *self.there(self.operands[1], kind=Elsewhere), v, g, beta)
        with unittest.mock.patch.object(_cuda, "why_not", lambda: "no CUDA driver on this machine"):
            with self.assertRaisesRegex(NotImplementedError, "q is on cuda:0, where this libgdn cannot run: no CUDA driver"):
                rule(q, k, v, g, beta)

    def test_a_bad_map_is_reported_by_a_later_call(self):
        q, k, v, g, beta = self.there(*(x[:1] for x in self.operands))
        G.chunk_gated_delta_rule(q, k, v, g, beta, cu_seqlens=self.there(torch.tensor([0, 9]))[0])
        self.driver.wait(self.stream)
        with self.assertRaises(gdn.BadMap):
            G.chunk_gated_delta_rule(q, k, v, g, beta)


if __name__ == "__main__":
    unittest.main()

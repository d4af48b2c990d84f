"""The gradients of gdn.torch, beside those of a recurrence in float64, token by token. The forward pass has the bits that it has without
gradients.

    python -m unittest test_gradients                    40 draws of the rule's options, 40 of the convolution's
    GDN_DRAWS=1000 python -m unittest test_gradients     as many as that; GDN_DRAW=123 repeats one
"""
import os
import random
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import gdn.torch as G

torch.set_num_threads(1)
DRAWS, ONE = int(os.environ.get("GDN_DRAWS", 40)), os.environ.get("GDN_DRAW")
SEEDS = range(DRAWS) if ONE is None else [int(ONE)]
BOUND = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 5e-3}


def same(x, y):
    return x.dtype is y.dtype and torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def recurrence(q, k, v, g, beta, initial_state=None, cu_seqlens=None, a_log=None, dt_bias=None, scale=None, qk_norm=False, beta_logit=False,
               beta_factor=1.0, state_v_first=False, head_map="grouped", lower_bound=0.0):
    """gdn.torch.gated_delta_net, token by token."""
    heads, n_keys = v.shape[2], q.shape[2]
    of_key = [h // (heads // n_keys) if head_map == "grouped" else h % n_keys for h in range(heads)]
    scale = q.shape[3] ** -0.5 if scale is None else scale
    per_head = lambda x: x.reshape(heads, *[1] * (g.dim() - 3)) if g.dim() == 4 else x.reshape(heads)  # noqa: E731
    n = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    out, finals = torch.zeros(v.shape, dtype=torch.float64), []
    for s in range(n):
        begin, end = (0, q.shape[1]) if cu_seqlens is None else (int(cu_seqlens[s]), int(cu_seqlens[s + 1]))
        row = s if cu_seqlens is None else 0
        state = torch.zeros(heads, q.shape[3], v.shape[3], dtype=torch.float64) if initial_state is None else initial_state[s]
        state = state.mT if state_v_first and initial_state is not None else state
        for t in range(begin, end):
            q_t, k_t = (x[row, t][of_key] for x in (q, k))
            if qk_norm:
                q_t, k_t = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q_t, k_t))
            log = g[row, t]
            if lower_bound or a_log is not None:
                shifted = log if dt_bias is None else log + dt_bias.reshape(log.shape)
                if lower_bound:
                    log = lower_bound * torch.sigmoid(shifted if a_log is None else per_head(a_log).exp() * shifted)
                else:
                    log = -per_head(a_log).exp() * F.softplus(shifted, threshold=1e9)
            b = beta_factor * (beta[row, t].sigmoid() if beta_logit else beta[row, t])
            state = state * log.exp().reshape(heads, -1, 1)
            delta = b.unsqueeze(1) * (v[row, t] - torch.einsum("hkv,hk->hv", state, k_t))
            state = state + k_t.unsqueeze(2) * delta.unsqueeze(1)
            out = out.index_put((torch.tensor(row), torch.tensor(t)), scale * torch.einsum("hkv,hk->hv", state, q_t))
        finals.append(state.mT if state_v_first else state)
    return out, torch.stack(finals) if finals else torch.zeros(0, *((heads, v.shape[3], q.shape[3]) if state_v_first else
                                                                      (heads, q.shape[3], v.shape[3])), dtype=torch.float64)


def convolution(x, weight, bias=None, initial_states=None, cu_seqlens=None, silu=False):
    """gdn.torch.ssm_conv, a sequence at a time."""
    width = weight.shape[1]
    n = x.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    out = torch.zeros(x.shape, dtype=torch.float64)
    for s in range(n):
        row, some = (s, slice(None)) if cu_seqlens is None else (0, slice(int(cu_seqlens[s]), int(cu_seqlens[s + 1])))
        first = torch.zeros(width - 1, x.shape[2], dtype=torch.float64) if initial_states is None else initial_states[s]
        known = torch.cat((first, x[row, some]))
        y = sum((known[at:len(known) - width + 1 + at] * weight[:, at] for at in range(width)), 0 if bias is None else bias)
        if len(known) >= width:
            out = torch.cat((out.flatten(0, 1)[:row * x.shape[1] + (some.start or 0)], F.silu(y) if silu else y,
                             out.flatten(0, 1)[row * x.shape[1] + (some.start or 0) + len(known) - width + 1:])).view(x.shape)
    return out


class Case(unittest.TestCase):
    def near(self, got, want, dtype, what):
        error, size = (got.double() - want).norm(), want.norm()
        self.assertTrue(got.isfinite().all(), what)
        self.assertLessEqual(error, BOUND[dtype] * size + 1e-12, (what, (error / size).item()))

    def compare(self, function, oracle, tensors, options, what, given=None, bound=None):
        """Outputs' bits with and without gradients, and gradients of those tensors that have requires_grad."""
        given = options if given is None else given
        got = function(**tensors, **options)
        with torch.no_grad():
            alone = function(**tensors, **options)
        results, others = (x if isinstance(x, tuple) else (x,) for x in (got, alone))
        pairs = [(x, y) for x, y in zip(results, others) if x is not None]
        for x, y in pairs:
            self.assertTrue(same(x.detach().contiguous(), y.contiguous()), what)
        wanted = {name: x for name, x in tensors.items() if isinstance(x, torch.Tensor) and x.requires_grad}
        exact = {name: x.detach().double().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                 for name, x in tensors.items()}
        theirs = oracle(**exact, **given)
        theirs = theirs if isinstance(theirs, tuple) else (theirs,)
        use = [(x, y, torch.randn(x.shape).to(x.dtype)) for x, y in zip(results, theirs) if x is not None and x.requires_grad]
        ours = torch.autograd.grad([x for x, _, _ in use], list(wanted.values()), [d for _, _, d in use])
        known = [(y, d.double()) for _, y, d in use if y.requires_grad]  # without sequences nothing is
        theirs = torch.autograd.grad([y for y, _ in known], [exact[name] for name in wanted], [d for _, d in known],
                                     allow_unused=True) if known else [None] * len(wanted)
        for (name, x), d, e in zip(wanted.items(), ours, theirs):
            self.assertEqual((d.shape, d.dtype), (x.shape, x.dtype), (name, what))
            self.near(d, torch.zeros(x.shape, dtype=torch.float64) if e is None else e, x.dtype if bound is None else bound, (name, what))
        return dict(zip(wanted, ours))


def cuts(draw, tokens):
    """Bounds of packed sequences: some empty, tokens before and after them."""
    bounds = sorted(draw.choices(range(tokens + 1), k=draw.choice((1, 2, 4, 7))))
    return torch.tensor(bounds if draw.random() < 0.5 else [0, *bounds, tokens], dtype=draw.choice((torch.int32, torch.int64)))


def drawn(seed):
    """(tensors, options) of a call of gated_delta_net."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    batch, tokens = draw.choice(((1, 1), (2, 3), (1, 17), (2, 64), (1, 65), (1, 130), (2, 40)))
    keys, repeat = draw.choice((1, 2)), draw.choice((1, 1, 2, 3))
    heads, dim, dim_v = keys * repeat, draw.choice((16, 32, 64)), draw.choice((16, 48))
    dtype = draw.choice((torch.float32,) * 3 + (torch.bfloat16, torch.float16))
    cu_seqlens = None
    if draw.random() < 0.4:
        batch, cu_seqlens = 1, cuts(draw, tokens)
    n = batch if cu_seqlens is None else len(cu_seqlens) - 1
    options = {"qk_norm": draw.random() < 0.6, "beta_logit": draw.random() < 0.4, "beta_factor": draw.choice((1.0, 1.0, 2.0)),
               "state_v_first": draw.random() < 0.4, "head_map": draw.choice(("grouped", "tiled")), "scale": draw.choice((None, 0.3))}
    channel, gate = draw.random() < 0.5, draw.choice(("plain", "plain", "strong", "raw", "bounded", "bounded alone"))
    q, k, v = torch.randn(batch, tokens, keys, dim), torch.randn(batch, tokens, keys, dim), torch.randn(batch, tokens, heads, dim_v)
    if not options["qk_norm"]:
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    g = torch.randn(batch, tokens, heads, *[dim] * channel)
    a_log = dt_bias = None
    if gate in ("plain", "strong"):
        g = -g.exp() * draw.choice((0.01, 0.3))
        if gate == "strong":
            g = torch.where(torch.rand(g.shape) < 0.2, g * 200, g)
    elif gate != "bounded alone":
        a_log, dt_bias = torch.rand(heads), torch.randn(g.shape[2:]) if draw.random() < 0.8 else None
    if gate.startswith("bounded"):
        options["lower_bound"] = draw.choice((-5.0, -1.5))
        dt_bias = torch.randn(g.shape[2:]) if draw.random() < 0.5 else None
    beta = torch.randn(batch, tokens, heads) if options["beta_logit"] else torch.rand(batch, tokens, heads) / options["beta_factor"]
    initial = None
    if draw.random() < 0.6:
        initial = torch.randn(n, heads, *((dim_v, dim) if options["state_v_first"] else (dim, dim_v)))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    if draw.random() < 0.3:
        g, beta = g.to(dtype), beta.to(dtype)
    tensors = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial, "a_log": a_log, "dt_bias": dt_bias}
    some = draw.random() < 0.3
    for x in tensors.values():
        if x is not None and (not some or draw.random() < 0.4):
            x.requires_grad_()
    if not any(x is not None and x.requires_grad for x in tensors.values()):
        v.requires_grad_()
    return {**tensors, "cu_seqlens": cu_seqlens}, options


class Rule(Case):
    def test_draws(self):
        for seed in SEEDS:
            tensors, options = drawn(seed)
            what = (seed, {name: (list(x.shape), x.dtype) for name, x in tensors.items() if x is not None}, options)
            self.compare(G.gated_delta_net, recurrence, tensors, options, what, bound=tensors["q"].dtype)

    def test_strong_decays(self):
        """Decays of exp(-300) and of 0 between tokens with none: nothing overflows, and weak decays behind strong ones are exact."""
        for channel in (False, True):
            torch.manual_seed(5)
            q, k, v = torch.randn(1, 150, 1, 32), F.normalize(torch.randn(1, 150, 1, 32), dim=-1), torch.randn(1, 150, 1, 16)
            g = -torch.rand(1, 150, 1, *[32] * channel) * 1e-3
            g[:, 20::25] = -300
            g[:, 70] = g[:, 128] = -torch.inf  # the second at a chunk's begin
            tensors = {"q": q, "k": k, "v": v, "g": g, "beta": torch.rand(1, 150, 1), "initial_state": torch.randn(1, 1, 32, 16)}
            for x in tensors.values():
                x.requires_grad_()
            self.compare(G.gated_delta_net, recurrence, tensors, {}, ("all", channel))

    def test_packed_is_alone(self):
        """The gradients of a packed sequence are those of the sequence alone, whatever lies beside it or outside of all."""
        torch.manual_seed(6)
        options = {"qk_norm": True}
        q, k, v = torch.randn(1, 200, 2, 16), torch.randn(1, 200, 2, 16), torch.randn(1, 200, 4, 16)
        g, beta, d, bounds = -torch.rand(1, 200, 4), torch.rand(1, 200, 4), torch.randn(1, 200, 4, 16), [7, 80, 80, 81, 190]
        for x in (q, k, v, g, beta, d):
            x[:, :7] = x[:, 190:] = torch.nan
        tensors = [x.requires_grad_() for x in (q, k, v, g, beta)]
        out, _ = G.gated_delta_net(*tensors, cu_seqlens=torch.tensor(bounds), **options)
        packed = torch.autograd.grad(out, tensors, d)
        for begin, end in zip(bounds, bounds[1:]):
            some = [x.detach()[:, begin:end].requires_grad_() for x in tensors]
            alone = torch.autograd.grad(G.gated_delta_net(*some, **options)[0], some, d[:, begin:end])
            for x, y in zip(packed, alone):
                self.assertTrue(torch.allclose(x[:, begin:end], y, rtol=1e-4, atol=1e-6), (begin, end))
        for x in packed:
            self.assertFalse(x[:, :7].any() or x[:, 190:].any())

    def test_functions(self):
        """The functions of flash-linear-attention, with their names of the options."""
        torch.manual_seed(7)
        for name, channel, options, given in (
                ("chunk_gated_delta_rule", False, {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True},
                 {"qk_norm": True}),
                ("fused_recurrent_gated_delta_rule", False, {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True,
                                                             "use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": True},
                 {"qk_norm": True, "beta_logit": True, "beta_factor": 2.0}),
                ("chunk_kda", True, {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "lower_bound": -5.0},
                 {"qk_norm": True, "lower_bound": -5.0}),
                ("fused_recurrent_kda", True, {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "state_v_first": True},
                 {"qk_norm": True, "state_v_first": True})):
            tensors = {"q": torch.randn(2, 20, 2, 16), "k": torch.randn(2, 20, 2, 16), "v": torch.randn(2, 20, 4, 16),
                       "g": torch.randn(2, 20, 4, *[16] * channel), "beta": torch.rand(2, 20, 4), "initial_state": torch.randn(2, 4, 16, 16),
                       "A_log": torch.rand(4), "dt_bias": torch.randn(64 if channel else 4)}
            for x in tensors.values():
                x.requires_grad_()
            oracle = lambda A_log, **others: recurrence(a_log=A_log, **others)  # noqa: E731
            self.compare(getattr(G, name), oracle, tensors, {**options, "output_final_state": True}, name, given)


class Convolution(Case):
    def test_draws(self):
        for seed in SEEDS:
            draw = random.Random(seed)
            torch.manual_seed(seed)
            batch, tokens = draw.choice((1, 2)), draw.choice((0, 1, 2, 5, 70))
            channels, width = draw.choice((1, 8, 33)), draw.choice((1, 2, 4, 7))
            cu_seqlens = None
            if draw.random() < 0.5:
                batch, cu_seqlens = 1, cuts(draw, tokens)
            n = batch if cu_seqlens is None else len(cu_seqlens) - 1
            dtype = draw.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
            tensors = {"x": torch.randn(batch, tokens, channels).to(dtype), "weight": torch.randn(channels, width).to(dtype),
                       "bias": draw.choice((None, torch.randn(channels).to(dtype))),
                       "initial_states": draw.choice((None, torch.randn(n, width - 1, channels).to(dtype)))}
            some = [name for name, x in tensors.items() if x is not None]
            for name in draw.choice((some, draw.sample(some, 1))):
                tensors[name].requires_grad_()
            tensors["cu_seqlens"] = cu_seqlens
            what = (seed, {name: (list(x.shape), x.dtype) for name, x in tensors.items() if x is not None})
            self.compare(G.ssm_conv, convolution, tensors, {"silu": draw.random() < 0.5}, what)

    def test_functions(self):
        """The functions of causal_conv1d: seq_idx with padding, final states, and states in place."""
        torch.manual_seed(8)
        weight, bias = torch.randn(8, 4), torch.randn(8)
        numbers = torch.tensor([[0, 0, 0, 1, 1, 2], [5, 5, -1, 5, 5, 5]])[:, :6]
        numbers[1, 3:] = 6

        def parts(x, weight, bias, initial_states, activation):
            done = []
            for row in range(2):
                bounds = [0, 3, 5, 6] if not row else [0, 2, 3, 6]
                some = [convolution(x[row:row + 1, :, a:b].mT, weight, bias, initial_states[row:row + 1].mT if not a else None, silu=True)
                        for a, b in zip(bounds, bounds[1:])]
                done.append(torch.cat([y * (row == 0 or at != 1) for at, y in enumerate(some)], 1))
            return torch.cat(done).mT
        tensors = {"x": torch.randn(2, 8, 6), "weight": weight, "bias": bias, "initial_states": torch.randn(2, 8, 3)}
        for x in tensors.values():
            x.requires_grad_()
        self.compare(lambda **given: G.causal_conv1d_fn(**given, seq_idx=numbers), parts, tensors, {"activation": "silu"}, "seq_idx")

        def final(x, weight, bias, initial_states, activation):
            out = convolution(x.mT, weight, bias, initial_states.mT, silu=True).mT
            return out, torch.cat((initial_states, x), 2)[:, :, -3:]
        self.compare(lambda **given: G.causal_conv1d_fn(**given, return_final_states=True), final, tensors, {"activation": "silu"}, "final")

        for length in (3, 5):
            def update(x, weight, bias, initial_states):
                state = initial_states.clone()
                return G.causal_conv1d_update(x, state, weight, bias), state

            def updated(x, weight, bias, initial_states):
                known = torch.cat((initial_states, x), 2)
                return convolution(x.mT, weight, bias, initial_states[..., -3:].mT).mT, known[..., -length:]
            tensors["initial_states"] = torch.randn(2, 8, length, requires_grad=True)
            self.compare(update, updated, tensors, {}, ("update", length))
        # A state that the call could read as it lies.
        one = {"x": torch.randn(2, 1, 1), "weight": torch.randn(1, 2), "initial_states": torch.randn(2, 1, 1)}
        for x in one.values():
            x.requires_grad_()

        def update_one(x, weight, initial_states):
            state = initial_states.clone()
            return G.causal_conv1d_update(x, state, weight), state
        self.compare(update_one, lambda x, weight, initial_states: (initial_states * weight[:, :1] + x * weight[:, 1:], x), one, {}, "one")


def layer(x, weight, a_log, dt_bias):
    """A gated-delta layer without its projections: x [B, T, channels]."""
    mixed = G.causal_conv1d_fn(x.mT, weight, activation="silu").mT
    q, k, v, g, beta = mixed.split((32, 32, 64, 4, 4), -1)
    out, _ = G.chunk_gated_delta_rule(q.unflatten(-1, (2, 16)), k.unflatten(-1, (2, 16)), v.unflatten(-1, (4, 16)), g, beta,
                                      use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=a_log, dt_bias=dt_bias)
    return out


def layers_tensors():
    torch.manual_seed(9)
    return [x.requires_grad_() for x in (torch.randn(2, 70, 136), torch.randn(136, 4), torch.rand(4), torch.randn(4))]


def small():
    """q, k, v, g and beta of six tokens."""
    torch.manual_seed(11)
    return torch.randn(1, 6, 1, 16), torch.randn(1, 6, 1, 16), torch.randn(1, 6, 2, 16), -torch.rand(1, 6, 2), torch.rand(1, 6, 2)


class Parameters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.weight, self.a_log, self.dt_bias = (torch.nn.Parameter(x) for x in (torch.randn(136, 4), torch.rand(4), torch.randn(4)))

    def forward(self, x):
        return layer(x, self.weight, self.a_log, self.dt_bias)


def one_of_two(rank, folder, xs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(Parameters())
    model(xs[rank]).square().sum().backward()
    torch.save([p.grad for p in model.parameters()], f"{folder}/{rank}")
    dist.destroy_process_group()


class Model(Case):
    def test_qwen3_next(self):
        """Under use(): logits with gradients are those without, and each parameter's gradient is close to transformers' own."""
        import gdn.transformers  # here, since the processes of another test need not load it
        from models import model
        one, tokens = model("qwen3_next"), torch.randint(2, 97, (2, 90), generator=torch.Generator().manual_seed(3))

        def run():
            one.zero_grad(set_to_none=True)
            found = one(tokens, labels=tokens, use_cache=False)
            found.loss.backward()
            return found.logits.detach(), {name: p.grad for name, p in one.named_parameters() if p.grad is not None}
        _, theirs = run()
        for layers in (True, False):
            gdn.transformers.use(["qwen3_next"], layers=layers)
            self.addCleanup(gdn.transformers.undo)
            logits, ours = run()
            with torch.no_grad():
                self.assertTrue(same(logits, one(tokens, use_cache=False).logits), layers)
            gdn.transformers.undo()
            self.assertEqual(ours.keys(), theirs.keys())
            for name, x in theirs.items():
                self.assertLessEqual((ours[name] - x).norm(), 1e-4 * x.norm(), (name, layers))
            self.assertTrue(any(not same(ours[name], x) for name, x in theirs.items()), layers)


class Machinery(Case):
    def test_checkpoints(self):
        tensors = layers_tensors()
        out = layer(*tensors)
        d = torch.randn_like(out)
        want = torch.autograd.grad(out, tensors, d)
        for reentrant in (True, False):
            again = checkpoint(layer, *tensors, use_reentrant=reentrant)
            self.assertTrue(same(again, out))
            again.backward(d)
            for x, y in zip(tensors, want):
                self.assertTrue(same(x.grad, y), reentrant)
                x.grad = None

    def test_two_processes(self):
        torch.manual_seed(10)
        xs = [torch.randn(1, 30, 136) for _ in range(2)]
        alone = []
        for x in xs:
            model = Parameters()
            model(x).square().sum().backward()
            alone.append([p.grad for p in model.parameters()])
        with tempfile.TemporaryDirectory() as folder:
            processes.spawn(one_of_two, (folder, xs), 2)
            got = [torch.load(f"{folder}/{rank}") for rank in range(2)]
        for x, y, a, b in zip(*got, *alone):
            self.assertTrue(same(x, y))
            self.assertTrue(torch.allclose(x, (a + b) / 2, rtol=1e-5, atol=1e-6))

    def test_compile(self):
        tensors = layers_tensors()
        out = layer(*tensors)
        d = torch.randn_like(out)
        want = torch.autograd.grad(out, tensors, d)
        torch._dynamo.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")(*tensors)
        self.assertTrue(same(compiled, out))
        for x, y in zip(torch.autograd.grad(compiled, tensors, d), want):
            self.assertTrue(same(x, y))

        def packed(q, k, v, g, beta, state, cu_seqlens):
            return G.gated_delta_net(q, k, v, g, beta, state, cu_seqlens, qk_norm=True)
        tensors = [torch.randn(1, 20, 1, 16), torch.randn(1, 20, 1, 16), torch.randn(1, 20, 2, 16), -torch.rand(1, 20, 2, 16),
                   torch.rand(1, 20, 2), torch.randn(3, 2, 16, 16)]
        starts = torch.tensor([0, 3, 3, 20])
        for wanted in (range(6), (2,), (5, 0)):
            some = [x.detach().requires_grad_(i in wanted) for i, x in enumerate(tensors)]
            real = [x for x in some if x.requires_grad]
            want, got = (torch.autograd.grad([x.sum() for x in f(*some, starts)], real, allow_unused=True)
                         for f in (packed, torch.compile(packed, fullgraph=True, backend="aot_eager")))
            for x, y in zip(want, got):
                self.assertTrue(same(x, y))

    def test_operators_are_well_behaved(self):
        q, k, v, g, beta = (x.requires_grad_() for x in small())
        given = (torch.randn(1, 6, 2, 16), None, *(x.detach() for x in (q, k, v, g, beta)), None, torch.tensor([0, 2, 6]), None, None, None, True,
                 False, 1.0, False, "grouped", 0.0, [True, False, True, True, True, False, False, False])
        torch.library.opcheck(torch.ops.gdn.gated_delta_net_backward.default, given)
        torch.library.opcheck(torch.ops.gdn.gated_delta_net.default, (q, k, v, g, beta))
        x, weight = torch.randn(2, 5, 8, requires_grad=True), torch.randn(8, 4, requires_grad=True)
        torch.library.opcheck(torch.ops.gdn.ssm_conv.default, (x, weight, None, torch.randn(2, 3, 8), None, True))
        given = (torch.randn(2, 5, 8), x.detach(), weight.detach(), None, torch.randn(2, 3, 8), None, True, [True, True, False, True])
        torch.library.opcheck(torch.ops.gdn.ssm_conv_backward.default, given)

    def test_autocast_leaves_float32(self):
        tensors = layers_tensors()
        out = layer(*tensors)
        d = torch.randn_like(out)
        want = torch.autograd.grad(layer(*tensors), tensors, d)
        with torch.autocast("cpu", torch.bfloat16):
            for x, y in zip(torch.autograd.grad(out, tensors, d), want):
                self.assertTrue(same(x, y))

    def test_only_what_is_wanted(self):
        q, k, v, g, beta = small()
        state = torch.randn(1, 2, 16, 16)
        for x in (v, state, beta):
            x.requires_grad_()
            out, final = G.gated_delta_net(q, k, v, g, beta, state)
            (out.sum() + final.sum()).backward()
            self.assertEqual([y.grad is not None for y in (q, k, v, g, beta, state)], [y is x for y in (q, k, v, g, beta, state)])
            x.requires_grad_(False)
            x.grad = None

    def test_saved_tensors_are_watched(self):
        x, weight, pool = torch.randn(1, 5, 8), torch.randn(8, 4, requires_grad=True), torch.randn(1, 3, 8)
        out = G.ssm_conv(x, weight, None, pool)
        pool.zero_()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            out.sum().backward()

    def test_second_derivatives_are_refused(self):
        tensors = layers_tensors()
        with self.assertRaisesRegex(NotImplementedError, "first derivatives only.*create_graph"):
            first = torch.autograd.grad(layer(*tensors).square().sum(), tensors[0], create_graph=True)[0]
            first.square().sum().backward()
        q, k, v, g, beta = small()
        first = torch.autograd.grad(G.gated_delta_net(q, k, v.requires_grad_(), g, beta)[0].square().sum(), v, create_graph=True)[0]
        with self.assertRaisesRegex(NotImplementedError, "first derivatives only.*create_graph"):
            first.square().sum().backward()

    def test_forward_mode_is_refused(self):
        q, k, v, g, beta = small()
        x, weight = torch.randn(1, 5, 8), torch.randn(8, 4)
        forward = torch.autograd.forward_ad
        for wants in (False, True):
            with self.subTest(wants), forward.dual_level():
                with self.assertRaisesRegex(NotImplementedError, "forward mode"):
                    G.gated_delta_net(q, k, forward.make_dual(v, torch.ones_like(v)), g, beta.requires_grad_(wants))
                with self.assertRaisesRegex(NotImplementedError, "forward mode"):
                    G.ssm_conv(forward.make_dual(x, torch.ones_like(x)), weight.requires_grad_(wants))
                with self.assertRaisesRegex(NotImplementedError, "forward mode"):
                    G.fused_recurrent_gated_delta_rule(q, k, forward.make_dual(v, torch.ones_like(v)), g, beta=beta,
                                                       initial_state=torch.zeros(1, 2, 16, 16), inplace_final_state=True)
                G.ssm_conv(x, weight)
        with self.assertRaisesRegex((NotImplementedError, RuntimeError), "forward mode|jvp"):
            torch.func.jvp(lambda x: G.ssm_conv(x, weight.detach()), (x,), (x,))


if __name__ == "__main__":
    unittest.main()

"""gdn.vllm with drafts and vLLM's prefix cache together: the two functions that copy states between blocks, alone, and engines.

    python -m unittest test_drafts_prefix       with a vLLM for the CPU, transformers and gdn installed or in PYTHONPATH

Engines give the tokens of one without drafts and cache. Their blocks have 32 tokens. They keep all blocks, since by default vLLM keeps
those of prompts only, and the later prompts continue earlier answers: without both nothing reads a copy that a step left."""
import os
import random
import unittest
import unittest.mock

import torch

from test_vllm import FILL, MODEL, NGRAM, QWEN3_NEXT, VERSION, process, scratch

os.environ.update(VLLM_LOGGING_LEVEL="ERROR")

from gdn import _vllm_align

SEED = int(os.environ.get("GDN_SEED", "1"))
NEW, CONVERSATIONS = 40, 32
OLD = VERSION.startswith("0.31.")  # refuses drafts

# Wide attention and small states, which make vLLM's blocks small. The gates let a state last.
MAKE = QWEN3_NEXT.replace("num_attention_heads=2, num_key_value_heads=2, head_dim=64", "num_attention_heads=8, num_key_value_heads=8, head_dim=128").replace(
    "linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128",
    "linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=64, linear_value_head_dim=64")
LASTING = """
for name, weight in weights.items():
    if name.endswith(("A_log", "dt_bias")):
        weight.uniform_(-3, 1)
safetensors.torch.save_file(weights, file, {"format": "pt"})
"""

# Conversations: prompts with the same beginnings, and the prompts that continue them and their answers.
REFERENCE = """
import random
from vllm import LLM, SamplingParams, TokensPrompt
draw = random.Random(7)
shared, motif = draw.choices(range(8), k=200), draw.choices(range(8), k=7)
prompts = [shared[:draw.choice((30, 64, 100, 160))] + (motif * 9 if i % 2 else draw.choices(range(8), k=63))[:draw.randint(1, 60)] for i in range(CONVERSATIONS)]
engine = LLM(model=FOLDER, skip_tokenizer_init=True, dtype="float32", max_model_len=512, enforce_eager=True, enable_prefix_caching=False, max_num_seqs=32)
def answer(prompts):
    given = engine.generate([TokensPrompt(prompt_token_ids=p) for p in prompts], SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
    return [list(x.outputs[0].token_ids) for x in given]
answers = answer(prompts)
prompts += [prompt + tokens + draw.choices(range(8), k=draw.randint(1, 9)) for prompt, tokens in zip(prompts, answers)]
print(json.dumps([prompts, answers + answer(prompts[CONVERSATIONS:])]))
"""

# Requests of each round at once; some are aborted. What they answer, what came from the cache, and what was copied.
ENGINE = FILL + """
import random
import gdn._vllm_align, gdn.vllm
from vllm import LLM, SamplingParams, TokensPrompt
counts = {name: 0 for name in ("at once", "before", "before, behind", "after", "after, in place", "cached", "aborted", "steps", "checkpoints")}
def copy(layout, request, source, target, tokens, copy=gdn._vllm_align._copy):
    counts["before" if target > source else "after"] += 1
    counts["before, behind"] += target > source and tokens > 0
    counts["after, in place"] += target == source
    copy(layout, request, source, target, tokens)
def requests(n, *mapping, requests=gdn._vllm_align._requests):
    counts["at once"] = max(counts["at once"], n)
    return requests(n, *mapping)
gdn._vllm_align._copy, gdn._vllm_align._requests = copy, requests
def rule(layer, step, *others, rule=gdn.vllm._rule):
    counts["checkpoints"] += 0 if step.interval is None else int((step.maps["checkpoints"] > 0).sum())
    rule(layer, step, *others)
gdn.vllm._rule = rule
llm = LLM(model=FOLDER, skip_tokenizer_init=True, dtype="float32", max_model_len=512, enforce_eager=True, disable_log_stats=False, block_size=32,
          enable_prefix_caching=True, prefix_cache_retention_interval=None, **OPTIONS)
exec(DRAFTS)
engine = llm.llm_engine
assert engine.vllm_config.cache_config.mamba_block_size == 32, engine.vllm_config.cache_config.mamba_block_size
layers = [layer for layer in engine.vllm_config.compilation_config.static_forward_context.values() if isinstance(layer, MambaBase)]
draw = random.Random(3)
answers = []
for n, chosen in enumerate(ROUNDS):
    running = set(map(str, chosen))
    for i in chosen:
        engine.add_request(str(i), TokensPrompt(prompt_token_ids=PROMPTS[i]), SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False))
    while running:
        if draw.random() < ABORTED:
            name = draw.choice(sorted(running))
            engine.abort_request([name])
            running.remove(name)
            counts["aborted"] += 1
        counts["steps"] += 1
        for given in engine.step():
            if given.finished and given.request_id in running:
                running.remove(given.request_id)
                counts["cached"] += given.num_cached_tokens or 0
                answers.append((int(given.request_id), list(given.outputs[0].token_ids)))
counts |= {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
print(json.dumps([answers, filled, counts]))
"""

# Drafts that are right up to a random token, beside those that vLLM finds.
KNOWN = """
from vllm.v1.spec_decode.ngram_proposer import NgramProposer
known, chance = [prompt + tokens for prompt, tokens in zip(PROMPTS, WANTED)], __import__("random").Random(4)
def propose(self, n, valid, lengths, tokens, k, found=NgramProposer.batch_propose):
    drafts = found(self, n, valid, lengths, tokens, k)
    for i in valid:
        before = tokens[i, :lengths[i]].tolist()
        for one in known:
            if one[:len(before)] == before and chance.random() < 0.7:
                drafts[i] = one[len(before):len(before) + chance.randint(1, k)]
                if drafts[i] and chance.random() < 0.5:
                    wrong = chance.randrange(len(drafts[i]))
                    drafts[i][wrong] = (drafts[i][wrong] + 1) % 8
    return drafts
NgramProposer.batch_propose = propose
"""


@unittest.skipIf(OLD, "vLLM 0.31 refuses drafts")
class Engine(unittest.TestCase):
    form = "recurrence"

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(scratch.name, cls.__name__)
        cls.prompts, cls.wanted = process(MODEL + LASTING + REFERENCE, {"GDN_VLLM_FORM": cls.form}, FOLDER=cls.folder, MAKE=MAKE, NEW=NEW,
                                          CONVERSATIONS=CONVERSATIONS)

    def counts(self, drafts, known="", rounds=None, aborted=0.0, environment=None, **options):
        """What an engine counted, whose answers are right."""
        rounds = rounds or [range(CONVERSATIONS), range(CONVERSATIONS, 2 * CONVERSATIONS)]
        answers, filled, counts = process(ENGINE, {"GDN_VLLM_FORM": self.form, **(environment or {})}, DRAFTS=known, FOLDER=self.folder, NEW=NEW, PROMPTS=self.prompts, WANTED=self.wanted, ABORTED=aborted,
                                          ROUNDS=list(map(list, rounds)), OPTIONS={"speculative_config": drafts, **options})
        self.assertEqual({i: tokens for i, tokens in answers if tokens != self.wanted[i]}, {})
        self.assertEqual(len(answers) + counts["aborted"], sum(map(len, rounds)))
        for name in ("cached", "checkpoints", *(("before", "before, behind", "after") if drafts else ())):
            self.assertGreater(counts[name], 5, (name, counts))
        self.assertGreater(filled, 0)
        return counts


class Engines(Engine):
    def test_ngram_in_pieces(self):
        """Drafts of which many are accepted, and pieces of prompts."""
        counts = self.counts(NGRAM, KNOWN, max_num_seqs=8, max_num_batched_tokens=101)
        self.assertGreater(counts["after, in place"], 0)

    def test_mtp_channels_first_with_few_blocks(self):
        counts = self.counts({"method": "mtp", "num_speculative_tokens": 3}, environment={"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}, max_num_seqs=16,
                             num_gpu_blocks_override=120)
        self.assertGreater(counts["vllm:num_preemptions"], 0)

    def test_mtp_with_64_requests_and_aborts(self):
        counts = self.counts({"method": "mtp", "num_speculative_tokens": 2}, rounds=[range(CONVERSATIONS), range(2 * CONVERSATIONS)], aborted=0.1, max_num_seqs=64)
        self.assertEqual(counts["at once"], 64)
        self.assertGreater(counts["aborted"], 0)

    def test_one_step_for_a_prompt(self):
        """Without drafts a request has a step for each new token, and none more for its prompt. Later requests hit checkpoints. vLLM still
        ends a step where two prompts part."""
        chosen = [i + more for i in range(8) for more in (0, CONVERSATIONS)]
        counts = self.counts(None, rounds=[[i] for i in chosen])
        self.assertLess(counts["steps"], NEW * len(chosen) + len(chosen) // 2)


class Chunked(Engine):
    """In the chunked form, beside an engine in this form without drafts and cache."""

    form = "chunked2"

    def test_ngram_in_pieces_with_few_blocks(self):
        counts = self.counts(NGRAM, KNOWN, max_num_seqs=16, max_num_batched_tokens=101, num_gpu_blocks_override=90)
        self.assertGreater(counts["after, in place"], 0)
        self.assertGreater(counts["vllm:num_preemptions"], 0)

    def test_no_drafts(self):
        self.counts(None, max_num_seqs=16, max_num_batched_tokens=101)


class Pool:
    """A pool of a layer in a piece of memory, with a page for each slot. A slot has `width` rows of inputs, or a state (0)."""

    def __init__(self, group, slots, width, channels, first, kind):
        self.group, self.width, self.channels = group, width, channels
        self.page = max(width, 1) * channels + 5
        self.memory = torch.full((3 + slots * self.page,), -1, dtype=kind)
        self.data = self.memory.as_strided((slots, channels, width) if first and width else (slots, max(width, 1), channels),
                                           (self.page, width, 1) if first and width else (self.page, channels, 1), 3)
        self.rows = self.data.transpose(1, 2) if first and width else self.data  # [slots][rows][channels]

    def value(self, request, token):
        """Of the state after `token` tokens, or of the last input among them. Channel 0 has it, the others one more each."""
        return request * 1000 + token + torch.arange(self.channels)


class Requests:
    """Steps of requests with drafts, whose states and rings of inputs are written here, token by token, and copied by the functions."""

    def __init__(self, draw):
        self.draw, self.drafts, self.block, self.first = draw, draw.randint(1, 4), draw.choice((4, 5, 8)), draw.random() < 0.5
        self.taps, n, self.columns = draw.randint(2, 4), draw.randint(1, 4), 40
        groups, slots = draw.randint(1, 3), 1 + n * self.columns
        self.tables = []
        for _ in range(groups):
            given = list(range(1, slots))
            draw.shuffle(given)
            self.tables.append(torch.tensor(given, dtype=torch.int32).view(n, self.columns).clone())
        self.pools = [Pool(group, slots, width, draw.randint(1, 5), self.first, draw.choice((torch.int16, torch.int32, torch.int64)))
                      for group in range(groups) for width in (self.taps - 1 + self.drafts, 0) for _ in range(draw.randint(1, 2))]
        self.n, self.at, self.column, self.accepted = n, [0] * n, [-1] * n, [1] * n  # tokens; the last step's column and accepted tokens
        self.kinds = set()

    def layout(self):
        pools = self.pools
        array = lambda kind, of: torch.tensor(list(map(of, pools)), dtype=kind)
        size = [pool.data.element_size() for pool in pools]
        return (torch.tensor([table.data_ptr() for table in self.tables]), self.columns, array(torch.int64, lambda p: p.data.data_ptr()),
                array(torch.int64, lambda p: p.page * p.data.element_size()), torch.tensor(size, dtype=torch.int32),
                array(torch.int64, lambda p: 1 if self.first and p.width else p.channels), array(torch.int32, lambda p: p.width),
                array(torch.int32, lambda p: p.group), array(torch.int32, lambda p: p.channels if self.first and p.width else 0),
                array(torch.int64, lambda p: p.width * p.data.element_size() if self.first and p.width else 0))

    def call(self, function, *arrays, **options):
        """Call a function. It writes to the slots of `targets` alone, (request, column)."""
        targets = options.pop("targets")
        before = [pool.memory.clone() for pool in self.pools]
        function(*arrays, COPY_BLOCK_SIZE=1024, CONV_STATE_DIM_FIRST=self.first, TEMPORAL_TILES=16, **options)
        for pool, old in zip(self.pools, before):
            for request, column in targets:
                slot = 3 + int(self.tables[pool.group][request, column]) * pool.page
                old[slot:slot + pool.page - 5] = pool.memory[slot:slot + pool.page - 5]
            assert torch.equal(pool.memory, old), "something else was written"

    def require(self, request, column, token, behind=0):
        """The column has the state after `token` tokens, and the ring the inputs before it. States are in the column `behind` it."""
        for pool in self.pools:
            slot = self.tables[pool.group][request, column if pool.width else column + behind]
            for last in range(max(1, token - self.taps + 2), token + 1) if pool.width else (token,):
                found, wanted = pool.rows[slot, (last - 1) % max(pool.width, 1)], pool.value(request, last)
                assert torch.equal(found, wanted.to(found.dtype)), (request, column, token, last, found, wanted)

    def step(self):
        draw, n, block = self.draw, self.n, self.block
        pieces = [(min(draw.choice((block, block - self.at[r] % block, draw.randint(1, 2 * block))), 60), 0) if self.column[r] < 0 or draw.random() < 0.2
                  else (1 + drafts, drafts) for r in range(n) for drafts in [draw.randint(0, self.drafts)]]
        columns = [(self.at[r] + s - 1) // block for r, (s, _) in enumerate(pieces)]
        moved = [self.column[r] >= 0 and self.column[r] != columns[r] for r in range(n)]
        mapped = draw.random() < 0.5
        mapping = torch.tensor(draw.sample(range(n), n) + [-1]) if mapped else None
        array = lambda of: torch.tensor(of, dtype=torch.int32)
        self.call(_vllm_align.before_step, array(columns), array([c if m or draw.random() < 0.5 else -1 for c, m in zip(self.column, moved)]),
                  array([a - 1 for a in self.accepted]), *self.layout(), mapping, n + mapped, HAS_IDX_MAPPING=mapped,
                  targets=[(r, columns[r]) for r in range(n) if moved[r]])
        for r in range(n):
            if moved[r]:
                self.kinds.add(("before", self.accepted[r] > 1))
                self.accepted[r] = 1
            if self.at[r]:
                self.require(r, columns[r], self.at[r], self.accepted[r] - 1)
        accepted = [1 + draw.choice((0, drafts, draw.randint(0, drafts))) for _, drafts in pieces]
        out = array(accepted)
        after = [self.at[r] + s - drafts + accepted[r] - 1 for r, (s, drafts) in enumerate(pieces)]
        ends = [(r, after[r] // block * block) for r, (s, drafts) in enumerate(pieces) if after[r] // block * block >= self.at[r] + s - drafts]
        for r, (s, drafts) in enumerate(pieces):
            first = self.at[r] + s - drafts
            for pool in self.pools:
                slots = self.tables[pool.group][r]
                if pool.width:
                    for last in range(max(self.at[r], self.at[r] + s - pool.width) + 1, self.at[r] + s + 1):
                        pool.rows[slots[columns[r]], (last - 1) % pool.width] = pool.value(r, last).to(pool.data.dtype)
                else:
                    for t in range(drafts + 1):
                        pool.rows[slots[columns[r] + t], 0] = pool.value(r, first + t).to(pool.data.dtype)
        computed = draw.random() < 0.5
        arrays = [array(accepted), array(columns), array([s for s, _ in pieces]), array(after if computed else self.at), array([d for _, d in pieces])]
        self.call(_vllm_align.after_step, *arrays, *self.layout(), out, mapping, n + mapped, block_size=block, HAS_IDX_MAPPING=mapped,
                  PRECOMPUTED_NEW_COMPUTED=computed, targets=[(r, end // block - 1) for r, end in ends])
        for r, end in ends:
            self.require(r, end // block - 1, end)
            self.kinds.add(("after", end // block - 1 == columns[r], end > self.at[r] + pieces[r][0] - pieces[r][1]))
        self.at, self.column, self.accepted = after, columns, out.tolist()


class Functions(unittest.TestCase):
    def test_steps(self):
        draw, kinds = random.Random(SEED), set()
        for _ in range(25):
            requests = Requests(draw)
            while max(requests.at) < 34 * requests.block - 64:
                requests.step()
            kinds |= {(*kind, requests.first) for kind in requests.kinds}
        self.assertEqual(kinds, {("before", behind, first) for behind in (False, True) for first in (False, True)} | {
            ("after", *which, first) for which in ((False, False), (False, True), (True, False), (True, True)) for first in (False, True)})

    def test_refused_copies(self):
        requests = Requests(random.Random(SEED))
        layout, width = (*requests.layout(), requests.first), requests.pools[0].width
        requests.tables[0][0, 7] = 0
        for source, target, tokens, text in ((3, 7, 0, r"are \[\d+, 0\], and 0 is none"), (7, 8, 0, r"are \[0, \d+\], and 0 is none"),
                                             (3, 4, width, f"a slot {width} inputs"), (3, 4, -1, ""), (3, 40, 0, "its table has 40 columns"), (-1, 4, 0, "")):
            with self.assertRaisesRegex(RuntimeError, f"gdn cannot copy the state {tokens} tokens behind column {source} to column {target} of request 0: .*{text}"):
                _vllm_align._copy(layout, 0, source, target, tokens)

    def test_slots_with_their_log(self):
        """In the chunked form the state is in the column itself, whatever the tokens behind it."""
        requests = Requests(random.Random(SEED))
        pool = next(pool for pool in requests.pools if not pool.width)
        old, new = (int(requests.tables[pool.group][0, column]) for column in (3, 7))
        pool.rows[old, 0] = pool.value(0, 9).to(pool.data.dtype)
        with unittest.mock.patch.object(_vllm_align, "_moving", False):
            _vllm_align._copy((*requests.layout(), requests.first), 0, 3, 7, 1)
        self.assertTrue(torch.equal(pool.rows[new], pool.rows[old]))

    def test_another_vllm(self):
        """What register() says of a vLLM that has no place for the functions, or calls them in another way."""
        import vllm.triton_utils
        from vllm.v1.worker import mamba_utils
        if OLD:
            self.assertRegex(_vllm_align.register(), "needs .* which is not there")
            return
        self.assertIsNone(_vllm_align.register())
        self.assertIsNone(_vllm_align.register())
        self.assertEqual([getattr(mamba_utils, name).func for name in _vllm_align._KERNELS], [_vllm_align.before_step, _vllm_align.after_step])
        name, kernel = "precopy_mamba_align_fused_kernel", mamba_utils.precopy_mamba_align_fused_kernel
        with unittest.mock.patch.object(mamba_utils, name, lambda *args: None):
            del mamba_utils.precopy_mamba_align_fused_kernel
            self.assertRegex(_vllm_align.register(), f"needs .*{name}, which is not there")
            mamba_utils.precopy_mamba_align_fused_kernel = None
        names = list(kernel.arg_names)
        for given, text in ((names + ["LAYERS"], r"without the arguments \['LAYERS'\], with \[\]"), (names[1:], r"without the arguments \[\], with \['mamba_state_idx_ptr'\]"),
                            (names[1:] + names[:1], "in the order")):
            with unittest.mock.patch.object(kernel, "arg_names", tuple(given)):
                self.assertRegex(_vllm_align.register(), text)
        with unittest.mock.patch.dict("sys.modules", {"vllm.triton_utils.dispatcher": None}):
            self.assertRegex(_vllm_align.register(), "needs vllm.triton_utils.dispatcher, which is not there")
        with unittest.mock.patch.object(kernel, "func", None), unittest.mock.patch("vllm.triton_utils.dispatcher.register_kernels", side_effect=ValueError("why")):
            self.assertRegex(_vllm_align.register(), r"register_kernels\(\) failed: ValueError\('why'\)")
        for triton, cpu in ((True, True), (False, False), (True, False)):
            with unittest.mock.patch("vllm.triton_utils.HAS_TRITON", triton), unittest.mock.patch("vllm.platforms.current_platform.is_cpu", return_value=cpu):
                self.assertRegex(_vllm_align.register(), "kernels move windows")


if __name__ == "__main__":
    unittest.main()

"""gdn.transformers on random models that have some of its functions alone: Kimi delta attention, or the convolution of Mamba, LFM2 and
others. Logits, and greedy tokens with a cache, beside those without use()."""
import importlib
import unittest
import unittest.mock

import torch

import gdn.transformers

torch.set_num_threads(1)  # the models are small; threads wait for each other on a busy machine

TINY = dict(vocab_size=97, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
            max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None)
KDA = {**TINY, "linear_num_heads": 2, "linear_head_dim": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16,
       "v_head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1,
       "layer_types": ["linear_attention", "full_attention"] * 2}
MAMBA = dict(mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_n_heads=4, mamba_d_head=32, mamba_n_groups=1)
# For each model its config and class, and what they need; None: no small model of it here, and the reason.
KINDS = {"kimi_linear": ("KimiLinearConfig", "KimiLinearForCausalLM", {**KDA, "mlp_layer_types": ["sparse"] * 4}),
         "bailing_hybrid": ("BailingHybridConfig", "BailingHybridForCausalLM", {**KDA, "n_group": 2, "topk_group": 1, "layer_group_size": 2,
                                                                               "first_k_dense_replace": 1, "num_mtp_layers": 0, "head_dim": 32}),
         "glm5_next": None,  # its text model is part of a model with images
         "mamba": ("MambaConfig", "MambaForCausalLM", {}),
         "mamba2": ("Mamba2Config", "Mamba2ForCausalLM", {"num_heads": 4, "head_dim": 32, "n_groups": 1, "state_size": 16}),
         "falcon_mamba": ("FalconMambaConfig", "FalconMambaForCausalLM", {}),
         "jamba": ("JambaConfig", "JambaForCausalLM", {**TINY, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
                                                      "expert_layer_period": 2, "expert_layer_offset": 1, "use_mamba_kernels": False}),
         "bamba": ("BambaConfig", "BambaForCausalLM", {**TINY, **MAMBA, "attn_layer_indices": [1, 3]}),
         "falcon_h1": ("FalconH1Config", "FalconH1ForCausalLM", {**TINY, **MAMBA, "mamba_d_ssm": 128, "head_dim": 16}),
         "granitemoehybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM", {
             **TINY, **MAMBA, "shared_intermediate_size": 64, "num_local_experts": 4, "num_experts_per_tok": 2,
             "layer_types": ["mamba", "attention"] * 2}),
         "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", {**TINY, "full_attn_idxs": [1, 3]}),
         "lfm2_moe": ("Lfm2MoeConfig", "Lfm2MoeForCausalLM", {**TINY, "layer_types": ["conv", "full_attention"] * 2, "num_experts": 4,
                                                             "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_dense_layers": 1}),
         "lfm3": None, "inkling": None, "inkling2": None,  # as glm5_next
         "nemotron_h": ("NemotronHConfig", "NemotronHForCausalLM", {**TINY, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_groups": 1,
                                                                   "ssm_state_size": 16, "head_dim": 16, "layers_block_type": ["mamba", "attention"] * 2}),
         "zamba": ("ZambaConfig", "ZambaForCausalLM", {**TINY, "n_mamba_heads": 2, "mamba_d_state": 16, "use_mamba_kernels": False,
                                                      "layers_block_type": ["mamba", "hybrid"] * 2}),
         "zamba2": ("Zamba2Config", "Zamba2ForCausalLM", {**TINY, "mamba_d_state": 16, "mamba_ngroups": 1, "n_mamba_heads": 4,
                                                         "layers_block_type": ["mamba", "hybrid"] * 2, "use_mem_rope": False})}


def model(name):
    module = importlib.import_module(f"transformers.models.{name}")
    config, kind, own = KINDS[name]
    torch.manual_seed(1)
    made = getattr(module, kind)(getattr(module, config)(**{**TINY, **own})).eval()
    for parameter in made.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.1)
    return made


class Functions(unittest.TestCase):
    @torch.no_grad()
    def test_models(self):
        tokens = torch.randint(2, 97, (2, 37), generator=torch.Generator().manual_seed(2))
        covered = gdn.transformers.supported()
        for name in KINDS:
            if KINDS[name] is None or name not in covered:
                continue
            with self.subTest(name):
                one = model(name)

                def answers():
                    return one(tokens, use_cache=False).logits, one.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=12, do_sample=False,
                                                            min_new_tokens=12)
                theirs = answers()
                names = ["chunk_kda", "fused_recurrent_kda"] if name in ("kimi_linear", "bailing_hybrid") else []
                names += ["causal_conv1d_fn", "causal_conv1d_update"]
                spies = {of: unittest.mock.Mock(wraps=getattr(gdn.transformers, of)) for of in names}
                gdn.transformers.use([name])
                try:
                    with unittest.mock.patch.multiple(gdn.transformers, **spies):
                        ours = answers()
                finally:
                    gdn.transformers.undo()
                for of, spy in spies.items():
                    self.assertGreater(spy.call_count, 0, of)
                self.assertLess((ours[0] - theirs[0]).abs().max(), 1e-4 * theirs[0].std())
                self.assertTrue(torch.equal(ours[1], theirs[1]))
                self.assertEqual(spies["causal_conv1d_fn"].call_count % 2, 0)

    @torch.no_grad()
    def test_long_rows_of_a_channel_stay(self):
        one, name = model("zamba"), "causal_conv1d_fn"
        self.addCleanup(gdn.transformers.undo)
        gdn.transformers.use(["zamba"])
        for tokens, used in (100, True), (200, False):
            with unittest.mock.patch.object(gdn.transformers, name, wraps=getattr(gdn.transformers, name)) as spy:
                one(torch.ones(1, tokens, dtype=torch.long))
            self.assertEqual(spy.called, used, tokens)


if __name__ == "__main__":
    unittest.main()

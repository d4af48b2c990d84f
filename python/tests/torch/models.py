"""Small random models with gated-delta layers, of the architectures that gdn.transformers.use() takes in the installed
transformers. test_functions.py has the others."""
import contextlib
import importlib
import inspect

import torch

import gdn.transformers

torch.set_num_threads(1)  # the models are small; threads wait for each other on a busy machine
TINY = dict(vocab_size=97, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=32,
            max_position_embeddings=256, layer_types=["linear_attention", "full_attention"] * 2, pad_token_id=0, bos_token_id=1,
            eos_token_id=None)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
INDEXER = dict(indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=64, indexer_compress_ratio=4, output_gate_type="sigmoid")
KINDS = {"qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", {**EXPERTS, "mlp_only_layers": [], "intermediate_size": 96}),
         "qwen3_5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", {"intermediate_size": 96}),
         "qwen3_5_moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM", {**EXPERTS, "intermediate_size": 96}),
         "olmo_hybrid": ("OlmoHybridConfig", "OlmoHybridForCausalLM", {"intermediate_size": 96}),
         "qwen4_exp": ("Qwen4ExpTextConfig", "Qwen4ExpForCausalLM", {**EXPERTS, **INDEXER}),
         "lara_mini": ("LaraMiniConfig", "LaraMiniForCausalLM", EXPERTS)}
SUPPORTED = {name: told for name, told in gdn.transformers.supported().items() if name in KINDS and not told.startswith("not covered")}
NAMES = tuple(SUPPORTED)
LAYERS = tuple(name for name, told in SUPPORTED.items() if told == "layers")
FUNCTIONS = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule", "causal_conv1d_fn", "causal_conv1d_update")


def module_of(name):
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def _renamed(function, old):
    return "cache" if "cache" in inspect.signature(function).parameters else old


CACHE = _renamed(module_of("qwen3_5").Qwen3_5ForCausalLM.forward, "past_key_values")  # a model's argument
LAYER_CACHE = _renamed(module_of("qwen3_5").Qwen3_5GatedDeltaNet.forward, "cache_params")  # a layer's


def model(name, dtype=torch.float32, **more):
    """A random model of an architecture."""
    module = importlib.import_module(f"transformers.models.{name}")
    config, kind, own = KINDS[name]
    torch.manual_seed(1)
    made = getattr(module, kind)(getattr(module, config)(**{**TINY, **own, **more})).eval().to(dtype)
    if "num_experts" in own:
        made.set_experts_implementation("eager")  # which takes float64 too
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    return made


def layers_of(one):
    """A model's gated-delta layers."""
    return [module for module in one.modules() if type(module).__name__.endswith("GatedDeltaNet")]


@contextlib.contextmanager
def without(layers=True):
    """transformers as it is."""
    gdn.transformers.undo()
    try:
        yield
    finally:
        gdn.transformers.use(layers=layers)

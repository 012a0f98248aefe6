"""Configs of real checkpoints, cut to the fields that decide numbers, with what their makers publish of them.

Each case: config, published total and active parameters in 1e9 (None where not published), tolerance of the total,
KV bytes per token in BF16 by the vendor's own dimensions (None: not asked), and where the published number stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    config: dict[str, Any]
    total: float
    active: float | None
    tolerance: float
    kv: float | None
    source: str


def llama(hidden: int, layers: int, heads: int, width: int, vocab: int, kv_heads: int | None = None, **more: Any) -> dict[str, Any]:
    """The fields of a Llama-like config.json."""
    config: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": width,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
    }
    if kv_heads:
        config["num_key_value_heads"] = kv_heads
    return {**config, **more}


def mla(q: int | None, heads: int, nope: int = 128, v: int = 128) -> dict[str, Any]:
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "q_lora_rank": q,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": 64,
        "v_head_dim": v,
    }


def moe(n: int, k: int, width: int, shared: int = 0, dense: int = 0) -> dict[str, Any]:
    return {
        "n_routed_experts": n,
        "num_experts_per_tok": k,
        "moe_intermediate_size": width,
        "n_shared_experts": shared or None,
        "first_k_dense_replace": dense,
    }


CASES: dict[str, Case] = {
    "Llama-2-7b": Case(
        llama(4096, 32, 32, 11008, 32000), 6.738, None, 0.001, 524_288, "safetensors index of meta-llama/Llama-2-7b-hf: 6.74B"
    ),
    "Llama-3.2-1B": Case(
        llama(2048, 16, 32, 8192, 128256, 8, head_dim=64, tie_word_embeddings=True), 1.23, None, 0.01, 32_768, "model card Llama 3.2: 1.23B"
    ),
    "Llama-3.2-3B": Case(
        llama(3072, 28, 24, 8192, 128256, 8, head_dim=128, tie_word_embeddings=True), 3.21, None, 0.01, None, "model card Llama 3.2: 3.21B"
    ),
    "Mistral-7B-v0.1": Case(
        llama(4096, 32, 32, 14336, 32000, 8, model_type="mistral", sliding_window=4096),
        7.24,
        None,
        0.002,
        0,
        "model page: 7.24B; window of 4,096",
    ),
    "Mistral-7B-v0.3": Case(
        llama(4096, 32, 32, 14336, 32768, 8, model_type="mistral", sliding_window=None), 7.25, None, 0.002, 131_072, "model page: 7.25B"
    ),
    "Mistral-Nemo-12B": Case(
        llama(5120, 40, 32, 14336, 131072, 8, model_type="mistral", sliding_window=None, head_dim=128),
        12.2,
        None,
        0.01,
        163_840,
        "model page of Mistral-Nemo-Base-2407: 12.2B; head_dim 128 is not 5120/32",
    ),
    "Mistral-Small-3.1-24B": Case(
        {
            "architectures": ["Mistral3ForConditionalGeneration"],
            "model_type": "mistral3",
            "text_config": llama(5120, 40, 32, 32768, 131072, 8, model_type="mistral", head_dim=128, sliding_window=None),
            "vision_config": {"model_type": "pixtral", "hidden_size": 1024},
        },
        23.6,
        None,
        0.01,
        163_840,
        "model page of Mistral-Small-24B-Base-2501 (same text model): 23.6B",
    ),
    "Qwen2.5-7B": Case(
        llama(3584, 28, 28, 18944, 152064, 4, model_type="qwen2", use_sliding_window=False, sliding_window=131072, max_window_layers=28),
        7.61,
        None,
        0.005,
        57_344,
        "Qwen2.5 technical report and model card: 7.61B",
    ),
    "Qwen2.5-0.5B": Case(
        llama(896, 24, 14, 4864, 151936, 2, model_type="qwen2", tie_word_embeddings=True),
        0.49,
        None,
        0.02,
        None,
        "Qwen2.5 model card: 0.49B",
    ),
    "Qwen2.5-VL-3B": Case(
        llama(
            2048,
            36,
            16,
            11008,
            151936,
            2,
            model_type="qwen2_5_vl",
            architectures=["Qwen2_5_VLForConditionalGeneration"],
            tie_word_embeddings=True,
            use_sliding_window=False,
            sliding_window=32768,
            max_window_layers=70,
            vision_config={"hidden_size": 1280, "depth": 32},
            vision_token_id=151654,
        ),
        3.09,
        None,
        0.005,
        36_864,
        "its language model is Qwen2.5-3B, model card: 3.09B",
    ),
    "Qwen1.5-MoE-A2.7B": Case(
        llama(
            2048,
            24,
            16,
            5632,
            151936,
            16,
            model_type="qwen2_moe",
            num_experts=60,
            num_experts_per_tok=4,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
            decoder_sparse_step=1,
        ),
        14.3,
        2.7,
        0.01,
        None,
        "Qwen1.5-MoE blog: 14.3B parameters, 2.7B activated",
    ),
    "Qwen2-57B-A14B": Case(
        llama(
            3584,
            28,
            28,
            18944,
            151936,
            4,
            model_type="qwen2_moe",
            num_experts=64,
            num_experts_per_tok=8,
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=20480,
            decoder_sparse_step=1,
            use_sliding_window=False,
            sliding_window=131072,
            max_window_layers=28,
        ),
        57.4,
        14,
        0.005,
        57_344,
        "Qwen2 technical report, Table 1: 57B-A14B; model page 57.4B",
    ),
    "Qwen3-Next-80B-A3B": Case(
        {
            "architectures": ["Qwen3NextForCausalLM"],
            "model_type": "qwen3_next",
            "hidden_size": 2048,
            "num_hidden_layers": 48,
            "full_attention_interval": 4,
            "mlp_only_layers": [],
            "torch_dtype": "bfloat16",
        },
        80.0,
        None,
        0.01,
        24_576,
        "model card: 80B in total, 3B activated; the class defaults of Qwen3NextConfig are this checkpoint",
    ),
}

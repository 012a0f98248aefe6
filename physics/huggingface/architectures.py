"""Every supported `model_type`, and the other names of the same layers."""

from __future__ import annotations

from physics.huggingface.grouped_rows import DENSE, MIXTURES
from physics.huggingface.latent_rows import LATENT, RECURRENT
from physics.huggingface.parts import Architecture

ARCHITECTURES: dict[str, Architecture] = {**DENSE, **MIXTURES, **LATENT, **RECURRENT}

SAME_AS = {
    "kimi_k2": "deepseek_v3",
    "deepseek_ref": "deepseek_v4",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_6": "qwen3_5_text",
    "glm4v_moe": "glm4v_moe_text",
    "glm4v": "glm4",
    "glm4v_text": "glm4",
    "qwen3_omni_moe_text": "qwen3_moe",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "llama4": "llama4_text",
    "minimax_m1": "minimax",
    "minimax_text_01": "minimax",
    "minimax_m3": "minimax_m3_vl_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "step3p7": "step3p5",
    "step3p7_text": "step3p5",
    "step3": "step3_text",
    "step3_vl": "step3_text",
    "kimi_k25": "deepseek_v3",
    "kimi_k3": "kimi_linear",
    "mistral3": "mistral",
    "llava": "llama",
}
"""Other model types with the same layers, and what a wrapper's text part is where it does not say."""

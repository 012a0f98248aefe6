"""Architectures with grouped-query attention: builders, and the class defaults that absent fields take.

Defaults are those of the configuration classes of transformers 5.24 (models/<folder>/configuration_<folder>.py), and only
fields that change a number of this project are listed. Families without a class there name their own source.
"""

from __future__ import annotations

from typing import Any

from physics.huggingface import grouped as g
from physics.huggingface import patterns as at
from physics.huggingface.parts import Architecture, Names, shared_by_count
from physics.huggingface.rows import BLOCK_SPARSE, FEED_FORWARD, GEMMA4, STEP, row

_QWEN2_VL: dict[str, Any] = dict(sliding_window=4096, max_window_layers=80)
_QWEN_MOE: dict[str, Any] = dict(decoder_sparse_step=1, sliding_window=4096)
_MOE_QWEN3 = g.routed(at.window_unused, at.every_step)
_GLM_MOE = g.routed(at.all_full, at.sparse_layers, shared=shared_by_count)
_GEMMA4: dict[str, Any] = dict(
    tie_word_embeddings=True,
    head_dim=256,
    sliding_window=512,
    global_head_dim=512,
    num_kv_shared_layers=0,
    hidden_size_per_layer_input=256,
)
_M3: dict[str, Any] = dict(
    head_dim=128, dense_intermediate_size=12288, shared_intermediate_size=3072, n_shared_experts=1, n_experts=128, experts_per_token=4
)
_M3_INDEX: dict[str, Any] = dict(index_n_heads=4, index_head_dim=128, index_block_size=128, index_topk_blocks=16, first_k_dense_replace=0)

DENSE: dict[str, Architecture] = {
    "llama": row(g.plain(), "llama", "32000 4096 11008 32 32 -"),
    "mistral": row(g.plain(at.all_sliding), "mistral", "32000 4096 14336 32 32 8", sliding_window=4096),
    "ministral3": row(g.plain(at.all_sliding), "ministral3", "131072 4096 14336 34 32 8", head_dim=128),
    "qwen2": row(g.plain(at.top_layers_slide), "qwen2", "151936 4096 22016 32 32 32", sliding_window=4096, max_window_layers=28),
    "qwen2_vl_text": row(g.plain(at.top_layers_slide), "qwen2_vl", "152064 8192 29568 80 64 8", classes="Qwen2VL", **_QWEN2_VL),
    "qwen2_5_vl_text": row(g.plain(at.top_layers_slide), "qwen2_5_vl", "152064 8192 29568 80 64 8", classes="Qwen2_5_VL", **_QWEN2_VL),
    "qwen3": row(
        g.plain(at.top_layers_slide), "qwen3", "151936 4096 22016 32 32 32", head_dim=128, sliding_window=4096, max_window_layers=28
    ),
    "qwen3_vl_text": row(g.plain(), "qwen3_vl", "151936 4096 22016 32 32 32", head_dim=128),
    "mimo": row(
        g.plain(at.top_layers_slide), "MiMo:configuration_mimo.py (a Qwen2Config)", "151936 4096 22016 32 32 32", max_window_layers=28
    ),
    "glm4": row(g.plain(), "glm4", "151552 4096 13696 40 32 2", head_dim=128),
    "phi3": row(g.plain(at.all_sliding), "phi3", "32064 3072 8192 32 32 -"),
    "seed_oss": row(g.plain(), "seed_oss", "155136 4096 27648 64 80 8", head_dim=128),
    "olmo2": row(g.plain(), "olmo2", "50304 4096 11008 32 32 -"),
    "olmo3": row(g.plain(at.interval(4)), "olmo3", "50304 4096 11008 32 32 -", sliding_window=4096),
    "gemma": row(g.plain(), "gemma", "256000 3072 24576 28 16 16", head_dim=256, tie_word_embeddings=True),
    "gemma2": row(
        g.plain(at.interval(2)), "gemma2", "256000 2304 9216 26 8 4", head_dim=256, sliding_window=4096, tie_word_embeddings=True
    ),
    "gemma3_text": row(
        g.plain(at.interval(6)),
        "gemma3",
        "262208 2304 9216 26 8 4",
        classes="Gemma3",
        head_dim=256,
        sliding_window=4096,
        tie_word_embeddings=True,
    ),
    "nemotron-nas": row(g.puzzle, "Nemotron-NAS:configuration_decilm.py", "- - - - - -", classes="DeciLM"),
}

MIXTURES: dict[str, Architecture] = {
    "mixtral": row(
        g.routed(at.all_sliding, width="intermediate_size"),
        "mixtral",
        "32000 4096 14336 32 32 8",
        BLOCK_SPARSE,
        n_experts=8,
        experts_per_token=2,
    ),
    "qwen2_moe": row(
        g.routed(at.window_unused, at.every_step, shared=g.shared_of("shared_expert_intermediate_size")),
        "qwen2_moe",
        "151936 2048 5632 24 16 16",
        **_QWEN_MOE,
        n_experts=60,
        experts_per_token=4,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
    ),
    "qwen3_moe": row(
        _MOE_QWEN3, "qwen3_moe", "151936 2048 6144 24 32 4", **_QWEN_MOE, n_experts=128, experts_per_token=8, moe_intermediate_size=768
    ),
    "qwen3_vl_moe_text": row(
        _MOE_QWEN3, "qwen3_vl_moe", "151936 2048 5632 24 16 16", **_QWEN_MOE, n_experts=60, experts_per_token=4, moe_intermediate_size=1408
    ),
    "olmoe": row(g.routed(width="intermediate_size"), "olmoe", "50304 2048 2048 16 16 -", n_experts=64, experts_per_token=8),
    "glm4_moe": row(
        _GLM_MOE,
        "glm4_moe",
        "151552 4096 10944 46 96 8",
        n_experts=128,
        experts_per_token=8,
        moe_intermediate_size=1408,
        n_shared_experts=1,
        first_k_dense_replace=1,
    ),
    "glm4v_moe_text": row(
        _GLM_MOE,
        "glm4v_moe",
        "151424 4096 10944 46 96 8",
        n_experts=128,
        experts_per_token=8,
        moe_intermediate_size=1408,
        n_shared_experts=1,
        first_k_dense_replace=1,
    ),
    "gpt_oss": row(
        g.routed(at.interval(2), width="intermediate_size"),
        "gpt_oss",
        "201088 2880 2880 36 64 8",
        Names(router=("mlp.router",)),
        head_dim=64,
        sliding_window=128,
        n_experts=128,
        experts_per_token=4,
    ),
    "gemma4_text": row(g.gemma4, "gemma4", "262144 2304 9216 30 8 4", GEMMA4, "Gemma4", **_GEMMA4),
    "gemma4_unified_text": row(
        g.gemma4,
        "gemma4_unified",
        "262144 2304 9216 30 8 4",
        GEMMA4,
        "Gemma4Unified",
        **{**_GEMMA4, "sliding_window": 1024, "hidden_size_per_layer_input": 0},
    ),
    "llama4_text": row(
        g.llama4,
        "llama4",
        "202048 5120 8192 48 40 8",
        FEED_FORWARD,
        "Llama4",
        head_dim=128,
        intermediate_size_mlp=16384,
        n_experts=16,
        experts_per_token=1,
        interleave_moe_layer_step=1,
        no_rope_layer_interval=4,
        attention_chunk_size=8192,
    ),
    "minimax_m2": row(
        g.routed(at.all_listed_full, width="intermediate_size", shared=g.shared_of("shared_intermediate_size")),
        "minimax_m2",
        "200064 3072 1536 62 48 8",
        BLOCK_SPARSE,
        head_dim=128,
        n_experts=256,
        experts_per_token=8,
    ),
    "minimax_m3_vl_text": row(
        g.minimax_m3, "minimax_m3_vl", "200064 6144 3072 60 64 4", BLOCK_SPARSE, "MiniMaxM3 MiniMaxM3Sparse", **_M3, **_M3_INDEX
    ),
    "mimo_v2_flash": row(
        g.mimo_v2,
        "mimo_v2_flash",
        "152576 4096 16384 48 64 4",
        head_dim=192,
        v_head_dim=128,
        sliding_window=128,
        n_experts=256,
        experts_per_token=8,
        moe_intermediate_size=2048,
        first_k_dense_replace=1,
    ),
    "step3p5": row(
        g.step3p5,
        "step3p7",
        "128815 4096 11264 45 64 8",
        STEP,
        "Step3p7 Step3p7Flash Step3p5 Step3p5Flash Step3p7Text",
        head_dim=128,
        n_experts=288,
        experts_per_token=8,
        moe_intermediate_size=1280,
        share_expert_dim=1280,
        first_k_dense_replace=3,
    ),
    "step3_text": row(
        g.step3,
        "vLLM 0.11:transformers_utils/configs/step3_vl.py",
        "128815 7168 18432 61 64 1",
        STEP,
        "Step3Text Step3VL Step3",
        head_dim=256,
        share_q_dim=2048,
        n_experts=48,
        experts_per_token=3,
        moe_intermediate_size=5120,
        share_expert_dim=5120,
        first_k_dense_replace=1,
    ),
}

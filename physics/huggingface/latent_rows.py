"""Architectures with latent attention or recurrent layers: builders, and the class defaults that absent fields take.

Defaults are those of the configuration classes of transformers 5.24 (models/<folder>/configuration_<folder>.py), and only
fields that change a number of this project are listed. Families without a class there name their own source.
"""

from __future__ import annotations

from typing import Any

from physics.huggingface import hybrids as h
from physics.huggingface import latent as la
from physics.huggingface.parts import Architecture, Names
from physics.huggingface.rows import BLOCK_SPARSE, KDA, LONGCAT, MIXER, NATIVE_V4, row

_QWEN3_HYBRID: dict[str, Any] = dict(
    head_dim=256,
    full_attention_interval=4,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
)
_MLA: dict[str, Any] = dict(kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128)
_V3: dict[str, Any] = dict(
    **_MLA,
    n_experts=256,
    n_shared_experts=1,
    experts_per_token=8,
    moe_intermediate_size=2048,
    n_group=8,
    topk_group=4,
    first_k_dense_replace=3,
)
_DSA: dict[str, Any] = dict(index_topk=2048, index_head_dim=128)
_GRANITE: dict[str, Any] = dict(mamba_n_heads=128, mamba_n_groups=1, mamba_d_state=256, mamba_d_conv=4, mamba_expand=2)

LATENT: dict[str, Architecture] = {
    "deepseek_v2": row(
        la.deepseek,
        "deepseek_v2",
        "102400 4096 11008 32 32 -",
        **_MLA,
        n_experts=64,
        n_shared_experts=2,
        moe_intermediate_size=1407,
        first_k_dense_replace=0,
    ),
    "deepseek_v3": row(la.deepseek, "deepseek_v3", "129280 7168 18432 61 128 128", classes="Kimi_K2", **_V3),
    "deepseek_v32": row(la.deepseek_sparse, "deepseek_v32", "129280 7168 18432 61 128 128", **_V3, **_DSA, index_n_heads=64),
    "glm_moe_dsa": row(
        la.deepseek_sparse,
        "glm_moe_dsa",
        "154880 6144 12288 78 64 64",
        **{**_V3, "q_lora_rank": 2048, "v_head_dim": 256, "qk_nope_head_dim": 192, "n_group": 1, "topk_group": 1},
        **_DSA,
        index_n_heads=32,
    ),
    "glm4_moe_lite": row(
        la.deepseek,
        "glm4_moe_lite",
        "154880 2048 10240 47 20 20",
        **{**_MLA, "q_lora_rank": 768, "v_head_dim": 256, "qk_nope_head_dim": 192},
        n_experts=64,
        n_shared_experts=1,
        experts_per_token=4,
        moe_intermediate_size=1536,
        first_k_dense_replace=1,
    ),
    "mistral4": row(
        la.deepseek,
        "mistral4",
        "131072 4096 12288 36 32 32",
        **{**_MLA, "kv_lora_rank": 256, "q_lora_rank": 1024, "qk_nope_head_dim": 64},
        n_experts=128,
        n_shared_experts=1,
        experts_per_token=4,
        moe_intermediate_size=2048,
        first_k_dense_replace=0,
    ),
    "deepseek_v4": row(
        la.deepseek_v4,
        "deepseek_v4",
        "129280 4096 - 43 64 1",
        NATIVE_V4,
        head_dim=512,
        q_lora_rank=1024,
        o_groups=8,
        o_lora_rank=1024,
        sliding_window=128,
        index_n_heads=64,
        index_head_dim=128,
        index_topk=512,
        n_experts=256,
        n_shared_experts=1,
        experts_per_token=6,
        moe_intermediate_size=2048,
    ),
    "longcat_flash": row(
        la.longcat,
        "longcat_flash",
        "131072 6144 12288 - 64 -",
        LONGCAT,
        **_MLA,
        num_layers=28,
        n_experts=512,
        zero_expert_num=256,
        experts_per_token=12,
        moe_intermediate_size=2048,
    ),
}

RECURRENT: dict[str, Architecture] = {
    "qwen3_next": row(
        h.qwen_next(True, True),
        "qwen3_next",
        "151936 2048 5632 48 16 2",
        **_QWEN3_HYBRID,
        decoder_sparse_step=1,
        n_experts=512,
        experts_per_token=10,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
    ),
    "qwen3_5_text": row(h.qwen_next(False, False), "qwen3_5", "248320 4096 12288 32 16 4", classes="Qwen3_5", **_QWEN3_HYBRID),
    "qwen3_5_moe_text": row(
        h.qwen_next(True, True),
        "qwen3_5_moe",
        "248320 2048 - 40 16 2",
        classes="Qwen3_5Moe",
        **_QWEN3_HYBRID,
        decoder_sparse_step=1,
        n_experts=256,
        experts_per_token=8,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
    ),
    "kimi_linear": row(
        h.kimi_linear,
        "kimi_linear",
        "163840 2304 9216 27 32 32",
        KDA,
        "KimiK3",
        **{**_MLA, "q_lora_rank": None},
        linear_head_dim=128,
        linear_num_heads=32,
        linear_conv_kernel_dim=4,
        n_experts=256,
        n_shared_experts=1,
        experts_per_token=8,
        moe_intermediate_size=1024,
        first_k_dense_replace=1,
    ),
    "minimax": row(
        h.minimax,
        "minimax",
        "32000 4096 14336 32 32 8",
        BLOCK_SPARSE,
        "MiniMaxM1 MiniMaxText01",
        n_experts=8,
        experts_per_token=2,
    ),
    "nemotron_h": row(
        h.nemotron_h,
        "nemotron_h",
        "131072 4096 21504 - 32 8",
        MIXER,
        head_dim=128,
        ssm_state_size=128,
        mamba_num_heads=128,
        mamba_head_dim=64,
        n_groups=8,
        conv_kernel=4,
        n_experts=8,
        n_shared_experts=1,
        experts_per_token=2,
        moe_intermediate_size=7688,
        moe_shared_expert_intermediate_size=7688,
    ),
    "granitemoehybrid": row(
        h.granite_hybrid(True),
        "granitemoehybrid",
        "32000 4096 11008 32 32 -",
        Names(linear=("mamba",), routed=BLOCK_SPARSE.routed, shared=BLOCK_SPARSE.shared, router=("block_sparse_moe.router",)),
        **_GRANITE,
        n_experts=8,
        experts_per_token=2,
        shared_intermediate_size=1024,
    ),
    "bamba": row(
        h.granite_hybrid(False), "bamba", "128000 4096 14336 32 32 8", Names(linear=("mamba",), dense=("feed_forward",)), **_GRANITE
    ),
}

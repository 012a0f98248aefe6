"""Names of config fields: which mean the same, which change no number here, and which smell of structure.

A field a builder has not used is looked up here. Known to be harmless: ignored. Off (null, false, 0, empty): ignored.
Smelling of structure: the config is refused, since the field may change the numbers. Anything else is named in a note.
"""

from __future__ import annotations

import re
from typing import Any

ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_attention_groups", "num_kv_heads"),
    "head_dim": ("head_dim", "attention_head_dim"),
    "n_experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_top_k",
        "top_k_experts",
    ),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size"),
    "n_group": ("n_group", "num_expert_group"),
    "max_position_embeddings": ("max_position_embeddings", "model_max_length", "max_seq_len", "n_positions", "seq_length"),
    "share_expert_dim": ("share_expert_dim", "share_expert_dims"),
    "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
    "dtype": ("dtype", "torch_dtype"),
}
"""Spellings of one quantity across families; two that are present must agree."""

_GENERATION = """max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences
output_scores return_dict_in_generate remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
max_new_tokens use_cache cache_implementation num_logits_to_keep logits_to_keep prompt_lookup_num_tokens"""

_HOUSEKEEPING = """architectures model_type auto_map transformers_version torchscript use_bfloat16 tf_legacy_loss output_attentions
output_hidden_states return_dict id2label label2id num_labels problem_type finetuning_task task_specific_params tokenizer_class prefix
is_decoder tie_encoder_decoder chunk_size_feed_forward gradient_checkpointing attn_implementation use_flash_attention
use_flash_attention_2 unsloth_version unsloth_fixed transformers.js_config pretraining_tp ep_size seq_aux deterministic_flash_attn
use_mamba_kernels chunk_size mamba_chunk_size rescale_prenorm_residual residual_in_fp32 output_router_logits ignore_index
hidden_act hidden_activation mamba_hidden_act mlp_hidden_act activation_function torch_dtype dtype initializer_range language
num_reward_heads fused_qkv use_unified_vision_chunk moe_shared_expert_overlap for_llm_compressor lm_head rm_head use_parallel_embedding
enable_attention_fp32_softmax enable_lm_head_fp32 enable_moe_fp32_combine use_grouped_mm router_dtype load_balance_coeff"""

_ATTENTION = """use_qk_norm qk_norm qk_norm_type qk_layernorm qk_layernorms use_qkv_bias qkv_bias qk_bias use_rope rotary_dim
rotary_pct partial_rotary_factor partial_rotary_factors initial_context_length original_max_position_embeddings use_mrope
query_pre_attn_scalar attn_temperature_tuning floor_scale attn_scale attention_value_scale attention_multiplier position_embedding_type
mla_scale_q_lora mla_scale_kv_lora mla_use_nope indexer_rope_interleave use_head_wise_attn_gate add_swa_attention_sink_bias
add_full_attention_sink_bias output_gate_type gate_lower_bound compress_rope_theta swa_rope_theta clip_qkv max_window_bias alibi
llama_4_scaling layer_rope_theta yarn_only_types"""

_ROUTER = """norm_topk_prob scoring_func topk_method routed_scaling_factor moe_router_scaling_factor use_routing_bias use_moe_router_bias
moe_router_dtype moe_router_activation_func moe_router_activation moe_renormalize use_grouped_topk router_jitter_noise
router_aux_loss_coef aux_loss_alpha input_jitter_noise norm_expert_weight need_fp32_gate router_bias zero_expert_type
moe_router_bias_update_rate latent_moe_use_norm hc_eps hc_sinkhorn_iters shared_moe_mode moe_dynamic_exp_p
moe_router_load_balancing_type normalized_moe_gates moe_router_use_sigmoid moe_router_enable_expert_bias"""

_ACTIVATION = """swiglu_limit swiglu_limits swiglu_limits_shared swiglu_alpha activation_situ_beta activation_situ_linear_beta
final_logit_softcapping attn_logit_softcapping logit_scale logits_scaling embedding_multiplier residual_multiplier postnorm norm_type
use_gemma_norm use_rms_norm normalization_function sandwich_norm zero_centered qk_norm_affine norm_after mamba_ssm_dtype time_step_rank"""

HARMLESS = frozenset(" ".join((_GENERATION, _HOUSEKEEPING, _ATTENTION, _ROUTER, _ACTIVATION)).split())
"""Fields that change no number of this project: generation, token ids, norms, biases, rotary embedding, router scores."""

HARMLESS_PREFIXES = ("_", "rope_", "layernorm_", "time_step_", "initializer_", "summary_", "reorder_and_")
HARMLESS_SUFFIXES = (
    "_token_id",
    "_token_ids",
    "_token_index",
    "_placeholder",
    "_dropout",
    "_pdrop",
    "_drop",
    "_eps",
    "_epsilon",
    "_bias",
    "_theta",
    "_coef",
    "_coeff",
    "_init_std",
)
MEDIA = re.compile(r"(^|_)(vision|visual|image|img|video|audio|speech|mm|multimodal|multi_modal|projector|vit|patch|eoi|boi|eoa|boa)(_|$)")
"""Fields of a vision or audio tower beside the language model."""

MTP = re.compile(r"(^|_)(mtp|nextn)(_|$)")
"""Fields of multi-token-prediction layers, which are not part of a step."""

MTP_COUNTS = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_hidden_layers", "mtp_num_layers")

_STRUCTURE = re.compile(
    r"layer|(^|_)dims?(_|$)|rank|heads?(_|$)|expert|window|spars|index|block|chunk|stride|pattern|freq|interval|period|offset|lora|latent"
    r"|compress|share|moe|top_?k|(^|_)(kv|qk|mla|swa|ssm|hc|mlp|ffn|ff|attn)(_|$)|attention|state|conv|mamba|expand|size|width|depth|ngram"
    r"|memory|recurr|altup|laurel|vocab|^num_|^n_|adapter|draft|cross|encoder|decoder|quant|hybrid|mixer|group|embed|no_op|router|sink|loop"
    r"|linear|recycl|parallel|prun"
)


def smells_structural(name: str) -> bool:
    """Whether a field of this name may change sizes, counts or what is attended to."""
    return bool(_STRUCTURE.search(name.lower()))


def is_off(value: Any) -> bool:
    """Whether a field's value switches off what it names: null, false, zero, empty."""
    return value is None or value is False or value in (0, "") or (isinstance(value, (list, dict, tuple)) and not value)


def is_harmless(name: str) -> bool:
    """Whether a field of this name is known to change no number here."""
    return name in HARMLESS or name.startswith(HARMLESS_PREFIXES) or name.endswith(HARMLESS_SUFFIXES)

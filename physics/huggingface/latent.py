"""Families with latent attention: DeepSeek V2 to V4, Kimi-K2, GLM-5, GLM-4.7-Flash, Mistral-4, LongCat."""

from __future__ import annotations

from physics.huggingface import patterns as at
from physics.huggingface.fields import Fields
from physics.huggingface.grouped import ffns
from physics.huggingface.parts import Layer, dense, experts, latent, shared_by_count
from physics.layers import CompressedAttention, MoEFFN


def deepseek(f: Fields) -> list[Layer]:
    """Latent attention everywhere, dense layers first, then shared and routed experts."""
    n = at.n_layers(f)
    attention = latent(f)
    return [(attention, ffn) for ffn in ffns(f, at.sparse_layers(f, n), shared=shared_by_count)]


def deepseek_sparse(f: Fields) -> list[Layer]:
    """DeepSeek-V3.2 and GLM-5: an indexer picks `index_topk` entries; in GLM-5.2 some layers use another's choice."""
    n = at.n_layers(f)
    f.series("layer_types", n, ("indexed_attention", "full_attention", "deepseek_sparse_attention"), longer=at.n_mtp_layers(f))
    chosen = f.count("index_topk")
    owner, borrower = latent(f, indexer=True, chosen=chosen), latent(f, chosen=chosen)
    owns = _indexers(f, n)
    if not owns[0]:
        f.fail("indexer_types", "lets the first layer share a choice that no layer before it has made")
    parts = ffns(f, at.sparse_layers(f, n), shared=shared_by_count)
    return [(owner if owned else borrower, ffn) for owned, ffn in zip(owns, parts, strict=True)]


def _indexers(f: Fields, n: int) -> list[bool]:
    """Layers that own an indexer: listed, by pattern, or by frequency (transformers, configuration_glm_moe_dsa.py)."""
    extra = at.n_mtp_layers(f)
    types = f.series("indexer_types", n, ("full", "shared"), longer=extra)
    pattern = f.series("index_topk_pattern", n, ("F", "S", "full", "shared"), longer=extra)
    every, offset = f.optional("index_topk_freq") or 1, f.optional("index_skip_topk_offset", 0)
    if types or pattern:
        return [kind in ("full", "F") for kind in types or pattern or []]
    first = 2 if offset is None else offset
    return [max(i - first + 1, 0) % every == 0 for i in range(n)]


COMPRESSION = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
"""Kind of layer of each entry of `compress_ratios` (transformers, configuration_deepseek_v4.py)."""


def deepseek_v4(f: Fields) -> list[Layer]:
    """DeepSeek-V4: windows, with 4:1 compressed and indexed or 128:1 compressed entries behind them."""
    n = at.n_layers(f)
    kinds = _compression(f, n)
    f.series("mlp_layer_types", n, ("hash_moe", "moe"), longer=at.n_mtp_layers(f))
    f.agree("num_key_value_heads", 1, "keys and values are one shared latent")
    f.ignore("num_hash_layers", "intermediate_size", "compress_rates", "compress_rate_csa", "compress_rate_hca", "expert_dtype")
    if f.has("hc_mult"):
        mult = f.count("hc_mult")
        size = 2 * n * (2 + mult) * mult * mult * f.count("hidden_size")
        f.notes.append(f"Hyper-connections (hc_mult {mult}, about {size / 1e6:.0f} M parameters) are not counted.")
    made = {kind: _compressed(f, kind) for kind in dict.fromkeys(kinds)}
    moe = experts(f, shared_width=shared_by_count(f))
    return [(made[kind], moe) for kind in kinds]


def _compression(f: Fields, n: int) -> list[str]:
    words = tuple(COMPRESSION.values())
    types = f.series("layer_types", n, words, longer=at.n_mtp_layers(f))
    ratios = f.series("compress_ratios", n, tuple(COMPRESSION), longer=max(at.n_mtp_layers(f), 1))
    rates = f.child("compress_rates")
    if rates and (rates.optional(words[1]) not in (None, 4) or rates.optional(words[2]) not in (None, 128)):
        rates.fail(words[1], "other rates than 4 and 128 are not supported")
    for name, rate in (("compress_rate_csa", 4), ("compress_rate_hca", 128)):
        f.agree(name, rate, "the only rate supported")
    if ratios:
        return [COMPRESSION[ratio] for ratio in ratios]
    return types or [words[2] if i < 2 or i % 2 == 0 else words[1] for i in range(n)]


def _compressed(f: Fields, kind: str) -> CompressedAttention:
    stride = {word: ratio for ratio, word in COMPRESSION.items()}[kind]
    size, heads, groups = f.count("head_dim"), f.count("num_attention_heads"), f.count("o_groups")
    rope = f.optional("qk_rope_head_dim") or 64
    if rope > size:
        f.fail("qk_rope_head_dim", f"{rope} is more than head_dim {size}")
    indexed = stride == 4
    f.ignore("index_n_heads", "index_head_dim", "index_topk")
    return CompressedAttention(
        n_heads=heads,
        d_head=size,
        d_rope=rope,
        q_rank=f.count("q_lora_rank"),
        o_groups=groups,
        o_rank=f.count("o_lora_rank"),
        window=f.count("sliding_window"),
        stride=stride,
        index_heads=f.count("index_n_heads") if indexed else 0,
        index_dim=f.count("index_head_dim") if indexed else 0,
        chosen_entries=f.count("index_topk") if indexed else 0,
    )


def longcat(f: Fields) -> list[Layer]:
    """LongCat-Flash: two attentions and two dense parts a layer, experts in parallel with the first dense part.

    Each layer becomes two: latent attention with experts (the dense part as shared width), then with the dense part alone.
    """
    n = f.count("num_layers")
    if f.has("num_hidden_layers") and f.count("num_hidden_layers") not in (n, 2 * n):
        f.fail("num_hidden_layers", f"is neither num_layers {n} nor twice as many")
    f.ignore("num_hidden_layers")
    f.word("attention_method", ("MLA", "mla"))
    attention, ffn = latent(f), dense(f)
    return [(attention, _with_idle_experts(f, ffn.width)), (attention, ffn)] * n


def _with_idle_experts(f: Fields, shared_width: int) -> MoEFFN:
    """Of `moe_topk` choices some fall on zero-computation experts; on average the real ones' share is kept."""
    moe = experts(f, shared_width=shared_width)
    idle = f.count("zero_expert_num", 0)
    real = moe.top_k * moe.n_experts / (moe.n_experts + idle)
    if real != int(real) or not real:
        f.fail("zero_expert_num", f"{idle} leaves {real:.2f} real experts per token on average, which is no whole number")
    if idle:
        f.notes.append(
            f"{moe.top_k} of {moe.n_experts + idle} experts, {idle} of them without computation: {int(real)} real ones on average."
        )
    return MoEFFN(moe.n_experts, int(real), moe.width, shared_width=shared_width)

"""Attention and feed-forward kinds from fields: the pieces all families share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from physics.huggingface.fields import Fields
from physics.layers import Attention, DenseFFN, GroupedQueryAttention, LatentAttention, MoEFFN

Layer = tuple[Attention | None, DenseFFN | MoEFFN | None]
Build = Callable[[Fields], list[Layer]]


@dataclass(frozen=True)
class Names:
    """Where the tensors of a layer live, below `layers.N.`; several spellings where checkpoints differ.

    attention, linear, dense, routed, shared, router: module names of each tensor class.
    """

    attention: tuple[str, ...] = ("self_attn",)
    linear: tuple[str, ...] = ("linear_attn",)
    dense: tuple[str, ...] = ("mlp",)
    routed: tuple[str, ...] = ("mlp.experts",)
    shared: tuple[str, ...] = ("mlp.shared_experts", "mlp.shared_expert")
    router: tuple[str, ...] = ("mlp.gate",)


@dataclass(frozen=True)
class Architecture:
    """One `model_type`: how its layers are built, and what transformers takes for a field that is absent.

    build: layers from fields. defaults: class defaults. names: where tensors live. source: where defaults were read.
    classes: names of its model classes beyond the obvious one.
    """

    build: Build
    defaults: dict[str, object]
    source: str
    names: Names = field(default_factory=Names)
    classes: tuple[str, ...] = ()


def head_dim(f: Fields, heads: int) -> int:
    """Size of one head: `head_dim` where given, else hidden / heads, refused where that is no whole number [element]."""
    given = f.optional("head_dim")
    if given is not None:
        return given
    hidden = f.count("hidden_size")
    if hidden % heads:
        f.fail("head_dim", f"is missing and hidden_size {hidden} is no multiple of {heads} heads; add head_dim")
    return hidden // heads


def grouped(
    f: Fields,
    window: int = 0,
    chunked: bool = False,
    output_gate: bool = False,
    index: tuple[int, int, int] = (0, 0, 0),
    q_rank: int = 0,
) -> GroupedQueryAttention:
    """Grouped-query attention of the config's main head counts.

    window: tokens of a sliding window or chunk, 0 for all [token]. index: indexer heads, their size, tokens chosen.
    """
    heads = f.count("num_attention_heads")
    kv_heads = f.optional("num_key_value_heads") or heads
    size = head_dim(f, heads)
    check_heads(f, heads, kv_heads)
    index_heads, index_dim, chosen = index
    return GroupedQueryAttention(
        n_heads=heads,
        n_kv_heads=kv_heads,
        d_k=size,
        d_v=f.optional("v_head_dim") or size,
        window=window,
        chunked=chunked,
        output_gate=output_gate,
        index_heads=index_heads,
        index_dim=index_dim,
        chosen_tokens=chosen,
        q_rank=q_rank,
    )


def check_heads(f: Fields, heads: int, kv_heads: int, name: str = "num_key_value_heads") -> None:
    """Refuse key-value heads that do not divide the query heads."""
    if heads % kv_heads:
        f.fail(f.spelling(name), f"{kv_heads} does not divide {heads} query heads; correct one of them")


def latent(f: Fields, output_gate: bool = False, indexer: bool = False, chosen: int = 0) -> LatentAttention:
    """Multi-head latent attention; `q_lora_rank` null is a full query projection.

    indexer: whether the layer owns one. chosen: entries it or another layer's indexer picks, 0 for all [token].
    """
    nope, rope = f.count("qk_nope_head_dim", 0), f.count("qk_rope_head_dim", 0)
    if not nope + rope:
        f.fail("qk_nope_head_dim", "is 0 and so is qk_rope_head_dim; keys need a size")
    f.agree("qk_head_dim", nope + rope, "qk_nope_head_dim + qk_rope_head_dim")
    f.ignore("num_key_value_heads", "head_dim")
    if not f.flag("use_mla", True):
        f.fail("use_mla", "false is not supported for this architecture")
    return LatentAttention(
        n_heads=f.count("num_attention_heads"),
        q_rank=f.optional("q_lora_rank") or 0,
        kv_rank=f.count("kv_lora_rank"),
        d_nope=nope,
        d_rope=rope,
        d_v=f.count("v_head_dim"),
        output_gate=output_gate,
        index_heads=f.count("index_n_heads") if indexer else 0,
        index_dim=f.count("index_head_dim") if indexer else 0,
        chosen_tokens=chosen,
    )


def dense(f: Fields, name: str = "intermediate_size", matrices: int = 3) -> DenseFFN:
    """A dense feed-forward part of the width in field `name`."""
    return DenseFFN(width=f.count(name), matrices=matrices)


def experts(f: Fields, width: str = "moe_intermediate_size", shared_width: int = 0, input_width: int = 0, matrices: int = 3) -> MoEFFN:
    """Routed experts of the width in field `width`.

    shared_width: total width of the shared experts [element]. input_width: width they work at, 0 for hidden [element].
    """
    n_experts, top_k = f.count("n_experts"), f.count("experts_per_token")
    if top_k > n_experts:
        f.fail(f.spelling("experts_per_token"), f"{top_k} is more than the {n_experts} experts of {f.spelling('n_experts')}")
    groups, top_groups = limited_groups(f, n_experts)
    return MoEFFN(
        n_experts=n_experts,
        top_k=top_k,
        width=f.count(width),
        input_width=input_width,
        matrices=matrices,
        shared_width=shared_width,
        n_groups=groups,
        top_groups=top_groups,
    )


def limited_groups(f: Fields, n_experts: int) -> tuple[int, int]:
    """Groups of experts and how many of them one token may use; 1 and 1 without a limit."""
    groups, chosen = f.optional("n_group", 0) or 1, f.optional("topk_group", 0) or 1
    f.ignore("use_grouped_topk")
    if groups == 1 or f.data.get("topk_method") == "greedy":
        return 1, 1
    if n_experts % groups or chosen > groups:
        f.fail(f.spelling("n_group"), f"{groups} groups, {chosen} of them chosen, do not fit {n_experts} experts")
    return groups, chosen


def shared_by_count(f: Fields) -> int:
    """Total width of shared experts, each as wide as a routed one (DeepSeek and kin) [element]."""
    return (f.optional("n_shared_experts", 0) or 0) * f.count("moe_intermediate_size")

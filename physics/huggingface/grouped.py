"""Families with grouped-query attention: Llama, Qwen, GLM-4.5, gpt-oss, gemma, Llama-4, MiniMax-M2 and M3, MiMo, Step."""

from __future__ import annotations

from collections.abc import Callable

from physics.huggingface import patterns as at
from physics.huggingface.fields import Fields
from physics.huggingface.parts import Build, Layer, check_heads, dense, experts, grouped, head_dim, shared_by_count
from physics.layers import DenseFFN, GroupedQueryAttention, MoEFFN

FFN = DenseFFN | MoEFFN


def by_kind(f: Fields, kinds: list[str]) -> list[GroupedQueryAttention]:
    """One attention per layer: full, sliding over `sliding_window`, or in chunks of `attention_chunk_size`."""
    made: dict[str, GroupedQueryAttention] = {}
    for kind in dict.fromkeys(kinds):
        window = 0
        if kind == at.SLIDING:
            window = f.count("sliding_window")
        if kind == at.CHUNKED:
            window = f.count("attention_chunk_size")
        made[kind] = grouped(f, window=window, chunked=kind == at.CHUNKED)
    if at.SLIDING not in made and "sliding_window" in f.defaults:
        f.ignore("sliding_window")
    return [made[kind] for kind in kinds]


def plain(kinds: at.Kinds = at.all_full) -> Build:
    """A dense decoder: one feed-forward part of three matrices in every layer."""

    def build(f: Fields) -> list[Layer]:
        n = at.n_layers(f)
        ffn = dense(f)
        return [(attention, ffn) for attention in by_kind(f, kinds(f, n))]

    return build


def routed(
    kinds: at.Kinds = at.all_full,
    sparse: Callable[[Fields, int], list[bool]] = at.everywhere,
    width: str = "moe_intermediate_size",
    shared: Callable[[Fields], int] | None = None,
    dense_width: str = "intermediate_size",
) -> Build:
    """A decoder with routed experts in some layers and a dense feed-forward part in the others.

    kinds, sparse: attention kind and presence of experts by layer. width: field of one expert's width. shared: total width
    of the shared experts. dense_width: field of the dense layers' width.
    """

    def build(f: Fields) -> list[Layer]:
        n = at.n_layers(f)
        attention = by_kind(f, kinds(f, n))
        return list(zip(attention, ffns(f, sparse(f, n), width, shared, dense_width), strict=True))

    return build


def ffns(
    f: Fields,
    mask: list[bool],
    width: str = "moe_intermediate_size",
    shared: Callable[[Fields], int] | None = None,
    dense_width: str = "intermediate_size",
) -> list[FFN]:
    """One feed-forward part per layer, experts where the mask says so; an unused dense width is ignored."""
    moe = experts(f, width, shared(f) if shared else 0) if any(mask) else None
    narrow = None if all(mask) else dense(f, dense_width)
    f.ignore(dense_width, "n_experts", "experts_per_token", "moe_intermediate_size", "n_shared_experts", "n_group", "topk_group")
    result: list[FFN] = []
    for is_sparse in mask:
        chosen: FFN | None = moe if is_sparse else narrow
        if chosen is not None:
            result.append(chosen)
    return result


def shared_of(field: str) -> Callable[[Fields], int]:
    """Total width of the shared experts from one field, 0 where null or absent."""

    def width(f: Fields) -> int:
        return f.optional(field, 0) or 0

    return width


def llama4(f: Fields) -> list[Layer]:
    """Llama-4: chunked layers, one shared expert as wide as a routed one, dense layers of their own width."""
    build = routed(at.chunks_without_position, at.interleaved, "intermediate_size", shared_of("intermediate_size"), "intermediate_size_mlp")
    return build(f)


def gemma4(f: Fields) -> list[Layer]:
    """Gemma-4: global layers with their own head size and keys that serve as values; experts beside a dense part."""
    n = at.n_layers(f)
    kinds = at.interval(6)(f, n)
    kinds[-1] = at.FULL  # transformers forces the last layer to full attention
    for field in ("num_kv_shared_layers", "hidden_size_per_layer_input"):
        if f.count(field, 0):
            f.fail(field, f"{f.count(field, 0)} is not supported: caches shared across layers and embeddings per layer are not modelled")
    f.ignore("vocab_size_per_layer_input", "use_double_wide_mlp")
    attention = {at.SLIDING: grouped(f, window=f.count("sliding_window")), at.FULL: _gemma4_global(f)}
    ffn: FFN = experts(f, shared_width=f.count("intermediate_size")) if f.flag("enable_moe_block") else dense(f)
    f.ignore("n_experts", "experts_per_token", "moe_intermediate_size")
    return [(attention[kind], ffn) for kind in kinds]


def _gemma4_global(f: Fields) -> GroupedQueryAttention:
    heads, size = f.count("num_attention_heads"), f.count("global_head_dim")
    shared = f.flag("attention_k_eq_v")
    own = f.optional("num_global_key_value_heads") if shared else None
    f.ignore("num_global_key_value_heads")
    kv_heads = own or f.optional("num_key_value_heads") or heads
    check_heads(f, heads, kv_heads)
    return GroupedQueryAttention(heads, kv_heads, size, size, shared_kv_projection=shared)


def minimax_m3(f: Fields) -> list[Layer]:
    """MiniMax-M3: block-sparse attention with a small indexer, some layers full; dense layers first."""
    n = at.n_layers(f)
    sparse = grouped(f, output_gate=f.flag("attention_output_gate"), index=_block_index(f))
    full = grouped(f, output_gate=f.flag("attention_output_gate"))
    kinds = _block_sparse(f, n)
    mask = at.sparse_layers(f, n)
    f.agree("moe_intermediate_size", f.count("intermediate_size"), "intermediate_size is one expert's width")
    parts = ffns(f, mask, "intermediate_size", _minimax_shared, "dense_intermediate_size")
    return list(zip([sparse if kind == at.SPARSE else full for kind in kinds], parts, strict=True))


def _minimax_shared(f: Fields) -> int:
    return f.count("shared_intermediate_size", 0) * (f.optional("n_shared_experts", 0) or 0)


def _block_sparse(f: Fields, n: int) -> list[str]:
    given = at.typed(f, n, (at.FULL, at.SPARSE))
    config = f.child("sparse_attention_config")
    if config is None:
        return given or [at.FULL] * n
    on = config.flag("use_sparse_attention", True)
    freq = config.series("sparse_attention_freq", n, (0, 1)) or [1] * n
    values = config.series("sparse_disable_index_value", n, (0, 1)) or freq
    if any(used and not disabled for used, disabled in zip(freq, values, strict=True)):
        config.fail("sparse_disable_index_value", "0 in a sparse layer gives its indexer values of its own, which are not modelled")
    config.ignore("sparse_init_block", "sparse_local_block", "sparse_score_type")
    return given or [at.SPARSE if on and flag else at.FULL for flag in freq]


def _block_index(f: Fields) -> tuple[int, int, int]:
    config = f.child("sparse_attention_config") or f
    old = config is not f
    heads = config.count("sparse_num_index_heads" if old else "index_n_heads")
    size = config.count("sparse_index_dim" if old else "index_head_dim")
    blocks = config.count("sparse_topk_blocks" if old else "index_topk_blocks")
    f.ignore("index_local_blocks", "index_n_heads", "index_head_dim", "index_topk_blocks", "index_block_size")
    return heads, size, blocks * config.count("sparse_block_size" if old else "index_block_size")


def mimo_v2(f: Fields) -> list[Layer]:
    """MiMo-V2-Flash: sliding layers with head counts and sizes of their own."""
    n = at.n_layers(f)
    pattern = f.series("hybrid_layer_pattern", n, (0, 1))
    kinds = at.typed(f, n, (at.FULL, at.SLIDING)) or [
        at.SLIDING if (pattern[i] if pattern else i and (i + 1) % 6) else at.FULL for i in range(n)
    ]
    f.ignore("attention_chunk_size")
    full = grouped(f)
    window = f.count("sliding_window")
    f.agree("sliding_window_size", window, "sliding_window")
    heads = f.optional("swa_num_attention_heads") or full.n_heads
    kv_heads = f.optional("swa_num_key_value_heads") or full.n_kv_heads
    check_heads(f, heads, kv_heads, "swa_num_key_value_heads")
    d_k, d_v = f.optional("swa_head_dim") or full.d_k, f.optional("swa_v_head_dim") or full.d_v
    sliding = GroupedQueryAttention(heads, kv_heads, d_k, d_v, window=window)
    parts = ffns(f, at.sparse_layers(f, n), shared=shared_by_count)
    return list(zip([sliding if kind == at.SLIDING else full for kind in kinds], parts, strict=True))


def step3p5(f: Fields) -> list[Layer]:
    """Step-3.5 and 3.7: sliding layers may have another number of heads; `share_expert_dim` is all shared width."""
    n = at.n_layers(f)
    kinds = at.typed(f, n, (at.FULL, at.SLIDING)) or [at.FULL] * n
    full = grouped(f)
    sliding = _step_sliding(f, full) if at.SLIDING in kinds else full
    f.ignore("sliding_window", "attention_other_setting", "num_sliding_attention_heads", "n_shared_experts")
    _step_constants(f)
    parts = ffns(f, at.sparse_layers(f, n), shared=shared_of("share_expert_dim"))
    return list(zip([sliding if kind == at.SLIDING else full for kind in kinds], parts, strict=True))


def _step_sliding(f: Fields, full: GroupedQueryAttention) -> GroupedQueryAttention:
    other = f.child("attention_other_setting")
    heads = f.optional("num_sliding_attention_heads") or (other.optional("num_attention_heads") if other else None) or full.n_heads
    kv_heads = (other.optional("num_key_value_heads") if other else None) or full.n_kv_heads  # or num_attention_groups
    size = (other.optional("head_dim") if other else None) or full.d_k
    if other:
        other.word("attention_type", ("sliding_attention",))
        other.ignore("true_head_dim")
    check_heads(f, heads, kv_heads, "attention_other_setting")
    return GroupedQueryAttention(heads, kv_heads, size, size, window=f.count("sliding_window"))


def _step_constants(f: Fields) -> None:
    """Fields of the Step family that hold one value in every checkpoint, and where the layers are listed besides."""
    f.agree("moe_every_n_layer", 1, "the layers are those of moe_layers_enum")
    f.agree("moe_layer_offset", 0, "the layers are those of moe_layers_enum")
    if not f.flag("use_moe", True):
        f.fail("use_moe", "false is not supported for this architecture")
    f.ignore("att_impl_type", "use_rope_layers")


def step3(f: Fields) -> list[Layer]:
    """Step-3 (multi-matrix factorisation attention): queries through a low-rank projection, one key-value head."""
    n = at.n_layers(f)
    f.ignore("use_mfa", "n_shared_experts")
    _step_constants(f)
    attention = grouped(f, q_rank=f.count("share_q_dim"))
    parts = ffns(f, at.sparse_layers(f, n), shared=shared_of("share_expert_dim"))
    return [(attention, ffn) for ffn in parts]


def puzzle(f: Fields) -> list[Layer]:
    """Nemotron-NAS (DeciLM): `block_configs` gives every layer its own attention and width, or none."""
    n = at.n_layers(f)
    blocks = f.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) != n or not all(isinstance(block, dict) for block in blocks):
        f.fail("block_configs", f"is not a list of {n} objects, one per layer")
    f.ignore("intermediate_size", "num_key_value_heads")
    return [_puzzle_layer(Fields(block, f.architecture, where=f"block_configs[{i}]."), f) for i, block in enumerate(blocks)]


def _puzzle_layer(block: Fields, f: Fields) -> Layer:
    attention, ffn = block.child("attention"), block.child("ffn")
    if attention is None or ffn is None:
        block.fail("attention", "or ffn is missing; each block needs both")
    made = None if attention.flag("no_op") else _puzzle_attention(attention, f)
    part = None if ffn.flag("no_op") else DenseFFN(_puzzle_width(ffn, f))
    attention.ignore("unshifted_sink", "use_prefill_window_in_sink_attention", "n_heads_in_group")
    block.check_leftovers()
    return made, part


def _puzzle_attention(attention: Fields, f: Fields) -> GroupedQueryAttention:
    heads, group = f.count("num_attention_heads"), attention.count("n_heads_in_group")
    if heads % group:
        attention.fail("n_heads_in_group", f"{group} does not divide {heads} query heads")
    size = head_dim(f, heads)
    return GroupedQueryAttention(heads, heads // group, size, size)


def _puzzle_width(ffn: Fields, f: Fields) -> int:
    """`ffn_mult` x 2/3 x hidden, rounded up to 256 (NVIDIA, modeling_decilm.py, _ffn_mult_to_intermediate_size)."""
    factor = ffn.raw("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor <= 1000:
        ffn.fail("ffn_mult", "is not a number over 0 and up to 1000")
    return -(-int(2 * factor * f.count("hidden_size") / 3) // 256) * 256 or 256

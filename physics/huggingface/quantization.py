"""Bytes of each tensor class: the model's modules weighed against what a quantisation config says of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from physics.formats import WeightFormats, mixture
from physics.huggingface.parts import Layer, Names
from physics.huggingface.schemes import Scheme
from physics.layers import Attention, CompressedAttention, DenseFFN, GroupedQueryAttention, LatentAttention, MoEFFN
from physics.recurrent import LinearAttention

Piece = tuple[tuple[str, ...], int]
"""Spellings of one module below its parent, and its parameters."""

EMBEDDINGS = ("embed_tokens", "embeddings", "embed")
HEADS = ("lm_head", "head", "output_layer")
MLP: tuple[tuple[str, ...], ...] = (("gate_proj", "w1", "gate_up_proj"), ("up_proj", "w3"), ("down_proj", "w2"))


def weight_formats(layers: list[Layer], names: Names, scheme: Scheme | None, base: str, hidden: int, vocab: int) -> WeightFormats:
    """Published format of each tensor class; a class in several formats becomes a mixture by parameters.

    base: format of what is not quantised. hidden, vocab: sizes of the model [element].
    """
    if scheme is None:
        return WeightFormats.uniform(base)
    weights: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, paths, params in modules(layers, names, hidden, vocab, scheme.is_uniform()):
        weights[kind][scheme.format(kind, paths) or base] += params
    shares = {kind: mixture(counter) for kind, counter in weights.items() if sum(counter.values())}
    return WeightFormats.uniform(base).replace(**shares)


def modules(layers: list[Layer], names: Names, hidden: int, vocab: int, once: bool) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """(tensor class, spellings of the path, parameters) of every weight matrix; of the first layers only where all are alike.

    once: whether one of each different layer is enough.
    """
    yield "embedding", EMBEDDINGS, vocab * hidden
    yield "head", HEADS, vocab * hidden
    seen: set[Layer] = set()
    for i, layer in enumerate(layers):
        if once and layer in seen:
            continue
        seen.add(layer)
        for kind, spellings, params in _layer_modules(layer, names, hidden):
            yield kind, tuple(f"layers.{i}.{spelling}" for spelling in spellings), params


def _layer_modules(layer: Layer, names: Names, hidden: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
    attention, ffn = layer
    if attention is not None:
        parents = names.linear if isinstance(attention, LinearAttention) else names.attention
        for spellings, params in attention_pieces(attention, hidden):
            yield "attention", _below(parents, spellings), params
    if isinstance(ffn, DenseFFN):
        yield from _mlp("dense", names.dense, ffn.n_params(hidden), ffn.matrices)
    if isinstance(ffn, MoEFFN):
        numbered = (*(f"{parent}.0" for parent in names.routed), *names.routed)
        yield from _mlp("routed", numbered, ffn.n_experts * ffn.expert_params(hidden), ffn.matrices)
        yield "router", names.router, ffn.router_params(hidden)
        if ffn.shared_params(hidden):
            yield from _mlp("shared", names.shared, ffn.shared_params(hidden), ffn.matrices)


def _below(parents: tuple[str, ...], spellings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{parent}.{spelling}" for parent in parents for spelling in spellings)


def _mlp(kind: str, parents: tuple[str, ...], params: int, matrices: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
    for spellings in MLP[3 - matrices :]:
        yield kind, _below(parents, spellings), params // matrices


def attention_pieces(attention: Attention, hidden: int) -> list[Piece]:
    """Weight matrices of one attention layer with their parameters; what is not named apart counts with the first."""
    if isinstance(attention, GroupedQueryAttention):
        pieces = _grouped(attention, hidden)
    elif isinstance(attention, LatentAttention):
        pieces = _latent(attention, hidden)
    elif isinstance(attention, CompressedAttention):
        pieces = _compressed(attention, hidden)
    elif isinstance(attention, LinearAttention):
        pieces = _linear(attention, hidden)
    else:
        pieces = [(("q_proj",), 0)]
    (first, params), *rest = pieces
    return [(first, params + attention.n_params(hidden) - sum(size for _, size in pieces)), *rest]


def _grouped(a: GroupedQueryAttention, hidden: int) -> list[Piece]:
    value = 0 if a.shared_kv_projection else hidden * a.n_kv_heads * a.d_v
    index = hidden * a.index_dim
    return [
        (("q_proj", "qkv_proj"), 0),
        (("k_proj", "qkv_proj"), hidden * a.n_kv_heads * a.d_k),
        (("v_proj", "qkv_proj"), value),
        (("o_proj",), a.n_heads * a.d_v * hidden),
        (("index_q_proj", "indexer.q_proj"), index * a.index_heads),
        (("index_k_proj", "indexer.k_proj"), index if a.index_heads else 0),
    ]


def _latent(a: LatentAttention, hidden: int) -> list[Piece]:
    d_query = a.n_heads * (a.d_nope + a.d_rope)
    index = (a.q_rank or hidden) * a.index_heads * a.index_dim
    return [
        (("o_proj",), 0),
        (("q_a_proj",), hidden * a.q_rank),
        (("q_b_proj", "q_proj"), (a.q_rank or hidden) * d_query),
        (("kv_a_proj_with_mqa",), hidden * (a.kv_rank + a.d_rope)),
        (("kv_b_proj",), a.up_projection_params()),
        (("g_proj",), a.n_heads * a.d_v * hidden if a.output_gate else 0),
        (("indexer.wq_b",), index),
        (("indexer.wk",), hidden * a.index_dim if a.index_heads else 0),
        (("indexer.weights_proj", "indexers_proj"), hidden * a.index_heads),
    ]


def _compressed(a: CompressedAttention, hidden: int) -> list[Piece]:
    width = a.n_heads * a.d_head
    return [
        (("wo_a", "o_a_proj"), 0),
        (("wq_a", "q_a_proj"), hidden * a.q_rank),
        (("wq_b", "q_b_proj"), a.q_rank * width),
        (("wkv", "kv_proj"), hidden * a.d_head),
        (("wo_b", "o_b_proj"), a.o_groups * a.o_rank * hidden),
    ]


def _linear(a: LinearAttention, hidden: int) -> list[Piece]:
    output = (("out_proj", "o_proj"), a.n_v_heads * a.d_v * hidden)
    if a.rule == "gated_delta":
        gates = (("in_proj_ba", "in_proj_a", "in_proj_b"), hidden * 2 * a.n_v_heads)
        return [(("in_proj_qkvz", "in_proj_qkv", "in_proj_z"), 0), output, gates]
    if a.rule == "mamba2":
        return [(("in_proj",), 0), output]
    return [(("q_proj", "k_proj", "v_proj", "qkv_proj"), 0), output]

"""Kinds of layers: what attention keeps, reads and computes, and what the feed-forward part holds.

Each attention kind reduces to *scans*: how many cached entries a new token looks at, what one look costs in
FLOPs and what one entry costs in bytes. The step of `regimes` knows scans, not kinds, so a new kind of
attention is a new class here and no new code there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from physics.formats import CACHE_BYTES, LATENT_LAYOUT

UNLIMITED = math.inf

READ_ALL, READ_RECENT, READ_CHUNK, READ_CHOSEN = 0, 1, 2, 3
"""Which cached entries a scan fetches: all, the last window, the present chunk, or those its indexer chose."""


class UnsupportedModelError(ValueError):
    """A model description that is not understood; the message names the field and the architecture."""


@dataclass(frozen=True)
class Scan:
    """What one attention layer does over its cached entries, per request.

    A token at position j sees min(j // stride, limit) entries (READ_CHUNK: j mod limit). `expanded_flops_per_pair`
    and `up_projection_flops` describe the alternative form of latent attention; zero where there is none.
    """

    read: int
    flops_per_pair: float
    bytes_per_entry: float
    stride: float = 1.0
    limit: float = UNLIMITED
    expanded_flops_per_pair: float = 0.0
    up_projection_flops: float = 0.0
    shards: int = 1  # accelerators that can split one entry by heads under tensor parallelism; a latent cannot be split


class Attention(Protocol):
    """What `Model` asks of an attention kind."""

    @property
    def label(self) -> str:
        """Name of this kind as a person would say it."""
        ...

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        ...

    def scans(self, kv_dtype: str) -> list[Scan]:
        """What one layer does over its cached entries.

        kv_dtype: cache format.
        """
        ...

    def state_bytes(self) -> float:
        """Recurrent state of one request and layer [B]."""
        ...

    def token_flops(self) -> float:
        """FLOPs per token beyond scans and projections, one layer [FLOP]."""
        ...

    def up_projection_params(self) -> int:
        """Parameters that expand a latent into keys and values, one layer [1]."""
        ...


class _Stateless:
    """Defaults of kinds whose memory is a cache: no constant state, no work beyond scans and projections."""

    def state_bytes(self) -> float:
        """Recurrent state of one request and layer [B]."""
        return 0.0

    def token_flops(self) -> float:
        """FLOPs per token beyond scans and projections, one layer [FLOP]."""
        return 0.0

    def up_projection_params(self) -> int:
        """Parameters that expand a latent into keys and values, one layer [1]."""
        return 0


def _element_bytes(kv_dtype: str, kind: str) -> float:
    if kv_dtype == LATENT_LAYOUT:
        raise ValueError(
            f"kv_dtype {LATENT_LAYOUT!r} is a layout of latent attention; {kind} has no latent: choose one of {', '.join(CACHE_BYTES)}"
        )
    return CACHE_BYTES[kv_dtype]


@dataclass(frozen=True)
class GroupedQueryAttention(_Stateless):
    """Multi-head or grouped-query attention: full, sliding (`window`), chunked, or block-sparse with an indexer."""

    n_heads: int
    n_kv_heads: int
    d_k: int
    d_v: int
    window: int = 0
    chunked: bool = False
    output_gate: bool = False
    shared_kv_projection: bool = False  # gemma-4 global layers: values are the keys' projection
    index_heads: int = 0
    index_dim: int = 0
    chosen_tokens: int = 0  # block-sparse: blocks x block size
    q_rank: int = 0  # Step-3: queries pass a low-rank projection

    @property
    def label(self) -> str:
        """Name of this kind as a person would say it."""
        heads = "MHA" if self.n_kv_heads == self.n_heads else "GQA"
        if self.chosen_tokens:
            return f"block-sparse {heads}, top {self.chosen_tokens}"
        if self.window:
            return f"{'chunked' if self.chunked else 'sliding'} {heads}, {self.window}"
        return f"full {heads}"

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        d_query = self.n_heads * self.d_k
        query = (hidden + d_query) * self.q_rank if self.q_rank else hidden * d_query
        gate = hidden * self.n_heads * self.d_v if self.output_gate else 0
        key = hidden * self.n_kv_heads * self.d_k
        value = 0 if self.shared_kv_projection else hidden * self.n_kv_heads * self.d_v
        output = self.n_heads * self.d_v * hidden
        indexer = hidden * self.index_dim * (self.index_heads + 1) if self.index_heads else 0
        return query + gate + key + value + output + indexer

    def scans(self, kv_dtype: str) -> list[Scan]:
        """What one layer does over its cached entries.

        kv_dtype: cache format.
        """
        element = _element_bytes(kv_dtype, self.label)
        pair_flops = 2.0 * self.n_heads * (self.d_k + self.d_v)
        entry_bytes = self.n_kv_heads * (self.d_k + self.d_v) * element
        if self.chosen_tokens:
            index = Scan(READ_ALL, 2.0 * self.index_heads * self.index_dim, self.index_dim * element)
            return [index, Scan(READ_CHOSEN, pair_flops, entry_bytes, limit=self.chosen_tokens, shards=self.n_kv_heads)]
        if self.window:
            read = READ_CHUNK if self.chunked else READ_RECENT
            return [Scan(read, pair_flops, entry_bytes, limit=self.window, shards=self.n_kv_heads)]
        return [Scan(READ_ALL, pair_flops, entry_bytes, shards=self.n_kv_heads)]


@dataclass(frozen=True)
class LatentAttention(_Stateless):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), dense or sparse with an indexer (DeepSeek-V3.2).

    One latent of `kv_rank` + `d_rope` elements per token, whatever the heads. A layer of a sparse model either owns
    an indexer (`index_heads` > 0) or uses another layer's choice (`index_heads` = 0, `chosen_tokens` > 0).
    """

    n_heads: int
    q_rank: int
    kv_rank: int
    d_nope: int
    d_rope: int
    d_v: int
    output_gate: bool = False
    index_heads: int = 0
    index_dim: int = 0
    chosen_tokens: int = 0

    @property
    def label(self) -> str:
        """Name of this kind as a person would say it."""
        return f"sparse MLA, top {self.chosen_tokens}" if self.chosen_tokens else "MLA"

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        d_query = self.n_heads * (self.d_nope + self.d_rope)
        query = hidden * self.q_rank + self.q_rank * d_query if self.q_rank else hidden * d_query
        key_value = hidden * (self.kv_rank + self.d_rope) + self.up_projection_params()
        output = self.n_heads * self.d_v * hidden * (2 if self.output_gate else 1)
        return query + key_value + output + self._indexer_params(hidden)

    def _indexer_params(self, hidden: int) -> int:
        if not self.index_heads:
            return 0
        source = self.q_rank or hidden
        return source * self.index_heads * self.index_dim + hidden * (self.index_dim + self.index_heads)

    def up_projection_params(self) -> int:
        """Parameters that turn a latent into keys and values: c * H * (d_nope + d_v)."""
        return self.kv_rank * self.n_heads * (self.d_nope + self.d_v)

    def scans(self, kv_dtype: str) -> list[Scan]:
        """What one layer does over its cached entries.

        kv_dtype: cache format.
        """
        absorbed = 2.0 * self.n_heads * (2 * self.kv_rank + self.d_rope)
        entry_bytes, index_bytes = self._entry_bytes(kv_dtype)
        if not self.chosen_tokens:
            expanded = 2.0 * self.n_heads * (self.d_nope + self.d_rope + self.d_v)
            return [
                Scan(
                    READ_ALL,
                    absorbed,
                    entry_bytes,
                    expanded_flops_per_pair=expanded,
                    up_projection_flops=2.0 * self.up_projection_params(),
                )
            ]
        core = Scan(READ_CHOSEN, absorbed, entry_bytes, limit=self.chosen_tokens)
        if not self.index_heads:
            return [core]
        return [Scan(READ_ALL, 2.0 * self.index_heads * self.index_dim, index_bytes), core]

    def _entry_bytes(self, kv_dtype: str) -> tuple[float, float]:
        if kv_dtype == LATENT_LAYOUT:
            # 512 FP8 + one FP32 scale per 128 + rotary part in BF16 = 656 B; index key 128 FP8 + 4 B scale = 132 B
            latent = self.kv_rank + 4.0 * math.ceil(self.kv_rank / 128) + 2.0 * self.d_rope
            return latent, self.index_dim + 4.0
        element = CACHE_BYTES[kv_dtype]
        return (self.kv_rank + self.d_rope) * element, self.index_dim * element


@dataclass(frozen=True)
class CompressedAttention(_Stateless):
    """DeepSeek-V4 attention: a shared latent per `stride` tokens, plus a sliding window of uncompressed latents.

    `chosen_entries` > 0 is the 4:1 kind with an indexer (CSA); 0 reads every compressed entry (HCA); `stride` = 0 is the
    window alone. Queries and the output pass through low-rank projections, the output in groups.
    """

    n_heads: int
    d_head: int
    d_rope: int
    q_rank: int
    o_groups: int
    o_rank: int
    window: int
    stride: int = 0
    index_heads: int = 0
    index_dim: int = 0
    chosen_entries: int = 0

    @property
    def label(self) -> str:
        """Name of this kind as a person would say it."""
        if not self.stride:
            return f"window {self.window}"
        return f"compressed {self.stride}:1" + (f", top {self.chosen_entries}" if self.chosen_entries else "")

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        width = self.n_heads * self.d_head
        query = hidden * self.q_rank + self.q_rank * width
        latent = hidden * self.d_head
        output = width * self.o_rank + self.o_groups * self.o_rank * hidden
        # Compressor: value and gate projections, doubled where compression windows overlap (the 4:1 kind). An estimate.
        overlap = 2 if self.chosen_entries else 1
        compressor = 2 * overlap * hidden * self.d_head if self.stride else 0
        indexer = 0
        if self.chosen_entries:
            indexer = self.q_rank * self.index_heads * self.index_dim + hidden * self.index_heads + 4 * hidden * self.index_dim
        return query + latent + output + compressor + indexer

    def scans(self, kv_dtype: str) -> list[Scan]:
        """What one layer does over its cached entries.

        kv_dtype: cache format.
        """
        pair_flops = 4.0 * self.n_heads * self.d_head
        latent_bytes, index_bytes = self._entry_bytes(kv_dtype)
        scans = [Scan(READ_RECENT, pair_flops, latent_bytes, limit=self.window)]
        if self.stride and self.chosen_entries:
            scans.append(Scan(READ_ALL, 2.0 * self.index_heads * self.index_dim, index_bytes, stride=self.stride))
            scans.append(Scan(READ_CHOSEN, pair_flops, latent_bytes, stride=self.stride, limit=self.chosen_entries))
        elif self.stride:
            scans.append(Scan(READ_ALL, pair_flops, latent_bytes, stride=self.stride))
        return scans

    def _entry_bytes(self, kv_dtype: str) -> tuple[float, float]:
        if kv_dtype == LATENT_LAYOUT:
            # 448 FP8 + 64 rotary BF16 + 8 scale bytes = 584 B; index key of 128 FP4 + 4 B scale = 68 B (vLLM)
            return (self.d_head - self.d_rope) + 2.0 * self.d_rope + 8.0, self.index_dim / 2.0 + 4.0
        element = CACHE_BYTES[kv_dtype]
        return self.d_head * element, self.index_dim * element


@dataclass(frozen=True)
class DenseFFN:
    """A feed-forward layer every token passes: `matrices` matrices of hidden x width (gate, up, down unless said)."""

    width: int
    matrices: int = 3

    def n_params(self, hidden: int) -> int:
        """Parameters of one layer [1].

        hidden: width of the residual stream [element].
        """
        return self.matrices * hidden * self.width


@dataclass(frozen=True)
class MoEFFN:
    """Routed experts with top-k, and what every token passes beside them.

    `input_width` smaller than hidden is a latent MoE: two projections lead into and out of the narrow width.
    `shared_width` is the total width of shared experts (or of a dense FFN that runs in parallel, as in gemma-4).
    """

    n_experts: int
    top_k: int
    width: int
    input_width: int = 0
    matrices: int = 3
    shared_width: int = 0
    n_groups: int = 1
    top_groups: int = 1

    def expert_input_width(self, hidden: int) -> int:
        """Width an expert reads and writes: hidden, or the latent of a latent MoE [element].

        hidden: width of the residual stream [element].
        """
        return self.input_width or hidden

    def expert_params(self, hidden: int) -> int:
        """Parameters of one routed expert [1].

        hidden: width of the residual stream [element].
        """
        return self.matrices * self.expert_input_width(hidden) * self.width

    def router_params(self, hidden: int) -> int:
        """Parameters of one router [1].

        hidden: width of the residual stream [element].
        """
        return hidden * self.n_experts

    def shared_params(self, hidden: int) -> int:
        """Parameters of shared experts and of the two projections of a latent MoE [1].

        hidden: width of the residual stream [element].
        """
        latent = 2 * hidden * self.input_width if self.input_width not in (0, hidden) else 0
        return self.matrices * hidden * self.shared_width + latent


@dataclass(frozen=True)
class LayerGroup:
    """`count` identical layers; either part may be missing (single-purpose layers of Nemotron-H)."""

    count: int
    attention: Attention | None = None
    ffn: DenseFFN | MoEFFN | None = None

    def attention_params(self, hidden: int) -> int:
        """Attention parameters of one layer of the group [1].

        hidden: width of the residual stream [element].
        """
        return self.attention.n_params(hidden) if self.attention is not None else 0

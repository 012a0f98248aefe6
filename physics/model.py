"""A model is a list of layer groups: count x (one attention kind, one FFN kind).

Each attention kind reduces to *scans*: how many cached entries a new token looks at, what one look costs in
FLOPs and what one entry costs in bytes. The step of `regimes` knows scans, not kinds, so a new kind of
attention is a new class here and no new code there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from physics.formats import CACHE_BYTES, LATENT_LAYOUT, WEIGHT_BYTES, WeightFormats

UNLIMITED = math.inf
STATE_BYTES = 4.0  # recurrent state is kept in FP32 (mamba_ssm_dtype float32 of the published configs)
CONV_BYTES = 2.0  # the convolution's tail is kept in BF16

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
    def label(self) -> str: ...

    def n_params(self, hidden: int) -> int: ...

    def scans(self, kv_dtype: str) -> list[Scan]: ...

    def state_bytes(self) -> float: ...

    def token_flops(self) -> float: ...

    def up_projection_params(self) -> int: ...


class _Stateless:
    """Defaults of kinds whose memory is a cache: no constant state, no work beyond scans and projections."""

    def state_bytes(self) -> float:
        return 0.0

    def token_flops(self) -> float:
        return 0.0

    def up_projection_params(self) -> int:
        return 0


def _element_bytes(kv_dtype: str, kind: str) -> float:
    if kv_dtype == LATENT_LAYOUT:
        raise ValueError(f"kv_dtype {LATENT_LAYOUT!r} is a layout of latent attention; {kind} has no latent: choose one of {', '.join(CACHE_BYTES)}")
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

    @property
    def label(self) -> str:
        heads = "MHA" if self.n_kv_heads == self.n_heads else "GQA"
        if self.chosen_tokens:
            return f"block-sparse {heads}, top {self.chosen_tokens}"
        if self.window:
            return f"{'chunked' if self.chunked else 'sliding'} {heads}, {self.window}"
        return f"full {heads}"

    def n_params(self, hidden: int) -> int:
        query = hidden * self.n_heads * self.d_k
        gate = hidden * self.n_heads * self.d_v if self.output_gate else 0
        key = hidden * self.n_kv_heads * self.d_k
        value = 0 if self.shared_kv_projection else hidden * self.n_kv_heads * self.d_v
        output = self.n_heads * self.d_v * hidden
        indexer = hidden * self.index_dim * (self.index_heads + 1) if self.index_heads else 0
        return query + gate + key + value + output + indexer

    def scans(self, kv_dtype: str) -> list[Scan]:
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
        return f"sparse MLA, top {self.chosen_tokens}" if self.chosen_tokens else "MLA"

    def n_params(self, hidden: int) -> int:
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
        if not self.stride:
            return f"window {self.window}"
        return f"compressed {self.stride}:1" + (f", top {self.chosen_entries}" if self.chosen_entries else "")

    def n_params(self, hidden: int) -> int:
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
class LinearAttention:
    """A recurrent layer: delta rule (KDA, Gated DeltaNet), decay (lightning attention) or Mamba-2 state space.

    Its memory is a state of constant size per request, read and written once per step. For Mamba-2, `d_k` is the state
    size, `d_v` the head size and `n_k_heads` the number of B/C groups.
    """

    rule: str  # "kda", "gated_delta", "lightning" or "mamba2"
    n_k_heads: int
    n_v_heads: int
    d_k: int
    d_v: int
    conv_kernel: int = 4
    full_rank_gate: bool = False

    RULES = ("kda", "gated_delta", "lightning", "mamba2")

    def __post_init__(self) -> None:
        if self.rule not in self.RULES:
            raise UnsupportedModelError(f"linear attention rule {self.rule!r} is not one of {', '.join(self.RULES)}")

    @property
    def label(self) -> str:
        return {"kda": "KDA", "gated_delta": "Gated DeltaNet", "lightning": "lightning attention", "mamba2": "Mamba-2"}[self.rule]

    @property
    def conv_channels(self) -> int:
        if self.rule == "lightning":
            return 0
        return 2 * self.n_k_heads * self.d_k + self.n_v_heads * self.d_v

    def n_params(self, hidden: int) -> int:
        value, key = self.n_v_heads * self.d_v, self.n_k_heads * self.d_k
        conv = self.conv_kernel * self.conv_channels
        output = value * hidden
        if self.rule == "mamba2":
            return hidden * (2 * value + 2 * key + self.n_v_heads) + conv + output
        if self.rule == "gated_delta":
            return hidden * (2 * key + 2 * value + 2 * self.n_v_heads) + conv + output
        if self.rule == "lightning":
            return hidden * (2 * key + 2 * value) + output
        low_rank = hidden * self.d_k + self.d_k * key  # KDA's decay gate
        gate = hidden * value if self.full_rank_gate else hidden * self.d_v + self.d_v * value
        return hidden * (2 * key + value + self.n_v_heads) + low_rank + gate + conv + output

    def scans(self, kv_dtype: str) -> list[Scan]:
        del kv_dtype
        return []

    def state_bytes(self) -> float:
        recurrent = self.n_v_heads * self.d_k * self.d_v * STATE_BYTES
        return recurrent + max(self.conv_kernel - 1, 0) * self.conv_channels * CONV_BYTES

    def token_flops(self) -> float:
        per_element = 6.0 if self.rule in ("kda", "gated_delta") else 4.0
        recurrence = per_element * self.n_v_heads * self.d_k * self.d_v
        return recurrence + 2.0 * self.conv_kernel * self.conv_channels

    def up_projection_params(self) -> int:
        return 0


@dataclass(frozen=True)
class DenseFFN:
    """A feed-forward layer every token passes: `matrices` matrices of hidden x width (gate, up, down unless said)."""

    width: int
    matrices: int = 3

    def n_params(self, hidden: int) -> int:
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
        return self.input_width or hidden

    def expert_params(self, hidden: int) -> int:
        """Parameters of one routed expert."""
        return self.matrices * self.expert_input_width(hidden) * self.width

    def router_params(self, hidden: int) -> int:
        return hidden * self.n_experts

    def shared_params(self, hidden: int) -> int:
        """Shared experts and the two projections of a latent MoE."""
        latent = 2 * hidden * self.input_width if self.input_width not in (0, hidden) else 0
        return self.matrices * hidden * self.shared_width + latent


@dataclass(frozen=True)
class LayerGroup:
    """`count` identical layers; either part may be missing (single-purpose layers of Nemotron-H)."""

    count: int
    attention: Attention | None = None
    ffn: DenseFFN | MoEFFN | None = None

    def attention_params(self, hidden: int) -> int:
        return self.attention.n_params(hidden) if self.attention is not None else 0


@dataclass(frozen=True)
class Model:
    """A decoder-only language model: its layer groups, its vocabulary and the formats its weights are published in."""

    name: str
    hidden: int
    vocab: int
    groups: tuple[LayerGroup, ...]
    formats: WeightFormats = field(default_factory=WeightFormats)
    tied_embeddings: bool = False
    max_context: int = 0
    kv_dtype: str = "bf16"
    published_params: float = math.nan
    published_active_params: float = math.nan
    aliases: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, config: str | Path | dict[str, Any], **options: Any) -> Model:
        """Model described by a Hugging Face `config.json` (path or dict); see `physics.huggingface.model_from_config`."""
        from physics.huggingface import model_from_config

        return model_from_config(config, **options)

    def replace(self, **changes: Any) -> Model:
        """The same model with some fields changed."""
        return replace(self, **changes)

    @property
    def n_layers(self) -> int:
        """Number of layers of the stack."""
        return sum(group.count for group in self.groups)

    @property
    def moe_groups(self) -> tuple[tuple[int, MoEFFN], ...]:
        """(count, MoE) of each group that has routed experts."""
        return tuple((group.count, group.ffn) for group in self.groups if isinstance(group.ffn, MoEFFN))

    def params_by_class(self) -> dict[str, int]:
        """Parameters of each tensor class; a tied head has no parameters of its own."""
        hidden = self.hidden
        moes = self.moe_groups
        return {
            "attention": sum(group.count * group.attention_params(hidden) for group in self.groups),
            "dense": sum(g.count * g.ffn.n_params(hidden) for g in self.groups if isinstance(g.ffn, DenseFFN)),
            "shared": sum(count * moe.shared_params(hidden) for count, moe in moes),
            "routed": sum(count * moe.n_experts * moe.expert_params(hidden) for count, moe in moes),
            "router": sum(count * moe.router_params(hidden) for count, moe in moes),
            "embedding": self.vocab * hidden,
            "head": 0 if self.tied_embeddings else self.vocab * hidden,
        }

    @property
    def n_params(self) -> int:
        """Total parameters without norms, biases and multi-token-prediction layers."""
        return sum(self.params_by_class().values())

    @property
    def n_active_params(self) -> int:
        """Parameters one token passes, input embedding included (DeepSeek-V3: 37.55e9)."""
        active = sum(count * moe.top_k * moe.expert_params(self.hidden) for count, moe in self.moe_groups)
        return self.n_params - self.params_by_class()["routed"] + active

    def weight_formats(self, weight_dtype: str | None = None) -> WeightFormats:
        """The published formats, or every class in `weight_dtype`."""
        return self.formats if weight_dtype is None else WeightFormats.uniform(weight_dtype)

    def weight_bytes_by_class(self, weight_dtype: str | None = None) -> dict[str, float]:
        """Bytes of each tensor class [B], block scales included."""
        formats = self.weight_formats(weight_dtype)
        return {name: count * WEIGHT_BYTES[getattr(formats, name)] for name, count in self.params_by_class().items()}

    def weight_bytes(self, weight_dtype: str | None = None) -> float:
        """Bytes of all weights in memory [B]."""
        return sum(self.weight_bytes_by_class(weight_dtype).values())

    def scans(self, kv_dtype: str = "bf16") -> list[tuple[int, Scan]]:
        """(layers, scan) of every attention layer group."""
        return [(g.count, scan) for g in self.groups if g.attention is not None for scan in g.attention.scans(kv_dtype)]

    def kv_bytes_per_token(self, kv_dtype: str = "bf16") -> float:
        """Marginal cache bytes of one more token at long context, index keys included [B/token].

        Windows and recurrent state do not grow with context and are not part of it. DeepSeek-V3: 70,272 in BF16.
        """
        growing = (READ_ALL, READ_CHOSEN)
        return sum(n * scan.bytes_per_entry / scan.stride for n, scan in self.scans(kv_dtype) if scan.read in growing)

    def window_bytes(self, context_tokens: float, kv_dtype: str = "bf16") -> float:
        """Bytes the sliding and chunked windows of one request hold at this context [B]."""
        fixed = (READ_RECENT, READ_CHUNK)
        return sum(n * scan.bytes_per_entry * min(context_tokens, scan.limit) for n, scan in self.scans(kv_dtype) if scan.read in fixed)

    def state_bytes(self) -> float:
        """Bytes of recurrent state of one request, whatever its context [B]."""
        return sum(g.count * g.attention.state_bytes() for g in self.groups if g.attention is not None)

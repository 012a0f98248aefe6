"""A model is a list of layer groups, a vocabulary and the formats its weights are published in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from physics.formats import WEIGHT_BYTES, WeightFormats
from physics.layers import READ_ALL, READ_CHOSEN, READ_CHUNK, READ_RECENT, DenseFFN, LayerGroup, MoEFFN, Scan


@dataclass(frozen=True)
class Model:
    """A decoder-only language model.

    name: as shown.
    hidden: width of the residual stream [element].
    vocab: entries of the vocabulary [1].
    groups: layer groups in order.
    formats: number format of each tensor class, as published.
    tied_embeddings: whether the head is the embedding's matrix.
    max_context: longest context it was published for; 0 where unknown [token].
    kv_dtype: cache format it is usually served with.
    published_params, published_active_params: what its publisher says; NaN where unknown [1].
    aliases, source, notes: other names, where the dimensions are from, what was ignored when it was read.
    """

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
        kv_dtype: cache format.
        """
        growing = (READ_ALL, READ_CHOSEN)
        return sum(n * scan.bytes_per_entry / scan.stride for n, scan in self.scans(kv_dtype) if scan.read in growing)

    def window_bytes(self, context_tokens: float, kv_dtype: str = "bf16") -> float:
        """Bytes the sliding and chunked windows of one request hold [B].

        context_tokens: tokens of the request [token].
        kv_dtype: cache format.
        """
        fixed = (READ_RECENT, READ_CHUNK)
        return sum(n * scan.bytes_per_entry * min(context_tokens, scan.limit) for n, scan in self.scans(kv_dtype) if scan.read in fixed)

    def state_bytes(self) -> float:
        """Bytes of recurrent state of one request, whatever its context [B]."""
        return sum(g.count * g.attention.state_bytes() for g in self.groups if g.attention is not None)

"""Frozen inputs of one evaluation, and all validation: what a Scenario holds is known to be sound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from physics.efficiency import Efficiencies
from physics.efficiency import between as _between
from physics.efficiency import real as _real
from physics.efficiency import shown as _shown
from physics.formats import COMPUTE_CHAIN, KV_DTYPES, WEIGHT_BYTES, canonical, compute_format
from physics.machine import ACCOUNTINGS, Machine
from physics.model import Model
from physics.routing import Routing

ATTENTION_PARALLEL = ("data", "tensor")

RANGES: dict[str, tuple[int, int]] = {
    "context_tokens": (1, 100_000_000),
    "prompt_tokens": (1, 100_000_000),
    "new_tokens": (1, 10_000_000),
    "output_tokens": (1, 10_000_000),
    "batch": (1, 1_000_000),
    "pipeline_depth": (1, 1024),
    "gpus_per_stage": (1, 100_000),
    "chunk_tokens": (1, 100_000_000),
}
"""Allowed whole-number ranges of the numeric fields, ends included."""

KV_RANGE = (1.0, 1e9)
"""Allowed range of `kv_bytes_per_token`, ends included [B/token]."""


def _whole(name: str, value: Any, high: int | None = None) -> int:
    low, limit = RANGES[name]
    limit = min(limit, high) if high is not None else limit
    number = _real(name, value)
    if number != math.floor(number) or not low <= number <= limit:
        raise ValueError(f"{name}: {_shown(value)} is not a whole number from {low:,} to {limit:,}")
    return int(number)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    text = canonical(value) if isinstance(value, str) else ""
    if text not in choices:
        raise ValueError(f"{name}: {_shown(value)} is not one of {', '.join(choices)}")
    return text


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: {_shown(value)} is neither True nor False")
    return bool(value)


@dataclass(frozen=True)
class Scenario:
    """One model on one machine under one load: everything `regimes` needs. `None` means the default.

    model, machine: what runs, and on what.
    context_tokens: cached tokens per request that decode and midfill attend to [token].
    batch: requests in one group; a full pipe holds `pipeline_depth` such groups [1].
    new_tokens: tokens a midfill appends per request [token].
    prompt_tokens: tokens a prefill processes per request; None: `context_tokens` [token].
    output_tokens: tokens decoded per turn [token].
    kv_bytes_per_token: cache bytes per token; None: from the model and `kv_dtype` [B/token].
    pipeline_depth: stages [1].
    gpus_per_stage: accelerators that share a stage [1].
    attention_parallel: "data" (each request's KV on one accelerator) or "tensor" (heads split, latents replicated).
    weight_dtype: one format for all weights; None: as published.
    kv_dtype: format of the cache.
    compute_dtype: arithmetic of everything; None: BF16 for scores and values, the weights' format for matrices.
    attention_dtype: arithmetic of scores and values; None: BF16.
    overlap: whether memory and network transfers hide behind compute.
    double_buffered: whether two copies of the KV are held while one is exchanged.
    efficiencies: reached shares of the peaks, for the estimate; None: the bound only.
    energy_accounting: how bytes are priced, one of "device", "interface", "wires", "measured".
    routing: name or `physics.Routing`.
    memory_margin_frac: share of the capacity kept free [1].
    chunk_tokens: most tokens of a group in flight at once, for the transfer buffers [token].

    Raises ValueError naming field, value and allowed range.
    """

    model: Model
    machine: Machine
    context_tokens: int = 131_072
    batch: int = 1
    new_tokens: int = 1000
    prompt_tokens: int | None = None
    output_tokens: int = 1000
    kv_bytes_per_token: float | None = None
    pipeline_depth: int = 1
    gpus_per_stage: int = 1
    attention_parallel: str = "data"
    weight_dtype: str | None = None
    kv_dtype: str = "bf16"
    compute_dtype: str | None = None
    attention_dtype: str | None = None
    overlap: bool = True
    double_buffered: bool = False
    efficiencies: Efficiencies | None = None
    energy_accounting: str = "interface"
    routing: Routing | str = field(default_factory=Routing)
    memory_margin_frac: float = 0.0
    chunk_tokens: int = 8192

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise ValueError(f"model: {_shown(self.model)} is not a physics.Model; use physics.load_model(name) or Model.from_config(path)")
        if not isinstance(self.machine, Machine):
            raise ValueError(f"machine: {_shown(self.machine)} is not a physics.Machine; use physics.load_machine(name)")
        self._check_numbers()
        self._check_choices()
        self._check_together()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        for name in RANGES:
            if name == "prompt_tokens" and self.prompt_tokens is None:
                continue
            deepest = self.model.n_layers if name == "pipeline_depth" else None
            self._set(name, _whole(name, getattr(self, name), deepest))
        if self.kv_bytes_per_token is not None:
            self._set("kv_bytes_per_token", _between("kv_bytes_per_token", self.kv_bytes_per_token, *KV_RANGE, " B"))
        self._set("memory_margin_frac", _between("memory_margin_frac", self.memory_margin_frac, 0.0, 0.99))

    def _check_choices(self) -> None:
        self._set("attention_parallel", _choice("attention_parallel", self.attention_parallel, ATTENTION_PARALLEL))
        self._set("kv_dtype", _choice("kv_dtype", self.kv_dtype, KV_DTYPES))
        self._set("energy_accounting", _choice("energy_accounting", self.energy_accounting, ACCOUNTINGS))
        if self.weight_dtype is not None:
            self._set("weight_dtype", _choice("weight_dtype", self.weight_dtype, tuple(WEIGHT_BYTES)))
        for name in ("compute_dtype", "attention_dtype"):
            if getattr(self, name) is not None:
                self._set(name, self._compute_choice(name))
        for name in ("overlap", "double_buffered"):
            self._set(name, _flag(name, getattr(self, name)))
        if self.efficiencies is not None and not isinstance(self.efficiencies, Efficiencies):
            raise ValueError(f"efficiencies: {_shown(self.efficiencies)} is not a physics.Efficiencies")
        self._set("routing", Routing.of(self.routing))

    def _compute_choice(self, name: str) -> str:
        value = getattr(self, name)
        # The user says "fp4"; the weight formats' aliases would turn it into "nvfp4".
        if isinstance(value, str) and value.strip().lower() in ("fp4", "nvfp4", "mxfp4"):
            return "fp4"
        return _choice(name, value, tuple(COMPUTE_CHAIN))

    def _check_together(self) -> None:
        from_model = self.model.kv_bytes_per_token(self.kv_dtype)
        if self.kv_bytes_per_token is not None and not from_model:
            raise ValueError(f"kv_bytes_per_token: {self.model.name} keeps no cache that grows with context; leave it None")
        for _, moe in self.model.moe_groups:
            self.routing.check(moe.n_experts, moe.top_k)  # type: ignore[union-attr]
        self._check_formats()
        self._check_links()

    def _check_formats(self) -> None:
        """Every arithmetic this scenario asks for has a peak on its machine."""
        formats = self.model.weight_formats(self.weight_dtype)
        classes = [field.name for field in fields(formats) if field.name != "embedding"]
        wanted = {"attention_dtype": self.attention_dtype or "bf16"}
        wanted |= {f"weight_dtype (of {name})": compute_format(getattr(formats, name)) for name in classes}
        if self.compute_dtype is not None:
            wanted = {"compute_dtype": self.compute_dtype}
        for name, arithmetic in wanted.items():
            try:
                self.machine.compute_format(arithmetic)
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None

    def _check_links(self) -> None:
        machine = self.machine
        if self.gpus_per_stage > 1 and not machine.scale_up_bytes_per_s > 0:
            raise ValueError(
                f"gpus_per_stage: {self.gpus_per_stage} needs a link, and no scale-up bandwidth of {machine.name} is known; use 1"
            )
        if self.gpus_per_stage > machine.scale_up_domain and not machine.scale_out_bytes_per_s > 0:
            raise ValueError(
                f"gpus_per_stage: {self.gpus_per_stage} exceeds the {machine.scale_up_domain} of one domain of {machine.name}, "
                f"whose scale-out bandwidth is not known; use at most {machine.scale_up_domain}"
            )
        if self.pipeline_depth > 1 and not self.hop_bytes_per_s > 0:
            raise ValueError(f"pipeline_depth: {self.pipeline_depth} needs a link, and none of {machine.name} is known; use 1")

    @property
    def prefill_tokens(self) -> int:
        """Tokens per request that a prefill processes [token]."""
        return self.context_tokens if self.prompt_tokens is None else self.prompt_tokens

    @property
    def kv_token_bytes(self) -> float:
        """Cache bytes per token in force: the override, or the model's [B/token]."""
        return self.model.kv_bytes_per_token(self.kv_dtype) if self.kv_bytes_per_token is None else self.kv_bytes_per_token

    @property
    def kv_scale(self) -> float:
        """Override over the model's own bytes per token; scales stored and read per-token bytes, not FLOPs or state [1]."""
        if self.kv_bytes_per_token is None:
            return 1.0
        return self.kv_bytes_per_token / self.model.kv_bytes_per_token(self.kv_dtype)

    @property
    def hop_bytes_per_s(self) -> float:
        """Bandwidth of one accelerator's link to the next stage: scale-out, or scale-up where no scale-out is known [B/s]."""
        out = self.machine.scale_out_bytes_per_s
        return out if out > 0 else self.machine.scale_up_bytes_per_s

    @property
    def exceeds_max_context(self) -> bool:
        """Whether the context is longer than the model was published for."""
        return 0 < self.model.max_context < self.context_tokens

    def replace(self, **changes: Any) -> Scenario:
        """The same scenario with some fields changed, validated anew."""
        return replace(self, **changes)

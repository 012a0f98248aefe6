"""A machine: dense peaks, memories, links and power of one accelerator, and what a byte costs at each level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from physics.formats import COMPUTE_CHAIN

ACCOUNTINGS: tuple[str, ...] = ("device", "interface", "wires", "measured")
"""How an energy per byte is counted: memory device or bank alone; at its interface; with on-die wires to the consumer;
measured end to end. Values of two accountings must not be divided by one another unlabelled."""

LEVELS: tuple[str, ...] = ("memory", "sram", "scale_up", "scale_out")
"""Places a byte can move through, outermost first after the memory."""


@dataclass(frozen=True)
class EnergyLevel:
    """Joules per byte of one level under one accounting.

    j_per_byte: energy of moving one byte [J/B].
    accounting: one of ACCOUNTINGS; a value counted otherwise than asked for says so here.
    source: key of `data/sources.csv`.
    """

    j_per_byte: float
    accounting: str
    source: str
    label: str = ""


@dataclass(frozen=True)
class Machine:
    """One accelerator. Peaks are dense; bandwidth is per direction for links and decimal everywhere.

    peaks: dense peak of each number format [FLOP/s].
    memory_bytes, memory_bytes_per_s: capacity [B] and bandwidth [B/s] of the main memory (HBM; SRAM for SRAM machines).
    sram_bytes, sram_bytes_per_s: on-chip SRAM [B], [B/s]; NaN where not known.
    scale_up_bytes_per_s, scale_up_domain: link inside the domain, per direction and accelerator [B/s], and its size.
    scale_out_bytes_per_s: link between domains, per direction and accelerator [B/s].
    tdp_w, idle_w: power [W]; idle 0 means not stated by any source.
    price_per_hour_usd: rent of one accelerator [USD/h]; NaN where not known.
    levels: (level, accounting) -> EnergyLevel; flop_j: number format -> energy of one FLOP [J].

    Raises ValueError naming machine, field and value where a number is not positive and finite.
    """

    name: str
    peaks: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    memory_kind: str = "HBM"
    sram_bytes: float = math.nan
    sram_bytes_per_s: float = math.nan
    scale_up_bytes_per_s: float = math.nan
    scale_up_domain: int = 1
    scale_out_bytes_per_s: float = math.nan
    tdp_w: float = math.nan
    idle_w: float = 0.0
    price_per_hour_usd: float = math.nan
    announced: bool = False
    aliases: tuple[str, ...] = ()
    levels: Mapping[tuple[str, str], EnergyLevel] = field(default_factory=dict)
    flop_j: Mapping[str, EnergyLevel] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("peaks", "levels", "flop_j"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for dtype, peak in self.peaks.items():
            _check(f"{self.name}: {dtype} peak", peak)
        for name in ("memory_bytes", "memory_bytes_per_s", "scale_up_domain"):
            _check(f"{self.name}: {name}", getattr(self, name))
        for name in ("sram_bytes", "sram_bytes_per_s", "scale_up_bytes_per_s", "scale_out_bytes_per_s", "tdp_w", "price_per_hour_usd"):
            _check(f"{self.name}: {name}", getattr(self, name), or_nan=True)
        if self.idle_w != 0.0:
            _check(f"{self.name}: idle_w", self.idle_w)

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.peaks.items()), self.memory_bytes, self.memory_bytes_per_s))

    def __reduce__(self) -> Any:
        # Read-only views do not pickle; the plain dicts they show do.
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values.update(peaks=dict(self.peaks), levels=dict(self.levels), flop_j=dict(self.flop_j))
        return (_rebuild, (values,))

    def replace(self, **changes: Any) -> Machine:
        """The same machine with some fields changed, for example more capacity at constant bandwidth."""
        return replace(self, **changes)

    def compute_format(self, wanted: str) -> str:
        """The format this machine computes in when work asks for `wanted`: the next wider one where it lacks the unit.

        Raises ValueError where no peak serves, naming what the machine has.
        """
        for name in COMPUTE_CHAIN.get(wanted, (wanted,)):
            if name in self.peaks:
                return name
        have = ", ".join(self.peaks) or "none"
        raise ValueError(
            f"{self.name} has no dense peak for {wanted} or a wider format (known peaks: {have}); set compute_dtype to one of them"
        )

    def peak_flops_per_s(self, wanted: str) -> float:
        """Dense peak that serves work in `wanted` [FLOP/s]."""
        return self.peaks[self.compute_format(wanted)]

    def ridge_flops_per_byte(self, wanted: str) -> float:
        """Intensity at which the memory roof meets this format's peak [FLOP/B]."""
        return self.peak_flops_per_s(wanted) / self.memory_bytes_per_s


def _check(name: str, value: float, or_nan: bool = False) -> None:
    """Refuse what cannot be an amount of hardware; NaN says that no source gives it."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not (0.0 < value < 1e30 or (or_nan and math.isnan(value))):
        raise ValueError(f"{name}: {value!r} is not a positive number below 1e30{', or NaN where not known' if or_nan else ''}")


def _rebuild(values: dict[str, Any]) -> Machine:
    return Machine(**values)

"""What real machines reach of their peaks: the numbers that turn a bound into an estimate.

An estimate is each resource's bound over a stated efficiency, plus stated floors. Plain efficiencies hold for the step as a
whole; calibrated ones (`physics.load_efficiencies`) go part by part: attention, routed experts, the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

PHASES = ("prefill", "midfill", "decode")
PARTS = ("attention", "experts", "rest")
REGIMES = ("prefill", "midfill", "decode_attention", "decode_experts", "decode_shared")


def shown(value: Any) -> str:
    """A refused value as a message shows it: not longer than a line.

    value: whatever came in.
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def real(name: str, value: Any) -> float:
    """A finite number, or a ValueError naming the field.

    name: field, for the message.
    value: whatever came in.
    """
    if isinstance(value, (bool, np.bool_, np.ndarray)) or not hasattr(value, "__float__"):
        raise ValueError(f"{name}: {shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {shown(value)} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}: {shown(value)} is not a finite number")
    return number


def between(name: str, value: Any, low: float, high: float, unit: str = "") -> float:
    """A number within its range, or a ValueError naming field, value and range.

    name: field. value: whatever came in.
    low, high: ends of the range, included. unit: shown after them, with a leading space.
    """
    number = real(name, value)
    if not low <= number <= high:
        raise ValueError(f"{name}: {shown(value)} is outside {low:,g} to {high:,g}{unit}")
    return number


def _check(owner: Any, prefix: str, floors: tuple[str, ...]) -> None:
    for name in ("compute_frac", "memory_frac", "network_frac"):
        object.__setattr__(owner, name, between(f"{prefix}.{name}", getattr(owner, name), 1e-6, 1.0))
    for name in floors:
        object.__setattr__(owner, name, between(f"{prefix}.{name}", getattr(owner, name), 0.0, 1.0, " s"))


@dataclass(frozen=True)
class PartEfficiency:
    """What one part of a step reaches.

    part: one of PARTS. phase: one of PHASES, or empty for all. format: weight format it holds for, or empty for all.
    compute_frac, memory_frac, network_frac: reached share of dense peak, memory and link bandwidth, 1e-6 to 1 [1].
    pad_tokens: tokens of arithmetic each expert or matrix wastes on half-filled tiles: the ramp n / (n + pad) [token].
    layer_floor_s: time a layer of this part costs whatever it moves [s].
    collective_floor_s: time its exchange between accelerators costs whatever it carries [s].
    """

    part: str
    phase: str = ""
    format: str = ""
    compute_frac: float = 1.0
    memory_frac: float = 1.0
    network_frac: float = 1.0
    pad_tokens: float = 0.0
    layer_floor_s: float = 0.0
    collective_floor_s: float = 0.0

    def __post_init__(self) -> None:
        if self.part not in PARTS or self.phase not in ("", *PHASES):
            what = f"{self.part!r} in {self.phase or 'any'!r}"
            raise ValueError(f"efficiencies.parts: {what} is not one of {', '.join(PARTS)} in {', '.join(PHASES)}")
        _check(self, f"efficiencies.{self.part}", ("layer_floor_s", "collective_floor_s"))
        object.__setattr__(self, "pad_tokens", between(f"efficiencies.{self.part}.pad_tokens", self.pad_tokens, 0.0, 1e6, " tokens"))


@dataclass(frozen=True)
class Efficiencies:
    """What a real machine reaches of each peak, kept apart from data-sheet values.

    compute_frac, memory_frac, network_frac: reached share of the dense peak, of memory and of link bandwidth, 1e-6 to 1 [1].
    layer_floor_s: time a layer costs whatever it moves [s].
    parts: efficiencies part by part; where given, they replace the fractions and the floor above, parts follow one another,
        and the exchange between accelerators is not hidden.
    step_s: time of a step outside its layers [s].
    request_s: time between a request and its first step, queueing apart [s].
    spread: (regime, low, high): four of five measurements lay between low and high times the estimate [1].
    basis: what the numbers were fitted on, in words.
    """

    compute_frac: float = 1.0
    memory_frac: float = 1.0
    network_frac: float = 1.0
    layer_floor_s: float = 0.0
    parts: tuple[PartEfficiency, ...] = ()
    step_s: float = 0.0
    request_s: float = 0.0
    spread: tuple[tuple[str, float, float], ...] = ()
    basis: str = ""

    def __post_init__(self) -> None:
        _check(self, "efficiencies", ("layer_floor_s", "step_s", "request_s"))
        for regime, low, high in self.spread:
            if not 0.0 < low <= 1.0 <= high < math.inf:
                raise ValueError(f"efficiencies.spread: {regime} from {low!r} to {high!r} does not hold 1")

    def part(self, part: str, phase: str, weight_format: str) -> PartEfficiency:
        """The efficiency stated for this part: the one that says most about phase and format.

        part, phase: of PARTS and PHASES.
        weight_format: format of the weights the part reads.
        Raises ValueError where parts are stated, but none for this one.
        """
        fitting = [p for p in self.parts if p.part == part and p.phase in ("", phase) and p.format in ("", weight_format)]
        if not fitting:
            raise ValueError(f"efficiencies.parts: none is for {part} in {phase}")
        return max(fitting, key=lambda p: (p.format != "", p.phase != ""))

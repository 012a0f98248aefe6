"""Estimates of a snapshot as intervals: what the headline and the table say of them. None while they are switched off."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from app.quantities import DASH, format_quantity, split_quantity, unit_of
from app.state import Snapshot
from physics.regimes import DECODE, REGIMES


class Interval(NamedTuple):
    """An estimate and where four of five measurements lay around such estimates, in one unit."""

    low: float
    value: float
    high: float

    def text(self, unit: str) -> tuple[str, str]:
        """("7.3–14", "ms") or ("$2.8–5.6", ""): both ends with the prefix of the upper one, two digits."""
        number, symbol = split_quantity(self.high, unit, 2)
        if number == DASH:
            return DASH, ""
        lead = unit_of(unit).lead
        number = number.removeprefix(lead)
        factor = 10.0 ** round(math.log10(self.high / float(number.replace(",", ""))))  # the prefix, without the rounding
        low = self.low / factor
        decimals = max(0, 1 - math.floor(math.log10(low))) if low > 0 else 0
        return f"{lead}{low:,.{decimals}f}–{number}", symbol


def of_regime(s: Snapshot, i: int) -> Interval | None:
    """Seconds of one regime."""
    if s.scenario.efficiencies is None:
        return None
    return Interval(*(float(s.results[name][i]) for name in ("estimate_low_s", "estimate_s", "estimate_high_s")))


def ttft(s: Snapshot) -> Interval | None:
    """Seconds from a request to its first token: the midfill, and what a serving stack takes per request; no queue."""
    found = of_regime(s, REGIMES.index("midfill"))
    if found is None or s.scenario.efficiencies is None:
        return None
    return Interval(*(value + s.scenario.efficiencies.request_s for value in found))


def tpot(s: Snapshot) -> Interval | None:
    """Seconds of a decode step."""
    lines = [of_regime(s, REGIMES.index(name)) for name in DECODE]
    if any(line is None for line in lines):
        return None
    return Interval(*np.array(lines, float).sum(axis=0).tolist())


def throughput(s: Snapshot) -> Interval | None:
    """Tokens per second and accelerator of a full pipe."""
    found = tpot(s)
    if found is None:
        return None
    each = s.scenario.batch / s.scenario.gpus_per_stage
    return Interval(each / found.high, each / found.value, each / found.low)


def rent(s: Snapshot) -> Interval | None:
    """Rent of a million output tokens."""
    found, bound = tpot(s), s.turn.tpot_s
    if found is None or not bound > 0:
        return None
    return Interval(*(s.turn.usd_per_mtok * value / bound for value in found))


def cell(s: Snapshot, i: int) -> str:
    """The estimate of a regime for the table: its interval."""
    found = of_regime(s, i)
    return DASH if found is None else " ".join(found.text("s")).strip()


def sentence(s: Snapshot) -> str:
    """What the hollow points are and what they rest on; empty while switched off."""
    if s.scenario.efficiencies is None:
        return ""
    value = tpot(s)
    known = value is not None and math.isfinite(value.value)
    shown = f" A decode step is estimated at **{format_quantity(value.value, 's')}**." if value is not None and known else ""
    return f" Hollow points are estimates.{shown} {s.scenario.efficiencies.basis}"

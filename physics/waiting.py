"""Where should a blob of KV wait? Costs of holding, loading and rebuilding on a scenario, the map they make, and the best thresholds.

Costs are in one measure at a time: dollars (rent of HBM by the share held, price of the other tiers written off, rent of the accelerators
that wait or work) or joules (bytes moved, FLOP rebuilt, power of holding where it is stated). A rebuilt cache may differ subtly from the
original (another batch, another order of sums, another kernel), so services differ in how freely they discard; no cost is set on that here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from physics.replay import LENGTH_CLASSES, length_class
from physics.request_costs import fill_costs, kv_links
from physics.scenario import Scenario
from physics.tiers import LABELS, Tier, break_even_idle_s
from physics.traces import Trace

Array = np.ndarray[Any, Any]

MEASURES = ("usd", "joules")
CLASS_TOKENS = 2.0 ** (np.arange(LENGTH_CLASSES) + 9.5)
"""A context length for each length class, the middle of its octave in the logarithm [token]."""
FEWEST_GAPS = 50
_CANDIDATES = np.concatenate([[0.0], np.geomspace(0.1, 1e8, 181), [np.inf]])


@dataclass(frozen=True)
class WaitingCosts:
    """Costs of one use of KV from each place, and of holding it there, by context length; the last place is to discard it.

    places: names of tiers, and "discard".
    tokens: context lengths [token].
    access: of using it once, [place, length] [1].
    holding_per_s: of holding it for a second, [place, length] [1/s].
    measure: "usd" or "joules", the unit of both.
    access_s: seconds until it can be used, [place, length] [s].
    """

    places: tuple[str, ...]
    tokens: Array
    access: Array
    holding_per_s: Array
    measure: str
    access_s: Array

    def break_evens(self) -> dict[tuple[str, str], Array]:
        """Idle time above which the second place of each pair is the cheaper one, by length [s]."""
        pairs = [(i, j) for i in range(len(self.places)) for j in range(i + 1, len(self.places))]
        return {
            (self.places[i], self.places[j]): break_even_idle_s(
                self.access[i], self.access[j], self.holding_per_s[i], self.holding_per_s[j]
            )
            for i, j in pairs
        }

    def cheapest(self, idle_s: Any) -> Array:
        """Number of the cheapest place for each idle time and length, [idle, length] [1].

        idle_s: known idle times [s].
        """
        idle = np.asarray(idle_s, float)[:, None, None]
        return np.asarray(np.argmin(self.access + self.holding_per_s * idle, axis=1))


def usable_tiers(tiers: tuple[Tier, ...], measure: str = "usd") -> tuple[Tier, ...]:
    """Tiers whose costs are known in a measure, HBM first.

    tiers: from the top down.
    measure: one of MEASURES.
    """
    if measure not in MEASURES:
        raise ValueError(f"measure: {measure!r} is not one of {', '.join(MEASURES)}")
    return tuple(t for t in tiers if (t.priced if measure == "usd" else t.bytes_per_s > 0 and t.j_per_byte >= 0))


def waiting_costs(scenario: Scenario, tiers: tuple[Tier, ...], tokens: Any, measure: str = "usd", stall_frac: float = 1.0) -> WaitingCosts:
    """Costs of letting KV wait in each usable tier, or of discarding and rebuilding it.

    scenario: model, machine and layout; a rebuild fills the context on all its accelerators at the bound.
    tiers: from the top down.
    tokens: context lengths [token].
    measure: "usd" needs the machine's rent; "joules" counts no holding where no power is stated.
    stall_frac: share of a load during which its accelerators wait; 0 hides it behind other work [1].
    Raises ValueError where the machine has no rent and dollars are asked for.
    """
    if not 0.0 <= stall_frac <= 1.0:
        raise ValueError(f"stall_frac: {stall_frac!r} is outside 0 to 1")
    rent = scenario.machine.price_per_hour_usd / 3600.0
    if measure == "usd" and not rent > 0:
        raise ValueError(
            f"machine: no rent of {scenario.machine.name} is known, so nothing can be weighed in dollars; choose joules or give a price"
        )
    chosen, length = usable_tiers(tiers, measure), np.atleast_1d(np.asarray(tokens, float))
    size, links = scenario.kv_token_bytes * length, kv_links(scenario)
    rebuild = fill_costs(scenario, length, 0.0)
    load_s = np.array([0.0 * size if t.name == "hbm" else size / (t.bytes_per_s * links) + np.nan_to_num(t.latency_s) for t in chosen])
    if measure == "usd":
        access = [*(load_s * stall_frac * links * rent), rebuild["seconds"] * scenario.gpus_per_stage * rent]
        holding = [t.usd_per_byte_s * size for t in chosen]
    else:
        access = [*(0.0 * size if t.name == "hbm" else 2.0 * size * t.j_per_byte for t in chosen), rebuild["joules"]]
        holding = [np.nan_to_num(t.w_per_gb) / 1e9 * size for t in chosen]
    places = (*(t.name for t in chosen), "discard")
    return WaitingCosts(
        places, length, np.array(access), np.array([*holding, 0.0 * size]), measure, np.array([*load_s, rebuild["seconds"]])
    )


# ------------------------------------------------------------------------------------------------------------------- reuse
@dataclass(frozen=True)
class Reuse:
    """Idle stretches of the KV of a trace: those that ended with another turn, and those that the end of the trace cut off.

    idle_s: length of each stretch [s].
    reused: whether another turn ended it.
    tokens: context that was waiting [token].
    """

    idle_s: Array
    reused: Array
    tokens: Array

    @cached_property
    def classes(self) -> tuple[tuple[Array, Array], ...]:
        """Of each length class, for each candidate limit: uses after it [1], and seconds waited beyond it [s]."""
        own = length_class(self.tokens)
        every = _tails(self.idle_s, self.reused)
        rows = [np.flatnonzero(own == row) for row in range(LENGTH_CLASSES)]
        return tuple(_tails(self.idle_s[r], self.reused[r]) if r.size >= FEWEST_GAPS else every for r in rows)

    def probability(self, idle_s: Any) -> Array:
        """Share of contexts that are used again, of those idle for at least so long; NaN where there are none [1].

        A context still idle at the end of the trace counts as not used again, so this is a lower bound near the end.
        idle_s: idle times [s].
        """
        order = np.argsort(self.idle_s)
        place = np.searchsorted(self.idle_s[order], np.asarray(idle_s, float))
        later = np.cumsum(np.r_[0.0, self.reused[order][::-1]])[::-1][place]
        all_ = len(order) - place
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(all_ > 0, later / all_, np.nan)


def reuse(trace: Trace) -> Reuse:
    """Idle stretches of a trace.

    trace: requests in the order of time.
    """
    order = np.lexsort((np.arange(len(trace)), trace.branch))
    same = np.r_[np.diff(trace.branch[order]) == 0, False]
    time = trace.time_s[order]
    idle = np.where(same, np.r_[np.diff(time), 0.0], trace.time_s.max(initial=0.0) - time)
    return Reuse(idle, same, trace.blobs.held_tokens[order])


def best_limits(costs: WaitingCosts, stretches: Reuse) -> Array:
    """Idle limits by length class that would have cost least on these stretches: [LENGTH_CLASSES, tier] [s].

    Crossing from one tier to the next changes the cost of a stretch by a term of its own, so that the limits are independent but for their
    order, and the best of some 180 candidates is found exactly. A class with fewer than FEWEST_GAPS stretches uses all of them.
    costs: at CLASS_TOKENS, see `waiting_costs`.
    stretches: idle stretches of a trace.
    """
    if len(costs.tokens) != LENGTH_CLASSES:
        raise ValueError(f"costs: {len(costs.tokens)} lengths; limits need one for each of the {LENGTH_CLASSES} classes")
    extra, saved = np.diff(costs.access, axis=0).T, -np.diff(costs.holding_per_s, axis=0).T
    return np.array([_limits(*tails, *steps) for tails, *steps in zip(stretches.classes, extra, saved, strict=True)])


def _tails(idle: Array, reused: Array) -> tuple[Array, Array]:
    """Uses after each candidate limit, and seconds waited beyond it."""
    order = np.argsort(idle)
    place = np.searchsorted(idle[order], _CANDIDATES, side="right")
    tail_idle, tail_count, tail_used = (
        np.cumsum(np.r_[0.0, values[order][::-1]])[::-1][place] for values in (idle, np.ones(len(idle)), reused.astype(float))
    )
    return tail_used, tail_idle - np.where(np.isfinite(_CANDIDATES), _CANDIDATES, 0.0) * tail_count


def _limits(used: Array, waited: Array, extra: Array, saved: Array) -> Array:
    """Limits of one class: the least sum of each boundary's cost over limits that do not fall."""
    best, chosen = np.zeros(len(_CANDIDATES)), []
    for more, less in zip(extra, saved, strict=True):
        total = best + more * used - less * waited
        least = np.minimum.accumulate(total)
        chosen.append(np.maximum.accumulate(np.where(total <= least, np.arange(len(total)), 0)))
        best = least
    out, at = np.empty(len(chosen)), len(_CANDIDATES) - 1
    for k in range(len(chosen) - 1, -1, -1):
        at = chosen[k][at]
        out[k] = _CANDIDATES[at]
    return out


def place_label(name: str) -> str:
    """A place as people write it.

    name: of a tier, or "discard".
    """
    return LABELS[name]

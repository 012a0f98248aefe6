"""What the Sessions page shows of a trace on a scenario: mix, timeline, where KV should wait, and what a replay finds. No GUI here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

import physics
from app.quantities import DASH, format_quantity
from physics import conversation as talk
from physics.replay import LENGTH_CLASSES, Replay, hit_curve, length_class, replay_by_capacity, replay_by_idle
from physics.request_costs import ReplayCosts, fill_costs, regime_mix, replay_costs, request_costs
from physics.tier_catalog import load_tiers
from physics.tiers import FIELDS, TIERS, Tier
from physics.traces import Trace
from physics.waiting import CLASS_TOKENS, MEASURES, Reuse, WaitingCosts, best_limits, reuse, usable_tiers, waiting_costs

POLICIES = {"thresholds": "thresholds of least cost", "lru": "least recently used", "ttl": "time to live"}
COMPACTIONS = {"250k": "at 250k tokens", "1M": "at 1M tokens", "none": "never"}
CONVERSATIONS = {"heaviest": "the heaviest", "typical": "a typical one"}
SYNTHETIC = 200
"""Conversations of the synthetic workload the page opens on."""
IDLE = np.geomspace(0.1, 1e8, 109)
LENGTHS = np.geomspace(1e3, 1e6, 61)
CAPACITY_TOKENS = np.geomspace(3e4, 3e9, 121)
RANGES: Mapping[str, tuple[float, float]] = {
    "conversations_per_h": (0.1, 1e4),
    "prefix_limit_tokens": (0, 131_072),
    "large_limit_tokens": (10, 1e5),
    "ttl_s": (1.0, 604_800.0),
    "stall_frac": (0.0, 1.0),
    "summary_tokens": (1, 1e6),
}
"""Allowed values of the page's own numbers."""


@dataclass(frozen=True)
class SessionChoices:
    """The choices of the page, a part of `state.Choices`.

    trace_file: name of the user's trace; empty for the synthetic workload.
    conversations_per_h: how often a conversation starts, where the trace does not tell [1/h].
    prefix_limit_tokens, large_limit_tokens: what makes a fill a midfill, and a large one [token].
    policy, ttl_s: how KV waits, and the time to live [s].
    compaction, summary_tokens: when a conversation is compacted; tokens written for it, None to count none [token].
    conversation: which one the timeline shows.
    waiting_measure, stall_frac: what waiting is weighed in; share of a load during which accelerators wait [1].
    tiers: the user's numbers of tiers, as `tier.field=value` words separated by `;`.
    """

    trace_file: str = ""
    conversations_per_h: float = 60.0
    prefix_limit_tokens: float = 4096
    large_limit_tokens: float = 5000
    policy: str = "thresholds"
    ttl_s: float = 300.0
    compaction: str = "250k"
    summary_tokens: float | None = None
    conversation: str = "heaviest"
    waiting_measure: str = "usd"
    stall_frac: float = 1.0
    tiers: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (
            ("policy", POLICIES),
            ("compaction", COMPACTIONS),
            ("conversation", CONVERSATIONS),
            ("waiting_measure", MEASURES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: {str(getattr(self, name))[:40]!r} is not one of {', '.join(allowed)}")
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high):
                raise ValueError(f"{name}: {value!r} is not a number from {low:g} to {high:g}")
        tier_changes(self.tiers)


def tier_changes(text: str) -> dict[str, dict[str, float]]:
    """The user's numbers of tiers from their text; ValueError saying what to change.

    >>> tier_changes("pool.capacity_bytes=2e12; ssd.usd_per_gb=0.2")
    {'pool': {'capacity_bytes': 2000000000000.0}, 'ssd': {'usd_per_gb': 0.2}}
    """
    found: dict[str, dict[str, float]] = {}
    for word in filter(None, (part.strip() for part in str(text)[:2000].split(";"))):
        place, _, number = word.partition("=")
        tier, _, field = place.strip().partition(".")
        if tier not in TIERS or field not in FIELDS or (tier == "hbm" and field in ("capacity_bytes", "bytes_per_s", "latency_s")):
            raise ValueError(f"tiers: {place[:40]!r} is no number of a tier; write for example pool.capacity_bytes=2e12")
        try:
            value = float(number)
            Tier(tier, **{field: value})
        except ValueError:
            raise ValueError(f"tiers: {number[:40]!r} is no amount for {place}") from None
        if not math.isfinite(value):
            raise ValueError(f"tiers: {number[:40]!r} is no amount for {place}")
        found.setdefault(tier, {})[field] = value
    return found


def tier_text(changes: Mapping[str, Mapping[str, float]]) -> str:
    """The text of `tier_changes`."""
    return ";".join(f"{tier}.{field}={value:.10g}" for tier, values in changes.items() for field, value in values.items())


# --------------------------------------------------------------------------------------------------- what a trace has of its own
@lru_cache(maxsize=1)
def synthetic() -> Trace:
    """The synthetic workload the page opens on."""
    return physics.synthetic_trace(physics.load_workload(), SYNTHETIC)


@lru_cache(maxsize=8)
def _clocked(trace: Trace, conversations_per_h: float) -> Trace:
    return trace.started(3600.0 / conversations_per_h)


@lru_cache(maxsize=8)
def _reuse(clocked: Trace) -> Reuse:
    return reuse(clocked)


@lru_cache(maxsize=8)
def _curve(clocked: Trace) -> np.ndarray:
    return np.asarray(hit_curve(clocked, CAPACITY_TOKENS))


@lru_cache(maxsize=8)
def _percentiles(trace: Trace) -> pd.DataFrame:
    return trace.percentiles()


@lru_cache(maxsize=32)
def _turns(trace: Trace, which: str) -> tuple[np.ndarray, np.ndarray]:
    number = talk.heaviest_conversation(trace)
    if which == "typical":
        longest = np.zeros(trace.n_conversations)
        np.maximum.at(longest, trace.conversation, trace.input_tokens)
        number = int(np.argmin(np.abs(longest - np.median(longest))))
    return talk.turns_of(trace, number)


@dataclass(frozen=True, eq=False)
class SessionsView:
    """Everything the page shows, each computed when it is first asked for."""

    scenario: physics.Scenario
    chosen: SessionChoices
    trace: Trace

    @cached_property
    def clocked(self) -> Trace:
        """The trace on one clock."""
        return _clocked(self.trace, self.chosen.conversations_per_h)

    @property
    def percentiles(self) -> pd.DataFrame:
        """Distributions of the trace."""
        return _percentiles(self.trace)

    # ----------------------------------------------------------------------------------------------------------------- mix
    @cached_property
    def mix(self) -> pd.DataFrame:
        """Amounts by kind of work."""
        costs = request_costs(self.scenario, self.trace)
        return regime_mix(self.trace, costs, self.chosen.prefix_limit_tokens, self.chosen.large_limit_tokens)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Shares by kind of work; zero where there is nothing to share."""
        totals = self.mix.sum()
        return self.mix.div(totals.where(totals > 0), axis=1).fillna(0.0)

    def new_tokens_at_intensity(self, intensity: float, prefix: np.ndarray) -> np.ndarray:
        """New tokens at which a fill on each prefix reaches an intensity; NaN where it does not below a million."""
        grid = np.geomspace(1.0, 1e6, 49)
        reached = self._intensities >= intensity
        first = np.argmax(reached, axis=1)
        out = np.full(len(prefix), np.nan)
        for i in np.flatnonzero(reached.any(axis=1) & (first > 0)):
            low, high = np.log(self._intensities[i, first[i] - 1 : first[i] + 1])
            part = (math.log(intensity) - low) / (high - low)
            out[i] = grid[first[i] - 1] * (grid[first[i]] / grid[first[i] - 1]) ** part
        return out

    @cached_property
    def _intensities(self) -> np.ndarray:
        prefix, new = np.meshgrid(PREFIXES, np.geomspace(1.0, 1e6, 49), indexing="ij")
        costs = fill_costs(self.scenario, new.ravel(), prefix.ravel())
        return np.asarray((costs["flops"] / costs["bytes"]).reshape(prefix.shape))

    # ------------------------------------------------------------------------------------------------------------ timeline
    @cached_property
    def plain(self) -> pd.DataFrame:
        """Timeline without compaction."""
        return talk.timeline(self.scenario, *_turns(self.trace, self.chosen.conversation))

    @cached_property
    def compacted(self) -> pd.DataFrame:
        """Timeline with compaction; the same as `plain` where it never happens."""
        if self.chosen.compaction == "none":
            return self.plain
        how = physics.load_compaction(talk.LIMITS[self.chosen.compaction], self.chosen.summary_tokens or 0.0)
        return talk.timeline(self.scenario, *_turns(self.trace, self.chosen.conversation), how)

    def payback(self, measure: str) -> talk.Payback:
        """Whether compaction pays in "seconds" or "joules"."""
        return talk.payback(self.plain, self.compacted, measure)

    # ------------------------------------------------------------------------------------------------------------- waiting
    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """All tiers, with the user's numbers."""
        changes = tier_changes(self.chosen.tiers)
        return tuple(tier.replace(**changes.get(tier.name, {})) for tier in load_tiers(self.scenario.machine))

    @property
    def weighable(self) -> bool:
        """Whether the chosen measure has all it needs."""
        return self.chosen.waiting_measure != "usd" or self.scenario.machine.price_per_hour_usd > 0

    @property
    def measure(self) -> str:
        """The measure in use: joules where no rent is known."""
        return self.chosen.waiting_measure if self.weighable else "joules"

    def waiting(self, tokens: np.ndarray) -> WaitingCosts:
        """Costs of waiting for contexts of these lengths."""
        return waiting_costs(self.scenario, self.tiers, tokens, self.measure, self.chosen.stall_frac)

    @cached_property
    def map_costs(self) -> WaitingCosts:
        """Costs over the lengths of the map."""
        return self.waiting(LENGTHS)

    @cached_property
    def limits(self) -> np.ndarray:
        """Idle limits of least cost on this trace, [length class, tier]."""
        return best_limits(self.waiting(CLASS_TOKENS), _reuse(self.clocked))

    @cached_property
    def reused(self) -> np.ndarray:
        """Probability of another use, over IDLE."""
        return _reuse(self.clocked).probability(IDLE)

    @cached_property
    def typical_class(self) -> int:
        """Length class of the median context."""
        return int(length_class(np.median(self.trace.input_tokens))) if len(self.trace) else 0

    # -------------------------------------------------------------------------------------------------------------- replay
    @cached_property
    def kept_tiers(self) -> tuple[Tier, ...]:
        """Tiers the replay uses: those with a capacity, by capacity; those that can be weighed, by idle time; HBM for a time to live."""
        if self.chosen.policy == "lru":
            return tuple(t for t in self.tiers if t.name == "hbm" or (t.capacity_bytes > 0 and t.bytes_per_s > 0))
        return usable_tiers(self.tiers, self.measure) if self.chosen.policy == "thresholds" else self.tiers[:1]

    def capacity_bytes(self, tier: Tier) -> float:
        """Room of a tier for KV over all accelerators: of HBM, what the weights leave."""
        s = self.scenario
        if tier.name != "hbm":
            return tier.capacity_bytes * s.gpus_per_stage * s.pipeline_depth
        memory = physics.stage_memory(s)
        copies = 2.0 if s.double_buffered else 1.0
        return max(memory.capacity - memory.weights - memory.buffers - memory.margin, 0.0) * s.pipeline_depth / copies

    @cached_property
    def replay(self) -> Replay:
        """The trace through the tiers under the chosen policy."""
        if self.chosen.policy == "lru":
            return replay_by_capacity(self.clocked, [self.capacity_bytes(tier) / self.token_bytes for tier in self.kept_tiers])
        return replay_by_idle(self.clocked, self.limits if self.chosen.policy == "thresholds" else [self.chosen.ttl_s])

    @property
    def token_bytes(self) -> float:
        """KV of a token, at least a byte: a model without a growing cache holds nothing to speak of."""
        return max(self.scenario.kv_token_bytes, 1.0)

    @cached_property
    def costs(self) -> ReplayCosts:
        """Seconds and joules of the replay by request."""
        return replay_costs(self.scenario, self.replay, self.kept_tiers)

    @property
    def curve(self) -> np.ndarray:
        """Hit share of one least-recently-used cache over CAPACITY_TOKENS."""
        return _curve(self.clocked)


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> [duration(s) for s in (0.02, 2.25, 75.0, 5400.0, 86400.0, 3e7)]
    ['20.0 ms', '2.25 s', '1.25 min', '1.5 h', '1 day', '347 days']
    """
    if not math.isfinite(seconds):
        return "never" if seconds > 0 else DASH
    for size, unit in ((86_400.0, "day"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            number = f"{seconds / size:.3g}"
            return f"{int(float(number)):,} days" if "e" in number else f"{number} {unit}{'s' if unit == 'day' and number != '1' else ''}"
    return format_quantity(seconds, "s")


PREFIXES = np.geomspace(1e2, 1e6, 65)
"""Prefixes along which lines of equal intensity are drawn."""


def limit_at(view: SessionsView, place: int) -> float:
    """Idle limit of a tier for the typical context [s]."""
    return float(view.limits[min(view.typical_class, LENGTH_CLASSES - 1), place])

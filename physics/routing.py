"""How tokens choose experts: a frozen description that every regime, the energy model and the sweeps share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from physics.coincidence import (
    OverlapLaw,
    awake,
    awake_correlated,
    awake_table,
    concentration,
    distinct_experts_sd_correlated,
    distinct_experts_sd_skewed,
    fill_from_table,
)
from physics.experts import distinct_experts_round_robin, distinct_experts_sd, distinct_experts_uniform
from physics.inclusion import SIGMA_RANGE, ZIPF_RANGE, checked_weights, inclusion_probabilities, lognormal_weights, zipf_weights

Array = np.ndarray[Any, Any]

_PANELS = 33  # ln of the most tokens a scenario can hold, 1e6 requests of 1e8, is under 33
_TABLE_PAYS = 1024


@dataclass(frozen=True)
class Routing:
    """Law by which tokens pick their experts; make one by `uniform()`, `round_robin()`, `skewed()`, `from_inclusion()`, `from_counts()`.

    kind: "uniform" (every expert equally likely), "round_robin" (dealt in perfect balance), "skewed" (router weights of a law),
        "inclusion" (given probabilities) or "counts" (measured assignments).
    sigma: lognormal router weights exp(sigma * Phi^-1((e-1/2)/E)) of a skewed routing [1].
    zipf: Zipf exponent of the router weights of a skewed routing [1].
    overlap: share of their experts that two tokens of one request have in common: a mean over the window [1], or an `OverlapLaw` of
        their distance; None: tokens of a request are as independent as those of different ones.
    numbers: inclusion probabilities or counts, row by row.
    n_rows: layers they describe; results are means over these layers.

    >>> round(float(Routing.skewed(sigma=0.75).distinct_experts(128, 8, 32, 1)), 1)
    96.7
    """

    kind: str = "uniform"
    sigma: float | None = None
    zipf: float | None = None
    overlap: float | OverlapLaw | None = None
    numbers: bytes = field(default=b"", repr=False)
    n_rows: int = 0

    KINDS = ("uniform", "round_robin", "skewed", "inclusion", "counts")
    NAMES = KINDS[:2]

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ValueError(f"routing: {self.kind!r} is not one of {', '.join(self.NAMES)}")
        if (self.kind == "skewed") != ((self.sigma is None) != (self.zipf is None)):
            raise ValueError("routing: a skewed routing has either sigma or zipf, and no other has one; use Routing.skewed(sigma=...)")
        if (self.kind in ("inclusion", "counts")) != bool(self.numbers and self.n_rows):
            raise ValueError("routing: use Routing.from_inclusion(pi) or Routing.from_counts(counts)")
        object.__setattr__(self, "sigma", _optional("sigma", self.sigma, SIGMA_RANGE))
        object.__setattr__(self, "zipf", _optional("zipf", self.zipf, ZIPF_RANGE))
        if not isinstance(self.overlap, OverlapLaw):
            object.__setattr__(self, "overlap", _optional("overlap", self.overlap, (0.0, 1.0)))

    @classmethod
    def uniform(cls, overlap: float | OverlapLaw | None = None) -> Routing:
        """All experts equally likely.

        overlap: see the class [1].
        """
        return cls("uniform", overlap=overlap)

    @classmethod
    def round_robin(cls, overlap: float | OverlapLaw | None = None) -> Routing:
        """Perfect balance: min(kT, E) experts awake, the limit that synthetic benchmarks follow.

        overlap: within a request; requests with an overlap are dealt in balance, each as a uniform one touches its experts [1].
        """
        return cls("round_robin", overlap=overlap)

    @classmethod
    def skewed(cls, sigma: float | None = None, zipf: float | None = None, overlap: float | OverlapLaw | None = None) -> Routing:
        """Experts of unequal router weight, drawn without replacement: give sigma or zipf.

        sigma: lognormal weights; 0.4-0.7 mixed traffic, 0.75 Qwen3-30B-A3B, 1.1 DeepSeek-R1 on one workload, 1.3 gpt-oss-120b [1].
        zipf: weights rank^-zipf [1].
        overlap: see the class [1].
        """
        return cls("skewed", sigma=sigma, zipf=zipf, overlap=overlap)

    @classmethod
    def from_inclusion(cls, pi: Any, overlap: float | OverlapLaw | None = None) -> Routing:
        """Given probability of each expert to be in a token's top k; they must add up to k.

        pi: one per expert, or one row per layer [1].
        overlap: see the class [1].
        """
        chances = checked_weights(pi)
        sums = np.atleast_1d(chances.sum(axis=-1))
        whole = np.round(sums)
        if (chances > 1.0 + 1e-9).any() or (np.abs(sums - whole) > 1e-6 * whole).any() or (whole != whole[0]).any():
            raise ValueError(
                f"routing: inclusion probabilities lie between 0 and 1 and add up to the experts per token, the same whole number in each "
                f"layer; these go up to {chances.max():g} and add up to {sums.min():g} to {sums.max():g}"
            )
        return cls("inclusion", numbers=np.minimum(chances, 1.0).tobytes(), n_rows=sums.size, overlap=overlap)

    @classmethod
    def from_counts(cls, counts: Any, overlap: float | OverlapLaw | None = None) -> Routing:
        """Measured assignments of tokens to experts, of a model with as many experts.

        counts: one per expert, or one row per layer [1].
        overlap: see the class [1].
        """
        rows = np.atleast_2d(checked_weights(counts))
        return cls("counts", numbers=rows.tobytes(), n_rows=len(rows), overlap=overlap)

    @classmethod
    def of(cls, routing: str | Routing) -> Routing:
        """A Routing from its name or itself; ValueError naming the choices otherwise.

        routing: "uniform", "round_robin" or a Routing.
        """
        if isinstance(routing, Routing):
            return routing
        if isinstance(routing, str) and routing.strip().lower().replace("-", "_") in cls.NAMES:
            return cls(routing.strip().lower().replace("-", "_"))
        raise ValueError(f"routing: {routing!r} is neither a name ({', '.join(cls.NAMES)}) nor a physics.Routing")

    def check(self, n_experts: int, top_k: int) -> None:
        """Refuse, with a ValueError that says why, a model that these numbers were not measured for.

        n_experts: routed experts per layer E [1].
        top_k: experts per token k [1].
        """
        if not self.numbers:
            return
        rows = self._rows()
        if rows.shape[1] != n_experts:
            raise ValueError(
                f"routing: measured on {rows.shape[1]} experts per layer, and this model has {n_experts}; "
                f"use a routing with {n_experts} experts, or Routing.skewed(sigma=...), which fits any"
            )
        if self.kind == "inclusion" and round(float(rows[0].sum())) != top_k:
            raise ValueError(
                f"routing: inclusion probabilities add up to {rows[0].sum():g}, and this model chooses {top_k} experts per token"
            )
        checked_weights(rows, top_k)

    def _rows(self) -> Array:
        return np.frombuffer(self.numbers).reshape(self.n_rows, -1)

    def inclusion(self, n_experts: int, top_k: int) -> Array:
        """Probability of each expert to be in a token's top k, one row per layer described [1].

        n_experts: E [1].
        top_k: k [1].
        """
        return self._law(n_experts, top_k).inclusion

    def _law(self, n_experts: Any, top_k: Any) -> _Law:
        experts, chosen = int(n_experts), int(top_k)
        if experts != n_experts or chosen != top_k or not 1 <= chosen <= experts:
            raise ValueError(f"routing: {top_k!r} of {n_experts!r} experts per token; both are whole numbers, and 1 <= top_k <= n_experts")
        # The overlap is no part of the key: moving it must not compute the inclusion anew.
        plain = self if self.overlap is None else _without_overlap(self)
        return _law_of(plain, experts, chosen)

    def distinct_experts(self, n_experts: Any, top_k: Any, requests: Any, tokens_per_request: Any) -> Any:
        """Expected distinct experts of one layer that a step touches; arrays broadcast [expert].

        Exact for independent tokens; within a request, the beta form of `coincidence.distinct_experts_correlated`, an estimate.
        n_experts: routed experts per layer E [1].
        top_k: experts per token k [1].
        requests: requests R in the group [1].
        tokens_per_request: tokens each of them brings [token].
        """
        if self.kind == "round_robin" and self.overlap is not None:
            alone = replace(self, kind="uniform").distinct_experts(n_experts, top_k, 1.0, tokens_per_request)
            return np.minimum(alone * np.asarray(requests, float), np.asarray(n_experts, float))
        tokens = np.asarray(requests, float) * np.asarray(tokens_per_request, float)
        if self.kind == "round_robin":
            return distinct_experts_round_robin(n_experts, top_k, tokens)
        if self.kind == "uniform" and self.overlap is None:
            with np.errstate(divide="ignore"):  # k = E: log(0), every expert is touched
                return distinct_experts_uniform(n_experts, top_k, tokens)
        return _per_model(self._distinct, n_experts, top_k, requests, tokens_per_request)

    def _distinct(self, n_experts: Any, top_k: Any, requests: Any, tokens_per_request: Any) -> Any:
        law = self._law(n_experts, top_k)
        count, window = np.asarray(requests, float), np.asarray(tokens_per_request, float)
        if self.overlap is None or (window.ndim == 0 and window == 1.0):
            return law.independent(count * window)
        return law.correlated(count, window, self.overlap)

    def distinct_experts_sd(self, n_experts: Any, top_k: Any, requests: Any, tokens_per_request: Any) -> Any:
        """Standard deviation of the distinct experts of one layer, a root mean square over layers [expert].

        Exact for uniform independent tokens and zero for round robin; with skew an estimate (`coincidence.distinct_experts_sd_skewed`),
        with an overlap within the request a rough one (`coincidence.distinct_experts_sd_correlated`).
        n_experts: E [1].
        top_k: k [1].
        requests: R [1].
        tokens_per_request: tokens each of them brings [token].
        """
        tokens = np.asarray(requests, float) * np.asarray(tokens_per_request, float)
        if self.kind == "uniform" and self.overlap is None:
            return distinct_experts_sd(n_experts, top_k, tokens)
        if self.kind == "round_robin":
            return np.zeros(np.broadcast(n_experts, top_k, tokens).shape)[()]
        return _per_model(self._spread, n_experts, top_k, requests, tokens_per_request)

    def _spread(self, n_experts: Any, top_k: Any, requests: Any, tokens_per_request: Any) -> Any:
        law = self._law(n_experts, top_k)
        count, window = np.broadcast_arrays(np.asarray(requests, float), np.asarray(tokens_per_request, float))
        squares = np.zeros(count.shape)
        for row, chance in zip(law.inclusion, law.overlap_by_chance, strict=True):
            if self.overlap is None:
                squares += distinct_experts_sd_skewed(row, count * window) ** 2
            else:
                overlap = _overlap_in(self.overlap, window, chance)
                squares += distinct_experts_sd_correlated(row, count, window, overlap) ** 2
        return np.sqrt(squares / len(law.inclusion))[()]


def _optional(name: str, value: Any, bounds: tuple[float, float]) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not bounds[0] <= value <= bounds[1]:
        raise ValueError(f"routing: {name} {value!r} is not a number from {bounds[0]:g} to {bounds[1]:g}")
    return float(value)


def _per_model(evaluated: Any, n_experts: Any, top_k: Any, requests: Any, tokens: Any) -> Any:
    """Arrays of experts and top k, one pair at a time."""
    if np.ndim(n_experts) == 0 and np.ndim(top_k) == 0:
        return evaluated(n_experts, top_k, requests, tokens)
    experts, chosen, count, window = np.broadcast_arrays(n_experts, top_k, np.asarray(requests, float), np.asarray(tokens, float))
    out = np.empty(experts.shape)
    for pair in {(e, k) for e, k in zip(experts.ravel().tolist(), chosen.ravel().tolist(), strict=True)}:
        here = (experts == pair[0]) & (chosen == pair[1])
        out[here] = evaluated(*pair, count[here], window[here])
    return out


def _overlap_in(overlap: float | OverlapLaw, tokens: Array, chance: Any) -> Any:
    """Mean overlap of a window of tokens in a layer whose independent tokens overlap by `chance`."""
    if isinstance(overlap, OverlapLaw):
        return overlap.carried(overlap.window_mean(tokens), chance)
    return np.full(tokens.shape, overlap)


@lru_cache(maxsize=256)
def _without_overlap(routing: Routing) -> Routing:
    return replace(routing, overlap=None)


@dataclass(frozen=True, eq=False)
class _Law:
    """A routing at work in one model: inclusion by layer, and its different values with how often each occurs per layer."""

    inclusion: Array
    chances: Array
    shares: Array
    layers: Array
    overlap_by_chance: Array
    table: list[Array] = field(default_factory=list)

    def independent(self, tokens: Array) -> Any:
        flat = np.atleast_1d(tokens).ravel()
        with np.errstate(divide="ignore"):
            idle = np.log1p(-self.chances)
        if flat.size < _TABLE_PAYS or flat.min() < 1.0 or not flat.max() < math.exp(_PANELS):
            return awake(idle, self.shares, flat).reshape(tokens.shape)[()]
        if not self.table:
            self.table.append(awake_table(idle, self.shares, _PANELS))
        out = np.empty(flat.size)
        fill_from_table(self.table[0], flat, out)
        return out.reshape(tokens.shape)

    def correlated(self, requests: Array, tokens: Array, overlap: float | OverlapLaw) -> Any:
        count, window = np.broadcast_arrays(requests, tokens)
        windows, which = np.unique(window.ravel(), return_inverse=True)
        order = np.argsort(which, kind="stable")
        starts = np.searchsorted(which[order], np.arange(windows.size + 1))
        chance = self.overlap_by_chance
        mean = _overlap_in(overlap, windows[:, None], chance)
        sizes = np.broadcast_to(concentration(mean, chance), (windows.size, chance.size))
        out = np.empty(count.size)
        out[order] = awake_correlated(self.chances, self.shares, self.layers, sizes, windows, starts, count.ravel()[order])
        return out.reshape(count.shape)[()]


@lru_cache(maxsize=128)
def _law_of(routing: Routing, n_experts: int, top_k: int) -> _Law:
    routing.check(n_experts, top_k)
    inclusion = np.atleast_2d(_inclusion(routing, n_experts, top_k))
    inclusion.setflags(write=False)
    layers, chances, counts = [], [], []
    for layer, row in enumerate(inclusion):
        values, repeats = np.unique(row, return_counts=True)
        layers += [layer] * values.size
        chances.append(values)
        counts.append(repeats / len(inclusion))
    by_chance = (inclusion**2).sum(axis=1) / top_k
    return _Law(inclusion, np.concatenate(chances), np.concatenate(counts), np.array(layers), by_chance)


def _inclusion(routing: Routing, n_experts: int, top_k: int) -> Array:
    if routing.sigma is not None:
        return inclusion_probabilities(lognormal_weights(n_experts, routing.sigma), top_k)
    if routing.zipf is not None:
        return inclusion_probabilities(zipf_weights(n_experts, routing.zipf), top_k)
    if routing.kind == "counts":
        return inclusion_probabilities(routing._rows(), top_k, "counts")
    return routing._rows() if routing.numbers else np.full(n_experts, top_k / n_experts)


def expected_distinct_experts(n_experts: Any, top_k: Any, tokens: Any, routing: str | Routing = "uniform", requests: Any = 1.0) -> Any:
    """Expected distinct experts of one MoE layer that a number of tokens touch; arrays broadcast [expert].

    n_experts: routed experts per layer E [1].
    top_k: experts per token k [1].
    tokens: tokens T [token].
    routing: name or `Routing`.
    requests: requests the tokens come from, evenly; matters only where the routing has an overlap within a request [1].

    >>> round(float(expected_distinct_experts(256, 8, 32)), 2)
    163.31
    >>> round(float(expected_distinct_experts(256, 8, 32, Routing.uniform(overlap=0.3))), 1)
    52.1
    """
    count = np.asarray(requests, float)
    return Routing.of(routing).distinct_experts(n_experts, top_k, count, np.asarray(tokens, float) / count)

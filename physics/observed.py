"""A user's own routing: popularity, skew and overlap within a request, and the `Routing` that carries them into a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from physics._numba import kernel
from physics.coincidence import OverlapLaw, distinct_experts_correlated, distinct_experts_mean
from physics.inclusion import SIGMA_RANGE, inclusion_probabilities, lognormal_weights
from physics.routing import Routing

Array = np.ndarray[Any, Any]

_MOST_COMPARISONS = 4e8
_LONGEST_DISTANCE = 512


@dataclass(frozen=True, eq=False)
class ObservedRouting:
    """Counts of chosen experts by layer and, where a trace was given, the choices themselves.

    name: where it comes from.
    counts: assignments, one row per layer [1].
    top_k: experts per token; None where only counts are known [1].
    chosen: experts by (token, layer, choice), or None [1].
    offsets: first token of each request, and the number of tokens last, or None [token].
    """

    name: str
    counts: Array
    top_k: int | None = None
    chosen: Array | None = None
    offsets: Array | None = None

    @property
    def n_layers(self) -> int:
        """Layers described."""
        return len(self.counts)

    @property
    def n_experts(self) -> int:
        """Routed experts per layer."""
        return int(self.counts.shape[1])

    @property
    def n_requests(self) -> int:
        """Requests of the trace; 0 for counts."""
        return 0 if self.offsets is None else len(self.offsets) - 1

    def inclusion(self, top_k: int | None = None) -> Array:
        """Probability of each expert to be in a token's top k, by layer [1].

        top_k: where the file does not tell it [1].
        """
        return inclusion_probabilities(self.counts, self._k(top_k), "counts")

    def _k(self, top_k: int | None) -> int:
        k = self.top_k if self.top_k is not None else top_k
        if k is None:
            raise ValueError("top_k: counts alone do not tell how many experts a token chooses; give top_k")
        return int(k)

    def popularity(self) -> pd.DataFrame:
        """One row per layer and expert: its assignments, share of the load, and rank in the layer (1 is the most popular)."""
        layers, experts = np.divmod(np.arange(self.counts.size), self.n_experts)
        frame = pd.DataFrame({"layer": layers, "expert": experts, "assignments": self.counts.ravel()})
        frame["load_frac"] = (self.counts / self.counts.sum(axis=1, keepdims=True)).ravel()
        frame["rank"] = frame.groupby("layer")["assignments"].rank(method="first", ascending=False).astype(int)
        return frame

    def skew(self) -> pd.DataFrame:
        """One row per layer: Gini coefficient, effective experts (exp of the entropy), largest share over the mean share."""
        shares = self.counts / self.counts.sum(axis=1, keepdims=True)
        rows = {"gini": gini(shares), "effective_experts": effective_experts(shares), "max_over_mean": shares.max(axis=1) * self.n_experts}
        return pd.DataFrame(rows, index=pd.RangeIndex(self.n_layers, name="layer"))

    def chance_overlap(self, top_k: int | None = None) -> float:
        """Overlap of two independent tokens, sum(pi^2)/k, a mean over layers, without the bias of finite counts [1].

        top_k: where the file does not tell it [1].
        """
        k = self._k(top_k)
        tokens = self.counts.sum(axis=1) / k
        pairs = np.maximum(tokens * (tokens - 1.0), 1.0)
        # c(c-1)/(n(n-1)) is the unbiased square of a share; counts so small that it fails keep the plain one.
        squares = (self.counts * np.maximum(self.counts - 1.0, 0.0)).sum(axis=1) / pairs
        return float(np.mean(np.clip(squares / k, k / self.n_experts, 1.0)))

    def sigma(self, top_k: int | None = None) -> float:
        """Lognormal sigma of router weights whose independent tokens overlap as much as these [1].

        top_k: where the file does not tell it [1].
        """
        return fitted_sigma(self.n_experts, self._k(top_k), self.chance_overlap(top_k))

    @cached_property
    def overlap(self) -> pd.DataFrame:
        """Overlap of two tokens of a request against their distance: distance_tokens, overlap_frac, pairs; empty without a trace."""
        if self.chosen is None or self.offsets is None:
            return pd.DataFrame({"distance_tokens": [], "overlap_frac": [], "pairs": []}, dtype=float)
        longest = int(min(np.diff(self.offsets).max() - 1, _LONGEST_DISTANCE))
        distances = np.unique(np.geomspace(1, longest, 24).astype(np.int64)) if longest >= 1 else np.empty(0, np.int64)
        comparisons = len(self.chosen) * self.chosen.shape[1] * self.chosen.shape[2] ** 2 * max(distances.size, 1)
        stride = int(np.ceil(comparisons / _MOST_COMPARISONS))
        shared, pairs = _shared_by_distance(self.chosen, self.offsets, distances, stride)
        kept = pairs > 0
        overlap = shared[kept] / (pairs[kept] * self.chosen.shape[1] * self.chosen.shape[2])
        return pd.DataFrame({"distance_tokens": distances[kept], "overlap_frac": overlap, "pairs": pairs[kept]})

    @cached_property
    def law(self) -> OverlapLaw | None:
        """Decay law fitted to `overlap`; None without a trace or without two tokens of one request."""
        frame = self.overlap
        if not len(frame):
            return None
        return fitted_law(frame["distance_tokens"], frame["overlap_frac"], frame["pairs"], min(self.chance_overlap(), 1.0 - 1e-9))

    def window_overlap(self, tokens: int) -> Array:
        """Mean overlap of all pairs of a window of one request, by layer; NaN where no request is so long [1].

        tokens: tokens of the window, two or more [token].
        """
        chosen, offsets = self._trace()
        return self._windows(chosen, offsets, tokens)[1]

    def _trace(self) -> tuple[Array, Array]:
        if self.chosen is None or self.offsets is None:
            raise ValueError(f"{self.name}: counts tell nothing about tokens of one request; give a trace of chosen experts")
        return self.chosen, self.offsets

    def _windows(self, chosen: Array, offsets: Array, tokens: int) -> tuple[Array, Array]:
        windows, distinct, pairs = _windows_of(chosen, offsets, int(tokens), self.n_experts)
        if not windows:
            return np.full(self.n_layers, np.nan), np.full(self.n_layers, np.nan)
        each = windows * tokens * max(tokens - 1, 1) * chosen.shape[2]
        return distinct / windows, pairs / each

    def within_request(self, tokens: Any = (2, 4, 8, 16, 32, 64, 128, 256)) -> pd.DataFrame:
        """Distinct experts of windows of one request, measured against each form: means over layers, one row per window.

        Columns: tokens, measured, independent, beta_measured (the beta form with the measured overlap of each layer and window),
        beta_law (with the fitted law), each in experts. Windows no request is long enough for are left out.
        tokens: lengths of the windows [token].
        """
        chosen, offsets = self._trace()
        inclusion, k, rows = self.inclusion(), self._k(None), []
        lawful = self.routing()
        for m in tokens:
            distinct, overlap = self._windows(chosen, offsets, m)
            if np.isfinite(distinct).all():
                apart = [distinct_experts_mean(row, m) for row in inclusion]
                beta = [distinct_experts_correlated(row, 1, m, w) for row, w in zip(inclusion, overlap, strict=True)]
                law = lawful.distinct_experts(self.n_experts, k, 1, m)
                rows.append((m, distinct.mean(), np.mean(apart), np.mean(beta), float(law)))
        return pd.DataFrame(rows, columns=["tokens", "measured", "independent", "beta_measured", "beta_law"])

    def routing(self, overlap: bool = True) -> Routing:
        """The routing to put into a scenario of a model with as many experts: these counts, and the fitted law where there is a trace.

        overlap: whether tokens of a request share experts as measured.
        """
        return Routing.from_counts(self.counts, overlap=self.law if overlap else None)


def gini(shares: Any) -> Any:
    """Gini coefficient of shares, over the last axis: 0 is equal, 1 - 1/E is all on one [1].

    shares: non-negative [1].

    >>> float(gini([1.0, 0.0, 0.0, 0.0]))
    0.75
    """
    ordered = np.sort(np.asarray(shares, float), axis=-1)
    n = ordered.shape[-1]
    weights = 2.0 * np.arange(1, n + 1) - n - 1.0
    return (ordered * weights).sum(axis=-1) / (n * ordered.sum(axis=-1))


def effective_experts(shares: Any) -> Any:
    """Experts that would carry this entropy if all were equal, over the last axis: exp(-sum p ln p) [expert].

    shares: non-negative [1].

    >>> round(float(effective_experts([0.5, 0.5, 0.0])), 9)
    2.0
    """
    p = np.asarray(shares, float)
    p = p / p.sum(axis=-1, keepdims=True)
    return np.exp(-(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=-1))


def fitted_sigma(n_experts: int, top_k: int, chance_overlap: float) -> float:
    """Lognormal sigma of router weights with a given overlap of independent tokens, by bisection [1].

    n_experts: E [1].
    top_k: k [1].
    chance_overlap: sum(pi^2)/k; k/E or less gives 0 [1].

    >>> fitted_sigma(64, 8, 0.125)
    0.0
    """
    low, high = SIGMA_RANGE
    if chance_overlap <= top_k / n_experts * (1.0 + 1e-12):
        return 0.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        inclusion = inclusion_probabilities(lognormal_weights(n_experts, middle), top_k)
        if (inclusion**2).sum() / top_k < chance_overlap:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def fitted_law(distance_tokens: Any, overlap_frac: Any, pairs: Any, chance: float) -> OverlapLaw:
    """Overlap law closest to measured overlaps: for each exponent limit and amplitude by least squares, each pair one observation.

    distance_tokens: distances [token].
    overlap_frac: overlap at each [1].
    pairs: observations at each [1].
    chance: overlap of independent tokens where it was measured [1].
    """
    distance, overlap, weight = (np.asarray(a, float) for a in (distance_tokens, overlap_frac, pairs))
    level = float(np.clip(np.average(overlap, weights=weight), 0.0, 1.0))
    best, best_error = OverlapLaw(level, 0.0, 0.0, chance), float((weight * (overlap - level) ** 2).sum())
    for exponent in np.geomspace(0.05, 4.0, 200) if distance.size > 2 else ():
        basis = distance**-exponent
        middle = np.average(basis, weights=weight)
        slope = (weight * (basis - middle) * (overlap - level)).sum() / (weight * (basis - middle) ** 2).sum()
        amplitude = float(np.clip(slope, 0.0, 1.0))
        limit = float(np.clip(level - amplitude * middle, 0.0, 1.0 - amplitude))
        error = float((weight * (overlap - limit - amplitude * basis) ** 2).sum())
        if error < best_error:
            best, best_error = OverlapLaw(limit, amplitude, float(exponent), chance), error
    return best


@kernel
def _shared_by_distance(chosen: Array, offsets: Array, distances: Array, stride: int) -> tuple[Array, Array]:
    shared, pairs = np.zeros(distances.size), np.zeros(distances.size)
    layers, k = chosen.shape[1], chosen.shape[2]
    for r in range(offsets.size - 1):
        for i in range(distances.size):
            d = distances[i]
            for t in range(offsets[r], offsets[r + 1] - d, stride):
                pairs[i] += 1
                for layer in range(layers):
                    for a in range(k):
                        for b in range(k):
                            shared[i] += chosen[t, layer, a] == chosen[t + d, layer, b]
    return shared, pairs


@kernel
def _windows_of(chosen: Array, offsets: Array, tokens: int, n_experts: int) -> tuple[int, Array, Array]:
    """Windows of consecutive tokens of one request: how many, distinct experts and ordered pairs that share one, summed by layer."""
    layers, k = chosen.shape[1], chosen.shape[2]
    distinct, pairs, windows = np.zeros(layers), np.zeros(layers), 0
    seen = np.zeros(n_experts)
    for r in range(offsets.size - 1):
        for start in range(offsets[r], offsets[r + 1] - tokens + 1, tokens):
            windows += 1
            for layer in range(layers):
                seen[:] = 0.0
                for t in range(start, start + tokens):
                    for a in range(k):
                        seen[chosen[t, layer, a]] += 1.0
                for e in range(n_experts):
                    distinct[layer] += seen[e] > 0.0
                    pairs[layer] += seen[e] * (seen[e] - 1.0)
    return windows, distinct, pairs

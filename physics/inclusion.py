"""Inclusion probabilities: how likely each expert is among the k a token chooses, from counts, shares or router weights.

The picture: a token draws k different experts. pi_e is the probability that expert e is one of them; they add up to k, and none
exceeds 1. Everything `coincidence` and `stragglers` say about skewed routing follows from them. Source: design notes section 4.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from physics._numba import kernel

Array = np.ndarray[Any, Any]

KINDS = ("router", "share", "counts")
SIGMA_RANGE = (0.0, 8.0)
ZIPF_RANGE = (0.0, 8.0)
SIGMA_PRESETS = {
    "mixed traffic, low": 0.4,
    "mixed traffic, high": 0.7,
    "Qwen3-30B-A3B, measured": 0.75,
    "DeepSeek-R1, one narrow workload": 1.1,
    "gpt-oss-120b": 1.3,
}
"""Lognormal sigma of router weights that measured models and workloads show (design notes section 4)."""

_NODES, _MOST_NODES = 48, 3072
_SUM_ERROR = 1e-9


def lognormal_weights(n_experts: int, sigma: float) -> Array:
    """Router weights at the quantiles of a lognormal law, lightest first [1].

    exp(sigma * Phi^-1((e - 1/2) / E)): sigma = 0 is uniform.
    n_experts: routed experts per layer E [1].
    sigma: standard deviation of the logarithm of a weight [1].

    >>> lognormal_weights(3, 0.0)
    array([1., 1., 1.])
    """
    normal = NormalDist()
    return np.exp(sigma * np.array([normal.inv_cdf((e - 0.5) / n_experts) for e in range(1, n_experts + 1)]))


def zipf_weights(n_experts: int, exponent: float) -> Array:
    """Router weights that fall with the rank of the expert, heaviest first: rank^-exponent [1].

    n_experts: routed experts per layer E [1].
    exponent: Zipf exponent; 0 is uniform [1].

    >>> zipf_weights(4, 1.0)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    return np.arange(1.0, n_experts + 1.0) ** -exponent


def inclusion_probabilities(weights_or_counts: Any, top_k: int, kind: str = "router") -> Array:
    """Probability of each expert to be among the k that a token chooses; they add up to k [1].

    One layer as a list, or several as rows. The result is kept: asking again for the same numbers costs microseconds.
    weights_or_counts: non-negative numbers, one per expert; their scale does not matter [1].
    top_k: experts per token k [1].
    kind: "router": chances of a draw without replacement (Gumbel top-k, Plackett-Luce); "share": shares of the load; "counts":
        assignments counted. Shares and counts are filled like water, pi = min(1, c*p): counts of a top-k choice of the same k
        never reach the cap, and are divided by the tokens.
    Raises ValueError for numbers that are negative, not finite, or fewer than k above zero.

    >>> inclusion_probabilities([30, 20, 10, 20], 2, kind="counts")
    array([0.75, 0.5 , 0.25, 0.5 ])
    >>> inclusion_probabilities([8, 1, 1], 2, kind="share")
    array([1. , 0.5, 0.5])
    >>> inclusion_probabilities([2, 1, 1], 1)
    array([0.5 , 0.25, 0.25])
    """
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    weights = checked_weights(weights_or_counts, top_k)
    rows = [_kept(row.tobytes(), int(top_k), kind == "router") for row in np.atleast_2d(weights)]
    return np.array(rows).reshape(weights.shape)


def checked_weights(weights: Any, top_k: int = 1) -> Array:
    """Numbers per expert as floats, refused where no k experts could be chosen [1].

    weights: one per expert; a layer or rows of layers [1].
    top_k: experts per token k [1].
    """
    try:
        values = np.ascontiguousarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("expert weights: give a list of numbers, one per expert, or rows of equal length, one per layer") from None
    if values.ndim not in (1, 2) or not values.size:
        raise ValueError(f"expert weights: give one row, or one row per layer, not an array of shape {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("expert weights: every one must be a finite number that is not negative")
    fewest = int((values > 0).sum(axis=-1).min())
    if not 1 <= top_k <= fewest:
        raise ValueError(f"top_k: {top_k!r} is outside 1 to {fewest}, the experts of a layer that are ever chosen")
    return values


@lru_cache(maxsize=512)
def _kept(row: bytes, top_k: int, router: bool) -> Array:
    weights = np.frombuffer(row)
    result = _router_inclusion(weights, top_k) if router else water_filling(weights, top_k)
    result.setflags(write=False)
    return result


def water_filling(shares: Array, top_k: int) -> Array:
    """Inclusion probabilities of shares of the load: min(1, c*p) with the c that makes them add up to k [1].

    shares: non-negative share of each expert, at least k of them above zero [1].
    top_k: experts per token k [1].

    >>> water_filling(np.array([8.0, 1.0, 1.0]), 2)
    array([1. , 0.5, 0.5])
    """
    order = np.argsort(-shares, kind="stable")
    heavy = shares[order] / shares[order[0]]
    rest = np.cumsum(heavy[::-1])[::-1][:top_k]
    # With the j heaviest experts capped, the others share k - j; the first j at which the next stays under 1 is the level.
    level = (top_k - np.arange(top_k)) / rest
    full = int(np.argmax(level * heavy[:top_k] <= 1.0 + 1e-15))
    filled: Array = np.empty_like(heavy)
    filled[order] = np.minimum(1.0, level[full] * heavy)
    filled[order[:full]] = 1.0
    return filled


def _router_inclusion(weights: Array, top_k: int) -> Array:
    """Inclusion of a race of exponential clocks: expert e arrives at rate w_e, the first k are chosen."""
    alive = weights > 0
    result = np.zeros_like(weights)
    if int(alive.sum()) == top_k:
        result[alive] = 1.0
        return result
    rates = np.maximum(weights[alive] / weights.max(), 1e-120)
    rates = rates * _time_until(rates, top_k, 0.5)
    # Before 1e-14 of the heaviest expert's mean time nobody arrives; after the other end everybody has.
    ends = (_node(math.log(1e-14 / rates.max())), _node(math.log(_time_until(rates, top_k, 1e-12))))
    found = _integral(rates, top_k, *ends)
    result[alive] = np.minimum(found * (top_k / found.sum()), 1.0)
    return result


def _node(log_time: float) -> float:
    """The u with u - e^-u = log t, by Newton's method from the side where it cannot overshoot."""
    u = log_time if log_time > 0.0 else -math.log1p(-log_time)
    for _ in range(60):
        u -= (u - math.exp(-u) - log_time) / (1.0 + math.exp(-u))
    return u


def _integral(rates: Array, top_k: int, left: float, right: float) -> Array:
    """Trapezoid over u of t = exp(u - e^-u), with the mid points added until the probabilities add up to k."""
    width = right - left
    nodes = max(_NODES, math.ceil(width / 0.12))
    found: Array = width / nodes * _race(rates, top_k, left + width / nodes * np.arange(nodes + 1.0))
    while abs(found.sum() - top_k) > _SUM_ERROR and nodes < _MOST_NODES:
        middles = left + width / nodes * (np.arange(nodes) + 0.5)
        found = 0.5 * (found + width / nodes * _race(rates, top_k, middles))
        nodes *= 2
    return found


def _time_until(rates: Array, top_k: int, probability: float) -> float:
    """Time at which fewer than k have arrived with the given probability [1]."""
    low, high = -60.0, 60.0 - math.log(float(np.sort(rates)[-top_k]))
    for _ in range(48):
        middle = 0.5 * (low + high)
        if _fewer_than_k(rates, top_k, math.exp(middle)) > probability:
            low = middle
        else:
            high = middle
    return math.exp(high)


@kernel
def _fewer_than_k(rates: Array, top_k: int, time: float) -> float:
    """P(N <= k-1): Poisson-binomial sum of the experts arrived by `time`, states from k on dropped."""
    state = np.zeros(top_k)
    state[0] = 1.0
    for e in range(rates.size):
        here = -np.expm1(-rates[e] * time)
        for j in range(top_k - 1, 0, -1):
            state[j] += here * (state[j - 1] - state[j])
        state[0] *= 1.0 - here
    return float(state.sum())


@kernel
def _race(rates: Array, top_k: int, nodes: Array) -> Array:
    """Sum over the nodes of w_e*exp(-w_e*t) * P(at most k-1 others arrived by t) * dt/du."""
    n = rates.size
    out = np.zeros(n)
    before = np.zeros((n + 1, top_k))
    after = np.empty(top_k)
    arrived = np.empty(n)
    for u in nodes:
        fold = np.exp(-u)
        time = np.exp(u - fold)
        speed = time * (1.0 + fold)
        before[0, :] = 0.0
        before[0, 0] = 1.0
        for e in range(n):
            here = -np.expm1(-rates[e] * time)
            arrived[e] = here
            before[e + 1, 0] = before[e, 0] * (1.0 - here)
            for j in range(1, top_k):
                before[e + 1, j] = before[e, j] * (1.0 - here) + before[e, j - 1] * here
        # `after[k-1-j]` is P(at most k-1-j of the later experts): stored reversed, so that the product runs forward.
        after[:] = 1.0
        for e in range(n - 1, -1, -1):
            total = 0.0
            for j in range(top_k):
                total += before[e, j] * after[j]
            here = arrived[e]
            out[e] += rates[e] * (1.0 - here) * total * speed
            for j in range(top_k - 1):
                after[j] = after[j] * (1.0 - here) + after[j + 1] * here
            after[top_k - 1] *= 1.0 - here
    return out

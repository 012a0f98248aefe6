"""Exact draws of k experts per token by router weight: the oracle of the closed forms, and the histograms of the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import kernel

Array = np.ndarray[Any, Any]


def sampled_experts(weights: Any, top_k: int, tokens: int, seed: int = 0) -> Array:
    """Experts that tokens choose by router weight without replacement, first choice first, one row per token [1].

    Gumbel top-k: the k first arrivals of exponential clocks of rate w_e, the same law as drawing one after another in proportion to
    weight (Plackett-Luce). The same seed gives the same draw.
    weights: router weight of each expert, at least k above zero [1].
    top_k: experts per token k [1].
    tokens: tokens to draw [token].
    seed: of NumPy's default generator [1].

    >>> sorted(sampled_experts([1.0, 2.0, 0.0], 2, 1)[0].tolist())
    [0, 1]
    """
    rates = np.asarray(weights, float)
    if not 1 <= top_k <= int((rates > 0).sum()):
        raise ValueError(f"top_k: {top_k!r} is outside 1 to {int((rates > 0).sum())}, the experts that are ever chosen")
    chosen: Array = _first_arrivals(rates, int(top_k), int(tokens), np.random.default_rng(seed))
    return chosen


@kernel
def _first_arrivals(rates: Array, top_k: int, tokens: int, generator: Any) -> Array:
    out = np.empty((tokens, top_k), np.int32)
    times = np.empty(top_k)
    for t in range(tokens):
        held = 0
        for e in range(rates.size):
            if rates[e] <= 0.0:
                continue
            time = generator.standard_exponential() / rates[e]
            if held == top_k and time >= times[top_k - 1]:
                continue
            place = min(held, top_k - 1)
            while place > 0 and times[place - 1] > time:
                times[place] = times[place - 1]
                out[t, place] = out[t, place - 1]
                place -= 1
            times[place] = time
            out[t, place] = e
            held = min(held + 1, top_k)
    return out


def sampled_distinct(chosen: Any, tokens: int, n_experts: int) -> Array:
    """Distinct experts of each group of consecutive tokens of a draw: values for a histogram [expert].

    chosen: experts by token, one row per token [1].
    tokens: tokens in a group; a last group that is not full is left out [token].
    n_experts: routed experts E [1].

    >>> sampled_distinct([[0, 1], [1, 2], [3, 0], [0, 3]], 2, 4).tolist()
    [3, 2]
    """
    values: Array = _distinct(np.ascontiguousarray(chosen, dtype=np.int32), int(tokens), int(n_experts))
    return values


@kernel
def _distinct(chosen: Array, tokens: int, n_experts: int) -> Array:
    groups = chosen.shape[0] // tokens
    out = np.zeros(groups, np.int64)
    seen = np.full(n_experts, -1)
    for g in range(groups):
        for t in range(g * tokens, (g + 1) * tokens):
            for j in range(chosen.shape[1]):
                e = chosen[t, j]
                if seen[e] != g:
                    seen[e] = g
                    out[g] += 1
    return out


def sampled_groups_per_token(n_experts: int, top_k: int, groups: int, allowed: int, tokens: int, seed: int = 0) -> float:
    """Mean groups that a token's experts lie in when the router first allows a few groups, by simulation [1].

    DeepSeek-V3's rule: the groups with the largest sum of their two best scores are allowed, then the k best scores among their
    experts win. Scores are independent and uniform, as after a sigmoid; other score laws move the result by under 1 %.
    n_experts: E, a multiple of the groups [1].
    top_k: k [1].
    groups: groups G of consecutive experts [1].
    allowed: groups a token may use [1].
    tokens: tokens to simulate; the standard error falls as their root, 0.002 at 20,000 [token].
    seed: of NumPy's default generator [1].

    >>> round(sampled_groups_per_token(256, 8, 8, 4, 20_000), 1)
    4.0
    """
    return float(_limited_groups(n_experts // groups, top_k, groups, allowed, tokens, np.random.default_rng(seed)))


@kernel
def _limited_groups(size: int, top_k: int, groups: int, allowed: int, tokens: int, generator: Any) -> float:
    total = 0
    scores, sums, used = np.empty((groups, size)), np.empty(groups), np.zeros(groups, np.bool_)
    for _ in range(tokens):
        for g in range(groups):
            first = second = 0.0
            for e in range(size):
                score = generator.random()
                scores[g, e] = score
                first, second = max(first, score), max(second, min(first, score))
            sums[g] = first + second
        # No sorting: compiling NumPy's sort takes longer than the simulation.
        for _ in range(groups - allowed):
            least = np.argmin(sums)
            sums[least] = np.inf
            scores[least, :] = -1.0
        used[:] = False
        for _ in range(top_k):
            best = np.argmax(scores)
            used[best // size] = True
            scores[best // size, best % size] = -1.0
        total += int(np.sum(used))
    return total / tokens

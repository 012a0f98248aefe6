"""Fan-out of one token over groups of experts, experts two tokens share, and the queue one expert sees.

Where only the inclusion probabilities pi are known, the joint law of the k choices is taken as conditional Poisson sampling: each
expert joins by its own odds, conditioned on k of them, the odds fitted to pi. Uniform pi is exact, skew an estimate (within 0.2 % of
draws by router weight). Elementary symmetric sums of the odds then give every "none of these" probability.
Source: design notes section 4; Tille, Sampling Algorithms (2006), ch. 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import kernel

Array = np.ndarray[Any, Any]

_SURE = 1.0 - 1e-9


@kernel
def _symmetric_sums(odds: Array, most: int) -> Array:
    """Elementary symmetric sums 0..most of numbers of mean about 1/E."""
    sums = np.zeros(most + 1)
    sums[0] = 1.0
    for e in range(odds.size):
        for j in range(most, 0, -1):
            sums[j] += odds[e] * sums[j - 1]
    return sums


@kernel
def _fitted_odds(chances: Array, k: int) -> Array:
    """Odds whose k-conditioned inclusion is `chances`: each is scaled by wanted over found odds until they agree."""
    n = chances.size
    wanted = chances / (1.0 - chances)
    odds: Array = wanted / wanted.sum()
    before, after = np.zeros((n + 1, k + 1)), np.zeros(k + 1)
    for _ in range(100):
        before[:] = 0.0
        before[0, 0] = 1.0
        for e in range(n):
            before[e + 1] = before[e]
            before[e + 1, 1:] += odds[e] * before[e, :-1]
        after[:] = 0.0
        after[0] = 1.0
        worst, found = 0.0, np.empty(n)
        for e in range(n - 1, -1, -1):
            others = 0.0
            for j in range(k):
                others += before[e, j] * after[k - 1 - j]
            found[e] = odds[e] * others / before[n, k]
            worst = max(worst, abs(found[e] - chances[e]))
            for j in range(k, 0, -1):
                after[j] += odds[e] * after[j - 1]
        for e in range(n):
            if chances[e] > 0.0:
                odds[e] *= wanted[e] * max(1.0 - found[e], 1e-300) / found[e]
        odds /= odds.sum()
        if worst < 1e-12:
            break
    return odds


def _odds(inclusion: Any) -> Array:
    chances = np.minimum(np.asarray(inclusion, float), _SURE)
    return np.asarray(_fitted_odds(chances, round(float(np.sum(inclusion)))), float)


def groups_per_token(inclusion: Any, group_of_expert: Any) -> float:
    """Expected groups (GPUs, nodes) that the k experts of one token lie in, no limit on groups [1].

    Sum over groups of 1 - S_k(outside)/S_k(all), S_k the symmetric sum of the odds. Exact for uniform pi, where it is
    G*(1 - C(E-M, k)/C(E, k)) with M experts in each of G groups.
    inclusion: pi of each expert [1].
    group_of_expert: number of the group each expert lies in [1].

    >>> round(groups_per_token([8 / 256] * 256, [e // 32 for e in range(256)]), 2)
    5.29
    """
    odds, group = _odds(inclusion), np.asarray(group_of_expert)
    k = round(float(np.sum(inclusion)))
    whole = _symmetric_sums(odds, k)[k]
    return float(sum(1.0 - _symmetric_sums(odds[group != g], k)[k] / whole for g in np.unique(group)))


def expected_shared_experts(inclusion: Any) -> float:
    """Experts that two independent tokens have in common on average: sum of pi^2, exact [expert].

    inclusion: pi of each expert [1].

    >>> expected_shared_experts([0.5, 0.5, 0.5, 0.5])
    1.0
    """
    return float(np.sum(np.asarray(inclusion, float) ** 2))


def shared_expert_probability_skewed(inclusion: Any) -> float:
    """Probability that two independent tokens share at least one expert [1].

    1 - C(2k, k)*S_2k/S_k^2, S_j the symmetric sum of the odds: two disjoint choices of k are one choice of 2k, split. Uniform pi is
    exact (1 - C(E-k, k)/C(E, k)), skew an estimate.
    inclusion: pi of each expert [1].

    >>> round(shared_expert_probability_skewed([8 / 256] * 256), 5)
    0.22709
    """
    k = round(float(np.sum(inclusion)))
    sums = _symmetric_sums(_odds(inclusion), 2 * k)
    splits = np.prod((k + np.arange(1.0, k + 1.0)) / np.arange(1.0, k + 1.0))
    return float(1.0 - splits * sums[2 * k] / sums[k] ** 2)


def tokens_per_touched_expert(top_k: Any, tokens: Any, distinct_experts: Any) -> Any:
    """Mean queue of an expert that is touched at all: k*T/D [token].

    top_k: k [1].
    tokens: T [token].
    distinct_experts: distinct experts D touched [expert].

    >>> tokens_per_touched_expert(8, 128, 256)
    4.0
    """
    return np.asarray(top_k, float) * tokens / distinct_experts


def queue_probabilities(inclusion: Any, tokens: int, longest: int) -> Array:
    """Share of the experts that n = 0, 1, ... of the independent tokens queue at, a mean of binomial laws, exact [1].

    inclusion: pi of each expert [1].
    tokens: tokens T [token].
    longest: last n [token].

    >>> queue_probabilities([0.5, 0.5], 2, 2)
    array([0.25, 0.5 , 0.25])
    """
    return np.asarray(_queues(np.ascontiguousarray(inclusion, float), float(tokens), int(longest)))


@kernel
def _queues(inclusion: Array, tokens: float, longest: int) -> Array:
    out = np.zeros(longest + 1)
    for e in range(inclusion.size):
        p = inclusion[e]
        if p >= 1.0:
            if tokens <= longest:
                out[int(tokens)] += 1.0
            continue
        # In logarithms: (1-p)^T underflows for long queues whose bulk does not.
        level = tokens * np.log1p(-p)
        for n in range(longest + 1):
            out[n] += np.exp(level)
            if n >= tokens or p <= 0.0:
                break
            level += np.log((tokens - n) / (n + 1.0) * p / (1.0 - p))
    return out / inclusion.size

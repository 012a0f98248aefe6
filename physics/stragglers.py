"""The busiest of G GPUs that share the experts of a layer: most tokens (compute) and most distinct experts (bandwidth).

The picture: each GPU holds some expert slots; a step waits for the fullest GPU. The expected maximum is the sum over x of
1 - product of the GPUs' probabilities to stay at x or below, taken as independent. The GPUs are not: they compete for the same k
choices of each token. That competition lowers each variance and spreads the GPUs apart; leaving both out cancels (for equals exactly, in
the normal limit), so the variance put in is that of independent experts. Source: design notes section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics._numba import kernel

Array = np.ndarray[Any, Any]

_WIDTH = 9.0
_FEW = 32
_NORMAL_FROM = 150.0
_NORMAL_POINTS = 2048


@dataclass(frozen=True)
class Placement:
    """Which expert each slot holds, and which GPU each slot is on; an expert in several slots has replicas that share its tokens.

    expert_of_slot: expert in each slot.
    gpu_of_slot: GPU of each slot.
    n_gpus: GPUs G [1].
    """

    expert_of_slot: tuple[int, ...]
    gpu_of_slot: tuple[int, ...]
    n_gpus: int

    def slot_inclusion(self, inclusion: Any) -> Array:
        """Probability that a token is sent to each slot: pi over the replicas of its expert [1].

        inclusion: pi of each expert [1].
        """
        chances, expert = np.asarray(inclusion, float), np.array(self.expert_of_slot)
        replicas = np.bincount(expert, minlength=chances.size)
        if expert.max() >= chances.size or not replicas.all():
            raise ValueError(f"placement: holds experts 0 to {expert.max()}, and there are {chances.size}; every expert needs a slot")
        return np.asarray(chances[expert] / replicas[expert], float)


def _checked(inclusion: Any, n_gpus: int) -> Array:
    chances = np.asarray(inclusion, float)
    if chances.ndim != 1 or not chances.size:
        raise ValueError("inclusion: give one probability per expert")
    if n_gpus != int(n_gpus) or not 1 <= n_gpus <= 100_000:
        raise ValueError(f"n_gpus: {n_gpus!r} is not a whole number from 1 to 100,000")
    return chances


def contiguous_placement(n_experts: int, n_gpus: int) -> Placement:
    """Experts in order, as equally many per GPU as the numbers allow.

    n_experts: E [1].
    n_gpus: G [1].

    >>> contiguous_placement(4, 2).gpu_of_slot
    (0, 0, 1, 1)
    """
    _checked(np.zeros(n_experts), n_gpus)
    return Placement(tuple(range(n_experts)), tuple(e * n_gpus // n_experts for e in range(n_experts)), n_gpus)


def balanced_placement(inclusion: Any, n_gpus: int) -> Placement:
    """Heaviest expert first, each to the GPU with the least load that has a slot free; equally many slots per GPU.

    inclusion: pi of each expert [1].
    n_gpus: G [1].

    >>> balanced_placement([0.9, 0.5, 0.4, 0.2], 2).gpu_of_slot
    (0, 1, 1, 0)
    """
    return replicated_placement(inclusion, n_gpus, len(inclusion))


def replicated_placement(inclusion: Any, n_gpus: int, n_slots: int) -> Placement:
    """Redundant experts: each spare slot to the expert with the heaviest share per replica, then balanced packing.

    As DeepSeek's EPLB does. No expert gets two slots of one GPU while another GPU has room.
    inclusion: pi of each expert [1].
    n_gpus: G [1].
    n_slots: slots of all GPUs together, at least one per expert [1].

    >>> replicated_placement([0.9, 0.5, 0.4, 0.2], 2, 6).expert_of_slot
    (0, 0, 1, 1, 2, 3)
    """
    chances = _checked(inclusion, n_gpus)
    if n_slots != int(n_slots) or not chances.size <= n_slots <= chances.size * n_gpus:
        raise ValueError(f"n_slots: {n_slots!r} is not a whole number from {chances.size} to {chances.size * n_gpus}")
    replicas = _replicas(chances, int(n_gpus), int(n_slots))
    expert = np.repeat(np.arange(chances.size), replicas)
    share = (chances / replicas)[expert]
    gpu = _packed(expert, share, np.argsort(-share, kind="stable"), int(n_gpus))
    return Placement(tuple(expert.tolist()), tuple(gpu.tolist()), int(n_gpus))


@kernel
def _replicas(chances: Array, n_gpus: int, n_slots: int) -> Array:
    replicas = np.ones(chances.size, np.int64)
    for _ in range(n_slots - chances.size):
        heaviest, most = -1, -1.0
        for e in range(chances.size):
            if replicas[e] < n_gpus and chances[e] / replicas[e] > most:
                heaviest, most = e, chances[e] / replicas[e]
        replicas[heaviest] += 1
    return replicas


@kernel
def _packed(expert: Array, share: Array, order: Array, n_gpus: int) -> Array:
    n_slots = expert.size
    load, free = np.zeros(n_gpus), np.full(n_gpus, n_slots // n_gpus)
    for g in range(n_slots % n_gpus):
        free[g] += 1
    gpu = np.full(n_slots, -1)
    twin = np.zeros(n_gpus)
    for slot in order:
        twin[:] = 0.0
        for other in range(n_slots):
            if expert[other] == expert[slot] and gpu[other] >= 0:
                twin[gpu[other]] = 1e9
        best, least = -1, np.inf
        for g in range(n_gpus):
            if free[g] > 0 and load[g] + twin[g] < least:
                best, least = g, load[g] + twin[g]
        gpu[slot] = best
        load[best] += share[slot]
        free[best] -= 1
    return gpu


def expected_max_tokens(inclusion: Any, placement: Placement, tokens: Any) -> Any:
    """Expected tokens, counted once per chosen expert, on the fullest GPU: the straggler of compute [token].

    Binomial laws with the mean and variance of each GPU's load; given their sum where there are but a few. Within 2 % of Monte Carlo.
    Below a few thousand tokens this noise, not skew, sets the straggler, and replicas cannot remove it.
    inclusion: pi of each expert [1].
    placement: of the experts on GPUs.
    tokens: independent tokens T [token].

    >>> round(float(expected_max_tokens([1.0, 1.0], contiguous_placement(2, 2), 10)), 6)
    10.0
    """
    share = placement.slot_inclusion(inclusion)
    gpu, counts = np.array(placement.gpu_of_slot), np.asarray(tokens, float)
    mean = np.bincount(gpu, share, placement.n_gpus)
    # E/(E-1): the variance that independent experts need to have these when k of them are drawn.
    spread = np.bincount(gpu, share * (1.0 - share), placement.n_gpus) * share.size / max(share.size - 1.0, 1.0)
    out = []
    for count in counts.ravel():
        total = share.sum() * count
        if total <= _FEW and abs(total - round(total)) < 1e-6:
            plain = np.bincount(gpu, share * (1.0 - share), placement.n_gpus)
            out.append(_max_given_total(mean * count, plain * count, round(total)))
        else:
            out.append(_max_of_loads(mean * count, np.minimum(spread, mean) * count))
    return np.array(out).reshape(counts.shape)[()]


def hottest_expert_tokens(inclusion: Any, tokens: Any) -> Any:
    """Expected tokens on the fullest expert of a layer [token].

    Product of the experts' binomial laws B(T, pi), whose competition for the same tokens is left out.
    inclusion: pi of each expert [1].
    tokens: independent tokens T [token].

    >>> round(float(hottest_expert_tokens([1.0, 0.5, 0.5], 4)), 6)
    4.0
    """
    chances, counts = np.asarray(inclusion, float), np.asarray(tokens, float)
    out = [_max_of_loads(chances * count, chances * (1.0 - chances) * count) for count in counts.ravel()]
    return np.array(out).reshape(counts.shape)[()]


@kernel
def _max_given_total(mean: Array, variance: Array, total: int) -> float:
    """E[max] of the binomial counts given their sum, for few assignments: truncated laws convolved, over the whole ones."""
    laws = np.zeros((mean.size, total + 1))
    for g in range(mean.size):
        below = np.ones(total + 1)
        _times_binomial(below, 0, mean[g], variance[g])
        laws[g, 0] = below[0]
        for j in range(1, total + 1):
            laws[g, j] = below[j] - below[j - 1]
    reach, result, whole = np.zeros(total + 1), 0.0, 1.0
    for most in range(total, -1, -1):
        for j in range(total + 1):
            reach[j] = 1.0 if j == 0 else 0.0
        for g in range(mean.size):
            for j in range(total, -1, -1):
                value = 0.0
                for i in range(min(most, j) + 1):
                    value += laws[g, i] * reach[j - i]
                reach[j] = value
        whole = reach[total] if most == total else whole
        result += 1.0 - reach[total] / whole
    return float(result)


@kernel
def _max_of_loads(mean: Array, variance: Array) -> float:
    """E[max] of independent binomial counts of real size n = mean/p, p = 1 - variance/mean; normal ones where they are wide."""
    # Loops rather than np.max and np.sum: those cost most of the seconds that compiling takes.
    sd = np.sqrt(variance)
    top = low = widest = 0.0
    for g in range(mean.size):
        reach = _WIDTH * sd[g] + _WIDTH
        top, low, widest = max(top, mean[g] + reach), max(low, mean[g] - reach), max(widest, sd[g])
    if widest > _NORMAL_FROM:
        step = (top - low) / _NORMAL_POINTS
        total = low
        for i in range(_NORMAL_POINTS):
            x, product = low + (i + 0.5) * step, 1.0
            for g in range(mean.size):
                if sd[g] > 0.0:
                    product *= 0.5 * math.erfc((mean[g] - x) / (sd[g] * 1.4142135623730951))
                elif x < mean[g]:
                    product = 0.0
            total += (1.0 - product) * step
        return float(total)
    first = int(low)
    below = np.ones(int(top) + 2 - first)
    for g in range(mean.size):
        _times_binomial(below, first, mean[g], variance[g])
    total = float(first)
    for i in range(below.size):
        total += 1.0 - below[i]
    return total


@kernel
def _times_binomial(below: Array, first: int, mean: float, variance: float) -> None:
    """Multiply P(X <= x) of one count into below[x - first]."""
    if mean <= 0.0 or mean + _WIDTH * math.sqrt(variance) + _WIDTH < first:
        return
    p = 1.0 - variance / mean
    if variance <= 1e-9 * mean:
        for i in range(below.size):
            if first + i < mean - 1e-6:
                below[i] = 0.0
        return
    p = max(p, 1e-9)  # a Poisson count, to within 1e-9
    n, q = mean / p, math.log1p(-p)
    start = max(int(mean - _WIDTH * math.sqrt(variance) - _WIDTH), 0)
    level = math.lgamma(n + 1.0) - math.lgamma(start + 1.0) - math.lgamma(n - start + 1.0) + start * math.log(p) + (n - start) * q
    chance, total = math.exp(level), 0.0
    for x in range(start, first + below.size):
        total = min(total + chance, 1.0)
        if x >= first:
            below[x - first] *= total
        chance *= max(n - x, 0.0) / (x + 1.0) * p / (1.0 - p)


def expected_max_distinct_experts(inclusion: Any, placement: Placement, tokens: Any) -> Any:
    """Expected expert slots touched on the GPU that touches most: the straggler of bandwidth [expert].

    Each slot is touched with 1 - (1 - pi/replicas)^T, the GPU's count is a Poisson-binomial sum, exact. Within 0.15 expert of Monte Carlo.
    A replica is one more slot to read, so it can raise this maximum while it lowers the tokens.
    inclusion: pi of each expert [1].
    placement: of the experts on GPUs.
    tokens: independent tokens T [token].

    >>> float(expected_max_distinct_experts([1.0, 1.0, 1.0], contiguous_placement(3, 2), 5))
    2.0
    """
    share, counts = placement.slot_inclusion(inclusion), np.asarray(tokens, float)
    gpu = np.array(placement.gpu_of_slot)
    most = int(np.bincount(gpu).max())
    with np.errstate(divide="ignore"):
        idle = np.log1p(-np.minimum(share, 1.0))
    out = [_max_of_touched(-np.expm1(count * idle) if count else share * 0.0, gpu, placement.n_gpus, most) for count in counts.ravel()]
    return np.array(out).reshape(counts.shape)[()]


@kernel
def _max_of_touched(touched: Array, gpu: Array, n_gpus: int, most: int) -> float:
    states = np.zeros((n_gpus, most + 1))
    states[:, 0] = 1.0
    for slot in range(touched.size):
        g, p = gpu[slot], touched[slot]
        for j in range(most, 0, -1):
            states[g, j] += p * (states[g, j - 1] - states[g, j])
        states[g, 0] *= 1.0 - p
    total = 0.0
    below = np.zeros(n_gpus)
    for x in range(most):
        below += states[:, x]
        total += 1.0 - np.prod(np.minimum(below, 1.0))
    return total

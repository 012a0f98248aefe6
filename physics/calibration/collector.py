"""How the expert benchmark routes its tokens: what its words "balanced" and "power_law" do, followed step by step.

Neither word is what it says. "Balanced" router scores are rounded to BF16 while there are few tokens, and a model with group-limited
routing then throws half of every token's experts away and fills up with the lowest numbers: DeepSeek-V3 wakes 128 of 256 experts, all of
them on the first ranks. "Power law" draws the *loads* of experts from x^-a between 1 and 0.8 T (nearly log-uniform), not their ranks, and
moves the heaviest rank to the front, which is the one that is timed. Source: aiconfigurator, collector/helper.py
(`balanced_logits`, `_generate_power_law_distribution`) and collector/vllm/collect_moe.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
SEED = 20_240_607
SLICE = 4096


class Load(NamedTuple):
    """What the timed rank has to do: distinct experts awake on it, and token-expert assignments it serves; means over draws [1]."""

    distinct: float
    assignments: float


def bf16(values: Array) -> Array:
    """Values rounded to the eight significant bits of BF16, ties to even [same unit].

    values: real numbers.

    >>> bf16(np.array([257.0, 259.0])).tolist()
    [256.0, 260.0]
    """
    mantissa, exponent = np.frexp(np.asarray(values, float))
    return np.asarray(np.ldexp(np.round(mantissa * 256.0) / 256.0, exponent))


def balanced_choice(tokens: int, n_experts: int, top_k: int) -> Array:
    """Experts that "balanced" scores ask for: [token, choice].

    tokens: T [token]. n_experts: E [1]. top_k: k [1].

    >>> balanced_choice(2, 8, 2).tolist()
    [[0, 4], [2, 6]]
    """
    stride = math.ceil(n_experts / top_k)
    token, choice = np.arange(tokens)[:, None], np.arange(top_k)[None]
    if tokens >= stride:
        return np.asarray((token + choice * stride) % n_experts)
    return (bf16(bf16(token * stride / tokens) + choice * stride) % n_experts).astype(int)


def power_law_loads(random: np.random.Generator, tokens: int, n_experts: int, top_k: int, ranks: int, exponent: float) -> Array:
    """Tokens on each expert, the heaviest rank first [token].

    random: source of the draws. tokens: T [token]. n_experts: E [1]. top_k: k [1].
    ranks: expert-parallel ranks [1]. exponent: a of x^-a [1].
    """
    low, high = (1.0, tokens * 0.8) if tokens * top_k > n_experts else (0.01, 2.0)
    ends = low ** (1.0 - exponent), high ** (1.0 - exponent)
    drawn = ((ends[1] - ends[0]) * random.random(n_experts) + ends[0]) ** (1.0 / (1.0 - exponent))
    loads = np.round(drawn / drawn.sum() * tokens * top_k).astype(int)
    order, lack = np.argsort(-loads, kind="stable"), tokens * top_k - int(loads.sum())
    for i in range(abs(lack)):
        if lack > 0:
            loads[order[i % n_experts]] += 1
        else:
            lightest = order[-(i % n_experts) - 1]
            loads[lightest if loads[lightest] > 0 else np.argmax(loads)] -= 1
    by_rank = loads.reshape(ranks, -1)
    heaviest = int(np.argmax(by_rank.sum(axis=1)))
    by_rank[[0, heaviest]] = by_rank[[heaviest, 0]]
    return np.asarray(by_rank.ravel())


def power_law_choice(loads: Array, top_k: int) -> Array:
    """Experts that "power law" scores ask for, [token, choice]; an expert with more tokens than there are is asked for twice.

    loads: tokens on each expert [token]. top_k: k [1].
    """
    order = np.argsort(-loads, kind="stable")
    return np.asarray(np.repeat(order, loads[order]).reshape(top_k, -1).T)


def chosen(asked: Array, n_experts: int, top_k: int, groups: tuple[int, int] | None) -> Array:
    """Experts that are chosen when these were asked for, [token, choice]: ties go to the lowest number.

    asked: [token, choice]. n_experts: E [1]. top_k: k [1].
    groups: (groups, allowed groups) of group-limited routing; None: no limit.
    """
    scores = np.zeros((len(asked), n_experts + 1), np.int8)
    for choice in asked.T:
        scores[np.arange(len(asked)), np.minimum(choice, n_experts)] += 1
    scores = scores[:, :n_experts]  # a rounded number may lie beyond the last expert: nobody is asked
    if groups is not None:
        scores = np.where(_allowed(scores, *groups), scores, -1)
    return np.asarray(np.argsort(-scores, axis=1, kind="stable")[:, :top_k])


def _allowed(scores: Array, groups: int, allowed: int) -> Array:
    """Which experts lie in the allowed groups: those whose two best scores add up to most."""
    by_group = np.exp(scores.astype(np.float32)).reshape(len(scores), groups, -1)
    best = np.sort(by_group, axis=2)[:, :, -2:].sum(axis=2)
    kept = np.zeros((len(scores), groups), bool)
    np.put_along_axis(kept, np.argsort(-best, axis=1, kind="stable")[:, :allowed], True, axis=1)
    return np.asarray(np.repeat(kept, scores.shape[1] // groups, axis=1))


def measured_load(
    tokens: int, n_experts: int, top_k: int, ranks: int, distribution: str, groups: tuple[int, int] | None = None, draws: int = 5
) -> Load:
    """Load of the rank that was timed, a mean over draws as the benchmark's own time is; the draws are not the benchmark's.

    tokens: T [token]. n_experts: E [1]. top_k: k [1]. ranks: expert-parallel ranks [1].
    distribution: "balanced" or "power_law_<exponent>". groups: (groups, allowed groups), or None. draws: of a power law [1].

    >>> measured_load(64, 256, 8, 1, "balanced", groups=(8, 4))
    Load(distinct=128.0, assignments=512.0)
    """
    random = np.random.default_rng([SEED, tokens, n_experts, top_k, ranks])
    drawn = [distribution] if distribution == "balanced" else [distribution] * (draws if tokens <= 2048 else 2)
    loads = []
    for word in drawn:
        if word == "balanced":
            asked = balanced_choice(tokens, n_experts, top_k)
        else:
            exponent = float(word.removeprefix("power_law_"))
            asked = power_law_choice(power_law_loads(random, tokens, n_experts, top_k, ranks, exponent), top_k)
        loads.append(_load_of_first_rank(asked, n_experts, top_k, ranks, groups))
    return Load(*np.mean(loads, axis=0).tolist())


def _load_of_first_rank(asked: Array, n_experts: int, top_k: int, ranks: int, groups: tuple[int, int] | None) -> tuple[int, int]:
    counts, ordered = np.zeros(n_experts, int), np.sort(asked, axis=1)
    doubtful = np.full(len(asked), groups is not None) | (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) | (ordered[:, -1] >= n_experts)
    counts += np.bincount(asked[~doubtful].ravel(), minlength=n_experts)  # k different experts were asked for, and no group forbids one
    asked = asked[doubtful]
    for start in range(0, len(asked), SLICE):
        counts += np.bincount(chosen(asked[start : start + SLICE], n_experts, top_k, groups).ravel(), minlength=n_experts)
    local = counts[: n_experts // ranks]
    return int(np.count_nonzero(local)), int(local.sum())

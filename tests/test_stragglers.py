"""Expected maxima over GPUs against draws, and placements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics import (
    Placement,
    balanced_placement,
    contiguous_placement,
    expected_max_distinct_experts,
    expected_max_tokens,
    hottest_expert_tokens,
    inclusion_probabilities,
    replicated_placement,
    sampled_experts,
)
from physics.inclusion import lognormal_weights


def drawn(weights: np.ndarray, top_k: int, placement: Placement, tokens: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and distinct slots on the fullest GPU of each step; a token goes to any of the replicas."""
    expert, gpu = np.array(placement.expert_of_slot), np.array(placement.gpu_of_slot)
    replicas = np.bincount(expert, minlength=len(weights))
    order, first = np.argsort(expert, kind="stable"), np.concatenate([[0], np.cumsum(replicas)[:-1]])
    chosen = sampled_experts(weights, top_k, tokens * steps, seed=tokens)
    pick = np.random.default_rng(1).integers(0, 1 << 30, chosen.shape) % replicas[chosen]
    slot = order[first[chosen] + pick].reshape(steps, -1)
    loads = np.stack([(gpu[slot] == g).sum(axis=1) for g in range(placement.n_gpus)])
    touched = np.zeros((steps, len(expert)), bool)
    np.put_along_axis(touched, slot, True, axis=1)
    distinct = np.stack([touched[:, gpu == g].sum(axis=1) for g in range(placement.n_gpus)])
    return loads.max(axis=0), distinct.max(axis=0)


CASES = [
    (256, 8, 0.0, 8, 256), (256, 8, 0.0, 2, 256), (256, 8, 0.75, 32, 288), (256, 8, 1.1, 72, 288),
    (128, 4, 1.3, 16, 144), (32, 4, 1.3, 4, 32), (896, 16, 0.7, 32, 896),
]  # fmt: skip


@pytest.mark.parametrize("tokens", [1, 6, 64, 512])
@pytest.mark.parametrize("how", ["contiguous", "balanced", "replicated"])
@pytest.mark.parametrize(("n_experts", "top_k", "sigma", "gpus", "slots"), CASES)
def test_stragglers_against_draws(n_experts: int, top_k: int, sigma: float, gpus: int, slots: int, how: str, tokens: int) -> None:
    weights = np.random.default_rng(3).permutation(lognormal_weights(n_experts, sigma))
    pi = inclusion_probabilities(weights, top_k)
    placement = {
        "contiguous": lambda: contiguous_placement(n_experts, gpus),
        "balanced": lambda: balanced_placement(pi, gpus),
        "replicated": lambda: replicated_placement(pi, gpus, slots),
    }[how]()
    steps = max(150, min(2500, 60_000 // tokens))
    load, distinct = drawn(weights, top_k, placement, tokens, steps)
    error = 4 / steps**0.5
    assert expected_max_tokens(pi, placement, tokens) == pytest.approx(load.mean(), rel=0.02, abs=0.02 * load.mean() + error * load.std())
    assert expected_max_distinct_experts(pi, placement, tokens) == pytest.approx(distinct.mean(), abs=0.15 + error * distinct.std())


def test_wide_loads_go_over_into_the_normal_law_without_a_step() -> None:
    pi = inclusion_probabilities(lognormal_weights(64, 0.2), 8)
    placement = contiguous_placement(64, 8)
    tokens = np.geomspace(1e4, 3e5, 40)
    excess = (expected_max_tokens(pi, placement, tokens) - tokens * max(np.array(pi).reshape(8, 8).sum(axis=1))) / tokens**0.5
    assert np.abs(np.diff(excess)).max() < 0.05


def test_hottest_expert_against_draws() -> None:
    weights, tokens, steps = lognormal_weights(64, 0.7), 48, 1500
    chosen = sampled_experts(weights, 4, tokens * steps, seed=8).reshape(steps, -1)
    seen = np.array([np.bincount(row, minlength=64).max() for row in chosen])
    pi = inclusion_probabilities(weights, 4)
    assert hottest_expert_tokens(pi, tokens) == pytest.approx(seen.mean(), rel=0.02, abs=4 * seen.std() / steps**0.5)


def test_one_gpu_has_all_and_many_tokens_touch_all() -> None:
    pi = np.full(32, 1 / 8)
    one, four = contiguous_placement(32, 1), contiguous_placement(32, 4)
    assert expected_max_tokens(pi, one, np.array([1, 7, 100, 5000])) == pytest.approx([4, 28, 400, 20_000], rel=1e-3)
    assert expected_max_distinct_experts(pi, four, 10_000) == pytest.approx(8.0)
    assert expected_max_distinct_experts(pi, four, 0) == 0.0


def test_a_replica_helps_compute_and_can_hurt_bandwidth() -> None:
    pi = inclusion_probabilities(lognormal_weights(64, 1.5), 4)
    plain, spare = balanced_placement(pi, 16), replicated_placement(pi, 16, 96)
    assert expected_max_tokens(pi, spare, 4096) < 0.9 * expected_max_tokens(pi, plain, 4096)
    assert expected_max_distinct_experts(pi, spare, 4096) > expected_max_distinct_experts(pi, plain, 4096)


@given(st.integers(1, 80), st.integers(1, 20), st.integers(0, 60), st.floats(0.0, 2.0))
def test_placements_are_whole(n_experts: int, gpus: int, spare: int, sigma: float) -> None:
    pi = inclusion_probabilities(lognormal_weights(n_experts, sigma), 1)
    slots = min(n_experts + spare, n_experts * gpus)
    for placement in (contiguous_placement(n_experts, gpus), balanced_placement(pi, gpus), replicated_placement(pi, gpus, slots)):
        per_gpu = np.bincount(placement.gpu_of_slot, minlength=gpus)
        assert per_gpu.max() - per_gpu.min() <= 1
        assert set(placement.expert_of_slot) == set(range(n_experts))
        assert placement.slot_inclusion(pi).sum() == pytest.approx(1.0)


def test_heaviest_expert_gets_the_replicas_on_different_gpus() -> None:
    placement = replicated_placement([0.9, 0.04, 0.03, 0.03], 2, 5)
    assert placement.expert_of_slot == (0, 0, 1, 2, 3)
    assert set(placement.gpu_of_slot[:2]) == {0, 1}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: contiguous_placement(8, 0), "n_gpus: 0"),
        (lambda: replicated_placement([0.5, 0.5], 2, 1), "n_slots: 1 is not a whole number from 2 to 4"),
        (lambda: expected_max_tokens([1.0], contiguous_placement(2, 1), 1), "every expert needs a slot"),
        (lambda: balanced_placement([[0.5, 0.5]], 1), "one probability per expert"),
    ],
)
def test_nonsense_is_refused(make: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()  # type: ignore[operator]

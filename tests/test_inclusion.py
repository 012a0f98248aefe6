"""Inclusion probabilities against enumeration, a plain quadrature of high resolution, and draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics import inclusion_probabilities
from physics.inclusion import lognormal_weights, zipf_weights
from physics.sampling import sampled_experts


def enumerated(weights: np.ndarray, top_k: int) -> np.ndarray:
    """Plackett-Luce by going through all ordered choices of k."""
    found = np.zeros(len(weights))
    for order in itertools.permutations(range(len(weights)), top_k):
        chance = 1.0
        for place, e in enumerate(order):
            chance *= weights[e] / np.delete(weights, list(order[:place])).sum()
        found[list(order)] += chance
    return found


def plain_quadrature(weights: np.ndarray, top_k: int, points: int = 6001) -> np.ndarray:
    """Trapezoid over ln t with limits far outside, the Poisson-binomial law of the others deconvolved by no trick: one by one."""
    rates = weights / weights.max()
    log_t = np.linspace(np.log(1e-17), np.log(1e3 / np.sort(rates)[-top_k]), points)
    time = np.exp(log_t)
    arrived = -np.expm1(-np.outer(rates, time))
    found = np.zeros(len(rates))
    for e in range(len(rates)):
        state = np.zeros((top_k, points))
        state[0] = 1.0
        for f in range(len(rates)):
            if f != e:
                shifted = np.vstack([np.zeros((1, points)), state[:-1]])
                state = state * (1 - arrived[f]) + shifted * arrived[f]
        integrand = rates[e] * np.exp(-rates[e] * time) * state.sum(axis=0) * time
        found[e] = np.trapezoid(integrand, log_t)
    return found


@pytest.mark.parametrize(
    ("weights", "top_k"),
    [
        ([3.0, 1.0, 1.0, 0.5], 2),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3),
        ([1e6, 1.0, 1.0, 1.0, 1.0], 2),
        ([1.0, 1e-9, 1e-9, 1e-9, 2e-9], 2),
        ([1e20, 1.0, 1.0, 2.0], 2),
        ([5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0], 6),
    ],
)
def test_router_weights_against_enumeration(weights: list[float], top_k: int) -> None:
    assert inclusion_probabilities(weights, top_k) == pytest.approx(enumerated(np.array(weights), top_k), abs=1e-10)


@pytest.mark.parametrize(("weights", "top_k"), [(zipf_weights(64, 1.5), 8), (lognormal_weights(48, 1.3), 4), (zipf_weights(40, 5.0), 6)])
def test_router_weights_against_a_plain_quadrature(weights: np.ndarray, top_k: int) -> None:
    assert inclusion_probabilities(weights, top_k) == pytest.approx(plain_quadrature(weights, top_k), abs=1e-8)


def test_large_layer_against_draws() -> None:
    weights, tokens = lognormal_weights(896, 1.1), 30_000
    pi = inclusion_probabilities(weights, 16)
    drawn = np.bincount(sampled_experts(weights, 16, tokens, seed=11).ravel(), minlength=896) / tokens
    z = (drawn - pi) / np.sqrt(pi * (1 - pi) / tokens)
    assert np.abs(z).max() < 5
    assert np.square(z).mean() == pytest.approx(1.0, abs=0.25)


weights_and_k = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=40).flatmap(lambda w: st.tuples(st.just(w), st.integers(1, len(w))))


@given(weights_and_k, st.sampled_from(["router", "share", "counts"]))
def test_probabilities_add_up_and_keep_the_order(case: tuple[list[float], int], kind: str) -> None:
    weights, top_k = case
    pi = inclusion_probabilities(weights, top_k, kind)
    assert pi.sum() == pytest.approx(top_k, rel=1e-9)
    assert pi.min() >= 0.0
    assert pi.max() <= 1.0
    assert (np.diff(pi[np.argsort(weights)]) >= -1e-9).all()


@given(weights_and_k)
def test_water_filling_is_proportional_below_the_cap(case: tuple[list[float], int]) -> None:
    weights, top_k = np.array(case[0]), case[1]
    pi = inclusion_probabilities(weights, top_k, "share")
    free = pi < 1.0 - 1e-9
    if free.any():
        levels = pi[free] / weights[free]
        assert levels.max() == pytest.approx(levels.min(), rel=1e-9)
        assert (levels.max() * weights[~free] >= 1.0 - 1e-9).all()


@given(st.integers(1, 60), st.integers(1, 60), st.floats(1e-3, 1e3))
def test_equal_weights_and_scale(n_experts: int, top_k: int, scale: float) -> None:
    top_k = min(top_k, n_experts)
    for kind in ("router", "share", "counts"):
        assert inclusion_probabilities(np.full(n_experts, scale), top_k, kind) == pytest.approx(np.full(n_experts, top_k / n_experts))


def test_counts_of_a_top_k_are_divided_by_the_tokens() -> None:
    chosen = sampled_experts(lognormal_weights(16, 1.0), 4, 500, seed=3)
    counts = np.bincount(chosen.ravel(), minlength=16)
    assert inclusion_probabilities(counts, 4, "counts") == pytest.approx(counts / 500)


def test_experts_without_weight_are_never_chosen() -> None:
    assert inclusion_probabilities([2.0, 0.0, 1.0, 0.0, 1.0], 3) == pytest.approx([1, 0, 1, 0, 1])
    assert inclusion_probabilities([2.0, 0.0, 1.0, 1.0], 1) == pytest.approx([0.5, 0, 0.25, 0.25])


def test_layers_are_rows() -> None:
    rows = np.array([lognormal_weights(32, 0.5), zipf_weights(32, 1.0)])
    both = inclusion_probabilities(rows, 4)
    assert both.shape == (2, 32)
    assert both[1] == pytest.approx(inclusion_probabilities(rows[1], 4))


@pytest.mark.parametrize(
    ("weights", "top_k", "kind", "said"),
    [
        ([1, 2], 3, "router", "top_k: 3 is outside 1 to 2"),
        ([1, 0], 2, "share", "top_k: 2 is outside 1 to 1"),
        ([1, 2], 0, "counts", "top_k: 0"),
        ([1, float("inf")], 1, "router", "finite"),
        ([1, float("nan")], 1, "router", "finite"),
        ([-1, 2], 1, "router", "not negative"),
        ("many", 1, "router", "list of numbers"),
        ([[[1.0]]], 1, "router", "shape"),
        ([1, 2], 1, "logits", "kind: 'logits' is not one of router, share, counts"),
    ],
)
def test_nonsense_is_refused(weights: object, top_k: int, kind: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        inclusion_probabilities(weights, top_k, kind)

"""Distinct experts under any routing: published values, bounds, Monte Carlo, and what scenarios and sweeps feel of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import physics
from physics import OverlapLaw, Routing, expected_distinct_experts
from physics import coincidence as c
from physics.fanout import groups_per_token, queue_probabilities, shared_expert_probability_skewed
from physics.inclusion import inclusion_probabilities, lognormal_weights, zipf_weights
from physics.sampling import sampled_distinct, sampled_experts, sampled_groups_per_token


@st.composite
def models(draw: st.DrawFn) -> tuple[int, int]:
    n_experts = draw(st.integers(2, 300))
    return n_experts, draw(st.integers(1, min(n_experts, 24)))


routings = st.one_of(
    st.just(Routing.uniform()),
    st.floats(0.0, 3.0).map(lambda s: Routing.skewed(sigma=s)),
    st.floats(0.0, 2.5).map(lambda z: Routing.skewed(zipf=z)),
)
overlaps = st.one_of(
    st.none(),
    st.floats(0.0, 1.0),
    st.builds(OverlapLaw, st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.floats(0.0, 3.0), st.one_of(st.none(), st.floats(0.0, 0.5))),
)


# --- published values: design notes, sections 4 and 7 ---


@pytest.mark.parametrize(
    ("n_experts", "top_k", "tokens", "distinct"),
    [(256, 8, 1, 8.0), (256, 8, 8, 57.42), (256, 8, 32, 163.31), (256, 8, 64, 222.44), (256, 8, 128, 251.60), (896, 16, 32, 392.6)],
)
def test_uniform_table_of_section_7(n_experts: int, top_k: int, tokens: int, distinct: float) -> None:
    assert expected_distinct_experts(n_experts, top_k, tokens) == pytest.approx(distinct, rel=2e-4)


@pytest.mark.parametrize(("kind", "distinct"), [("share", 88.2), ("router", 96.7)])
def test_zipf_readings_of_section_4(kind: str, distinct: float) -> None:
    pi = inclusion_probabilities(zipf_weights(256, 1.5), 8, kind)
    assert expected_distinct_experts(256, 8, 64, Routing.from_inclusion(pi)) == pytest.approx(distinct, abs=0.05)


def test_zipf_routing_is_the_router_reading() -> None:
    assert expected_distinct_experts(256, 8, 64, Routing.skewed(zipf=1.5)) == pytest.approx(96.7, abs=0.05)


def test_sharing_of_896_experts() -> None:
    distinct = expected_distinct_experts(896, 16, 32)
    assert physics.tokens_per_touched_expert(16, 32, distinct) == pytest.approx(1.304, abs=5e-4)


def test_fan_out_of_section_4() -> None:
    group = np.arange(256) // 32
    assert groups_per_token(np.full(256, 8 / 256), group) == pytest.approx(8 * (1 - math.comb(224, 8) / math.comb(256, 8)), rel=1e-9)
    assert sampled_groups_per_token(256, 8, 8, 4, 40_000, seed=1) == pytest.approx(3.95, abs=0.01)
    # All groups allowed is no limit.
    assert sampled_groups_per_token(256, 8, 8, 8, 20_000, seed=1) == pytest.approx(5.29, abs=0.03)


# --- bounds and monotonicity ---


@given(models(), routings, overlaps, st.integers(1, 200), st.integers(1, 400))
def test_bounds(model: tuple[int, int], routing: Routing, overlap: object, requests: int, tokens: int) -> None:
    n_experts, top_k = model
    law = Routing(routing.kind, routing.sigma, routing.zipf, overlap)  # type: ignore[arg-type]
    distinct = float(law.distinct_experts(n_experts, top_k, requests, tokens))
    assert top_k * (1 - 1e-9) <= distinct <= min(n_experts, top_k * requests * tokens) * (1 + 1e-9)


@given(models(), routings, overlaps, st.integers(1, 100), st.integers(1, 300))
def test_more_tokens_or_requests_never_wake_fewer(model: tuple[int, int], routing: Routing, overlap: object, r: int, m: int) -> None:
    law = Routing(routing.kind, routing.sigma, routing.zipf, overlap)  # type: ignore[arg-type]
    at = law.distinct_experts(*model, np.array([r, r + 1, r]), np.array([m, m, m + 1]))
    assert at[1] >= at[0] * (1 - 1e-10)
    assert at[2] >= at[0] * (1 - 1e-10)


@given(models(), routings, st.integers(1, 2000))
def test_skew_never_raises_distinct(model: tuple[int, int], routing: Routing, tokens: int) -> None:
    assert expected_distinct_experts(*model, tokens, routing) <= expected_distinct_experts(*model, tokens) * (1 + 1e-9)


@given(models(), routings, overlaps, st.integers(1, 100), st.integers(1, 300))
def test_overlap_never_raises_distinct(model: tuple[int, int], routing: Routing, overlap: object, requests: int, tokens: int) -> None:
    law = Routing(routing.kind, routing.sigma, routing.zipf, overlap)  # type: ignore[arg-type]
    apart = routing.distinct_experts(*model, requests, tokens)
    assert law.distinct_experts(*model, requests, tokens) <= apart * (1 + 1e-9)


@given(st.integers(1, 64), st.floats(0.0, 2.0), overlaps, st.integers(1, 50), st.integers(1, 50))
def test_all_experts_chosen_is_a_dense_layer(n_experts: int, sigma: float, overlap: object, requests: int, tokens: int) -> None:
    law = Routing.skewed(sigma=sigma, overlap=overlap)  # type: ignore[arg-type]
    assert law.distinct_experts(n_experts, n_experts, requests, tokens) == pytest.approx(n_experts)


@given(models(), routings, overlaps, st.integers(1, 500))
def test_one_token_per_request_is_independence(model: tuple[int, int], routing: Routing, overlap: object, requests: int) -> None:
    law = Routing(routing.kind, routing.sigma, routing.zipf, overlap)  # type: ignore[arg-type]
    assert law.distinct_experts(*model, requests, 1.0) == pytest.approx(routing.distinct_experts(*model, requests, 1.0), rel=1e-12)


def test_whole_overlap_is_one_token_per_request() -> None:
    law = Routing.skewed(sigma=1.0, overlap=1.0)
    assert law.distinct_experts(64, 4, 10, 500) == pytest.approx(float(law.distinct_experts(64, 4, 10, 1)), rel=1e-6)


def test_overlap_of_chance_is_independence() -> None:
    assert expected_distinct_experts(256, 8, 32, Routing.uniform(overlap=8 / 256)) == pytest.approx(163.31, abs=0.01)


def test_round_robin_with_overlap_deals_requests_in_balance() -> None:
    law = Routing.round_robin(overlap=0.4)
    alone = float(Routing.uniform(overlap=0.4).distinct_experts(256, 8, 1, 16))
    assert law.distinct_experts(256, 8, np.array([1, 2, 1000]), 16) == pytest.approx([alone, 2 * alone, 256])
    assert Routing.round_robin().distinct_experts(256, 8, 2, 3) == 48


# --- accuracy against independent expressions ---


@pytest.mark.parametrize("inclusion", [Fraction(1, 2), Fraction(1, 32), Fraction(1, 10_000), Fraction(999, 1000)])
@pytest.mark.parametrize("s", [Fraction(1, 100), Fraction(1), Fraction(37, 10), Fraction(1000), Fraction(10**6), Fraction(10**14)])
@pytest.mark.parametrize("tokens", [2, 9, 100, 900])
def test_log_gamma_differences_against_the_product(inclusion: Fraction, s: Fraction, tokens: int) -> None:
    """Gamma(s)Gamma(b+m)/(Gamma(b)Gamma(s+m)) is the product of (b+j)/(s+j) over j < m."""
    product = math.fsum(math.log1p(-float(inclusion * s / (s + j))) for j in range(tokens))
    assert c.log_idle(float(inclusion), float(s), float(tokens)) == pytest.approx(product, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("exponent", [0.0, 0.507, 1.0, 1.7, 2.0, 6.0])
@pytest.mark.parametrize("tokens", [2, 3, 19, 21, 400])
def test_window_mean_against_the_sum(exponent: float, tokens: int) -> None:
    law = OverlapLaw(0.2, 0.3, exponent)
    pairs = [(tokens - d) * (0.2 + 0.3 * d**-exponent) for d in range(1, tokens)]
    assert law.window_mean(tokens) == pytest.approx(2 * math.fsum(pairs) / (tokens * (tokens - 1)), rel=1e-13)


def test_law_is_carried_by_its_place_between_chance_and_identity() -> None:
    law = OverlapLaw(0.3, 0.1, 0.5, chance=0.2)
    assert law.carried(np.array([0.1, 0.2, 0.6, 1.0]), 0.5) == pytest.approx([0.5, 0.5, 0.75, 1.0])
    assert OverlapLaw(0.3, 0.1, 0.5, chance=None).carried(0.4, 0.9) == 0.4


@pytest.mark.parametrize("routing", [Routing.skewed(sigma=1.3), Routing.skewed(zipf=4.0), Routing.skewed(sigma=0.4)])
def test_table_of_a_sweep_agrees_with_the_sum_over_experts(routing: Routing) -> None:
    tokens = np.geomspace(1.0, 1e14, 5000)
    with np.errstate(divide="ignore"):  # Zipf 4: the first expert is always chosen
        idle = np.log1p(-routing.inclusion(384, 8)[0])
    plain = np.array([-np.expm1(t * idle).sum() for t in tokens])
    assert routing.distinct_experts(384, 8, tokens, 1.0) == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("overlap", [0.35, OverlapLaw()])
def test_many_requests_of_one_window_agree_with_one_at_a_time(overlap: float | OverlapLaw) -> None:
    routing = Routing.skewed(sigma=0.9, overlap=overlap)
    requests = np.geomspace(1.0, 1e6, 2000)
    together = routing.distinct_experts(128, 8, requests, 64.0)
    apart = [float(routing.distinct_experts(128, 8, r, 64.0)) for r in requests[::97]]
    assert together[::97] == pytest.approx(apart, rel=1e-12)


def test_rows_are_layers_and_the_result_their_mean() -> None:
    rows = np.array([lognormal_weights(64, 0.3), lognormal_weights(64, 1.5)])
    for overlap in (None, 0.4):
        both = Routing.from_counts(rows, overlap=overlap).distinct_experts(64, 4, 3, 20)
        each = [Routing.from_counts(row, overlap=overlap).distinct_experts(64, 4, 3, 20) for row in rows]
        assert both == pytest.approx(np.mean(each), rel=1e-12)


def test_arrays_broadcast_over_experts_too() -> None:
    routing = Routing.skewed(sigma=0.7, overlap=0.4)
    got = routing.distinct_experts(np.array([[64], [256]]), 8, np.array([1.0, 4.0, 9.0]), 16)
    assert got.shape == (2, 3)
    assert got[1, 2] == pytest.approx(float(routing.distinct_experts(256, 8, 9, 16)))


# --- Monte Carlo ---


@pytest.mark.parametrize(
    ("n_experts", "top_k", "sigma", "tokens"), [(256, 8, 0.75, 32), (128, 4, 1.3, 64), (896, 16, 0.7, 32), (32, 4, 1.3, 8)]
)
def test_mean_and_spread_of_router_draws(n_experts: int, top_k: int, sigma: float, tokens: int) -> None:
    weights, groups = lognormal_weights(n_experts, sigma), 1500
    seen = sampled_distinct(sampled_experts(weights, top_k, groups * tokens, seed=5), tokens, n_experts)
    routing = Routing.skewed(sigma=sigma)
    assert expected_distinct_experts(n_experts, top_k, tokens, routing) == pytest.approx(seen.mean(), abs=4 * seen.std() / groups**0.5)
    # The spread is an estimate good to 5 %; its own Monte Carlo error is 1/sqrt(2 n).
    error = 0.05 + 4 / math.sqrt(2 * groups)
    assert routing.distinct_experts_sd(n_experts, top_k, tokens, 1) == pytest.approx(seen.std(), rel=error)


def test_uniform_spread_is_exact_and_the_skewed_form_meets_it() -> None:
    assert Routing.uniform().distinct_experts_sd(256, 8, 128, 1) == pytest.approx(2.00, abs=0.005)
    assert c.distinct_experts_sd_skewed(np.full(256, 1 / 32), np.array([1, 8, 128])) == pytest.approx(
        Routing.uniform().distinct_experts_sd(256, 8, np.array([1, 8, 128]), 1), rel=4e-3, abs=1e-6
    )
    assert Routing.round_robin().distinct_experts_sd(256, 8, 128, 1) == 0.0


def test_beta_form_against_drawn_preferences() -> None:
    """The form is exact for the law it states: pi_e of each request from Beta, tokens Bernoulli given it."""
    rng, requests, tokens, draws = np.random.default_rng(2), 3, 12, 4000
    pi = inclusion_probabilities(lognormal_weights(16, 0.8), 4)
    chance, overlap = float((pi**2).sum() / 4), 0.55
    s = (1 - overlap) / (overlap - chance)
    own = rng.beta(pi * s, (1 - pi) * s, size=(draws, requests, 16))
    awake = 1 - np.prod((1 - own) ** tokens, axis=1)
    seen = awake.sum(axis=1)
    expected = c.distinct_experts_correlated(pi, requests, tokens, overlap)
    assert expected == pytest.approx(seen.mean(), abs=4 * seen.std() / draws**0.5)
    # ... and s is the one at which two tokens of a request overlap so much.
    assert (own[:, 0] ** 2).sum(axis=1).mean() / 4 == pytest.approx(overlap, abs=0.01)


def test_two_tokens_and_groups_against_draws() -> None:
    weights = np.random.default_rng(4).permutation(lognormal_weights(128, 1.3))
    pi, draws, size = inclusion_probabilities(weights, 4), 40_000, 16
    chosen = sampled_experts(weights, 4, draws, seed=6)
    hit = np.zeros((draws, 128), bool)
    np.put_along_axis(hit, chosen.astype(np.int64), True, axis=1)
    share = (hit[::2] & hit[1::2]).any(axis=1)
    assert shared_expert_probability_skewed(pi) == pytest.approx(share.mean(), abs=0.002 + 4 * (0.25 / len(share)) ** 0.5)
    groups = hit.reshape(draws, -1, size).any(axis=2).sum(axis=1)
    assert groups_per_token(pi, np.arange(128) // size) == pytest.approx(groups.mean(), abs=0.003 + 4 * groups.std() / draws**0.5)


def test_queue_of_an_expert_is_binomial() -> None:
    shares = queue_probabilities(np.full(256, 8 / 256), 128, 40)
    exact = [math.comb(128, n) * (1 / 32) ** n * (31 / 32) ** (128 - n) for n in range(41)]
    assert shares == pytest.approx(exact, rel=1e-10)
    assert shares @ np.arange(41) == pytest.approx(4.0)
    assert queue_probabilities([1.0, 0.0], 3, 5) == pytest.approx([0.5, 0, 0, 0.5, 0, 0])


# --- the scenario, regimes and sweeps feel it ---


@pytest.fixture(scope="module")
def scenario() -> physics.Scenario:
    return physics.Scenario(model=physics.load_model("DeepSeek-V3"), machine=physics.load_machine("H200"), gpus_per_stage=16, batch=8)


def test_decode_is_independent_and_midfill_shares(scenario: physics.Scenario) -> None:
    scenario = scenario.replace(new_tokens=16)
    plain = physics.regimes(scenario.replace(routing=Routing.skewed(sigma=0.75)))
    shared = physics.regimes(scenario.replace(routing=Routing.skewed(sigma=0.75, overlap=OverlapLaw())))
    assert shared.weight_bytes["decode_experts"] == pytest.approx(plain.weight_bytes["decode_experts"])
    assert shared.weight_bytes["midfill"] < 0.95 * plain.weight_bytes["midfill"]


@pytest.mark.parametrize(
    "routing", [Routing.skewed(sigma=1.1), Routing.uniform(overlap=0.3), Routing.skewed(sigma=0.7, overlap=OverlapLaw())]
)
def test_sweep_is_point_by_point(scenario: physics.Scenario, routing: Routing) -> None:
    scenario = scenario.replace(routing=routing)
    batches, new = [1, 3, 100, *range(200, 1600)], [1, 7, 500]
    swept = physics.sweep_arrays(scenario, batch=batches, new_tokens=new)["weight_bytes"]
    for i, j in [(0, 0), (1, 2), (2, 1), (900, 1)]:
        alone = physics.regimes(scenario.replace(batch=batches[i], new_tokens=new[j]))["weight_bytes"]
        assert swept[i, j] == pytest.approx(alone.to_numpy(), rel=1e-10)


# --- a frozen, hashable description that says what is wrong with it ---


def test_routing_is_a_value() -> None:
    counts = np.arange(1, 65)
    assert Routing.from_counts(counts) == Routing.from_counts(counts.astype(float))
    assert len({Routing.from_counts(counts), Routing.from_counts(counts), Routing.skewed(sigma=0.5), Routing.skewed(sigma=0.5)}) == 2
    assert Routing.of(" Round-Robin ") == Routing.round_robin()
    assert "\\x" not in repr(Routing.from_counts(counts))
    with pytest.raises(AttributeError):
        Routing.uniform().kind = "round_robin"  # type: ignore[misc]


def test_measured_numbers_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="measured on 64 experts per layer, and this model has 256"):
        expected_distinct_experts(256, 8, 4, Routing.from_counts(np.ones(64)))
    with pytest.raises(ValueError, match="add up to 4, and this model chooses 8"):
        Routing.from_inclusion(np.full(64, 1 / 16)).check(64, 8)
    Routing.skewed(sigma=1.0).check(256, 8)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Routing.of("skewed"), "neither a name"),
        (lambda: Routing.of(3), "neither a name"),  # type: ignore[arg-type]
        (lambda: Routing("zipfian"), "not one of uniform, round_robin"),
        (lambda: Routing.skewed(), "either sigma or zipf"),
        (lambda: Routing.skewed(sigma=1.0, zipf=1.0), "either sigma or zipf"),
        (lambda: Routing.skewed(sigma=-0.1), "sigma -0.1 is not a number from 0 to 8"),
        (lambda: Routing.skewed(sigma=float("nan")), "sigma nan"),
        (lambda: Routing.uniform(overlap=1.5), "overlap 1.5 is not a number from 0 to 1"),
        (lambda: Routing.uniform(overlap="much"), "overlap 'much'"),  # type: ignore[arg-type]
        (lambda: Routing.from_counts([]), "one row"),
        (lambda: Routing.from_counts([1, -1]), "finite number that is not negative"),
        (lambda: Routing.from_counts([[1, 2], [3]]), "rows of equal length"),
        (lambda: Routing.from_counts([0, 0]), "ever chosen"),
        (lambda: Routing.from_inclusion([0.5, 0.7]), "add up to the experts per token"),
        (lambda: Routing.from_inclusion([1.5, 0.5]), "between 0 and 1"),
        (lambda: OverlapLaw(limit=0.9, amplitude=0.2), "no two tokens share more than all"),
        (lambda: OverlapLaw(exponent=-1.0), "overlap.exponent: -1.0"),
        (lambda: OverlapLaw(chance=1.0), "overlap.chance"),
        (lambda: expected_distinct_experts(8, 9, 1, Routing.skewed(sigma=1.0)), "1 <= top_k <= n_experts"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(make: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()  # type: ignore[operator]

"""Regime mix of a trace, synthetic agents, and conversations with compaction."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

import physics
from physics.conversation import (
    Compaction,
    cached_frac,
    heaviest_conversation,
    load_compaction,
    payback,
    seen_compactions,
    timeline,
    turns_of,
)
from physics.regimes import DECODE, steps_at
from physics.replay import replay_by_capacity
from physics.request_costs import KINDS, fill_kinds, regime_mix, replay_costs, request_costs
from physics.synthetic import Workload, fitted_workload, load_workload, synthetic_trace
from physics.tier_catalog import load_tiers
from tests.trace_fixtures import AGENTIC, shared, small_trace


@pytest.fixture(scope="module")
def scenario() -> physics.Scenario:
    model, machine = physics.load_model("DeepSeek-V3"), physics.load_machine("H200")
    return physics.Scenario(model, machine, batch=64, gpus_per_stage=16)


# ----------------------------------------------------------------------------------------------------------------- mix
@pytest.mark.parametrize("model", ["DeepSeek-V3", "Llama-3.1-70B", "gpt-oss-120b", "Kimi-Linear-48B-A3B", "DeepSeek-V4-Pro"])
def test_many_steps_equal_scenarios_one_by_one(model: str) -> None:
    s = physics.Scenario(physics.load_model(model), physics.load_machine("B200"), batch=4, gpus_per_stage=8, pipeline_depth=2)
    new, prefix = [1, 700, 30_000], [5, 131_072, 9_999]
    many, parts = steps_at(s, 4, new, prefix), steps_at(s, 4, 1, prefix, split=True)
    for i, (n, p) in enumerate(zip(new, prefix, strict=True)):
        one = physics.regimes(s.replace(new_tokens=n, context_tokens=p))
        for column in ("flops", "bytes", "energy_j", "network_bytes"):
            assert many[column][i] == pytest.approx(one[column]["midfill"], rel=1e-12)
            np.testing.assert_allclose(parts[column][:, i], one[column][list(DECODE)], rtol=1e-12)
    alone = physics.regimes(s.replace(prompt_tokens=4000))
    assert steps_at(s, 4, 4000, 0)["roofline_s"][0] == pytest.approx(alone.roofline_s["prefill"], rel=1e-12)


def test_costs_of_requests_are_those_of_scenarios(scenario: physics.Scenario) -> None:
    trace = small_trace([(0, 0, 0, 8000, 0, 101), (0, 0, 1, 9000, 8000, 1)])
    costs = request_costs(scenario, trace)
    first = physics.regimes(scenario.replace(batch=1, prompt_tokens=8000))
    second = physics.regimes(scenario.replace(batch=1, context_tokens=8000, new_tokens=1000))
    decode = physics.regimes(scenario.replace(context_tokens=8050)).energy_j[list(DECODE)].sum() / 64
    assert costs.fill["seconds"].tolist() == pytest.approx([first.roofline_s["prefill"], second.roofline_s["midfill"]])
    assert costs.decode["joules"][:, 0].sum() == pytest.approx(decode * 101)
    assert costs.total("flops")[1] == pytest.approx(costs.fill["flops"][1] + costs.decode["flops"][:, 1].sum())


def test_mix_counts_everything_once(scenario: physics.Scenario) -> None:
    trace = shared(AGENTIC)
    costs = request_costs(scenario, trace)
    mix = regime_mix(trace, costs)
    assert list(mix.index) == list(KINDS)
    assert mix.requests.sum() == len(trace)
    assert mix.tokens.sum() == pytest.approx(trace.new_tokens.sum() + trace.output_tokens.sum())
    for cost in ("flops", "bytes", "seconds", "joules"):
        assert mix[cost].sum() == pytest.approx(costs.total(cost).sum())
    fills = mix.tokens[:3] / mix.tokens[:3].sum()
    assert mix.requests["midfill"] / len(trace) == pytest.approx(0.90, abs=0.005)
    assert fills["midfill_large"] == pytest.approx(0.44, abs=0.005)


def test_thresholds_are_inputs() -> None:
    kinds = fill_kinds([0, 4096, 4097, 4097, 100], [10, 10, 5000, 5001, 10])
    assert kinds.tolist() == [0, 0, 1, 2, 0]
    assert fill_kinds([100], [10], prefix_limit_tokens=99, large_limit_tokens=9).tolist() == [2]


def test_a_lost_cache_costs_what_its_fill_costs(scenario: physics.Scenario) -> None:
    trace = small_trace([(0, 0, 0, 50_000, 0, 0), (0, 0, 60, 51_000, 50_000, 0)])
    tiers = load_tiers(scenario.machine)
    kept = replay_costs(scenario, replay_by_capacity(trace, [np.inf]), tiers[:1])
    below = replay_costs(scenario, replay_by_capacity(trace, [20_000, np.inf]), tiers[:2])
    lost = replay_costs(scenario, replay_by_capacity(trace, [0.0]), tiers[:1])
    assert below.load_s[1] == pytest.approx(30_000 * 70_272 / 64e9)
    assert below.load_j[1] == pytest.approx(30_000 * 70_272 * tiers[1].j_per_byte)
    assert below.fill_s.tolist() == pytest.approx(kept.fill_s.tolist())
    assert lost.fill_s[1] == pytest.approx(steps_at(scenario, 1, 51_000, 0)["roofline_s"][0])
    with pytest.raises(ValueError, match="tiers: 2 for a replay with 1"):
        replay_costs(scenario, replay_by_capacity(trace, [1.0]), tiers[:2])


# ----------------------------------------------------------------------------------------------------------- synthetic
def test_fit_on_the_agentic_trace_is_what_data_holds() -> None:
    fitted, kept = asdict(fitted_workload(shared(AGENTIC))), asdict(load_workload())
    assert fitted == pytest.approx(kept, abs=2e-3)


def test_synthetic_moments_are_those_of_its_distributions() -> None:
    w = load_workload()
    trace = synthetic_trace(w, 3000, seed=5)
    first = np.r_[True, np.diff(trace.branch[np.lexsort((trace.time_s, trace.branch))]) != 0]
    order = np.lexsort((trace.time_s, trace.branch))
    inputs = np.log(trace.input_tokens[order][first])
    n = first.sum()
    assert inputs.mean() == pytest.approx(w.first_mu, abs=4 * w.first_sigma / np.sqrt(n) + 0.02)
    assert inputs.std() == pytest.approx(w.first_sigma, rel=0.1)
    out = np.log(trace.output_tokens)
    assert out.mean() == pytest.approx(w.output_mu, abs=0.01)
    assert out.std() == pytest.approx(w.output_sigma, abs=0.02)
    idle = np.log(trace.idle_s[np.isfinite(trace.idle_s)])
    assert idle.mean() == pytest.approx(w.idle_1_frac * w.idle_1_mu + (1 - w.idle_1_frac) * w.idle_2_mu, abs=0.02)
    again = fitted_workload(trace)
    assert again.restart_frac == pytest.approx(w.restart_frac, rel=0.1)
    assert again.append_1_frac == pytest.approx(w.append_1_frac, abs=0.05)
    assert again.idle_2_mu == pytest.approx(w.idle_2_mu, abs=0.1)


def test_synthetic_looks_like_the_trace_it_was_fitted_on() -> None:
    """Shares that the fit did not aim at: 98 % midfills, 90 % typical, 79 % of new tokens in large appends, 44 points above 4k."""
    trace = synthetic_trace(load_workload(), 2000, seed=1)
    prefix, new = trace.prefix_tokens, trace.new_tokens
    assert (prefix > 4096).mean() == pytest.approx(0.98, abs=0.01)
    assert ((prefix > 4096) & (new >= 50) & (new <= 5000)).mean() == pytest.approx(0.90, abs=0.02)
    assert new[new > 5000].sum() / new.sum() == pytest.approx(0.79, abs=0.04)
    assert new[(new > 5000) & (prefix > 4096)].sum() / new.sum() == pytest.approx(0.44, abs=0.08)
    assert trace.hit_frac == pytest.approx(0.962, abs=0.02)


def test_synthetic_is_reproducible_and_bounded() -> None:
    w = load_workload()
    one, two = synthetic_trace(w, 20, seed=9), synthetic_trace(w, 20, seed=9)
    np.testing.assert_array_equal(one.input_tokens, two.input_tokens)
    assert one.input_tokens.max() <= 1.5e6
    for bad in (0, 50_000):
        with pytest.raises(ValueError, match="conversations"):
            synthetic_trace(w, bad)
    with pytest.raises(ValueError, match=r"workload.restart_frac"):
        Workload(**(asdict(w) | {"restart_frac": 1.5}))
    with pytest.raises(ValueError, match="a fit needs"):
        fitted_workload(small_trace([(0, 0, 0, 10, 0, 1), (0, 0, 1, 20, 10, 1)]))
    with pytest.raises(KeyError, match="coding agents"):
        load_workload("chat")


# -------------------------------------------------------------------------------------------------------- conversation
def test_timeline_is_a_midfill_and_a_decode_a_turn(scenario: physics.Scenario) -> None:
    frame = timeline(scenario, [40_000, 2000, 3000], [100, 1, 50])
    assert frame.prefix_tokens.tolist() == [0, 40_000, 42_000]
    assert frame.context_tokens.tolist() == [40_000, 42_000, 45_000]
    mid = physics.regimes(scenario.replace(batch=1, context_tokens=40_000, new_tokens=2000))
    step = physics.regimes(scenario.replace(context_tokens=42_000))
    assert frame.ttft_s[1] == pytest.approx(mid.roofline_s["midfill"])
    assert frame.decode_s[1] == pytest.approx(step.roofline_s[list(DECODE)].sum())
    assert frame.joules[1] == pytest.approx(mid.energy_j["midfill"] + step.energy_j[list(DECODE)].sum() / 64)
    assert frame.kv_bytes.tolist() == pytest.approx([40_000 * 70_272, 42_000 * 70_272, 45_000 * 70_272])


def test_compaction_by_hand(scenario: physics.Scenario) -> None:
    added, output = np.full(10, 10_000.0), np.full(10, 100.0)
    plain = timeline(scenario, added, output)
    cut = timeline(scenario, added, output, Compaction(60_000, kept_tokens=5000, refill_tokens=20_000))
    assert cut.compacted.tolist() == [False] * 6 + [True, False, False, True]  # 55,000 + 10,000 would pass it again
    assert cut.prefix_tokens[6] == 5000
    assert cut.new_tokens[6] == 30_000
    assert cut.context_tokens.max() <= 60_000
    assert plain.context_tokens.iloc[-1] == 100_000
    assert cached_frac(plain) == pytest.approx(1 - 100_000 / plain.context_tokens.sum())
    assert cached_frac(cut) < cached_frac(plain)
    written = timeline(scenario, added, output, Compaction(60_000, 5000, 20_000, summary_tokens=4000))
    summary = physics.regimes(scenario.replace(context_tokens=60_000)).roofline_s[list(DECODE)].sum() * 4000
    assert written.ttft_s[6] - cut.ttft_s[6] == pytest.approx(summary, rel=1e-9)


def test_payback_adds_up(scenario: physics.Scenario) -> None:
    added, output = np.full(200, 5000.0), np.full(200, 300.0)
    plain = timeline(scenario, added, output)
    cut = timeline(scenario, added, output, load_compaction(250_000, summary_tokens=8000))
    for measure in ("seconds", "joules"):
        result = payback(plain, cut, measure)
        columns = [f.ttft_s + f.decode_s if measure == "seconds" else f.joules for f in (plain, cut)]
        assert result.saved == pytest.approx(float(columns[0].sum() - columns[1].sum()))
        assert result.spent_at_turn == 51
        spent = (columns[0] - columns[1]).cumsum()
        assert spent[result.repaid_at_turn - 1] >= 0
        assert (spent[50 : result.repaid_at_turn - 1] < 0).all()
        assert result.repaid_at_turn > 51
    assert payback(plain, plain, "seconds").spent_at_turn == 0


def test_seen_compactions_are_what_data_holds() -> None:
    count, kept, refilled = seen_compactions(shared(AGENTIC))
    assert count == 173
    assert (kept, refilled) == (load_compaction().kept_tokens, load_compaction().refill_tokens)


def test_turns_of_a_recorded_conversation() -> None:
    trace = small_trace([(0, 0, 0, 10_000, 0, 5), (0, 0, 1, 12_000, 10_000, 5), (0, 0, 2, 12_500, 3000, 5), (1, 0, 0, 99_000, 0, 1)])
    added, output = turns_of(trace, 0)
    assert added.tolist() == [10_000, 2000, 500]
    assert output.tolist() == [5, 5, 5]
    assert heaviest_conversation(trace) == 1
    with pytest.raises(ValueError, match="is not one of the 2"):
        turns_of(trace, 7)


@pytest.mark.parametrize("bad", [(-1.0, 0.0, 0.0), (np.nan, 0.0, 0.0), (10_000.0, 5000.0, 5000.0), (1e5, True, 0.0)])
def test_compactions_that_cannot_be_are_refused(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="compaction"):
        Compaction(*bad)


def test_timelines_that_cannot_be_are_refused(scenario: physics.Scenario) -> None:
    for added, output in (([], []), ([1, 2], [1]), ([0], [1]), ([np.nan], [1])):
        with pytest.raises(ValueError, match="added_tokens"):
            timeline(scenario, added, output)

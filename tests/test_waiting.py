"""Tiers and break-evens against published rules and closed forms; thresholds against every possible one."""

from __future__ import annotations

import itertools
import math
import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import physics
from physics import catalog
from physics.replay import LENGTH_CLASSES, replay_by_idle
from physics.request_costs import replay_costs
from physics.si import PJ_PER_BIT
from physics.tier_catalog import load_tiers
from physics.tiers import Tier, break_even_idle_s, least_loading_bytes_per_s, mooncake_bytes_per_s
from physics.waiting import CLASS_TOKENS, Reuse, WaitingCosts, _limits, _tails, best_limits, reuse, usable_tiers, waiting_costs
from tests.trace_fixtures import AGENTIC, shared, small_trace


@pytest.fixture(scope="module")
def scenario() -> physics.Scenario:
    model, machine = physics.load_model("DeepSeek-V3"), physics.load_machine("H200")
    return physics.Scenario(model, machine, batch=64, gpus_per_stage=16)


# ------------------------------------------------------------------------------------------------------ published rules
def test_five_minute_rule_of_1987() -> None:
    """2,000 USD an access per second, 5,000 USD a megabyte: 400 s for 1 KB, about an hour for 100 bytes, two minutes for 4 KB."""
    seconds = [float(break_even_idle_s(0.0, 2000.0, 5000.0 * size / 1e6, 0.0)) for size in (1000, 100, 4000)]
    assert seconds == pytest.approx([400, 4000, 100])


def test_five_minute_rule_ten_years_later() -> None:
    """Gray and Graefe 1997: 128 pages a megabyte, 64 accesses a second, a 2,000 USD disk and 15 USD a megabyte: 266 s."""
    assert float(break_even_idle_s(0.0, 2000 / 64, 15 / 128, 0.0)) == pytest.approx(266, abs=1)


def test_mooncake_equations_1_and_2() -> None:
    """Llama-3-70B, 8,192 tokens: 6 GB/s on 8 A800 and 19 GB/s on 8 H800, as printed."""
    assert mooncake_bytes_per_s(8192, 8192, 8, 8 * 312e12) / 1e9 == pytest.approx(6, abs=0.5)
    assert mooncake_bytes_per_s(8192, 8192, 8, 8 * 989e12) / 1e9 == pytest.approx(19, abs=0.5)


def test_rebuild_of_a_dense_model_is_mooncakes_but_for_the_causal_half() -> None:
    """Halving a (the square of attention) and counting this model's own matrices gives the same least bandwidth."""
    model, machine = physics.load_model("Llama-3.1-70B"), physics.load_machine("A100")
    s = physics.Scenario(model, machine, gpus_per_stage=8, compute_dtype="bf16")
    rebuild = waiting_costs(s, load_tiers(machine), [8192.0], "joules").access_s[-1, 0]
    ours = least_loading_bytes_per_s(8192 * model.kv_bytes_per_token("bf16"), rebuild)
    theirs = mooncake_bytes_per_s(8192, 8192, 8, 8 * 312e12, attention=2.0, linear=2 * 68.45e9 / 80 / 8192**2)
    assert ours == pytest.approx(theirs, rel=0.01)
    assert ours / 1e9 == pytest.approx(6, rel=0.15)


# --------------------------------------------------------------------------------------------------------------- tiers
def test_energy_of_tiers_follows_from_the_energies_they_name() -> None:
    energies = {key: float(row["value"]) for key, row in catalog.energy_rows().items()}
    for row in catalog.tier_rows():
        if row["quantity"] == "energy" and "*" in row["derivation"]:
            terms = re.findall(r"(?:([\d.]+)\*)?([a-z]\w+)", row["derivation"])
            assert sum(float(factor or 1) * energies[key] for factor, key in terms) == pytest.approx(float(row["value"]), rel=1e-6)


def test_derived_numbers_of_tiers() -> None:
    rows = {(row["tier"], row["quantity"]): float(row["value"]) for row in catalog.tier_rows()}
    assert rows["dram", "price"] == pytest.approx((820 + 950) / 2 / 64, rel=1e-3)
    assert rows["ssd", "price"] == pytest.approx(10_000 / 30_000, rel=1e-3)
    assert rows["ssd", "energy"] * PJ_PER_BIT == pytest.approx(18 / 14e9, rel=1e-4)
    assert rows["dram", "capacity"] == 2000 / 8
    assert "capacity" not in {quantity for tier, quantity in rows if tier == "pool"}  # no source: asked from the user


def test_tiers_of_a_machine() -> None:
    machine = physics.load_machine("H200")
    hbm, dram, pool, ssd = load_tiers(machine)
    assert hbm.capacity_bytes == 141e9
    assert hbm.usd_per_byte_s * 141e9 * 3600 == pytest.approx(machine.price_per_hour_usd)
    assert (dram.bytes_per_s, pool.bytes_per_s, ssd.latency_s) == (64e9, 50e9, pytest.approx(60e-6))
    assert math.isnan(pool.capacity_bytes)
    assert math.isnan(dram.w_per_gb)
    with pytest.raises(ValueError, match=r"dram.bytes_per_s"):
        dram.replace(bytes_per_s=0.0)
    with pytest.raises(ValueError, match="is not one of hbm"):
        Tier("tape")


def test_break_evens_of_tiers_by_hand(scenario: physics.Scenario) -> None:
    """HBM against DRAM for a gigabyte: 1/64 s of one H200's rent over the rent of its share of HBM less the price of DRAM."""
    tiers = load_tiers(scenario.machine)
    costs = waiting_costs(scenario, tiers, [10_000.0, 100_000.0])
    rent = scenario.machine.price_per_hour_usd / 3600
    held = rent / 141 - 13.83 / (5 * 365.25 * 86_400)
    assert costs.break_evens()["hbm", "dram"] == pytest.approx([rent / 64 / held] * 2, rel=1e-9)
    rebuilt = costs.access_s[-1] * 16 * rent
    size = np.array([10_000, 100_000]) * 70_272 / 1e9
    assert costs.break_evens()["dram", "discard"] == pytest.approx((rebuilt - size / 64 * rent) / (size * 13.83 / (5 * 365.25 * 86_400)))
    assert costs.access_s[-1, 1] == pytest.approx(physics.regimes(scenario.replace(batch=1, prompt_tokens=100_000)).roofline_s["prefill"])


def test_map_and_break_evens_agree(scenario: physics.Scenario) -> None:
    costs = waiting_costs(scenario, load_tiers(scenario.machine), CLASS_TOKENS)
    idle = np.geomspace(0.1, 1e8, 400)
    chosen = costs.cheapest(idle)
    assert (np.diff(chosen, axis=0) >= 0).all()  # longer idle, further down
    leaves = costs.break_evens()["hbm", "dram"]
    np.testing.assert_array_equal(chosen == 0, idle[:, None] < leaves)


def test_hidden_loads_and_measures(scenario: physics.Scenario) -> None:
    tiers = load_tiers(scenario.machine)
    assert (waiting_costs(scenario, tiers, [1e5], stall_frac=0.0).access[:-1] == 0).all()
    joules = waiting_costs(scenario, tiers, [1e5], "joules")
    assert (joules.holding_per_s == 0).all()  # no power of holding is stated
    assert joules.access[1, 0] == pytest.approx(2 * 1e5 * 70_272 * 26.8125 * PJ_PER_BIT)
    powered = (tiers[0], tiers[1].replace(w_per_gb=0.1), *tiers[2:])
    assert waiting_costs(scenario, powered, [1e5], "joules").holding_per_s[1, 0] == pytest.approx(0.1 * 7.0272)
    with pytest.raises(ValueError, match="no rent of"):
        waiting_costs(scenario.replace(machine=scenario.machine.replace(price_per_hour_usd=math.nan)), tiers, [1e5])
    assert [t.name for t in usable_tiers((tiers[0], Tier("pool"), tiers[3]))] == ["hbm", "ssd"]
    with pytest.raises(ValueError, match="stall_frac"):
        waiting_costs(scenario, tiers, [1e5], stall_frac=2.0)


@given(
    st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-6, 1e3), st.floats(0, 1e3), st.floats(0.1, 10.0)
)  # fmt: skip
def test_break_even_is_where_both_cost_the_same(fast: float, slow: float, held_fast: float, held_slow: float, scale: float) -> None:
    idle = float(break_even_idle_s(fast, slow, held_fast, held_slow))
    if 0 < idle < math.inf:
        assert fast + held_fast * idle == pytest.approx(slow + held_slow * idle, rel=1e-6, abs=1e-6)
        assert float(break_even_idle_s(fast * scale, slow * scale, held_fast, held_slow)) == pytest.approx(idle * scale)


# --------------------------------------------------------------------------------------------------------------- reuse
def test_reuse_by_hand() -> None:
    stretches = Reuse(np.array([1.0, 2.0, 4.0, 8.0]), np.array([True, True, False, True]), np.ones(4))
    assert stretches.probability([0, 1.5, 3, 5, 9]).tolist() == pytest.approx([0.75, 2 / 3, 0.5, 1.0, np.nan], nan_ok=True)
    trace = small_trace([(0, 0, 0, 100, 0, 5), (0, 0, 7, 150, 100, 5), (1, 0, 10, 80, 0, 0)])
    found = reuse(trace)
    assert sorted(zip(found.idle_s.tolist(), found.reused.tolist(), strict=True)) == [(0, False), (3, False), (7, True)]


@given(
    st.lists(st.tuples(st.floats(0.05, 1e6), st.booleans()), min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0, 100), st.floats(-0.5, 5)), min_size=1, max_size=2),
)
def test_limits_cost_no_more_than_any_others(stretches: list[tuple[float, bool]], steps: list[tuple[float, float]]) -> None:
    idle, used = np.array([s for s, _ in stretches]), np.array([u for _, u in stretches])
    extra, saved = np.array([e for e, _ in steps]), np.array([s for _, s in steps])

    def cost(limits: tuple[float, ...]) -> float:
        past = [idle > limit for limit in limits]
        terms = [(e * (used & p)).sum() - (s * (idle - limit)[p]).sum() for e, s, p, limit in zip(extra, saved, past, limits, strict=True)]
        return float(sum(terms))

    grid = [0.0, *np.geomspace(0.1, 1e8, 181)[::12], np.inf]
    found = tuple(_limits(*_tails(idle, used), extra, saved))
    assert all(a <= b for a, b in itertools.pairwise(found))
    least = min(cost(limits) for limits in itertools.combinations_with_replacement(grid, len(steps)))
    assert cost(found) <= least + 1e-6 * (1 + abs(least))


def test_thresholds_beat_fixed_limits_on_the_agentic_trace(scenario: physics.Scenario) -> None:
    trace = shared(AGENTIC).started(60.0)
    tiers = usable_tiers(load_tiers(scenario.machine))
    rent, kv = scenario.machine.price_per_hour_usd / 3600, scenario.kv_token_bytes

    def dollars(limits: object) -> float:
        replay = replay_by_idle(trace, limits)
        costs = replay_costs(scenario, replay, tiers)
        held = sum(h * replay.span_s * t.usd_per_byte_s * kv for h, t in zip(replay.held_tokens, tiers, strict=True))
        return float(held + costs.load_s.sum() * rent + costs.fill_s.sum() * scenario.gpus_per_stage * rent)

    best = dollars(best_limits(waiting_costs(scenario, tiers, CLASS_TOKENS), reuse(trace)))
    for fixed in ([5, 300, 3600, 1e5], [300] * 4, [3600] * 4, [2, 2000, 2000, 1e6], [0, 1e9, 1e9, 1e9]):
        assert best < dollars(fixed)


def test_limits_need_one_length_a_class() -> None:
    costs = WaitingCosts(("hbm", "discard"), np.ones(3), np.zeros((2, 3)), np.zeros((2, 3)), "usd", np.zeros((2, 3)))
    with pytest.raises(ValueError, match=str(LENGTH_CLASSES)):
        best_limits(costs, Reuse(np.ones(1), np.ones(1, bool), np.ones(1)))

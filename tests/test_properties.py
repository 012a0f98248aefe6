"""What holds for every model, machine and load: limits, bounds, monotonicity, scaling, and sweeps that equal single calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import physics
from physics.catalog import models
from physics.memory import memory_parts
from physics.regimes import COLUMNS, DECODE, REGIMES, regime_arrays
from physics.sweep import AXES

MODELS = {name: physics.load_model(name) for name in models()}
ROOMY = {name: physics.load_machine(name).replace(memory_bytes=1e25, idle_w=50.0) for name in ("A100", "H200", "B300", "GB300", "MI355X")}
WORK = ("flops", "core_flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "network_bytes")
SECONDS = ("compute_s", "memory_s", "network_s", "hop_s", "roofline_s")


def whole(low: int, high: int) -> st.SearchStrategy[int]:
    """Whole numbers spread over the decades, small ones (windows, borders) often."""
    spread = st.floats(math.log(low), math.log(high)).map(lambda x: min(high, max(low, round(math.exp(x)))))
    return st.one_of(st.integers(low, min(high, 300)), spread)


@st.composite
def scenarios(draw: st.DrawFn, names: tuple[str, ...] = tuple(MODELS), **fixed: Any) -> physics.Scenario:
    model = MODELS[draw(st.sampled_from(names))]
    fields: dict[str, Any] = dict(
        context_tokens=draw(whole(1, 10_000_000)),
        batch=draw(whole(1, 4096)),
        new_tokens=draw(whole(1, 100_000)),
        prompt_tokens=draw(st.none() | whole(1, 1_000_000)),
        kv_bytes_per_token=draw(st.none() | st.floats(1e3, 4e6)),
        pipeline_depth=draw(st.integers(1, model.n_layers)),
        gpus_per_stage=draw(st.sampled_from((1, 2, 8, 12, 72, 256))),
        attention_parallel=draw(st.sampled_from(("data", "tensor"))),
        weight_dtype=draw(st.sampled_from((None, "bf16", "fp8", "mxfp4"))),
        kv_dtype=draw(st.sampled_from(("bf16", "fp8"))),
        overlap=draw(st.booleans()),
        routing=draw(st.sampled_from(("uniform", "round_robin"))),
    )
    return physics.Scenario(model, ROOMY[draw(st.sampled_from(tuple(ROOMY)))], **(fields | fixed))


def close(a: Any, b: Any, rel: float = 1e-9) -> bool:
    return bool(np.allclose(a, b, rtol=rel, atol=0.0, equal_nan=True))


def at_least(a: Any, b: Any) -> bool:
    """a >= b up to rounding, wherever both are numbers."""
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    both = ~(np.isnan(a) | np.isnan(b))
    return bool((a[both] >= b[both] * (1.0 - 1e-12)).all())


# ------------------------------------------------------------------ limits of coincidence


@given(st.integers(1, 1024), st.data(), st.floats(1.0, 1e7))
def test_distinct_experts_lie_between_one_token_and_perfect_balance(experts: int, data: st.DataObject, tokens: float) -> None:
    top_k = data.draw(st.integers(1, experts))
    distinct = physics.expected_distinct_experts(experts, top_k, tokens)
    assert top_k * (1 - 1e-12) <= distinct <= min(top_k * tokens, experts) * (1 + 1e-12)
    assert physics.expected_distinct_experts(experts, top_k, 1) == pytest.approx(top_k, rel=1e-12)
    assert physics.expected_distinct_experts(experts, experts, tokens) == experts
    assert physics.expected_distinct_experts(experts, top_k, 1e9) == pytest.approx(experts, rel=1e-6)
    assert physics.expected_distinct_experts(experts, top_k, tokens * 1.5) >= distinct * (1 - 1e-12)


def test_distinct_experts_against_dealing_cards() -> None:
    """Monte Carlo: each token draws 8 of 256 without replacement; the mean must lie within five standard errors."""
    generator, draws, tokens = np.random.default_rng(7), 2000, 32
    counts = np.array([np.unique(np.argsort(generator.random((tokens, 256)))[:, :8]).size for _ in range(draws)])
    expected, spread = physics.expected_distinct_experts(256, 8, tokens), physics.distinct_experts_sd(256, 8, tokens)
    assert abs(counts.mean() - expected) < 5 * spread / math.sqrt(draws)
    assert counts.std(ddof=1) == pytest.approx(spread, rel=5 / math.sqrt(2 * draws))


@given(scenarios(context_tokens=4096))
def test_a_huge_batch_reads_every_expert_once(s: physics.Scenario) -> None:
    table = physics.regimes(s.replace(batch=1_000_000))
    assert table.weight_bytes["decode_experts"] == pytest.approx(s.model.weight_bytes_by_class(s.weight_dtype)["routed"], rel=1e-6)


@given(scenarios(batch=1, prompt_tokens=1, new_tokens=1))
def test_one_token_reads_its_own_experts(s: physics.Scenario) -> None:
    moes = s.model.moe_groups
    share = sum(n * m.top_k * m.expert_params(s.model.hidden) for n, m in moes) / max(
        1, sum(n * m.n_experts * m.expert_params(s.model.hidden) for n, m in moes)
    )
    routed = s.model.weight_bytes_by_class(s.weight_dtype)["routed"]
    assert physics.regimes(s).weight_bytes["decode_experts"] == pytest.approx(share * routed, rel=1e-9)


# ------------------------------------------------------------------ bounds and sums


@given(scenarios())
def test_a_bound_is_no_shorter_than_any_resource(s: physics.Scenario) -> None:
    t = regime_arrays(s)
    for name in ("compute_s", "memory_s", "network_s", "hop_s"):
        assert at_least(t["roofline_s"], t[name])
    parts = np.stack([t["compute_s"], t["memory_s"], t["network_s"]])
    assert close(t["roofline_s"] - t["hop_s"], parts.max(axis=0) if s.overlap else parts.sum(axis=0), rel=1e-6)
    assert close(np.take_along_axis(parts, t["bound_index"][None].astype(int), axis=0)[0], parts.max(axis=0))
    assert at_least(1.0, t["compute_frac"])
    assert close(t["compute_frac"] * t["roofline_s"], np.where(t["roofline_s"] > 0, t["compute_s"], np.nan), rel=1e-9)


@given(scenarios())
def test_overlap_saves_time_but_never_more_than_two_thirds(s: physics.Scenario) -> None:
    hidden, open_ = regime_arrays(s.replace(overlap=True)), regime_arrays(s.replace(overlap=False))
    assert at_least(open_["roofline_s"], hidden["roofline_s"])
    assert at_least(3.0 * hidden["roofline_s"], open_["roofline_s"])
    for name in WORK:
        assert (hidden[name] == open_[name]).all()


@given(scenarios())
def test_totals_are_the_sums_of_their_parts(s: physics.Scenario) -> None:
    t = regime_arrays(s)
    assert close(t["bytes"], t["weight_bytes"] + t["kv_bytes"] + t["activation_bytes"])
    assert close(t["kv_bytes"], t["kv_read_bytes"] + t["kv_write_bytes"])
    joules = [t[name] for name in COLUMNS if name.startswith("energy_") and name != "energy_j"]
    assert len(joules) == 6
    assert close(t["energy_j"], np.sum(joules, axis=0))
    with np.errstate(invalid="ignore"):
        assert close(t["intensity_flops_per_byte"], t["flops"] / t["bytes"])
    assert t["kv_read_bytes"][REGIMES.index("prefill")] == 0.0


@given(scenarios())
def test_the_decode_lines_add_up_to_a_midfill_of_one_token(s: physics.Scenario) -> None:
    decode = physics.regimes(s).loc[list(DECODE)].sum(numeric_only=True)
    midfill = physics.regimes(s.replace(new_tokens=1)).loc["midfill"]
    for name in (*WORK, "compute_s", "memory_s", "hop_s", "energy_weights_j", "energy_kv_j", "energy_activation_j", "energy_network_j"):
        assert decode[name] == pytest.approx(midfill[name], rel=1e-9, abs=1e-30), name


@given(scenarios())
def test_a_prefill_is_a_midfill_on_an_empty_cache(s: physics.Scenario) -> None:
    """The shortest prefix there is, one token, against none: what separates them is that token alone."""
    n = s.new_tokens
    t = regime_arrays(s.replace(context_tokens=1, prompt_tokens=n))
    longer = regime_arrays(s.replace(context_tokens=1, prompt_tokens=n + 1))
    assert at_least(t["flops"][1], t["flops"][0])
    assert at_least(longer["core_flops"][0] + longer["flops"][0], t["core_flops"][1] + t["flops"][0])


@given(scenarios(), st.integers(1, 4096))
def test_decode_attention_has_one_intensity_whatever_the_batch(s: physics.Scenario, batch: int) -> None:
    one, other = regime_arrays(s), regime_arrays(s.replace(batch=batch))
    assert close(one["intensity_flops_per_byte"][2], other["intensity_flops_per_byte"][2], rel=1e-12)


@given(scenarios())
def test_a_stage_that_fits_here_fits_there(s: physics.Scenario) -> None:
    memory = physics.stage_memory(s)
    tight = s.replace(machine=s.machine.replace(memory_bytes=memory.total / s.gpus_per_stage * (1 + 1e-9)))
    assert physics.regimes(tight).fits.all()
    assert physics.stage_memory(tight).fits
    less = s.replace(machine=s.machine.replace(memory_bytes=memory.total / s.gpus_per_stage * (1 - 1e-9)))
    assert not physics.regimes(less).fits.any()
    assert physics.stage_memory(less).min_gpus > s.gpus_per_stage


# ------------------------------------------------------------------ monotonicity


GROWING = tuple(name for name, model in MODELS.items() if not any(getattr(g.attention, "chunked", False) for g in model.groups))


@given(scenarios(names=GROWING), whole(1, 10_000_000), st.sampled_from(("midfill", *DECODE)))
def test_more_context_is_never_less_work(s: physics.Scenario, longer: int, regime: str) -> None:
    low, high = sorted((s.context_tokens, longer))
    i = REGIMES.index(regime)
    less, more = regime_arrays(s.replace(context_tokens=low)), regime_arrays(s.replace(context_tokens=high))
    for name in ("flops", "bytes", "kv_bytes", "memory_s"):
        assert at_least(more[name][i], less[name][i]), name


def test_a_chunk_forgets_at_its_border() -> None:
    """The exception: a chunked layer starts anew at each border, so one more token of context can mean less to read."""
    s = physics.Scenario(MODELS["Llama-4-Scout-17B-16E"], ROOMY["H200"], context_tokens=8191)
    before, after = regime_arrays(s), regime_arrays(s.replace(context_tokens=8192))
    assert after["kv_bytes"][2] < before["kv_bytes"][2]


@given(scenarios(), whole(1, 4096))
def test_more_requests_are_never_less_work(s: physics.Scenario, batch: int) -> None:
    low, high = sorted((s.batch, batch))
    less, more = regime_arrays(s.replace(batch=low)), regime_arrays(s.replace(batch=high))
    for name in (*WORK, *SECONDS, "energy_j"):
        assert at_least(more[name], less[name]), name


@given(scenarios(), whole(1, 100_000))
def test_more_new_tokens_are_never_less_work(s: physics.Scenario, new: int) -> None:
    low, high = sorted((s.new_tokens, new))
    less, more = regime_arrays(s.replace(new_tokens=low)), regime_arrays(s.replace(new_tokens=high))
    # Where a latent changes its form, some of the core's work becomes projections, at the peak of their own format.
    seconds = SECONDS if s.weight_dtype == "bf16" else ("memory_s", "network_s", "hop_s")
    for name in (*(name for name in WORK if name != "core_flops"), *seconds):
        assert at_least(more[name][1], less[name][1]), name
    for name in WORK:
        assert (np.delete(more[name], 1) == np.delete(less[name], 1)).all(), name


@given(scenarios(), st.floats(1e3, 1e6))
def test_the_kv_override_scales_bytes_and_leaves_flops_alone(s: physics.Scenario, size: float) -> None:
    one, two, three = (regime_arrays(s.replace(kv_bytes_per_token=size * times)) for times in (1.0, 2.0, 3.0))
    own = regime_arrays(s.replace(kv_bytes_per_token=s.model.kv_bytes_per_token(s.kv_dtype)))
    assert close(own["kv_bytes"], regime_arrays(s.replace(kv_bytes_per_token=None))["kv_bytes"], rel=1e-12)
    assert close(three["kv_bytes"] - one["kv_bytes"], 2.0 * (two["kv_bytes"] - one["kv_bytes"]), rel=1e-6)
    if not s.model.state_bytes():
        assert close(two["kv_bytes"], 2.0 * one["kv_bytes"])
    for name in ("flops", "weight_bytes", "activation_bytes", "network_bytes", "compute_s"):
        assert (one[name] == three[name]).all(), name
    parts = [memory_parts(s.replace(kv_bytes_per_token=size * times))["kv"] for times in (1.0, 2.0, 3.0)]
    assert parts[2] - parts[0] == pytest.approx(2.0 * (parts[1] - parts[0]), rel=1e-6)


# ------------------------------------------------------------------ scaling


@given(scenarios(), st.floats(0.1, 10.0))
def test_a_machine_twice_as_fast_takes_half_the_time(s: physics.Scenario, factor: float) -> None:
    m = s.machine
    faster = m.replace(
        peaks={name: peak * factor for name, peak in m.peaks.items()},
        memory_bytes_per_s=m.memory_bytes_per_s * factor,
        scale_up_bytes_per_s=m.scale_up_bytes_per_s * factor,
        scale_out_bytes_per_s=m.scale_out_bytes_per_s * factor,
    )
    slow, fast = regime_arrays(s), regime_arrays(s.replace(machine=faster))
    for name in SECONDS:
        assert close(fast[name] * factor, slow[name]), name
    for name in (*WORK, "ridge_flops_per_byte", "compute_frac", "memory_frac", "network_frac"):
        assert close(fast[name], slow[name]), name


@given(scenarios(gpus_per_stage=4, attention_parallel="data", pipeline_depth=1))
def test_twice_the_accelerators_halve_compute_and_memory(s: physics.Scenario) -> None:
    small, big = regime_arrays(s), regime_arrays(s.replace(gpus_per_stage=8))
    for name in ("compute_s", "memory_s"):
        assert close(big[name] * 2.0, small[name]), name
    for name in ("flops", "bytes", "weight_bytes", "kv_bytes"):
        assert (big[name] == small[name]).all(), name


@given(scenarios(), st.integers(2, 8))
def test_the_whole_step_is_linear_in_what_each_request_brings_alone(s: physics.Scenario, times: int) -> None:
    assume(s.batch * times <= 1_000_000)
    one, many = regime_arrays(s), regime_arrays(s.replace(batch=s.batch * times))
    for name in ("flops", "core_flops", "kv_bytes", "activation_bytes", "network_bytes", "compute_s", "hop_s"):
        assert close(many[name], one[name] * times), name


@given(scenarios(pipeline_depth=1))
def test_depth_adds_hops_and_divides_weights(s: physics.Scenario) -> None:
    deep = s.replace(pipeline_depth=s.model.n_layers)
    shallow_t, deep_t = regime_arrays(s), regime_arrays(deep)
    hops = (s.model.n_layers - 1) * s.batch * np.array([s.prefill_tokens, s.new_tokens, 0, 0, 1]) * s.model.hidden * 2
    assert close(deep_t["network_bytes"] - shallow_t["network_bytes"], hops, rel=1e-6)
    assert (deep_t["bytes"] == shallow_t["bytes"]).all()
    assert physics.stage_memory(deep).weights == pytest.approx(physics.stage_memory(s).weights / s.model.n_layers)
    assert physics.stage_memory(deep).kv == physics.stage_memory(s).kv


@given(scenarios(), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_an_estimate_is_never_shorter_than_the_bound(s: physics.Scenario, compute: float, memory: float) -> None:
    assert np.isnan(regime_arrays(s)["estimate_s"]).all()
    e = physics.Efficiencies(compute, memory, 0.7, 20e-6)
    t = regime_arrays(s.replace(efficiencies=e))
    assert at_least(t["estimate_s"], t["roofline_s"])
    perfect = regime_arrays(s.replace(efficiencies=physics.Efficiencies()))
    assert close(perfect["estimate_s"], perfect["roofline_s"])
    floor = regime_arrays(s.replace(efficiencies=physics.Efficiencies(layer_floor_s=20e-6)))
    passes = np.array([1, 1, 0, 0, 1])
    assert close(floor["estimate_s"], perfect["roofline_s"] + passes * s.model.n_layers * 20e-6)


# ------------------------------------------------------------------ sweeps and crossings


AXIS_VALUES = {
    "context_tokens": whole(1, 10_000_000),
    "batch": whole(1, 4096),
    "kv_bytes_per_token": st.floats(1.0, 1e9),
    "new_tokens": whole(1, 100_000),
    "prompt_tokens": whole(1, 1_000_000),
    "gpus_per_stage": st.integers(1, 1000),
    "pipeline_depth": st.integers(1, 16),
}


@given(scenarios(routing="uniform"), st.data())
def test_a_sweep_equals_single_calls_point_by_point(s: physics.Scenario, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(AXES), max_size=4, unique=True))
    axes = {name: data.draw(st.lists(AXIS_VALUES[name], min_size=1, max_size=3), label=name) for name in names}
    # Memory about half used, so that some points fit and some do not; half of them with efficiencies.
    machine = s.machine.replace(memory_bytes=physics.stage_memory(s).total / s.gpus_per_stage)
    s = s.replace(machine=machine, efficiencies=data.draw(st.sampled_from((None, physics.Efficiencies(0.6, 0.8, 0.7, 1e-5)))))
    arrays = physics.sweep_arrays(s, columns="all", **axes)
    shape = tuple(len(values) for values in axes.values())
    for place in np.ndindex(shape):
        one = regime_arrays(s.replace(**{name: axes[name][i] for name, i in zip(names, place, strict=True)}))
        for name in (*COLUMNS, "bound_index", "fits"):
            assert np.array_equal(arrays[name][place], one[name], equal_nan=True) or close(arrays[name][place], one[name], 1e-13), name


SMOOTH = ("DeepSeek-V3", "Llama-3.1-70B", "Mixtral-8x7B", "Qwen3-235B-A22B", "Kimi-K2", "Kimi-K3", "Qwen3.5-397B-A17B")


@given(
    scenarios(names=SMOOTH, routing="uniform"),
    st.sampled_from(("context_tokens", "batch", "kv_bytes_per_token", "new_tokens")),
    st.sampled_from(("bytes", "flops", "roofline_s", "kv_bytes")),
)
def test_a_crossing_is_where_two_regimes_are_equal(s: physics.Scenario, axis: str, quantity: str) -> None:
    low, high = {"context_tokens": (1e3, 1e7), "batch": (1, 4096), "kv_bytes_per_token": (1e3, 4e6), "new_tokens": (1, 1e5)}[axis]
    found = physics.find_crossings(s, axis, low, high, quantity)
    for row in found.itertuples():
        assert low <= row.x <= high
        values = physics.sweep_arrays(s, columns=(quantity,), **{axis: [row.x]})[quantity][0]
        a, b = values[REGIMES.index(row.a)], values[REGIMES.index(row.b)]
        assert a == pytest.approx(b, rel=1e-6)
        assert row.y == pytest.approx(a, rel=1e-6)
        if axis == "kv_bytes_per_token":  # a real-valued field: the public call can be made at the crossing itself
            table = physics.regimes(s.replace(kv_bytes_per_token=row.x))
            assert table.loc[row.a, quantity] == pytest.approx(table.loc[row.b, quantity], rel=1e-6)


@given(scenarios(names=SMOOTH, routing="uniform", prompt_tokens=None), st.sampled_from(("context_tokens", "batch")))
def test_the_sides_of_a_crossing(s: physics.Scenario, axis: str) -> None:
    """`a` lies above before the crossing and `b` after it, at the whole numbers beside it."""
    for row in physics.find_crossings(s, axis, 2, 4096, "bytes").itertuples():
        before, after = (physics.regimes(s.replace(**{axis: whole_})).bytes for whole_ in (math.floor(row.x), math.ceil(row.x)))
        if math.floor(row.x) < row.x < math.ceil(row.x):
            assert at_least(before[row.a], before[row.b])
            assert at_least(after[row.b], after[row.a])


@given(scenarios(names=SMOOTH, routing="uniform"), st.sampled_from(("context_tokens", "batch", "kv_bytes_per_token")))
def test_crossings_of_a_frame_lie_near_the_exact_ones(s: physics.Scenario, axis: str) -> None:
    low, high = {"context_tokens": (1e3, 1e7), "batch": (1, 4096), "kv_bytes_per_token": (1e3, 4e6)}[axis]
    x = np.geomspace(low, high, 513)
    x[0], x[-1] = low, high
    rough = physics.crossings(physics.sweep(s, columns=("bytes",), **{axis: x}), "bytes")
    exact = physics.find_crossings(s, axis, low, high, "bytes", samples=513)
    assert len(rough) == len(exact)
    for near, true in zip(rough.itertuples(), exact.itertuples(), strict=True):
        assert (near.a, near.b) == (true.a, true.b)
        assert near.x == pytest.approx(true.x, rel=1e-3)

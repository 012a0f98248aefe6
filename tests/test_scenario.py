"""What a Scenario refuses, and how it says so; what does not fit, and how that is told."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import physics
from physics.scenario import KV_RANGE, RANGES

MODEL, MACHINE = physics.load_model("DeepSeek-V3"), physics.load_machine("H200")
CHOICES = ("attention_parallel", "weight_dtype", "kv_dtype", "compute_dtype", "attention_dtype", "energy_accounting", "routing")
FLAGS = ("overlap", "double_buffered")
OPTIONAL = ("prompt_tokens", "kv_bytes_per_token", "weight_dtype", "compute_dtype", "attention_dtype", "efficiencies")
FIELDS = tuple(physics.Scenario.__dataclass_fields__)


class Anything:
    """An object without meaning, whose name is the same in every process."""

    def __repr__(self) -> str:
        return "Anything()"


ODD: tuple[Any, ...] = (
    True,
    np.True_,
    "8",
    "",
    b"8",
    None,
    [8],
    (8,),
    {8: 8},
    np.array([8]),
    np.array([8, 9]),
    8 + 0j,
    math.nan,
    math.inf,
    -math.inf,
    pd.NA,
    Anything(),
    10**400,
    -(10**400),
    np.float32("nan"),
)


def make(**fields: Any) -> physics.Scenario:
    return physics.Scenario(**({"model": MODEL, "machine": MACHINE, "gpus_per_stage": 8} | fields))


def refusal(name: str, value: Any) -> str:
    with pytest.raises(ValueError) as caught:
        make(**{name: value})
    return str(caught.value)


def test_every_field_is_tested() -> None:
    numeric = {*RANGES, "kv_bytes_per_token", "memory_margin_frac"}
    assert numeric | {*CHOICES, *FLAGS, "model", "machine", "efficiencies"} == set(FIELDS)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("value", [*ODD, 0, -1, 1.5, -0.5, 1e300, 2**80, decimal.Decimal("1.5"), fractions.Fraction(3, 2)], ids=repr)
def test_whole_numbers(name: str, value: Any) -> None:
    if value is None and name in OPTIONAL:
        return
    message = refusal(name, value)
    assert message.startswith(f"{name}: ")
    assert repr(value)[:70] in message
    high = MODEL.n_layers if name == "pipeline_depth" else RANGES[name][1]
    assert "not a" in message
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e308:
        assert f"from {RANGES[name][0]:,} to {high:,}" in message


@pytest.mark.parametrize("name", RANGES)
def test_whole_numbers_are_allowed_to_their_ends_and_not_beyond(name: str) -> None:
    low, high = RANGES[name]
    high = min(high, MODEL.n_layers) if name == "pipeline_depth" else high
    for value in (low, high):
        assert getattr(make(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        refusal(name, value)


@pytest.mark.parametrize("value", [8, 8.0, np.int8(8), np.float32(8), decimal.Decimal(8), fractions.Fraction(16, 2)], ids=repr)
def test_every_kind_of_whole_number_is_the_same_number(value: Any) -> None:
    s = make(batch=value)
    assert s == make(batch=8)
    assert type(s.batch) is int


@pytest.mark.parametrize("value", [*ODD, 0, -70_272, 0.5, KV_RANGE[1] * 1.001], ids=repr)
def test_kv_bytes_per_token(value: Any) -> None:
    if value is None:
        return
    message = refusal("kv_bytes_per_token", value)
    assert message.startswith("kv_bytes_per_token: ")
    assert "number" in message or "outside 1 to 1e+09 B" in message


@pytest.mark.parametrize("value", [*ODD, -0.01, 1.0, 2], ids=repr)
def test_memory_margin_frac(value: Any) -> None:
    message = refusal("memory_margin_frac", value)
    assert message.startswith("memory_margin_frac: ")
    assert "number" in message or "outside 0 to 0.99" in message


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", [*ODD, 8, "fp7", "no such thing", "bf16 "[::-1] * 50], ids=lambda v: repr(v)[:30])
def test_choices(name: str, value: Any) -> None:
    if value is None and name in OPTIONAL:
        return
    message = refusal(name, value)
    assert message.startswith(f"{name}: ")
    assert "is not one of" in message or "neither" in message
    assert len(message) < 600


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [*(v for v in ODD if v is not True and v is not np.True_), 0, 1, 0.0, "True"], ids=repr)
def test_flags(name: str, value: Any) -> None:
    assert refusal(name, value).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["model", "machine", "efficiencies"])
@pytest.mark.parametrize("value", [v for v in ODD if v is not None], ids=repr)
def test_objects(name: str, value: Any) -> None:
    assert refusal(name, value).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["compute_frac", "memory_frac", "network_frac", "layer_floor_s"])
@pytest.mark.parametrize("value", [*ODD, -0.1, 1.01], ids=repr)
def test_efficiencies(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^efficiencies.{name}: "):
        physics.Efficiencies(**{name: value})


def test_efficiencies_of_zero_would_divide_by_zero() -> None:
    with pytest.raises(ValueError, match="compute_frac: 0"):
        physics.Efficiencies(compute_frac=0)


ANYTHING = st.one_of(
    st.sampled_from(ODD),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.binary(max_size=4),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=3),
    st.sampled_from(("bf16", "fp8", "fp4", "tensor", "data", "uniform", "round-robin", "fp8_ds_mla", "interface", 8, 64, 1000)),
    st.sampled_from((MODEL, MACHINE, physics.Efficiencies(), physics.Routing.uniform())),
)


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=5))
def test_any_values_make_a_sound_scenario_or_a_value_error(fields: dict[str, Any]) -> None:
    try:
        s = make(**fields)
    except ValueError:
        return
    for name, value in fields.items():  # nothing is clipped or rounded
        kept = getattr(s, name)
        if name in RANGES and value is not None:
            assert kept == value
        elif name in ("kv_bytes_per_token", "memory_margin_frac") and value is not None:
            assert kept == float(value)
    table = physics.regimes(s)
    assert np.isfinite(table.flops).all()
    assert np.isfinite(table.bytes).all()
    assert np.isfinite(table.roofline_s).all() == table.fits.all()


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.integers(), min_size=1, max_size=3))
def test_unknown_fields_are_refused(fields: dict[str, int]) -> None:
    if set(fields) <= set(FIELDS):
        return
    with pytest.raises((TypeError, ValueError)):
        make(**fields)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (dict(model=physics.load_model("Llama-3.1-8B"), kv_dtype="fp8_ds_mla"), "kv_dtype"),
        (dict(machine=MACHINE.replace(peaks={"fp8": 1e15})), "attention_dtype"),
        (dict(machine=MACHINE.replace(peaks={"bf16": 1e15}), compute_dtype="fp32"), "compute_dtype"),
        (dict(machine=MACHINE.replace(peaks={"bf16": 1e15}), attention_dtype="fp32"), "attention_dtype"),
        (dict(machine=MACHINE.replace(peaks={"bf16": 1e15}), weight_dtype="fp32"), "weight_dtype"),
        (dict(machine=MACHINE.replace(scale_up_bytes_per_s=math.nan)), "gpus_per_stage"),
        (dict(machine=MACHINE.replace(scale_out_bytes_per_s=math.nan), gpus_per_stage=9), "gpus_per_stage"),
        (
            dict(
                machine=MACHINE.replace(scale_up_bytes_per_s=math.nan, scale_out_bytes_per_s=math.nan), gpus_per_stage=1, pipeline_depth=2
            ),
            "pipeline_depth",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        make(**fields)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, "141", None, True], ids=repr)
def test_a_machine_is_checked_too(value: Any) -> None:
    for name in ("memory_bytes", "memory_bytes_per_s", "scale_up_bytes_per_s", "scale_out_bytes_per_s"):
        with pytest.raises(ValueError, match=f"^H200: {name}: "):
            MACHINE.replace(**{name: value})
    with pytest.raises(ValueError, match="bf16 peak"):
        MACHINE.replace(peaks={"bf16": value})
    assert math.isnan(MACHINE.replace(scale_out_bytes_per_s=math.nan).scale_out_bytes_per_s)
    with pytest.raises(ValueError, match="NaN where not known"):
        MACHINE.replace(scale_up_bytes_per_s=0.0)


def test_unknown_names_list_close_ones() -> None:
    with pytest.raises(KeyError, match="DeepSeek-V3"):
        physics.load_model("deepseek-v33")
    with pytest.raises(KeyError, match="H200"):
        physics.load_machine("H2000")
    for name in ("", "\x00", "x" * 10_000, "no such model at all"):
        with pytest.raises(KeyError):
            physics.load_model(name)
        with pytest.raises(KeyError):
            physics.load_machine(name)


# ------------------------------------------------------------------ what does not fit


def one_h200(**fields: Any) -> physics.Scenario:
    return physics.Scenario(MODEL, MACHINE, weight_dtype="fp8", batch=1, context_tokens=131_072, **fields)


def test_the_sentence_of_a_scenario_that_does_not_fit() -> None:
    # 671.03e9 parameters at 1 + 2**-12 bytes; 70,272 B x 131,072 tokens; 141 GB: (671.19 + 9.21) / 141 = 4.83.
    memory = physics.stage_memory(one_h200())
    assert memory.weights == pytest.approx(671.03e9 * (1 + 2**-12), rel=1e-4)
    assert memory.kv == 70_272 * 131_072
    assert memory.capacity == 141e9
    assert not memory.fits
    assert memory.min_gpus == 5


@pytest.mark.parametrize("efficiencies", [None, physics.Efficiencies(0.5, 0.8, 0.7, 1e-5)], ids=["bound", "estimate"])
def test_seconds_are_withheld_and_work_is_not(efficiencies: physics.Efficiencies | None) -> None:
    table, roomy = (physics.regimes(one_h200(gpus_per_stage=gpus, efficiencies=efficiencies)) for gpus in (1, 8))
    assert not table.fits.any()
    assert roomy.fits.all()
    seconds = [name for name in table if name.endswith("_s")]
    assert {"roofline_s", "compute_s", "memory_s", "network_s", "hop_s", "estimate_s", "estimate_low_s", "estimate_high_s"} == set(seconds)
    assert table[seconds].isna().all(axis=None)
    work = ["flops", "core_flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "intensity_flops_per_byte"]
    pd.testing.assert_frame_equal(table[work], roomy[work])
    assert table.loc["midfill", "bound"] in ("compute", "memory", "network")


@pytest.mark.parametrize("parallel", ["data", "tensor"])
@pytest.mark.parametrize("fields", [{}, {"memory_margin_frac": 0.1}, {"pipeline_depth": 3, "double_buffered": True}], ids=str)
def test_the_least_number_of_accelerators_is_the_least_that_fits(parallel: str, fields: dict[str, Any]) -> None:
    for batch in (1, 4):
        least = physics.stage_memory(one_h200(attention_parallel=parallel, **fields).replace(batch=batch)).min_gpus
        fits = [
            physics.stage_memory(one_h200(attention_parallel=parallel, gpus_per_stage=g, **fields).replace(batch=batch)).fits
            for g in (least - 1, least)
            if g
        ]
        assert fits[-1]
        assert not any(fits[:-1])


def test_latents_repeated_on_every_accelerator_may_never_fit() -> None:
    # Tensor parallelism repeats a latent on each: 32 x 9.2 GB = 295 GB of KV per accelerator of 141 GB.
    memory = physics.stage_memory(one_h200(attention_parallel="tensor").replace(batch=32))
    assert memory.min_gpus == RANGES["gpus_per_stage"][1] + 1


def test_stage_memory_reads_like_a_mapping() -> None:
    memory = physics.stage_memory(one_h200())
    assert dict(memory)["weights"] == memory["weights"] == memory.weights
    assert memory.total == memory.weights + memory.kv + memory.buffers + memory.margin
    with pytest.raises(KeyError, match="weights, kv"):
        memory["weight"]

"""Sweeps over models, machines, routings and formats as outer axes: equal to one scenario at a time, refused where not sound."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest

import physics
from physics.regimes import COLUMNS, regime_arrays

DEEPSEEK, H200 = physics.load_model("DeepSeek-V3"), physics.load_machine("H200")
ISLAND = H200.replace(name="island", scale_out_bytes_per_s=math.nan)
SCENARIO = physics.Scenario(DEEPSEEK, H200, batch=4, gpus_per_stage=16)
ROUTINGS = {"even": "uniform", "skewed": physics.Routing.skewed(sigma=0.9), "loyal": physics.Routing.skewed(sigma=0.9, overlap=0.3)}


def test_outer_axes_equal_one_scenario_at_a_time() -> None:
    models, machines = ["DeepSeek-V3", physics.load_model("gpt-oss-120b")], ["H200", "B200"]
    axes: dict[str, Any] = dict(
        context_tokens=[4_096, 131_072], model=models, kv_dtype=["bf16", "fp8"], machine=machines, routing=ROUTINGS, overlap=[True, False],
        kv_bytes_per_token=[30_000.0, 70_000.0], memory_margin_frac=[0.0, 0.5], new_tokens=[1, 700],
    )  # fmt: skip
    arrays = physics.sweep_arrays(SCENARIO, columns="all", **axes)
    outer = ("model", "kv_dtype", "machine", "routing", "overlap", "memory_margin_frac")
    inner = ("context_tokens", "kv_bytes_per_token", "new_tokens")
    assert tuple(arrays)[:9] == (*outer, *inner)
    assert arrays["flops"].shape == (2, 2, 2, 3, 2, 2, 2, 2, 2, 5)
    lists = {n: list(v.values()) if isinstance(v, dict) else v for n, v in axes.items()}
    lists["model"], lists["machine"] = [DEEPSEEK, models[1]], [physics.load_machine(name) for name in machines]
    for place in itertools.islice(itertools.product(*(range(len(lists[n])) for n in (*outer, *inner))), 0, None, 37):
        chosen = {n: lists[n][i] for n, i in zip((*outer, *inner), place, strict=True)}
        one = regime_arrays(SCENARIO.replace(**chosen))
        for name in (*COLUMNS, "bound_index", "fits"):
            np.testing.assert_allclose(arrays[name][place], one[name], rtol=1e-12, err_msg=f"{name} of {chosen}")


def test_a_frame_names_the_values_of_outer_axes() -> None:
    other = H200.replace(memory_bytes_per_s=9e12)
    frame = physics.sweep(
        SCENARIO,
        batch=[1, 64],
        machine=[H200, other, "MI355X"],
        weight_dtype=[None, "fp8"],
        overlap=[True, False],
        chunk_tokens=[512, 8192],
    )
    assert list(frame)[:6] == ["machine", "weight_dtype", "overlap", "chunk_tokens", "batch", "regime"]
    assert list(frame["machine"].cat.categories) == ["H200", "H200 (2)", "MI355X"]
    assert list(frame["weight_dtype"].cat.categories) == ["default", "fp8"]
    assert frame["overlap"].dtype == bool
    assert len(frame) == 3 * 2 * 2 * 2 * 2 * 5 == len(frame.drop_duplicates(list(frame)[:6]))
    row = frame.set_index(list(frame)[:6]).loc[("H200 (2)", "fp8", False, 512, 64.0, "midfill")]
    alone = physics.regimes(SCENARIO.replace(machine=other, weight_dtype="fp8", overlap=False, chunk_tokens=512, batch=64)).loc["midfill"]
    assert (row["roofline_s"], row["bound"]) == (pytest.approx(alone["roofline_s"], rel=1e-12), alone["bound"])


def test_outer_axes_alone_and_their_labels() -> None:
    arrays = physics.sweep_arrays(SCENARIO, routing=["uniform", "round_robin", *ROUTINGS.values()])
    assert list(arrays["routing"]) == ["uniform", "round_robin", "uniform (2)", "skewed, sigma 0.9", "skewed, sigma 0.9, overlap 0.3"]
    assert arrays["bytes"].shape == (5, 5)
    weight_bytes = 58 * 3 * 7168 * 2048 * (1 + 4 / 128**2)  # FP8 and the scales of its blocks; dealt in turn: 4 * 8 experts of each layer
    assert arrays["weight_bytes"][1, 3] == pytest.approx(32 * weight_bytes)
    assert list(physics.sweep_arrays(SCENARIO, routing=ROUTINGS)["routing"]) == list(ROUTINGS)
    efficiencies = [None, physics.Efficiencies(memory_frac=0.5, basis="half")]
    estimates = physics.sweep_arrays(SCENARIO, columns="estimate_s", efficiencies=efficiencies)
    assert list(estimates["efficiencies"]) == ["default", "half"]
    assert np.isnan(estimates["estimate_s"][0]).all()
    assert np.isfinite(estimates["estimate_s"][1]).all()


@pytest.mark.parametrize(
    ("axes", "sentence"),
    [
        ({"model": "DeepSeek-V3"}, "model: an outer axis is a list of values"),
        ({"machine": []}, "machine: an outer axis is a non-empty list"),
        ({"machine": ["H20000"]}, "machine: .*H20000"),
        ({"model": [3]}, "model 3: "),
        ({"routing": ["even"]}, "routing: 'even' is neither a name"),
        ({"modell": ["DeepSeek-V3"]}, "'modell' is not one of context_tokens.*model, machine"),
        ({"kv_dtype": ["bf16", "fp3"]}, r"kv_dtype fp3: kv_dtype: 'fp3' is not one of .* \(1 of 2 combinations are not sound"),
        ({"model": ["DeepSeek-V3", "gpt-oss-120b"], "pipeline_depth": [1, 61]}, r"model gpt-oss-120b: pipeline_depth: .*outside 1 to 36"),
        (
            {"overlap": [True, False], "machine": ["H200", ISLAND]},
            r"overlap True, machine island: gpus_per_stage: 16 .* \(2 of 4 combinations",
        ),
    ],
)
def test_a_combination_that_is_not_sound_is_named(axes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        physics.sweep_arrays(SCENARIO, **axes)


def test_progress_and_cancel_run_across_all_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["physics.sweep"], "CHUNK", 10)
    told: list[tuple[int, int]] = []
    axes: dict[str, Any] = dict(batch=np.arange(1, 16), kv_dtype=["bf16", "fp8"], overlap=[True, False])
    physics.sweep_arrays(SCENARIO, progress=lambda done, count: told.append((done, count)), **axes)
    assert [done for done, _ in told] == [10, 15, 25, 30, 40, 45, 55, 60]
    assert {count for _, count in told} == {60}
    with pytest.raises(physics.SweepCancelledError, match="25 of 60"):
        physics.sweep_arrays(SCENARIO, progress=lambda done, _: done < 25, **axes)


def test_crossings_refuse_a_frame_of_several_models() -> None:
    frame = physics.sweep(SCENARIO, kv_dtype=["bf16", "fp8"], batch=[1, 64, 4096])
    with pytest.raises(ValueError, match="several rows for one batch and regime"):
        physics.crossings(frame)
    chosen = physics.crossings(frame[frame["kv_dtype"] == "fp8"])
    assert len(chosen) == len(physics.crossings(physics.sweep(SCENARIO.replace(kv_dtype="fp8"), batch=[1, 64, 4096])))

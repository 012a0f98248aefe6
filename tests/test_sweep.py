"""Sweeps as arrays and as frames, in chunks and cancelled; and numbers at the far ends of every range."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

import physics
from physics.catalog import models
from physics.layers import READ_CHUNK
from physics.regimes import BOUNDS, COLUMNS, REGIMES, regime_arrays

MODELS = {name: physics.load_model(name) for name in models()}
H200 = physics.load_machine("H200").replace(memory_bytes=1e25)
WORK = ("flops", "core_flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "network_bytes")


def test_axes_share_their_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks begin anywhere in the grid, also in the middle of an axis, and run on several threads."""
    s = physics.Scenario(MODELS["GLM-5.2"], H200, batch=3)
    axes = dict(batch=[1, 7, 64, 100], context_tokens=[5, 4000, 70_000], new_tokens=[1, 33, 2000, 5000, 9000])
    whole_run = physics.sweep_arrays(s, columns="all", **axes)
    for chunk in (1, 7, 59):
        monkeypatch.setattr(sys.modules["physics.sweep"], "CHUNK", chunk)
        pieces = physics.sweep_arrays(s, columns="all", **axes)
        assert all(np.array_equal(pieces[name], whole_run[name], equal_nan=True) for name in whole_run)


def test_a_frame_holds_what_the_arrays_hold() -> None:
    s = physics.Scenario(MODELS["DeepSeek-V3"], physics.load_machine("H200"), gpus_per_stage=16)
    axes = dict(batch=[1, 4096], context_tokens=[1000, 131_072, 1_000_000])
    frame, arrays = physics.sweep(s, columns="all", **axes), physics.sweep_arrays(s, columns="all", **axes)
    assert len(frame) == 30
    indexed = frame.set_index(["batch", "context_tokens", "regime"])
    for i, batch in enumerate(axes["batch"]):
        for j, context in enumerate(axes["context_tokens"]):
            for r, regime in enumerate(REGIMES):
                row = indexed.loc[(batch, context, regime)]
                assert all(np.array_equal(row[name], arrays[name][i, j, r], equal_nan=True) for name in COLUMNS)
                assert row["bound"] == BOUNDS[arrays["bound_index"][i, j, r]]
    default = physics.sweep(s, **axes)
    contract = {"flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "intensity_flops_per_byte", "roofline_s", "energy_j"}
    assert contract | {"batch", "context_tokens", "regime", "bound", "fits"} == set(default)
    assert set(physics.sweep(s, columns="core_flops", **axes)) == {"batch", "context_tokens", "regime", "core_flops", "bound", "fits"}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"contexts": [1]}, "contexts"),
        ({"batch": []}, "non-empty"),
        ({"batch": [[1, 2]]}, "non-empty"),
        ({"batch": [0.5]}, "batch: .*outside 1 to 1,000,000"),
        ({"batch": [1, math.nan]}, "batch: .*nan"),
        ({"pipeline_depth": [62]}, "pipeline_depth: .*outside 1 to 61"),
        ({"batch": ["many"]}, "batch: .*number.*many"),
        ({"batch": [1], "columns": ["flop"]}, "columns: 'flop'"),
    ],
)
def test_a_sweep_refuses_bad_axes(axes: dict[str, Any], message: str) -> None:
    s = physics.Scenario(MODELS["DeepSeek-V3"], physics.load_machine("H200"))
    with pytest.raises(ValueError, match=message):
        physics.sweep_arrays(s, **axes)


def test_progress_is_told_and_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["physics.sweep"], "CHUNK", 10)
    s, told = physics.Scenario(MODELS["DeepSeek-V3"], physics.load_machine("H200")), []
    physics.sweep_arrays(s, progress=lambda done, count: told.append((done, count)), batch=np.arange(1, 36))
    assert told == [(10, 35), (20, 35), (30, 35), (35, 35)]
    with pytest.raises(physics.SweepCancelledError, match="20 of 35"):
        physics.sweep_arrays(s, progress=lambda done, _: done < 20, batch=np.arange(1, 36))


@pytest.mark.parametrize("name", MODELS)
def test_the_largest_inputs_stay_exact(name: str) -> None:
    """At 1e8 tokens of context one more token adds what it should, not a rounding error: compare with integer arithmetic."""
    s = physics.Scenario(MODELS[name], H200, context_tokens=100_000_000, new_tokens=1, batch=1, prompt_tokens=1)
    t = regime_arrays(s)
    exact = 0
    for count, scan in s.model.scans("bf16"):
        if scan.limit == math.inf and scan.read != READ_CHUNK:
            seen = (s.context_tokens + 1) // int(scan.stride)
        elif scan.read == READ_CHUNK:
            seen = s.context_tokens % int(scan.limit) + 1
        else:
            seen = min((s.context_tokens + 1) // int(scan.stride), int(scan.limit))
        exact += count * int(scan.flops_per_pair) * seen
    exact += int(sum(g.count * g.attention.token_flops() for g in s.model.groups if g.attention is not None))
    assert t["core_flops"][1] == pytest.approx(exact, rel=1e-12)
    assert np.isfinite([t[name] for name in WORK]).all()


@pytest.mark.filterwarnings("error")
def test_extreme_scenarios_raise_no_warning_and_leave_no_infinity() -> None:
    for name, model in MODELS.items():
        for fields in (
            dict(context_tokens=100_000_000, new_tokens=10_000_000, batch=1_000_000, prompt_tokens=100_000_000),
            dict(context_tokens=1, new_tokens=1, batch=1, prompt_tokens=1),
            dict(context_tokens=1, new_tokens=10_000_000, batch=1, prompt_tokens=100_000_000, gpus_per_stage=100_000),
        ):
            table = physics.regimes(physics.Scenario(model, H200, **fields))
            assert np.isfinite(table[list(WORK)].to_numpy()).all(), name
            assert (table[list(WORK)].to_numpy() >= 0).all(), name

"""Choices, their address, and what an explorer does with a sound and with an unsound change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import physics
from app.state import AXES, PAGES, QUANTITIES, Choices, Explorer, Snapshot, axis_values, from_query
from physics.catalog import presets
from physics.regimes import REGIMES


@pytest.mark.parametrize("key", presets())
def test_every_preset_is_sound_and_comes_back_from_its_address(key: str) -> None:
    choices = Choices.of_preset(key)
    assert choices.scenario().batch == presets()[key]["batch"]
    assert from_query(choices.query()) == (choices, [])


@given(
    batch=st.integers(1, 4096),
    context=st.integers(1000, 10_000_000),
    kv=st.none() | st.floats(1e3, 4e6),
    margin=st.floats(0, 0.5),
    overlap=st.booleans(),
    axis=st.sampled_from(sorted(AXES)),
    quantity=st.sampled_from(sorted(QUANTITIES)),
    page=st.sampled_from(PAGES),
)
def test_the_address_holds_the_whole_state(
    batch: int, context: int, kv: float | None, margin: float, overlap: bool, axis: str, quantity: str, page: str
) -> None:
    choices = replace(
        Choices(), batch=batch, context_tokens=context, kv_bytes_per_token=kv, memory_margin_frac=margin, overlap=overlap,
        axis=axis, quantity=quantity, page=page,
    )  # fmt: skip
    again, notices = from_query(choices.query())
    assert notices == []
    for name, value in vars(choices).items():
        assert getattr(again, name) == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


@given(
    st.text(max_size=300)
    | st.sampled_from(["?batch=1e999", "?batch=nan", "?model=%3Cscript%3E", "?preset=..%2F..", "?overlap=1", "?page=x"])
)
def test_no_address_breaks_the_session(query: str) -> None:
    choices, notices = from_query(query)
    choices.scenario()
    assert all(isinstance(notice, str) and len(notice) < 2000 for notice in notices)


def test_fields_fall_back_one_by_one() -> None:
    choices, notices = from_query("?preset=short-chat&batch=abc&context_tokens=8192&model=NoSuch&kv_dtype=fp7")
    assert (choices.preset, choices.context_tokens, choices.batch) == ("short-chat", 8192, presets()["short-chat"]["batch"])
    assert len(notices) == 3
    assert "batch" in notices[0]
    assert "NoSuch" in notices[1]
    assert "fp7" in notices[2]


def test_an_unsound_change_leaves_the_state_and_says_why() -> None:
    explorer = Explorer()
    before = explorer.snapshot
    assert not explorer.change(batch=0)
    assert explorer.snapshot is before
    assert explorer.problem == "batch: 0 is not a whole number from 1 to 1,000,000"
    assert not explorer.change(model="DeepSeek-V33")
    assert "DeepSeek-V3" in explorer.problem
    assert explorer.change(batch=65)
    assert explorer.problem == ""


def test_a_trail_is_of_one_slider() -> None:
    explorer = Explorer()
    for batch in range(65, 70):
        explorer.change(batch=batch)
    assert len(explorer.snapshot.trail) == 5
    explorer.change(context_tokens=200_000)
    assert len(explorer.snapshot.trail) == 1
    explorer.change(quantity="flops")
    assert len(explorer.snapshot.trail) == 1
    explorer.change(kv_dtype="fp8")
    assert explorer.snapshot.trail == ()


def test_a_pin_stays_through_changes_and_presets() -> None:
    explorer = Explorer()
    explorer.pin(True)
    explorer.change(batch=8)
    assert explorer.snapshot.pinned is not None
    assert explorer.snapshot.pinned.scenario.batch == 64
    explorer.load(Choices.of_preset("short-chat"))
    assert explorer.snapshot.pinned.scenario.batch == 64
    explorer.pin(False)
    assert explorer.snapshot.pinned is None


def test_sessions_share_nothing() -> None:
    one, two = Explorer(), Explorer()
    one.models["mine"] = replace(physics.load_model("DeepSeek-V3"), name="mine")
    assert one.change(model="mine")
    assert not two.change(model="mine")


@pytest.mark.parametrize("axis", AXES)
def test_curves_are_the_sweep(axis: str) -> None:
    snapshot = Snapshot(replace(Choices(), axis=axis), Choices().scenario())
    x = axis_values(axis, snapshot.scenario)
    middle = len(x) // 2
    point = physics.sweep(snapshot.scenario, **{axis: [x[middle]]})
    np.testing.assert_allclose(snapshot.curves["bytes"][middle], point["bytes"].to_numpy(), rtol=1e-12)


@pytest.mark.parametrize("key", presets())
def test_drawn_crossings_are_the_exact_ones(key: str) -> None:
    choices = Choices.of_preset(key)
    snapshot = Snapshot(choices, choices.scenario())
    low, high, _ = AXES["context_tokens"]
    exact = physics.find_crossings(snapshot.scenario, "context_tokens", low, high, "bytes", REGIMES, samples=129)
    drawn = sorted((row["a"], row["b"], row["x"]) for row in snapshot.crossings)
    wanted = sorted((row.a, row.b, row.x) for row in exact.itertuples())
    assert [pair[:2] for pair in drawn] == [pair[:2] for pair in wanted]
    np.testing.assert_allclose([pair[2] for pair in drawn], [pair[2] for pair in wanted], rtol=2e-3)

"""The strip of tiles: every preset, with bounds and with estimates, and what a price by hand gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import estimates, headline
from app.state import Choices, Snapshot
from physics.catalog import presets

SECONDS_PER_HOUR = 3600.0


def shown(key: str, **changes: object) -> tuple[Snapshot, dict[str, dict[str, str]]]:
    choices = replace(Choices.of_preset(key), **changes)  # type: ignore[arg-type]  # fields by name
    s = Snapshot(choices, choices.scenario())
    return s, {tile["key"]: dict(tile) for tile in headline.tiles(s)}


@pytest.mark.parametrize("key", presets())
@pytest.mark.parametrize("changes", [{}, {"estimate": True}, {"batch": 1}, {"gpus_per_stage": 1, "batch": 4096, "estimate": True}])
def test_every_preset_has_its_six_tiles(key: str, changes: dict[str, object]) -> None:
    _, tiles = shown(key, **changes)
    assert len(tiles) == 6
    assert all(tile["number"] for tile in tiles.values())


@pytest.mark.parametrize("key", ["deepseek-v3-h200", "short-chat", "dense-llama"])
def test_rent_follows_the_estimate(key: str) -> None:
    """Price of the stage's GPUs for as long as a step takes, over the tokens of the step."""
    s, tiles = shown(key, estimate=True)
    per_s = s.scenario.machine.price_per_hour_usd * s.scenario.gpus_per_stage / SECONDS_PER_HOUR
    ends = [sum(float(s.results[name][i]) for i in (2, 3, 4)) for name in ("estimate_low_s", "estimate_high_s")]
    low, high = (float(part) for part in tiles["usd_per_mtok"]["number"].removeprefix("$").split("–"))
    assert [low, high] == pytest.approx([1e6 * per_s * step_s / s.scenario.batch for step_s in ends], rel=0.06)  # two digits
    assert tiles["usd_per_mtok"]["kind"] == "estimate"


@pytest.mark.parametrize("key", presets())
def test_an_interval_is_written_to_two_digits(key: str) -> None:
    """Both ends are the core's own, rounded apart: scaled by the other's rounding, a lower end fell below its bound."""
    s, _ = shown(key, estimate=True)
    for i in range(5):
        interval = estimates.of_regime(s, i)
        assert interval is not None
        if not interval.high > 0:
            continue
        text, unit = interval.text("s")
        scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
        low, high = (float(part.replace(",", "")) * scale for part in text.split("–"))
        assert low == pytest.approx(float(f"{interval.low:.1e}"), rel=1e-9) or low == pytest.approx(interval.low, rel=0.005)
        assert high == pytest.approx(float(f"{interval.high:.1e}"), rel=1e-9)


def test_ttft_says_whose() -> None:
    assert shown("deepseek-v3-h200")[1]["ttft_s"]["note"] == "64 × 1k tokens on 131k tokens"
    assert shown("deepseek-v3-h200", batch=1)[1]["ttft_s"]["note"] == "1k tokens on 131k tokens"
    assert shown("deepseek-v3-h200", estimate=True)[1]["ttft_s"]["note"] == "bound 3.35 s, 64 requests together"

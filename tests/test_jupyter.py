"""The app's sliders and pictures as the value of a notebook's cell."""

from __future__ import annotations

from typing import Any

import holoviews as hv
import numpy as np
import pytest

from app import sentences
from app.jupyter import ASKED, MIME, show
from app.plots import pipeline, roofline
from app.state import Choices, Explorer

hv.extension("bokeh")


@pytest.fixture
def explorer() -> Explorer:
    return Explorer(Choices.of_preset("deepseek-v3-h200"))


def location(shown: Any) -> float:
    return float(shown.views[1]._marks["depth"][0].model.location)


def test_a_slider_moves_the_choices_the_pictures_and_the_sentence(explorer: Explorer) -> None:
    shown = show(
        explorer, roofline.PICTURE, pipeline.MEMORY, sliders=("batch", "pipeline_depth", "kv_bytes_per_token"), sentence=sentences.stage
    )
    for view in shown.views:
        view.figure()
    before = shown.notice.text
    shown.sliders["pipeline_depth"].commit(8)
    shown.sliders["batch"].commit(16)
    assert (explorer.choices.pipeline_depth, explorer.choices.batch) == (8, 16)
    assert location(shown) == 8.0
    assert shown.notice.text == sentences.stage(explorer.snapshot) != before
    points = shown.views[0].sources("points")[0].data["x"]
    assert np.allclose(points, explorer.snapshot.results["intensity_flops_per_byte"])


def test_two_cells_of_one_explorer_follow_each_other(explorer: Explorer) -> None:
    first, second = (show(explorer, pipeline.MEMORY, sliders=("context_tokens",)) for _ in range(2))
    first.sliders["context_tokens"].commit(8192)
    assert second.sliders["context_tokens"].value == 8192


def test_a_refused_change_is_a_sentence(explorer: Explorer) -> None:
    explorer.change(model="Kimi-K2")
    shown = show(explorer, pipeline.MEMORY, sliders=("pipeline_depth",))
    assert max(shown.sliders["pipeline_depth"].stops) <= explorer.snapshot.scenario.model.n_layers
    explorer.change(model="Mixtral-8x7B")
    shown.sliders["pipeline_depth"].commit(48)
    assert "pipeline_depth" in shown.notice.text
    assert shown.notice.tone == "bad"


def test_a_snapshot_stands_still(explorer: Explorer) -> None:
    shown = show(explorer.snapshot, pipeline.MEMORY)
    explorer.change(batch=1)
    assert shown.explorer.snapshot.choices.batch == 64


def test_static_pages_ask_for_documents(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASKED, "json")
    bundle = show(explorer, pipeline.MEMORY, sentence=sentences.stage)._repr_mimebundle_()
    assert bundle[MIME]["sentence"] == sentences.stage(explorer.snapshot)
    assert len(bundle[MIME]["items"]) == 1

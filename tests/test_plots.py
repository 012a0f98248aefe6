"""Pictures through their data: what a figure holds is what the core gave, at every preset, and labels do not cover points."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import holoviews as hv
import numpy as np
import pytest

from app.live import LiveView, drawn
from app.picture import Picture
from app.plots import crossover, pipeline, roofline, utilisation
from app.plots.labels import CHAR_PX, PLOT_PX, kept_inside, spread
from app.sentences import crossover as crossover_sentence
from app.sentences import fit, latency, stage, table, throughput
from app.sentences import roofline as roofline_sentence
from app.sentences import utilisation as utilisation_sentence
from app.state import AXES, QUANTITIES, Choices, Snapshot
from physics.catalog import presets

hv.extension("bokeh")
PICTURES: dict[str, Picture[Snapshot]] = {
    "roofline": roofline.PICTURE,
    "utilisation": utilisation.PICTURE,
    "crossover": crossover.PICTURE,
    "stage memory": pipeline.MEMORY,
    "latency": pipeline.LATENCY,
    "throughput": pipeline.THROUGHPUT,
}
SENTENCES = (fit, roofline_sentence, utilisation_sentence, crossover_sentence, table, stage, latency, throughput)


def snapshot(key: str, **changes: Any) -> Snapshot:
    choices = replace(Choices.of_preset(key), **changes)
    return Snapshot(choices, choices.scenario())


def shapes(picture: Picture[Snapshot], s: Snapshot) -> dict[str, dict[str, int]]:
    return {label: {name: np.size(values) for name, values in columns.items()} for label, columns in picture.columns(s).items()}


@pytest.mark.parametrize("name", PICTURES)
def test_one_drawing_serves_every_preset(name: str) -> None:
    picture = PICTURES[name]
    first = snapshot("deepseek-v3-h200")
    view = LiveView(picture, first)
    view.figure()
    wanted = shapes(picture, first)
    for key in presets():
        for changes in ({}, {"gpus_per_stage": 1}):
            s = snapshot(key, **changes)
            assert shapes(picture, s) == wanted
            view.push(s)


@pytest.mark.parametrize("name", PICTURES)
def test_a_figure_holds_the_columns(name: str) -> None:
    s = snapshot("deepseek-v3-h200")
    figure = drawn(PICTURES[name], s)
    for label, columns in PICTURES[name].columns(s).items():
        if label not in figure.sources:
            continue
        for column, values in columns.items():
            got = figure.sources[label].data[column]
            if np.asarray(values).dtype.kind in "US":
                assert list(got) == list(values)
            else:
                np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(values, np.float32))


@pytest.mark.parametrize("key", presets())
def test_names_do_not_cover_points(key: str) -> None:
    s = snapshot(key)
    box = np.log(roofline.limits(s))
    columns = roofline.PICTURE.columns(s)
    scale = np.array([PLOT_PX[0] / (box[1] - box[0]), PLOT_PX[1] / (box[3] - box[2])])
    points, names = (np.log([columns[label][axis] for axis in "xy"]).T * scale for label in ("points", "names"))
    widths = np.array([CHAR_PX * len(text) for text in columns["names"]["text"]])
    for centre, width in zip(names, widths, strict=True):
        if np.isfinite(centre).all():
            inside = (np.abs(points[:, 0] - centre[0]) < width / 2 + 3) & (np.abs(points[:, 1] - centre[1]) < 10)
            assert not inside.any()


def test_line_names_stand_apart_and_near_their_ends() -> None:
    heights = spread([1.0, 1.001, 1.002, 50.0], (0.1, 100.0))
    px = np.log(heights / 0.1) / np.log(1000.0) * PLOT_PX[1]
    assert (np.diff(px) > 14.5).all()
    assert abs(heights[3] / 50.0 - 1) < 1e-9
    assert np.isnan(spread([np.nan, 1.0], (0.1, 100.0))[0])


def test_texts_stay_inside() -> None:
    centres = kept_inside([1.0, 1e6], ["127k tokens", "10M tokens"], (1.0, 1e6, 1.0, 10.0))
    px = np.log(centres) / np.log(1e6) * PLOT_PX[0]
    half = np.array([CHAR_PX * len("127k tokens"), CHAR_PX * len("10M tokens")]) / 2
    assert (px - half > 0).all()
    assert (px + half < PLOT_PX[0]).all()


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("key", presets())
def test_sentences_are_sentences_everywhere(key: str, sentence: Any) -> None:
    for changes in ({}, {"gpus_per_stage": 1}, {"batch": 1, "new_tokens": 1}, {"pipeline_depth": 2}, {"context_tokens": 1000}):
        for quantity in QUANTITIES if sentence is crossover_sentence else ["bytes"]:
            for axis in AXES if sentence is crossover_sentence else ["batch"]:
                text = sentence(snapshot(key, quantity=quantity, axis=axis, **changes))
                assert text.endswith(".")
                assert text.lstrip("*")[0].isupper() or text.lstrip("*")[0].isdigit()
                assert "nan" not in text
                assert "–" not in text.replace("400–500", "")
                assert re.search(r"(?<![\d.,])1 (stages|requests|tokens|GPUs|groups)", text.replace("**", "")) is None
                assert text.count("**") % 2 == 0
                assert "  " not in text


def test_the_opening_sentences() -> None:
    s = snapshot("deepseek-v3-h200")
    assert crossover_sentence(s) == (
        "At **131,072 tokens** and **64 requests**, decode attention takes **50 %** of the bytes of a decode step; "
        "attention overtakes the experts at **127k tokens** in bytes, at **108k tokens** in time."
    )
    assert "**242** FLOP/B whatever the batch, above its ridge of **206**" in roofline_sentence(s)
    one = snapshot("deepseek-v3-h200", gpus_per_stage=1, batch=1)
    assert fit(one) == "Does not fit: weights **671 GB** + KV **9.21 GB** per stage of **141 GB**: needs at least **5 GPUs** per stage."

"""The app as a person uses it: sliders moved, numbers on the page equal to the core, no console error, state in the address."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import physics
from app import sentences
from app.plots.roofline import rates
from app.quantities import format_quantity
from app.regimes_table import COLUMNS, unit
from app.state import Snapshot
from physics.regimes import REGIMES

from .settled import Opened


def expected_table(s: physics.Scenario) -> list[str]:
    table = physics.regimes(s)
    cells = []
    for name in REGIMES:
        for key in COLUMNS:
            value = table.loc[name, key]
            cells.append(format_quantity(float(value), unit(key)) if key != "bound" else str(value))
    return cells


def shows(opened: Opened, s: Snapshot) -> None:
    """Table, roofline points and sentence are those of the core."""
    expected, got = expected_table(s.scenario), opened.page.get_by_role("table").get_by_role("cell").all_inner_texts()
    assert len(got) == len(expected)
    for text, want in zip(got, expected, strict=True):
        assert text.startswith(want) if want in ("compute", "memory", "network") else text == want
    results = s.results
    wanted = np.stack([results["intensity_flops_per_byte"], rates(results, s.scenario.gpus_per_stage)], axis=-1)
    points = opened.source("points")
    np.testing.assert_allclose(np.stack([points["x"], points["y"]], axis=-1), wanted, rtol=1e-5)
    opened.says(sentences.roofline(s))
    assert format_quantity(float(results["intensity_flops_per_byte"][2]), "") in sentences.roofline(s)


SLIDERS = {
    "Context length": ("ArrowLeft", {"context_tokens": 114_688}),
    "Batch size": ("ArrowLeft", {"batch": 32}),
    "KV bytes per token": ("ArrowRight", {"kv_bytes_per_token": 80_000.0}),
    "Pipeline depth": ("ArrowRight", {"pipeline_depth": 3}),
    "New tokens": ("ArrowRight", {"new_tokens": 1200}),
    "GPUs per stage": ("ArrowRight", {"gpus_per_stage": 32}),
}
"""Two stops each, by hand, in a direction that keeps it fitting."""


def test_every_slider_moves_everything(opened: Opened) -> None:
    opened.open()
    state = vars(opened.agreed(shows).choices)
    for name, (key, moved) in SLIDERS.items():
        opened.press(name, key, 2)
        state = state | moved
        opened.agreed(shows, **state)


def shows_a_smaller_batch(opened: Opened, s: Snapshot) -> None:
    assert s.choices.batch < 64
    shows(opened, s)


def test_a_drag_follows_the_hand_and_moves_nothing_else(opened: Opened) -> None:
    opened.open()
    box = opened.slider("Batch size").bounding_box()
    assert box is not None
    mouse, y = opened.page.mouse, box["y"] + box["height"] / 2
    before = opened.address()
    mouse.move(box["x"] + box["width"] * 0.5, y)
    mouse.down()
    for step in range(30):
        mouse.move(box["x"] + box["width"] * (0.5 - step / 100), y)
    assert opened.address() == before  # the address waits for the release
    mouse.up()
    s = opened.agreed(shows_a_smaller_batch)
    intensity = physics.regimes(s.scenario).intensity_flops_per_byte["decode_attention"]
    assert intensity == pytest.approx(242, abs=0.5)  # decode attention does not move with the batch


def test_typed_values_and_a_sentence_for_nonsense(opened: Opened) -> None:
    opened.open()
    field = opened.page.get_by_role("textbox", name=re.compile("^Context length"))
    field.fill("200k")
    field.press("Enter")
    opened.agreed(shows, context_tokens=200_000)
    field.fill("plenty")
    field.press("Enter")
    opened.awaits("is not a number")
    opened.agreed(shows, context_tokens=200_000)


CURSOR = """() => {
  for (const model of Bokeh.documents[0]._all_models.values()) {
    if (model.type != "Figure") continue
    const line = [...model.center, ...model.renderers].find((part) => part.type == "Span" && part.editable)
    if (line == null) continue
    const view = Bokeh.index.find_one(model), at = view.el.getBoundingClientRect(), {top, bottom} = view.frame.bbox
    return [at.x + view.frame.x_scale.compute(line.location), at.y + (top + bottom) / 2]
  }
}"""


def shows_a_shorter_context(opened: Opened, s: Snapshot) -> None:
    assert s.choices.context_tokens < 131_072
    shows(opened, s)


def drags_the_cursor(opened: Opened) -> None:
    """From where the line stands now: a page that is still being laid out moves it away from under the hand."""
    x, y = opened.page.evaluate(CURSOR)
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(x - 60, y, steps=6)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(1000)
    assert opened.choices().context_tokens < 131_072


def test_a_cursor_in_a_picture_is_a_slider_too(opened: Opened) -> None:
    opened.open(height=1800)
    opened.until(lambda: drags_the_cursor(opened))
    opened.agreed(shows_a_shorter_context)


def test_back_and_forward_lead_the_page(opened: Opened) -> None:
    opened.open()
    for batch in (48, 32):
        opened.press("Batch size", "ArrowLeft")
        opened.agreed(shows, batch=batch)
    opened.page.go_back()
    opened.agreed(shows, batch=48)
    opened.page.go_forward()
    opened.agreed(shows, batch=32)


def test_reload_restores_the_state(opened: Opened) -> None:
    opened.open("preset=short-chat&batch=48&kv_dtype=fp8")
    opened.agreed(shows, context_tokens=4096, batch=48, kv_dtype="fp8")
    opened.press("Context length", "ArrowLeft")
    state = opened.agreed(shows, context_tokens=3840).choices
    address = opened.address()
    opened.page.reload()
    opened.built("regimes")
    assert opened.agreed(shows, batch=48).choices == state
    assert opened.address() == address


def test_a_link_edited_by_hand_keeps_what_is_sound(opened: Opened) -> None:
    opened.open("batch=-3&context_tokens=65536&foo=%3Cscript%3E")
    opened.awaits("batch: -3 is not a whole number")
    opened.awaits(re.compile("'<script>'|'foo' is not a field"))
    expect(opened.slider("Context length")).to_have_attribute("aria-valuetext", "65,536 tokens")


def test_a_cell_explains_itself(opened: Opened) -> None:
    opened.open()
    opened.page.get_by_role("button", name=re.compile("^14[23] TFLOP")).first.click()
    opened.awaits("Decode attention: ")
    opened.awaits("64·61·(1·131 072 + 1·(1 + 1)/2)·278 528")


def withholds_speeds(opened: Opened, _s: Snapshot) -> None:
    texts = opened.page.get_by_role("table").get_by_role("cell").all_inner_texts()
    place = COLUMNS.index("roofline_s")
    assert texts[place :: len(COLUMNS)] == ["–"] * 5
    opened.says("Does not fit: weights 671 GB + KV 9.21 GB per stage of 141 GB: needs at least 5 GPUs per stage.")


def test_what_does_not_fit_is_said_and_has_no_speed(opened: Opened) -> None:
    opened.open("gpus_per_stage=1&batch=1")
    opened.agreed(withholds_speeds, gpus_per_stage=1)


def shows_stage(opened: Opened, s: Snapshot) -> None:
    opened.says(sentences.stage(s))


def test_pin_and_preset_and_pages(opened: Opened) -> None:
    opened.open()
    pin = opened.page.get_by_role("button", name="Pin", exact=True)
    pin.click()
    expect(pin).to_have_attribute("aria-pressed", "true")
    opened.press("Batch size", "ArrowLeft", 3)
    opened.agreed(shows, batch=24)
    opened.awaits("pinned 16.6 ms")
    opened.turn("pipeline")
    opened.press("Pipeline depth", "ArrowRight", 3)
    opened.agreed(shows_stage, page="pipeline", batch=24, pipeline_depth=4)


def test_dark_and_narrow_have_no_sideways_scrolling(opened: Opened) -> None:
    opened.open(width=768)
    opened.fits_width()
    opened.darken()
    opened.fits_width()


@pytest.mark.skipif("MIDFILL_PICTURE" not in os.environ, reason="set MIDFILL_PICTURE to make the README's picture anew")
def test_picture_of_the_readme(opened: Opened) -> None:
    opened.open(height=1240)
    opened.page.wait_for_timeout(1500)
    opened.page.screenshot(path=str(Path(__file__).parents[2] / "app" / "static" / "regimes.png"))

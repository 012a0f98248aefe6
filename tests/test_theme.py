"""Colours can be read in both themes and keep their meaning; ticks say the same in the browser as sentences do in Python."""

import json
import shutil
import subprocess

import holoviews as hv
import pytest
from bokeh.models import Scatter, Text

from app.picture import Picture
from app.quantities import format_quantity
from app.stencil import stencil
from app.theme import (
    DARK,
    HUES,
    LIGHT,
    MEANINGS,
    contrast,
    fixed_tick_formatter,
    ink,
    legible,
    line,
    log_limits,
    recolor,
    shared_options,
    tick_formatter,
)

hv.extension("bokeh")
THEMES = (LIGHT, DARK)


def test_contrast_of_black_on_white_is_twenty_one():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_lines_and_texts_can_be_read(theme):
    for meaning in MEANINGS:
        assert contrast(theme.line(meaning), theme.surface) >= 3
        assert contrast(theme.ink(meaning), theme.surface) >= 4.5
    for text in (theme.text, theme.muted, theme.warn, theme.accent):
        assert contrast(text, theme.surface) >= 4.5
        assert contrast(text, theme.page) >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_meaning_has_its_own_colour(theme):
    assert len({theme.line(meaning) for meaning in HUES}) == len(HUES)
    assert len({theme.ink(meaning) for meaning in HUES}) == len(HUES)


def test_a_legible_colour_is_left_alone():
    assert legible("#0072B2", "#FFFFFF", 4.5) == "#0072B2"


def test_recolouring_there_and_back_changes_nothing():
    overlay = hv.Overlay([hv.Curve([1, 2], label=m).opts(color=line(m)) * hv.Labels((0, 1, "x")).opts(text_color=ink(m)) for m in HUES])
    figure = hv.render(overlay.collate().opts(shared_options()))

    glyphs = [renderer.glyph for renderer in figure.renderers if hasattr(renderer, "glyph")]

    def colours():
        return [getattr(glyph, name) for glyph in glyphs for name in ("line_color", "text_color") if hasattr(glyph, name)]

    light = colours()
    recolor(figure, DARK)
    dark = colours()
    assert dark != light
    assert all(contrast(colour, DARK.surface) >= 3 for colour in dark)
    recolor(figure, LIGHT)
    assert colours() == light


def test_texts_and_points_of_a_copied_picture_are_legible_in_the_dark():
    """Bokeh reads a copied colour as a constant `Value`, where one set by hand is a plain string."""
    parts = [hv.Labels((0, 1, "x"), label="a").opts(text_color=ink("muted")), hv.Points([(1, 1)], label="b").opts(color=line("text"))]
    copy = stencil(Picture(lambda _: hv.Overlay(parts).opts(shared_options()), lambda _: {}), None).copy()
    recolor(copy, DARK)
    shown = [glyph.text_color for glyph in copy.select(Text)] + [glyph.fill_color for glyph in copy.select(Scatter)]
    assert len(shown) >= 2
    assert all(contrast(colour, DARK.surface) >= 3 for colour in shown)


def test_axis_limits_are_whole_decades():
    assert log_limits(30, 2500) == (10, 10_000)


def ticks(formatter, values):
    """What the browser writes at these ticks, by the same JavaScript."""
    names, given = list(formatter.args), [formatter.args[name] for name in formatter.args]
    program = f"const f = new Function('tick', ...{json.dumps(names)}, {json.dumps(formatter.code)});" + (
        f"console.log(JSON.stringify({json.dumps(values)}.map((v) => f(v, ...{json.dumps(given)}))))"
    )
    written = json.loads(subprocess.run(["node", "-e", program], capture_output=True, check=True, text=True).stdout)
    return [text.replace("\u2009", " ") for text in written]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed; the browser tests see the ticks too")
def test_ticks_are_written_with_the_prefix_a_person_would_use():
    assert ticks(tick_formatter("tokens"), [1e3, 1e4, 1e5, 1e6]) == ["1k", "10k", "100k", "1M"]
    assert ticks(tick_formatter("s"), [1e-3, 1e-2, 1e-6, 1, 0]) == ["1 ms", "10 ms", "1 µs", "1 s", "0"]
    assert ticks(tick_formatter("B/s"), [2e12, 1e9]) == ["2 TB/s", "1 GB/s"]
    assert ticks(tick_formatter("FLOP/B"), [0.1, 1e5]) == ["0.1", "100,000"]
    assert ticks(fixed_tick_formatter("B", "G"), [0, 1e11, -5e9]) == ["0", "100", "−5"]
    assert ticks(tick_formatter("%"), [0.5]) == ["50"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_ticks_and_sentences_agree():
    values = [10.0**n for n in range(-9, 13)]
    for unit in ("s", "B", "J", "B/s"):
        for value, tick in zip(values, ticks(tick_formatter(unit), values), strict=True):
            plain = format_quantity(value, unit, 1).replace(" ", "").replace("e-", "e−")
            assert tick.replace(" ", "").replace("e+", "e") == plain

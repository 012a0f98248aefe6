"""The elements pictures are made of, from the columns of one label: a line, points, names, hatching."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import holoviews as hv
from bokeh.models import CustomJSTicker

from app.theme import ink, line

Meaning = str | Sequence[str]
"""A key of `app.theme.HUES`, "text" or "muted"; or one for each point, stroke or text, whose colours `theme.recolor` knows too."""


def curve(data: Mapping[str, Any], label: str, meaning: str, **style: Any) -> hv.Curve:
    """A line in the colour of a meaning."""
    return hv.Curve((data["x"], data["y"]), "x", "y", label=label).opts(color=line(meaning), **style)


def points(data: Mapping[str, Any], label: str, meaning: Meaning, **style: Any) -> hv.Points:
    """Points in the colour of a meaning, or each in the colour of its own."""
    if isinstance(meaning, str):
        return hv.Points((data["x"], data["y"]), ["x", "y"], label=label).opts(color=line(meaning), **style)
    colors = [line(each) for each in meaning]
    return hv.Points((data["x"], data["y"], colors), ["x", "y"], "color", label=label).opts(color="color", **style)


def segments(data: Mapping[str, Any], label: str, meaning: Meaning, **style: Any) -> hv.Segments:
    """Straight strokes from (x, y) to (x1, y1) in the colour of a meaning, or each in the colour of its own."""
    ends = [data[name] for name in ("x", "y", "x1", "y1")]
    colors = [line(each) for each in ([meaning] * len(ends[0]) if isinstance(meaning, str) else meaning)]
    return hv.Segments((*ends, colors), ["x", "y", "x1", "y1"], "color", label=label).opts(color="color", **style)


def texts(data: Mapping[str, Any], label: str, meaning: Meaning, **style: Any) -> hv.Labels:
    """Text in the ink of a meaning, or each in the ink of its own, vertically centred."""
    shown = {"text_font_size": "12px", "text_align": "center", "text_baseline": "middle"} | style
    if isinstance(meaning, str):
        return hv.Labels((data["x"], data["y"], data["text"]), ["x", "y"], "text", label=label).opts(text_color=ink(meaning), **shown)
    inks = [ink(each) for each in meaning]
    return hv.Labels((data["x"], data["y"], data["text"], inks), ["x", "y"], ["text", "ink"], label=label).opts(text_color="ink", **shown)


def cursor(data: Mapping[str, Any], label: str) -> hv.VLine:
    """The present value of a slider."""
    return hv.VLine(data["location"], label=label).opts(color=line("text"), line_width=1.5, line_dash="4 4")


def hatched(data: Mapping[str, Any], label: str) -> hv.Rectangles:
    """A stretch that cannot be: hatched, behind everything."""
    sides = tuple(data[name] for name in ("left", "bottom", "right", "top"))
    return hv.Rectangles(sides, ["x0", "y0", "x1", "y1"], label=label).opts(fill_alpha=0.0, line_alpha=0.0, hooks=[_hatch])


def _hatch(plot: Any, _element: Any) -> None:
    """HoloViews does not pass hatching on to Bokeh."""
    plot.handles["glyph"].update(hatch_pattern="/", hatch_color=line("muted"), hatch_alpha=0.35, hatch_weight=0.6)


_DECADES_JS = """
const {y} = source.data
const x = Array.from(source.data.x).filter((value, i) => isFinite(value) && isFinite(y[i]))
if (x.length == 0) x.push(cb_data.start, cb_data.end)
const low = Math.max(cb_data.start, Math.min(...x)), high = Math.min(cb_data.end, Math.max(...x))
const ticks = []
for (let n = Math.ceil(Math.log10(low) - 1e-6); n <= Math.log10(high) + 1e-6; n++) ticks.push(10 ** n)
return ticks
"""


def decades_of(label: str) -> Callable[[Any, Any], None]:
    """Overlay hook: ticks and grid lines of the horizontal log axis end where the line of this label does, not under its name."""

    def ticked(plot: Any, _element: Any) -> None:
        (lined,) = [part for part in plot.subplots.values() if part.current_frame is not None and part.current_frame.label == label]
        ticker = CustomJSTicker(args={"source": lined.handles["source"]}, major_code=_DECADES_JS)
        plot.handles["xaxis"].ticker = ticker
        plot.state.xgrid.ticker = ticker

    return ticked

"""Is a worker strong in all three? How busy compute, memory and network are while each regime runs at its bound."""

from __future__ import annotations

from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import FixedTicker

from app.picture import Columns, Picture
from app.plots.labels import NAMES
from app.plots.marks import segments, texts
from app.state import Snapshot
from app.theme import DASHES, shared_options, tick_formatter
from physics.regimes import BOUNDS, REGIMES

OFFSETS = dict(zip(BOUNDS, (0.26, 0.0, -0.26), strict=True))


def _rows(s: Snapshot) -> np.ndarray:
    """Busy share [regime, resource]; zero where a regime does nothing."""
    shares = np.stack([s.results[f"{name}_frac"] for name in BOUNDS], axis=-1)
    known: np.ndarray = np.nan_to_num(shares, nan=0.0)
    return known


def columns(s: Snapshot) -> Columns:
    """Bars and their labels."""
    shares = _rows(s)
    data: dict[str, dict[str, Any]] = {resource: {"x1": shares[:, j]} for j, resource in enumerate(BOUNDS)}
    words = [f"{name} {_percent(shares[i, j])}" for i in range(len(REGIMES)) for j, name in enumerate(BOUNDS)]
    data["shares"] = {"x": (shares + 0.015).ravel(), "text": words}
    return data


def _percent(share: float) -> str:
    if 0.0 < share < 0.005:
        return "<1 %"
    return f"{100.0 * share:.0f} %"


def _name_regimes(plot: Any, _element: Any) -> None:
    """Regimes as the ticks of the vertical axis."""
    axis = plot.handles["yaxis"]
    axis.update(ticker=FixedTicker(ticks=list(range(len(REGIMES)))), axis_label=None)
    axis.major_label_overrides = {len(REGIMES) - 1 - i: NAMES[name] for i, name in enumerate(REGIMES)}
    plot.state.ygrid.visible = False
    plot.handles["xaxis"].bounds = (0.0, 1.0)  # what is right of 100 % is room for the words


def build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, rows = columns(s), np.arange(len(REGIMES))[::-1]
    parts = []
    for resource, offset in OFFSETS.items():
        y = rows + offset
        bars = {"x": np.zeros(len(REGIMES)), "y": y, "x1": data[resource]["x1"], "y1": y}
        parts.append(segments(bars, resource, REGIMES, line_width=7, line_dash=DASHES[resource]))
    places = (rows[:, None] + list(OFFSETS.values())).ravel()
    parts.append(texts({**data["shares"], "y": places}, "shares", "muted", text_align="left", text_font_size="10px"))
    frame = shared_options(
        min_height=340, hooks=[_name_regimes], xlim=(0.0, 1.58), ylim=(-0.6, len(REGIMES) - 0.4), xlabel="Busy share of the bound, %",
        xformatter=tick_formatter("%"), xticks=[0, 0.25, 0.5, 0.75, 1.0],
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


PICTURE: Picture[Snapshot] = Picture(build, columns, min_height=340)

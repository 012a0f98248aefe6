"""Where does the next step of a slider stop helping? One quantity of every regime along one axis, crossings marked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import holoviews as hv
import numpy as np

from app.axes import AXES, QUANTITIES, SAMPLES
from app.picture import AxisNames, Columns, Limits, Picture
from app.plots.labels import NAMES, kept_inside, spread
from app.plots.marks import cursor, curve, decades_of, hatched, points, texts
from app.quantities import format_quantity
from app.state import Snapshot
from app.theme import GHOST_ALPHA, shared_options, spoken_title, tick_formatter
from physics.catalog import glossary
from physics.regimes import REGIMES

N_CROSSINGS = 10
LABEL_ROOM = 0.30
"""Room at the right end for the names of the lines, as a share of the axis."""


def quantity_curves(s: Snapshot) -> np.ndarray:
    """The chosen quantity along the axis, [sample, regime]; NaN where it is not positive."""
    values = np.asarray(s.curves[s.choices.quantity], float)
    return np.where(values > 0.0, values, np.nan)


def limits(s: Snapshot) -> Limits:
    """The axis with room for names at its end; whole decades around the curves."""
    x, values = s.axis_values, quantity_curves(s)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (1.0, 10.0)
    room = (x[-1] / x[0]) ** LABEL_ROOM
    return float(x[0]), float(x[-1] * room), 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high * 1.001))


def _infeasible(s: Snapshot, box: Limits) -> tuple[float, float, str]:
    """Stretch of the axis on which the memory is too small: left, right, reason; NaN where it fits everywhere."""
    fits, x = np.asarray(s.curves["fits"])[:, 0], s.axis_values
    if fits.all():
        return math.nan, math.nan, ""
    bad = np.flatnonzero(~fits)
    left = box[0] if bad[0] == 0 else float(np.sqrt(x[bad[0]] * x[bad[0] - 1]))
    right = float(x[-1]) if bad[-1] == SAMPLES - 1 else float(np.sqrt(x[bad[-1]] * x[bad[-1] + 1]))
    return left, right, "does not fit the memory"


def columns(s: Snapshot) -> Columns:
    """Everything that follows the sliders."""
    box, values, x = limits(s), quantity_curves(s), s.axis_values
    data: dict[str, dict[str, Any]] = {}
    ghost = _ghost(s)
    for i, name in enumerate(REGIMES):
        data[f"line {name}"] = {"x": x, "y": values[:, i]}
        data[f"ghost {name}"] = {"x": x, "y": ghost[:, i]}
    ends = [_last(values[:, i]) for i in range(len(REGIMES))]
    heights = spread(ends, box[2:])
    words = [NAMES[name] if np.isfinite(end) else "" for name, end in zip(REGIMES, ends, strict=True)]
    data["names"] = {"x": np.full(len(REGIMES), x[-1] * (box[1] / x[-1]) ** 0.06), "y": heights, "text": words}
    left, right, reason = _infeasible(s, box)
    data["infeasible"] = {"left": [left], "bottom": [box[2]], "right": [right], "top": [box[3]]}
    data["reason"] = {"x": [math.sqrt(left * right)], "y": [box[2] * (box[3] / box[2]) ** 0.03], "text": [reason]}
    data |= _marks(s, box)
    data["cursor"] = {"location": float(getattr(s.choices, s.choices.axis) or s.scenario.kv_token_bytes)}
    return data


def _last(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else math.nan


def _ghost(s: Snapshot) -> np.ndarray:
    nothing = np.full((SAMPLES, len(REGIMES)), np.nan)
    if s.pinned is None:
        return nothing
    same_axis = replace(s.pinned.choices, axis=s.choices.axis, quantity=s.choices.quantity)
    return quantity_curves(replace(s.pinned, choices=same_axis))


def _marks(s: Snapshot, box: Limits) -> dict[str, dict[str, Any]]:
    """Rings at the crossings and their values, those of the decode lines first."""
    decode = ("decode_attention", "decode_experts", "decode_shared")
    rows = sorted(s.crossings, key=lambda row: (row["a"] not in decode) + (row["b"] not in decode))[:N_CROSSINGS]
    pad = [math.nan] * (N_CROSSINGS - len(rows))
    x, y = [row["x"] for row in rows] + pad, [row["y"] for row in rows] + pad
    unit = AXES[s.choices.axis][2]
    words = [format_quantity(row["x"], unit) for row in rows] + [""] * len(pad)
    left, lift = (box[1] / box[0]) ** 0.03, (box[3] / box[2]) ** 0.055
    centres = kept_inside([value / left for value in x], words, box)
    return {"crossings": {"x": x, "y": y}, "values": {"x": centres, "y": [value * lift for value in y], "text": words}}


def axis_names(s: Snapshot) -> AxisNames:
    """Titles and units of the axes, from the glossary."""
    words = glossary()
    x, y = s.choices.axis, s.choices.quantity
    return AxisNames(words[x]["label"], AXES[x][2], words[y]["label"], QUANTITIES[y])


def build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box, names = columns(s), limits(s), axis_names(s)
    parts: list[Any] = [hatched(data["infeasible"], "infeasible")]
    parts += [curve(data[f"ghost {name}"], f"ghost {name}", name, alpha=GHOST_ALPHA, line_width=2) for name in REGIMES]
    parts += [curve(data[f"line {name}"], f"line {name}", name, line_width=2) for name in REGIMES]
    parts.append(points(data["crossings"], "crossings", "text", size=9, fill_alpha=0, line_width=1.5))
    parts.append(texts(data["values"], "values", "text", text_font_size="11px"))
    parts.append(texts(data["reason"], "reason", "muted", text_font_size="11px"))
    parts.append(texts(data["names"], "names", REGIMES, text_align="left"))
    parts.append(cursor(data["cursor"], "cursor"))
    frame = shared_options(
        min_height=360, hooks=[decades_of("line prefill")], logx=True, logy=True, xlim=box[:2], ylim=box[2:],
        xlabel=spoken_title(names.x, names.x_unit), ylabel=spoken_title(names.y, names.y_unit),
        xformatter=tick_formatter(names.x_unit), yformatter=tick_formatter(names.y_unit),
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


PICTURE: Picture[Snapshot] = Picture(build, columns, limits, axes=axis_names, min_height=360)

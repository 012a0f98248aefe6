"""Predicted against measured, and errors on left-out data beside a constant ratio."""

from __future__ import annotations

from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import FixedTicker

from app.picture import Columns, Limits, Picture
from app.plots.marks import curve, points, texts
from app.state import Snapshot
from app.theme import DASHES, shared_options, tick_formatter
from app.validation import JUDGED, WORDS, frame
from app.validation import points as sampled

X_LIMITS, Y_LIMITS = (2e-6, 100.0), (5e-9, 100.0)
ERROR_TOP = 1.0
"""Largest error the picture of errors shows; longer ones end at the edge, with their number."""
LEFT = {"model": ("circle", 0.17), "machine": ("diamond", -0.17)}
"""What was left out -> marker, and how far above its row it stands."""


# ---------------------------------------------------------------- predicted against measured


def scatter_columns(s: Snapshot) -> Columns:
    """Points of every group at bound and estimate; filtered ones are NaN."""
    table = sampled(s)
    columns: dict[str, dict[str, Any]] = {"bounds": {"x": table["measured_s"].to_numpy(), "y": table["bound_s"].to_numpy()}}
    for group in WORDS:
        part = table[table["group"] == group]
        columns[f"estimates {group}"] = {"x": part["measured_s"].to_numpy(), "y": part["estimate_s"].to_numpy()}
    seen = [bool(np.isfinite(np.asarray(columns[f"estimates {group}"]["y"], float)).any()) for group in WORDS]
    names = [word if here else "" for word, here in zip(WORDS.values(), seen, strict=True)]
    rows = iter(range(len(names)))
    for group, name in zip(WORDS, names, strict=True):
        place = next(rows) if name else 0
        columns[f"name {group}"] = {"x": [X_LIMITS[0] * 1.6], "y": [Y_LIMITS[1] / 4.0 / 5.5**place], "text": [name]}
    return columns


def scatter(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data = scatter_columns(s)
    frame_options = shared_options(
        min_height=430, logx=True, logy=True, xlim=X_LIMITS, ylim=Y_LIMITS, xlabel="Measured", ylabel="Bound and estimate",
        xformatter=tick_formatter("s"), yformatter=tick_formatter("s"),
    )  # fmt: skip
    ends = np.array(X_LIMITS)
    parts: list[Any] = [curve({"x": ends, "y": ends}, "equal", "text", line_width=1.2)]
    for label, factor in (("a third more", 1.0 / 1.35), ("a third less", 1.35)):
        parts.append(curve({"x": ends, "y": ends * factor}, label, "muted", line_width=1, line_dash=DASHES["guide"]))
    parts.append(points(data["bounds"], "bounds", "muted", size=3, alpha=0.35))
    parts += [points(data[f"estimates {group}"], f"estimates {group}", group, size=5, fill_alpha=0, line_width=1.4) for group in WORDS]
    style = {"text_align": "left"}
    parts += [texts(data[f"name {group}"], f"name {group}", group, **style) for group in WORDS]
    note = {"x": [X_LIMITS[1] / 1.6, 2e-5], "y": [Y_LIMITS[0] * 3.0, 0.6e-6], "text": ["grey dots: bounds", ""]}
    parts.append(texts(note, "note", "muted", text_align="right"))
    return hv.Overlay(parts).opts(frame_options)


SCATTER: Picture[Snapshot] = Picture(scatter, scatter_columns, lambda _s: (*X_LIMITS, *Y_LIMITS), min_height=430)


# ---------------------------------------------------------------- errors


def _error_columns() -> Columns:
    """Median errors of all machines by regime: with the model or machine left out, of the constant ratio, and the goal."""
    table = frame("calibration_errors")
    table = table[table["machine"] == "all"].set_index(["regime", "left_out"])
    columns: dict[str, dict[str, Any]] = {}
    heights = np.arange(len(JUDGED))[::-1].astype(float)
    for left, (_, shift) in LEFT.items():
        rows = [(regime, left) if (regime, left) in table.index else None for regime in JUDGED]
        for name, column in (("error", "median"), ("baseline", "baseline_median")):
            values = np.array([np.nan if row is None else float(table.loc[row, column]) for row in rows])  # type: ignore[arg-type]
            columns[f"{name} {left}"] = {"x": np.minimum(values, ERROR_TOP), "y": heights + shift}
    goals = [float(table.loc[[regime], "goal"].max()) for regime in JUDGED]
    columns["goals"] = {"x": np.repeat(goals, 3), "y": (heights[:, None] + [-0.36, 0.36, np.nan]).ravel()}
    columns["goals"]["x"][2::3] = np.nan
    return columns


def error_picture(_s: Snapshot) -> hv.Overlay:
    """The overlay; it does not change with the state."""
    data, box = _error_columns(), error_limits(_s)
    ticks = list(range(len(JUDGED)))
    labels = dict(zip(ticks[::-1], JUDGED, strict=True))
    frame_options = shared_options(
        min_height=430, xlim=box[:2], ylim=box[2:], xlabel="Median error on data left out, %", ylabel="", xformatter=tick_formatter("%"),
        yticks=[(i, labels[i]) for i in ticks],
    )  # fmt: skip
    parts: list[Any] = [curve(data["goals"], "goals", "text", line_width=2).opts(hooks=[_plain_axis])]
    for left, (marker, _) in LEFT.items():
        parts.append(points(data[f"baseline {left}"], f"baseline {left}", "muted", marker=marker, size=9, fill_alpha=0, line_width=1.4))
        parts.append(points(data[f"error {left}"], f"error {left}", "midfill", marker=marker, size=10))
    return hv.Overlay(parts).opts(frame_options)


def _plain_axis(plot: Any, _element: Any) -> None:
    plot.state.yaxis.update(minor_tick_line_color=None)
    plot.state.xaxis.ticker = FixedTicker(ticks=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def error_limits(_s: Snapshot) -> Limits:
    """All regimes, errors up to the top."""
    return 0.0, ERROR_TOP * 1.02, -0.6, len(JUDGED) + 0.5  # room for the tools


ERRORS: Picture[Snapshot] = Picture(error_picture, lambda _s: _error_columns(), error_limits, min_height=430)

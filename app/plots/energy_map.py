"""How much cheaper is a byte of SRAM, for every bank size and distance?"""

from __future__ import annotations

import math
from typing import Any

import holoviews as hv
import numpy as np
from bokeh.models import FixedTicker

from app.energy import BANKS, CLAIM, CONTOURS, DISTANCES, EnergyView
from app.picture import Columns, Limits, Picture
from app.plots.marks import curve, points, texts
from app.quantities import format_quantity
from app.state import Snapshot
from app.theme import SHADES, shades, shared_options

X, Y = np.log2(BANKS / 1024.0), np.log10(DISTANCES)
BOX: Limits = (float(X[0]) - 0.12, float(X[-1]) + 0.2, float(Y[0]) - 0.04, float(Y[-1]) + 0.04)
SPAN = (0.0, 2.2)
"""Decades of the ratio that the colours span: 1 to 160."""
X_TICKS = {3: "8 KB", 5: "32 KB", 7: "128 KB", 9: "512 KB", 10: "1 MB"}
Y_TICKS = {-1.0: "0.1", -0.5: "0.3", 0.0: "1", 0.5: "3", 1.0: "10", math.log10(30.0): "30"}


def _height(view: EnergyView, ratio: float) -> np.ndarray:
    """A contour in the coordinates of the map; NaN outside it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.log10(view.contour(ratio)) if math.isfinite(ratio) else np.full(len(BANKS), np.nan)
    return np.where((height >= Y[0]) & (height <= Y[-1]), height, np.nan)


def _place(height: np.ndarray, share: float) -> tuple[float, float]:
    """Where a contour's name stands: at a share of its visible length."""
    seen = np.flatnonzero(np.isfinite(height))
    if not seen.size:
        return math.nan, math.nan
    at = seen[round(share * (seen.size - 1))]
    return float(X[at]), float(height[at])


def columns(s: Snapshot) -> Columns:
    """Map, contours with their names, and where the sliders stand."""
    view = s.energy
    ratios, words = view.advantage
    data: dict[str, dict[str, Any]] = {"map": {"z": np.log10(ratios).T.ravel()}}  # HoloViews numbers the cells column by column
    named = {f"{value:g}": value for value in CONTOURS} | {"claim": CLAIM, "like": view.like_for_like}
    near = view.like_for_like
    for name, value in named.items():
        height = _height(view, value)
        # A plain contour that would run into the measured one is left out.
        if name not in ("claim", "like") and math.isfinite(near) and abs(math.log(value / near)) < 0.25:
            height = np.full(len(BANKS), np.nan)
        x, y = _place(height, 0.1 if name == "like" else 0.55 if name == "claim" else 0.82)
        y = y if y > BOX[2] + 0.25 else math.nan  # the note stands there
        text = {"claim": "100×: the claim", "like": f"{value:.0f}×: like for like, as measured"}.get(name, f"{value:g}×")
        data[f"contour {name}"] = {"x": X, "y": height}
        data[f"name {name}"] = {"x": [x], "y": [y + 0.08 if y < BOX[3] - 0.2 else y - 0.09], "text": [text if math.isfinite(y) else ""]}
    data["here"], data["value"] = _here(s)
    data["note"] = {"x": [BOX[0] + 0.15], "y": [BOX[2] + 0.09], "text": [_note(words)]}
    return data


def _here(s: Snapshot) -> tuple[dict[str, Any], dict[str, Any]]:
    """The point of the sliders, at the edge of the map where no distance counts."""
    view = s.energy
    asked = view.sram.accounting or s.scenario.energy_accounting
    distance = view.sram.distance_mm(asked)
    x = math.log2(view.sram.bank_bytes / 1024.0)
    y = math.log10(min(max(distance, DISTANCES[0]), DISTANCES[-1]))
    return {"x": [x], "y": [y]}, {"x": [x - 0.2], "y": [y], "text": [f"{format_quantity(view.built_ratio, '')}×"]}


def _note(words: str) -> str:
    """What the map divides."""
    known = {
        "device": "bare device over bare bank: distance does not count",
        "mixed: interface over wires": "mixed: wire on the SRAM side only",
        "wires": "wire on both sides",
    }
    return known.get(words, words)


def _ticks(plot: Any, _element: Any) -> None:
    """Ticks that read bytes and millimetres though the axes count logarithms."""
    for name, ticks in (("xaxis", X_TICKS), ("yaxis", Y_TICKS)):
        axis = plot.handles[name]
        axis.update(ticker=FixedTicker(ticks=list(ticks)))
        axis.major_label_overrides = dict(ticks)


def _paint(plot: Any, _element: Any) -> None:
    """A palette that follows the theme, and edges in the colour of their cell: without them cells show seams."""
    plot.handles["color_mapper"].name = SHADES + "sram"
    glyph = plot.handles["glyph"]
    glyph.update(line_color=glyph.fill_color, line_alpha=1.0, line_width=1.0)


def build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data = columns(s)
    mesh = hv.QuadMesh((X, Y, data["map"]["z"].reshape(len(X), len(Y)).T), ["x", "y"], "z", label="map")
    parts: list[Any] = [mesh.opts(cmap=shades("sram"), clim=SPAN, colorbar=False, hooks=[_paint])]
    for value in CONTOURS:
        parts.append(curve(data[f"contour {value:g}"], f"contour {value:g}", "muted", line_width=1.0))
        parts.append(texts(data[f"name {value:g}"], f"name {value:g}", "muted", text_font_size="11px"))
    parts.append(curve(data["contour claim"], "contour claim", "text", line_width=2.4))
    parts.append(curve(data["contour like"], "contour like", "text", line_width=2.4, line_dash="8 3"))
    parts.append(texts(data["name claim"], "name claim", "text"))
    parts.append(texts(data["name like"], "name like", "text", text_align="left"))
    parts.append(points(data["here"], "here", "text", size=11, fill_alpha=0.0, line_width=2))
    parts.append(texts(data["value"], "value", "text", text_align="right", text_font_size="13px"))
    parts.append(texts(data["note"], "note", "text", text_align="left", text_font_size="11px"))
    frame = shared_options(
        min_height=360, hooks=[_ticks], xlim=BOX[:2], ylim=BOX[2:], xlabel="Size of one SRAM bank", ylabel="Distance to the consumer, mm",
    )  # fmt: skip
    return hv.Overlay(parts).opts(frame)


MAP: Picture[Snapshot] = Picture(build, columns, min_height=360)

"""What does the machine allow each regime? The roofline of one accelerator, regimes as points on the roof they meet."""

from __future__ import annotations

import math
from typing import Any

import holoviews as hv
import numpy as np

from app.picture import Columns, Limits, Picture
from app.plots.labels import NAMES, beside_points
from app.plots.marks import curve, points, texts
from app.quantities import format_quantity
from app.state import Explorer, Snapshot
from app.theme import DASHES, GHOST_ALPHA, shared_options, tick_formatter
from physics.regimes import REGIMES

X_LIMITS = (0.1, 1e5)
CEILINGS = ("fp4", "fp8", "bf16", "fp16")
N_CEILINGS = 4
SLOPES = ("memory", "sram", "scale_up", "scale_out")


def _slopes(s: Snapshot) -> list[tuple[float, str]]:
    """(bandwidth, name) of each sloping roof; NaN where the machine's is not known."""
    machine = s.scenario.machine
    kind = machine.memory_kind if machine.memory_kind else "memory"
    named = ((machine.memory_bytes_per_s, kind), (machine.sram_bytes_per_s, "SRAM"))
    links = ((machine.scale_up_bytes_per_s, "scale-up"), (machine.scale_out_bytes_per_s, "scale-out"))
    return [(rate, f"{name} {format_quantity(rate, 'B/s')}" if rate > 0 else "") for rate, name in (*named, *links)]


def _ceilings(s: Snapshot) -> list[tuple[float, str]]:
    """(peak, name) of the different dense peaks, highest first, formats of one peak together, padded to N_CEILINGS."""
    names: dict[float, list[str]] = {}
    for dtype in CEILINGS:
        if dtype in s.scenario.machine.peaks:
            names.setdefault(s.scenario.machine.peaks[dtype], []).append(dtype.upper())
    found = [(peak, f"{'/'.join(words)} {format_quantity(peak, 'FLOP/s', 4)}") for peak, words in sorted(names.items(), reverse=True)]
    return (found + [(math.nan, "")] * N_CEILINGS)[:N_CEILINGS]


def rates(results: dict[str, np.ndarray], gpus: int) -> np.ndarray:
    """FLOP/s of one accelerator at the bound, hops apart; NaN where it does not fit or computes nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = results["flops"] / ((results["roofline_s"] - results["hop_s"]) * gpus)
    return np.where(rate > 0.0, rate, np.nan)


def estimate_rates(s: Snapshot) -> np.ndarray:
    """FLOP/s of one accelerator at the estimate, hops and floors in it; NaN while estimates are off."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = s.results["flops"] / (s.results["estimate_s"] * s.scenario.gpus_per_stage)
    return np.where(rate > 0.0, rate, np.nan)


def limits(s: Snapshot) -> Limits:
    """The x axis stays; y from the decade under the slowest point to above the highest roof."""
    top = max(s.scenario.machine.peaks.values()) * 3.0
    rate = np.append(rates(s.results, s.scenario.gpus_per_stage), estimate_rates(s))
    low = np.nanmin(rate) if np.isfinite(rate).any() else s.scenario.machine.memory_bytes_per_s
    return (*X_LIMITS, 10.0 ** math.floor(math.log10(low * 0.7)), top)


def _roof_labels(s: Snapshot) -> tuple[list[tuple[float, float, str, int]], list[tuple[float, float, str, int]]]:
    """(x, y, text, side) of the names of slopes and ceilings: where a slope enters the picture, where a ceiling begins."""
    x0, _, y0, y1 = limits(s)
    slopes = []
    lift = 0.0 if s.memory.fits else 0.1  # above the marks of intensities without a speed
    for (rate, words), step, side in zip(_slopes(s), (0.04, 0.5, 0.2, 0.12), (1, -1, 1, 1), strict=True):
        y = y0 * (y1 / y0) ** (step + lift)
        slopes.append((y / rate * 1.25**side, y, words, side))
    slowest = s.scenario.machine.memory_bytes_per_s
    ceilings = [(max(peak / slowest / 1.7, x0), peak, words, -1) for peak, words in _ceilings(s)]
    return slopes, ceilings


def _roof_columns(s: Snapshot) -> dict[str, dict[str, Any]]:
    ceilings = _ceilings(s)
    top = max(peak for peak, _ in ceilings if peak > 0)
    slowest = s.scenario.machine.memory_bytes_per_s
    columns: dict[str, dict[str, Any]] = {}
    for name, (rate, _) in zip(SLOPES, _slopes(s), strict=True):
        columns[f"slope {name}"] = {"x": [X_LIMITS[0], top / rate], "y": [X_LIMITS[0] * rate, top]}
    for i, (peak, _) in enumerate(ceilings):
        columns[f"ceiling {i}"] = {"x": [peak / slowest, X_LIMITS[1]], "y": [peak, peak]}
    columns["ridges"] = {"x": [peak / slowest for peak, _ in ceilings], "y": [peak for peak, _ in ceilings]}
    slope_labels, ceiling_labels = _roof_labels(s)
    columns["slope labels"] = _texts([label for label in slope_labels if label[3] > 0])
    columns["sram label"] = _texts([label for label in slope_labels if label[3] < 0])
    columns["ceiling labels"] = _texts(ceiling_labels)
    return columns


def _texts(labels: list[tuple[float, float, str, int]]) -> dict[str, Any]:
    return {"x": [x for x, *_ in labels], "y": [label[1] for label in labels], "text": [label[2] for label in labels]}


def _point_columns(s: Snapshot) -> dict[str, dict[str, Any]]:
    box, results = limits(s), s.results
    x, y = results["intensity_flops_per_byte"], rates(results, s.scenario.gpus_per_stage)
    x = np.where(x > 0.0, x, np.nan)
    with np.errstate(invalid="ignore"):  # a regime that computes nothing has no peak
        ridge, peak = results["ridge_flops_per_byte"], results["flops"] / (results["compute_s"] * s.scenario.gpus_per_stage)
    trail_x, trail_y = _trail(s)
    columns: dict[str, dict[str, Any]] = {}
    estimated = estimate_rates(s)
    for i, name in enumerate(REGIMES):
        columns[f"point {name}"] = {"x": [x[i]], "y": [y[i]]}
        columns[f"headroom {name}"] = {"x": [x[i], ridge[i]], "y": [y[i], peak[i]]}
        columns[f"trail {name}"] = {"x": trail_x[:, i], "y": trail_y[:, i]}
        columns[f"ghost {name}"] = _ghost(s, i)
        columns[f"estimate {name}"] = {"x": [x[i]], "y": [estimated[i]]}
    standing = [label for labels in _roof_labels(s) for label in labels if label[2]]
    standing += [(x[i], estimated[i], "oo", 0) for i in range(len(REGIMES))]
    lines = [(X_LIMITS[0], X_LIMITS[0] * rate, box[3] / rate, box[3]) for rate, _ in _slopes(s) if rate > 0]
    lines += [(peak / lines[0][1] * X_LIMITS[0], peak, X_LIMITS[1], peak) for peak, _ in _ceilings(s) if peak > 0]
    label_x, label_y = beside_points(x, y, [NAMES[name] for name in REGIMES], box, standing, lines)
    for i, name in enumerate(REGIMES):
        columns[f"name {name}"] = {"x": [label_x[i]], "y": [label_y[i]], "text": [NAMES[name]]}
    fits = bool(s.memory.fits)
    columns["intensities"] = {"x": np.where(fits, np.nan, x), "y": np.full(5, box[2] * 1.5)}
    low = box[2] * (box[3] / box[2]) ** 0.28
    columns["infeasible"] = {"x": [3e3], "y": [low], "text": ["" if fits else "does not fit: no speed to show"]}
    return columns


def _trail(s: Snapshot) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.full((Explorer.TRAIL, 5), np.nan), np.full((Explorer.TRAIL, 5), np.nan)
    for row, results in enumerate(s.trail):
        x[row] = results["intensity_flops_per_byte"]
        y[row] = rates(results, int(results["gpus"]))
    return x, y


def _ghost(s: Snapshot, i: int) -> dict[str, Any]:
    if s.pinned is None:
        return {"x": [np.nan], "y": [np.nan]}
    y = rates(s.pinned.results, s.pinned.scenario.gpus_per_stage)
    return {"x": [s.pinned.results["intensity_flops_per_byte"][i]], "y": [y[i]]}


def columns(s: Snapshot) -> Columns:
    """Everything that follows the sliders."""
    return _roof_columns(s) | _point_columns(s)


def build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = columns(s), limits(s)
    frame = shared_options(
        min_height=360, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Arithmetic intensity, FLOP/B",
        ylabel="Rate per accelerator", xformatter=tick_formatter(""), yformatter=tick_formatter("FLOP/s"),
    )  # fmt: skip
    return hv.Overlay([*_roofs(data), *_regimes(data)]).opts(frame)


def _roofs(data: Columns) -> list[Any]:
    looks = {"memory": ("hbm", "solid", 2.0), "sram": ("sram", "solid", 1.2)}
    looks |= dict.fromkeys(("scale_up", "scale_out"), ("muted", DASHES["network"], 1.2))
    parts = []
    for name, (meaning, dash, width) in looks.items():
        parts.append(curve(data[f"slope {name}"], f"slope {name}", meaning, line_dash=dash, line_width=width))
    parts += [curve(data[f"ceiling {i}"], f"ceiling {i}", "text", line_width=1.2) for i in range(N_CEILINGS)]
    parts.append(points(data["ridges"], "ridges", "text", marker="diamond", size=7))
    for name, side in (("slope labels", "left"), ("sram label", "right"), ("ceiling labels", "right")):
        parts.append(texts(data[name], name, "muted", text_align=side, text_font_size="11px"))
    return parts


def _regimes(data: Columns) -> list[Any]:
    parts = []
    for name in REGIMES:
        parts.append(points(data[f"trail {name}"], f"trail {name}", name, size=4, alpha=GHOST_ALPHA))
        parts.append(points(data[f"ghost {name}"], f"ghost {name}", name, size=12, fill_alpha=0, line_width=2, alpha=GHOST_ALPHA))
        parts.append(curve(data[f"headroom {name}"], f"headroom {name}", name, line_width=1, line_dash=DASHES["guide"]))
    for name in REGIMES:
        parts.append(points(data[f"estimate {name}"], f"estimate {name}", name, size=10, fill_alpha=0, line_width=2))
        parts.append(points(data[f"point {name}"], f"point {name}", name, size=10, tools=["tap"], nonselection_alpha=1.0))
        parts.append(texts(data[f"name {name}"], f"name {name}", name))
    parts.append(points(data["intensities"], "intensities", "muted", marker="inverted_triangle", size=8))
    parts.append(texts(data["infeasible"], "infeasible", "text", text_font_size="14px"))
    return parts


PICTURE: Picture[Snapshot] = Picture(build, columns, limits, min_height=360)

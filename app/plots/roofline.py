"""What does the machine allow each regime? The roofline of one accelerator, regimes as points on the roof they meet."""

from __future__ import annotations

import math
from typing import Any

import holoviews as hv
import numpy as np

from app.picture import Columns, Limits, Picture
from app.plots.labels import NAMES, beside_points
from app.plots.marks import points, segments, texts
from app.quantities import format_quantity
from app.state import Explorer, Snapshot
from app.theme import DASHES, GHOST_ALPHA, shared_options, tick_formatter
from physics.regimes import REGIMES

X_LIMITS = (0.1, 1e5)
CEILINGS = ("fp4", "fp8", "bf16", "fp16")
N_CEILINGS = 4
Label = tuple[float, float, str, int]
"""x, y, text and side: 1 starts at x, -1 ends there."""


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


def _roof_labels(s: Snapshot, box: Limits) -> tuple[list[Label], list[Label]]:
    """Names of slopes and ceilings: where a slope enters the picture, where a ceiling begins."""
    x0, _, y0, y1 = box
    slopes = []
    lift = 0.0 if s.memory.fits else 0.1  # above the marks of intensities without a speed
    for (rate, words), step, side in zip(_slopes(s), (0.04, 0.5, 0.2, 0.12), (1, -1, 1, 1), strict=True):
        y = y0 * (y1 / y0) ** (step + lift)
        slopes.append((y / rate * 1.25**side, y, words, side))
    slowest = s.scenario.machine.memory_bytes_per_s
    ceilings = [(max(peak / slowest / 1.7, x0), peak, words, -1) for peak, words in _ceilings(s)]
    return slopes, ceilings


def _roof_columns(s: Snapshot, labels: tuple[list[Label], list[Label]]) -> dict[str, dict[str, Any]]:
    peaks = np.array([peak for peak, _ in _ceilings(s)])
    rates = np.array([rate for rate, _ in _slopes(s)])
    top, slowest = np.nanmax(peaks), s.scenario.machine.memory_bytes_per_s
    columns: dict[str, dict[str, Any]] = {}
    with np.errstate(divide="ignore"):
        slopes = {"x": np.full(4, X_LIMITS[0]), "y": X_LIMITS[0] * rates, "x1": top / rates, "y1": np.full(4, top)}
    for name, part in (("memories", slice(0, 2)), ("links", slice(2, 4))):
        columns[name] = {key: values[part] for key, values in slopes.items()}
    columns["ceilings"] = {"x": peaks / slowest, "y": peaks, "x1": np.full(N_CEILINGS, X_LIMITS[1]), "y1": peaks}
    columns["ridges"] = {"x": peaks / slowest, "y": peaks}
    columns["slope labels"] = _texts([label for label in labels[0] if label[3] > 0])
    columns["sram label"] = _texts([label for label in labels[0] if label[3] < 0])
    columns["ceiling labels"] = _texts(labels[1])
    return columns


def _texts(labels: list[Label]) -> dict[str, Any]:
    return {"x": [x for x, *_ in labels], "y": [label[1] for label in labels], "text": [label[2] for label in labels]}


def _point_columns(s: Snapshot, box: Limits, roof_labels: tuple[list[Label], list[Label]]) -> dict[str, dict[str, Any]]:
    results = s.results
    x, y = results["intensity_flops_per_byte"], rates(results, s.scenario.gpus_per_stage)
    x = np.where(x > 0.0, x, np.nan)
    with np.errstate(invalid="ignore"):  # a regime that computes nothing has no peak
        ridge, peak = results["ridge_flops_per_byte"], results["flops"] / (results["compute_s"] * s.scenario.gpus_per_stage)
    estimated = estimate_rates(s)
    columns: dict[str, dict[str, Any]] = {
        "points": {"x": x, "y": y},
        "headroom": {"x": x, "y": y, "x1": ridge, "y1": peak},
        "trail": _trail(s),
        "ghosts": _ghosts(s),
        "estimates": {"x": x, "y": estimated},
    }
    standing = [label for labels in roof_labels for label in labels if label[2]]
    standing += [(at, rate, "oo", 0) for at, rate in zip(x, estimated, strict=True)]
    lines = [(X_LIMITS[0], X_LIMITS[0] * rate, box[3] / rate, box[3]) for rate, _ in _slopes(s) if rate > 0]
    lines += [(peak / lines[0][1] * X_LIMITS[0], peak, X_LIMITS[1], peak) for peak, _ in _ceilings(s) if peak > 0]
    words = [NAMES[name] for name in REGIMES]
    label_x, label_y = beside_points(x, y, words, box, standing, lines)
    columns["names"] = {"x": label_x, "y": label_y, "text": words}
    fits = bool(s.memory.fits)
    columns["intensities"] = {"x": np.where(fits, np.nan, x), "y": np.full(5, box[2] * 1.5)}
    low = box[2] * (box[3] / box[2]) ** 0.55
    columns["infeasible"] = {"x": [3e3], "y": [low], "text": ["" if fits else "does not fit: no speed to show"]}
    return columns


def _trail(s: Snapshot) -> dict[str, Any]:
    """Earlier stops of the slider that moves, one regime after the other."""
    x, y = np.full((Explorer.TRAIL, 5), np.nan), np.full((Explorer.TRAIL, 5), np.nan)
    for row, results in enumerate(s.trail):
        x[row] = results["intensity_flops_per_byte"]
        y[row] = rates(results, int(results["gpus"]))
    return {"x": x.T.ravel(), "y": y.T.ravel()}


def _ghosts(s: Snapshot) -> dict[str, Any]:
    if s.pinned is None:
        return {"x": np.full(5, np.nan), "y": np.full(5, np.nan)}
    results = s.pinned.results
    return {"x": results["intensity_flops_per_byte"], "y": rates(results, s.pinned.scenario.gpus_per_stage)}


def columns(s: Snapshot) -> Columns:
    """Everything that follows the sliders."""
    box = limits(s)
    labels = _roof_labels(s, box)
    return _roof_columns(s, labels) | _point_columns(s, box, labels)


def build(s: Snapshot) -> hv.Overlay:
    """The overlay of a snapshot."""
    data, box = columns(s), limits(s)
    frame = shared_options(
        min_height=360, logx=True, logy=True, xlim=box[:2], ylim=box[2:], xlabel="Arithmetic intensity, FLOP/B",
        ylabel="Rate per accelerator", xformatter=tick_formatter(""), yformatter=tick_formatter("FLOP/s"),
    )  # fmt: skip
    return hv.Overlay([*_roofs(data), *_regimes(data)]).opts(frame)


def _roofs(data: Columns) -> list[Any]:
    return [
        segments(data["memories"], "memories", ("hbm", "sram"), line_width=1.8),
        segments(data["links"], "links", "muted", line_dash=DASHES["network"], line_width=1.2),
        segments(data["ceilings"], "ceilings", "text", line_width=1.2),
        points(data["ridges"], "ridges", "text", marker="diamond", size=7),
        texts(data["slope labels"], "slope labels", "muted", text_align="left", text_font_size="11px"),
        texts(data["sram label"], "sram label", "muted", text_align="right", text_font_size="11px"),
        texts(data["ceiling labels"], "ceiling labels", "muted", text_align="right", text_font_size="11px"),
    ]


def _regimes(data: Columns) -> list[Any]:
    trailing = [name for name in REGIMES for _ in range(Explorer.TRAIL)]
    return [
        points(data["trail"], "trail", trailing, size=4, alpha=GHOST_ALPHA),
        points(data["ghosts"], "ghosts", REGIMES, size=12, fill_alpha=0, line_width=2, alpha=GHOST_ALPHA),
        segments(data["headroom"], "headroom", REGIMES, line_width=1, line_dash=DASHES["guide"]),
        points(data["estimates"], "estimates", REGIMES, size=10, fill_alpha=0, line_width=2),
        points(data["points"], "points", REGIMES, size=10, tools=["tap"]),
        texts(data["names"], "names", REGIMES),
        points(data["intensities"], "intensities", "muted", marker="inverted_triangle", size=8),
        texts(data["infeasible"], "infeasible", "text", text_font_size="14px"),
    ]


PICTURE: Picture[Snapshot] = Picture(build, columns, limits, min_height=360)

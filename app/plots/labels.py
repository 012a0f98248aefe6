"""Direct labels: where a name can stand beside its point or line without covering another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from app.picture import Limits, Values

CHAR_PX, LINE_PX = 6.6, 15.0
"""Width of a letter and height of a line at 12 px type; a plot is taken as PLOT_PX, since its real size is not known here."""
PLOT_PX = (430.0, 300.0)

NAMES: Mapping[str, str] = {
    "prefill": "prefill",
    "midfill": "midfill",
    "decode_attention": "decode attention",
    "decode_experts": "decode experts",
    "decode_shared": "decode shared",
}
"""Regimes as they are written beside points and lines."""


def _to_px(x: np.ndarray, y: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    x0, x1, y0, y1 = np.log(limits)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.log(x) - x0) / (x1 - x0) * PLOT_PX[0], (np.log(y) - y0) / (y1 - y0) * PLOT_PX[1]


def _from_px(px: float, py: float, limits: Limits) -> tuple[float, float]:
    x0, x1, y0, y1 = np.log(limits)
    return float(np.exp(x0 + px / PLOT_PX[0] * (x1 - x0))), float(np.exp(y0 + py / PLOT_PX[1] * (y1 - y0)))


def _overlaps(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Shared area of two boxes (centre x, centre y, width, height)."""
    wide = min(a[0] + a[2] / 2, b[0] + b[2] / 2) - max(a[0] - a[2] / 2, b[0] - b[2] / 2)
    high = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
    return max(wide, 0.0) * max(high, 0.0)


def beside_points(
    x: Values,
    y: Values,
    texts: Sequence[str],
    limits: Limits,
    blocked: Sequence[tuple[float, float, str, int]] = (),
    strokes: Sequence[tuple[float, float, float, float]] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Centres for the labels of points on log-log axes: the free place nearest to each point, inside the limits.

    blocked: (x, y, text, side) of labels that stand already: side 1 starts at x, −1 ends there, 0 is centred.
    strokes: (x0, y0, x1, y1) of lines better left uncovered.
    """
    px, py = _to_px(np.asarray(x, float), np.asarray(y, float), limits)
    points = [(a, b, 12.0, 12.0) for a, b in zip(px, py, strict=True) if np.isfinite(a) and np.isfinite(b)]
    boxes = list(points)
    for bx, by, text, side in blocked:
        cx, cy = _to_px(np.array([bx]), np.array([by]), limits)
        width = CHAR_PX * len(text)
        if np.isfinite(cx[0]) and np.isfinite(cy[0]):
            boxes.append((cx[0] + side * width / 2, cy[0], width, LINE_PX))
    for x0, y0, x1, y1 in strokes:
        along = np.linspace(0.0, 1.0, 40)
        sx, sy = _to_px(x0 * (x1 / x0) ** along, y0 * (y1 / y0) ** along, limits)
        boxes += [(a, b, 5.0, 5.0) for a, b in zip(sx, sy, strict=True) if np.isfinite(a) and np.isfinite(b)]
    out_x, out_y = np.full(len(px), np.nan), np.full(len(px), np.nan)
    for i in np.argsort(py):
        if not (np.isfinite(px[i]) and np.isfinite(py[i])):
            continue
        box = _best_place(px[i], py[i], texts[i], boxes)
        boxes.append(box)
        out_x[i], out_y[i] = _from_px(box[0], box[1], limits)
    return out_x, out_y


def _best_place(px: float, py: float, text: str, boxes: Sequence[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    width = CHAR_PX * len(text)
    side = width / 2 + 9
    places = [(px + side, py), (px - side, py), (px, py + 15), (px, py - 15)]
    places += [(px + s * side, py + r * LINE_PX) for r in (1, -1, 2, -2, 3, -3) for s in (1, -1, 0, 1.6, -1.6)]
    best, least = (px + side, py, width, LINE_PX), np.inf
    for nth, (cx, cy) in enumerate(places):
        box = (cx, cy, width, LINE_PX)
        outside = max(0.0, cx + width / 2 - PLOT_PX[0]) + max(0.0, width / 2 - cx) + max(0.0, cy + 8 - PLOT_PX[1]) + max(0.0, 8 - cy)
        cost = sum(_overlaps(box, other) for other in boxes) + 20.0 * outside + nth * 0.5
        if cost < least:
            best, least = box, cost
    return best


def spread(y: Sequence[float], limits: tuple[float, float], gap_px: float = LINE_PX) -> np.ndarray:
    """Heights for labels at line ends on a log axis: as near to the ends as a line's height between them allows.

    Ends outside the limits, and gaps, give NaN.
    """
    low, high = np.log(limits)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (np.log(np.asarray(y, float)) - low) / (high - low) * PLOT_PX[1]
    place[~((place >= -1.0) & (place <= PLOT_PX[1] + 1.0))] = np.nan
    order = [i for i in np.argsort(place) if np.isfinite(place[i])]
    placed = place.copy()
    for _ in range(40):  # relax: push neighbours apart until every gap is wide enough
        moved = False
        for a, b in pairwise(order):
            lack = gap_px - (placed[b] - placed[a])
            if lack > 0.1:
                placed[a] -= lack / 2
                placed[b] += lack / 2
                moved = True
        placed = np.clip(placed, 7.0, PLOT_PX[1] - 7.0)
        if not moved:
            break
    heights: np.ndarray = np.exp(low + placed / PLOT_PX[1] * (high - low))
    return heights


def kept_inside(x: Sequence[float], texts: Sequence[str], limits: Limits) -> np.ndarray:
    """Label centres moved along a log axis just far enough that no centred text leaves the picture."""
    px, _ = _to_px(np.asarray(x, float), np.ones(len(x)), (limits[0], limits[1], 1.0, 10.0))
    half = np.array([CHAR_PX * len(text) / 2 + 2 for text in texts])
    inside = np.clip(px, half, PLOT_PX[0] - half)
    centres: np.ndarray = limits[0] * (limits[1] / limits[0]) ** (inside / PLOT_PX[0])
    return centres

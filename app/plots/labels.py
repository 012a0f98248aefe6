"""Direct labels: where a name can stand beside its point or line without covering another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from app.picture import Limits, Values

CHAR_PX, LINE_PX = 6.6, 15.0
"""Width of a letter and height of a line at 12 px type. A plot is taken as PLOT_PX, the smallest it gets in two columns: its real
size is not known here, and what fits the small one fits the larger."""
PLOT_PX = (340.0, 270.0)
BEAD_PX = 7.0
"""From bead to bead of a line that labels should not cover."""
BEAD_COST, CELL_PX = 9.0, 3.0
"""Covering a bead costs as much as so many square pixels of a label; beads are counted in cells of this size."""

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


def _overlaps(places: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Area that each place shares with all boxes together; rows are (centre x, centre y, width, height)."""
    shared = []
    for axis, size in ((0, 2), (1, 3)):
        at, half = places[:, axis, None], places[:, size, None] / 2
        place, reach = boxes[:, axis], boxes[:, size] / 2
        length = np.minimum(at + half, place + reach) - np.maximum(at - half, place - reach)
        shared.append(np.maximum(length, 0.0))
    return np.asarray(np.einsum("ij,ij->i", shared[0], shared[1]))


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
    places = _places(px, py, np.array([CHAR_PX * len(text) for text in texts]))
    cost = _cost(places, _blocked_boxes(px, py, blocked, limits), _beads(np.asarray(strokes, float).reshape(-1, 4), limits))
    out_x, out_y = np.full(len(px), np.nan), np.full(len(px), np.nan)
    placed = np.empty((0, 4))
    for i in np.argsort(py):
        if not (np.isfinite(px[i]) and np.isfinite(py[i])):
            continue
        box = places[i, int(np.argmin(cost[i] + _overlaps(places[i], placed)))]
        placed = np.vstack([placed, box])
        out_x[i], out_y[i] = _from_px(box[0], box[1], limits)
    return out_x, out_y


def _blocked_boxes(px: np.ndarray, py: np.ndarray, blocked: Sequence[Any], limits: Limits) -> np.ndarray:
    """Points and standing labels, which should not be covered, as (centre x, centre y, width, height)."""
    groups = [np.column_stack([px, py, np.full((len(px), 2), 12.0)])]
    if len(blocked):
        widths = np.array([CHAR_PX * len(text) for _, _, text, _ in blocked])
        x, y, sides = (np.array([row[i] for row in blocked], float) for i in (0, 1, 3))
        bx, by = _to_px(x, y, limits)
        groups.append(np.column_stack([bx + sides * widths / 2, by, widths, np.full(len(blocked), LINE_PX)]))
    boxes = np.vstack(groups)
    return np.asarray(boxes[np.isfinite(boxes).all(axis=1)])


def _beads(strokes: np.ndarray, limits: Limits) -> np.ndarray:
    """Points along lines, at most BEAD_PX apart: [bead, (x, y)]."""
    x0, y0, x1, y1 = strokes.T
    start, end = (np.column_stack(_to_px(x, y, limits)) for x, y in ((x0, y0), (x1, y1)))
    length = np.nan_to_num(np.hypot(*(end - start).T), nan=0.0, posinf=0.0)
    count = np.clip(np.ceil(length / BEAD_PX), 1, 100).astype(int)
    line = np.repeat(np.arange(len(strokes)), count)
    place = np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)
    along = ((place + 0.5) / count[line])[:, None]
    return np.asarray(start[line] + (end - start)[line] * along)


def _beads_under(places: np.ndarray, beads: np.ndarray) -> np.ndarray:
    """How many beads each place covers, to the size of a cell, by a table of sums: there are hundreds of each."""
    shape = np.ceil(np.array(PLOT_PX) / CELL_PX).astype(int)
    with np.errstate(invalid="ignore"):  # a bead that is nowhere is in no cell
        cells = np.floor(beads / CELL_PX)
        cells = cells[((cells >= 0) & (cells < shape)).all(axis=1)].astype(int)
    counts = np.bincount(cells[:, 0] * shape[1] + cells[:, 1], minlength=int(shape.prod())).reshape(shape)
    below = np.zeros(shape + 1)
    below[1:, 1:] = counts.cumsum(axis=0).cumsum(axis=1)
    centre, half = places[..., :2], places[..., 2:] / 2
    x0, y0, x1, y1 = (
        np.clip(np.nan_to_num(np.rint(edge[..., axis] / CELL_PX)), 0, shape[axis]).astype(int)
        for edge in (centre - half, centre + half) for axis in (0, 1)
    )  # fmt: skip
    return np.asarray(below[x1, y1] - below[x0, y1] - below[x1, y0] + below[x0, y0])


_NEAR = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)]
_FAR = [(s, float(r)) for r in (1, -1, 2, -2, 3, -3) for s in (1.0, -1.0, 0.0, 1.6, -1.6)]
_SIDES = np.array(_NEAR + _FAR)
"""Where a label may stand, best first: half its width to the side, and lines up or down."""


def _places(px: np.ndarray, py: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Where each label may stand: [label, place, (centre x, centre y, width, height)]."""
    places = np.empty((len(px), len(_SIDES), 4))
    places[..., 0] = px[:, None] + _SIDES[:, 0] * (widths[:, None] / 2 + 9)
    places[..., 1] = py[:, None] + _SIDES[:, 1] * LINE_PX
    places[..., 2], places[..., 3] = widths[:, None], LINE_PX
    return places


def _cost(places: np.ndarray, boxes: np.ndarray, beads: np.ndarray) -> np.ndarray:
    """What each place covers and how far it sticks out of the picture, the better sides first: [label, place]."""
    cx, cy, half = places[..., 0], places[..., 1], places[..., 2] / 2
    beyond = (cx + half - PLOT_PX[0], half - cx, cy + 8 - PLOT_PX[1], 8 - cy)
    outside = sum(np.maximum(side, 0.0) for side in beyond)
    covered = _overlaps(places.reshape(-1, 4), boxes).reshape(cx.shape) + BEAD_COST * _beads_under(places, beads)
    return np.asarray(covered + 20.0 * outside + 3.0 * np.arange(len(_SIDES)))


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


def spread_linear(y: Sequence[float], limits: tuple[float, float], gap_px: float = LINE_PX) -> np.ndarray:
    """`spread` for a linear axis."""
    low, high = limits
    heights: np.ndarray = low + (high - low) * np.log(
        spread(np.exp((np.asarray(y, float) - low) / (high - low)).tolist(), (1.0, np.e), gap_px)
    )
    return heights


def kept_inside(x: Sequence[float], texts: Sequence[str], limits: Limits) -> np.ndarray:
    """Label centres moved along a log axis just far enough that no centred text leaves the picture."""
    px, _ = _to_px(np.asarray(x, float), np.ones(len(x)), (limits[0], limits[1], 1.0, 10.0))
    half = np.array([CHAR_PX * len(text) / 2 + 2 for text in texts])
    inside = np.clip(px, half, PLOT_PX[0] - half)
    centres: np.ndarray = limits[0] * (limits[1] / limits[0]) ** (inside / PLOT_PX[0])
    return centres

"""Where two curves meet: regimes with each other, or a regime with a roof."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from physics.regimes import REGIMES
from physics.scenario import Scenario
from physics.sweep import AXES, sweep_arrays

COLUMNS = ("axis", "quantity", "a", "b", "x", "y")


def crossings(curves: pd.DataFrame | Mapping[str, tuple[Any, Any]], quantity: str = "bytes", axis: str | None = None) -> pd.DataFrame:
    """Points where two curves meet, straight lines between samples on log-log axes.

    curves: a frame of `sweep` over one axis, or name -> (x, y) with a common x.
    quantity: column to compare when a frame is given.
    axis: swept column when a frame is given; None finds it.
    Returns one row per crossing: axis, quantity, a (above before), b (above after), x, y. Samples that are not positive and
    finite are gaps. For a scenario, `find_crossings` is exact.
    """
    if isinstance(curves, pd.DataFrame):
        axis = axis or _swept(curves)
        if quantity not in curves:
            raise ValueError(f"quantity: {quantity!r} is not a column of this frame; it has {', '.join(map(str, curves.columns))}")
        if curves.duplicated([axis, "regime"]).any():
            raise ValueError(f"crossings: this frame has several rows for one {axis} and regime; choose one value of its other axes first")
        groups = {
            str(name): (part[axis].to_numpy(float), part[quantity].to_numpy(float))
            for name, part in curves.groupby("regime", observed=True)
        }
    else:
        groups = {str(name): (np.asarray(x, float), np.asarray(y, float)) for name, (x, y) in curves.items()}
    return pd.DataFrame(crossing_rows(groups, quantity, axis or "x"), columns=list(COLUMNS))


def crossing_rows(curves: Mapping[str, tuple[np.ndarray, np.ndarray]], quantity: str, axis: str) -> list[dict[str, Any]]:
    """The rows of `crossings` without a frame.

    curves: name -> (x, y) with a common x [1].
    quantity, axis: names written into the rows.
    """
    for (a, (x, _)), (b, (xb, _)) in pairwise(curves.items()):
        if x.shape != xb.shape or not np.array_equal(x, xb):
            raise ValueError(f"curves: {a!r} and {b!r} are sampled at different x; give them a common one")
    logs = {name: (_log(x), _log(y)) for name, (x, y) in curves.items()}
    return [
        _row(axis, quantity, a, b, xc, yc, rising)
        for (a, (lx, la)), (b, (_, lb)) in combinations(logs.items(), 2)
        for xc, yc, rising in _log_crossings(lx, la, lb)
    ]


def _row(axis: str, quantity: str, a: str, b: str, x: float, y: float, rising: bool) -> dict[str, Any]:
    above_before, above_after = (a, b) if not rising else (b, a)
    return {"axis": axis, "quantity": quantity, "a": above_before, "b": above_after, "x": x, "y": y}


def _swept(frame: pd.DataFrame) -> str:
    found = [name for name in AXES if name in frame and frame[name].nunique() > 1]
    if len(found) != 1:
        raise ValueError(f"crossings needs one swept axis, this frame has {', '.join(found) or 'none'}; name it with axis=…")
    return found[0]


def _log(values: np.ndarray) -> np.ndarray:
    """Logarithms; NaN where a value is not positive and finite."""
    with np.errstate(all="ignore"):
        logs = np.log(values)
    return np.where(np.isfinite(logs), logs, np.nan)


def _log_crossings(lx: np.ndarray, la: np.ndarray, lb: np.ndarray) -> list[tuple[float, float, bool]]:
    gap = la - lb
    known = np.isfinite(gap + lx)
    turns = known[:-1] & known[1:] & (gap[:-1] != gap[1:]) & ((gap[:-1] < 0.0) != (gap[1:] < 0.0))
    found = []
    for i in np.flatnonzero(turns):
        t = gap[i] / (gap[i] - gap[i + 1])
        at_x, at_y = lx[i] + t * (lx[i + 1] - lx[i]), la[i] + t * (la[i + 1] - la[i])
        found.append((float(np.exp(at_x)), float(np.exp(at_y)), bool(gap[i + 1] > gap[i])))
    return found


def find_crossings(
    scenario: Scenario, axis: str, low: float, high: float, quantity: str = "bytes", regimes: tuple[str, ...] = REGIMES, samples: int = 33
) -> pd.DataFrame:
    """Crossings of the regimes along one axis, refined on the model itself to 1e-9 of the axis.

    scenario: what stays fixed; whether it fits is not asked, since bytes and FLOPs do not depend on it.
    axis: field to sweep, one of `sweep.AXES`.
    low, high: range of the axis, in the axis' own unit [1].
    quantity: column to compare.
    regimes: which regimes to compare.
    samples: points of the coarse pass; two crossings of one pair closer than a sample can be missed [1].
    """
    coarse = np.geomspace(low, high, samples)
    coarse[0], coarse[-1] = low, high
    values = _log_values(scenario, axis, coarse, quantity)
    rows = []
    for a, b in combinations(regimes, 2):
        ia, ib = REGIMES.index(a), REGIMES.index(b)
        gap = values[:, ia] - values[:, ib]
        for i in np.flatnonzero(np.isfinite(gap[:-1]) & np.isfinite(gap[1:]) & ((gap[:-1] < 0.0) != (gap[1:] < 0.0))):
            x, y = _refine(scenario, axis, quantity, ia, ib, coarse[i], coarse[i + 1])
            rows.append(_row(axis, quantity, a, b, x, y, bool(gap[i + 1] > gap[i])))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _log_values(s: Scenario, axis: str, x: np.ndarray, quantity: str) -> np.ndarray:
    axes: dict[str, Any] = {axis: x}
    arrays = sweep_arrays(s, columns=(quantity,), **axes)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(np.asarray(arrays[quantity], float))
    return np.where(np.isfinite(values), values, np.nan)


def _refine(s: Scenario, axis: str, quantity: str, ia: int, ib: int, low: float, high: float) -> tuple[float, float]:
    """Narrow a bracket sixteenfold per pass until it is 1e-9 wide."""
    for _ in range(12):
        x = np.geomspace(low, high, 17)
        values = _log_values(s, axis, x, quantity)
        gap = values[:, ia] - values[:, ib]
        turn = np.flatnonzero((gap[:-1] < 0.0) != (gap[1:] < 0.0))
        if not turn.size or high / low - 1.0 < 1e-9:
            break
        low, high = x[turn[0]], x[turn[0] + 1]
    return float(np.sqrt(low * high)), float(np.exp(values[8, ia]))

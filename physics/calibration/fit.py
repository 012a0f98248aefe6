"""Robust fits of a few parameters to measured times, with intervals and errors on data that was left out.

Times span six decades, so residuals are logarithms of ratios; they follow a Huber law (squares inside 10 %, absolute outside), which
one bad row in ten cannot move far. Parameters are kept inside their range by a logistic of their logarithm, and pulled weakly
towards a stated start, so that what the data cannot tell stays where physics puts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]
Seconds = Callable[[Mapping[str, Any], pd.DataFrame], Any]

HUBER = 0.1
INTERVAL = (0.1, 0.9)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimate: where it starts, how far from there it is believed to be, and its range.

    start: value before any data, in its own unit. spread: standard deviation of its logarithm before any data [1].
    low, high: ends of its range, in its own unit.
    """

    name: str
    start: float
    spread: float
    low: float
    high: float
    unit: str = "1"


@dataclass(frozen=True)
class Form:
    """An estimate: its parameters, the seconds it gives rows of a frame, and how many rows its starts are worth [1]."""

    name: str
    parameters: tuple[Parameter, ...]
    seconds: Seconds
    prior_rows: float = 10.0

    def named(self, values: Array) -> dict[str, float]:
        """Parameters by name."""
        return {p.name: float(value) for p, value in zip(self.parameters, values, strict=True)}


@dataclass(frozen=True)
class _Problem:
    """Residuals of a form on rows, the priors among them."""

    form: Form
    columns: dict[str, Array]
    logs: Array
    weights: Array

    def values(self, z: Array) -> Array:
        low, high = (np.log([getattr(p, end) for p in self.form.parameters]) for end in ("low", "high"))
        return np.asarray(np.exp(low + (high - low) / (1.0 + np.exp(-z))))

    def residuals(self, z: Array) -> Array:
        values = self.values(z)
        seconds = self.form.seconds(self.form.named(values), self.columns)  # type: ignore[arg-type]
        starts, spreads = (np.array([getattr(p, name) for p in self.form.parameters]) for name in ("start", "spread"))
        return np.concatenate([self.logs - np.log(seconds), HUBER * np.log(starts / values) / spreads])

    def cost(self, residuals: Array) -> float:
        size = np.abs(residuals)
        return float(np.sum(self.weights * np.where(size < HUBER, size**2 / (2 * HUBER), size - HUBER / 2)))


def fit(form: Form, frame: pd.DataFrame, weights: Array | None = None, column: str = "measured_s") -> dict[str, float]:
    """Parameters that fit a frame, each in its own unit.

    Minimises the Huber cost of log(measured / estimate) by damped Gauss-Newton steps on reweighted squares.
    form: the estimate. frame: rows with what it reads and what was measured. weights: of the rows; None: all alike.
    column: name of the measured time [s].
    """
    rows = np.ones(len(frame)) if weights is None else weights / weights.mean()
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    prior = np.full(len(form.parameters), form.prior_rows)
    problem = _Problem(form, columns, np.log(frame[column].to_numpy(float)), np.concatenate([rows, prior]))
    return form.named(problem.values(_descend(problem, _start(form))))


def _start(form: Form) -> Array:
    low, high, at = (np.log([getattr(p, name) for p in form.parameters]) for name in ("low", "high", "start"))
    return np.asarray(np.log((at - low) / (high - at)))


def _descend(problem: _Problem, z: Array) -> Array:
    residuals, damping = problem.residuals(z), 1e-2
    best = problem.cost(residuals)
    for _ in range(60):
        slope = _slope(problem, z, residuals)
        pull = problem.weights / np.maximum(np.abs(residuals), HUBER)
        curve, down = slope.T @ (slope * pull[:, None]), slope.T @ (pull * residuals)
        before = best
        for _ in range(12):
            step = np.linalg.solve(curve + damping * np.diag(np.diag(curve) + 1e-9), down)
            tried = np.clip(z - np.clip(step, -2.0, 2.0), -12.0, 12.0)
            new = problem.residuals(tried)
            if problem.cost(new) < best:
                z, residuals, best, damping = tried, new, problem.cost(new), max(damping / 4, 1e-7)
                break
            damping *= 4
        if before - best < 1e-7 * before:
            break
    return z


def _slope(problem: _Problem, z: Array, residuals: Array) -> Array:
    """Change of the residuals with each parameter."""
    slope = np.empty((residuals.size, z.size))
    for j in range(z.size):
        moved = z.copy()
        moved[j] += 1e-4
        slope[:, j] = (problem.residuals(moved) - residuals) / 1e-4
    return slope


def group_weights(groups: pd.Series) -> Array:
    """Weights that let a group of n rows count as the square root of n [1].

    groups: the group of each row.
    """
    return np.asarray(1.0 / np.sqrt(groups.map(groups.value_counts()).to_numpy(float)))


def log_errors(form: Form, values: Mapping[str, float], frame: pd.DataFrame, column: str = "measured_s") -> Array:
    """log(measured / estimate) of each row [1].

    form, values: the estimate and its parameters. frame: rows. column: name of the measured time [s].
    """
    return np.asarray(np.log(frame[column].to_numpy(float) / np.asarray(form.seconds(values, frame), float)))


def left_out_errors(form: Form, frame: pd.DataFrame, group: str, weight_by: str, column: str = "measured_s") -> tuple[pd.Series, pd.Series]:
    """(errors, baseline errors) of rows whose whole group the fit has never seen: log ratios by row, NaN with only one group [1].

    The baseline is one constant ratio of measured to bound, the median of the rows that were not left out.
    form: the estimate. frame: rows, with `bound_s`. group: column whose values are left out one by one.
    weight_by: column of the groups that `group_weights` balances. column: name of the measured time [s].
    """
    errors, baseline = (pd.Series(np.nan, index=frame.index) for _ in range(2))
    for key in frame[group].unique():
        inside, outside = frame[frame[group] == key], frame[frame[group] != key]
        if outside.empty:
            continue
        values = fit(form, outside, group_weights(outside[weight_by]), column)
        errors[inside.index] = log_errors(form, values, inside, column)
        usual = np.median(np.log(outside[column] / outside["bound_s"]))
        baseline[inside.index] = np.log(inside[column] / inside["bound_s"]) - usual
    return errors, baseline


def bootstrap(
    form: Form, frame: pd.DataFrame, group: str, draws: int = 16, seed: int = 7, column: str = "measured_s"
) -> dict[str, tuple[float, float]]:
    """Interval of each parameter, in its own unit: 10th to 90th percentile of fits to whole groups drawn with replacement.

    With a single group there is nothing to draw, and rows are drawn instead: an interval that knows nothing of other groups.
    form: the estimate. frame: rows. group: column of the groups. draws: fits [1]. seed: of the draws.
    column: name of the measured time [s].
    """
    random, keys = np.random.default_rng(seed), np.sort(frame[group].unique())
    parts = {key: np.flatnonzero((frame[group] == key).to_numpy()) for key in keys}
    fits = []
    for _ in range(draws):
        if keys.size > 1:
            rows = np.concatenate([parts[key] for key in random.choice(keys, keys.size)])
        else:
            rows = random.integers(0, len(frame), len(frame))
        drawn = frame.iloc[rows]
        fits.append(list(fit(form, drawn, group_weights(drawn[group]), column).values()))
    low, high = np.quantile(np.array(fits), INTERVAL, axis=0)
    return {p.name: (float(a), float(b)) for p, a, b in zip(form.parameters, low, high, strict=True)}

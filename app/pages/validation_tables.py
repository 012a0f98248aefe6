"""Tables of the Validation page: what each shows, and its rows as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

from app import sentences_validation as sentences
from app import validation
from app.cells import Column, Row, column
from app.estimates import Interval
from app.quantities import DASH, format_quantity
from app.state import Snapshot

FITTED = ("compute_frac", "memory_frac", "network_frac", "pad_tokens", "layer_floor_s")


class Table(NamedTuple):
    """One table: title, frame of a snapshot, rows of a frame, columns, sentence of a snapshot."""

    title: str
    data: Callable[[Snapshot], pd.DataFrame]
    rows: Callable[[pd.DataFrame], list[Row]]
    columns: list[Column]
    sentence: Callable[[Snapshot], str]


def _records(table: pd.DataFrame) -> list[Any]:
    return list(table.itertuples())


def _row(key: object, *cells: str) -> Row:
    return Row(key=str(key), cells=list(cells), color="")


def percent(value: float) -> str:
    """A share as a whole number of per cent."""
    return DASH if pd.isna(value) else f"{100.0 * value:.0f} %"


def seconds(value: float, digits: int = 3) -> str:
    """A time as text."""
    return format_quantity(value, "s", digits)


def error_rows(table: pd.DataFrame) -> list[Row]:
    """Errors on left-out data, one row per regime and what was left out."""
    return [
        _row(
            r.Index, r.regime, f"{r.left_out} ({r.groups})", f"{r.rows:,}", percent(r.median), percent(r.p90), percent(r.baseline_median),
            percent(r.goal), DASH if pd.isna(r.goal) else "yes" if r.median <= r.goal else "no",
        )
        for r in _records(table)
    ]  # fmt: skip


def published_rows(table: pd.DataFrame) -> list[Row]:
    """Published results beside bound and estimate."""
    return [
        _row(
            r.id, r.title, f"{r.model} on {r.machine}", seconds(r.bound_s),
            " ".join(Interval(r.estimate_low_s, r.estimate_s, r.estimate_high_s).text("s")), seconds(r.measured_s),
            f"{r.ratio:.2f}", r.source,
        )
        for r in _records(table)
    ]  # fmt: skip


def finding_rows(table: pd.DataFrame) -> list[Row]:
    """The fastest impossible rows."""
    return [
        _row(
            r.Index, f"{r.machine}, {r.model}", f"{r.label}, {r.format}", seconds(r.measured_s), seconds(r.bound_s),
            f"{r.ratio:.2f}", r.reason,
        )
        for r in _records(validation.fastest(table, sentences.EACH, sentences.SHOWN))
    ]  # fmt: skip


def fitted_rows(table: pd.DataFrame) -> list[Row]:
    """Fitted values with their intervals, one row per family, regime and format."""
    rows = []
    keys = ["family", "regime", "format"]
    for _, part in table[table["parameter"].isin(FITTED)].groupby(keys, sort=False):
        first = _records(part)[0]
        values = {r.parameter: _interval(r) for r in _records(part)}
        name = f"{first.regime}, {first.format}" if first.format else first.regime
        cells = [values.get(parameter, DASH) for parameter in FITTED]
        rows.append(_row(f"{first.family} {name}", name, first.family, *cells, str(first.groups)))
    return rows


def _interval(row: Any) -> str:
    if row.unit == "s":
        ends, unit = Interval(row.low, row.value, row.high).text("s")
        return f"{seconds(row.value, 2)} ({ends} {unit})"
    number = "{:.0f}" if row.value >= 10 else "{:.2g}"
    low, value, high = (number.format(x) for x in (row.low, row.value, row.high))
    return f"{value} ({low}–{high})"


def coverage_rows(table: pd.DataFrame) -> list[Row]:
    """What became of the rows of each file."""
    return [_row(r.Index, r.file, r.outcome, f"{r.rows:,}") for r in _records(table)]


def _text(key: str, label: str, hint: str = "") -> Column:
    return column(key, label, hint=hint, align="left")


HALF = "Half of the rows are nearer than this; the error is |log(measured / estimate)|."
TABLES: dict[str, Table] = {
    "errors": Table(
        "Errors on data left out", validation.errors, error_rows, [
            _text("regime", "Regime"), _text("left", "Left out (how many)"), column("rows", "Rows"),
            column("median", "Median", hint=HALF), column("p90", "90th percentile"),
            column("baseline", "Constant ratio, median", hint="The median error of one ratio per regime."),
            column("goal", "Goal"), column("met", "Met"),
        ], lambda _s: "",
    ),
    "published": Table(
        "Published results that map to a scenario", validation.results, published_rows, [
            _text("title", "Result"), _text("setup", "Setup"), column("bound", "Bound"), column("estimate", "Estimate"),
            column("measured", "Measured"), column("ratio", "Ratio", hint="Measured over estimate."), _text("source", "Source"),
        ], sentences.published,
    ),
    "findings": Table(
        "Faster than the bound", validation.findings, finding_rows, [
            _text("where", "Machine, model"), _text("row", "Row"), column("measured", "Measured"),
            column("bound", "Bound"), column("ratio", "Ratio", hint="Measured over bound."), _text("reason", "What may explain it"),
        ], sentences.findings,
    ),
    "fitted": Table(
        "Fitted efficiencies", validation.fitted, fitted_rows, [
            _text("regime", "Regime, format"), _text("family", "Family"), column("compute", "Compute"), column("memory", "Memory"),
            column("network", "Network"),
            column("pad", "Padding, tokens", hint="Tokens of arithmetic an expert wastes on unfilled tiles."),
            column("floor", "Floor a layer"), column("groups", "Groups", hint="Models times machines."),
        ], sentences.fitted,
    ),
    "coverage": Table(
        "What became of the measured rows", lambda _s: validation.frame("calibration_coverage"), coverage_rows, [
            _text("file", "File"), _text("outcome", "Outcome"), column("rows", "Rows"),
        ], sentences.coverage,
    ),
}  # fmt: skip

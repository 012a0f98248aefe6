"""The table of the regimes as texts: the page Regimes and the report show the same cells. No Panel here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from app import estimates, sentences
from app.cells import Column, Row, column
from app.plots.labels import NAMES
from app.quantities import format_quantity
from app.state import Snapshot
from physics.catalog import glossary
from physics.regimes import BOUNDS, REGIMES

COLUMNS = (
    "flops", "weight_bytes", "kv_bytes", "activation_bytes", "intensity_flops_per_byte", "roofline_s", "bound", "energy_j",
)  # fmt: skip
UNITS = {"flops": "FLOP", "intensity_flops_per_byte": "FLOP/B", "energy_j": "J"}


def unit(name: str) -> str:
    """Unit of a column of the table."""
    return UNITS.get(name, "B" if name.endswith("bytes") else "s")


def shown_columns(s: Snapshot | None) -> tuple[str, ...]:
    """Keys of the columns: the estimate stands beside its bound while it is switched on."""
    at = COLUMNS.index("roofline_s") + 1
    return COLUMNS if s is None or s.scenario.efficiencies is None else (*COLUMNS[:at], "estimate_s", *COLUMNS[at:])


def table_columns(s: Snapshot | None = None) -> list[Column]:
    """Columns of the regimes' table, named by the glossary."""
    words = glossary()
    sides: dict[str, Literal["left"]] = {"bound": "left"}
    named = [column(name, words[name]["label"], "", words[name]["definition"], sides.get(name, "")) for name in shown_columns(s)]
    return [column("regime", "Regime", align="left"), *named]


def table_rows(s: Snapshot) -> list[Row]:
    """One row per regime; numbers with units, the binding resource as a word with its share."""
    keys = shown_columns(s)
    cells = [[estimates.cell(s, i) if key == "estimate_s" else cell_text(s.results, i, key) for key in keys] for i in range(len(REGIMES))]
    return [Row(key=name, cells=[NAMES[name], *cells[i]], color=name) for i, name in enumerate(REGIMES)]


def cell_text(results: Mapping[str, Any], i: int, key: str) -> str:
    """One cell of the table, of the i-th regime."""
    if key != "bound":
        return format_quantity(float(results[key][i]), unit(key))
    if not results["flops"][i] > 0:
        return "–"
    resource = BOUNDS[int(results["bound_index"][i])]
    return f"{resource} {sentences.share_text(float(results[f'{resource}_frac'][i]))}"

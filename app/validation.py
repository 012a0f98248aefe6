"""What the Validation page shows: the tables of calibration, filtered by the choices of the page. No GUI library is imported here."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from app.state import Choices, Snapshot
from physics.calibrated import ALL, MEASURED, POOLED, calibration_table, load_efficiencies, measured
from physics.calibration.published import published
from physics.catalog import machine_families

GROUPS = {
    "experts": "decode_experts",
    "wide experts": "decode_experts",
    "MLA decode": "decode_attention",
    "KDA decode": "decode_attention",
    "indexer decode": "decode_attention",
    "sparse attention decode": "decode_attention",
    "MLA prefill": "prefill",
    "KDA prefill": "prefill",
    "indexer prefill": "prefill",
    "sparse attention prefill": "prefill",
    "TTFT": "sram",
    "indexer midfill": "midfill",
    "sparse attention midfill": "midfill",
    "TPOT": "decode_shared",
}
"""Measured regime -> colour of its points."""
WORDS = {
    "decode_experts": "experts",
    "decode_attention": "decode attention",
    "prefill": "prefill attention",
    "midfill": "midfill attention",
    "decode_shared": "TPOT of servers",
    "sram": "TTFT of servers",
}
"""Colour -> what its points are, as written in the picture."""
KERNELS = ("experts", "wide experts", "MLA decode", "MLA prefill", "midfill attention", "KDA decode", "KDA prefill")
JUDGED = (*KERNELS, "TPOT", "TTFT", "TTFT, stack unknown")
"""Regimes of the picture of errors, in order."""


@lru_cache
def frame(name: str) -> pd.DataFrame:
    """One table of calibration with its numbers as numbers."""
    table = pd.DataFrame(calibration_table(name)).replace("", np.nan)
    for column in table.columns:
        numbers = pd.to_numeric(table[column], errors="coerce")
        if numbers.notna().sum() == table[column].notna().sum() and column not in ("label", "format"):
            table[column] = numbers
    words = [column for column in table.columns if not pd.api.types.is_numeric_dtype(table[column])]
    return table.fillna(dict.fromkeys(words, ""))


def options(column: str) -> list[str]:
    """Values a filter of the page offers, "all" first.

    column: "regime", "machine" or "model".
    """
    return [ALL, *measured(column)]


def kept(table: pd.DataFrame, choices: Choices) -> pd.Series:
    """Which rows of a table the filters keep; a filter on what a table does not tell keeps all of it."""
    keep = pd.Series(True, index=table.index)
    for column, wanted in (("regime", choices.measured_regime), ("machine", choices.measured_machine), ("model", choices.measured_model)):
        if wanted != ALL and column in table:
            keep &= table[column] == wanted
    return keep


def points(s: Snapshot) -> pd.DataFrame:
    """Sampled rows with seconds, those the filters drop as NaN; always as many."""
    table = frame("calibration_points")
    seconds = ["measured_s", "bound_s", "estimate_s"]
    return table.assign(**{name: table[name].where(kept(table, s.choices)) for name in seconds}, group=table["regime"].map(GROUPS))


def findings(s: Snapshot) -> pd.DataFrame:
    """Rows faster than their bound that the filters keep, the fastest first."""
    table = frame("calibration_findings")
    return table[kept(table, s.choices)].sort_values("ratio", ignore_index=True)


def fastest(table: pd.DataFrame, each: int, most: int) -> pd.DataFrame:
    """The fastest rows of every regime, at most so many."""
    return table.groupby("regime", sort=False).head(each).head(most)


def errors(s: Snapshot) -> pd.DataFrame:
    """Errors on left-out data of the chosen machine, or of all."""
    table = frame("calibration_errors")
    machine = s.choices.measured_machine if s.choices.measured_machine != ALL else "all"
    wanted = (table["machine"] == machine) & ((s.choices.measured_regime in (ALL,)) | (table["regime"] == s.choices.measured_regime))
    rank = {name: i for i, name in enumerate(JUDGED)}
    order = table["regime"].map(lambda name: rank.get(name, 4.5))  # parts of midfill attention stand after it
    return table[wanted].assign(order=order).sort_values("order", kind="stable").drop(columns="order").reset_index(drop=True)


def family(s: Snapshot) -> str:
    """Family whose fits speak for the present machine."""
    return machine_families().get(s.scenario.machine.name, POOLED)


def fitted(s: Snapshot) -> pd.DataFrame:
    """Fitted values that speak for the present machine: its family's and those of all machines together."""
    table = frame("efficiencies")
    mine = table["family"].isin([family(s), MEASURED if family(s) != POOLED else POOLED]) | (table["regime"] == "serving")
    wanted = s.choices.measured_regime
    serving = wanted in ("TPOT", "TTFT")
    regime = (table["regime"] == wanted) | (serving & (table["regime"] == "serving"))
    return table[mine & (regime if wanted != ALL else True)].reset_index(drop=True)


def results(s: Snapshot) -> pd.DataFrame:
    """Published results, those of the chosen machine and model where one is chosen."""
    table = published()
    same = s.choices.measured_machine in (ALL, *table["machine"].unique())
    rows = kept(table.drop(columns=[] if same else ["machine"]), s.choices)
    return table[rows].reset_index(drop=True)


def basis(s: Snapshot) -> str:
    """What the fitted values of the present machine rest on."""
    return load_efficiencies(s.scenario.machine).basis

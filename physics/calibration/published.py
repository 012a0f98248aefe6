"""Published results that map to a scenario, beside the bound and the estimate this code gives now."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pandas as pd

from physics.calibrated import calibration_table, load_efficiencies
from physics.catalog import Row, load_machine, load_model
from physics.efficiency import REGIMES
from physics.regimes import regime_arrays
from physics.scenario import Scenario

LINES = {"prefill": ("prefill",), "decode": REGIMES[2:], "attention layer": ("decode_attention",), "experts layer": ("decode_experts",)}
"""Quantity of a row -> regimes whose seconds add up to it; those of a layer are divided by the layers."""


def scenario_of(row: Row) -> Scenario:
    """The scenario of a row of `validation.csv`, with calibrated efficiencies.

    row: as read.
    """
    machine = load_machine(row["machine"])
    numbers: dict[str, Any] = {name: int(row[name]) for name in ("prompt_tokens", "context_tokens", "batch", "gpus_per_stage")}
    return Scenario(
        model=load_model(row["model"]),
        machine=machine.replace(memory_bytes=1e15),  # what was run has fitted; how its memory was laid out is not stated
        efficiencies=load_efficiencies(row["machine"]),
        weight_dtype=row["weights"] or None,
        kv_dtype=row["kv_dtype"],
        attention_parallel=row["attention_parallel"],
        **numbers,
    )


def _layers(row: Row) -> float:
    model = load_model(row["model"])
    if row["quantity"] == "experts layer":
        return float(sum(count for count, _ in model.moe_groups))
    return float(model.n_layers) if row["quantity"] == "attention layer" else 1.0


@lru_cache
def published() -> pd.DataFrame:
    """One row per published result: what it is, bound, estimate with its interval, measured seconds, ratio, source."""
    return pd.DataFrame([_compared(row) for row in calibration_table("validation")])


def _compared(row: Row) -> dict[str, Any]:
    results, layers = regime_arrays(scenario_of(row)), _layers(row)
    lines = [REGIMES.index(name) for name in LINES[row["quantity"]]]
    names = {"bound_s": "roofline_s", "estimate_low_s": "estimate_low_s", "estimate_s": "estimate_s", "estimate_high_s": "estimate_high_s"}
    seconds = {name: float(results[column][lines].sum()) / layers for name, column in names.items()}
    measured = float(row["measured_s"])
    told = {name: row[name] for name in ("id", "title", "quantity", "model", "machine", "source", "confidence", "derivation")}
    return told | seconds | {"measured_s": measured, "ratio": measured / seconds["estimate_s"]}

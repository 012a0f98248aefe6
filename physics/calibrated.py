"""Fitted efficiencies of `data/efficiencies.csv` for a machine, measured or not, and the tables that say how good they are."""

from __future__ import annotations

import math
from functools import lru_cache

from physics.catalog import DATA, DataError, Row, load_machine, machine_families, read_rows, sources
from physics.efficiency import PHASES, Efficiencies, PartEfficiency
from physics.machine import Machine

ALL = "all"
"""Filter that keeps everything."""
POOLED = "all machines"
MEASURED = "measured families"
ATTENTION = {"prefill": "MLA prefill", "midfill": "MLA prefill", "decode": "MLA decode"}
SPREAD = {"prefill": "TTFT", "midfill": "TTFT", "decode_attention": "TPOT", "decode_experts": "TPOT", "decode_shared": "TPOT"}
TABLES = ("efficiencies", "calibration_errors", "calibration_findings", "calibration_coverage", "calibration_points", "validation")


@lru_cache
def calibration_table(name: str) -> tuple[Row, ...]:
    """Rows of one of TABLES, as text.

    name: without its ending.
    """
    if name not in TABLES:
        raise KeyError(f"calibration table {name!r} is not one of {', '.join(TABLES)}")
    return read_rows(DATA / f"{name}.csv", sources())


@lru_cache
def measured(column: str) -> tuple[str, ...]:
    """Regimes, machines or models that were measured, in order.

    column: "regime", "machine" or "model".
    """
    return tuple(sorted({row[column] for row in calibration_table("calibration_points")}))


def check_measured(column: str, value: str) -> None:
    """Refuse, with a ValueError that lists some, a filter on what was never measured.

    column: "regime", "machine" or "model". value: one of them, or ALL.
    """
    if value != ALL and value not in measured(column):
        some = ", ".join(measured(column)[:4])
        raise ValueError(f"measured_{column}: {value[:40]!r} was not measured; it is {ALL}, or one of {some} and so on")


@lru_cache
def _fitted() -> dict[tuple[str, str, str], dict[str, float]]:
    """Parameters by (family, regime, format)."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in calibration_table("efficiencies"):
        value = float(row["value"])
        if not math.isfinite(value) or value <= 0.0:
            raise DataError(f"efficiencies.csv, {row['regime']} {row['parameter']}: {row['value']!r} is not a positive number")
        found.setdefault((row["family"], row["regime"], row["format"]), {})[row["parameter"]] = value
    return found


def _of(family: str, regime: str, weights: str = "") -> dict[str, float]:
    """Parameters of the narrowest scope there is: the family's, else those of all machines."""
    tried = ((family, weights), (POOLED, weights), (family, ""), (POOLED, ""))
    return next(_fitted()[f, regime, w] for f, w in tried if (f, regime, w) in _fitted())


def measured_formats() -> tuple[str, ...]:
    """Weight formats whose expert kernels were measured."""
    return tuple(sorted({name for _, regime, name in _fitted() if regime == "experts" and name}))


@lru_cache
def load_efficiencies(machine: str | Machine) -> Efficiencies:
    """Calibrated efficiencies of a machine, its name or alias; of all machines together where its family was never measured.

    Attention and experts reach what their kernels reach, the rest and the floors are those of serving runs. `basis` says what they
    rest on, and `spread` is that of machines left out where the family was not measured.
    machine: a machine, also of your own, or a name or alias; KeyError lists close matches.
    """
    name = machine.name if isinstance(machine, Machine) else load_machine(machine).name
    family = machine_families().get(name, "")
    step = _of(POOLED, "serving")
    network = step["network_frac"]
    parts = [_kernel("experts", "", weights, _of(family, "experts", weights), network) for weights in ("", *measured_formats())]
    for phase in PHASES:
        parts.append(_kernel("attention", phase, "", _of(family, ATTENTION[phase]), network))
        floor = step["layer_floor_s" if phase == "decode" else "prefill_layer_floor_s"]
        rates = {key: step[key] for key in ("compute_frac", "memory_frac", "network_frac", "collective_floor_s")}
        parts.append(PartEfficiency("rest", phase, layer_floor_s=floor, **rates))  # type: ignore[arg-type]
    stacks = [value for key, value in step.items() if key.startswith("request_s_")]
    request = math.exp(sum(map(math.log, stacks)) / len(stacks))
    return Efficiencies(parts=tuple(parts), step_s=step["step_s"], request_s=request, spread=_spread(family), basis=_basis(name, family))


def _kernel(part: str, phase: str, weights: str, values: dict[str, float], network: float) -> PartEfficiency:
    """A kernel's efficiencies without its floor: in a step, the floors are those of serving runs."""
    rates = {key: values[key] for key in ("compute_frac", "memory_frac", "pad_tokens") if key in values}
    return PartEfficiency(part, phase, weights, network_frac=network, **rates)


def _spread(family: str) -> tuple[tuple[str, float, float], ...]:
    """Of a measured family what left-out models needed; of another machine whatever is wider, that or what left-out families needed."""
    ratios = {}
    for regime in ("TPOT", "TTFT"):
        used = [_fitted()[scope, regime, ""] for scope in ((MEASURED,) if family else (MEASURED, POOLED))]
        ratios[regime] = min(1.0, *(one["ratio_low"] for one in used)), max(1.0, *(one["ratio_high"] for one in used))
    return tuple((regime, *ratios[quantity]) for regime, quantity in SPREAD.items())


def _basis(name: str, family: str) -> str:
    if not family:
        return f"{name} and its family were never measured: efficiencies of all measured machines together, and a wider interval."
    return f"Kernels measured on the {family} family, and serving runs on Hopper and Blackwell machines."

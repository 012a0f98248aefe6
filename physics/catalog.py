"""The data folder as models, machines, energy levels, glossary and presets; the only module that reads it.

Every number in `data/` names its source and how far it was checked; a row without either is refused here, so no
such number can reach a result. Files are described in `data/README.md`.
"""

from __future__ import annotations

import csv
import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from physics.formats import WeightFormats
from physics.layers import (
    CompressedAttention,
    DenseFFN,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    MoEFFN,
)
from physics.machine import ACCOUNTINGS, EnergyLevel, Machine
from physics.model import Model
from physics.recurrent import LinearAttention
from physics.si import PJ, PJ_PER_BIT

DATA = Path(__file__).resolve().parent.parent / "data"
CONFIDENCE = ("read", "secondary", "derived")
STATUS = ("used", "conflict", "doubtful")
KINDS: dict[str, Any] = {
    "gqa": GroupedQueryAttention,
    "mla": LatentAttention,
    "compressed": CompressedAttention,
    "linear": LinearAttention,
    "dense": DenseFFN,
    "moe": MoEFFN,
}
UNITS = {
    "TFLOP/s": 1e12, "TOP/s": 1e12, "TB/s": 1e12, "GB/s": 1e9, "GB": 1e9, "GiB": 2.0**30, "MB": 1e6, "MiB": 2.0**20,
    "W": 1.0, "kW": 1e3, "USD/h": 1.0, "accelerators": 1.0, "count": 1.0, "year": 1.0,
    "pJ/bit": PJ_PER_BIT, "pJ/FLOP": PJ,
}  # fmt: skip
PEAK_PREFIX = "peak_"
PEAK_FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
FIELD_OF_QUANTITY = {
    "memory_capacity": "memory_bytes",
    "memory_bandwidth": "memory_bytes_per_s",
    "sram_capacity": "sram_bytes",
    "sram_bandwidth": "sram_bytes_per_s",
    "scale_up_bandwidth": "scale_up_bytes_per_s",
    "scale_up_domain": "scale_up_domain",
    "scale_out_bandwidth": "scale_out_bytes_per_s",
    "power_tdp": "tdp_w",
    "power_idle": "idle_w",
    "price": "price_per_hour_usd",
}
"""Which quantity of `machines.csv` fills which field of `Machine`; other quantities are kept for the record."""

Row = Mapping[str, str]


class DataError(ValueError):
    """A row of the data folder that cannot be used; the message names file, row and fault."""


def source_keys(cell: str) -> list[str]:
    """Keys of `sources.csv` in a source cell: `key` or `key:place in it`, several separated by `; `."""
    return [part.split(":", 1)[0].strip() for part in cell.split(";") if part.strip()]


def read_rows(path: Path, known_sources: Iterable[str] | None = None) -> tuple[Row, ...]:
    """Rows of one CSV file, refusing any that has a source column left empty.

    path: the file. known_sources: keys a source may use; None leaves the keys unchecked.
    Raises DataError naming file, row and fault.
    """
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            rows = tuple(reader)
    except OSError as error:
        raise DataError(f"{path.name}: cannot be read ({error.strerror})") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path.name}: not a readable CSV file ({error})") from error
    known = None if known_sources is None else set(known_sources)
    for number, row in enumerate(rows, start=2):
        _check_row(row, f"{path.name}, row {number}", known)
    return rows


def _check_row(row: Row, place: str, known: set[str] | None) -> None:
    if None in row or any(value is None for value in row.values()):
        raise DataError(f"{place}: wrong number of cells")
    for column in (name for name in row if name == "source" or name.endswith("_source")):
        keys = source_keys(row[column])
        if not keys:
            raise DataError(f"{place}: no {column}; every number needs a key of sources.csv")
        unknown = [key for key in keys if known is not None and key not in known]
        if unknown:
            raise DataError(f"{place}: {column} {unknown[0]!r} is not a key of sources.csv")
        confidence = row.get(column.replace("source", "confidence"), "")
        if confidence not in CONFIDENCE:
            raise DataError(f"{place}: confidence of {column} is {confidence!r}, not one of {', '.join(CONFIDENCE)}")


@lru_cache
def _table(name: str) -> tuple[Row, ...]:
    known = None if name == "sources.csv" else sources()
    return read_rows(DATA / name, known)


def sources() -> dict[str, Row]:
    """Every source by its key: citation and kind."""
    return {row["key"]: row for row in _table("sources.csv")}


# ---------------------------------------------------------------- names


def _folded(name: str) -> str:
    return "".join(ch for ch in name.casefold() if ch not in " _")


@lru_cache
def _names(table: str, column: str) -> dict[str, str]:
    """Folded name or alias -> name."""
    names: dict[str, str] = {}
    for row in _table(table):
        for alias in (row[column], *filter(None, row["aliases"].split("|"))):
            if names.setdefault(_folded(alias), row[column]) != row[column]:
                raise DataError(f"{table}: {alias!r} names both {names[_folded(alias)]} and {row[column]}")
    return names


def _resolve(name: str, table: str, column: str) -> str:
    names = _names(table, column)
    found = names.get(_folded(str(name)))
    if found is not None:
        return found
    close = difflib.get_close_matches(_folded(str(name)), names, n=6, cutoff=0.4)
    suggestions = list(dict.fromkeys(names[match] for match in close))[:4]
    hint = f"; did you mean {', '.join(suggestions)}?" if suggestions else ""
    raise KeyError(f"no {column} named {name!r} in data/{table}{hint}")


# ---------------------------------------------------------------- models


def models() -> tuple[str, ...]:
    """Names `load_model` knows, in the order of the file."""
    return tuple(row["model"] for row in _table("models.csv"))


def model_row(name: str) -> Row:
    """What `models.csv` says of one model: sources and confidence of dimensions, totals, context and formats."""
    known = _resolve(name, "models.csv", "model")
    return next(row for row in _table("models.csv") if row["model"] == known)


@lru_cache
def load_model(name: str) -> Model:
    """Model by name or alias, whatever the case; KeyError lists close matches.

    >>> load_model("deepseek-ai/DeepSeek-V3").kv_bytes_per_token()
    70272.0
    """
    row = model_row(name)
    known = row["model"]
    groups = tuple(_layer_group(layer) for layer in _table("layers.csv") if layer["model"] == known)
    if not groups:
        raise DataError(f"layers.csv: no layers of {known}")
    return Model(
        name=known,
        hidden=int(row["hidden"]),
        vocab=int(row["vocab"]),
        groups=groups,
        formats=WeightFormats(**{field.name: row[f"format_{field.name}"] for field in fields(WeightFormats)}),
        tied_embeddings=row["tied_embeddings"] == "yes",
        max_context=int(row["max_context"] or 0),
        published_params=_number(row["published_params"]),
        published_active_params=_number(row["published_active_params"]),
        aliases=tuple(filter(None, row["aliases"].split("|"))),
        source=row["dimensions_source"],
        notes=tuple(filter(None, (row["note"],))),
    )


def _layer_group(row: Row) -> LayerGroup:
    place = f"layers.csv, {row['model']} group {row['order']}"
    try:
        attention = _part(row["attention"], row["attention_parameters"])
        ffn = _part(row["ffn"], row["ffn_parameters"])
        return LayerGroup(int(row["count"]), attention, ffn)
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{place}: {error}") from error


def _part(kind: str, parameters: str) -> Any:
    """An attention or FFN kind from `name=value` words; `yes` is True, digits a number, else text."""
    if kind == "none":
        return None
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}, none")
    return KINDS[kind](**dict(_parameter(word) for word in parameters.split()))


def _parameter(word: str) -> tuple[str, Any]:
    name, sign, value = word.partition("=")
    if not sign:
        raise ValueError(f"{word!r} is not of the form name=value")
    return name, True if value == "yes" else int(value) if value.isdigit() else value


def _number(cell: str) -> float:
    return float(cell) if cell else math.nan


def layer_rows(name: str) -> tuple[Row, ...]:
    """What `layers.csv` says of the layer groups of one model, with sources and confidence."""
    known = _resolve(name, "models.csv", "model")
    return tuple(row for row in _table("layers.csv") if row["model"] == known)


# ---------------------------------------------------------------- machines


def machines(complete_only: bool = True) -> tuple[str, ...]:
    """Machines of the catalog; `complete_only` leaves out those `load_machine` refuses for lack of numbers."""
    names = tuple(row["machine"] for row in _table("machine_names.csv"))
    return tuple(name for name in names if not (complete_only and missing_quantities(name)))


@lru_cache
def _used_rows(machine: str) -> dict[str, Row]:
    """The row in use of each quantity."""
    rows: dict[str, Row] = {}
    for row in _table("machines.csv"):
        if row["status"] not in STATUS:
            raise DataError(f"machines.csv, {row['machine']} {row['quantity']}: status {row['status']!r} is not one of {', '.join(STATUS)}")
        if row["machine"] != machine or row["status"] != "used":
            continue
        if row["quantity"] in rows:
            raise DataError(f"machines.csv, {machine}: two used values of {row['quantity']}; mark one as conflict")
        rows[row["quantity"]] = row
    return rows


def missing_quantities(machine: str) -> list[str]:
    """What a machine lacks before its roofline can be drawn, in words; empty where nothing."""
    rows = _used_rows(_resolve(machine, "machine_names.csv", "machine"))
    needed = {"memory_capacity": "memory capacity", "memory_bandwidth": "memory bandwidth"}
    missing = [words for quantity, words in needed.items() if quantity not in rows]
    if not any(PEAK_PREFIX + name in rows for name in PEAK_FORMATS):
        missing.append("a dense peak of any number format")
    return missing


@lru_cache
def load_machine(name: str) -> Machine:
    """Machine by name or alias, whatever the case; KeyError lists close matches.

    Raises ValueError where the sources lack memory bandwidth, capacity or every dense peak, saying what is missing.

    >>> load_machine("h200").memory_bytes_per_s
    4800000000000.0
    """
    known = _resolve(name, "machine_names.csv", "machine")
    missing = missing_quantities(known)
    if missing:
        lacks = " nor ".join(missing)
        raise ValueError(f"{known}: no usable source gives {lacks}; add the row to data/machines.csv or enter your own numbers")
    rows = _used_rows(known)
    about = next(row for row in _table("machine_names.csv") if row["machine"] == known)
    values: dict[str, Any] = {field: _si(rows[q]) for q, field in FIELD_OF_QUANTITY.items() if q in rows}
    if "scale_up_domain" in values:
        values["scale_up_domain"] = int(values["scale_up_domain"])
    kind = rows["memory_kind"]["value"] if "memory_kind" in rows else "HBM"
    return Machine(
        name=known,
        peaks={name: _si(rows[PEAK_PREFIX + name]) for name in PEAK_FORMATS if PEAK_PREFIX + name in rows},
        memory_kind=kind,
        announced=about["announced"] == "yes",
        aliases=tuple(filter(None, about["aliases"].split("|"))),
        levels=energy_levels(kind),
        flop_j=flop_energies(),
        source=rows["memory_bandwidth"]["source"],
        **values,
    )


@lru_cache
def machine_families() -> dict[str, str]:
    """Family of each machine whose calibration other machines of the family may borrow."""
    return {row["machine"]: row["family"] for row in _table("machine_families.csv")}


def machine_rows(name: str) -> tuple[Row, ...]:
    """Every row of one machine, conflicting and doubtful ones included: quantity, value, unit, status, source."""
    known = _resolve(name, "machine_names.csv", "machine")
    return tuple(row for row in _table("machines.csv") if row["machine"] == known)


def _si(row: Row) -> float:
    place = f"machines.csv, {row['machine']} {row['quantity']}"
    if row["unit"] not in UNITS:
        raise DataError(f"{place}: unit {row['unit']!r} is not one of {', '.join(UNITS)}")
    try:
        value = float(row["value"]) * UNITS[row["unit"]]
    except ValueError as error:
        raise DataError(f"{place}: value {row['value']!r} is not a number") from error
    if not value > 0:
        raise DataError(f"{place}: value {row['value']!r} is not positive")
    return value


# ---------------------------------------------------------------- energy, glossary, presets


@lru_cache
def energy_levels(memory_kind: str) -> dict[tuple[str, str], EnergyLevel]:
    """Energy per byte of each (level, accounting), for machines with this kind of memory.

    A level without a value of its own under the accounting asked for uses a stand-in; its `accounting` and label say so.
    """
    levels: dict[tuple[str, str], EnergyLevel] = {}
    for row in _table("energy_levels.csv"):
        if row["level"] == "flop" or memory_kind not in (row["memory_kind"] or memory_kind).split("|"):
            continue
        if row["asked"] not in ACCOUNTINGS:
            raise DataError(f"energy_levels.csv, {row['level']}: accounting {row['asked']!r} is not one of {', '.join(ACCOUNTINGS)}")
        levels[row["level"], row["asked"]] = _energy_level(row)
    return levels


@lru_cache
def flop_energies() -> dict[str, EnergyLevel]:
    """Energy of one FLOP by number format; `j_per_byte` holds joules per FLOP here."""
    return {row["memory_kind"]: _energy_level(row) for row in _table("energy_levels.csv") if row["level"] == "flop"}


def _energy_level(row: Row) -> EnergyLevel:
    return EnergyLevel(float(row["value"]) * UNITS[row["unit"]], row["accounting"], row["source"], row["label"])


def energy_rows() -> dict[str, Row]:
    """Published energies by key, as their sources print them."""
    return {row["key"]: row for row in _table("energy.csv")}


def measured_energy() -> dict[str, Row]:
    """Joules and watts somebody measured, by key: what ran, on what, and which kind of number it is."""
    return {row["key"]: row for row in _table("measured_energy.csv")}


@lru_cache
def glossary() -> dict[str, Row]:
    """Every quantity and term by key: symbol, label, unit, display unit, definition and kind."""
    return {row["key"]: row for row in _table("quantities.csv")}


def presets() -> dict[str, dict[str, Any]]:
    """Presets by key, the opening one first: title, question and the scenario's fields with model and machine by name."""
    return tomllib.loads(_presets_text())


@lru_cache
def _presets_text() -> str:
    try:
        text = (DATA / "presets.toml").read_text(encoding="utf-8")
        tomllib.loads(text)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"presets.toml: {error}") from error
    return text


def tier_rows() -> tuple[Row, ...]:
    """Numbers of the memory tiers with their sources."""
    return _table("tiers.csv")


def workload_rows() -> tuple[Row, ...]:
    """Distributions of workloads, fitted on traces, with their sources."""
    return _table("workloads.csv")

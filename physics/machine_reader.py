"""Machines of the user: a CSV in the shape of `data/machines.csv`, or own numbers on top of a known machine.

Both are checked as the catalog is. A peak that looks like a sparse one is not refused, since machines differ; it is asked about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from physics import catalog
from physics.machine import Machine
from physics.readers import UnreadableFileError, csv_frame, file_bytes

MAX_BYTES = 2 * 2**20
MAX_MACHINES = 200
COLUMNS = ("machine", "quantity", "value", "unit", "status", "source", "confidence")
MEMORY_KINDS = ("HBM", "HBM2", "HBM2e", "HBM3", "HBM3e", "HBM4", "LPDDR5", "LPDDR5X", "SRAM")
USER = "user"
"""Source of a number that was typed in."""

SPARSE = (1.9, 2.1)
"""A peak this many times a known dense one is asked about: data sheets print sparse peaks at twice the dense."""
SAME_MEMORY = 0.1
_WIDER = {"fp8": "bf16", "int8": "bf16", "fp4": "fp8"}
_USUAL = 2.0


class Quantity(NamedTuple):
    """A number of a machine: its field, units of `machines.csv`, the range allowed in SI, and its name in a sentence."""

    field: str
    units: tuple[str, ...]
    low: float
    high: float
    words: str


_RATE, _SIZE = ("TB/s", "GB/s"), ("GB", "GiB", "MB", "MiB")
QUANTITIES: dict[str, Quantity] = {
    **{
        catalog.PEAK_PREFIX + name: Quantity(catalog.PEAK_PREFIX + name, ("TFLOP/s", "TOP/s"), 1e9, 1e21, f"dense {name.upper()} peak")
        for name in catalog.PEAK_FORMATS
    },
    "memory_capacity": Quantity("memory_bytes", _SIZE, 1e6, 1e18, "memory capacity"),
    "memory_bandwidth": Quantity("memory_bytes_per_s", _RATE, 1e6, 1e18, "memory bandwidth"),
    "sram_capacity": Quantity("sram_bytes", _SIZE, 1e3, 1e18, "SRAM capacity"),
    "sram_bandwidth": Quantity("sram_bytes_per_s", _RATE, 1e6, 1e19, "SRAM bandwidth"),
    "scale_up_bandwidth": Quantity("scale_up_bytes_per_s", _RATE, 1e6, 1e18, "scale-up bandwidth"),
    "scale_up_domain": Quantity("scale_up_domain", ("accelerators", "count"), 1, 1e6, "scale-up domain"),
    "scale_out_bandwidth": Quantity("scale_out_bytes_per_s", _RATE, 1e6, 1e18, "scale-out bandwidth"),
    "power_tdp": Quantity("tdp_w", ("W", "kW"), 1e-3, 1e9, "design power"),
    "power_idle": Quantity("idle_w", ("W", "kW"), 1e-3, 1e9, "idle power"),
    "price": Quantity("price_per_hour_usd", ("USD/h",), 1e-6, 1e6, "price per hour"),
}
"""Quantities of `machines.csv` that fill a `Machine`; other ones of the catalog are allowed and kept out."""

FIELDS: dict[str, Quantity] = {quantity.field: quantity for quantity in QUANTITIES.values()}
_NEEDED = {"memory_bytes", "memory_bytes_per_s"}
_UNKNOWN = {"scale_up_domain": 1, "idle_w": 0.0}


class UserMachines(NamedTuple):
    """What a user's file holds, by name, and what it should be asked: sentences, none of them a refusal."""

    machines: dict[str, Machine]
    questions: tuple[str, ...]


# ------------------------------------------------------------------------------------------------------------- own numbers
def machine_from_numbers(base: Machine | str | None = None, name: str | None = None, **numbers: float | None) -> Machine:
    """A machine with the user's own numbers, on top of a known one.

    base: the machine to start from, or its name; None: from nothing, then memory_bytes, memory_bytes_per_s and a peak are needed.
    name: what it is called; None: after the base.
    numbers: `peak_<format>` [FLOP/s] and fields of `Machine` in SI units; None: not known. All peaks are dense.
    Raises ValueError naming field, value and allowed range.
    """
    start = catalog.load_machine(base) if isinstance(base, str) else base
    called = clean_name(name) if name is not None else f"{start.name}, own numbers" if start is not None else "Own machine"
    values = {field: _number(field, value) for field, value in numbers.items()}
    peaks = dict(start.peaks) if start is not None else {}
    for dtype in catalog.PEAK_FORMATS:
        if (field := catalog.PEAK_PREFIX + dtype) in values:
            peak = values.pop(field)
            peaks = {key: old for key, old in peaks.items() if key != dtype} | ({dtype: peak} if peak is not None else {})
    others = {field: _UNKNOWN.get(field, math.nan) if value is None else value for field, value in values.items()}
    if not peaks:
        raise ValueError("peaks: a machine needs a dense peak of at least one number format; give peak_bf16, say")
    if start is not None:
        return start.replace(
            name=called,
            peaks=_ordered(peaks),
            aliases=(),
            announced=False,
            source=f"{USER}; the rest {start.name}: {start.source}"[:200],
            **others,
        )
    return _built(called, peaks, others, "HBM", USER)


def _built(name: str, peaks: Mapping[str, float], values: Mapping[str, Any], kind: str, source: str) -> Machine:
    missing = [FIELDS[field].words for field in ("memory_bytes", "memory_bytes_per_s") if field not in values]
    missing += [] if peaks else ["a dense peak of any number format"]
    if missing:
        raise ValueError(f"{name}: lacks {' and '.join(missing)}; add the numbers")
    levels, flops = catalog.energy_levels(kind), catalog.flop_energies()
    return Machine(name=name, peaks=_ordered(peaks), memory_kind=kind, levels=levels, flop_j=flops, source=source, **values)


def _ordered(peaks: Mapping[str, float]) -> dict[str, float]:
    return {name: peaks[name] for name in catalog.PEAK_FORMATS if name in peaks}


def _number(field: str, value: Any) -> float | None:
    if field not in FIELDS:
        raise ValueError(f"{str(field)[:40]!r} is no number of a machine; they are {', '.join(FIELDS)}")
    known = FIELDS[field]
    if value is None:
        if field in _NEEDED:
            raise ValueError(f"{field}: a machine needs its {known.words}; give a number")
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not known.low <= value <= known.high:
        raise ValueError(f"{field}: {_shown(value)} is not a number from {known.low:g} to {known.high:g}")
    if field == "scale_up_domain":
        if value != int(value):
            raise ValueError(f"{field}: {_shown(value)} is not a whole number from 1 to {known.high:,.0f}")
        return int(value)
    return float(value)


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def clean_name(name: str) -> str:
    """A name as it may be shown and saved: printable, at most 80 characters, no bold, nothing a spreadsheet would run."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in str(name)[:400]).split())
    return re.sub(r"([*$])\1+", r"\1", plain).lstrip("=+-@ ")[:80].strip() or "Own machine"


def numbers_text(numbers: Mapping[str, float | None]) -> str:
    """Own numbers as one line of text, for an address: `field=value` words, `none` for what is not known."""
    return " ".join(f"{field}={'none' if value is None else format(value, '.12g')}" for field, value in numbers.items())


def numbers_of_text(text: str) -> dict[str, float | None]:
    """The numbers of such a line, each checked; ValueError with one sentence where a word is none."""
    found: dict[str, float | None] = {}
    for word in text[:4000].split():
        field, sign, value = word.partition("=")
        if not sign or field not in FIELDS or field in found:
            raise ValueError(f"own_machine: {word[:40]!r} is not field=value with each field once; fields are {', '.join(FIELDS)}")
        try:
            found[field] = _number(field, None if value == "none" else float(value))
        except ValueError as problem:
            raise ValueError(f"own_machine: {problem}" if "could not convert" not in str(problem) else
                             f"own_machine: {field} {value[:40]!r} is not a number") from None  # fmt: skip
    return found


# --------------------------------------------------------------------------------------------------------------- questions
def machine_questions(machine: Machine, base: Machine | None = None) -> tuple[str, ...]:
    """A sentence for each peak that looks like a sparse one: it asks, and refuses nothing.

    base: a machine it was made from; peaks that were kept are not asked about.
    """
    edited = {dtype for dtype, peak in machine.peaks.items() if base is None or base.peaks.get(dtype) != peak}
    asked = {dtype: question for dtype in machine.peaks if dtype in edited and (question := _against_known(machine, dtype, base))}
    for narrow, wide in _WIDER.items():
        if {narrow, wide} & edited and not {narrow, wide} & set(asked):
            suspect, question = _against_itself(machine, narrow, wide)
            asked |= {suspect: question} if suspect else {}
    return tuple(asked.values())


def _against_known(machine: Machine, dtype: str, base: Machine | None) -> str:
    known = [catalog.load_machine(name) for name in catalog.machines()]
    for other in [*([base] if base is not None else []), *known]:
        dense = other.peaks.get(dtype)
        if dense is None or not _alike(machine, other) or not SPARSE[0] <= machine.peaks[dtype] / dense <= SPARSE[1]:
            continue
        return (
            f"Is {_tera(machine.peaks[dtype])} the dense {dtype.upper()} peak of {machine.name}? It is twice the {_tera(dense)} of "
            f"{other.name}, whose memory is like this one's; data sheets print sparse peaks at twice the dense, and only dense ones count."
        )
    return ""


def _against_itself(machine: Machine, narrow: str, wide: str) -> tuple[str, str]:
    """(the suspect format, the question), both empty where the two peaks are in the usual ratio or in one of their own."""
    if narrow not in machine.peaks or wide not in machine.peaks:
        return "", ""
    ratio = machine.peaks[narrow] / machine.peaks[wide]
    suspect = narrow if SPARSE[0] <= ratio / _USUAL <= 1.1 * SPARSE[1] else wide if SPARSE[0] <= _USUAL / ratio <= SPARSE[1] else ""
    how = f"{ratio:.3g} times {wide.upper()}" if suspect == narrow else f"no higher than {wide.upper()}"
    return suspect, (
        f"Are both peaks of {machine.name} dense? {narrow.upper()} is {how}, where 2 times is usual; "
        f"{_tera(machine.peaks[suspect])} in {suspect.upper()} may be a sparse peak, and only dense ones count."
    ) if suspect else ""


def _alike(one: Machine, other: Machine) -> bool:
    """Whether two machines have one name, or the same memory within 10 %."""
    if one.name.casefold() == other.name.casefold():
        return True
    pairs = ((one.memory_bytes, other.memory_bytes), (one.memory_bytes_per_s, other.memory_bytes_per_s))
    return all(abs(a / b - 1.0) <= SAME_MEMORY for a, b in pairs)


def _tera(flops_per_s: float) -> str:
    return f"{flops_per_s / 1e12:,.4g} TFLOP/s" if flops_per_s < 9.9995e15 else f"{flops_per_s / 1e12:,.0f} TFLOP/s"


# -------------------------------------------------------------------------------------------------------------------- file
def read_machines(source: str | Path | bytes, name: str = "") -> UserMachines:
    """Machines of a CSV in the shape of `data/machines.csv`, a row a number, checked as the catalog is.

    Columns machine, quantity, value, unit, status, source, confidence and, if wanted, note. A row without a source is refused.
    Raises UnreadableFileError, a ValueError, with one sentence naming row and fault.

    source: path, or the uploaded bytes.
    name: how to call it; by default the file's name.
    """
    content, label = file_bytes(source, name)
    label = clean_name(label)
    if len(content) > MAX_BYTES:
        raise UnreadableFileError(
            f"{label}: {len(content) / 2**20:.1f} MiB, and machines take at most {MAX_BYTES >> 20} MiB; give the right file"
        )
    frame = csv_frame(content, label, as_text=True)
    lacking = [column for column in COLUMNS if column not in frame]
    if lacking:
        raise UnreadableFileError(f"{label}: no column {lacking[0]}; it needs {', '.join(COLUMNS)}, as data/machines.csv has")
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for number, row in enumerate(frame.to_dict("records"), start=2):
        _take(rows, {str(key): str(cell).strip() for key, cell in row.items()}, f"{label}: row {number}")
        if len(rows) > MAX_MACHINES:
            raise UnreadableFileError(f"{label}: more than {MAX_MACHINES} machines; give a part of it")
    if not rows:
        raise UnreadableFileError(f"{label}: no row has the status used; mark the value in force of each quantity as used")
    machines = {machine: _machine(machine, used, label) for machine, used in rows.items()}
    return UserMachines(machines, tuple(question for machine in machines.values() for question in machine_questions(machine)))


def _take(rows: dict[str, dict[str, dict[str, str]]], row: dict[str, str], place: str) -> None:
    """Check one row, and keep it where it is the value in use."""
    for column, allowed in (("status", catalog.STATUS), ("confidence", catalog.CONFIDENCE)):
        if row[column] not in allowed:
            raise UnreadableFileError(f"{place}: {column} {row[column][:40]!r} is not one of {', '.join(allowed)}")
    if not row["source"]:
        raise UnreadableFileError(f"{place}: no source; say where the number of {row['quantity'][:40] or 'this row'} is from")
    if not row["machine"]:
        raise UnreadableFileError(f"{place}: no machine; name the one that the number is of")
    quantity = row["quantity"]
    if quantity not in QUANTITIES and quantity not in _OTHER:
        raise UnreadableFileError(f"{place}: quantity {quantity[:40]!r} is not one of {', '.join(QUANTITIES)}, memory_kind")
    if row["status"] != "used":
        return
    used = rows.setdefault(clean_name(row["machine"]), {})
    if quantity in used:
        raise UnreadableFileError(f"{place}: a second used value of {quantity}; mark one of them as conflict")
    used[quantity] = row | {"place": place}


_OTHER = frozenset({
    "memory_kind", "peak_fp16_sparse", "peak_mxint4", "l1_capacity", "l1_bandwidth", "register_capacity", "ddr_capacity", "sm_count",
    "pcie_bandwidth", "sram_for_weights", "power_all_in", "cost_neocloud", "cost_hyperscaler", "year",
})  # fmt: skip


def _machine(name: str, used: Mapping[str, Mapping[str, str]], label: str) -> Machine:
    values = {QUANTITIES[quantity].field: _si(row) for quantity, row in used.items() if quantity in QUANTITIES}
    peaks = {dtype: values.pop(key) for dtype in catalog.PEAK_FORMATS if (key := catalog.PEAK_PREFIX + dtype) in values}
    kinds = {kind.casefold(): kind for kind in MEMORY_KINDS}
    kind = used["memory_kind"]["value"] if "memory_kind" in used else "HBM"
    if kind.casefold() not in kinds:
        raise UnreadableFileError(f"{used['memory_kind']['place']}: memory_kind {kind[:40]!r} is not one of {', '.join(MEMORY_KINDS)}")
    source = next((row["source"] for quantity, row in used.items() if quantity == "memory_bandwidth"), "")
    try:
        return _built(name, peaks, values, kinds[kind.casefold()], f"{label}: {source[:80]}")
    except ValueError as problem:
        raise UnreadableFileError(f"{label}: {problem}") from None


def _si(row: Mapping[str, str]) -> float:
    known, place = QUANTITIES[row["quantity"]], row["place"]
    if row["unit"] not in known.units:
        raise UnreadableFileError(f"{place}: unit {row['unit'][:40]!r} of {row['quantity']} is not one of {', '.join(known.units)}")
    value = pd.to_numeric(row["value"][:40], errors="coerce")
    factor = catalog.UNITS[row["unit"]]
    low, high = known.low / factor, known.high / factor
    if not low * (1 - 1e-12) <= value <= high:
        raise UnreadableFileError(f"{place}: value {row['value'][:40]!r} is not a number from {low:g} to {high:g} {row['unit']}")
    if known.field == "scale_up_domain" and value != int(value):
        raise UnreadableFileError(f"{place}: value {row['value'][:40]!r} is not a whole number of accelerators")
    return int(value) if known.field == "scale_up_domain" else float(value) * factor

"""What an energy per byte includes, and experts kept in SRAM: bank, distance, chips. Accountings are never mixed silently.

Here levels of a machine meet the SRAM that is compared with them. Two levels are divided by `energy_ratio` alone, which refuses
different accountings unless they are mixed on purpose, and then says so in the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from physics import catalog
from physics.energy import bank_j_per_byte, wire_j_per_byte
from physics.machine import ACCOUNTINGS, EnergyLevel, Machine
from physics.si import MIB, PJ_PER_BIT

ANCHOR_NODE = "7 nm"
"""Process of the published banks: the only one with three sizes."""
WIRE_ROW = "wire_5nm"
MEMORY_WIRE_MM = 25.0
"""Way from the memory's interface to the consumer where wires are counted on both sides [mm]."""
DEFAULT_WIRE_MM = {"device": 0.0, "interface": 2.0, "wires": 10.0, "measured": 2.0}
"""Way from an SRAM bank to the consumer, by accounting [mm]: those of `data/energy_levels.csv`."""
DEFAULT_CHIP = "Groq 3 LPU"
RANGES = {"wire_mm": (0.0, 50.0), "reread_frac": (0.0, 1.0), "leakage_w_per_gb": (0.0, 1000.0), "chip_bytes": (1e6, 1e12)}


@dataclass(frozen=True)
class EnergyRatio:
    """One energy per byte over another.

    value: the ratio [1].
    accounting: what both include, or "mixed: a over b".
    """

    value: float
    accounting: str

    @property
    def is_mixed(self) -> bool:
        """Whether the two energies count different things."""
        return self.accounting.startswith("mixed")


def energy_ratio(numerator: EnergyLevel, denominator: EnergyLevel, mixed: bool = False) -> EnergyRatio:
    """Energy per byte of one level over another's [1].

    numerator, denominator: levels; ValueError where their accountings differ.
    mixed: divide them all the same; the result says what was mixed.

    >>> bank, dram = EnergyLevel(2e-12, "device", "a"), EnergyLevel(40e-12, "interface", "b")
    >>> energy_ratio(dram, bank, mixed=True)
    EnergyRatio(value=20.0, accounting='mixed: interface over device')
    """
    same = numerator.accounting == denominator.accounting
    if not same and not mixed:
        raise ValueError(
            f"energies counted differently ({numerator.accounting} and {denominator.accounting}) are not divided; "
            "choose one accounting for both, or say mixed=True"
        )
    words = numerator.accounting if same else f"mixed: {numerator.accounting} over {denominator.accounting}"
    return EnergyRatio(numerator.j_per_byte / denominator.j_per_byte, words)


@lru_cache
def bank_anchors() -> tuple[np.ndarray, np.ndarray]:
    """Published SRAM banks of one process: sizes [B], ascending, and energies [J/B]."""
    rows = [row for row in catalog.energy_rows().values() if row["kind"] == "sram" and row["node"] == ANCHOR_NODE]
    pairs = sorted((float(row["bank_bytes"]), float(row["value"]) * PJ_PER_BIT) for row in rows if row["accounting"] == "device")
    sizes, energies = (np.array(column) for column in zip(*pairs, strict=True))
    sizes.setflags(write=False)
    energies.setflags(write=False)
    return sizes, energies


def default_wire_j_per_byte_mm() -> float:
    """Energy of a modern on-die wire, as its source states it [J/B/mm]."""
    return float(catalog.energy_rows()[WIRE_ROW]["value"]) * PJ_PER_BIT


@dataclass(frozen=True)
class SramChip:
    """An accelerator whose SRAM can hold weights; NaN where no source states a number.

    name: as in the catalog.
    sram_bytes, sram_bytes_per_s: SRAM of one chip [B], its bandwidth [B/s].
    link_bytes_per_s: links to its peers, per direction [B/s].
    domain: chips that reach one another without a scale-out network; infinite where not stated [1].
    doubtful: whether the capacity rests on press reports only.
    """

    name: str
    sram_bytes: float
    sram_bytes_per_s: float = math.nan
    link_bytes_per_s: float = math.nan
    domain: float = math.inf
    doubtful: bool = False


@lru_cache
def sram_chips() -> dict[str, SramChip]:
    """Accelerators of the catalog whose SRAM can hold weights, by name: those with a row `sram_for_weights`."""
    found = {}
    for name in catalog.machines(complete_only=False):
        # A doubtful row is better than none here, and is marked: nothing else is known of some announced chips.
        rows = {row["quantity"]: row for row in catalog.machine_rows(name) if row["status"] in ("used", "doubtful")}
        if "sram_for_weights" in rows:
            size, rate, link = (_number(rows, quantity) for quantity in ("sram_capacity", "sram_bandwidth", "scale_up_bandwidth"))
            domain = _number(rows, "scale_up_domain")
            doubtful = rows["sram_capacity"]["status"] == "doubtful"
            found[name] = SramChip(name, size, rate, link, domain if domain > 0 else math.inf, doubtful)
    return found


def _number(rows: dict[str, catalog.Row], quantity: str) -> float:
    row = rows.get(quantity)
    return float(row["value"]) * catalog.UNITS[row["unit"]] if row is not None else math.nan


@dataclass(frozen=True)
class SramExperts:
    """Experts kept in SRAM: how it is built and connected. `None` means the default.

    bank_bytes: size of one SRAM bank, between the smallest and the largest published one, 8 KB to 1 MB [B].
    wire_mm: way from the bank to the consumer; None: 2 mm, 10 mm with wires on both sides, none for bare devices [mm].
    wire_j_per_byte_mm: energy of an on-die wire, on both sides; None: 0.05 pJ/bit/mm [J/B/mm].
    chip: which accelerator's SRAM holds the experts; a name of `sram_chips()`.
    chip_bytes: capacity of one chip; None: as its source states [B].
    reread_frac: phi, what a token of the queue pays to re-read an HBM expert on chip, as a share of the SRAM's energy [1].
    leakage_w_per_gb: leakage of the SRAM; no source states it, so it is 0 unless given [W/GB].
    accounting: how the SRAM is counted; None: as the scenario asks. Another one mixes accountings, on purpose.

    Raises ValueError naming field, value and allowed range.
    """

    bank_bytes: float = MIB
    wire_mm: float | None = None
    wire_j_per_byte_mm: float | None = None
    chip: str = DEFAULT_CHIP
    chip_bytes: float | None = None
    reread_frac: float = 0.0
    leakage_w_per_gb: float = 0.0
    accounting: str | None = None

    def __post_init__(self) -> None:
        sizes, _ = bank_anchors()
        _check("bank_bytes", self.bank_bytes, float(sizes[0]), float(sizes[-1]), "B")
        for name, (low, high) in RANGES.items():
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), low, high, {"wire_mm": "mm", "chip_bytes": "B", "leakage_w_per_gb": "W/GB"}.get(name, ""))
        if self.wire_j_per_byte_mm is not None:
            _check("wire_j_per_byte_mm", self.wire_j_per_byte_mm, 0.0, 10.0 * PJ_PER_BIT, "J/B/mm")
        if self.chip not in sram_chips():
            raise ValueError(f"sram_chip: {self.chip!r} is not one of {', '.join(sram_chips())}")
        if self.accounting is not None and self.accounting not in ACCOUNTINGS:
            raise ValueError(f"sram_accounting: {self.accounting!r} is not one of {', '.join(ACCOUNTINGS)}")

    @property
    def wire_energy(self) -> float:
        """Energy of the wires in force [J/B/mm]."""
        return default_wire_j_per_byte_mm() if self.wire_j_per_byte_mm is None else self.wire_j_per_byte_mm

    @property
    def held_by(self) -> SramChip:
        """The chip in force, with the capacity asked for."""
        chip = sram_chips()[self.chip]
        return chip if self.chip_bytes is None else replace(chip, sram_bytes=self.chip_bytes, doubtful=False)

    def distance_mm(self, accounting: str) -> float:
        """Way from the bank to the consumer under an accounting; a bare device has none [mm]."""
        if accounting == "device":
            return 0.0
        return DEFAULT_WIRE_MM[accounting] if self.wire_mm is None else self.wire_mm

    def level(self, machine: Machine, accounting: str) -> EnergyLevel:
        """Energy per byte of this SRAM, when the scenario asks for `accounting`.

        machine: whose measured SRAM stands in where energies are measured end to end.
        """
        asked = self.accounting or accounting
        if asked == "measured":
            return machine.levels["sram", "measured"]
        return built_sram(self.bank_bytes, self.distance_mm(asked), self.wire_energy)


def _check(name: str, value: float, low: float, high: float, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name}: {value!r} is not a number from {low:,.10g} to {high:,.10g} {unit}".rstrip())


def built_sram(bank_bytes: float, wire_mm: float, wire_j_per_byte_mm: float) -> EnergyLevel:
    """A bank and its wire as a level; without a wire it is a bare device.

    bank_bytes: size of the bank [B].
    wire_mm: distance [mm].
    wire_j_per_byte_mm: energy of the wire [J/B/mm].

    >>> level = built_sram(MIB, 2.0, default_wire_j_per_byte_mm())
    >>> round(level.j_per_byte / PJ_PER_BIT, 5), level.accounting
    (0.31875, 'wires')
    """
    energy = float(bank_j_per_byte(bank_bytes, *bank_anchors())) + wire_j_per_byte(wire_mm, wire_j_per_byte_mm)
    if wire_mm == 0.0:
        return EnergyLevel(energy, "device", "ten-lessons-2021:Table 2", f"bare bank, {ANCHOR_NODE}")
    return EnergyLevel(energy, "wires", "ten-lessons-2021:Table 2; dally-2022", f"bank, {ANCHOR_NODE}, and {wire_mm:g} mm of wire")


def with_wire_energy(machine: Machine, wire_j_per_byte_mm: float) -> Machine:
    """The machine with the on-die way of its memory, where wires are counted on both sides, at another energy of the wire.

    wire_j_per_byte_mm: energy of the wire [J/B/mm].
    """
    level = machine.levels.get(("memory", "wires"))
    if level is None or level.accounting != "wires" or not machine.memory_kind.startswith("HBM"):
        return machine
    energy = machine.levels["memory", "interface"].j_per_byte + wire_j_per_byte(MEMORY_WIRE_MM, wire_j_per_byte_mm)
    return machine.replace(levels=dict(machine.levels) | {("memory", "wires"): replace(level, j_per_byte=energy)})

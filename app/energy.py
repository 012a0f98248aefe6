"""What the Energy page shows of a scenario, each number computed at first use. No GUI library is imported here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

import physics
from physics.catalog import Row, load_machine, load_model, measured_energy
from physics.expert_energy import ExpertEnergy, contour_mm, measured_ratio, memory_level
from physics.expert_memory import SramChip
from physics.memory import memory_parts
from physics.si import KIB, MIB, PJ_PER_BIT

BATCHES = np.geomspace(1.0, 1e5, 129)
"""Batches of the picture of experts [request]."""
BANKS = np.geomspace(8 * KIB, MIB, 29)
"""Bank sizes of the map: the published ones and what lies between [B]."""
DISTANCES = np.geomspace(0.1, 30.0, 31)
"""Distances of the map [mm]."""
CONTOURS = (2.0, 5.0, 10.0, 20.0, 50.0)
CLAIM = 100.0
"""The ratio that is claimed."""


SRAM_CHOICES = (
    "bank_bytes", "wire_mm", "wire_pj_per_bit_mm", "sram_chip", "sram_chip_bytes", "reread_frac", "leakage_w_per_gb", "sram_accounting",
)  # fmt: skip
"""Choices of a user that say how SRAM is built."""


def sram_experts(
    bank_bytes: float, wire_mm: float | None, wire_pj_per_bit_mm: float | None, sram_chip: str, sram_chip_bytes: float | None,
    reread_frac: float, leakage_w_per_gb: float, sram_accounting: str | None,
) -> physics.SramExperts:  # fmt: skip
    """SRAM from the choices of a user, whose wires are in pJ/bit/mm; ValueError with one sentence that says what to change."""
    wire = None if wire_pj_per_bit_mm is None else wire_pj_per_bit_mm * PJ_PER_BIT
    return physics.SramExperts(bank_bytes, wire_mm, wire, sram_chip, sram_chip_bytes, reread_frac, leakage_w_per_gb, sram_accounting)


@dataclass(frozen=True)
class EnergyView:
    """One scenario and one way to build SRAM.

    scenario, sram: what is compared.
    """

    scenario: physics.Scenario
    sram: physics.SramExperts

    @property
    def has_experts(self) -> bool:
        """Whether the model has routed experts."""
        return bool(self.scenario.model.moe_groups)

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """Joules per token of the experts over BATCHES."""
        return physics.expert_curves(self.scenario, self.sram, BATCHES)

    @cached_property
    def summary(self) -> ExpertEnergy | None:
        """The comparison at the present batch, and the crossings; None for a model without routed experts."""
        return physics.expert_energy(self.scenario, self.sram) if self.has_experts else None

    @cached_property
    def fits(self) -> np.ndarray:
        """Whether a stage holds the cache of each of BATCHES."""
        parts = memory_parts(self.scenario, batch=BATCHES)
        return np.asarray(parts["total"] <= parts["capacity"])

    @property
    def levels(self) -> pd.DataFrame:
        """Joules per token of each regime, by level."""
        return _levels(self.scenario)

    @property
    def level_joules(self) -> dict[str, np.ndarray]:
        """Columns of `levels`, each [regime]."""
        return _level_joules(self.scenario)

    @cached_property
    def advantage(self) -> tuple[np.ndarray, str]:
        """Main memory over SRAM, [distance, bank], and what both include."""
        return physics.advantage_map(self.scenario, self.sram, BANKS, DISTANCES)

    @cached_property
    def built_ratio(self) -> float:
        """Main memory over the bank and distance in force, as on the map [1]."""
        asked = self.sram.accounting or self.scenario.energy_accounting
        ratios, _ = physics.advantage_map(self.scenario, self.sram, [self.sram.bank_bytes], [self.sram.distance_mm(asked)])
        return float(ratios[0, 0])

    def contour(self, ratio: float) -> np.ndarray:
        """Distance at which SRAM is `ratio` times cheaper, for each of BANKS [mm]."""
        return contour_mm(self.scenario, self.sram, ratio, BANKS)

    @cached_property
    def like_for_like(self) -> float:
        """The ratio of whole paths measured on GPUs [1]; NaN where the machine has no such levels."""
        levels = self.scenario.machine.levels
        known = ("memory", "measured") in levels and ("sram", "measured") in levels
        return measured_ratio(self.scenario).value if known and not self.memory_is_sram else float("nan")

    @property
    def memory_is_sram(self) -> bool:
        """Whether the machine's own main memory is SRAM."""
        return self.scenario.machine.memory_kind == "SRAM"

    @property
    def memory_name(self) -> str:
        """The kind of the main memory, as people write it."""
        return self.scenario.machine.memory_kind.replace("e", "E")

    @property
    def memory_pj_per_bit(self) -> float:
        """Energy of the main memory in force [pJ/bit]."""
        return memory_level(self.scenario, self.sram).j_per_byte / PJ_PER_BIT

    @cached_property
    def chips(self) -> list[tuple[SramChip, dict[str, float]]]:
        """Each SRAM machine of the catalog, and what `expert_curves` gives with it at the present batch."""
        if not self.has_experts:
            return []
        found = []
        for name in physics.sram_chips():
            own = self.sram if name == self.sram.chip else replace(self.sram, chip=name, chip_bytes=None)
            here = physics.expert_curves(self.scenario, own)
            found.append((own.held_by, {column: float(values[0]) for column, values in here.items()}))
        return found


@lru_cache(maxsize=8)
def _levels(scenario: physics.Scenario) -> pd.DataFrame:
    """Kept, because no slider of the SRAM moves them."""
    return physics.energy_by_level(scenario, "token")


@lru_cache(maxsize=8)
def _level_joules(scenario: physics.Scenario) -> dict[str, np.ndarray]:
    return {str(name): column.to_numpy() for name, column in _levels(scenario).items()}


def model_value(row: Row, accounting: str) -> tuple[float, str]:
    """What this product gives for a measured row: value and unit; NaN where the row does not say enough to compute it.

    Decode energy per token for joules, the energy of a bit at main memory for pJ/bit.
    """
    try:
        machine = load_machine(row["machine"])
    except (KeyError, ValueError):
        return float("nan"), row["unit"]
    if row["unit"] == "pJ/bit":
        level = machine.levels.get(("memory", accounting))
        return (level.j_per_byte / PJ_PER_BIT if level else float("nan")), "pJ/bit"
    if row["unit"] != "J/token" or not row["batch"]:
        return float("nan"), row["unit"]
    return _decode_j(
        row["model"], row["machine"], int(row["gpus"]), int(row["batch"]), int(row["context_tokens"]), row["weight_dtype"], accounting
    ), "J/token"


@lru_cache(maxsize=256)
def _decode_j(model: str, machine: str, gpus: int, batch: int, context: int, weights: str, accounting: str) -> float:
    try:
        scenario = physics.Scenario(
            load_model(model), load_machine(machine), context_tokens=context, batch=batch, gpus_per_stage=gpus,
            weight_dtype=weights or None, energy_accounting=accounting,
        )  # fmt: skip
    except (KeyError, ValueError):
        return float("nan")
    table = physics.regimes(scenario)
    return float(table.energy_j[["decode_attention", "decode_experts", "decode_shared"]].sum()) / batch


def measured_rows(accounting: str) -> list[tuple[Row, float]]:
    """Measured rows, each with what this product gives for it."""
    return [(row, model_value(row, accounting)[0]) for row in measured_energy().values()]

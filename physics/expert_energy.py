"""Experts in main memory against experts in SRAM: joules per token against batch, where they meet, and what the network adds.

The closed forms are in `energy`, what an energy includes in `expert_memory`. Chips of SRAM hold experts and nothing else; tokens reach
them and come back over links. Times are bounds, joules estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from physics import energy
from physics import kernels as k
from physics.expert_memory import EnergyRatio, SramExperts, bank_anchors, built_sram, energy_ratio, with_wire_energy
from physics.machine import EnergyLevel
from physics.network import remote_domains, remote_frac
from physics.regimes import DECODE, REGIMES, distinct_experts
from physics.scenario import Scenario
from physics.sweep import sweep_arrays
from physics.workload import workload

BATCHES = (1.0, 1e6)
"""Batches among which a crossing is looked for [request]."""
_TIMES = ("expert_s", "experts_s", "network_s", "messages_per_s", "switch_bytes_per_s")
_REST = [REGIMES.index(name) for name in DECODE if name != "decode_experts"]


@dataclass(frozen=True)
class _Banks:
    """Equal experts of all layers, one column each: counts, bytes of one expert over all its layers, bytes moved per token."""

    layers: np.ndarray
    top_k: np.ndarray
    expert_bytes: np.ndarray
    moved_bytes: np.ndarray


def _banks(s: Scenario) -> _Banks:
    work = workload(s)
    layers = [sum(count for count, moe in s.model.moe_groups if (moe.n_experts, moe.top_k) == pair) for pair in work.experts]
    rows = work.banks
    return _Banks(np.array(layers, float), rows[:, k.BANK_TOP_K], rows[:, k.BANK_EXPERT_BYTES], rows[:, k.BANK_MOVED_BYTES])


def memory_level(s: Scenario, sram: SramExperts) -> EnergyLevel:
    """Energy per byte of the machine's main memory under the scenario's accounting; NaN where none is known."""
    levels = with_wire_energy(s.machine, sram.wire_energy).levels
    return levels.get(("memory", s.energy_accounting)) or EnergyLevel(math.nan, s.energy_accounting, "", "not known")


def expert_bytes(s: Scenario) -> float:
    """Bytes of all routed experts [B]."""
    return s.model.weight_bytes_by_class(s.weight_dtype)["routed"]


def routed_frac(s: Scenario) -> float:
    """Share of the routed experts in the weights' memory [1]."""
    return expert_bytes(s) / s.model.weight_bytes(s.weight_dtype)


def network_j_per_token(s: Scenario, accelerators: float, domain: float) -> float:
    """Energy of dispatch and combine of one token over all layers, spread over so many accelerators; 0 for a single one [J].

    The formula of the regimes' network: what leaves an accelerator crosses the scale-up links, and one copy for each further domain
    the scale-out links.
    accelerators: that hold the experts [1].
    domain: accelerators of one scale-up domain; infinite: all [1].
    """
    banks, levels = _banks(s), s.machine.levels
    up = float(np.sum(banks.moved_bytes) * remote_frac(accelerators))
    out = float(np.sum(banks.moved_bytes / banks.top_k * remote_domains(accelerators, domain, banks.top_k)))
    total = 0.0
    for amount, name in ((up, "scale_up"), (out, "scale_out")):
        level = levels.get((name, s.energy_accounting))
        total += amount * (level.j_per_byte if level else math.nan) if amount > 0.0 else 0.0
    return total


def _chips(s: Scenario, sram: SramExperts) -> float:
    return float(energy.chips_to_hold(expert_bytes(s), sram.held_by.sram_bytes))


def _turnarounds(s: Scenario, sram: SramExperts, batch: np.ndarray, distinct: np.ndarray) -> dict[str, np.ndarray]:
    """Seconds of a step on the SRAM chips and their links, and what a switch must carry meanwhile; all over batch.

    Whole experts lie on chips, spread evenly; each serves one token at a time. A transfer is as slow as the slower end.
    """
    banks, chip, chips = _banks(s), sram.held_by, _chips(s, sram)
    one = banks.expert_bytes / banks.layers
    spread = np.maximum(energy.chips_to_hold(one, chip.sram_bytes), 1.0)
    busy = np.minimum(distinct, np.maximum(chips / spread, 1.0))
    turn_s = energy.expert_s(one, chip.sram_bytes, chip.sram_bytes_per_s)
    assignments = batch[:, None] * banks.top_k
    sent = batch[:, None] * banks.moved_bytes * remote_frac(chips)
    ends = np.maximum(1.0 / (s.gpus_per_stage * s.machine.scale_up_bytes_per_s), 1.0 / (busy * spread * chip.link_bytes_per_s))
    return {
        "chips": np.full(len(batch), chips),
        "expert_s": np.full(len(batch), np.max(turn_s)),
        "experts_s": np.sum(banks.layers * assignments / busy * turn_s, axis=-1),
        "network_s": np.sum(sent * ends, axis=-1) if chips > 1 else np.zeros(len(batch)),
        "messages_per_s": np.max(energy.messages_per_s(busy, turn_s), axis=-1),
        "switch_bytes_per_s": np.max(busy * banks.moved_bytes / (banks.layers * banks.top_k) / turn_s, axis=-1),
    }


def _leakage(s: Scenario, sram: SramExperts, batch: np.ndarray, experts_s: np.ndarray, network_s: np.ndarray) -> np.ndarray:
    """Leakage per token; NaN where the step has no time because it does not fit, zero where no leakage is stated."""
    if not sram.leakage_w_per_gb:
        return np.zeros(len(batch))
    inside = np.clip(batch, *BATCHES)
    rest_s = sweep_arrays(s, columns=("roofline_s",), batch=inside)["roofline_s"][:, _REST].sum(axis=-1)
    return np.asarray(energy.leakage_j_per_token(sram.leakage_w_per_gb, expert_bytes(s), rest_s + experts_s + network_s, batch))


def expert_curves(scenario: Scenario, sram: SramExperts | None = None, batch: Any = None) -> dict[str, np.ndarray]:
    """Experts in main memory and in SRAM over the batch of one decode step: joules per token, seconds, load of the switch.

    scenario: model, machine, routing and accounting.
    sram: how the SRAM is built; None: the defaults.
    batch: requests of the step, one token each [request]; None: the scenario's.
    Returns arrays over batch: batch, distinct_experts (per layer, mean over layers), queue_tokens, memory_j and sram_j (weights),
    memory_network_j, sram_network_j, leakage_j, memory_total_j and sram_total_j, all per token; chips; expert_s, the turnaround of
    one expert, experts_s and network_s of a step on the SRAM chips (bounds); messages_per_s and switch_bytes_per_s while a layer's
    experts run without waiting.
    """
    s, built = scenario, sram or SramExperts()
    size = np.atleast_1d(np.asarray(s.batch if batch is None else batch, float))
    banks, names = _banks(s), ("memory_j", "sram_j", "memory_network_j", "sram_network_j", "leakage_j")
    if not len(banks.top_k):
        empty = ("distinct_experts", "queue_tokens", *names, "chips", *_TIMES)
        return {"batch": size} | {name: np.full(len(size), np.nan) for name in (*empty, "memory_total_j", "sram_total_j")}
    distinct, near = distinct_experts(s, size, 1.0), built.level(s.machine, s.energy_accounting).j_per_byte
    mean = distinct @ banks.layers / banks.layers.sum()
    curves = {"batch": size, "distinct_experts": mean, "queue_tokens": (size * (banks.top_k @ banks.layers)) / (distinct @ banks.layers)}
    curves |= {"memory_j": _memory_read(s, built)(size)}
    curves |= {"sram_j": np.full(len(size), float(np.sum(energy.private_read_j_per_token(banks.top_k, banks.expert_bytes, near))))}
    curves |= {"memory_network_j": np.full(len(size), network_j_per_token(s, s.gpus_per_stage, s.machine.scale_up_domain))}
    curves |= {"sram_network_j": np.full(len(size), network_j_per_token(s, _chips(s, built), built.held_by.domain))}
    curves |= _turnarounds(s, built, size, distinct)
    curves |= {"leakage_j": _leakage(s, built, size, curves["experts_s"], curves["network_s"])}
    curves |= {"memory_total_j": curves["memory_j"] + curves["memory_network_j"]}
    return curves | {"sram_total_j": curves["sram_j"] + curves["sram_network_j"] + curves["leakage_j"]}


def _crossing(gap: Callable[[np.ndarray], np.ndarray]) -> float:
    """First batch at which a gap in logarithms turns from positive to not: narrowed sixteenfold a pass; NaN where it never does."""
    x = np.geomspace(*BATCHES, 65)
    for _ in range(9):
        values = gap(x)
        if x[0] == BATCHES[0] and values[0] <= 0.0:
            return float(x[0])
        turn = np.flatnonzero((values[:-1] > 0.0) & (values[1:] <= 0.0))
        if not turn.size:
            return math.nan
        low, high = x[turn[0]], x[turn[0] + 1]
        if high / low < 1.0 + 1e-7:
            break
        x = np.geomspace(low, high, 17)
    return float(math.sqrt(low * high))


def _memory_read(s: Scenario, sram: SramExperts) -> Callable[[np.ndarray], np.ndarray]:
    """Joules per token of reading experts from main memory, as a function of batch."""
    banks, near, far = _banks(s), sram.level(s.machine, s.energy_accounting).j_per_byte, memory_level(s, sram).j_per_byte

    def read_j(batch: np.ndarray) -> np.ndarray:
        each = energy.shared_read_j_per_token(
            distinct_experts(s, batch, 1.0), batch[:, None], banks.top_k, banks.expert_bytes, far, near, sram.reread_frac
        )
        return np.asarray(np.sum(each, axis=-1))

    return read_j


def _crossings(s: Scenario, sram: SramExperts, here: dict[str, float]) -> tuple[float, float]:
    """Batches at which weights alone, and everything together, cost the same on both sides."""
    read_j = _memory_read(s, sram)
    alone = _crossing(lambda batch: np.log(read_j(batch)) - np.log(here["sram_j"]))
    if sram.leakage_w_per_gb:  # it falls with the batch, and needs the times of the step

        def gap(batch: np.ndarray) -> np.ndarray:
            curves = expert_curves(s, sram, batch)
            return np.asarray(np.log(curves["memory_total_j"]) - np.log(curves["sram_total_j"]))

        return alone, _crossing(gap)
    total = np.log(here["sram_j"] + here["sram_network_j"])
    return alone, _crossing(lambda batch: np.log(read_j(batch) + here["memory_network_j"]) - total)


@dataclass(frozen=True)
class ExpertEnergy:
    """Experts in main memory against experts in SRAM, at one batch and where they meet.

    memory, sram: the two levels compared. ratio: their energies per byte, with its accounting.
    chips: SRAM chips that hold all experts [1].
    routed_frac: share of routed experts in the weights' memory [1].
    expert_bytes: bytes of all routed experts [B].
    memory_j, sram_j: weights, per token at the scenario's batch [J].
    memory_network_j, sram_network_j, leakage_j: per token [J].
    queue_tokens: tokens per touched expert at the scenario's batch [token].
    crossing_queue_tokens: queue at which main memory costs what SRAM does, by the closed form [token].
    crossing_batch: batch at which it does, weights alone; 1 where SRAM is never cheaper, NaN where it always is [request].
    total_crossing_batch: the same with network and leakage on both sides [request].
    needed_ratio: ratio of energies at which the scenario's batch breaks even [1].
    network_frac: share of the network in the joules of SRAM experts [1].
    experts_s, network_s: bounds of one step on the SRAM chips and their links; NaN where no source states the links [s].
    expert_s: time to stream one expert of one layer [s].
    messages_per_s: at the switch, while a layer's experts run without waiting [1/s].
    switch_bytes_per_s: likewise [B/s].
    """

    memory: EnergyLevel
    sram: EnergyLevel
    ratio: EnergyRatio
    chips: float
    routed_frac: float
    expert_bytes: float
    memory_j: float
    sram_j: float
    memory_network_j: float
    sram_network_j: float
    leakage_j: float
    queue_tokens: float
    crossing_queue_tokens: float
    crossing_batch: float
    total_crossing_batch: float
    needed_ratio: float
    network_frac: float
    experts_s: float
    network_s: float
    expert_s: float
    messages_per_s: float
    switch_bytes_per_s: float


def expert_energy(scenario: Scenario, sram: SramExperts | None = None) -> ExpertEnergy:
    """When SRAM beats main memory for the routed experts, and by how much.

    Two accountings are mixed only as the fields say: `ratio.accounting` names them.
    scenario: model, machine, batch, routing and accounting; ValueError for a model without routed experts.
    sram: how the SRAM is built and connected; None: the defaults.
    """
    s, built = scenario, sram or SramExperts()
    if not s.model.moe_groups:
        raise ValueError(f"model: {s.model.name} has no routed experts to keep in SRAM; choose a mixture-of-experts model")
    here = {name: float(values[0]) for name, values in expert_curves(s, built).items()}
    far, near = memory_level(s, built), built.level(s.machine, s.energy_accounting)
    ratio = energy_ratio(far, near, mixed=True)
    alone, together = _crossings(s, built, here)
    known = ("memory_j", "sram_j", "memory_network_j", "sram_network_j", "leakage_j", "queue_tokens", "chips", *_TIMES)
    return ExpertEnergy(
        memory=far,
        sram=near,
        ratio=ratio,
        routed_frac=routed_frac(s),
        expert_bytes=expert_bytes(s),
        crossing_queue_tokens=float(energy.break_even_queue_tokens(ratio.value, built.reread_frac)),
        crossing_batch=alone,
        total_crossing_batch=together,
        needed_ratio=float(energy.break_even_ratio(here["queue_tokens"], built.reread_frac)),
        network_frac=here["sram_network_j"] / here["sram_total_j"],
        **{name: here[name] for name in known},
    )


def advantage_map(scenario: Scenario, sram: SramExperts, bank_bytes: Any, wire_mm: Any) -> tuple[np.ndarray, str]:
    """Energy of the main memory over that of SRAM for banks of every size at every distance [1], and what both include.

    Under "device" no distance is counted; under "measured" the memory is measured and the SRAM built, which is mixed and said so.
    scenario: whose memory and accounting.
    sram: energy of the wires.
    bank_bytes: sizes of banks, one column each [B].
    wire_mm: distances, one row each [mm].
    """
    far, asked = memory_level(scenario, sram), sram.accounting or scenario.energy_accounting
    distance = np.asarray(wire_mm, float)[:, None] * (asked != "device")
    bank = np.asarray(energy.bank_j_per_byte(np.asarray(bank_bytes, float), *bank_anchors()))
    built = built_sram(float(np.asarray(bank_bytes, float)[-1]), float(distance[-1, 0]), sram.wire_energy)
    words = energy_ratio(far, built, mixed=True).accounting
    return far.j_per_byte / (bank[None, :] + energy.wire_j_per_byte(distance, sram.wire_energy)), words


def contour_mm(scenario: Scenario, sram: SramExperts, ratio: float, bank_bytes: Any) -> np.ndarray:
    """Distance at which a bank of each size is `ratio` times cheaper than the main memory; NaN where none is [mm].

    scenario: whose memory and accounting.
    sram: energy of the wires.
    ratio: advantage wanted [1].
    bank_bytes: sizes of banks [B].
    """
    bank = np.asarray(energy.bank_j_per_byte(np.asarray(bank_bytes, float), *bank_anchors()))
    left = memory_level(scenario, sram).j_per_byte / ratio - bank
    if (sram.accounting or scenario.energy_accounting) == "device" or not sram.wire_energy:
        return np.full(bank.shape, np.nan)
    return np.where(left >= 0.0, left / sram.wire_energy, np.nan)


def measured_ratio(scenario: Scenario) -> EnergyRatio:
    """Main memory over SRAM as measured end to end on a whole GPU: like for like."""
    return energy_ratio(scenario.machine.levels["memory", "measured"], scenario.machine.levels["sram", "measured"])

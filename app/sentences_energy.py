"""The answers of the Energy page in words, **bold** where a number changes."""

from __future__ import annotations

import math

from app.energy import CLAIM, EnergyView
from app.quantities import format_exact, format_quantity
from app.sentences import bold, share_text
from app.state import Snapshot
from physics.energy import bank_j_per_byte
from physics.expert_energy import ExpertEnergy
from physics.expert_memory import bank_anchors
from physics.joules import LEVELS
from physics.regimes import DECODE, REGIMES
from physics.si import KIB, MIB, PJ_PER_BIT

NO_EXPERTS = "This model has no routed experts: every weight serves every token, so there is nothing to keep apart in SRAM."
_DECODE = [REGIMES.index(name) for name in DECODE]
AT = {"device": "as a bare device", "interface": "at the interface", "wires": "with 25 mm of wire", "measured": "measured end to end"}


def _num(value: float, unit: str = "") -> str:
    return bold(format_quantity(value, unit))


def bank_text(size: float) -> str:
    """A bank size as sources print it: 8 KB, 1 MB, in binary thousands.

    >>> bank_text(8192.0), bank_text(1048576.0)
    ('8 KB', '1 MB')
    """
    return f"{size / MIB:.3g} MB" if size >= MIB else f"{size / KIB:.3g} KB"


def built_text(view: EnergyView) -> str:
    """How the SRAM is built, after its name."""
    asked = view.sram.accounting or view.scenario.energy_accounting
    if asked == "measured":
        return "SRAM as measured in the L1 of a GPU"
    distance = view.sram.distance_mm(asked)
    where = f", {bold(f'{distance:.3g} mm')} away" if distance else ", without wires"
    return f"SRAM (banks of {bold(bank_text(view.sram.bank_bytes))}{where})"


def accounting_text(view: EnergyView) -> str:
    """A mixed accounting is always said."""
    summary = view.summary
    if summary is None or not summary.ratio.is_mixed:
        return ""
    if summary.ratio.accounting == "mixed: interface over wires":
        return " (mixed: the wire counts on the SRAM side only)"
    return f" ({summary.ratio.accounting})"


def experts(s: Snapshot) -> str:
    """The advantage at this batch, where it comes from, where HBM catches up, and what the network takes."""
    view, summary = s.energy, s.energy.summary
    if summary is None:
        return NO_EXPERTS
    if not math.isfinite(summary.ratio.value):
        return "No energy per byte is known for this machine's memory."
    return f"{_now(view, summary)} {_why(view, summary)} {_catches_up(view, summary)}".strip()


def _times(ratio: float) -> tuple[str, bool]:
    """How many times, as a number from 1 up, and whether the ratio is above 1."""
    return bold(f"{max(ratio, 1.0 / ratio):.3g}×"), ratio >= 1.0


def _now(view: EnergyView, summary: ExpertEnergy) -> str:
    """The answer at the present batch."""
    times, fewer = _times(summary.memory_j / summary.sram_j)
    batch = bold(format_exact(view.scenario.batch, "requests"))
    return f"At a batch of {batch}, experts in SRAM take {times} {'fewer' if fewer else 'more'} joules to read than in {view.memory_name}."


def _why(view: EnergyView, summary: ExpertEnergy) -> str:
    """Energy of a byte, and how often an expert is read from either memory."""
    times, cheaper = _times(summary.ratio.value)
    memory = bold(f"{view.memory_name} {AT[view.scenario.energy_accounting]}")
    needed = f"{format_quantity(summary.needed_ratio)}×" if summary.needed_ratio > 0.0 else ""
    even = f", which would break even at a ratio of {bold(needed)}" if needed else ""
    return (
        f"{built_text(view)} gives a byte {times} {'cheaper' if cheaper else 'dearer'} than {memory}{accounting_text(view)}, "
        f"{'but' if cheaper else 'and'} is read once per token; {view.memory_name} is read once for all tokens queued at an expert, here "
        f"{_num(summary.queue_tokens)}{even}."
    )


def _catches_up(view: EnergyView, summary: ExpertEnergy) -> str:
    """Where the two meet, and what the network takes."""
    share = summary.network_frac
    network = f"The network takes {bold(share_text(share))} of the joules of SRAM experts." if math.isfinite(share) else ""
    if not math.isfinite(summary.crossing_batch):
        return f"{view.memory_name} never catches up, because every token re-reads its experts on chip. {network}"
    if summary.crossing_batch <= 1.0:
        return f"{view.memory_name} costs no more even at batch 1. {network}"
    queue, batch = _num(summary.crossing_queue_tokens), _num(summary.crossing_batch)
    total, counted = summary.total_crossing_batch, "network and leakage" if view.sram.leakage_w_per_gb else "the network on both sides"
    with_network = f" (batch {_num(total)} with {counted})" if math.isfinite(total) else ""
    return f"{view.memory_name} catches up at batch {batch}, when {queue} tokens queue at each expert{with_network}. {network}"


def advantage(s: Snapshot) -> str:
    """What the claim of 100x would need, against this memory."""
    view = s.energy
    memory = view.memory_pj_per_bit
    if not math.isfinite(memory):
        return "No energy per byte is known for this machine's memory."
    smallest = float(bank_j_per_byte(8 * KIB, *bank_anchors())) / PJ_PER_BIT
    needed = memory / CLAIM
    claim = (
        f"reached by a bare bank of 8 KB ({smallest:.3g} pJ/bit)"
        if needed >= smallest
        else f"less than a bare bank of 8 KB takes ({smallest:.3g} pJ/bit)"
    )
    like = f" Whole paths measured on GPUs differ {bold(f'{view.like_for_like:.3g}×')}." if math.isfinite(view.like_for_like) else ""
    return (
        f"{view.memory_name} {AT[s.scenario.energy_accounting]} takes {bold(f'{memory:.3g} pJ/bit')}; "
        f"{CLAIM:.0f}× would need SRAM at {bold(f'{needed:.2g} pJ/bit')}, {claim}.{like}"
    )


def levels(s: Snapshot) -> str:
    """Where the joules of a decoded token go, and decode's share of a turn."""
    decode = {name: float(values[_DECODE].sum()) for name, values in s.energy.level_joules.items()}
    total = decode["total"]
    if not total > 0:
        return "No energy per byte is known for this machine, so joules cannot be stated."
    names = {"memory": "main memory", "flop": "arithmetic", "scale_up": "links", "scale_out": "links between domains", "idle": "idle power"}
    largest = max(LEVELS, key=lambda name: decode[name])
    share = s.turn.decode_energy_frac
    verdict = "decode dominates" if share > 0.6 else "decode and midfill weigh alike" if share > 0.4 else "the midfill dominates"
    idle = "" if s.scenario.machine.idle_w else " Idle power is not stated by any source for this machine and counts as 0."
    new, out = (bold(format_exact(count, "tokens")) for count in (s.scenario.new_tokens, s.scenario.output_tokens))
    return (
        f"A decoded token takes {_num(total, 'J')}, {bold(share_text(decode[largest] / total))} of it {names[largest]}; "
        f"in a turn of {new} in and {out} out, decode is {bold(share_text(share))} of the joules: {verdict}.{idle}"
    )


def chips(s: Snapshot) -> str:
    """Chips for the experts, and the load of their switch."""
    summary = s.energy.summary
    if summary is None:
        return NO_EXPERTS
    chip = s.energy.sram.held_by
    press = ", a capacity known from the press only" if chip.doubtful else ""
    held = f"{bold(format_quantity(summary.expert_bytes, 'B'))}, {bold(f'{100 * summary.routed_frac:.1f} %')} of the weights"
    number = f"{summary.chips:,.0f} {'chip' if summary.chips == 1 else 'chips'}"
    lead = f"The routed experts are {held}: {bold(number)} of {chip.name} with {format_quantity(chip.sram_bytes, 'B')} each{press}."
    if not math.isfinite(summary.expert_s):
        return f"{lead} Its SRAM bandwidth is not stated, so no turnaround either."
    links = "no source states its links, so their time is withheld"
    if math.isfinite(summary.network_s):
        links = f"dispatch and combine take {_num(summary.network_s, 's')} of a step, its experts {_num(summary.experts_s, 's')}"
    return (
        f"{lead} One expert takes {_num(summary.expert_s, 's')}, which puts {_num(summary.messages_per_s, 'messages/s')} "
        f"and {_num(summary.switch_bytes_per_s, 'B/s')} on the switch; {links}. All times are bounds."
    )


def measured(s: Snapshot) -> str:
    """What the table beside the model shows."""
    return (
        f"Others' numbers as they print them. Ours are estimates under {bold(s.scenario.energy_accounting)} accounting without idle: "
        "they count other things than a power meter, so the two are not divided."
    )

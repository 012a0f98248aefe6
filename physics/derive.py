"""Derivations of a step's seconds and joules, and the door to all derivations: `derive`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from physics import derive_work
from physics import kernels as k
from physics.derivation import INPUT, Derivation, Sheet
from physics.formats import OUTPUT_BYTES
from physics.layers import DenseFFN
from physics.memory import stage_memory
from physics.network import remote_domains, remote_frac
from physics.regimes import BOUNDS, REGIMES
from physics.scenario import Scenario
from physics.workload import FLOP_CLASSES, hardware, workload


def _gpus(sheet: Sheet) -> str:
    return sheet.term("G", sheet.s.gpus_per_stage, "", "accelerators per stage", INPUT)


_LABELS = ("scores and values", "projections and latents", "dense FFN", "shared experts", "router", "routed experts", "head")


def _class_flops(sheet: Sheet) -> dict[str, float]:
    """FLOPs of each class in this regime, by the labels of the FLOP derivation."""
    derivation = sheet.cell("flops")
    amounts = dict.fromkeys(FLOP_CLASSES, 0.0)
    for part in derivation.parts:
        for name, words in _CLASS_OF_LABEL.items():
            if part.label.startswith(words):
                amounts[name.split(":")[0]] += derivation.part_value(part)
    return amounts


_CLASS_OF_LABEL = {
    "core:pairs": "scores and values",
    "core:recurrent": "recurrent layers",
    "attention:up": "cached latents",
    "attention:projections": "projections",
    "dense": "dense FFN",
    "shared": "shared experts",
    "router": "router",
    "routed": "routed experts",
    "head": "head",
}


def _compute_s(sheet: Sheet) -> Derivation:
    work, gpus = workload(sheet.s), _gpus(sheet)
    for name, peak, dtype, words in zip(FLOP_CLASSES, work.peaks, work.formats, _LABELS, strict=True):
        amount = _class_flops(sheet)[name]
        if amount:
            flops = sheet.term("F_" + name, amount, "FLOP", f"FLOPs of {words}", f"cell {sheet.regime}, flops")
            rate = sheet.hardware("peak_" + dtype, peak, "FLOP/s", f"dense {dtype} peak of one accelerator")
            sheet.add(words, f"{flops}/({gpus}*{rate})")
    return sheet.done("compute_s", "s", "bound")


def _memory_s(sheet: Sheet) -> Derivation:
    size = sheet.merge("bytes", "B", "bytes")
    bandwidth = sheet.hardware("BW", sheet.s.machine.memory_bytes_per_s, "B/s", "memory bandwidth of one accelerator")
    sheet.add("bytes over bandwidth", f"{size}/({_gpus(sheet)}*{bandwidth})")
    return sheet.done("memory_s", "s", "bound")


def _network_parts(sheet: Sheet) -> tuple[str, str]:
    """Expressions of the bytes on scale-up and scale-out links, whole group; "0" where nothing crosses."""
    s, machine, up, out = sheet.s, sheet.s.machine, [], []
    sheet.load()
    gpus = _gpus(sheet)
    if s.gpus_per_stage == 1:
        return "0", "0"
    spans = s.gpus_per_stage > machine.scale_up_domain
    if spans:
        sheet.hardware("D_up", machine.scale_up_domain, "", "accelerators of a scale-up domain")
    if sheet.counts("experts"):
        moved = sheet.cell("activation_bytes")
        for i, part in enumerate(moved.parts, 1):
            if not s.model.moe_groups:
                break
            sheet.terms.update({term.symbol: term for term in moved.terms})
            sheet.term("q", remote_frac(float(s.gpus_per_stage)), "", "share of dispatched bytes that leave an accelerator: (G-1)/G", INPUT)
            up.append(f"({part.expression})*q")
            if spans:
                top_k = float(s.model.moe_groups[i - 1][1].top_k)
                domains = float(remote_domains(float(s.gpus_per_stage), float(machine.scale_up_domain), top_k))
                sheet.term(f"d{i}", domains, "domains", "other domains a token's experts lie in", "formula network.remote_domains")
                out.append(f"({part.expression})/k{i}*d{i}")
    if sheet.counts("rest"):
        layers = sum(g.count for g in s.model.groups if isinstance(g.ffn, DenseFFN))
        layers += sum(g.count for g in s.model.groups if g.attention is not None) if s.attention_parallel == "tensor" else 0
        if layers:
            sheet.model("L_red", layers, "layers", "layers with a tensor-parallel reduction")
            sheet.model("h", s.model.hidden, "elements", "width of the residual stream")
            sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
            count = f"{gpus}/D_up" if spans else "1"
            up.append(f"L_red*2*({gpus} - {count})*R*n*h*a_out")
            if spans:
                out.append(f"L_red*2*({count} - 1)*R*n*h*a_out")
    return " + ".join(up) or "0", " + ".join(out) or "0"


def _network_s(sheet: Sheet) -> Derivation:
    up, out = _network_parts(sheet)
    if up == "0":
        sheet.terms.clear()
        sheet.add("nothing crosses a link", "0")
        return sheet.done("network_s", "s", "bound")
    machine = sheet.s.machine
    scale_up = sheet.hardware("BW_up", machine.scale_up_bytes_per_s, "B/s", "scale-up bandwidth of one accelerator, one direction")
    expression = f"({up})/(G*{scale_up})"
    if out != "0":
        scale_out = sheet.hardware("BW_out", machine.scale_out_bytes_per_s, "B/s", "scale-out bandwidth of one accelerator, one direction")
        expression = f"max({expression}, ({out})/(G*{scale_out}))"
    sheet.add("slower of the two link levels" if out != "0" else "bytes over links", expression)
    return sheet.done("network_s", "s", "bound")


def _hop_s(sheet: Sheet) -> Derivation:
    s = sheet.s
    if sheet.counts("rest") and s.pipeline_depth > 1:
        sheet.load()
        sheet.term("stages", s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.model("h", s.model.hidden, "elements", "width of the residual stream")
        sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
        link = sheet.hardware("BW_hop", s.hop_bytes_per_s, "B/s", "link of one accelerator to the next stage, one direction")
        sheet.add("hops between stages", f"(stages - 1)*R*n*h*a_out/({_gpus(sheet)}*{link})")
    return sheet.done("hop_s", "s", "bound")


def _roofline_s(sheet: Sheet) -> Derivation:
    names = [sheet.merge(f"{name}_s", f"t_{name}", f"{name} time") for name in BOUNDS]
    hop = sheet.merge("hop_s", "t_hop", "hops between stages")
    busy = f"max({', '.join(names)})" if sheet.s.overlap else " + ".join(names)
    sheet.add("slowest resource" if sheet.s.overlap else "resources one after another", f"{busy} + {hop}")
    note = "" if stage_memory(sheet.s).fits else "Does not fit the memory: this is what the bound would be if it did."
    return sheet.done("roofline_s", "s", "bound", note)


def _energy_j(sheet: Sheet) -> Derivation:
    s, work, hw = sheet.s, workload(sheet.s), hardware(sheet.s)
    level = s.machine.levels.get(("memory", s.energy_accounting))
    cost = sheet.term(
        "J_mem", level.j_per_byte if level else math.nan, "J/B", f"memory, {s.energy_accounting}", level.source if level else "no source"
    )
    for column, symbol, words in (
        ("weight_bytes", "B_w", "weights"),
        ("kv_bytes", "B_kv", "KV and state"),
        ("activation_bytes", "B_a", "activations"),
    ):
        sheet.add(words, f"{sheet.merge(column, symbol, words)}*{cost}")
    for name, j, dtype, words in zip(FLOP_CLASSES, work.flop_j, work.formats, _LABELS, strict=True):
        amount = _class_flops(sheet)[name]
        if amount:
            source = s.machine.flop_j[dtype].source if dtype in s.machine.flop_j else "no source"
            sheet.term("J_" + dtype, j, "J/FLOP", f"one {dtype} FLOP", source)
            sheet.add(f"FLOPs of {words}", f"{sheet.term('F_' + name, amount, 'FLOP', words, f'cell {sheet.regime}, flops')}*J_{dtype}")
    _network_joules(sheet, hw)
    if s.machine.idle_w:
        idle = sheet.hardware("W_idle", s.machine.idle_w, "W", "idle power of one accelerator")
        seconds = sheet.merge("roofline_s", "t", "seconds of the line")
        stages = sheet.term("stages", s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.add("idle power", f"{idle}*{_gpus(sheet)}*{stages}*{seconds}")
    return sheet.done("energy_j", "J")


def _network_joules(sheet: Sheet, hw: Any) -> None:
    up, out = _network_parts(sheet)
    accounting = sheet.s.energy_accounting
    for expression, symbol, index, level in ((up, "J_up", k.HW_J_UP, "scale_up"), (out, "J_out", k.HW_J_OUT, "scale_out")):
        found = sheet.s.machine.levels.get((level, accounting))
        if expression != "0":
            sheet.term(symbol, hw[index], "J/B", f"{level.replace('_', '-')} link, {accounting}", found.source if found else "no source")
            sheet.add(f"{level.replace('_', '-')} network", f"({expression})*{symbol}")
    if sheet.counts("rest") and sheet.s.pipeline_depth > 1:
        found = sheet.s.machine.levels.get(("scale_out", accounting))
        sheet.term("J_out", hw[k.HW_J_OUT], "J/B", f"scale-out link, {accounting}", found.source if found else "no source")
        sheet.term("stages", sheet.s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.model("h", sheet.s.model.hidden, "elements", "width of the residual stream")
        sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
        sheet.add("hops between stages", "(stages - 1)*R*n*h*a_out*J_out")


_DERIVATIONS: dict[str, Callable[[Sheet], Derivation]] = {
    "flops": derive_work.flops,
    "weight_bytes": derive_work.weight_bytes,
    "kv_bytes": derive_work.kv_bytes,
    "activation_bytes": derive_work.activation_bytes,
    "bytes": derive_work.bytes,
    "intensity_flops_per_byte": derive_work.intensity,
    "compute_s": _compute_s,
    "memory_s": _memory_s,
    "network_s": _network_s,
    "hop_s": _hop_s,
    "roofline_s": _roofline_s,
    "energy_j": _energy_j,
}
DERIVED_COLUMNS = tuple(_DERIVATIONS)
"""Columns of `regimes` that have a derivation."""


def derive(scenario: Scenario, regime: str, column: str) -> Derivation:
    """How one cell of `regimes` comes about.

    scenario: the inputs.
    regime: one of REGIMES.
    column: one of DERIVED_COLUMNS.
    Raises KeyError for a cell that does not exist, listing those that do.
    """
    if regime not in REGIMES or column not in _DERIVATIONS:
        raise KeyError(f"no derivation of {column!r} in {regime!r}; regimes: {', '.join(REGIMES)}; columns: {', '.join(DERIVED_COLUMNS)}")
    return _DERIVATIONS[column](Sheet(scenario, regime, derive))

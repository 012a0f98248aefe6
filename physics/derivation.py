"""Where a number of `regimes` comes from: the formula, the numbers put in and the source of each.

A derivation is written beside the kernel, not taken from it, and the tests evaluate every formula with its own numbers
and compare with the kernel: an explanation that no longer explains fails. Expressions are plain arithmetic over the
symbols listed, with `min`, `max`, `floor` and three named sums (see FUNCTIONS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES
from physics.memory import kv_copies, stage_memory
from physics.model import READ_ALL, READ_CHOSEN, READ_CHUNK, READ_RECENT, DenseFFN, Scan
from physics.network import remote_domains, remote_frac
from physics.regimes import BOUNDS, DECODE, REGIMES, flop_joules, hardware
from physics.scenario import Scenario
from physics.workload import FLOP_CLASSES, workload

FUNCTIONS: dict[str, tuple[Callable[..., float], str]] = {
    "pairs": (
        lambda n, p, m, limit: float(sum(min((p + i) // m, limit) for i in range(1, int(n) + 1))),
        "pairs(n, P, m, K) = Σ over i = 1..n of min(⌊(P + i)/m⌋, K)",
    ),
    "chunk_pairs": (
        lambda n, p, c: float(sum((p + i - 1) % c + 1 for i in range(1, int(n) + 1))),
        "chunk_pairs(n, P, C) = Σ over i = 1..n of ((P + i − 1) mod C) + 1",
    ),
    "chosen": (
        lambda n, entries, limit: entries * (1.0 - (1.0 - min(1.0, limit / max(entries, 1e-300))) ** n),
        "chosen(n, N, K) = N·(1 − (1 − min(1, K/N))^n), choices of new tokens taken as independent",
    ),
    "floor": (math.floor, "⌊x⌋"),
    "min": (min, ""),
    "max": (max, ""),
}
"""Functions an expression may call: the obvious form, not the closed one of `attention`; and how each is shown."""

INPUT = "input"


@dataclass(frozen=True)
class Term:
    """One number put into a formula: symbol, value, unit, meaning, and where it is from."""

    symbol: str
    value: float
    unit: str
    meaning: str
    source: str


@dataclass(frozen=True)
class Part:
    """One addend: what it is, its formula over symbols, and what the formula gives."""

    label: str
    expression: str


@dataclass(frozen=True)
class Derivation:
    """A cell of the table taken apart: value = sum of the parts, each evaluated over the terms.

    kind says what the number is: "bound", "derived" or "estimate".
    """

    regime: str
    column: str
    unit: str
    parts: tuple[Part, ...]
    terms: tuple[Term, ...]
    kind: str = "derived"
    note: str = ""

    def evaluate(self) -> float:
        """Sum of the parts with the terms' numbers put in."""
        return sum(self.part_value(part) for part in self.parts)

    def part_value(self, part: Part) -> float:
        """One part with the terms' numbers put in."""
        names: dict[str, Any] = {term.symbol: term.value for term in self.terms}
        names.update({name: function for name, (function, _) in FUNCTIONS.items()})
        # Expressions are written in this module only; no user text reaches them.
        return float(eval(part.expression, {"__builtins__": {}}, names))  # noqa: S307

    def with_numbers(self, part: Part) -> str:
        """The part's formula with every symbol replaced by its number."""
        text = part.expression
        for term in sorted(self.terms, key=lambda term: -len(term.symbol)):
            text = _replace_symbol(text, term.symbol, f"{term.value:,.10g}".replace(",", " "))
        return text


def _replace_symbol(text: str, symbol: str, number: str) -> str:
    pieces, start = [], 0
    while (at := text.find(symbol, start)) >= 0:
        before = text[at - 1] if at else " "
        after = text[at + len(symbol)] if at + len(symbol) < len(text) else " "
        whole = not (before.isalnum() or before in "_.") and not (after.isalnum() or after in "_(")
        pieces.append(text[start:at] + (number if whole else symbol))
        start = at + len(symbol)
    return "".join(pieces) + text[start:]


class _Sheet:
    """Collects terms and parts while a derivation is written."""

    def __init__(self, scenario: Scenario, regime: str) -> None:
        self.s, self.regime = scenario, regime
        self.model_source = scenario.model.source or "model as given"
        self.machine_source = scenario.machine.source or "machine as given"
        self.terms: dict[str, Term] = {}
        self.parts: list[Part] = []
        new = {"prefill": scenario.prefill_tokens, "midfill": scenario.new_tokens}.get(regime, 1)
        self.new, self.prefix = float(new), 0.0 if regime == "prefill" else float(scenario.context_tokens)

    def term(self, symbol: str, value: float, unit: str, meaning: str, source: str) -> str:
        self.terms[symbol] = Term(symbol, float(value), unit, meaning, source)
        return symbol

    def model(self, symbol: str, value: float, unit: str, meaning: str) -> str:
        return self.term(symbol, value, unit, meaning, self.model_source)

    def hardware(self, symbol: str, value: float, unit: str, meaning: str) -> str:
        return self.term(symbol, value, unit, meaning, self.machine_source)

    def load(self) -> None:
        """R, n and P of this regime."""
        self.term("R", self.s.batch, "requests", "requests in the group", INPUT)
        self.term("n", self.new, "tokens", "new tokens per request", INPUT if self.regime in ("prefill", "midfill") else "decode: one")
        self.term("P", self.prefix, "tokens", "cached tokens per request", INPUT if self.prefix else "prefill: none")

    def add(self, label: str, expression: str) -> None:
        self.parts.append(Part(label, expression))

    def merge(self, other: Derivation, symbol: str, meaning: str) -> str:
        """Another cell as one term of this one."""
        return self.term(symbol, other.evaluate(), other.unit, meaning, f"cell {other.regime}, {other.column}")

    def done(self, column: str, unit: str, kind: str = "derived", note: str = "") -> Derivation:
        if not self.parts:
            self.add("nothing of this regime", "0")
        return Derivation(self.regime, column, unit, tuple(self.parts), tuple(self.terms.values()), kind, note)


def _has(regime: str, part: str) -> bool:
    """Whether a regime counts a part of the step: "attention", "experts" or "rest"."""
    return regime not in DECODE or regime == {"attention": "decode_attention", "experts": "decode_experts", "rest": "decode_shared"}[part]


def _scans(s: Scenario) -> Iterable[tuple[str, int, Scan]]:
    for number, (layers, scan) in enumerate(s.model.scans(s.kv_dtype), 1):
        yield str(number), layers, scan


def _pairs(scan: Scan, sheet: _Sheet, i: str) -> str:
    if scan.read == READ_CHUNK:
        return f"chunk_pairs(n, P, {sheet.model('C' + i, scan.limit, 'tokens', 'chunk')})"
    if scan.stride == 1.0 and math.isinf(scan.limit):
        return "(n*P + n*(n + 1)/2)"
    limit = sheet.model("K" + i, scan.limit, "entries", "most entries a token looks at")
    return f"pairs(n, P, {sheet.model('m' + i, scan.stride, 'tokens', 'tokens per cached entry')}, {limit})"


def _expanded(scan: Scan, sheet: _Sheet) -> bool:
    pairs = sheet.new * sheet.prefix + sheet.new * (sheet.new + 1.0) / 2.0
    saved = pairs * (scan.flops_per_pair - scan.expanded_flops_per_pair)
    return bool(scan.up_projection_flops) and sheet.prefix * scan.up_projection_flops < saved


def _core_flops(sheet: _Sheet) -> None:
    for i, layers, scan in _scans(sheet.s):
        count = sheet.model("L" + i, layers, "layers", "layers of this kind")
        expanded = _expanded(scan, sheet)
        form = "expanded" if expanded else ("absorbed" if scan.up_projection_flops else "")
        pair_flops = scan.expanded_flops_per_pair if expanded else scan.flops_per_pair
        cost = sheet.model("f" + i, pair_flops, "FLOP", f"FLOPs per query-key pair {form}".strip())
        sheet.add(f"scores and values {form}".strip(), f"R*{count}*{_pairs(scan, sheet, i)}*{cost}")
    token_flops = sum(g.count * g.attention.token_flops() for g in sheet.s.model.groups if g.attention is not None)
    if token_flops:
        sheet.add("recurrent layers", f"R*n*{sheet.model('f_rec', token_flops, 'FLOP', 'recurrence and convolution per token, all layers')}")


def _rest_flops(sheet: _Sheet) -> None:
    s, parts = sheet.s, sheet.s.model.params_by_class()
    for i, layers, scan in _scans(s):
        if _expanded(scan, sheet):
            up = sheet.model("u" + i, scan.up_projection_flops, "FLOP", "up-projection of one cached latent, per layer")
            sheet.add("cached latents expanded", f"R*P*{sheet.model('L' + i, layers, 'layers', 'layers of this kind')}*{up}")
    for name, words in (("attention", "projections"), ("dense", "dense FFN"), ("shared", "shared experts"), ("router", "router")):
        if parts[name]:
            sheet.add(words, f"2*R*n*{sheet.model('N_' + name, parts[name], 'parameters', words)}")
    head = sheet.model("N_head", s.model.vocab * s.model.hidden, "parameters", "output head")
    sheet.add("head, one token per request", f"2*R*{head}")


def _expert_flops(sheet: _Sheet) -> None:
    for i, (layers, moe) in enumerate(sheet.s.model.moe_groups, 1):
        count = sheet.model(f"M{i}", layers, "layers", "MoE layers")
        top_k = sheet.model(f"k{i}", moe.top_k, "experts", "experts per token")
        params = sheet.model(f"W{i}", moe.expert_params(sheet.s.model.hidden), "parameters", "parameters of one expert")
        sheet.add("routed experts", f"2*R*n*{count}*{top_k}*{params}")


def _flops(sheet: _Sheet) -> Derivation:
    sheet.load()
    if _has(sheet.regime, "attention"):
        _core_flops(sheet)
    if _has(sheet.regime, "rest"):
        _rest_flops(sheet)
    if _has(sheet.regime, "experts"):
        _expert_flops(sheet)
    return sheet.done("flops", "FLOP")


def _weight_bytes(sheet: _Sheet) -> Derivation:
    s, parts = sheet.s, sheet.s.model.params_by_class()
    formats = s.model.weight_formats(s.weight_dtype)
    if _has(sheet.regime, "rest"):
        names = ["attention", "dense", "shared", "router"]
        for name in names:
            if parts[name]:
                count = sheet.model("N_" + name, parts[name], "parameters", f"{name} weights")
                sheet.add(f"{name} weights, once per step", f"{count}*{_format(sheet, name, getattr(formats, name))}")
        head = sheet.model("N_head", s.model.vocab * s.model.hidden, "parameters", "output head")
        kind = formats.embedding if s.model.tied_embeddings else formats.head
        sheet.add("head", f"{head}*{_format(sheet, 'head', kind)}")
    if _has(sheet.regime, "experts"):
        _expert_bytes(sheet, formats.routed)
    return sheet.done("weight_bytes", "B")


def _format(sheet: _Sheet, name: str, dtype: str) -> str:
    return sheet.term(f"b_{name}", WEIGHT_BYTES[dtype], "B", f"bytes per weight, {dtype}", "number format")


def _expert_bytes(sheet: _Sheet, dtype: str) -> None:
    s = sheet.s
    for i, (layers, moe) in enumerate(s.model.moe_groups, 1):
        sheet.load()
        experts = sheet.model(f"E{i}", moe.n_experts, "experts", "experts per layer")
        top_k = sheet.model(f"k{i}", moe.top_k, "experts", "experts per token")
        if s.routing.kind == "uniform":  # type: ignore[union-attr]
            distinct = f"{experts}*(1 - (1 - {top_k}/{experts})**(R*n))"
        elif s.routing.kind == "round_robin":  # type: ignore[union-attr]
            distinct = f"min({top_k}*R*n, {experts})"
        else:
            value = s.routing.distinct_experts(moe.n_experts, moe.top_k, s.batch, sheet.new)  # type: ignore[union-attr]
            distinct = sheet.term(f"D{i}", float(value), "experts", "distinct experts touched per layer", "routing of the scenario")
        count = sheet.model(f"M{i}", layers, "layers", "MoE layers")
        params = sheet.model(f"W{i}", moe.expert_params(s.model.hidden), "parameters", "parameters of one expert")
        sheet.add("distinct routed experts", f"{count}*{distinct}*{params}*{_format(sheet, 'routed', dtype)}")


def _kv_bytes(sheet: _Sheet) -> Derivation:
    s = sheet.s
    if not _has(sheet.regime, "attention"):
        return sheet.done("kv_bytes", "B")
    sheet.load()
    scale = sheet.term("x", s.kv_scale, "", "KV bytes/token over the model's own", INPUT)
    for i, layers, scan in _scans(s):
        count = sheet.model("L" + i, layers, "layers", "layers of this kind")
        size = sheet.model("e" + i, scan.bytes_per_entry * kv_copies(s, scan.shards), "B", f"bytes per cached entry, {s.kv_dtype}")
        read, written = _entries(scan, sheet, i)
        if sheet.prefix:
            sheet.add("cache read", f"R*{count}*{read}*{size}*{scale}")
        sheet.add("cache written", f"R*{count}*{written}*{size}*{scale}")
    state = s.model.state_bytes()
    if state:
        times = "2*" if sheet.prefix else ""
        sheet.add("recurrent state, read and written once" if sheet.prefix else "recurrent state, written", f"{times}R*{sheet.model('S', state, 'B', 'recurrent state of one request')}")
    return sheet.done("kv_bytes", "B")


def _entries(scan: Scan, sheet: _Sheet, i: str) -> tuple[str, str]:
    """Entries read from the prefix and entries written, per request."""
    if scan.read in (READ_RECENT, READ_CHUNK):
        width = sheet.model("w" + i, scan.limit, "tokens", "window" if scan.read == READ_RECENT else "chunk")
        read = f"min(P, {width} - 1)" if scan.read == READ_RECENT else f"(P - floor(P/{width})*{width})"
        return read, f"min(n, {width})"
    stride = "" if scan.stride == 1.0 else sheet.model("m" + i, scan.stride, "tokens", "tokens per cached entry")
    entries, written = (f"floor(P/{stride})", f"n/{stride}") if stride else ("P", "n")
    if scan.read == READ_CHOSEN:
        limit = sheet.model("K" + i, scan.limit, "entries", "entries a token chooses")
        return f"chosen(n, {entries}, {limit})", written
    assert scan.read == READ_ALL
    return entries, written


def _activation_bytes(sheet: _Sheet) -> Derivation:
    if _has(sheet.regime, "experts"):
        dtype = workload(sheet.s).formats[FLOP_CLASSES.index("routed")]
        for i, (layers, moe) in enumerate(sheet.s.model.moe_groups, 1):
            sheet.load()
            count = sheet.model(f"M{i}", layers, "layers", "MoE layers")
            top_k = sheet.model(f"k{i}", moe.top_k, "experts", "experts per token")
            width = sheet.model(f"h{i}", moe.expert_input_width(sheet.s.model.hidden), "elements", "input width of an expert")
            sheet.term("a_in", ACTIVATION_BYTES[dtype], "B", f"activation into an expert, {dtype}", "number format")
            sheet.term("a_out", OUTPUT_BYTES, "B", "activation out of an expert, bf16", "number format")
            sheet.add("expert inputs and outputs", f"R*n*{count}*{top_k}*{width}*(a_in + a_out)")
    return sheet.done("activation_bytes", "B")


def _bytes(sheet: _Sheet) -> Derivation:
    for column, symbol, words in (("weight_bytes", "B_w", "weights"), ("kv_bytes", "B_kv", "KV and state"), ("activation_bytes", "B_a", "activations")):
        sheet.add(words, sheet.merge(derive(sheet.s, sheet.regime, column), symbol, words))
    return sheet.done("bytes", "B")


def _intensity(sheet: _Sheet) -> Derivation:
    flops = sheet.merge(derive(sheet.s, sheet.regime, "flops"), "F", "FLOPs")
    size = sheet.merge(derive(sheet.s, sheet.regime, "bytes"), "B", "bytes")
    sheet.add("FLOPs over bytes", f"{flops}/{size}")
    return sheet.done("intensity_flops_per_byte", "FLOP/B")


def _gpus(sheet: _Sheet) -> str:
    return sheet.term("G", sheet.s.gpus_per_stage, "", "accelerators per stage", INPUT)


_LABELS = ("scores and values", "projections and latents", "dense FFN", "shared experts", "router", "routed experts", "head")


def _class_flops(sheet: _Sheet) -> dict[str, float]:
    """FLOPs of each class in this regime, by the labels of the FLOP derivation."""
    derivation = derive(sheet.s, sheet.regime, "flops")
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


def _compute_s(sheet: _Sheet) -> Derivation:
    work, gpus = workload(sheet.s), _gpus(sheet)
    for name, peak, dtype, words in zip(FLOP_CLASSES, work.peaks, work.formats, _LABELS, strict=True):
        amount = _class_flops(sheet)[name]
        if amount:
            flops = sheet.term("F_" + name, amount, "FLOP", f"FLOPs of {words}", f"cell {sheet.regime}, flops")
            rate = sheet.hardware("peak_" + dtype, peak, "FLOP/s", f"dense {dtype} peak of one accelerator")
            sheet.add(words, f"{flops}/({gpus}*{rate})")
    return sheet.done("compute_s", "s", "bound")


def _memory_s(sheet: _Sheet) -> Derivation:
    size = sheet.merge(derive(sheet.s, sheet.regime, "bytes"), "B", "bytes")
    bandwidth = sheet.hardware("BW", sheet.s.machine.memory_bytes_per_s, "B/s", "memory bandwidth of one accelerator")
    sheet.add("bytes over bandwidth", f"{size}/({_gpus(sheet)}*{bandwidth})")
    return sheet.done("memory_s", "s", "bound")


def _network_parts(sheet: _Sheet) -> tuple[str, str]:
    """Expressions of the bytes on scale-up and scale-out links, whole group; "0" where nothing crosses."""
    s, machine, up, out = sheet.s, sheet.s.machine, [], []
    sheet.load()
    gpus = _gpus(sheet)
    if s.gpus_per_stage == 1:
        return "0", "0"
    spans = s.gpus_per_stage > machine.scale_up_domain
    if spans:
        sheet.hardware("D_up", machine.scale_up_domain, "", "accelerators of a scale-up domain")
    if _has(sheet.regime, "experts"):
        moved = derive(s, sheet.regime, "activation_bytes")
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
    if _has(sheet.regime, "rest"):
        layers = sum(g.count for g in s.model.groups if isinstance(g.ffn, DenseFFN))
        layers += sum(g.count for g in s.model.groups if g.attention is not None) if s.attention_parallel == "tensor" else 0
        if layers:
            sheet.model("L_red", layers, "layers", "layers with a tensor-parallel reduction")
            sheet.model("h", s.model.hidden, "elements", "width of the residual stream")
            sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
            reduced = f"L_red*2*({gpus} - 1)*R*n*h*a_out"
            up.append(reduced)
            if spans:
                out.append(f"{reduced}*D_up/{gpus}")
    return " + ".join(up) or "0", " + ".join(out) or "0"


def _network_s(sheet: _Sheet) -> Derivation:
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


def _hop_s(sheet: _Sheet) -> Derivation:
    s = sheet.s
    if _has(sheet.regime, "rest") and s.pipeline_depth > 1:
        sheet.load()
        sheet.term("stages", s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.model("h", s.model.hidden, "elements", "width of the residual stream")
        sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
        link = sheet.hardware("BW_hop", s.hop_bytes_per_s, "B/s", "link of one accelerator to the next stage, one direction")
        sheet.add("hops between stages", f"(stages - 1)*R*n*h*a_out/({_gpus(sheet)}*{link})")
    return sheet.done("hop_s", "s", "bound")


def _roofline_s(sheet: _Sheet) -> Derivation:
    names = [sheet.merge(derive(sheet.s, sheet.regime, f"{name}_s"), f"t_{name}", f"{name} time") for name in BOUNDS]
    hop = sheet.merge(derive(sheet.s, sheet.regime, "hop_s"), "t_hop", "hops between stages")
    busy = f"max({', '.join(names)})" if sheet.s.overlap else " + ".join(names)
    sheet.add("slowest resource" if sheet.s.overlap else "resources one after another", f"{busy} + {hop}")
    note = "" if stage_memory(sheet.s).fits else "Does not fit the memory: this is what the bound would be if it did."
    return sheet.done("roofline_s", "s", "bound", note)


def _energy_j(sheet: _Sheet) -> Derivation:
    s, work, hw = sheet.s, workload(sheet.s), hardware(sheet.s)
    level = s.machine.levels.get(("memory", s.energy_accounting))
    cost = sheet.term("J_mem", level.j_per_byte if level else math.nan, "J/B", f"memory, {s.energy_accounting}", level.source if level else "no source")
    for column, symbol, words in (("weight_bytes", "B_w", "weights"), ("kv_bytes", "B_kv", "KV and state"), ("activation_bytes", "B_a", "activations")):
        sheet.add(words, f"{sheet.merge(derive(s, sheet.regime, column), symbol, words)}*{cost}")
    for name, j, dtype, words in zip(FLOP_CLASSES, flop_joules(s, work), work.formats, _LABELS, strict=True):
        amount = _class_flops(sheet)[name]
        if amount:
            source = s.machine.flop_j[dtype].source if dtype in s.machine.flop_j else "no source"
            sheet.term("J_" + dtype, j, "J/FLOP", f"one {dtype} FLOP", source)
            sheet.add(f"FLOPs of {words}", f"{sheet.term('F_' + name, amount, 'FLOP', words, f'cell {sheet.regime}, flops')}*J_{dtype}")
    _network_joules(sheet, hw)
    if s.machine.idle_w:
        idle = sheet.hardware("W_idle", s.machine.idle_w, "W", "idle power of one accelerator")
        seconds = sheet.merge(derive(s, sheet.regime, "roofline_s"), "t", "seconds of the line")
        stages = sheet.term("stages", s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.add("idle power", f"{idle}*{_gpus(sheet)}*{stages}*{seconds}")
    return sheet.done("energy_j", "J")


def _network_joules(sheet: _Sheet, hw: Any) -> None:
    from physics import kernels as k

    up, out = _network_parts(sheet)
    accounting = sheet.s.energy_accounting
    for expression, symbol, index, level in ((up, "J_up", k.HW_J_UP, "scale_up"), (out, "J_out", k.HW_J_OUT, "scale_out")):
        found = sheet.s.machine.levels.get((level, accounting))
        if expression != "0":
            sheet.term(symbol, hw[index], "J/B", f"{level.replace('_', '-')} link, {accounting}", found.source if found else "no source")
            sheet.add(f"{level.replace('_', '-')} network", f"({expression})*{symbol}")
    if _has(sheet.regime, "rest") and sheet.s.pipeline_depth > 1:
        found = sheet.s.machine.levels.get(("scale_out", accounting))
        sheet.term("J_out", hw[k.HW_J_OUT], "J/B", f"scale-out link, {accounting}", found.source if found else "no source")
        sheet.term("stages", sheet.s.pipeline_depth, "", "pipeline depth", INPUT)
        sheet.model("h", sheet.s.model.hidden, "elements", "width of the residual stream")
        sheet.term("a_out", OUTPUT_BYTES, "B", "bytes of one activation, bf16", "number format")
        sheet.add("hops between stages", "(stages - 1)*R*n*h*a_out*J_out")


_DERIVATIONS: dict[str, Callable[[_Sheet], Derivation]] = {
    "flops": _flops,
    "weight_bytes": _weight_bytes,
    "kv_bytes": _kv_bytes,
    "activation_bytes": _activation_bytes,
    "bytes": _bytes,
    "intensity_flops_per_byte": _intensity,
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
    return _DERIVATIONS[column](_Sheet(scenario, regime))

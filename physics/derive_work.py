"""Derivations of the work of a step: FLOPs and bytes of each regime, part by part."""

from __future__ import annotations

import math
from collections.abc import Iterable

from physics.derivation import INPUT, Derivation, Sheet
from physics.formats import ACTIVATION_BYTES, OUTPUT_BYTES, WEIGHT_BYTES
from physics.layers import READ_CHOSEN, READ_CHUNK, READ_RECENT, MoEFFN, Scan
from physics.memory import kv_copies
from physics.routing import Routing
from physics.scenario import Scenario
from physics.workload import FLOP_CLASSES, workload


def _scans(s: Scenario) -> Iterable[tuple[str, int, Scan]]:
    layers_of: dict[Scan, int] = {}
    for layers, scan in s.model.scans(s.kv_dtype):
        layers_of[scan] = layers_of.get(scan, 0) + layers
    for number, (scan, layers) in enumerate(layers_of.items(), 1):
        yield str(number), layers, scan


def _pairs(scan: Scan, sheet: Sheet, i: str) -> str:
    if scan.read == READ_CHUNK:
        return f"chunk_pairs(n, P, {sheet.model('C' + i, scan.limit, 'tokens', 'chunk')})"
    if scan.stride == 1.0 and math.isinf(scan.limit):
        return "(n*P + n*(n + 1)/2)"
    limit = sheet.model("K" + i, scan.limit, "entries", "most entries a token looks at")
    return f"pairs(n, P, {sheet.model('m' + i, scan.stride, 'tokens', 'tokens per cached entry')}, {limit})"


def _expanded(scan: Scan, sheet: Sheet) -> bool:
    pairs = sheet.new * sheet.prefix + sheet.new * (sheet.new + 1.0) / 2.0
    saved = pairs * (scan.flops_per_pair - scan.expanded_flops_per_pair)
    return bool(scan.up_projection_flops) and sheet.prefix * scan.up_projection_flops < saved


def _core_flops(sheet: Sheet) -> None:
    for i, layers, scan in _scans(sheet.s):
        count = sheet.model("L" + i, layers, "layers", "layers of this kind")
        expanded = _expanded(scan, sheet)
        form = "expanded" if expanded else ("absorbed" if scan.up_projection_flops else "")
        pair_flops = scan.expanded_flops_per_pair if expanded else scan.flops_per_pair
        cost = sheet.model("f" + i, pair_flops, "FLOP", f"FLOPs per query-key pair {form}".strip())
        sheet.add(f"scores and values {form}".strip(), f"R*{count}*{_pairs(scan, sheet, i)}*{cost}")
    token_flops = sum(g.count * g.attention.token_flops() for g in sheet.s.model.groups if g.attention is not None)
    if token_flops:
        sheet.add(
            "recurrent layers", f"R*n*{sheet.model('f_rec', token_flops, 'FLOP', 'recurrence and convolution per token, all layers')}"
        )


def _rest_flops(sheet: Sheet) -> None:
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


def _expert_flops(sheet: Sheet) -> None:
    for i, (layers, moe) in enumerate(sheet.s.model.moe_groups, 1):
        count = sheet.model(f"M{i}", layers, "layers", "MoE layers")
        top_k = sheet.model(f"k{i}", moe.top_k, "experts", "experts per token")
        params = sheet.model(f"W{i}", moe.expert_params(sheet.s.model.hidden), "parameters", "parameters of one expert")
        sheet.add("routed experts", f"2*R*n*{count}*{top_k}*{params}")


def flops(sheet: Sheet) -> Derivation:
    """FLOPs of a regime.

    sheet: collects the parts and terms.
    """
    sheet.load()
    if sheet.counts("attention"):
        _core_flops(sheet)
    if sheet.counts("rest"):
        _rest_flops(sheet)
    if sheet.counts("experts"):
        _expert_flops(sheet)
    return sheet.done("flops", "FLOP")


def weight_bytes(sheet: Sheet) -> Derivation:
    """Weight bytes of a regime, each tensor class once per step.

    sheet: collects the parts and terms.
    """
    s, parts = sheet.s, sheet.s.model.params_by_class()
    formats = s.model.weight_formats(s.weight_dtype)
    if sheet.counts("rest"):
        names = ["attention", "dense", "shared", "router"]
        for name in names:
            if parts[name]:
                count = sheet.model("N_" + name, parts[name], "parameters", f"{name} weights")
                sheet.add(f"{name} weights, once per step", f"{count}*{_format(sheet, name, getattr(formats, name))}")
        head = sheet.model("N_head", s.model.vocab * s.model.hidden, "parameters", "output head")
        kind = formats.embedding if s.model.tied_embeddings else formats.head
        sheet.add("head", f"{head}*{_format(sheet, 'head', kind)}")
    if sheet.counts("experts"):
        _expert_bytes(sheet, formats.routed)
    return sheet.done("weight_bytes", "B")


def _format(sheet: Sheet, name: str, dtype: str) -> str:
    return sheet.term(f"b_{name}", WEIGHT_BYTES[dtype], "B", f"bytes per weight, {dtype}", "number format")


def _expert_bytes(sheet: Sheet, dtype: str) -> None:
    s = sheet.s
    for i, (layers, moe) in enumerate(s.model.moe_groups, 1):
        sheet.load()
        experts = sheet.model(f"E{i}", moe.n_experts, "experts", "experts per layer")
        top_k = sheet.model(f"k{i}", moe.top_k, "experts", "experts per token")
        distinct = _distinct(sheet, i, moe, experts, top_k)
        count = sheet.model(f"M{i}", layers, "layers", "MoE layers")
        params = sheet.model(f"W{i}", moe.expert_params(s.model.hidden), "parameters", "parameters of one expert")
        sheet.add("distinct routed experts", f"{count}*{distinct}*{params}*{_format(sheet, 'routed', dtype)}")


def _distinct(sheet: Sheet, i: int, moe: MoEFFN, experts: str, top_k: str) -> str:
    """Distinct experts of a layer: in closed form where all are alike and independent, else one number and how it comes about."""
    routing = Routing.of(sheet.s.routing)
    if routing.kind == "uniform" and routing.overlap is None:
        return f"{experts}*(1 - (1 - {top_k}/{experts})**(R*n))"
    if routing.kind == "round_robin" and routing.overlap is None:
        return f"min({top_k}*R*n, {experts})"
    how = "Σ over experts of 1 − (1 − π)^(R·n)"
    if routing.kind == "round_robin":
        how = "min(R·(what one request touches), E), an estimate"
    elif routing.overlap is not None and sheet.new > 1:
        how = "Σ over experts of 1 − [Γ(s)Γ(b + n) / (Γ(b)Γ(s + n))]^R, b = (1 − π)s, an estimate"
    value = float(routing.distinct_experts(moe.n_experts, moe.top_k, sheet.s.batch, sheet.new))
    return sheet.term(f"D{i}", value, "experts", f"distinct experts touched per layer: {how}", "routing of the scenario")


def kv_bytes(sheet: Sheet) -> Derivation:
    """Bytes of cache and state read and written.

    sheet: collects the parts and terms.
    """
    s = sheet.s
    if not sheet.counts("attention"):
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
        sheet.add(
            "recurrent state, read and written once" if sheet.prefix else "recurrent state, written",
            f"{times}R*{sheet.model('S', state, 'B', 'recurrent state of one request')}",
        )
    return sheet.done("kv_bytes", "B")


def _entries(scan: Scan, sheet: Sheet, i: str) -> tuple[str, str]:
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
    return entries, written


def activation_bytes(sheet: Sheet) -> Derivation:
    """Bytes into and out of the routed experts.

    sheet: collects the parts and terms.
    """
    if sheet.counts("experts"):
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


def bytes(sheet: Sheet) -> Derivation:
    """All bytes of a regime.

    sheet: collects the parts and terms.
    """
    for column, symbol, words in (
        ("weight_bytes", "B_w", "weights"),
        ("kv_bytes", "B_kv", "KV and state"),
        ("activation_bytes", "B_a", "activations"),
    ):
        sheet.add(words, sheet.merge(column, symbol, words))
    return sheet.done("bytes", "B")


def intensity(sheet: Sheet) -> Derivation:
    """Arithmetic intensity of a regime.

    sheet: collects the parts and terms.
    """
    flops = sheet.merge("flops", "F", "FLOPs")
    size = sheet.merge("bytes", "B", "bytes")
    sheet.add("FLOPs over bytes", f"{flops}/{size}")
    return sheet.done("intensity_flops_per_byte", "FLOP/B")

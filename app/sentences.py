"""The answers in words: one sentence above each picture, computed from the snapshot, **bold** where a number changes."""

from __future__ import annotations

import math

import numpy as np

from app.plots.labels import NAMES
from app.plots.pipeline import BENCHMARK, crossover_depth
from app.quantities import format_exact, format_quantity
from app.state import AXES, QUANTITIES, Snapshot
from physics.crossings import crossing_rows
from physics.regimes import BOUNDS, DECODE, REGIMES

WORDS = {"compute": "compute", "memory": "memory bandwidth", "network": "the network"}
_INDEX = {name: i for i, name in enumerate(REGIMES)}
_SHORT = {"decode_attention": "attention overtakes", "decode_experts": "the experts overtake"}


def bold(text: str) -> str:
    """A changing number inside a sentence."""
    return f"**{text}**"


def share_text(share: float) -> str:
    """A share in per cent, never rounded to a false nothing or all."""
    if 0.0 < share < 0.005:
        return "under 1 %"
    if 0.995 <= share < 1.0:
        return "over 99 %"
    return f"{100.0 * share:.0f} %"


def first_share(share: float) -> str:
    """`share_text` in bold, at the start of a sentence."""
    text = share_text(share)
    return bold(text[:1].upper() + text[1:])


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "nothing"


def fit(s: Snapshot) -> str:
    """Whether a stage fits, with the numbers that decide it."""
    memory, gpus = s.memory, s.scenario.gpus_per_stage
    weights, kv, capacity = (format_quantity(value, "B") for value in (memory.weights, memory.kv, memory.capacity))
    held = f"weights {bold(weights)} + KV {bold(kv)} per stage of {bold(capacity)}"
    if memory.fits:
        return f"Fits: {held}, {bold(share_text(memory.total / memory.capacity))} full."
    needed = f": needs at least {bold(format_exact(memory.min_gpus, 'GPUs'))} per stage" if memory.min_gpus > gpus else ""
    return f"Does not fit: {held}{needed}."


def _withheld(s: Snapshot) -> str:
    return f"{fit(s)} Work, traffic and intensity hold; seconds are withheld."


def roofline(s: Snapshot) -> str:
    """What binds each regime, and how far decode attention is from its ridge."""
    if not s.memory.fits:
        return _withheld(s)
    bound = [BOUNDS[i] for i in s.results["bound_index"]]
    active = [name for name in REGIMES if s.results["flops"][_INDEX[name]] > 0]
    groups = []
    for resource in BOUNDS:
        names = [NAMES[name] for name in active if bound[_INDEX[name]] == resource]
        if names:
            groups.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} bound by {bold(WORDS[resource])}")
    intensity, ridge = (float(s.results[key][_INDEX["decode_attention"]]) for key in ("intensity_flops_per_byte", "ridge_flops_per_byte"))
    side = "above" if intensity > ridge else "below"
    tail = f"decode attention does {bold(_plain(intensity))} FLOP/B whatever the batch, {side} its ridge of {bold(_plain(ridge))}"
    return f"{_sentence('; '.join(groups))} {_sentence(tail)}"


def _plain(value: float) -> str:
    return format_quantity(value, "")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def utilisation(s: Snapshot) -> str:
    """Which resources the best and the worst regime keep busy."""
    shares = np.nan_to_num(np.stack([s.results[f"{name}_frac"] for name in BOUNDS], axis=-1))
    decode = [_INDEX[name] for name in DECODE]
    seconds = np.asarray(s.results["roofline_s"], float)[decode]
    if not s.memory.fits or not seconds.sum() > 0:
        return _withheld(s)
    busy = seconds @ shares[decode] / seconds.sum()
    best = np.maximum(busy, shares[_INDEX["midfill"]])
    strong = [name for name, share in zip(BOUNDS, best, strict=True) if share >= 0.5]
    which = "All three" if len(strong) == len(BOUNDS) else f"Only {listed(strong)}"
    mid, step = ([bold(share_text(float(share))) for share in row] for row in (shares[_INDEX["midfill"]], busy))
    return (
        f"{which} {'is' if len(strong) == 1 else 'are'} worked hard: midfill keeps compute {mid[0]} busy, memory {mid[1]} and network "
        f"{mid[2]}; a decode step keeps them {step[0]}, {step[1]} and {step[2]} busy."
    )


def crossover(s: Snapshot) -> str:
    """The crossing that matters most on the chosen axis: attention and experts of decode, else the nearest one."""
    axis, unit = s.choices.axis, AXES[s.choices.axis][2]
    at = f"At {bold(format_exact(s.scenario.context_tokens, 'tokens'))} and {bold(format_exact(s.scenario.batch, 'requests'))}, "
    if s.choices.quantity == "roofline_s" and not s.memory.fits:
        return _withheld(s)
    values = np.asarray(s.results[s.choices.quantity], float)
    step = float(np.nansum(values[[_INDEX[name] for name in DECODE]]))
    attention = float(values[_INDEX["decode_attention"]])
    what = {"roofline_s": "the time", "bytes": "the bytes", "flops": "the FLOPs", "energy_j": "the joules"}.get(s.choices.quantity)
    lead = at + (
        f"decode attention takes {bold(share_text(attention / step))} of {what} of a decode step"
        if what and step > 0
        else f"decode attention has {bold(format_quantity(attention, QUANTITIES[s.choices.quantity]))}"
    )
    pair = [row for row in s.crossings if {row["a"], row["b"]} == {"decode_attention", "decode_experts"}]
    if not s.scenario.model.moe_groups:
        return f"{lead}; this model has no routed experts."
    if pair:
        row = pair[0]
        overtaken = "the experts" if row["a"] == "decode_experts" else "decode attention"
        return f"{lead}; {_SHORT[row['b']]} {overtaken} at {bold(format_quantity(row['x'], unit))}{_in_time(s, unit)}."
    curves = np.asarray(s.curves[s.choices.quantity])
    gap = curves[:, _INDEX["decode_attention"]] - curves[:, _INDEX["decode_experts"]]
    side = "above" if np.nanmean(np.sign(gap)) > 0 else "below"
    return f"{lead}; along this axis it stays {side} the experts ({axis_word(axis)})."


def _in_time(s: Snapshot, unit: str) -> str:
    """Where decode attention and experts cross in time, beside where they cross in bytes."""
    if s.choices.quantity != "bytes":
        return ""
    seconds = s.curves["roofline_s"]
    lines = {name: (s.axis_values, seconds[:, _INDEX[name]]) for name in ("decode_attention", "decode_experts")}
    found = crossing_rows(lines, "roofline_s", s.choices.axis)
    return f" in bytes, at {bold(format_quantity(found[0]['x'], unit))} in time" if found else " in bytes"


def axis_word(axis: str) -> str:
    """An axis as a phrase."""
    low, high, unit = AXES[axis]
    return f"{format_quantity(low, unit)} to {format_quantity(high, unit)}"


def table(s: Snapshot) -> str:
    """Midfill against one-token decode and against a prefill of the same tokens."""
    results = s.results
    flops, size = (float(sum(results[key][_INDEX[name]] for name in DECODE)) for key in ("flops", "bytes"))
    if not size > 0 or not flops > 0:
        return ""
    intensity = float(results["intensity_flops_per_byte"][_INDEX["midfill"]]) / (flops / size)
    traffic = float(results["kv_bytes"][_INDEX["midfill"]]) / float(s.short_prefill["kv_bytes"][_INDEX["prefill"]])
    tokens = format_exact(s.scenario.new_tokens, "tokens")
    return (
        f"A midfill of {bold(tokens)} has {bold(_plain(intensity))} times the intensity of a decode step "
        f"and moves {bold(_plain(traffic))} times the KV of a prefill of the same {tokens}."
    )


def stage(s: Snapshot) -> str:
    """Where KV crosses the weights, and what the present depth holds against the benchmark."""
    depth, memory = crossover_depth(s), s.memory
    stages = format_exact(s.scenario.pipeline_depth, "stages")
    low, high = BENCHMARK
    where = "inside" if low <= memory.total <= high else ("below" if memory.total < low else "above")
    now = f"With {bold(stages)} a stage holds {bold(format_quantity(memory.total, 'B'))}, {where} the benchmark of 400 to 500 GB"
    if not math.isfinite(depth):
        return f"{now}; nothing of it is KV."
    if depth < 1:
        return f"{now}; KV outweighs the weights at every depth, so a deeper pipe saves less than half a stage."
    return f"{now}; beyond {bold(format_quantity(depth, 'stages'))} KV outweighs the weights and depth can save at most half of it."


def latency(s: Snapshot) -> str:
    """Depth does not speed up one stream."""
    if not s.memory.fits:
        return _withheld(s)
    turn, hop = s.turn, float(np.nansum(s.results["hop_s"][[_INDEX[name] for name in DECODE]]))
    share = share_text(hop / turn.tpot_s)
    now = f", {bold(share)} of it now" if hop else ""
    return f"One token takes {bold(format_quantity(turn.tpot_s, 's'))}; depth only adds hops{now}: a deeper pipe is no faster stream."


def throughput(s: Snapshot) -> str:
    """Depth multiplies the groups in flight."""
    if not s.memory.fits:
        return _withheld(s)
    depth = s.scenario.pipeline_depth
    pipe = s.turn.tokens_per_s_per_gpu * s.scenario.gpus_per_stage * depth
    groups = "1 group" if depth == 1 else f"{depth} groups"
    gpus = format_exact(depth * s.scenario.gpus_per_stage, "GPUs")
    return (
        f"{bold(groups)} in flight {'gives' if depth == 1 else 'give'} {bold(format_quantity(pipe, 'tokens/s'))} from {bold(gpus)}, "
        f"{bold(format_quantity(s.turn.tokens_per_s_per_gpu, 'tokens/s'))} each: depth adds accelerators and groups alike."
    )

"""What a report rests on: the assumptions of its state in sentences, and the source of every number put in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import physics
from app.quantities import format_exact, format_quantity
from app.recipe import routing_words
from app.state import Snapshot
from physics.catalog import FIELD_OF_QUANTITY, Row, glossary, layer_rows, load_machine, load_model, machine_rows, model_row, sources

GIVEN = "given by the user"
LEVELS = {"memory": "memory", "sram": "on-chip SRAM", "scale_up": "scale-up network", "scale_out": "scale-out network"}


class Source(NamedTuple):
    """One number, or group of numbers, put in: what it is, its value, who says so, and how far it was checked."""

    what: str
    value: str
    citation: str
    confidence: str


def cited(cell: str) -> str:
    """A source cell, `key:place; key`, as citations."""
    known, parts = sources(), []
    for part in filter(None, (part.strip() for part in cell.split(";"))):
        key, _, place = part.partition(":")
        citation = known[key.strip()]["citation"] if key.strip() in known else part
        parts.append(f"{citation} ({place.strip()})" if place.strip() and key.strip() in known else citation)
    return "; ".join(parts)


def used_sources(s: physics.Scenario) -> list[Source]:
    """The source of every number of the model, the machine and the energy of a scenario."""
    return [*_model(s.model), *_machine(s.machine), *_energies(s)]


def _model(model: physics.Model) -> Iterator[Source]:
    if not _is_known(model):
        yield Source(f"{model.name}: dimensions and formats", format_quantity(model.n_params, "parameters"), GIVEN, "")
        return
    row = model_row(model.name)
    size = f"hidden {row['hidden']}, vocabulary {row['vocab']}"
    yield Source(f"{model.name}: width, vocabulary", size, cited(row["dimensions_source"]), row["dimensions_confidence"])
    for layer in layer_rows(model.name):
        kinds = f"{layer['count']} × {layer['attention']} + {layer['ffn']}"
        numbers = " ".join(filter(None, (layer["attention_parameters"], layer["ffn_parameters"])))
        yield Source(f"layers: {kinds}", numbers, cited(layer["source"]), layer["confidence"])
    formats = {name: row[f"format_{name}"] for name in ("attention", "dense", "shared", "routed", "router", "head")}
    yield Source(
        "published formats of the weights",
        ", ".join(f"{n} {f}" for n, f in formats.items()),
        cited(row["formats_source"]),
        row["formats_confidence"],
    )
    if row["context_source"]:
        longest = format_exact(float(row["max_context"]), "tokens") if row["max_context"] else "–"
        yield Source("longest context", longest, cited(row["context_source"]), row["context_confidence"])


def _is_known(model: physics.Model) -> bool:
    try:
        return load_model(model.name) == model
    except KeyError:
        return False


def _machine(machine: physics.Machine) -> Iterator[Source]:
    try:
        published = load_machine(machine.name)
        rows = [row for row in machine_rows(machine.name) if row["status"] == "used"]
    except (KeyError, ValueError):
        yield Source(f"{machine.name}: all its numbers", format_quantity(machine.memory_bytes, "B"), GIVEN, "")
        return
    words = glossary()
    for row in rows:
        field = FIELD_OF_QUANTITY.get(row["quantity"])
        if field is None and not row["quantity"].startswith("peak_") and row["quantity"] != "memory_kind":
            continue  # kept for the record; nothing computes with it
        name = words[field]["label"] if field in words else row["quantity"].replace("_", " ")
        yield _machine_row(machine, published, field, row, f"{machine.name}: {name[:1].lower()}{name[1:]}")


def _machine_row(machine: physics.Machine, published: physics.Machine, field: str | None, row: Row, what: str) -> Source:
    now, printed = (getattr(m, field) if field else None for m in (machine, published))
    changed = now != printed and not (isinstance(now, float) and math.isnan(now))
    if changed:
        return Source(what, f"{now:g} (published: {row['value']} {row['unit']})", GIVEN, "")
    return Source(what, f"{row['value']} {row['unit']}", cited(row["source"]), row["confidence"])


def _energies(s: physics.Scenario) -> Iterator[Source]:
    for name, words in LEVELS.items():
        level = s.machine.levels.get((name, s.energy_accounting))
        if level is not None:
            yield Source(
                f"energy of {words}: {level.label}",
                format_quantity(level.j_per_byte, "J/B"),
                cited(level.source),
                f"{level.accounting} accounting",
            )
    for dtype, level in s.machine.flop_j.items():
        if dtype in s.machine.peaks:
            yield Source(
                f"energy of a FLOP in {dtype.upper()}: {level.label}",
                format_quantity(level.j_per_byte, "J/FLOP"),
                cited(level.source),
                level.accounting,
            )


def assumptions(s: Snapshot) -> list[str]:
    """What the numbers of a state take for granted, one sentence each."""
    return [*_of_the_machine(s.scenario), *_of_the_load(s), *_always()]


def _of_the_machine(s: physics.Scenario) -> Iterator[str]:
    if s.efficiencies is None:
        yield "Seconds are bounds: work divided by the data sheet's peak, the slowest resource counting. No real run is faster."
    else:
        yield f"Estimates divide each bound by {s.efficiencies}."
    hidden = "hide behind computation" if s.overlap else "follow computation, one after the other"
    yield f"Memory and network transfers {hidden}; compute, memory and network {'overlap' if s.overlap else 'add up'}."
    weights = f"in {s.weight_dtype}" if s.weight_dtype else "in the formats they were published in"
    arithmetic = (
        f"all arithmetic in {s.compute_dtype}" if s.compute_dtype else "scores and values in BF16, matrices in their weights' format"
    )
    yield f"Weights are {weights}, the cache in {s.kv_dtype}; {arithmetic}."
    attention = (
        "each request's cache on one accelerator" if s.attention_parallel == "data" else "heads split over the stage, latents replicated"
    )
    yield f"{format_exact(s.gpus_per_stage, 'GPUs')} share a stage: {attention}."
    if s.double_buffered:
        yield "The cache is held twice while one copy is exchanged."
    if s.memory_margin_frac:
        yield f"{100 * s.memory_margin_frac:g} % of the memory is kept free."


def _of_the_load(snapshot: Snapshot) -> Iterator[str]:
    s = snapshot.scenario
    prompt = "a prompt as long as the context" if s.prompt_tokens is None else f"a prompt of {format_exact(s.prompt_tokens, 'tokens')}"
    yield f"Prefill reads {prompt}; a midfill appends {format_exact(s.new_tokens, 'tokens')} to each request's cached context."
    yield f"A turn decodes {format_exact(s.output_tokens, 'tokens')} per request."
    if s.model.moe_groups:
        words = routing_words(snapshot.choices, physics.Routing.of(s.routing)) or "uniform"
        plain = {
            "uniform": "Tokens choose experts independently and uniformly.",
            "'round_robin'": "Tokens choose experts in perfect balance.",
        }
        yield plain.get(words, f"Tokens choose experts by {words}.")
    yield f"Joules count bytes by the accounting “{s.energy_accounting}”; they are estimates."


def _always() -> Iterator[str]:
    yield "A cache is read once per step. Norms, softmax, rotary embedding and sampling count no work; no scheduler or queue is simulated."
    yield "Where a state does not fit the memory, its seconds are withheld; FLOPs, bytes and intensity hold."
    yield "The sliders stop at the states that were computed; nothing is interpolated between them."

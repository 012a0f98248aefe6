"""A cell of the table taken apart for the side panel: formula, numbers put in, source of each."""

from __future__ import annotations

from collections.abc import Sequence

from app.components import Block
from app.plots.labels import NAMES
from app.quantities import format_exact, format_quantity
from app.state import Snapshot
from physics.catalog import glossary
from physics.derivation import FUNCTIONS, Derivation, Part
from physics.derive import derive

KINDS = {"bound": "A bound: it cannot be less.", "derived": "Derived from the inputs.", "estimate": "An estimate."}


def pretty(expression: str) -> str:
    """A formula as people write it: × and − for * and -, ^ for powers."""
    text = expression.replace("**", "^").replace(" - ", " − ")
    return text.replace("*", "·")


def _part(derivation: Derivation, part: Part) -> list[Block]:
    value = format_quantity(derivation.part_value(part), derivation.unit)
    return [
        Block(kind="heading", text=part.label),
        Block(kind="formula", text=pretty(part.expression)),
        Block(kind="formula", text=f"= {pretty(derivation.with_numbers(part))} = {value}"),
    ]


def cell(s: Snapshot, regime: str, column: str) -> tuple[str, list[Block]]:
    """Title and blocks of the side panel for one cell."""
    derivation = derive(s.scenario, regime, column)
    words = glossary().get(column, {})
    total = derivation.evaluate()
    answer = f"**{format_quantity(total, derivation.unit, 6)}** · {KINDS[derivation.kind]} {derivation.note}".strip()
    blocks = [Block(kind="text", text=words.get("definition", "")), Block(kind="text", text=answer)]
    for part in derivation.parts:
        blocks += _part(derivation, part)
    if derivation.terms:
        blocks.append(Block(kind="heading", text="Numbers put in"))
        blocks.append(Block(kind="terms", rows=[(t.symbol, _value(t.value, t.unit), t.meaning, t.source) for t in derivation.terms]))
    used = [shown for name, (_, shown) in FUNCTIONS.items() if shown and any(name + "(" in part.expression for part in derivation.parts)]
    blocks += [Block(kind="text", text=text) for text in used]
    return f"{NAMES[regime].capitalize()}: {words.get('label', column).lower()}", blocks


def cells(s: Snapshot, regimes: Sequence[str], column: str) -> tuple[str, list[Block]]:
    """Title and blocks of the side panel for the sum of one column over some regimes, part after part."""
    if len(regimes) == 1:
        return cell(s, regimes[0], column)
    parts = [derive(s.scenario, regime, column) for regime in regimes]
    values = [format_quantity(part.evaluate(), part.unit) for part in parts]
    total = format_quantity(sum(part.evaluate() for part in parts), parts[0].unit, 6)
    blocks = [Block(kind="text", text="One decode step, the sum of its three lines:")]
    blocks.append(Block(kind="formula", text=f"{' + '.join(values)} = {total}"))
    for regime in regimes:
        title, inner = cell(s, regime, column)
        blocks += [Block(kind="heading", text=title), *inner[1:]]
    return f"Decode step: {glossary()[column]['label'].lower()}", blocks


def _value(value: float, unit: str) -> str:
    if value and (abs(value) < 1e-3 or abs(value) >= 1e15):
        return format_quantity(value, unit, 6)
    return format_exact(value, unit) if unit else f"{value:,.10g}"

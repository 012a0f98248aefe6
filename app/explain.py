"""A cell of the table taken apart for the side panel: formula, numbers put in, source of each."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from app.components import Block
from app.plots.labels import NAMES
from app.quantities import format_exact, format_quantity
from app.state import Snapshot
from physics.catalog import glossary
from physics.derivation import FUNCTIONS, Derivation, Part, Term
from physics.derive import derive
from physics.regimes import REGIMES, regime_arrays

KINDS = {"bound": "A bound: it cannot be less.", "derived": "Derived from the inputs.", "estimate": "An estimate."}


def pretty(expression: str) -> str:
    """A formula as people write it: × and − for * and -, ^ for powers."""
    text = expression.replace("**", "^").replace(" - ", " − ")
    return text.replace("*", "·")


SYMBOL = re.compile(r"[A-Za-z_]\w*")
DIGITS = 4
"""Significant digits of what is not a small whole number; all digits show on hover."""


def _is_small_count(value: float) -> bool:
    return abs(value) < 1e6 and value == int(value)


def _short(value: float) -> str:
    """A number put into a formula: small counts in full, others rounded."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "unknown"
    if _is_small_count(value):
        return f"{int(value):,}".replace(",", " ")
    mantissa, _, exponent = f"{value:#.{DIGITS}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _rounded(derivation: Derivation, part: Part) -> str:
    """The part's formula with the numbers put in, rounded."""
    numbers = {term.symbol: _short(term.value) for term in derivation.terms}
    return SYMBOL.sub(lambda found: numbers.get(found[0], found[0]), part.expression)


def _used(derivation: Derivation) -> list[Term]:
    """Terms whose symbol stands in a formula that is shown."""
    symbols = {symbol for part in derivation.parts for symbol in SYMBOL.findall(part.expression)}
    return [term for term in derivation.terms if term.symbol in symbols]


def _part(derivation: Derivation, part: Part) -> list[Block]:
    value = derivation.part_value(part)
    full = f"= {pretty(derivation.with_numbers(part))} = {_value(value, derivation.unit)}"
    return [
        Block(kind="heading", text=part.label),
        Block(kind="formula", text=pretty(part.expression)),
        Block(kind="formula", text=f"= {pretty(_rounded(derivation, part))} = {format_quantity(value, derivation.unit)}", full=full),
    ]


def _row(term: Term) -> tuple[str, ...]:
    """Symbol, value, meaning, source, and the value in full."""
    full = _value(term.value, term.unit)
    return (
        term.symbol,
        full if _is_small_count(term.value) else format_quantity(term.value, term.unit, DIGITS),
        term.meaning,
        term.source,
        full,
    )


COPIED = ("weight_bytes", "bytes", "intensity_flops_per_byte", "memory_s", "roofline_s", "energy_j")
"""Columns in which a copy of the attention weights on every GPU would show."""


def _copies(s: Snapshot, regime: str, column: str) -> list[Block]:
    """What a data-parallel layout reads more than is counted."""
    gpus = s.scenario.gpus_per_stage
    if regime != "decode_shared" or column not in COPIED or s.scenario.attention_parallel != "data" or gpus == 1:
        return []
    weights = derive(s.scenario, regime, "weight_bytes")
    size = sum(weights.part_value(part) for part in weights.parts if part.label.startswith("attention"))
    extra = size * (1.0 - 1.0 / gpus) / s.scenario.machine.memory_bytes_per_s
    share = f", {100.0 * extra / s.turn.tpot_s:+.0f} % of TPOT" if s.memory.fits else ""
    text = (
        f"Attention weights are counted once per stage, as if its {gpus} GPUs shared them; a real data-parallel layout keeps a copy on "
        f"each and reads them all, about **{format_quantity(extra, 's')}** more a step{share}."
    )
    return [Block(kind="text", text=text)]


def _together(s: Snapshot, regime: str, column: str) -> list[Block]:
    """A midfill is that of all requests of the batch: what one alone would take."""
    batch = s.scenario.batch
    if regime not in ("midfill", "prefill") or column != "roofline_s" or batch == 1 or not s.memory.fits:
        return []
    alone = float(regime_arrays(s.scenario.replace(batch=1))["roofline_s"][REGIMES.index(regime)])
    text = f"All {format_exact(batch, 'requests')} of the batch at once; one alone would take **{format_quantity(alone, 's')}**."
    return [Block(kind="text", text=text)]


def cell(s: Snapshot, regime: str, column: str) -> tuple[str, list[Block]]:
    """Title and blocks of the side panel for one cell."""
    derivation = derive(s.scenario, regime, column)
    words = glossary().get(column, {})
    total = derivation.evaluate()
    answer = f"**{format_quantity(total, derivation.unit, DIGITS)}** · {KINDS[derivation.kind]} {derivation.note}".strip()
    blocks = [Block(kind="text", text=words.get("definition", "")), Block(kind="text", text=answer, full=_value(total, derivation.unit))]
    blocks += [*_together(s, regime, column), *_copies(s, regime, column)]
    for part in derivation.parts:
        blocks += _part(derivation, part)
    used = _used(derivation)
    if used:
        blocks.append(Block(kind="heading", text="Numbers put in; all digits on hover"))
        blocks.append(Block(kind="terms", rows=[_row(term) for term in used]))
    named = [shown for name, (_, shown) in FUNCTIONS.items() if shown and any(name + "(" in part.expression for part in derivation.parts)]
    blocks += [Block(kind="text", text=text) for text in named]
    return f"{NAMES[regime].capitalize()}: {words.get('label', column).lower()}", blocks


def cells(s: Snapshot, regimes: Sequence[str], column: str) -> tuple[str, list[Block]]:
    """Title and blocks of the side panel for the sum of one column over some regimes, part after part."""
    if len(regimes) == 1:
        return cell(s, regimes[0], column)
    parts = [derive(s.scenario, regime, column) for regime in regimes]
    values = [format_quantity(part.evaluate(), part.unit) for part in parts]
    total = format_quantity(sum(part.evaluate() for part in parts), parts[0].unit, DIGITS)
    blocks = [Block(kind="text", text="One decode step, the sum of its three lines:")]
    exact = _value(sum(part.evaluate() for part in parts), parts[0].unit)
    blocks.append(Block(kind="formula", text=f"{' + '.join(values)} = {total}", full=exact))
    for regime in regimes:
        title, inner = cell(s, regime, column)
        blocks += [Block(kind="heading", text=title), *inner[1:]]
    return f"Decode step: {glossary()[column]['label'].lower()}", blocks


def _value(value: float, unit: str) -> str:
    if value and (abs(value) < 1e-3 or abs(value) >= 1e15):
        return format_quantity(value, unit, 6)
    return format_exact(value, unit) if unit else f"{value:,.10g}"

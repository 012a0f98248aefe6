"""Where a number of `regimes` comes from: the formula, the numbers put in and the source of each.

A derivation is written beside the kernel, not taken from it, and the tests evaluate every formula with its own numbers
and compare with the kernel: an explanation that no longer explains fails. Expressions are plain arithmetic over the
symbols listed, with `min`, `max`, `floor` and three named sums (see FUNCTIONS).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from physics.regimes import DECODE
from physics.scenario import Scenario

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
        try:
            # Expressions are written in this module only; no user text reaches them.
            return float(eval(part.expression, {"__builtins__": {}}, names))
        except ZeroDivisionError:  # the intensity of a regime that does and moves nothing
            return math.nan

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


class Sheet:
    """Collects terms and parts while a derivation is written."""

    def __init__(self, scenario: Scenario, regime: str, derive: Callable[[Scenario, str, str], Derivation]) -> None:
        self.s, self.regime, self._derive = scenario, regime, derive
        self.model_source = scenario.model.source or "model as given"
        self.machine_source = scenario.machine.source or "machine as given"
        self.terms: dict[str, Term] = {}
        self.parts: list[Part] = []
        new = {"prefill": scenario.prefill_tokens, "midfill": scenario.new_tokens}.get(regime, 1)
        self.new, self.prefix = float(new), 0.0 if regime == "prefill" else float(scenario.context_tokens)

    def term(self, symbol: str, value: float, unit: str, meaning: str, source: str) -> str:
        """A number, noted under its symbol; the symbol comes back for use in an expression."""
        self.terms[symbol] = Term(symbol, float(value), unit, meaning, source)
        return symbol

    def model(self, symbol: str, value: float, unit: str, meaning: str) -> str:
        """A number of the model."""
        return self.term(symbol, value, unit, meaning, self.model_source)

    def hardware(self, symbol: str, value: float, unit: str, meaning: str) -> str:
        """A number of the machine."""
        return self.term(symbol, value, unit, meaning, self.machine_source)

    def load(self) -> None:
        """R, n and P of this regime."""
        self.term("R", self.s.batch, "requests", "requests in the group", INPUT)
        self.term("n", self.new, "tokens", "new tokens per request", INPUT if self.regime in ("prefill", "midfill") else "decode: one")
        self.term("P", self.prefix, "tokens", "cached tokens per request", INPUT if self.prefix else "prefill: none")

    def add(self, label: str, expression: str) -> None:
        """An addend of the cell."""
        self.parts.append(Part(label, expression))

    def cell(self, column: str) -> Derivation:
        """Another cell of the same regime."""
        return self._derive(self.s, self.regime, column)

    def merge(self, column: str, symbol: str, meaning: str) -> str:
        """Another cell of the same regime as one term of this one."""
        other = self.cell(column)
        return self.term(symbol, other.evaluate(), other.unit, meaning, f"cell {other.regime}, {other.column}")

    def counts(self, part: str) -> bool:
        """Whether this regime counts a part of the step: "attention", "experts" or "rest"."""
        line = {"attention": "decode_attention", "experts": "decode_experts", "rest": "decode_shared"}[part]
        return self.regime not in DECODE or self.regime == line

    def done(self, column: str, unit: str, kind: str = "derived", note: str = "") -> Derivation:
        """The finished derivation; a cell without parts is zero."""
        if not self.parts:
            self.add("nothing of this regime", "0")
        return Derivation(self.regime, column, unit, tuple(self.parts), tuple(self.terms.values()), kind, note)

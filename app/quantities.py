"""Quantities as text: what a person reads and types.

``format_quantity`` writes three significant digits with the prefix a person would use (70.3 kB, 131k tokens, 4.80 TB/s);
``parse_quantity`` reads the same notation back ("128k", "70 kB", "1.5M", "2e6"). Values are SI base units without prefixes,
as everywhere inside `physics`. No GUI library is imported here, so the state, the report and the tests can use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

DASH = "–"
"""Shown for a number that is missing, infinite or not a number."""

_SI: Mapping[str, float] = {
    "f": 1e-15, "p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21,
}  # fmt: skip
_COUNT: Mapping[str, float] = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_BINARY: Mapping[str, float] = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


@dataclass(frozen=True)
class Unit:
    """How one unit is written.

    `prefixes` are those a person uses with it; `whole` counts things (singular for exactly one, no trailing zeros);
    `word` puts the prefix on the number (131k tokens) instead of on the symbol (70 kB); `scale` is what one written
    unit is worth in base units (a percent is 0.01); `lead` is written before the number ($).
    """

    symbol: str
    prefixes: tuple[str, ...] = ("",)
    whole: bool = False
    word: bool = False
    scale: float = 1.0
    lead: str = ""

    @property
    def multipliers(self) -> Mapping[str, float]:
        """Prefix → factor, SI for symbols, short-scale counts for words."""
        return _COUNT if self.word else _SI

    @cached_property
    def steps(self) -> tuple[tuple[float, str], ...]:
        """(factor, prefix) from the largest to the smallest prefix in use."""
        return tuple(sorted(((self.multipliers[p], p) for p in self.prefixes), reverse=True))


_UP = ("", "k", "M", "G", "T", "P", "E", "Z")
_COUNTS = ("", "k", "M", "B", "T")
_UNITS: Mapping[str, Unit] = {
    unit.symbol: unit
    for unit in (
        *(Unit(s, _UP) for s in ("B", "B/token", "FLOP", "FLOP/token")),
        *(Unit(s, ("", "k", "M", "G", "T")) for s in ("B/s", "FLOP/s")),  # peaks are compared in TFLOP/s, whatever their size
        *(Unit(s, ("n", "µ", "m", "")) for s in ("s", "s/token", "s/step")),
        *(Unit(s, ("p", "n", "µ", "m", "", "k", "M")) for s in ("J", "J/token", "J/step")),
        *(Unit(s, ("f", "p", "n", "µ")) for s in ("J/B", "J/bit", "J/FLOP")),
        Unit("W", ("m", "", "k", "M", "G")),
        *(Unit(s, _COUNTS, whole=True, word=True) for s in ("tokens", "parameters", "messages")),
        *(Unit(s, _COUNTS, word=True) for s in ("tokens/s", "tokens/s/GPU", "messages/s", "requests/s")),
        *(Unit(s, whole=True, word=True) for s in ("requests", "stages", "GPUs", "experts", "layers", "groups", "turns", "stops")),
        Unit("%", scale=0.01),
        *(Unit(s, lead="$") for s in ("$", "$/h", "$/M tokens")),
    )
}


@cache
def unit_of(symbol: str) -> Unit:
    """The notation of a unit; an unknown one is written as it is, without prefixes."""
    return _UNITS.get(symbol, Unit(symbol, word=bool(re.fullmatch(r"[a-z]{2,}.*", symbol))))


def round_significant(value: float, digits: int = 3) -> float:
    """`value` rounded to that many significant digits [same unit]; NaN and infinities unchanged."""
    return float(f"{value:.{digits - 1}e}") if math.isfinite(value) else value


def _number(value: float, digits: int, strip: bool) -> str:
    """Plain digits with thousands separators; powers of ten only where plain digits would not fit a tile."""
    size = abs(value)
    if size and not 1e-3 <= size < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if strip and "." in text else text


def _noun(unit: Unit, number: str) -> str:
    """Singular for exactly one: 1 token, 2 tokens, 1k tokens."""
    head, slash, tail = unit.symbol.partition("/")
    return (head[:-1] if number == "1" and unit.whole and head.endswith("s") else head) + slash + tail


def _assemble(unit: Unit, number: str, prefix: str) -> str:
    if unit.lead:
        return f"{unit.lead}{number}{unit.symbol.removeprefix(unit.lead)}"
    if unit.word:
        return f"{number}{prefix} {_noun(unit, number + prefix)}"
    return f"{number} {prefix}{unit.symbol}".rstrip() if unit.symbol != "×" else f"{number}×"


def split_quantity(value: float | None, unit: str, digits: int = 3) -> tuple[str, str]:
    """(number, unit with prefix) of a value in base units, for tiles that set the number larger than the unit."""
    text = format_quantity(value, unit, digits)
    head, _, tail = text.partition(" ")
    return head, tail


@lru_cache(maxsize=8192)
def format_quantity(value: float | None, unit: str = "", digits: int = 3) -> str:
    """A value in base units as a person writes it: 70272, "B/token" → "70.3 kB/token"; 131072, "tokens" → "131k tokens".

    Three significant digits unless told; counts drop trailing zeros ("2M tokens"), measures keep them ("2.00 GB").
    None, NaN and infinities become an en dash.

    >>> format_quantity(4.8e12, "B/s"), format_quantity(1, "tokens"), format_quantity(float("nan"), "s")
    ('4.80 TB/s', '1 token', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    form = unit_of(unit)
    rounded = round_significant(value / form.scale, digits)
    if rounded == 0:
        return _assemble(form, "0", "")
    factor, prefix = next((s for s in form.steps if abs(rounded) >= s[0]), form.steps[-1])
    number = _number(round_significant(rounded / factor, digits), digits, form.whole)
    return _assemble(form, number.replace("-", "−", 1) if rounded < 0 else number, prefix)


@lru_cache(maxsize=8192)
def format_exact(value: float | None, unit: str = "") -> str:
    """Every digit of a count ("131,072 tokens"), as many as needed of a measure ("70.272 kB/token"): reads back unchanged.

    >>> format_exact(131072, "tokens"), format_exact(70272, "B/token"), format_exact(0.75, "")
    ('131,072 tokens', '70.272 kB/token', '0.75')
    """
    if value is None or not math.isfinite(value):
        return DASH
    form = unit_of(unit)
    if form.word and float(value).is_integer() and abs(value) < 1e15:
        number = f"{int(value):,}"
        return f"{number} {_noun(form, number)}".replace("-", "−", 1)
    for digits in range(3, 18):
        text = format_quantity(value, unit, digits)
        if _read(text, unit, "") == value:
            break
    return _without_zeros(text)


def _without_zeros(text: str) -> str:
    return re.sub(r"(\.[0-9]*?)0+(?=$|[^0-9.])", lambda m: m[1].rstrip("."), text, count=1)


# ---------------------------------------------------------------------------------------------------------------- reading
_SPACE = " \u00a0\u2009\u202f"
_NUMBER = re.compile(
    rf"(?P<sign>[-+−]?)(?P<whole>[0-9]{{1,3}}(?:[,_{_SPACE}][0-9]{{3}})+|[0-9]*)(?P<frac>\.[0-9]*)?(?P<exp>[eE][-+−]?[0-9]{{1,4}})?(?P<rest>.*)",
    re.DOTALL,
)


@cache
def _suffixes(symbol: str) -> Mapping[str, float]:
    """Every accepted ending → factor to base units, for one unit."""
    form = unit_of(symbol)
    head = symbol.removeprefix("$").split("/")[0]
    names = {"", symbol, head, symbol.removeprefix("$")}
    if form.word:
        names |= {_noun(form, "1"), head[:-1] if head.endswith("s") else head, "tok" if head == "tokens" else head}
    prefixes = dict(form.multipliers) if len(form.prefixes) > 1 else {"": 1.0}
    if form.word and len(form.prefixes) > 1:
        prefixes["G"] = 1e9
    if head == "B":
        prefixes |= _BINARY
    found = {prefix + name: factor * form.scale for prefix, factor in prefixes.items() for name in names}
    if "µ" in prefixes:
        found |= {"u" + name: 1e-6 * form.scale for name in names} | {"μ" + name: 1e-6 * form.scale for name in names}
    if head == "B":
        tail = symbol[1:]
        found |= {f"{p}{bit}{t}": f / 8 for p, f in prefixes.items() for bit in ("bit",) for t in ("", tail)}
    if head == "s":
        found |= {"min": 60.0, "h": 3600.0, "sec": 1.0}
    return {_squeezed(name): factor for name, factor in found.items()}


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _factor(suffix: str, unit: str) -> float | None:
    """Factor of a typed ending: as written first, then ignoring case where that is unambiguous; None when it is no unit."""
    table = _suffixes(unit)
    key = _squeezed(suffix)
    if key in table:
        return table[key]
    if unit.startswith("B") and re.search(r"b(/|$)", key):  # Gb is gigabits to a network engineer: never guess bytes
        return None
    factors = {factor for name, factor in table.items() if name.casefold() == key.casefold()}
    return factors.pop() if len(factors) == 1 else None


def _range_text(unit: str, minimum: float, maximum: float) -> str:
    if math.isfinite(minimum) and math.isfinite(maximum):
        return f"type a value from {format_exact(minimum, unit)} to {format_exact(maximum, unit)}"
    if math.isfinite(minimum):
        return f"type {format_exact(minimum, unit)} or more"
    if math.isfinite(maximum):
        return f"type {format_exact(maximum, unit)} or less"
    return f"type a number such as {format_exact(1.5, unit)}"


def _shown(text: str) -> str:
    clean = "".join(c if c.isprintable() else " " for c in text).strip()
    return f"“{clean[:24]}…”" if len(clean) > 24 else f"“{clean}”"


def parse_quantity(text: str, unit: str = "", minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """The value [base units of `unit`] of what a person typed.

    Accepted: digits with thousands separators (131,072 · 131 072 · 131_072), a decimal point, an exponent (2e6), an SI prefix
    (k M G T, binary Ki Mi Gi for bytes; K counts as k) and the unit, its head ("kB" for B/token) or nothing. A bare number is in
    base units, percent for "%". Case is ignored where only one reading is left. Counted units take whole numbers only.

    Raises ValueError, and nothing else, with one sentence that says what is wrong and what to type instead.

    >>> parse_quantity("128k", "tokens"), parse_quantity("70 kB", "B/token"), parse_quantity("10 ms", "s")
    (128000.0, 70000.0, 0.01)
    """
    typed = text.strip()
    mend = _range_text(unit, minimum, maximum)
    value = _read(typed, unit, mend)
    if not math.isfinite(value):
        raise ValueError(f"{_shown(typed)} is not a finite number: {mend}.")
    if unit_of(unit).whole:
        if abs(value - round(value)) > 1e-9 * max(1.0, abs(value)):
            raise ValueError(f"{_shown(typed)} is not a whole number of {unit}: {mend}.")
        value = float(round(value))
    if not minimum <= value <= maximum:
        raise ValueError(f"{_shown(typed)} is too {'small' if value < minimum else 'large'}: {mend}.")
    return value


def _read(typed: str, unit: str, mend: str) -> float:
    """The number typed, in base units, before any check of its range; ValueError ending in `mend` when it is none."""
    if not typed:
        raise ValueError(f"Nothing was typed: {mend}.")
    match = _NUMBER.fullmatch(typed.removeprefix("$").strip() if unit.startswith("$") else typed)
    if match is None or not re.search("[0-9]", match["whole"] + (match["frac"] or "")):
        raise ValueError(f"{_shown(typed)} is not a number: {mend}.")
    factor = _factor(match["rest"], unit)
    if factor is None:
        bits = unit.startswith("B") and "b" in match["rest"]
        why = "means bits (write B for bytes, bit for bits)" if bits else "is not understood after the number"
        raise ValueError(f"{_shown(match['rest'])} {why}: {mend}.")
    digits = re.sub(f"[,_{_SPACE}]", "", match["whole"])
    number = float((match["sign"] + (digits or "0") + (match["frac"] or "") + (match["exp"] or "")).replace("−", "-"))
    return number * factor if factor >= 1 else number / (1 / factor)

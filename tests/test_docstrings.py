"""Every public function of `physics` says what it means and in which unit.

The convention, read from the source and enforced:

    def kv_cache_bytes(tokens: Any, kv_bytes_per_token: Any) -> Any:
        \"""Bytes of cache that a request holds [B].

        tokens: tokens in the cache [token].
        kv_bytes_per_token: cache bytes per token, all layers [B/token].
        \"""

- Everything public has a docstring. What follows holds for the formula modules and for what `physics/__init__.py` exports.
- The first line of a function that returns a number ends with its unit; a tuple may instead have a line `returns: ... [unit]`.
- Each parameter that is a number (annotated Any, float, int, an array, or a union with one) has a line `name: meaning [unit]`; several
  names may share one (with the unit of each, if they differ), and it may be continued on the next lines. Parameters of other types
  (a Model, a dtype, a flag) are explained where the name is not enough.
- The fields of dataclasses have such lines in the class docstring. In classes an int is a count and needs no unit, unless its name
  ends in one.
- [1] is a pure number; counts (token, expert, pair, ...) are pure numbers with a name.
- A unit must be known (UNITS), and agree in dimension with the name where the name tells it: `step_s` is in s, `peak_flops_per_s` in
  FLOP/s, `mfu_frac` in 1; and with the glossary, data/quantities.csv, where that has the name.
- A method may be silent if a Protocol or a base class of the same module documents its name. Modules and names with a leading
  underscore are private, and so are the compiled loops of `kernels`.
"""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(p for p in (ROOT / "physics").glob("*.py") if not p.name.startswith("_") and p.stem != "kernels")
FORMULAS = {"attention", "energy", "experts", "formats", "network", "pipeline", "roofline", "routing", "si"}
GLOSSARY = ROOT / "data" / "quantities.csv"

PREFIXES = ("", "k", "K", "M", "G", "T", "P", "E", "m", "µ", "n", "p")
PREFIXED = {"B": "B", "bit": "B", "FLOP": "FLOP", "s": "s", "J": "J", "W": "J/s", "Hz": "/s"}
BINARY = {"KiB": "B", "MiB": "B", "GiB": "B", "TiB": "B"}
PLAIN = {"h": "s", "min": "s", "d": "s", "USD": "$", "$": "$", "mm": "mm"}
COUNTS = {"1", "-", "%", "token", "pair", "entry", "entries", "expert", "request", "layer", "stage", "GPU", "head", "element"}
COUNTS |= {"param", "parameter", "message", "domain", "step", "point", "turn", "user"}
COUNTS |= {count + "s" for count in COUNTS if count.isalpha()}
UNITS = {prefix + unit: dim for unit, dim in PREFIXED.items() for prefix in PREFIXES} | BINARY | PLAIN | dict.fromkeys(COUNTS, "")
WORDS = {"bytes": "B", "byte": "B", "gb": "B", "flops": "FLOP", "flop": "FLOP", "s": "s", "seconds": "s", "j": "J", "w": "J/s"}
WORDS |= {
    "tokens": "",
    "token": "",
    "frac": "",
    "element": "",
    "experts": "",
    "expert": "",
    "params": "",
    "usd": "$",
    "layer": "",
    "request": "",
}

BRACKET = re.compile(r"\[([^\[\]]+)\]")
NUMBER_TYPES = {"Any", "float", "int", "None", "np", "ndarray", "NDArray", "float64", "ArrayLike", "Array", "tuple", "Sequence"}

Dimension = tuple[tuple[str, int], ...]


def parse_unit(text: str) -> Dimension | None:
    """Dimension of a unit such as FLOP/s, B/token or GB*s; None if it is not a unit."""
    powers: Counter[str] = Counter()
    for position, side in enumerate(text.split("/")):
        for symbol in re.split(r"[*·]", side):
            if symbol.strip() not in UNITS:
                return None
            for sign, dims in zip((1, -1), UNITS[symbol.strip()].split("/"), strict=False):
                if dims:
                    powers[dims] += sign * (-1 if position else 1)
    return tuple(sorted((dim, power) for dim, power in powers.items() if power))


def units_in(text: str) -> dict[str, Dimension]:
    """Every bracket of a text that is a unit, with its dimension."""
    parsed = {found: parse_unit(found) for found in BRACKET.findall(text)}
    return {found: dimension for found, dimension in parsed.items() if dimension is not None}


def dimension_of_name(name: str) -> Dimension | None:
    """What `<thing>_<unit>` or `<a>_per_<b>` says about the unit; None if it says nothing."""
    over, _, under = name.partition("_per_")
    word = over.rsplit("_", 1)[-1]
    if word not in WORDS or (under and under not in WORDS) or "_" not in name:
        return None
    symbol = {"": "1", "J/s": "W"}
    top, bottom = (symbol.get(WORDS[w], WORDS[w]) for w in (word, under or "token"))
    return parse_unit(f"{top}/{bottom}")


class Item(NamedTuple):
    """One documented thing: a function, a method, or a dataclass with its fields as parameters."""

    label: str
    in_class: bool
    docstring: str
    parameters: dict[str, str]
    returns: str

    def needs_unit(self, name: str, annotation: str) -> bool:
        counted = self.in_class and "int" in annotation and not dimension_of_name(name)
        return is_numeric(annotation) and not counted

    def entry(self, name: str) -> str | None:
        """Text of the line `name: ...` with its continuation lines."""
        lines = self.docstring.splitlines()
        for number, line in enumerate(lines):
            head, colon, text = line.strip().partition(": ")
            if colon and name in head.split(", "):
                return " ".join([text, *_continuation(lines[number + 1 :], {*self.parameters, "returns"})])
        return None


def _continuation(lines: list[str], names: set[str]) -> Iterator[str]:
    for line in lines:
        text = line.strip()
        head, colon, _ = text.partition(": ")
        if not text or text.startswith(">>>") or (colon and names.intersection(head.split(", "))):
            return
        yield text


def _function_item(node: ast.FunctionDef, owner: str) -> Item:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    parameters = {a.arg: ast.unparse(a.annotation) if a.annotation else "Any" for a in arguments if a.arg not in ("self", "cls")}
    returns = ast.unparse(node.returns) if node.returns else "Any"
    return Item(owner + node.name, owner.count(".") > 1, ast.get_docstring(node) or "", parameters, returns)


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(d) for d in node.decorator_list)


def _documented_by_base(tree: ast.Module) -> set[str]:
    """Names of methods that a Protocol, or a class others derive from, documents for all."""
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    bases = {ast.unparse(b) for c in classes for b in c.bases}
    shared = [c for c in classes if c.name in bases or "Protocol" in map(ast.unparse, c.bases)]
    return {n.name for c in shared for n in c.body if isinstance(n, ast.FunctionDef) and ast.get_docstring(n)}


def _class_items(node: ast.ClassDef, module: str, inherited: set[str]) -> Iterator[Item]:
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    named = {n.target.id: ast.unparse(n.annotation) for n in fields if isinstance(n.target, ast.Name)}
    yield Item(f"{module}.{node.name}", True, ast.get_docstring(node) or "", named if _is_dataclass(node) else {}, "None")
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            item = _function_item(method, f"{module}.{node.name}.")
            if item.docstring or method.name not in inherited:
                yield item


def items(path: Path) -> Iterator[Item]:
    """Public things of a module that must be documented."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inherited = _documented_by_base(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield _function_item(node, f"{path.stem}.")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _class_items(node, path.stem, inherited)


def glossary() -> dict[str, str]:
    """Unit of each glossary key, empty while there is no glossary."""
    if not GLOSSARY.exists():
        return {}
    with GLOSSARY.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {row[next(iter(row))]: row.get("unit", "") for row in rows}


def is_numeric(annotation: str) -> bool:
    words = set(re.findall(r"\w+", annotation))
    return words <= NUMBER_TYPES and bool(words - {"None", "tuple"})


def unit_faults(label: str, name: str, text: str, glossary_units: dict[str, str]) -> Iterator[str]:
    """Missing unit, or one at odds with the name or the glossary."""
    units = units_in(text)
    if not units:
        yield f"{label}: `{name}` has no known unit in brackets: {text!r}"
        return
    said = ", ".join(f"[{unit}]" for unit in units)
    if dimension_of_name(name) not in (None, *units.values()):
        yield f"{label}: `{name}` is in {said}, its name says otherwise"
    if name in glossary_units and parse_unit(glossary_units[name]) not in (None, *units.values()):
        yield f"{label}: `{name}` is in {said}, the glossary has [{glossary_units[name]}]"


def exported() -> set[str]:
    """Names that `physics/__init__.py` imports for its users."""
    init = ROOT / "physics" / "__init__.py"
    tree = ast.parse(init.read_text(encoding="utf-8") if init.exists() else "")
    return {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def faults(item: Item, units: dict[str, str]) -> Iterator[str]:
    """Every breach of the convention by one item."""
    module, public_name, *_ = item.label.split(".")
    if not item.docstring:
        yield f"{item.label}: no docstring"
    elif module in FORMULAS or public_name in exported():
        yield from missing_units(item, units)


def missing_units(item: Item, units: dict[str, str]) -> Iterator[str]:
    """Breaches of the part about units."""
    name = item.label.rsplit(".", 1)[-1]
    if item.needs_unit(name, item.returns):
        first = item.docstring.splitlines()[0]
        text = first if BRACKET.search(first) else item.entry("returns") or first
        yield from unit_faults(item.label, name, text, units)
    for name, annotation in item.parameters.items():
        if item.needs_unit(name, annotation):
            yield from unit_faults(item.label, name, item.entry(name) or "", units)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_docstrings_and_units_of(path: Path) -> None:
    units = glossary()
    found = [fault for item in items(path) for fault in faults(item, units)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "same_as"),
    [("GB/s", "B/s"), ("B/token", "B"), ("pJ/bit", "J/B"), ("W", "J/s"), ("W*s", "J"), ("1/s", "Hz"), ("FLOP/B", "TFLOP/GB"), ("µs", "h")],
)
def test_units_of_one_dimension_agree(text: str, same_as: str) -> None:
    assert parse_unit(text) == parse_unit(same_as) is not None


@pytest.mark.parametrize("text", ["furlong", "B per s", "GB/s/parsec", "0, 1", ""])
def test_what_is_no_unit_is_refused(text: str) -> None:
    assert parse_unit(text) is None


@pytest.mark.parametrize(
    ("name", "unit"),
    [("step_s", "s"), ("peak_flops_per_s", "FLOP/s"), ("mfu_frac", "1"), ("kv_bytes_per_token", "B"), ("j_per_byte", "J/B")],
)
def test_names_tell_their_dimension(name: str, unit: str) -> None:
    assert dimension_of_name(name) == parse_unit(unit)


def test_the_check_sees_each_kind_of_fault() -> None:
    source = 'def f(a: Any, step_s: float, dtype: str) -> float:\n    """Meaning.\n\n    step_s: time [B].\n    """\n'
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    text = "\n".join(faults(_function_item(node, "energy."), {}))
    assert [part in text for part in ("`f` has no known unit", "`a` has no known unit", "its name says otherwise")] == [True] * 3
    assert "dtype" not in text

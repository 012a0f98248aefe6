"""Typed access to the fields of one config, which remembers what was used, what was absent and what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from physics.huggingface.readers import shown
from physics.huggingface.vocabulary import ALIASES, MEDIA, MTP, is_harmless, is_off, smells_structural
from physics.layers import UnsupportedModelError

LIMITS = {
    "num_hidden_layers": 4096,
    "num_layers": 2048,
    "vocab_size": 100_000_000,
    "n_experts": 65_536,
    "experts_per_token": 65_536,
    "max_position_embeddings": 10**10,
    "sliding_window": 10**10,
    "attention_chunk_size": 10**10,
    "index_topk": 10**10,
}
LIMIT = 10_000_000
"""Largest number a field may hold, where LIMITS says nothing else; real ones stay below 1,000,000."""

_MISSING = object()


class Fields:
    """One JSON object of a config with the defaults of its class.

    data: the object. architecture: named in every error. defaults: what transformers takes for an absent field.
    where: path of a nested object, ending in a dot.
    """

    def __init__(self, data: Mapping[str, Any], architecture: str, defaults: Mapping[str, Any] | None = None, where: str = "") -> None:
        self.data, self.architecture, self.where = data, architecture, where
        self.defaults = defaults or {}
        self.used: set[str] = set()
        self.defaulted: dict[str, Any] = {}
        self.notes: list[str] = []
        self._children: dict[str, Fields] = {}

    def fail(self, name: str, problem: str) -> NoReturn:
        """Refuse the config: one sentence that names field, problem and architecture."""
        raise UnsupportedModelError(f"{self.where}{name}: {problem} [{self.architecture}]")

    def spelling(self, name: str) -> str:
        """The alias of a field that this config uses; the first where none is present."""
        names = ALIASES.get(name, (name,))
        return next((alias for alias in names if self.data.get(alias) is not None), names[0])

    def has(self, name: str) -> bool:
        """Whether the config gives the field, under any spelling, a value other than null."""
        return any(self.data.get(alias) is not None for alias in ALIASES.get(name, (name,)))

    def raw(self, name: str) -> Any:
        """The field's value as given, else its class default; null in the config is None, as in transformers."""
        names = ALIASES.get(name, (name,))
        self.used.update(names)
        present = [alias for alias in names if alias in self.data]
        values = [(alias, self.data[alias]) for alias in present if self.data[alias] is not None]
        for alias, value in values[1:]:
            if value != values[0][1]:
                self.fail(alias, f"{shown(value)} contradicts {values[0][0]} {shown(values[0][1])}; they mean the same, keep one")
        if values:
            return values[0][1]
        if present:
            return None
        if self.defaults.get(name) is not None:
            self.defaulted[names[0]] = self.defaults[name]
        return self.defaults.get(name)

    def count(self, name: str, low: int = 1, high: int | None = None) -> int:
        """A whole number; refused where absent without default, or outside low..high [1]."""
        value = self.raw(name)
        if value is None:
            self.fail(self.spelling(name), f"is missing; a whole number of at least {low} is needed")
        return self._whole(self.spelling(name), value, low, high or LIMITS.get(name, LIMIT))

    def optional(self, name: str, low: int = 1) -> int | None:
        """A whole number, or None where null or absent without default [1]."""
        value = self.raw(name)
        return None if value is None else self._whole(self.spelling(name), value, low, LIMITS.get(name, LIMIT))

    def _whole(self, name: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.fail(name, f"{shown(value)} is not a whole number from {low:,} to {high:,}")
        return int(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false; null is false."""
        value = self.raw(name)
        if name not in self.data and value is None:
            return default
        if value is None:
            return False
        if not isinstance(value, bool):
            self.fail(name, f"{shown(value)} is neither true nor false")
        return value

    def word(self, name: str, allowed: Sequence[str]) -> str | None:
        """One of some words, or None."""
        value = self.raw(name)
        if value is not None and value not in allowed:
            self.fail(name, f"{shown(value)} is not one of {', '.join(allowed)}")
        return None if value is None else str(value)

    def series(self, name: str, n: int, allowed: Sequence[Any], longer: int = 0) -> list[Any] | None:
        """A list with one entry per layer, each one of `allowed`; None where absent.

        n: layers of the model [layer]. longer: how many entries of layers outside the step may follow [layer].
        """
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple, str)):
            self.fail(name, f"{shown(value)} is not a list with one entry per layer")
        if not n <= len(value) <= n + longer:
            self.fail(name, f"has {len(value)} entries for {n} layers; one entry per layer is needed")
        for entry in value:
            if isinstance(entry, (dict, list, bool)) or entry not in allowed:
                words = ", ".join(map(str, allowed))
                self.fail(name, f"{shown(entry)} is not understood; known are {words}")
        return list(value[:n])

    def indices(self, name: str, n: int, first: int = 0) -> set[int] | None:
        """A list (or comma-separated text) of layer numbers, as a set counted from zero; None where absent."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, str):
            value = [int(word) if word.strip().isascii() and word.strip().isdigit() else word for word in value.split(",")[: n + 1]]
        if not isinstance(value, (list, tuple)):
            self.fail(name, f"{shown(value)} is not a list of layer numbers")
        return {self._whole(name, entry, first, n + first - 1) - first for entry in value}

    def child(self, name: str) -> Fields | None:
        """A nested object, whose own leftovers are checked with this one's; None where absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(name, f"{shown(value)} is not an object")
        if name not in self._children:
            self._children[name] = Fields(value, self.architecture, where=f"{self.where}{name}.")
        return self._children[name]

    def ignore(self, *names: str) -> None:
        """Fields that this architecture carries but does not compute with."""
        for name in names:
            self.used.update(ALIASES.get(name, (name,)))

    def agree(self, name: str, value: int, why: str) -> None:
        """A redundant field, refused where it contradicts what follows from others."""
        if self.has(name) and self.count(name, 0) != value:
            self.fail(self.spelling(name), f"{shown(self.raw(name))} contradicts {value} ({why}); correct one of them")
        self.ignore(name)

    def check_leftovers(self) -> list[str]:
        """Refuse unused fields that may change numbers; the names of other unknown ones."""
        unknown = []
        for name, value in self.data.items():
            if name in self.used or is_off(value) or is_harmless(name) or MTP.search(name) or MEDIA.search(name):
                continue
            inner = [key for key in value if isinstance(key, str)] if isinstance(value, dict) else []
            if smells_structural(name) or any(smells_structural(key) for key in inner):
                self.fail(name[:80], f"{shown(value)} is not understood for this architecture and may change its numbers")
            unknown.append(self.where + name)
        for child in self._children.values():
            unknown += child.check_leftovers()
        return unknown

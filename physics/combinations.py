"""Outer axes of a sweep: fields of a scenario that are not numbers of a point, every combination checked before anything is computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from physics.catalog import load_machine, load_model
from physics.efficiency import Efficiencies
from physics.routing import Routing
from physics.scenario import Scenario
from physics.workload import LEAVES

OUTER = tuple(field.name for field in fields(Scenario) if field.name not in LEAVES)
"""Fields that may be outer axes: models, machines, routings, formats, flags, and the numbers no kernel varies from point to point."""

_BY_NAME: Mapping[str, Callable[[str], Any]] = {"model": load_model, "machine": load_machine, "routing": Routing.of}


@dataclass(frozen=True)
class Combinations:
    """Every combination of the outer axes, the last axis fastest.

    labels: of each axis, what tells its values apart. scenarios: one per combination.
    """

    labels: dict[str, np.ndarray]
    scenarios: list[Scenario]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(names) for names in self.labels.values())


def combinations(scenario: Scenario, axes: Mapping[str, Any], check: Callable[[Scenario], None]) -> Combinations:
    """The scenarios of all combinations of outer axes; without axes the scenario alone.

    scenario: what stays fixed.
    axes: field -> values, or label -> value; models, machines and routings may be given by name.
    check: raises ValueError where a combination does not stand what else is swept.
    Raises ValueError with one sentence that names the first combination that is not sound, and how many there are.
    """
    values = {name: _values(name, given) for name, given in axes.items()}
    labels = {name: _labels(axes[name], found) for name, found in values.items()}
    scenarios, problems = [], []
    for places in itertools.product(*(range(len(found)) for found in values.values())):
        chosen = dict(zip(values, places, strict=True))
        try:
            one = scenario.replace(**{name: values[name][place] for name, place in chosen.items()}) if chosen else scenario
            check(one)
        except ValueError as problem:
            where = ", ".join(f"{name} {labels[name][place]}" for name, place in chosen.items())
            problems.append(f"{where}: {problem}" if where else str(problem))
        else:
            scenarios.append(one)
    if problems:
        count = math.prod(map(len, values.values()))
        more = f" ({len(problems)} of {count} combinations are not sound; sweep the sound ones)" if count > 1 else ""
        raise ValueError(problems[0] + more)
    return Combinations(labels, scenarios)


def _values(name: str, given: Any) -> list[Any]:
    """The values of an axis as a scenario takes them."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ValueError(f"{name}: an outer axis is a list of values or a dictionary of label and value, not {str(given)[:40]!r}")
    found = list(given.values() if isinstance(given, Mapping) else given)
    if not found:
        raise ValueError(f"{name}: an outer axis is a non-empty list")
    by_name = _BY_NAME.get(name)
    try:
        return [by_name(value) if by_name is not None and isinstance(value, str) else value for value in found]
    except KeyError as problem:  # of the catalog: lists close matches
        raise ValueError(f"{name}: {problem.args[0]}") from None


def _labels(given: Any, values: list[Any]) -> np.ndarray:
    """What tells the values of an axis apart: numbers and flags themselves, else names, numbered where two are equal."""
    plain = all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in values)
    if plain and not isinstance(given, Mapping):
        return np.array(values)
    names = [str(label) for label in given] if isinstance(given, Mapping) else [_label(value) for value in values]
    seen: dict[str, int] = {}
    for place, label in enumerate(names):
        seen[label] = seen.get(label, 0) + 1
        names[place] = label if seen[label] == 1 else f"{label} ({seen[label]})"
    return np.array(names)


def _label(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, Routing):
        numbers = {"sigma": value.sigma, "zipf": value.zipf, "overlap": value.overlap}
        told = [f"{key} {number:g}" if isinstance(number, float) else f"{key} law" for key, number in numbers.items() if number is not None]
        return ", ".join([value.kind, *told])
    if isinstance(value, Efficiencies):
        return value.basis or "efficiencies"
    return str(getattr(value, "name", value))

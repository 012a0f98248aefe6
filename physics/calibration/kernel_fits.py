"""Fits of kernels by machine family and format, and which of them speaks for a machine that was never measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from physics.calibration.fit import Form, fit, group_weights
from physics.calibration.forms import EXPERTS, KERNEL, MODULE
from physics.catalog import machine_families

POOLED = "all machines"
FORMS: Mapping[str, Form] = {
    "experts": EXPERTS,
    "MLA decode": MODULE,
    "MLA prefill": MODULE,
    "sparse attention midfill": KERNEL,
    "indexer midfill": KERNEL,
    "KDA decode": KERNEL,
    "KDA prefill": KERNEL,
}
"""Regimes of the kernels that are fitted; the others are shown with their bound only."""
BY_FORMAT = ("experts",)
SPEAKS_FOR = {
    ("attention", "prefill"): "MLA prefill",
    ("attention", "midfill"): "MLA prefill",
    ("attention", "decode"): "MLA decode",
    ("experts", "prefill"): "experts",
    ("experts", "midfill"): "experts",
    ("experts", "decode"): "experts",
}
"""Which kernels stand for a part of a step."""


class Scope(NamedTuple):
    """What a fit holds for: a machine family or POOLED, a regime, and a weight format or "" for all."""

    family: str
    regime: str
    format: str


def family_of(machine: str) -> str:
    """Family of a machine; its own name where it belongs to none."""
    return machine_families().get(machine, machine)


def scopes(rows: pd.DataFrame) -> dict[Scope, pd.DataFrame]:
    """Rows of every scope that has any: each family and all machines together, each format and all together.

    rows: of kernels, faster-than-bound rows left out.
    """
    found: dict[Scope, pd.DataFrame] = {}
    for regime in FORMS:
        mine = rows[rows["regime"] == regime]
        for family in (POOLED, *sorted(mine["family"].unique())):
            here = mine if family == POOLED else mine[mine["family"] == family]
            for name in ("", *(sorted(here["format"].unique()) if regime in BY_FORMAT else ())):
                part = here if name == "" else here[here["format"] == name]
                if not part.empty:
                    found[Scope(family, regime, name)] = part
    return found


@dataclass(frozen=True)
class KernelFits:
    """Parameters by scope, and the look-up of those that speak for a part of a step on some machine."""

    values: Mapping[Scope, Mapping[str, float]]

    @classmethod
    def of(cls, rows: pd.DataFrame, wanted: tuple[str, ...] = tuple(FORMS)) -> KernelFits:
        """Fits of every scope of the wanted regimes.

        rows: of kernels. wanted: keys of FORMS.
        """
        parts = {scope: part for scope, part in scopes(rows).items() if scope.regime in wanted}
        return cls({scope: fit(FORMS[scope.regime], part, group_weights(part["group"])) for scope, part in parts.items()})

    def scope(self, machine: str, regime: str, weights: str) -> Scope | None:
        """The narrowest scope there is: family and format, family, all machines and the format, all machines.

        machine: name. regime: key of FORMS. weights: format.
        """
        tried = [Scope(f, regime, w) for f, w in ((family_of(machine), weights), (POOLED, weights), (family_of(machine), ""), (POOLED, ""))]
        return next((scope for scope in tried if scope in self.values), None)

    def __call__(self, machine: str, part: str, phase: str, weights: str) -> Mapping[str, float]:
        """Parameters that stand for a part; the starts where no kernel of the kind was measured [as they are].

        machine: name. part, phase: see `physics.efficiency`. weights: format.
        """
        regime = SPEAKS_FOR[part, phase]
        found = self.scope(machine, regime, weights)
        return self.values[found] if found is not None else {p.name: p.start for p in FORMS[regime].parameters}

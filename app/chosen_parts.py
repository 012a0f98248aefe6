"""Model and machine of a scenario from plain choices: rows of `data/`, files of this session, or the user's own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import physics
from physics.catalog import load_machine, load_model
from physics.machine_reader import clean_name, numbers_of_text

YOURS = " (your file)"
"""Ends the name of everything read from a file, so that it never passes for a row of `data/`."""


def chosen_model(name: str, models: Mapping[str, physics.Model] | None = None) -> physics.Model:
    """The model of this name; KeyError or ValueError with one sentence where there is none.

    models: models of this session, by name.
    """
    own = (models or {}).get(name)
    if own is None and name.endswith(YOURS):
        raise KeyError(f"model: {name[:60]!r} came from a file, which a link cannot carry; load its config.json again")
    return own or load_model(name[:120])


def chosen_machine(
    name: str, machines: Mapping[str, physics.Machine] | None = None, own_numbers: str = "", own_name: str = ""
) -> physics.Machine:
    """The machine of this name with the user's own numbers; KeyError or ValueError with one sentence where it cannot be.

    machines: machines of this session, by name. own_numbers: as `physics.machine_reader.numbers_text` writes them.
    own_name: what the machine with own numbers is called.
    """
    own = (machines or {}).get(name)
    if own is None and name.endswith(YOURS):
        raise KeyError(f"machine: {name[:60]!r} came from a file, which a link cannot carry; load its machines.csv again")
    machine = own or load_machine(name[:120])
    if not own_numbers and not own_name:
        return machine
    return physics.machine_from_numbers(machine, clean_name(own_name) if own_name else None, **numbers_of_text(own_numbers))


LONGEST = 320
"""Most characters of a sentence about a refused value."""


def short(problem: str) -> str:
    """A sentence that quotes what a user gave, its middle cut where it is too long."""
    plain = " ".join(problem.split())
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST // 2]} … {plain[-LONGEST // 2 :]}"


def check_plain(name: str, value: Any, kinds: tuple[type, ...], optional: bool) -> None:
    """A choice is a plain value of its kind; ValueError with one sentence where it is anything else."""
    if value is None and optional:
        return
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        what = "a number" if float in kinds else "true or false" if bool in kinds else "text"
        given = "nothing" if value is None else f"a value of kind {type(value).__name__}"
        raise ValueError(f"{name}: {given} was given, and it takes {what}")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise ValueError(f"{name}: an integer of {value.bit_length():,} bits is too large; give a smaller number")


def only_here(model: str, machine: str, routing: str) -> list[str]:
    """What of these choices came from the user's files, so that neither a link nor a command can carry it."""
    return [what for what, missing in (
        ("your model", model.endswith(YOURS)), ("your machine", machine.endswith(YOURS)), ("your routing", routing == "loaded"),
    ) if missing]  # fmt: skip


def link_gaps(files: list[str], pinned: bool) -> str:
    """What a link cannot carry, as one sentence; empty where it carries everything."""
    lost = [*files, *(["the pin"] if pinned else [])]
    return f"Link copied; it cannot carry {' nor '.join(lost)}: that stays in this session" if lost else ""


def positive_bytes(name: str, value: float) -> float:
    """A size [B] above nothing; ValueError with one sentence otherwise."""
    if not 0.0 < float(value) < 1e18:
        raise ValueError(f"{name}: {value!r} is outside 0 to 1e18 B")
    return float(value)

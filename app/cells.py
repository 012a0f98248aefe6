"""Tiles and table cells as plain texts: what the headline strip, the tables and the report show. No Panel here."""

from __future__ import annotations

from typing import Literal, TypedDict

from app.quantities import split_quantity

Kind = Literal["", "bound", "estimate", "measured", "derived"]


class Tile(TypedDict):
    """One number of the headline strip; `tone` "bad" marks what does not fit."""

    key: str
    label: str
    number: str
    unit: str
    kind: Kind
    note: str
    hint: str
    tone: Literal["", "bad"]


def tile(
    key: str, label: str, value: float | str | None, unit: str = "", kind: Kind = "", note: str = "", hint: str = "", bad: bool = False
) -> Tile:
    """A tile from a value in base units, or from a word as it is; `note` is small print, `hint` shows on hover."""
    number, shown = (value, unit) if isinstance(value, str) else split_quantity(value, unit)
    return Tile(key=key, label=label, number=number, unit=shown, kind=kind, note=note, hint=hint, tone="bad" if bad else "")


class Column(TypedDict):
    """One column of a table; `align` is "left" or "" for numbers."""

    key: str
    label: str
    unit: str
    hint: str
    align: Literal["", "left"]


def column(key: str, label: str, unit: str = "", hint: str = "", align: Literal["", "left"] = "") -> Column:
    """A column; the first one of a table heads its rows."""
    return Column(key=key, label=label, unit=unit, hint=hint, align=align)


class Row(TypedDict):
    """One row: texts in the order of the columns; `color` is a key of app.theme.HUES or empty."""

    key: str
    cells: list[str]
    color: str

"""What a picture is: pure functions of a snapshot. No Panel here, so plots, report and tests can use it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeVar

import holoviews as hv
import numpy as np

S = TypeVar("S")
Values = Any
"""One column: numbers (kept as float32), or a list of strings for text and colour columns."""
Columns = Mapping[str, Mapping[str, Values]]
"""Element label → column name → values. A scalar sets a property of a mark without a source (a VLine's `location`)."""
Limits = tuple[float, float, float, float]
"""(x start, x end, y start, y end) in data units."""


KEPT = 8
"""States whose columns are kept: a pinned one, and a few visitors' present ones."""


class AxisNames(NamedTuple):
    """Titles of both axes and the units of their ticks."""

    x: str
    x_unit: str
    y: str
    y_unit: str


@dataclass(frozen=True)
class Picture(Generic[S]):
    """What one plot shows of a snapshot, as pure functions.

    `limits` says where its axes belong, when they should follow; `axes` what they are called, when that can change.
    """

    build: Callable[[S], hv.Overlay]
    columns: Callable[[S], Columns]
    limits: Callable[[S], Limits] | None = None
    axes: Callable[[S], AxisNames] | None = None
    min_height: int = 300


def kept(key: Callable[[S], Hashable | None]) -> Callable[[Callable[[S], Columns]], Callable[[S], Columns]]:
    """A decorator: the very same columns again while the key stays, for pictures that most sliders do not move.

    They outlive the visitor's session: where they show what a visitor loaded, the key is None and nothing is kept.
    """

    def keeping(columns: Callable[[S], Columns]) -> Callable[[S], Columns]:
        last: dict[Hashable, Columns] = {}

        @wraps(columns)
        def remembered(s: S) -> Columns:
            this = key(s)
            if this is None:
                return columns(s)
            found = last.get(this)
            if found is None:
                if len(last) >= KEPT:
                    last.clear()
                found = last[this] = columns(s)
            return found

        return remembered

    return keeping


def prepared(values: Values) -> Values:
    """A column as it is stored and sent: numbers as a fresh float32 array, text as a fresh list of str."""
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        return [str(value) for value in array.tolist()]
    return np.array(array, dtype=np.float32)

"""What a drag does and how a figure tells which of its events it shows: one number of each picture, different at every event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import holoviews as hv
import numpy as np
from bokeh.models import GlyphRenderer

from app.live import LiveView
from app.session import Session
from app.state import Snapshot
from benchmarks.live_server import figure_name

EVENTS = 240
"""Four seconds at 60 events a second."""


class Drag(NamedTuple):
    """One slider of one page, dragged over values that all fit the memory; each event has its own value."""

    page: str
    query: str
    label: str
    field: str
    values: list[float]


_BATCHES = [float(value) for value in range(8, 8 + 2 * EVENTS, 2)]
_CONTEXTS = [float(round(value)) for value in np.geomspace(4_000, 131_000, EVENTS)]
_MILLIMETRES = [float(value) for value in np.linspace(1.0, 40.0, EVENTS)]
DRAGS = (
    Drag("Regimes", "&context_tokens=8192", "Batch size", "batch", _BATCHES),
    Drag("Experts", "&context_tokens=8192", "Batch size", "batch", _BATCHES),
    Drag("Pipeline", "&pipeline_depth=4&gpus_per_stage=8", "Context length", "context_tokens", _CONTEXTS),
    Drag("Energy", "", "Distance to the consumer", "wire_mm", _MILLIMETRES),
)


def probes(drag: Drag) -> tuple[list[dict[str, Any]], list[str]]:
    """(one probe for each picture of the page that follows the slider, names of figures that do not or not always)."""
    session = Session()
    for name, value in [pair.split("=") for pair in drag.query.split("&") if pair]:
        session.explorer.change(**{name: int(value)})
    session.shell.show(drag.page)
    shown = [_snapshot(session.explorer.choices, drag.field, value) for value in drag.values]
    found, left_out = [], []
    pictures = [view for view in session.live._views[drag.page] if isinstance(view, LiveView)]
    for number, view in enumerate(pictures):
        name = figure_name(drag.page, number)
        probe = _probe(view, shown)
        if probe is None:
            left_out.append(name)
        else:
            found.append({"figure": name} | probe)
    return found, left_out


def _snapshot(choices: Any, field: str, value: float) -> Snapshot:
    kept = value if isinstance(getattr(choices, field), float) or value % 1 else int(value)
    changed = type(choices)(**(vars(choices) | {field: kept}))
    return Snapshot(changed, changed.scenario())  # no trail: it depends on which events the server saw


def _probe(view: LiveView[Snapshot], shown: list[Snapshot]) -> dict[str, Any] | None:
    columns = [view.picture.columns(snapshot) for snapshot in shown]
    names = [getattr(renderer, "name", None) for renderer in view.figure().renderers]
    drawn = hv.render(view.picture.build(shown[-1])).renderers
    plain = [renderer.data_source.data if isinstance(renderer, GlyphRenderer) else {} for renderer in drawn]
    best: tuple[int, dict[str, Any]] = (0, {})
    for label, column, numbers in _numeric(columns):
        if label not in names:
            continue
        # A DynamicMap must show the same number at the same place, or the two could not be compared.
        same = np.asarray(plain[names.index(label)].get(column, ()), np.float32)
        agreed = same == numbers[-1] if same.shape == numbers[-1].shape else np.zeros(numbers.shape[1], bool)
        different = [np.unique(numbers[:, place]).size if agreed[place] else 0 for place in range(numbers.shape[1])]
        place = int(np.argmax(different))
        if different[place] > best[0]:
            values = [float(value) for value in numbers[:, place]]
            best = different[place], {"renderer": names.index(label), "column": column, "place": place, "values": values}
    return best[1] if best[0] > 0.98 * len(shown) else None


def _numeric(columns: list[Any]) -> Iterator[tuple[str, str, np.ndarray]]:
    """(label, column, numbers[event, place]) of every column of numbers without gaps."""
    for label, first in columns[0].items():
        for column, values in first.items():
            array = np.asarray(values)
            if array.ndim != 1 or array.dtype.kind not in "fiu" or not array.size:
                continue
            numbers = np.array([np.asarray(each[label][column], np.float32) for each in columns])
            sound = np.isfinite(numbers).all(axis=0)
            yield label, column, np.where(sound, numbers, 0.0)

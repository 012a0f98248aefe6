"""What a report shows: the pictures of the app's pages with their sentences, the tiles and the table, and which sliders move each.

`over` names the sliders that can change a picture; where it is wrong, tests/test_report.py finds a state that differs. All else
about a picture is the app's: the same Picture, the same sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app import headline, sentences
from app.pages.regimes import COLUMNS
from app.picture import Picture
from app.plots import crossover, pipeline, roofline, utilisation
from app.report.grid import SLIDERS, Grid, Place
from app.state import Choices, Snapshot
from physics.regimes import BOUNDS, REGIMES

Texts = Mapping[str, str]
ALL = SLIDERS
STEP = SLIDERS[:3]
"""What moves the work of a step: depth only adds hops and divides memory."""


def nothing(_grid: Grid, _place: Place) -> Hashable:
    """A picture that hangs on its sliders alone."""
    return None


def _fits(grid: Grid, place: Place) -> Hashable:
    return grid.fits(place)


@dataclass(frozen=True)
class Figure:
    """One picture: its title and sentence, and what moves it.

    over: sliders that can change its columns. extra: anything else they hang on, cheap to ask at every state.
    moving: elements that follow other sliders than the rest. wide: whether it takes the full width.
    """

    key: str
    page: str
    title: str
    picture: Picture[Snapshot]
    sentence: Callable[[Snapshot], str]
    over: Callable[[Choices], tuple[str, ...]] = lambda _: ALL
    extra: Callable[[Grid, Place], Hashable] = nothing
    moving: Callable[[Choices], Mapping[str, tuple[str, ...]]] = field(default=lambda _: {})
    wide: bool = False


def _but_axis(choices: Choices) -> tuple[str, ...]:
    return tuple(name for name in SLIDERS if name != choices.axis)


def _cursor(choices: Choices) -> Mapping[str, tuple[str, ...]]:
    return {"cursor": (choices.axis,) if choices.axis in SLIDERS else ()}


def _depth(_choices: Choices) -> Mapping[str, tuple[str, ...]]:
    return {"depth": ("pipeline_depth",)}


def _stage(s: Snapshot) -> str:
    return f"{sentences.stage(s)} {sentences.fit(s)}"


def _step(_choices: Choices) -> tuple[str, ...]:
    return STEP


FIGURES: tuple[Figure, ...] = (
    Figure("roofline", "Regimes", "What does the machine allow each regime?", roofline.PICTURE, sentences.roofline, _step, _fits),
    Figure("utilisation", "Regimes", "Is this worker strong in all three?", utilisation.PICTURE, sentences.utilisation),
    Figure(
        "crossover",
        "Regimes",
        "Where does a slider stop helping?",
        crossover.PICTURE,
        sentences.crossover,
        _but_axis,
        moving=_cursor,
        wide=True,
    ),
    Figure("stage", "Pipeline", "What must one stage hold?", pipeline.MEMORY, _stage, _step, moving=_depth, wide=True),
    Figure("latency", "Pipeline", "Does depth speed up a token?", pipeline.LATENCY, sentences.latency, _step, moving=_depth),
    Figure("throughput", "Pipeline", "Does depth raise throughput?", pipeline.THROUGHPUT, sentences.throughput, _step, moving=_depth),
)
"""Every picture of the app that follows the four sliders, in the order of its pages."""


def tile_texts(s: Snapshot) -> Texts:
    """The changing texts of the headline strip."""
    found: dict[str, str] = {}
    for tile in headline.tiles(s):
        fields: Mapping[str, Any] = tile
        found |= {f"tile {tile['key']} {name}": str(fields[name]) for name in ("label", "number", "unit", "note", "tone")}
    return found


def mark_texts(s: Snapshot) -> Texts:
    """What marks a state as a whole: it does not fit, or its context is longer than the model was published for."""
    beyond = "Beyond the context the model was published for." if s.scenario.exceeds_max_context else ""
    return {"tone": "" if s.memory.fits else "bad", "beyond": beyond}


CELLS = tuple((f"{regime} {name}", i, name) for i, regime in enumerate(REGIMES) for name in COLUMNS)
"""Cells of the regimes' table: key, row, column."""


def cell_inputs(results: Mapping[str, np.ndarray], i: int, name: str) -> np.ndarray:
    """The numbers one cell is written from, [state, number]: equal numbers, equal text."""
    if name != "bound":
        return results[name][:, i, None]
    shares = np.stack([results[f"{resource}_frac"][:, i] for resource in BOUNDS], axis=-1)
    bound = results["bound_index"][:, i]
    share = np.take_along_axis(shares, bound[:, None].astype(np.int64), axis=1)[:, 0]
    return np.stack([bound, share, results["flops"][:, i] > 0], axis=-1)


LEFT_OUT: frozenset[str] = frozenset()
"""Pictures of the app that no report shows."""

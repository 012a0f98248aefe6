"""The pictures and texts of every state of a grid, by the functions the app draws with."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from app import sentences
from app.picture import prepared
from app.regimes_table import cell_text
from app.report import contents
from app.report.contents import ALL, STEP, Figure
from app.report.grid import SLIDERS, Grid, Place
from app.report.tables import Pack, column, sentence, texts, words
from app.state import Snapshot
from physics.regimes import BOUNDS

Named = Mapping[tuple[str, ...], Any]
"""("figure", key, element, column) → values, or ("text", key) → a text."""
LIMITS = ("axes", "limits")
"""Element and column under which the limits of a picture stand."""


class Job(NamedTuple):
    """What to work out of every state that differs in the sliders `over`, or in what `extra` says of it over `extra_over`."""

    over: tuple[str, ...]
    make: Callable[[Snapshot], Named]
    extra: Callable[[Grid, Place], Hashable] = contents.nothing
    extra_over: tuple[str, ...] = ()

    @property
    def walked(self) -> tuple[str, ...]:
        """Sliders whose every stop is visited."""
        return tuple(name for name in SLIDERS if name in self.over or name in self.extra_over)


def figure_values(figure: Figure, s: Snapshot) -> dict[tuple[str, ...], Any]:
    """Every changing column of a picture as the picture gives it, its limits among them."""
    empty = contents.empty(s)
    found: dict[tuple[str, ...], Any] = {
        ("figure", figure.key, label, name): values
        for label, part in figure.picture.columns(s).items()
        if label.partition(" ")[0] not in empty
        for name, values in part.items()
    }
    if figure.picture.limits is not None:
        found["figure", figure.key, *LIMITS] = figure.picture.limits(s)
    return found


def figure_columns(figure: Figure, s: Snapshot) -> dict[tuple[str, ...], Any]:
    """The same as the page holds them: float32, or lists of texts; a scalar is a column of one."""
    return {key: prepared(values if np.ndim(values) else [values]) for key, values in figure_values(figure, s).items()}


def tile_texts(s: Snapshot) -> Named:
    """Tiles and marks of a state."""
    return {("text", key): text for part in (contents.tile_texts(s), contents.mark_texts(s)) for key, text in part.items()}


def table_text(s: Snapshot) -> Named:
    """The sentence of the table, about the work of a step."""
    return {("text", "sentence table"): sentences.table(s)}


def sentence_text(figure: Figure, s: Snapshot) -> Named:
    """The sentence of a picture."""
    return {("text", f"sentence {figure.key}"): figure.sentence(s)}


def jobs(grid: Grid) -> Iterator[Job]:
    """Everything there is to work out."""
    yield Job(ALL, tile_texts)
    yield Job(STEP, table_text)
    for figure in contents.shown(grid.opening):
        apart = figure.moving(grid.choices)
        yield Job(figure.said_over, partial(sentence_text, figure))
        extra_over = () if figure.extra is contents.nothing else figure.extra_over
        yield Job(figure.over(grid.choices), _without(figure, set(apart)), figure.extra, extra_over)
        for label, over in apart.items():
            yield Job(over, _only(figure, label))


def _without(figure: Figure, labels: set[str]) -> Callable[[Snapshot], Named]:
    return lambda s: {key: values for key, values in figure_values(figure, s).items() if key[2] not in labels}


def _only(figure: Figure, label: str) -> Callable[[Snapshot], Named]:
    return lambda s: {key: values for key, values in figure_values(figure, s).items() if key[2] == label}


def evaluated(grid: Grid, todo: Sequence[Job]) -> Iterator[tuple[list[Named], np.ndarray]]:
    """For jobs of equal `over` and `extra` together: what they give for each different state, and which of them each place shows."""
    groups: dict[Any, list[Job]] = {}
    for job in todo:
        groups.setdefault((job.over, job.extra), []).append(job)
    for together in groups.values():
        yield _group(grid, together)


def _group(grid: Grid, together: Sequence[Job]) -> tuple[list[Named], np.ndarray]:
    first = together[0]
    seen: dict[Hashable, int] = {}
    made: list[Named] = []
    which = []
    for place in grid.places(first.walked):
        key = (tuple(at for name, at in zip(SLIDERS, place, strict=True) if name in first.over), first.extra(grid, place))
        number = seen.setdefault(key, len(seen))
        if number == len(made):
            s = grid.snapshot(place)
            made.append({name: values for job in together for name, values in job.make(s).items()})
        which.append(number)
    shape = [n if name in first.walked else 1 for name, n in zip(SLIDERS, grid.shape, strict=True)]
    return made, np.array(which, np.int64).reshape(shape)


def tables(grid: Grid, part: int) -> tuple[dict[str, Any], Pack]:
    """One of PARTS of the columns and texts of every state: the manifest the page reads, and the arrays it points into."""
    pack = Pack()
    manifest: dict[str, Any] = {"present": list(grid.present), "figures": {}, "texts": {}, "cells": cell_tables(grid, pack) if part else {}}
    todo = [job for job in jobs(grid) if part == (job.over != ALL)]
    for made, which in evaluated(grid, todo):
        for key in made[0]:
            values = [one[key] for one in made]
            if key[0] == "text":
                manifest["texts"][key[1]] = sentence(pack, values, which)
                continue
            worded = np.asarray(values[0]).dtype.kind in "OUS"
            table = texts(pack, values, which) if worded else column(pack, np.array(values, np.float32).reshape(len(values), -1), which)
            manifest["figures"].setdefault(key[1], []).append({"element": key[2], "column": key[3], **table})
    return manifest, pack


PARTS = 2
"""What every slider moves, and the rest: about equal work, done side by side."""


def cell_tables(grid: Grid, pack: Pack) -> dict[str, Any]:
    """The table over the grid, by cell: its text, and its number where it has one."""
    places = np.arange(math.prod(grid.shape)).reshape(grid.shape)
    results = {name: values.reshape(-1, values.shape[-1]) for name, values in grid.results.items()}
    return {key: _cell(results, i, name, places, pack) for key, i, name in contents.CELLS}


def _cell(results: Mapping[str, np.ndarray], i: int, name: str, places: np.ndarray, pack: Pack) -> dict[str, Any]:
    inputs = contents.cell_inputs(results, i, name)
    _, firsts, which = np.unique(inputs, axis=0, return_index=True, return_inverse=True)
    asked = ("flops", "bound_index", *(f"{resource}_frac" for resource in BOUNDS)) if name == "bound" else (name,)
    said = [cell_text({key: results[key][first] for key in asked}, i, name) for first in firsts]
    table = {"text": words(pack, said, which.reshape(places.shape))}
    return table if name == "bound" else table | {"number": column(pack, inputs, places)}

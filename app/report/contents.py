"""What a report shows: the pictures of the app's pages with their sentences, the tiles and the table, and which sliders move each.

`over` names the sliders that can change a picture; where it is wrong, tests/test_report.py finds a state that differs. All else
about a picture is the app's: the same Picture, the same sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from app import headline, sentences, sentences_energy, sentences_experts
from app.picture import Picture
from app.plots import crossover, energy, experts, experts_load, pipeline, roofline, utilisation
from app.regimes_table import COLUMNS
from app.report.grid import SLIDERS, Grid, Place
from app.state import Choices, Snapshot
from physics.regimes import BOUNDS, REGIMES

Texts = Mapping[str, str]
ALL = SLIDERS
STEP = SLIDERS[:3]
"""What moves the work of a step: depth only adds hops and divides memory."""
TOKENS = SLIDERS[:2]
"""What moves the tokens of a step, hence which experts it touches."""


def nothing(_grid: Grid, _place: Place) -> Hashable:
    """A picture that hangs on its sliders alone."""
    return None


def _fits(grid: Grid, place: Place) -> Hashable:
    return grid.fits(place)


def _always(_snapshot: Snapshot) -> bool:
    return True


def _all(_choices: Choices) -> tuple[str, ...]:
    return ALL


@dataclass(frozen=True)
class Figure:
    """One picture: its title and sentence, and what moves them.

    over: sliders that can change its columns. extra: anything else they hang on, cheap to ask at every state; extra_over: sliders that
    can change that. moving: elements that follow other sliders than the rest. said_over: sliders that can change the sentence.
    when: whether a state has such a picture. wide: whether it takes the full width.
    """

    key: str
    page: str
    title: str
    picture: Picture[Snapshot]
    sentence: Callable[[Snapshot], str]
    over: Callable[[Choices], tuple[str, ...]] = _all
    extra: Callable[[Grid, Place], Hashable] = nothing
    extra_over: tuple[str, ...] = ALL
    moving: Callable[[Choices], Mapping[str, tuple[str, ...]]] = field(default=lambda _: {})
    said_over: tuple[str, ...] = ALL
    when: Callable[[Snapshot], bool] = _always
    wide: bool = False


def _of(*sliders: str) -> Callable[[Choices], tuple[str, ...]]:
    return lambda _: sliders


def _has_experts(s: Snapshot) -> bool:
    return bool(s.scenario.model.moe_groups)


def _bank(
    key: str,
    title: str,
    picture: Picture[Snapshot],
    sentence: Callable[[Snapshot], str],
    over: tuple[str, ...] = TOKENS,
    wide: bool = False,
) -> Figure:
    """A picture of the page Experts."""
    return Figure(key, "Experts", title, picture, sentence, _of(*over), said_over=TOKENS, when=_has_experts, wide=wide)


def _room(grid: Grid, place: Place) -> Hashable:
    """Which batches of the energy picture the memory holds."""
    return grid.snapshot(place).energy.fits.tobytes()


def _batch(_choices: Choices) -> Mapping[str, tuple[str, ...]]:
    return {"cursor": ("batch",)}


def _but_axis(choices: Choices) -> tuple[str, ...]:
    return tuple(name for name in SLIDERS if name != choices.axis)


def _cursor(choices: Choices) -> Mapping[str, tuple[str, ...]]:
    return {"cursor": (choices.axis,) if choices.axis in SLIDERS else ()}


def _depth(_choices: Choices) -> Mapping[str, tuple[str, ...]]:
    return {"depth": ("pipeline_depth",)}


def _stage(s: Snapshot) -> str:
    return f"{sentences.stage(s)} {sentences.fit(s)}"


NOT_BATCH = ("context_tokens", "kv_bytes_per_token", "pipeline_depth")
FIGURES: tuple[Figure, ...] = (
    Figure("roofline", "Regimes", "What does the machine allow each regime?", roofline.PICTURE, sentences.roofline, _of(*STEP), _fits),
    Figure("utilisation", "Regimes", "Is this worker strong in all three?", utilisation.PICTURE, sentences.utilisation),
    Figure(
        "crossover", "Regimes", "Where does a slider stop helping?", crossover.PICTURE, sentences.crossover, _but_axis, moving=_cursor,
        wide=True,
    ),
    _bank("distinct", "How much of the bank wakes up?", experts.DISTINCT, sentences_experts.distinct),
    _bank("shared", "What does one read of an expert serve?", experts.SHARED, sentences_experts.shared),
    _bank("traffic", "When does sharing start to pay?", experts.BYTES, sentences_experts.traffic, STEP),
    _bank("intensity", "How long must its queue be?", experts.INTENSITY, sentences_experts.intensity),
    _bank("loads", "Where do tokens pile up?", experts_load.LOADS, sentences_experts.loads, ("batch",)),
    _bank("straggler", "Who waits for the busiest GPU?", experts_load.STRAGGLERS, sentences_experts.straggler, ("batch",)),
    _bank("sharing", "What does sharing give each regime?", experts.SHARING, sentences_experts.sharing, wide=True),
    Figure("stage", "Pipeline", "What must one stage hold?", pipeline.MEMORY, _stage, _of(*STEP), moving=_depth, wide=True),
    Figure("latency", "Pipeline", "Does depth speed up a token?", pipeline.LATENCY, sentences.latency, _of(*STEP), moving=_depth),
    Figure("throughput", "Pipeline", "Does depth raise throughput?", pipeline.THROUGHPUT, sentences.throughput, _of(*STEP), moving=_depth),
    Figure(
        "energy", "Energy", "Experts in SRAM or in HBM?", energy.EXPERTS, sentences_energy.experts, _of(), _room, NOT_BATCH, _batch,
        ("batch",), _has_experts, wide=True,
    ),
)  # fmt: skip
"""The pictures of a report, in the order of the app's pages."""


def shown(snapshot: Snapshot) -> list[Figure]:
    """The pictures a state has."""
    return [figure for figure in FIGURES if figure.when(snapshot)]


def empty(s: Snapshot) -> frozenset[str]:
    """First words of the elements that show nothing in any state of a report: no slider leaves a trail; what is pinned, estimates."""
    unpinned, exact = s.pinned is None, s.scenario.efficiencies is None
    off = {"trail": True, "ghost": unpinned, "ghosts": unpinned, "estimates": exact}
    return frozenset(word for word, is_off in off.items() if is_off)


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


class LeftOut(NamedTuple):
    """Pictures of the app that no report shows: what they show, why, and their names by module of app.plots."""

    what: str
    why: str
    pictures: Mapping[str, tuple[str, ...]]


LEFT_OUT = (
    LeftOut(
        "Where the joules of a token go",
        "every slider moves each of its bars, which takes longer to work out for all states than this whole file may",
        {"energy": ("REGIME_LEVELS",)},
    ),
    LeftOut("How much cheaper a byte of SRAM is", "none of these four sliders moves it", {"energy_map": ("MAP",)}),
    LeftOut(
        "The page Sessions",
        "its pictures replay thousands of requests and follow sliders of their own",
        {"sessions": ("MIX_PICTURE", "DENSITY", "CONTEXT", "WAITS"), "waiting": ("MAP", "REUSE", "CURVE")},
    ),
    LeftOut("The page Validation", "it shows measurements, which no slider moves", {"validation": ("SCATTER", "ERRORS")}),
    LeftOut("What a file of your router tells", "no slider moves it", {"routing_file": ("POPULARITY", "OVERLAP", "PROOF")}),
)

"""The states a report can show: stops of the four primary sliders, and the snapshot at each of their combinations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from app.quantities import format_exact
from app.state import AXES, Choices, Snapshot, depth_values
from physics.memory import StageMemory, memory_parts, stage_memory_of
from physics.regimes import COLUMNS
from physics.scenario import Scenario
from physics.sweep import sweep_arrays
from physics.turn import Turn, mean_context_tokens, turn_of

SLIDERS = ("context_tokens", "batch", "kv_bytes_per_token", "pipeline_depth")
Place = tuple[int, ...]
"""Index of the stop of each of SLIDERS."""

N_STOPS = 9
_STOPS: Mapping[str, tuple[float, ...]] = {
    "context_tokens": tuple(2.0**n for n in range(12, 21)),
    "batch": (1, 4, 8, 16, 32, 64, 128, 256, 512),
    "kv_bytes_per_token": (10e3, 25e3, 50e3, 70e3, 100e3, 200e3, 400e3, 800e3, 1.6e6),
}
_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 48, 5, 7, 9, 10)
"""Depths a person would try, the more telling ones first."""


def laid_out(stops: Sequence[float], wanted: Sequence[float]) -> tuple[float, ...]:
    """The wanted values and as many of the others as make N_STOPS: those nearest to a wanted one give way.

    >>> laid_out([1, 2, 4, 8, 16, 32, 64, 128, 256], [100])
    (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 256.0)
    """
    kept = [float(stop) for stop in stops if stop not in wanted]
    chosen = sorted({float(value) for value in wanted})
    while kept and len(kept) + len(chosen) > N_STOPS and chosen:
        kept.remove(min(kept, key=lambda stop: min(abs(math.log(stop / value)) for value in chosen)))
    return tuple(sorted({*kept, *chosen}))


def depth_stops(deepest: int, present: int) -> tuple[float, ...]:
    """Nine depths up to the deepest a model allows, the present one and the ends among them; all, where there are fewer."""
    ends = {1, deepest, present}
    others = [depth for depth in (*_DEPTHS, *range(1, deepest + 1)) if depth < deepest and depth not in ends]
    return tuple(float(depth) for depth in sorted(ends | set(dict.fromkeys(others[: max(N_STOPS - len(ends), 0)]))))


@dataclass(frozen=True)
class Slider:
    """Stops of one slider, which of them is the present one, and the sentence about it where there is something to say."""

    name: str
    stops: tuple[float, ...]
    present: int
    note: str = ""

    @property
    def texts(self) -> list[str]:
        """Every stop with its unit."""
        return [format_exact(stop, AXES[self.name][2]) for stop in self.stops]


class GridSnapshot(Snapshot):
    """A state of a grid: what the grid worked out for all states at once is taken from there."""

    grid: Grid
    place: Place

    @cached_property
    def results(self) -> dict[str, np.ndarray]:
        """As for any snapshot, likewise all that follows."""
        return {name: values[self.place] for name, values in self.grid.results.items()}

    @cached_property
    def short_prefill(self) -> dict[str, np.ndarray]:
        return {name: values[self.place] for name, values in self.grid.short_prefill.items()}

    @cached_property
    def memory(self) -> StageMemory:
        return stage_memory_of(self.scenario, {name: float(values[self.place]) for name, values in self.grid.memory.items()})

    @cached_property
    def turn(self) -> Turn:
        return turn_of(self.scenario, self.results, {name: values[self.place] for name, values in self.grid.later.items()})

    @cached_property
    def axis_values(self) -> np.ndarray:
        return self.grid.axis_values

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        at = along(self.choices.axis, self.place)
        return {name: values[at] for name, values in self.grid.curves.items()}

    @cached_property
    def crossings(self) -> list[dict[str, Any]]:
        known, at = self.grid.crossings, along(self.choices.axis, self.place)
        if at not in known:
            known[at] = _CROSSINGS.func(self)
        return known[at]

    @cached_property
    def depths(self) -> dict[str, np.ndarray]:
        at = along("pipeline_depth", self.place)
        return {name: values[at] for name, values in self.grid.depths.items()}


_CROSSINGS: Any = vars(Snapshot)["crossings"]


def _fields_of(frozen: Any) -> dict[str, Any]:
    return {field.name: getattr(frozen, field.name) for field in fields(frozen)}


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    """A frozen dataclass of these fields; every stop passed the checks of a sweep, so they are not repeated per state."""
    made = object.__new__(kind)
    vars(made).update(values)
    return made


class Grid:
    """All states of one report: the snapshot it was asked for, moved along four sliders; what is pinned stays pinned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.opening = replace(snapshot, trail=())
        self.choices, self.scenario = snapshot.choices, snapshot.scenario
        self.sliders = tuple(self._slider(name) for name in SLIDERS)
        self.shape = tuple(len(slider.stops) for slider in self.sliders)
        self.present: Place = tuple(slider.present for slider in self.sliders)
        self._own_kv = float(self.scenario.model.kv_bytes_per_token(self.scenario.kv_dtype))
        self._opening, self._choices, self._scenario = map(_fields_of, (self.opening, self.choices, self.scenario))
        self.crossings: dict[Place, list[dict[str, Any]]] = {}

    def _slider(self, name: str) -> Slider:
        s = self.scenario
        now, note = float(getattr(s, name) or 0.0), ""
        if name == "pipeline_depth":
            deepest = min(int(AXES[name][1]), s.model.n_layers)
            stops = depth_stops(max(deepest, s.pipeline_depth), s.pipeline_depth)
            if not s.hop_bytes_per_s > 0:
                stops, note = (now,), f"No link of {s.machine.name} is known: one stage."
        elif name == "kv_bytes_per_token":
            own = float(s.model.kv_bytes_per_token(s.kv_dtype))
            now = float(s.kv_token_bytes)
            stops = laid_out(_STOPS[name], [own, now]) if own else (0.0,)
            note = (
                f"{format_exact(own, 'B/token')} is the model's own." if own else f"{s.model.name} keeps no cache that grows with context."
            )
        else:
            stops = laid_out(_STOPS[name], [now])
            if name == "context_tokens" and s.model.max_context:
                note = f"The model was published for {format_exact(float(s.model.max_context), 'tokens')}."
        return Slider(name, stops, stops.index(now), note)

    @cached_property
    def _stops(self) -> tuple[tuple[float | None, ...], ...]:
        """The stops of each slider as choices."""
        return tuple(tuple(self._chosen(slider.name, stop) for stop in slider.stops) for slider in self.sliders)

    def _chosen(self, name: str, stop: float) -> float | None:
        """A stop as a choice: whole numbers, and None for the model's own bytes per token."""
        if name != "kv_bytes_per_token":
            return int(stop)
        follows = self.choices.kv_bytes_per_token is None or not self._own_kv
        return None if stop == self._own_kv and follows else stop

    # -------------------------------------------------------------------------------------------------------- evaluations
    def _axes(self, but: str = "") -> dict[str, Any]:
        """The sliders that have stops to move to, as axes of a sweep."""
        return {slider.name: slider.stops for slider in self.sliders if len(slider.stops) > 1 and slider.name != but}

    def _swept(self, columns: str | tuple[str, ...], axes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return sweep_arrays(self.scenario, columns=columns, **axes)

    @cached_property
    def results(self) -> dict[str, np.ndarray]:
        """Every column of `regimes` at every state, [four sliders, regime]: the one evaluation all tables come from."""
        arrays = self._swept("all", self._axes())
        return {name: arrays[name].reshape(*self.shape, -1) for name in (*COLUMNS, "bound_index", "fits")}

    @cached_property
    def short_prefill(self) -> dict[str, np.ndarray]:
        """Cache traffic where a prefill reads as many tokens as a midfill appends."""
        short = self.scenario.replace(prompt_tokens=self.scenario.new_tokens)
        return {"kv_bytes": sweep_arrays(short, columns="kv_bytes", **self._axes())["kv_bytes"].reshape(*self.shape, -1)}

    @cached_property
    def later(self) -> dict[str, np.ndarray]:
        """Seconds and joules at the mean context of a turn's decode, for its energy."""
        axes, ahead = self._axes(), mean_context_tokens(self.scenario) - self.scenario.context_tokens
        if "context_tokens" in axes:
            axes["context_tokens"] = tuple(stop + ahead for stop in axes["context_tokens"])
        arrays = self._swept(("roofline_s", "energy_j"), axes)
        return {name: arrays[name].reshape(*self.shape, -1) for name in ("roofline_s", "energy_j")}

    @cached_property
    def memory(self) -> dict[str, np.ndarray]:
        """Parts of a stage's memory at every state."""
        axes = self._axes()
        stops = np.meshgrid(*axes.values(), indexing="ij", sparse=True)
        parts = memory_parts(self.scenario, **dict(zip(axes, stops, strict=True)))
        lengths = [len(values) for values in axes.values()]
        return {name: np.broadcast_to(values, lengths).reshape(self.shape) for name, values in parts.items()}

    def _lines(self, columns: tuple[str, ...], axis: str, values: np.ndarray) -> dict[str, np.ndarray]:
        """Columns, and whether it fits, along one axis at every state but for that axis' own slider, [four sliders, sample, regime]."""
        arrays = self._swept(columns, self._axes(but=axis) | {axis: values})
        lengths = [1 if name == axis else length for name, length in zip(SLIDERS, self.shape, strict=True)]
        return {name: arrays[name].reshape(*lengths, len(values), -1) for name in (*columns, "fits")}

    @cached_property
    def axis_values(self) -> np.ndarray:
        """Samples of the crossover's axis."""
        return self.opening.axis_values

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """The chosen quantity, and seconds, along the chosen axis."""
        return self._lines(tuple({self.choices.quantity, "roofline_s"}), self.choices.axis, self.axis_values)

    @cached_property
    def depths(self) -> dict[str, np.ndarray]:
        """Seconds along the pipeline depth."""
        return self._lines(("roofline_s",), "pipeline_depth", depth_values(self.scenario))

    # ------------------------------------------------------------------------------------------------------------- states
    def fits(self, place: Place) -> bool:
        """Whether the memory holds the state."""
        return bool(self.results["fits"][place][0])

    def places(self, over: Sequence[str]) -> Iterator[Place]:
        """Every state that differs in the sliders `over`; the others stand where the report opens."""
        moving = [name in over for name in SLIDERS]
        return product(*(range(n) if moves else (at,) for n, at, moves in zip(self.shape, self.present, moving, strict=True)))

    def at(self, place: Place) -> Choices:
        """Choices of a state."""
        made: Choices = _made(Choices, self._choices | self._moved(place))
        return made

    def _moved(self, place: Place) -> dict[str, Any]:
        return {name: stops[i] for name, stops, i in zip(SLIDERS, self._stops, place, strict=True)}

    def snapshot(self, place: Place) -> Snapshot:
        """The snapshot of a state, its results taken from the one evaluation."""
        moved = self._moved(place)
        own = {"choices": _made(Choices, self._choices | moved), "scenario": _made(Scenario, self._scenario | moved)}
        made: GridSnapshot = _made(GridSnapshot, self._opening | own | {"grid": self, "place": place})
        return made


def along(axis: str, place: Place) -> Place:
    """The place with the slider of an axis at its first stop: where lines along that axis are kept."""
    return tuple(0 if name == axis else at for name, at in zip(SLIDERS, place, strict=True))

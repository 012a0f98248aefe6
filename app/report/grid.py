"""The states a report can show: stops of the four primary sliders, and the snapshot at each of their combinations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from app.quantities import format_exact
from app.state import AXES, Choices, Snapshot
from physics.memory import memory_parts, stage_memory_of
from physics.regimes import COLUMNS
from physics.sweep import sweep_arrays
from physics.turn import mean_context_tokens, turn_of

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


@dataclass(frozen=True)
class GridSnapshot(Snapshot):
    """A state of a grid; those along the crossover's axis share its curves and crossings, worked out once."""

    shared: dict[str, Any] = field(default_factory=dict)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """The chosen quantity along the chosen axis, [sample, regime]; no other column is kept, there are many states."""
        axes: dict[str, Any] = {self.choices.axis: self.axis_values}
        return dict(self._once("curves", lambda: sweep_arrays(self.scenario, columns=(self.choices.quantity,), **axes)))

    @cached_property
    def crossings(self) -> list[dict[str, Any]]:
        """As for any snapshot."""
        return list(self._once("crossings", lambda: _CROSSINGS.func(self)))


def _moved(frozen: Any, values: Mapping[str, Any]) -> Any:
    """A frozen dataclass with some fields changed; every stop passed the checks of a sweep, so they are not repeated per state."""
    moved = object.__new__(type(frozen))
    vars(moved).update({field.name: getattr(frozen, field.name) for field in fields(frozen)}, **values)
    return moved


_CROSSINGS: Any = vars(Snapshot)["crossings"]


class Grid:
    """All states of one report: the snapshot it was asked for, moved along four sliders; what is pinned stays pinned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.opening = replace(snapshot, trail=())
        self.choices, self.scenario = snapshot.choices, snapshot.scenario
        self.sliders = tuple(self._slider(name) for name in SLIDERS)
        self.shape = tuple(len(slider.stops) for slider in self.sliders)
        self.present: Place = tuple(slider.present for slider in self.sliders)
        self._kept = {field.name: getattr(self.opening, field.name) for field in fields(Snapshot)}
        self._own_kv = float(self.scenario.model.kv_bytes_per_token(self.scenario.kv_dtype))
        self._follows = self.choices.kv_bytes_per_token is None or not self._own_kv
        self._curves: dict[Place, dict[str, Any]] = {}

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

    # ------------------------------------------------------------------------------------------------------------- states
    @cached_property
    def results(self) -> dict[str, np.ndarray]:
        """Every column of `regimes` at every state, [four sliders, regime]: the one evaluation all tables come from."""
        axes: dict[str, Any] = {slider.name: slider.stops for slider in self.sliders if len(slider.stops) > 1}
        arrays = sweep_arrays(self.scenario, columns="all", **axes)
        return {name: arrays[name].reshape(*self.shape, -1) for name in (*COLUMNS, "bound_index", "fits")}

    @cached_property
    def memory(self) -> dict[str, np.ndarray]:
        """Parts of a stage's memory at every state."""
        moving = [slider for slider in self.sliders if len(slider.stops) > 1]
        stops = np.meshgrid(*(slider.stops for slider in moving), indexing="ij", sparse=True)
        parts = memory_parts(self.scenario, **{slider.name: values for slider, values in zip(moving, stops, strict=True)})
        lengths = [len(slider.stops) for slider in moving]
        return {name: np.broadcast_to(values, lengths).reshape(self.shape) for name, values in parts.items()}

    @cached_property
    def later(self) -> dict[str, np.ndarray]:
        """Seconds and joules at the mean context of a turn's decode, for its energy."""
        stops: dict[str, Any] = {slider.name: slider.stops for slider in self.sliders if len(slider.stops) > 1}
        ahead = mean_context_tokens(self.scenario) - self.scenario.context_tokens
        if "context_tokens" in stops:
            stops["context_tokens"] = tuple(stop + ahead for stop in stops["context_tokens"])
        arrays = sweep_arrays(self.scenario, columns=("roofline_s", "energy_j"), **stops)
        return {name: arrays[name].reshape(*self.shape, -1) for name in ("roofline_s", "energy_j")}

    def fits(self, place: Place) -> bool:
        """Whether the memory holds the state."""
        return bool(self.results["fits"][place][0])

    def places(self, over: Sequence[str]) -> Iterator[Place]:
        """Every state that differs in the sliders `over`; the others stand where the report opens."""
        moving = [name in over for name in SLIDERS]
        return product(*(range(n) if moves else (at,) for n, at, moves in zip(self.shape, self.present, moving, strict=True)))

    def at(self, place: Place) -> Choices:
        """Choices of a state."""
        values: dict[str, Any] = {slider.name: slider.stops[i] for slider, i in zip(self.sliders, place, strict=True)}
        kv, own = values["kv_bytes_per_token"], self._own_kv
        values = {name: int(value) for name, value in values.items() if name != "kv_bytes_per_token"}
        moved: Choices = _moved(self.choices, values | {"kv_bytes_per_token": None if kv == own and self._follows else kv})
        return moved

    def snapshot(self, place: Place) -> Snapshot:
        """The snapshot of a state, its results taken from the one evaluation."""
        choices = self.at(place)
        along = tuple(-1 if name == self.choices.axis else at for name, at in zip(SLIDERS, place, strict=True))
        own = {
            "choices": choices,
            "scenario": _moved(self.scenario, {name: getattr(choices, name) for name in SLIDERS}),
            "shared": self._curves.setdefault(along, {}),
        }
        s = GridSnapshot(**self._kept | own)
        vars(s)["results"] = {name: values[place] for name, values in self.results.items()}
        vars(s)["memory"] = stage_memory_of(s.scenario, {name: float(values[place]) for name, values in self.memory.items()})
        vars(s)["turn"] = turn_of(s.scenario, s.results, {name: values[place] for name, values in self.later.items()})
        return s

"""What the user chose, the scenario it makes, and everything the pages show of it. No GUI library is imported here.

Choices (plain values, also the URL) → Scenario (validated) → Snapshot (numbers, computed when a visible page asks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np

import physics
from app.axes import AXES as AXES
from app.axes import QUANTITIES as QUANTITIES
from app.axes import axis_values
from app.axes import depth_values as depth_values
from app.chosen_parts import check_plain, chosen_machine, chosen_model, positive_bytes, short
from app.chosen_routing import checked_slots, chosen_routing
from app.energy import SRAM_CHOICES, EnergyView, sram_experts
from app.sessions import SessionChoices, SessionsView, synthetic
from physics.calibrated import ALL, check_measured
from physics.catalog import presets
from physics.crossings import crossing_rows
from physics.expert_memory import DEFAULT_CHIP
from physics.regimes import REGIMES, regime_arrays
from physics.sweep import sweep_arrays

OPENING = "deepseek-v3-h200"
PAGES = ("regimes", "experts", "pipeline", "energy", "sessions", "validation")


@dataclass(frozen=True)
class Choices(SessionChoices):
    """Every choice of a user as plain values; None means the default. The names are those of `physics.Scenario`."""

    preset: str = OPENING
    model: str = "DeepSeek-V3"
    machine: str = "H200"
    model_file: str = ""
    machine_file: str = ""
    context_tokens: int = 131_072
    batch: int = 64
    kv_bytes_per_token: float | None = None
    pipeline_depth: int = 1
    new_tokens: int = 1000
    prompt_tokens: int | None = None
    output_tokens: int = 1000
    gpus_per_stage: int = 16
    weight_dtype: str | None = None
    kv_dtype: str = "bf16"
    compute_dtype: str | None = None
    attention_parallel: str = "data"
    overlap: bool = True
    double_buffered: bool = False
    routing: str = "uniform"
    routing_sigma: float = 0.75
    routing_zipf: float = 1.0
    request_overlap: str = "none"
    request_overlap_frac: float = 0.4
    routing_file: str = ""
    routing_file_model: str = ""
    redundant_slots: int | None = None
    energy_accounting: str = "interface"
    memory_margin_frac: float = 0.0
    memory_bytes: float | None = None
    own_machine: str = ""
    own_machine_name: str = ""
    idle_w: float | None = None
    bank_bytes: float = 1_048_576.0
    wire_mm: float | None = None
    wire_pj_per_bit_mm: float | None = None
    reread_frac: float = 0.0
    sram_chip: str = DEFAULT_CHIP
    sram_chip_bytes: float | None = None
    leakage_w_per_gb: float = 0.0
    estimate: bool = False
    measured_regime: str = ALL
    measured_machine: str = ALL
    measured_model: str = ALL
    sram_accounting: str | None = None
    axis: str = "context_tokens"
    quantity: str = "bytes"
    page: str = "regimes"

    @classmethod
    @cache
    def of_preset(cls, key: str) -> Choices:
        """The choices of a preset; KeyError naming the presets for an unknown one."""
        known = presets()
        if key not in known:
            raise KeyError(f"preset {str(key)[:40]!r} is not one of {', '.join(known)}")
        values = {name: value for name, value in known[key].items() if name in cls.__dataclass_fields__}
        return cls(preset=key, **values)

    def scenario(
        self,
        models: Mapping[str, physics.Model] | None = None,
        loaded: physics.ObservedRouting | None = None,
        machines: Mapping[str, physics.Machine] | None = None,
    ) -> physics.Scenario:
        """The scenario of these choices.

        models, machines: those of this session beside those of `data/`, by name. loaded: the user's routing of this session.
        Raises ValueError or KeyError with one sentence that says what to change.
        """
        machine = chosen_machine(self.machine, machines, self.own_machine, self.own_machine_name)
        if self.memory_bytes is not None:
            machine = machine.replace(memory_bytes=positive_bytes("memory_bytes", self.memory_bytes))
        if self.idle_w is not None:
            machine = machine.replace(idle_w=self.idle_w)
        sram = self.sram_experts()
        if self.wire_pj_per_bit_mm is not None:
            machine = physics.with_wire_energy(machine, sram.wire_energy)
        model = chosen_model(self.model, models)
        names = {field.name for field in fields(physics.Scenario)}
        values = {name: value for name, value in vars(self).items() if name in names and name not in ("model", "machine")}
        checked_slots(self.redundant_slots)
        values["routing"] = self.chosen_routing(loaded)
        values["efficiencies"] = physics.load_efficiencies(machine) if self.estimate else None
        for column in ("regime", "machine", "model"):
            check_measured(column, getattr(self, f"measured_{column}"))
        return physics.Scenario(model=model, machine=machine, **values)

    def chosen_routing(self, loaded: physics.ObservedRouting | None = None) -> physics.Routing:
        """The routing of these choices; ValueError with one sentence that says what to change."""
        return chosen_routing(
            self.routing, self.routing_sigma, self.routing_zipf, self.request_overlap, self.request_overlap_frac, loaded, self.routing_file
        )

    def sram_experts(self) -> physics.SramExperts:
        """How SRAM that holds experts is built; ValueError with one sentence that says what to change."""
        return sram_experts(**{name: getattr(self, name) for name in SRAM_CHOICES})

    def changed_from_preset(self) -> dict[str, Any]:
        """Choices that differ from the preset's own, by name."""
        base = Choices.of_preset(self.preset)
        return {name: value for name, value in vars(self).items() if value != getattr(base, name)}

    def query(self) -> str:
        """The choices as a URL query: the preset, and what differs from it."""
        pairs = {"preset": self.preset} | {
            name: "" if value is None else _plain(value) for name, value in self.changed_from_preset().items()
        }
        return "?" + urlencode(pairs)


def _plain(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


_NUMBERS = {"context_tokens", "batch", "pipeline_depth", "new_tokens", "prompt_tokens", "output_tokens", "gpus_per_stage"}
_NUMBERS |= {"redundant_slots"}
_REALS = {"kv_bytes_per_token", "memory_margin_frac", "memory_bytes", "idle_w", "bank_bytes", "wire_mm", "wire_pj_per_bit_mm"}
_REALS |= {"reread_frac", "sram_chip_bytes", "leakage_w_per_gb", "routing_sigma", "routing_zipf", "request_overlap_frac"}
_REALS |= {"conversations_per_h", "prefix_limit_tokens", "large_limit_tokens", "ttl_s", "summary_tokens", "stall_frac"}
_FLAGS = {"overlap", "double_buffered", "estimate"}
_OPTIONAL = {"kv_bytes_per_token", "prompt_tokens", "weight_dtype", "compute_dtype", "memory_bytes", "summary_tokens", "idle_w"}
_OPTIONAL |= {"wire_mm", "wire_pj_per_bit_mm", "sram_chip_bytes", "sram_accounting", "redundant_slots"}


def _check_kinds(changes: Mapping[str, Any]) -> None:
    """Each change is of a field that there is, and a plain value of its kind."""
    for name, value in changes.items():
        if name not in Choices.__dataclass_fields__:
            raise ValueError(f"{str(name)[:40]!r} is not a choice")
        kinds = (bool,) if name in _FLAGS else (int, float) if name in _NUMBERS | _REALS else (str,)
        check_plain(name, value, kinds, name in _OPTIONAL)
        _check_allowed(name, value)


def _check_allowed(name: str, value: Any) -> None:
    allowed = {"axis": AXES, "quantity": QUANTITIES, "page": PAGES, "preset": presets() if name == "preset" else ()}.get(name)
    if allowed is not None and value not in allowed:
        raise ValueError(f"{name}: {str(value)[:40]!r} is not one of {', '.join(allowed)}")


def _typed(name: str, text: str) -> Any:
    if text == "" and name in _OPTIONAL:
        return None
    if name in _FLAGS:
        if text not in ("True", "False"):
            raise ValueError(f"{name}: {text[:40]!r} is neither True nor False")
        return text == "True"
    if name in _NUMBERS or name in _REALS:
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{name}: {text[:40]!r} is not a number") from None
        return int(number) if name in _NUMBERS and number.is_integer() else number
    _check_allowed(name, text)
    return text


def from_query(
    query: str,
    models: Mapping[str, physics.Model] | None = None,
    loaded: physics.ObservedRouting | None = None,
    machines: Mapping[str, physics.Machine] | None = None,
) -> tuple[Choices, list[str]]:
    """Choices of a URL query, and a notice for each field that could not be used.

    models, loaded, machines: the user's, as `Choices.scenario` takes them.

    A bad field falls back to the preset's value, one by one, so that a URL edited by hand keeps what is sound in it.
    """
    notices: list[str] = []
    pairs = dict(parse_qsl(query.lstrip("?")[:20_000], keep_blank_values=True))
    choices = Choices.of_preset(OPENING)
    if "preset" in pairs:
        try:
            choices = Choices.of_preset(pairs.pop("preset"))
        except KeyError as problem:
            notices.append(f"{problem.args[0]}; the opening one is shown")
    for name, text in pairs.items():
        try:
            changed = _with(choices, name, text)
            changed.scenario(models, loaded, machines)
            choices = changed
        except (ValueError, KeyError) as problem:
            notices.append(f"The link's {short(str(problem.args[0]))}; {_shown_value(choices, name)} is used instead.")
    return choices, notices


def _with(choices: Choices, name: str, text: str) -> Choices:
    if name not in Choices.__dataclass_fields__:
        raise KeyError(f"{name[:40]!r} is not a field of a scenario")
    return replace(choices, **{name: _typed(name, text)})


def _shown_value(choices: Choices, name: str) -> str:
    value = getattr(choices, name, None)
    return "nothing" if name not in Choices.__dataclass_fields__ else ("the default" if value is None else str(value)[:60])


@dataclass(frozen=True)
class Snapshot:
    """One scenario and the numbers the pages show of it, each computed at first use.

    trail: results of earlier stops of the same slider, oldest first; pinned: a scenario kept to compare with.
    observed: a routing the user loaded, whether the scenario uses it or not. trace: the user's requests.
    """

    choices: Choices
    scenario: physics.Scenario
    trail: tuple[dict[str, np.ndarray], ...] = ()
    pinned: Snapshot | None = None
    observed: physics.ObservedRouting | None = None
    trace: physics.Trace | None = None

    @property
    def title(self) -> str:
        """What is looked at: "DeepSeek-V3 on 16 × H200"."""
        s = self.scenario
        return f"{s.model.name} on {f'{s.gpus_per_stage} × ' if s.gpus_per_stage > 1 else ''}{s.machine.name}"

    @cached_property
    def results(self) -> dict[str, np.ndarray]:
        """Columns of `regimes`, one value per regime."""
        return regime_arrays(self.scenario)

    @cached_property
    def short_prefill(self) -> dict[str, np.ndarray]:
        """The same if a prefill read only as many tokens as a midfill appends."""
        return regime_arrays(self.scenario.replace(prompt_tokens=self.scenario.new_tokens))

    @cached_property
    def memory(self) -> physics.StageMemory:
        """What one stage holds."""
        return physics.stage_memory(self.scenario)

    @cached_property
    def turn(self) -> physics.Turn:
        """TTFT, TPOT, throughput, joules and rent."""
        return physics.turn(self.scenario)

    @cached_property
    def energy(self) -> EnergyView:
        """What the Energy page shows."""
        return EnergyView(self.scenario, self.choices.sram_experts())

    @cached_property
    def sessions(self) -> SessionsView:
        """What the Sessions page shows, of the user's trace or of a synthetic one."""
        return SessionsView(self.scenario, self.choices, synthetic() if self.trace is None else self.trace)

    @cached_property
    def axis_values(self) -> np.ndarray:
        """Samples of the chosen crossover axis."""
        return axis_values(self.choices.axis, self.scenario)

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """Results along the chosen axis, [sample, regime]."""
        axes: dict[str, Any] = {self.choices.axis: self.axis_values}
        return sweep_arrays(self.scenario, columns="all", **axes)

    @cached_property
    def crossings(self) -> list[dict[str, Any]]:
        """Crossings of the regimes along the chosen axis, ordered by where they are."""
        values = self.curves[self.choices.quantity]
        lines = {name: (self.axis_values, values[:, i]) for i, name in enumerate(REGIMES)}
        return sorted(crossing_rows(lines, self.choices.quantity, self.choices.axis), key=lambda row: row["x"])

    @cached_property
    def depths(self) -> dict[str, np.ndarray]:
        """Results along the pipeline depth, [depth, regime], and the depths themselves."""
        return sweep_arrays(self.scenario, columns="all", pipeline_depth=depth_values(self.scenario))


class Explorer:
    """One session's choices; every sound change makes a new snapshot, an unsound one leaves the last and says why."""

    TRAIL = 24

    def __init__(self, choices: Choices | None = None) -> None:
        self.models: dict[str, physics.Model] = {}
        self.machines: dict[str, physics.Machine] = {}
        self.observed: physics.ObservedRouting | None = None
        self.loaded: physics.ObservedRouting | None = None
        self.loaded_choices: dict[str, Any] = {}
        self.trace: physics.Trace | None = None
        self.choices = choices or Choices.of_preset(OPENING)
        self.snapshot = Snapshot(self.choices, self.choices.scenario())
        self.problem = ""
        self._moving = ""
        self._watchers: list[Callable[[Snapshot], None]] = []
        self.forgetters: list[Callable[[], None]] = []  # what takes back its messages when everything is to be as freshly opened

    def watch(self, callback: Callable[[Snapshot], None]) -> None:
        """Call back with every new snapshot."""
        self._watchers.append(callback)

    def change(self, **changes: Any) -> bool:
        """Apply choices; False, with `problem` set to one sentence, where they do not make a sound scenario."""
        try:
            _check_kinds(changes)
            choices = replace(self.choices, **changes)
            scenario = choices.scenario(self.models, self.loaded, self.machines)
        except (ValueError, KeyError) as problem:
            self.problem = short(str(problem.args[0] if problem.args else problem))
            return False
        self.problem = ""
        snapshot = Snapshot(choices, scenario, self._trail(changes), self.snapshot.pinned, self.observed, self.trace)
        self._show(snapshot)
        return True

    def forget(self) -> None:
        """Let the session's files and the pin go, and all that was said about them; `load` follows."""
        self.models.clear()
        self.machines.clear()
        self.observed = self.loaded = self.trace = None
        self.loaded_choices = {}
        self.snapshot = replace(self.snapshot, pinned=None)
        for callback in self.forgetters:
            callback()

    def load(self, choices: Choices) -> None:
        """Start anew from other choices, keeping what is pinned."""
        self.problem, self._moving = "", ""
        scenario = choices.scenario(self.models, self.loaded, self.machines)
        if self.trace is not None:
            choices = replace(choices, trace_file=self.trace.name)
        self._show(Snapshot(choices, scenario, (), self.snapshot.pinned, self.observed, self.trace))

    def load_trace(self, trace: physics.Trace | None) -> None:
        """Use the user's requests on the Sessions page, or the synthetic ones again."""
        self.trace = trace
        self._show(replace(self.snapshot, choices=replace(self.choices, trace_file="" if trace is None else trace.name), trace=trace))

    def observe(self, observed: physics.ObservedRouting) -> None:
        """Show a routing that the user loaded, beside the scenario."""
        self.observed = observed
        self._show(replace(self.snapshot, observed=observed))

    def apply_observed(self, file: str, model: str = "") -> bool:
        """Let the scenario use the routing that is shown; False, with `problem` set, where its model cannot.

        file: its name. model: whose rows were taken, where it holds several.
        """
        before, self.loaded = self.loaded, self.observed
        within = "measured" if self.observed is not None and self.observed.law is not None else "none"
        chosen = {"routing": "loaded", "routing_file": file, "routing_file_model": model}
        if not self.change(**chosen, request_overlap=within):
            self.loaded = before
            return False
        self.loaded_choices = chosen
        return True

    def _trail(self, changes: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], ...]:
        """A trail grows while one slider moves and starts anew with another."""
        moving = next(iter(changes)) if len(changes) == 1 and next(iter(changes)) in AXES else ""
        if not moving:
            self._moving = ""
            return self.snapshot.trail if set(changes) <= {"axis", "quantity", "page"} else ()
        kept = self.snapshot.trail if moving == self._moving else ()
        self._moving = moving
        stop = self.snapshot.results | {"gpus": np.array(self.snapshot.scenario.gpus_per_stage)}
        return (*kept, stop)[-self.TRAIL :]

    def pin(self, on: bool) -> None:
        """Keep the present snapshot to compare with, or let it go."""
        pinned = replace(self.snapshot, pinned=None, trail=()) if on else None
        self._show(replace(self.snapshot, pinned=pinned))

    def _show(self, snapshot: Snapshot) -> None:
        self.choices, self.snapshot = snapshot.choices, snapshot
        for callback in self._watchers:
            callback(snapshot)

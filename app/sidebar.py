"""The sidebar: model and machine, the four primary sliders and new tokens, then folded groups. Widgets ⇄ Explorer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.components import Notice
from app.inputs import Inputs
from app.quantities import format_quantity
from app.quiet import tell
from app.routing_group import RoutingGroup
from app.shell import group, helped
from app.state import AXES, Choices, Explorer, Snapshot
from app.widgets import Slider, binary_stops, count_stops, decimal_stops
from physics.catalog import glossary, machines, models
from physics.formats import KV_DTYPES, WEIGHT_BYTES
from physics.machine import ACCOUNTINGS
from physics.si import GB

PUBLISHED = "as published"
KV_MARKS = [(25e3, "25 kB"), (70e3, "70 kB"), (400e3, "400 kB")]
"""Marks of the KV slider: new hybrids, conservative compressed attention, full attention."""
MACHINE_FORMATS = ("fp4", "fp8", "bf16", "fp16")

_FRESH: dict[str, dict[str, Any]] = {"machine": {"own_machine": "", "own_machine_name": ""}, "model": {"weight_dtype": None}}
"""Another machine brings its own numbers, another model its own weight formats."""

Released = Callable[[], None]


def slider_stops(name: str) -> list[float]:
    """Where the slider of a primary quantity stops."""
    low, high, _ = AXES[name]
    if name == "context_tokens":
        return [1000.0, *binary_stops(1024, 2**23), high]
    if name in ("kv_bytes_per_token", "new_tokens"):
        stops = decimal_stops(low, high, extra=(70_272.0,) if name == "kv_bytes_per_token" else ())
        return sorted({round(stop) * 1.0 for stop in stops})
    return count_stops(low, high)


class Sidebar:
    """All controls of one session; `objects` go into the shell's sidebar."""

    def __init__(self, explorer: Explorer, released: Released) -> None:
        self.explorer, self._released = explorer, released
        self._quiet = False
        self._words = glossary()
        primary = ("context_tokens", "batch", "kv_bytes_per_token", "pipeline_depth", "new_tokens")
        self.sliders = {name: self._slider(name) for name in (*primary, "gpus_per_stage", "output_tokens")}
        self.model = self._select("model", list(models()), searchable=True)
        self.machine = self._select("machine", list(machines()), searchable=True)
        self.selects = {
            "weight_dtype": self._select("weight_dtype", {PUBLISHED: None} | {name: name for name in WEIGHT_BYTES}),
            "kv_dtype": self._select("kv_dtype", list(KV_DTYPES)),
            "compute_dtype": self._select("compute_dtype", {"as the weights ask": None} | {name: name for name in MACHINE_FORMATS}),
            "attention_parallel": self._select("attention_parallel", ["data", "tensor"]),
            "energy_accounting": self._select("energy_accounting", list(ACCOUNTINGS)),
        }
        self.flags = {name: self._flag(name) for name in ("overlap", "double_buffered", "estimate")}
        self.capacity = self._capacity()
        self.routing = RoutingGroup(explorer, released)
        self.model_facts, self.machine_facts = Notice(tone="quiet"), Notice(tone="quiet")
        self.inputs = Inputs(explorer, released)
        self.objects = self._arranged(primary)
        self.show(explorer.snapshot)
        explorer.watch(self.show)
        explorer.forgetters.append(self._forget)

    # ------------------------------------------------------------------------------------------------------------- widgets
    def _slider(self, name: str) -> Slider:
        unit = AXES[name][2] if name in AXES else "tokens"
        stops = slider_stops(name) if name in AXES else count_stops(1, 65_536)
        words = self._words[name]
        slider = Slider(label=words["label"], unit=unit, description=words["definition"], stops=stops, value=stops[0])
        if name == "kv_bytes_per_token":
            slider.param.update(marks=KV_MARKS, default_note="from the model")
        slider.param.watch(lambda event: self._moved(name, event.new), "value")
        slider.param.watch(lambda _: self._let_go(), "value_throttled")
        return slider

    def _select(self, name: str, options: Any, searchable: bool = False) -> Any:
        words = self._words[name]
        select = pmui.Select(
            label=words["label"], options=options, searchable=searchable, size="small", sizing_mode="stretch_width", margin=(6, 0)
        )  # fmt: skip
        select.param.watch(lambda event: self._chosen(name, event.new), "value")
        return select

    def _flag(self, name: str) -> Any:
        words = self._words[name]
        flag = pmui.Checkbox(label=words["label"], margin=(2, 0), sizing_mode="stretch_width")
        flag.param.watch(lambda event: self._chosen(name, event.new), "value")
        return flag

    def _capacity(self) -> Slider:
        words = self._words["memory_bytes"]
        stops = decimal_stops(1 * GB, 10_000 * GB)
        slider = Slider(label=f"{words['label']} per GPU", unit="B", description=words["definition"], stops=stops, value=stops[0])
        slider.default_note = "from the machine"
        slider.param.watch(lambda event: self._moved("memory_bytes", event.new), "value")
        slider.param.watch(lambda _: self._let_go(), "value_throttled")
        return slider

    def _arranged(self, primary: tuple[str, ...]) -> list[Any]:
        sliders, controls = self.sliders, {"model": self.model, "machine": self.machine} | self.selects | self.flags
        shown = {name: helped(control, self._words[name]["definition"]) for name, control in controls.items()}
        layout = [sliders["gpus_per_stage"], shown["attention_parallel"], self.capacity, shown["double_buffered"]]
        rest = [shown["estimate"], shown["overlap"], shown["energy_accounting"], sliders["output_tokens"]]
        return [
            shown["model"], self.model_facts, self.inputs.drop, self.inputs.said, shown["machine"], self.machine_facts,
            *(sliders[name] for name in primary),
            group("Stage and machine", *layout, open=True),
            self.inputs.machine,
            self.routing.fold,
            group("Number formats", shown["weight_dtype"], shown["kv_dtype"], shown["compute_dtype"]),
            group("Estimate, overlap, energy", *rest),
        ]  # fmt: skip

    # -------------------------------------------------------------------------------------------------------------- events
    def _moved(self, name: str, value: float) -> None:
        if self._quiet:
            return
        slider = self.capacity if name == "memory_bytes" else self.sliders[name]
        follows = name in ("kv_bytes_per_token", "memory_bytes")
        wanted: float | int | None = value if follows else int(value)
        if follows and value == slider.default:
            wanted = None
        self.explorer.change(**{name: wanted})

    def _forget(self) -> None:
        """As freshly opened: the lists hold what `data/` holds, and nothing is said about refused text."""
        for slider in (*self.sliders.values(), self.capacity):
            slider.forget()
        self._quiet = True
        self.model.param.update(options=list(models()), value=next(iter(models())))
        self.machine.param.update(options=list(machines()), value=next(iter(machines())))
        self._quiet = False

    def _let_go(self) -> None:
        if not self._quiet:
            self.show(self.explorer.snapshot)
            self._released()

    def _chosen(self, name: str, value: Any) -> None:
        if self._quiet or value == getattr(self.explorer.choices, name):
            return
        fresh = _FRESH[name] | {f"{name}_file": self.inputs.files.get(value, "")} if name in _FRESH else {}
        self.explorer.change(**({name: value} | fresh))
        self.show(self.explorer.snapshot)
        self._released()

    # --------------------------------------------------------------------------------------------------------------- state
    def show(self, s: Snapshot) -> None:
        """Bring every widget to the snapshot, without sending anything back."""
        self._quiet = True
        try:
            self._show_choices(s)
            self._show_facts(s)
        finally:
            self._quiet = False

    def _show_choices(self, s: Snapshot) -> None:
        scenario, choices = s.scenario, s.choices
        for name, slider in self.sliders.items():
            value = scenario.kv_token_bytes if name == "kv_bytes_per_token" else getattr(scenario, name)
            if slider.value != value:
                slider.param.update(value=float(value), value_throttled=float(value), error="")
        _offer(self.model, [*self.explorer.models, choices.model])
        _offer(self.machine, [*self.explorer.machines, choices.machine])
        for name, select in {"model": self.model, "machine": self.machine, **self.selects, **self.flags}.items():
            if select.value != getattr(choices, name):
                select.value = getattr(choices, name)
        self.routing.show(s)
        self._show_defaults(s)

    def _show_defaults(self, s: Snapshot) -> None:
        """What follows the model and the machine: the KV default, the deepest pipe, the context mark, the capacity."""
        base, model, kv = Choices.of_preset(s.choices.preset), s.scenario.model, self.sliders["kv_bytes_per_token"]
        for name, slider in self.sliders.items():
            if name != "kv_bytes_per_token":
                tell(slider, default=float(getattr(base, name)))
        from_model = float(model.kv_bytes_per_token(s.scenario.kv_dtype))
        tell(kv, default=from_model, disabled=not from_model)
        depth = self.sliders["pipeline_depth"]
        stops = count_stops(1, min(64, model.n_layers))
        if depth.stops != stops:
            depth.stops = stops
        published = float(model.max_context) or None
        note = f"{model.name} was published for {format_quantity(published, 'tokens')}." if published else ""
        label = f"Hatched: beyond the {format_quantity(published, 'tokens')} it was published for." if published else ""
        tell(self.sliders["context_tokens"], limit=published, limit_note=note, limit_label=label)
        capacity = s.scenario.machine.memory_bytes
        if s.choices.memory_bytes is None:
            tell(self.capacity, default=capacity)
        if self.capacity.value != capacity:
            self.capacity.param.update(value=capacity, value_throttled=capacity)

    def _show_facts(self, s: Snapshot) -> None:
        model, machine = s.scenario.model, s.scenario.machine
        kv = format_quantity(model.kv_bytes_per_token(s.scenario.kv_dtype), "B/token")
        active = format_quantity(model.n_active_params, "parameters").replace(" parameters", "")
        total = format_quantity(model.n_params, "parameters").replace(" parameters", "")
        tell(self.model_facts, text=f"{total} total, {active} active, {kv}")
        known = [name for name in ("bf16", "fp8", "fp4") if name in machine.peaks]
        ridges = [f"{machine.peaks[name] / machine.memory_bytes_per_s:.0f} {name.upper()}" for name in known]
        size, rate = format_quantity(machine.memory_bytes, "B"), format_quantity(machine.memory_bytes_per_s, "B/s")
        note = " · own numbers" if s.choices.own_machine else " · announced" if machine.announced else ""
        tell(self.machine_facts, text=f"{size}, {rate}, ridge {' · '.join(ridges) or '–'}{note}")


def _offer(select: Any, names: list[str]) -> None:
    """Names of this session, and any other way to write a known one, among the options."""
    missing = [name for name in dict.fromkeys(names) if name not in select.options]
    if missing:
        select.options = [*missing, *select.options]

"""The sidebar's group of routing: how experts are chosen, and how tokens of one request overlap. Widgets ⇄ Explorer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.chosen_routing import OVERLAPS, ROUTINGS
from app.quiet import tell
from app.shell import group, helped
from app.state import Choices, Explorer, Snapshot
from app.widgets import Slider, linear_stops
from physics.catalog import glossary

SIGMA_MARKS = [(0.5, "mixed"), (0.75, "Qwen3"), (1.1, "R1"), (1.3, "gpt-oss")]
"""Presets of section 4: 0.4 to 0.7 mixed traffic, 0.75 Qwen3-30B-A3B, 1.1 DeepSeek-R1 on one narrow workload, 1.3 gpt-oss-120b."""

SHOWN_FOR = {
    "routing_sigma": ("routing", ("uniform", "round_robin", "skewed")),
    "routing_zipf": ("routing", ("zipf",)),
    "request_overlap_frac": ("request_overlap", ("constant",)),
}
"""Which choice makes a slider matter; σ matters always on the page Experts, which compares even routing with it."""


class RoutingGroup:
    """Controls of one session; `fold` goes into the sidebar, `show` follows every snapshot."""

    def __init__(self, explorer: Explorer, released: Callable[[], None]) -> None:
        self.explorer, self._released, self._quiet = explorer, released, False
        self._words = glossary()
        self.routing = self._select("routing", ROUTINGS)
        self.overlap = self._select("request_overlap", OVERLAPS)
        self.sliders = {
            "routing_sigma": self._slider("routing_sigma", linear_stops(0.0, 1.8, 0.05), marks=SIGMA_MARKS),
            "routing_zipf": self._slider("routing_zipf", linear_stops(0.0, 2.0, 0.05)),
            "request_overlap_frac": self._slider("request_overlap_frac", linear_stops(0.0, 1.0, 0.01), unit="%"),
        }
        sliders = self.sliders
        routing, overlap = (
            helped(select, self._words[name]["definition"])
            for name, select in (("routing", self.routing), ("request_overlap", self.overlap))
        )
        content = (routing, sliders["routing_sigma"], sliders["routing_zipf"], overlap, sliders["request_overlap_frac"])
        self.fold = group("Routing within and between requests", *content)
        self.show(explorer.snapshot)
        explorer.forgetters.extend(slider.forget for slider in self.sliders.values())

    def _select(self, name: str, named: dict[str, str]) -> Any:
        words = self._words[name]
        select = pmui.Select(
            label=words["label"], options={text: key for key, text in named.items()}, size="small", sizing_mode="stretch_width",
            margin=(6, 0),
        )  # fmt: skip
        select.param.watch(lambda event: self._chosen(name, event.new), "value")
        return select

    def _slider(self, name: str, stops: list[float], unit: str = "", **more: Any) -> Slider:
        words, value = self._words[name], getattr(Choices(), name)
        slider = Slider(label=words["label"], unit=unit, description=words["definition"], stops=stops, value=value, scale="linear", **more)
        slider.param.watch(lambda event: self._moved(name, event.new), "value")
        slider.param.watch(lambda _: self._let_go(), "value_throttled")
        return slider

    # -------------------------------------------------------------------------------------------------------------- events
    def _moved(self, name: str, value: float) -> None:
        if not self._quiet and value != getattr(self.explorer.choices, name):
            self.explorer.change(**{name: float(value)})

    def _let_go(self) -> None:
        if not self._quiet:
            self._released()

    def _chosen(self, name: str, value: Any) -> None:
        if self._quiet or value == getattr(self.explorer.choices, name):
            return
        file = self.explorer.loaded_choices if value == "loaded" else {}
        self.explorer.change(**({name: value} | file))
        self.show(self.explorer.snapshot)
        self._released()

    # --------------------------------------------------------------------------------------------------------------- state
    def show(self, s: Snapshot) -> None:
        """Bring every widget to the snapshot, without sending anything back."""
        self._quiet = True
        try:
            self._show_choices(s.choices)
        finally:
            self._quiet = False

    def _show_choices(self, choices: Choices) -> None:
        has_file = self.explorer.loaded is not None
        options = {text: key for key, text in ROUTINGS.items() if key != "loaded" or has_file}
        if self.routing.options != options:
            self.routing.options = options
        for select, name in ((self.routing, "routing"), (self.overlap, "request_overlap")):
            if select.value != getattr(choices, name):
                select.value = getattr(choices, name)
        base = Choices.of_preset(choices.preset)
        for name, slider in self.sliders.items():
            on, values = SHOWN_FOR[name]
            wanted = {"value": getattr(choices, name), "default": getattr(base, name), "disabled": getattr(choices, on) not in values}
            wanted |= {"value_throttled": wanted["value"]} if slider.value != wanted["value"] else {}
            tell(slider, **wanted)

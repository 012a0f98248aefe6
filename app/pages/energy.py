"""Page Energy: when does SRAM beat HBM, and by how much?"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import panel as pn
import panel_material_ui as pmui

from app import recipe
from app import sentences_energy as sentences
from app.cells import Column, Row, column
from app.energy import BANKS, DISTANCES, measured_rows
from app.live import LiveView
from app.live_table import LiveTable
from app.pages import Context
from app.plots import energy, energy_map
from app.quantities import DASH, format_quantity
from app.quiet import tell
from app.shell import Card, cards, helped, offer_code, table_card
from app.state import AXES, Snapshot
from app.widgets import Slider, decimal_stops, linear_stops
from physics.catalog import glossary
from physics.expert_memory import default_wire_j_per_byte_mm, sram_chips
from physics.machine import ACCOUNTINGS
from physics.si import KIB, PJ_PER_BIT

SAME = "same as the rest"
_GRID = {"display": "grid", "grid-template-columns": "repeat(auto-fill, minmax(240px, 1fr))", "gap": "2px 18px"}
SLIDERS: dict[str, tuple[str, list[float], str]] = {
    "bank_bytes": ("KB", [float(2**n) for n in range(3, 11)], "log"),
    "wire_mm": ("mm", [0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0], "linear"),
    "wire_pj_per_bit_mm": ("pJ/bit/mm", [0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.24], "log"),
    "reread_frac": ("%", linear_stops(0.0, 1.0, 0.05), "linear"),
    "sram_chip_bytes": ("B", decimal_stops(1e8, 1e11, (1, 1.5, 2, 2.3, 3, 4, 5, 7)), "log"),
    "leakage_w_per_gb": ("W/GB", [0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0], "linear"),
    "idle_w": ("W", [0.0, 25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0, 600.0], "linear"),
}
"""Unit, stops and scale of each slider of the page."""
_UNIT_OF_SLIDER = {"bank_bytes": KIB}
CHIP_COLUMNS = (
    "sram_chip",
    "sram_chip_bytes",
    "chips",
    "expert_s",
    "messages_per_s",
    "switch_bytes_per_s",
    "network_s",
    "network_frac_of_j",
)


def chip_columns() -> list[Column]:
    """Columns of the table of chips, named by the glossary."""
    words = glossary()
    return [
        column(name, words[name]["label"], hint=words[name]["definition"], align="left" if name == "sram_chip" else "")
        for name in CHIP_COLUMNS
    ]


def chip_rows(s: Snapshot) -> list[Row]:
    """One row per SRAM machine of the catalog; what no source states is a dash."""
    rows = []
    for chip, found in s.energy.chips:
        size = format_quantity(chip.sram_bytes, "B") + (" (press)" if chip.doubtful else "")
        units = {"expert_s": "s", "messages_per_s": "messages/s", "switch_bytes_per_s": "B/s", "network_s": "s"}
        share = 100.0 * found["sram_network_j"] / found["sram_total_j"]
        cells = [chip.name, size, f"{found['chips']:,.0f}", *(_short(found[name], unit) for name, unit in units.items())]
        rows.append(
            Row(
                key=chip.name,
                cells=[*cells, f"{share:.1f} %" if math.isfinite(share) else DASH],
                color="sram" if chip.name == s.choices.sram_chip else "",
            )
        )
    return rows


def _short(value: float, unit: str) -> str:
    return format_quantity(value, unit).replace("messages", "msg")


MEASURED_COLUMNS: list[Column] = [
    column("what", "What ran", align="left"),
    column("setup", "Model and machine", align="left"),
    column("value", "Published", hint="As its source prints it, or derived from two numbers it prints."),
    column("kind", "Kind", align="left", hint="Power measured while it ran, or a measured speed times a stated power."),
    column("here", "Estimate here", hint="The same setup in this product; a dash where the source does not state enough of it."),
    column("source", "Source", align="left"),
]
KIND_WORDS = {"measured": "measured", "speed_and_power": "speed × power"}


def measured_table(s: Snapshot) -> list[Row]:
    """Published joules and watts, and what this product gives for the same setup."""
    rows = []
    for row, here in measured_rows(s.scenario.energy_accounting):
        published, ours = (_shown(value, row["unit"]) for value in (float(row["value"]), here))
        cells = [
            row["what"],
            f"{row['model']} on {row['gpus']} × {row['machine']}",
            published,
            KIND_WORDS[row["kind"]],
            ours,
            row["source"].split(";")[0].split(":")[0],
        ]
        rows.append(Row(key=row["key"], cells=cells, color=""))
    return rows


def _shown(value: float, unit: str) -> str:
    return DASH if not math.isfinite(value) else format_quantity(value, unit)


class EnergyPage:
    """Cards of the page, built once; the shell shows them when the tab is opened."""

    name: ClassVar[str] = "Energy"
    key: ClassVar[str] = "energy"
    question: ClassVar[str] = "When does SRAM beat HBM, and by how much?"

    def __init__(self, context: Context) -> None:
        self.explorer, self.live, self._show_panel = context.explorer, context.live, context.show_panel
        self._released, self._quiet = context.released, False

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        self.controls = self._controls()
        views = [self.live.add(self.name, LiveView(picture, s)) for picture in (energy.EXPERTS, energy_map.MAP, energy.REGIME_LEVELS)]
        views[0].on_drag("cursor", self._dragged, self._released)
        self.experts = Card(
            "Experts in SRAM or in HBM?", views[0], csv=self._experts_csv, code=self._experts_code, file_stem="expert-energy", span=True,
            controls=self.controls,
        )  # fmt: skip
        self.map = Card("How much cheaper is a byte of SRAM?", views[1], csv=self._map_csv, code=self._map_code, file_stem="sram-advantage")
        self.levels = Card(
            "Where do the joules of a token go?", views[2], csv=self._levels_csv, code=self._levels_code, file_stem="energy-levels"
        )
        chips = self.live.add(self.name, LiveTable(chip_columns(), chip_rows, s))
        self.chips = table_card(
            chips, "How many SRAM chips, and what must their switch carry?", csv=self._chips_csv, file_stem="sram-chips"
        )
        measured = self.live.add(self.name, LiveTable(MEASURED_COLUMNS, measured_table, s))
        self.measured = table_card(measured, "What did others measure?", self._measured_csv, "measured-energy")
        for card in (self.experts, self.map, self.levels):
            offer_code(card, self._show_panel)
        self.live.listen(self.name, self.show)
        self.explorer.forgetters.extend(slider.forget for slider in self.sliders.values())
        self.show(s)
        return cards(self.experts, self.map, self.levels, self.chips, self.measured)

    # ------------------------------------------------------------------------------------------------------- controls
    def _controls(self) -> pn.Column:
        words = glossary()
        self.sliders = {name: self._slider(name, words[name]) for name in SLIDERS}
        self.selects = {
            "energy_accounting": self._select("energy_accounting", {name: name for name in ACCOUNTINGS}),
            "sram_accounting": self._select("sram_accounting", {SAME: ""} | {f"{name} (mixed on purpose)": name for name in ACCOUNTINGS}),
            "sram_chip": self._select("sram_chip", {name: name for name in sram_chips()}),
        }
        built = [slider for name, slider in self.sliders.items() if name != "idle_w"]
        selects = [helped(select, words[name]["definition"]) for name, select in self.selects.items()]
        return pn.Column(*selects, *built, styles=_GRID, sizing_mode="stretch_width", margin=(12, 0, 8, 0))

    def _slider(self, name: str, words: Any) -> Slider:
        unit, stops, scale = SLIDERS[name]
        slider = Slider(label=words["label"], unit=unit, description=words["definition"], stops=stops, value=stops[0], scale=scale)
        slider.param.watch(lambda event: self._moved(name, event.new), "value")
        slider.param.watch(lambda _: self._let_go(), "value_throttled")
        return slider

    def _select(self, name: str, options: dict[str, Any]) -> Any:
        words = glossary()[name]
        select = pmui.Select(label=words["label"], options=options, size="small", sizing_mode="stretch_width", margin=(6, 0))
        select.param.watch(lambda event: self._chosen(name, event.new), "value")
        return select

    def _moved(self, name: str, value: float) -> None:
        if self._quiet:
            return
        slider = self.sliders[name]
        follows = name in ("wire_mm", "wire_pj_per_bit_mm", "sram_chip_bytes", "idle_w")
        wanted = None if follows and value == slider.default else value * _UNIT_OF_SLIDER.get(name, 1.0)
        self.explorer.change(**{name: wanted})

    def _let_go(self) -> None:
        if not self._quiet:
            self._released()

    def _chosen(self, name: str, value: Any) -> None:
        if self._quiet or (value or None) == getattr(self.explorer.choices, name):
            return
        self.explorer.change(**{name: value or None})
        self._released()

    def _dragged(self, value: float) -> None:
        low, high, _ = AXES["batch"]
        self.explorer.change(batch=round(min(max(value, low), high)))

    # ----------------------------------------------------------------------------------------------------------- live
    def show(self, s: Snapshot) -> None:
        """Sentences and widgets of a snapshot."""
        self.experts.say(sentences.experts(s))
        self.map.say(sentences.advantage(s))
        self.levels.say(sentences.levels(s), not s.memory.fits)
        self.chips.say(sentences.chips(s))
        self.measured.say(sentences.measured(s))
        self._quiet = True
        try:
            self._show_controls(s)
        finally:
            self._quiet = False

    def _show_controls(self, s: Snapshot) -> None:
        sram, machine = s.energy.sram, s.scenario.machine
        asked = sram.accounting or s.scenario.energy_accounting
        chip = sram_chips()[sram.chip]
        values = {
            "bank_bytes": sram.bank_bytes / KIB,
            "wire_mm": sram.distance_mm(asked),
            "wire_pj_per_bit_mm": sram.wire_energy / PJ_PER_BIT,
            "reread_frac": sram.reread_frac,
            "sram_chip_bytes": sram.held_by.sram_bytes,
            "leakage_w_per_gb": sram.leakage_w_per_gb,
            "idle_w": machine.idle_w,
        }
        for name, value in values.items():
            if self.sliders[name].value != value:
                self.sliders[name].param.update(value=value, value_throttled=value, error="")
        self._show_defaults(s, asked, chip.sram_bytes)
        for name, select in self.selects.items():
            chosen = getattr(s.choices, name) or ""
            if select.value != chosen:
                select.value = chosen

    def _show_defaults(self, s: Snapshot, asked: str, chip_bytes: float) -> None:
        """What each slider goes back to, and which of them count under this accounting."""
        built = asked != "measured"
        defaults = {"bank_bytes": 1024.0, "reread_frac": 0.0, "leakage_w_per_gb": 0.0, "sram_chip_bytes": chip_bytes}
        defaults |= {"wire_pj_per_bit_mm": default_wire_j_per_byte_mm() / PJ_PER_BIT}
        if s.choices.wire_mm is None:
            defaults["wire_mm"] = s.energy.sram.distance_mm(asked)
        if s.choices.idle_w is None:
            defaults["idle_w"] = s.scenario.machine.idle_w
        for name, default in defaults.items():
            tell(self.sliders[name], default=default)
        notes = {"idle_w": "not stated" if not defaults.get("idle_w", 1.0) else "from the machine", "leakage_w_per_gb": "not stated"}
        notes |= {"sram_chip_bytes": "from the chip"}
        for name, slider in self.sliders.items():
            off = (not built and name in ("bank_bytes", "wire_mm", "wire_pj_per_bit_mm")) or (asked == "device" and name == "wire_mm")
            tell(slider, disabled=off, default_note=notes.get(name, ""))

    # ---------------------------------------------------------------------------------------------------------- files
    def _experts_csv(self) -> str:
        return str(pd.DataFrame(self.explorer.snapshot.energy.curves).assign(fits=self.explorer.snapshot.energy.fits).to_csv(index=False))

    def _map_csv(self) -> str:
        ratios, words = self.explorer.snapshot.energy.advantage
        distances, banks = (values.ravel() for values in np.meshgrid(DISTANCES, BANKS, indexing="ij"))
        frame = pd.DataFrame({"wire_mm": distances, "bank_bytes": banks, "ratio": ratios.ravel()})
        return str(frame.assign(accounting=words).to_csv(index=False))

    def _levels_csv(self) -> str:
        return str(self.explorer.snapshot.energy.levels.to_csv())

    def _chips_csv(self) -> str:
        found = self.explorer.snapshot.energy.chips
        return str(
            pd.DataFrame([{"sram_chip": chip.name, "sram_chip_bytes": chip.sram_bytes} | here for chip, here in found]).to_csv(index=False)
        )

    def _measured_csv(self) -> str:
        rows = measured_rows(self.explorer.snapshot.scenario.energy_accounting)
        return str(pd.DataFrame([dict(row) | {"estimate_here": here} for row, here in rows]).to_csv(index=False))

    def _experts_code(self) -> str:
        return recipe.expert_lines(self.explorer.snapshot)

    def _map_code(self) -> str:
        return recipe.map_lines(self.explorer.snapshot)

    def _levels_code(self) -> str:
        return recipe.level_lines(self.explorer.snapshot)

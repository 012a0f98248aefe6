"""Page Regimes: what binds each regime?"""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
import panel as pn
import panel_material_ui as pmui

import physics
from app import estimates, explain, recipe, sentences
from app.live import LiveView
from app.live_table import LiveTable
from app.pages import Context
from app.plots import crossover, roofline, utilisation
from app.regimes_table import table_columns, table_rows
from app.shell import Card, cards, offer_code, table_card
from app.state import AXES, QUANTITIES, Snapshot
from physics.catalog import glossary
from physics.derive import DERIVED_COLUMNS
from physics.regimes import REGIMES


class RegimesPage:
    """Cards of the page, built once; the shell shows them when the tab is opened."""

    name: ClassVar[str] = "Regimes"
    key: ClassVar[str] = "regimes"
    question: ClassVar[str] = "What binds each regime?"

    def __init__(self, context: Context) -> None:
        self.explorer, self.live, self._show_panel = context.explorer, context.live, context.show_panel
        self._released = context.released

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        views = [self.live.add(self.name, LiveView(picture, s)) for picture in (roofline.PICTURE, utilisation.PICTURE, crossover.PICTURE)]
        views[0].on_tap(self._tapped)
        views[2].on_drag("cursor", self._dragged, self._released)
        self.roofline = self._card("What does the machine allow each regime?", views[0], "roofline", weight=3)
        self.busy = self._card("Is this worker strong in all three?", views[1], "utilisation")
        self.crossover = Card(
            "Where does a slider stop helping?", views[2], csv=self._crossover_csv, code=self._crossover_code, file_stem="crossover",
            span=True, controls=self._pickers(),
        )  # fmt: skip
        table = self.live.add(self.name, LiveTable(table_columns, table_rows, s, clickable=True))
        table.table.on_cell(self._explain)
        self.card = table_card(table, "Work, traffic and bound of one step of one group", csv=self._table_csv, file_stem="regimes")
        for card in (self.roofline, self.busy, self.crossover):
            offer_code(card, self._show_panel)
        self.live.listen(self.name, self.show)
        self.show(s)
        return cards(self.roofline, self.busy, self.crossover, self.card)

    def _card(self, title: str, view: LiveView[Snapshot], file_stem: str, weight: int = 1) -> Card:
        """A card whose numbers are those of the table."""
        return Card(title, view, csv=self._table_csv, code=self._table_code, file_stem=file_stem, weight=weight)

    def _pickers(self) -> pn.Row:
        words = glossary()
        axes = {words[name]["label"]: name for name in AXES}
        quantities = {words[name]["label"]: name for name in QUANTITIES}
        choices = self.explorer.choices
        self.axis = pmui.Select(label="Along", options=axes, value=choices.axis, size="small", width=210, margin=(4, 8, 4, 0))
        self.quantity = pmui.Select(label="Compare", options=quantities, value=choices.quantity, size="small", width=210, margin=(4, 0))
        self.axis.param.watch(lambda event: self._choose(axis=event.new), "value")
        self.quantity.param.watch(lambda event: self._choose(quantity=event.new), "value")
        return pn.Row(self.axis, self.quantity, margin=0)

    def _choose(self, **choice: str) -> None:
        if any(getattr(self.explorer.choices, name) != value for name, value in choice.items()):
            self.explorer.change(**choice)
            self._released()

    # ---------------------------------------------------------------------------------------------------------- live
    def show(self, s: Snapshot) -> None:
        """Sentences of a snapshot."""
        bad = not s.memory.fits
        self.roofline.say(sentences.roofline(s) + estimates.sentence(s), bad)
        self.busy.say(sentences.utilisation(s), bad)
        self.crossover.say(sentences.crossover(s), bad and s.choices.quantity == "roofline_s")
        self.card.say(sentences.table(s))
        for picker, value in ((self.axis, s.choices.axis), (self.quantity, s.choices.quantity)):
            if picker.value != value:
                picker.value = value

    def _tapped(self, label: str, index: int) -> None:
        if label == "points":
            self._explain(REGIMES[index], "roofline_s")

    def _dragged(self, value: float) -> None:
        axis = self.explorer.choices.axis
        low, high, _ = AXES[axis]
        inside = min(max(value, low), high)  # the cursor may be dragged past the ends of the axis
        self.explorer.change(**{axis: inside if axis == "kv_bytes_per_token" else round(inside)})

    def _explain(self, row: str, name: str) -> None:
        target = "roofline_s" if name in ("bound", "regime") else name
        if target in DERIVED_COLUMNS:
            self._show_panel(*explain.cell(self.explorer.snapshot, row, target))

    # --------------------------------------------------------------------------------------------------------- files
    def _table_csv(self) -> str:
        return str(physics.regimes(self.explorer.snapshot.scenario).to_csv())

    def _crossover_csv(self) -> str:
        s = self.explorer.snapshot
        values = s.curves[s.choices.quantity]
        frame = pd.DataFrame({s.choices.axis: s.axis_values} | {name: values[:, i] for i, name in enumerate(REGIMES)})
        return str(frame.assign(fits=s.curves["fits"][:, 0]).to_csv(index=False))

    def _table_code(self) -> str:
        return recipe.table_lines(self.explorer.snapshot)

    def _crossover_code(self) -> str:
        return recipe.crossover_lines(self.explorer.snapshot)

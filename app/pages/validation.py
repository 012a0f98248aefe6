"""Page Validation: how far is the model from measurements?"""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd
import panel as pn
import panel_material_ui as pmui

from app import sentences_validation as sentences
from app import validation
from app.live import LiveView
from app.live_table import LiveTable
from app.pages import Context
from app.pages.validation_tables import TABLES
from app.plots import validation as plots
from app.shell import Card, cards, table_card
from app.state import Snapshot

FILTERS = {"measured_regime": ("Regime", "regime"), "measured_machine": ("Machine", "machine"), "measured_model": ("Model", "model")}


class ValidationPage:
    """Cards of the page, built once; filters are choices, so that the address keeps them."""

    name: ClassVar[str] = "Validation"
    key: ClassVar[str] = "validation"
    question: ClassVar[str] = "How far is the model from measurements?"

    def __init__(self, context: Context) -> None:
        self.explorer, self.live, self._released = context.explorer, context.live, context.released

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        views = [self.live.add(self.name, LiveView(picture, s)) for picture in (plots.SCATTER, plots.ERRORS)]
        self.filters = {name: self._filter(name) for name in FILTERS}
        self.scatter = Card(
            "Predicted against measured",
            views[0],
            csv=self._points_csv,
            file_stem="predicted-measured",
            controls=pn.FlexBox(*self.filters.values(), margin=0),
        )
        self.errors = Card("Does it carry over?", views[1], csv=lambda: _csv(validation.frame("calibration_errors")), file_stem="errors")
        self.cards = {key: self._card(key) for key in TABLES}
        self.live.listen(self.name, self.show)
        self.show(s)
        return cards(self.scatter, self.errors, *self.cards.values())

    def _card(self, key: str) -> Card:
        kind, now = TABLES[key], self.explorer
        rows = LiveTable(kind.columns, lambda s: kind.rows(kind.data(s)), now.snapshot)
        return table_card(self.live.add(self.name, rows), kind.title, lambda: _csv(kind.data(now.snapshot)), f"validation-{key}")

    def _filter(self, name: str) -> Any:
        label, column = FILTERS[name]
        value = getattr(self.explorer.choices, name)
        chosen = pmui.Select(label=label, options=validation.options(column), value=value, size="small", width=128, margin=(8, 6, 4, 0))
        chosen.param.watch(lambda event: self._choose(name, event.new), "value")
        return chosen

    def _choose(self, name: str, value: str) -> None:
        if getattr(self.explorer.choices, name) != value:
            self.explorer.change(**{name: value})
            self._released()

    def show(self, s: Snapshot) -> None:
        """Sentences and filters of a snapshot."""
        self.scatter.say(sentences.scatter(s))
        self.errors.say(sentences.errors(s))
        for key, table in TABLES.items():
            self.cards[key].say(table.sentence(s))
        for name, chosen in self.filters.items():
            if chosen.value != getattr(s.choices, name):
                chosen.value = getattr(s.choices, name)

    def _points_csv(self) -> str:
        return _csv(validation.points(self.explorer.snapshot).dropna(subset=["measured_s"]))


def _csv(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False))

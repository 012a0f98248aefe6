"""Page Sessions: what do an agent's turns cost, and where should its KV wait?"""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd
import panel as pn

from app import recipe_sessions as recipe
from app import sentences_sessions as sentences
from app.live import LiveView
from app.live_table import LiveTable
from app.pages import Context
from app.pages.sessions_controls import Controls
from app.pages.sessions_tables import (
    PERCENTILE_COLUMNS,
    REPLAY_COLUMNS,
    TIER_COLUMNS,
    percentile_rows,
    replay_frame,
    replay_rows,
    sources_of,
    tier_frame,
    tier_rows,
)
from app.plots import sessions, waiting
from app.sessions import CAPACITY_TOKENS, IDLE, LENGTHS
from app.shell import Card, cards, offer_code, table_card
from app.state import Snapshot
from physics.tiers import LABELS


class SessionsPage:
    """Cards of the page, built once; the shell shows them when the tab is opened."""

    name: ClassVar[str] = "Sessions"
    key: ClassVar[str] = "sessions"
    question: ClassVar[str] = "What do an agent's turns cost, and where should its KV wait?"

    def __init__(self, context: Context) -> None:
        self.context, self.explorer, self.live, self._show_panel = context, context.explorer, context.live, context.show_panel

    def build(self) -> pn.Column:
        """The content of the page."""
        s = self.explorer.snapshot
        self.controls = Controls(self.explorer, self.context.released)
        self.trace = Card(
            "Which requests?", self.live.add(self.name, LiveTable(PERCENTILE_COLUMNS, percentile_rows, s)),
            csv=self._percentiles_csv, file_stem="trace", span=True, controls=self.controls.trace,
        )  # fmt: skip
        self.mix = self._card("How much of it is midfill?", sessions.MIX_PICTURE, self._mix_csv, recipe.mix_lines, "mix", span=True)
        self.density = self._card(
            "What is appended to what?", sessions.DENSITY, self._requests_csv, recipe.mix_lines, "requests", span=True
        )
        timeline = self.controls.timeline
        self.growth = self._card(
            "When does compaction pay?", sessions.CONTEXT, self._timeline_csv, recipe.timeline_lines, "timeline", controls=timeline
        )
        self.waits = self._card(
            "What does a turn take?", sessions.WAITS, self._timeline_csv, recipe.timeline_lines, "turns", controls=self.controls.turns
        )
        self.map = self._card(
            "Where should a blob of KV wait?",
            waiting.MAP,
            self._map_csv,
            recipe.map_lines,
            "break-even",
            controls=self.controls.map,
            span=True,
        )
        self.reuse = self._card("Will it be used again?", waiting.REUSE, self._reuse_csv, recipe.reuse_lines, "reuse")
        self.curve = self._card("How large is the working set?", waiting.CURVE, self._curve_csv, recipe.curve_lines, "working-set")
        self.replay = Card(
            "What does a replay of the trace find?", self.live.add(self.name, LiveTable(REPLAY_COLUMNS, replay_rows, s)),
            csv=self._replay_csv, code=lambda: recipe.replay_lines(self.explorer.snapshot), file_stem="replay", span=True,
            controls=self.controls.replay,
        )  # fmt: skip
        offer_code(self.replay, self._show_panel)
        offered = self.live.add(self.name, LiveTable(TIER_COLUMNS, tier_rows, s, clickable=True))
        offered.table.on_cell(lambda name, _: self._show_panel(f"{LABELS[name]}: where its numbers come from", sources_of(name)))
        self.tiers = table_card(offered, "What do the tiers offer?", csv=self._tiers_csv, file_stem="tiers")
        self.live.listen(self.name, self.show)
        self.show(s)
        shown = (self.mix, self.density, self.growth, self.waits, self.map, self.reuse, self.curve, self.replay, self.tiers)
        return cards(self.trace, *shown, self.controls.tier_card)

    def _card(self, title: str, picture: Any, csv: Any, lines: Any, stem: str, controls: Any = None, span: bool = False) -> Card:
        view = self.live.add(self.name, LiveView(picture, self.explorer.snapshot))
        card = Card(
            title, view, csv=csv, code=lambda: lines(self.explorer.snapshot), file_stem=stem, controls=controls, span=span
        )  # fmt: skip
        offer_code(card, self._show_panel)
        return card

    # ----------------------------------------------------------------------------------------------------------- live
    def show(self, s: Snapshot) -> None:
        """Sentences and controls of a snapshot."""
        bad = not s.memory.fits
        self.trace.say(sentences.trace(s))
        self.mix.say(sentences.mix(s))
        self.density.say(sentences.density(s))
        self.growth.say(sentences.context(s))
        self.waits.say(sentences.waits(s), bad)
        self.map.say(sentences.where(s))
        self.reuse.say(sentences.reuse(s))
        self.curve.say(sentences.working_set(s))
        self.replay.say(sentences.replay(s))
        self.tiers.say(sentences.tiers(s))
        self.controls.show(s)

    # ---------------------------------------------------------------------------------------------------------- files
    def _percentiles_csv(self) -> str:
        return str(self.explorer.snapshot.sessions.percentiles.to_csv(index_label="quantity"))

    def _mix_csv(self) -> str:
        view = self.explorer.snapshot.sessions
        return str(view.mix.join(view.shares, rsuffix="_share").to_csv())

    def _requests_csv(self) -> str:
        trace = self.explorer.snapshot.sessions.trace
        names = ("conversation", "branch", "time_s", "input_tokens", "prefix_tokens", "new_tokens", "output_tokens")
        return str(pd.DataFrame({name: getattr(trace, name) for name in names}).to_csv(index=False))

    def _timeline_csv(self) -> str:
        view = self.explorer.snapshot.sessions
        frames = {"as it grows": view.plain, "compacted": view.compacted}
        frame = pd.concat(frames, names=["timeline", "row"]).reset_index("timeline")
        return str(frame.assign(fits=self.explorer.snapshot.memory.fits).to_csv(index=False))

    def _map_csv(self) -> str:
        costs = self.explorer.snapshot.sessions.map_costs
        pairs = {f"{a} to {b}, s": values for (a, b), values in costs.break_evens().items()}
        return str(pd.DataFrame({"context_tokens": LENGTHS} | pairs).assign(measure=costs.measure).to_csv(index=False))

    def _reuse_csv(self) -> str:
        return str(pd.DataFrame({"idle_s": IDLE, "reused_frac": self.explorer.snapshot.sessions.reused}).to_csv(index=False))

    def _curve_csv(self) -> str:
        view = self.explorer.snapshot.sessions
        sizes = {"capacity_tokens": CAPACITY_TOKENS, "capacity_bytes": CAPACITY_TOKENS * view.token_bytes}
        return str(pd.DataFrame(sizes | {"hit_frac": view.curve}).to_csv(index=False))

    def _replay_csv(self) -> str:
        return str(replay_frame(self.explorer.snapshot).to_csv(index=False))

    def _tiers_csv(self) -> str:
        return str(tier_frame(self.explorer.snapshot).to_csv(index=False))

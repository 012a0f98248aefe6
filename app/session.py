"""One visitor: explorer, sidebar, pages, headline and address, wired once. Nothing here is shared between sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import panel as pn

from app import explain, headline
from app.address import Address
from app.chosen_parts import link_gaps, only_here
from app.components import File, Notice
from app.live_pages import LivePages
from app.pages import Context, PageView
from app.pages.energy import EnergyPage
from app.pages.experts import ExpertsPage
from app.pages.pipeline import PipelinePage
from app.pages.regimes import RegimesPage
from app.pages.sessions import SessionsPage
from app.pages.validation import ValidationPage
from app.quiet import tell
from app.report.export import exported
from app.shell import Page, Shell
from app.sidebar import Sidebar
from app.state import Choices, Explorer, Snapshot, from_query
from physics.catalog import presets
from physics.regimes import DECODE

WELCOME = (
    "Serving a mixture-of-experts model is four regimes, not two: **prefill**, **midfill** (new tokens on a long cached prefix), "
    "**decode attention** and **decode experts** (grey beside them: the weights every decode step shares). Drag a slider to see what "
    "binds each of them on this machine; click any number in the table to see where it comes from."
)
PAGE_VIEWS: tuple[type[PageView], ...] = (RegimesPage, ExpertsPage, PipelinePage, EnergyPage, SessionsPage, ValidationPage)
"""The tabs, in order; a new page is one module and one entry here and in `state.PAGES`."""

TILE_CELLS = {
    "ttft_s": (("midfill",), "roofline_s"),
    "tpot_s": (DECODE, "roofline_s"),
    "j_per_token": (DECODE, "energy_j"),
}
"""Cells of the table that a click on a tile explains: regimes whose sum the tile shows, and the column."""

MOST_NOTICES = 4
"""Faults of a link that are told one by one; of more, only the number."""


def _rest(notices: list[str]) -> list[str]:
    more = len(notices) - MOST_NOTICES
    return [f"{more} more fields of the link were left out."] if more > 0 else []


class Session:
    """Everything one visitor has; keep it as long as the page is open."""

    def __init__(self, location: Address | None = None) -> None:
        self.location = location or Address()
        choices, notices = from_query(self.location.search)
        self.explorer = Explorer(choices)
        self.live: LivePages[Snapshot] = LivePages(self.explorer.snapshot)
        self.sidebar = Sidebar(self.explorer, self.released)
        self.sidebar.inputs.show_panel = self.explain
        self.notice = Notice(text=" ".join([*notices[:MOST_NOTICES], *_rest(notices)]) or WELCOME)
        self.names = {key: row["title"] for key, row in presets().items()}
        self.titles = {title: key for key, title in self.names.items()}
        self.shell = self._assembled()
        self.location.written_by(self.shell.topbar.write_address)
        self.explorer.watch(self.show)
        self.show(self.explorer.snapshot)

    def _assembled(self) -> Shell:
        context = Context(self.explorer, self.live, self.explain, self.released)
        views = [view(context) for view in PAGE_VIEWS]
        first = next(view.name for view in views if view.key == self.explorer.choices.page)
        pages = [Page(view.name, view.question, view.build) for view in views]
        keys = {view.name: view.key for view in views}
        shell = Shell("Midfill", self.sidebar.objects, pages, self.live, list(self.titles), first, above=[self.notice])
        shell.topbar.on_preset(lambda title: self.load(Choices.of_preset(self.titles[title])))
        shell.topbar.on_action("reset", self.reset)
        shell.topbar.on_action("pin", self.pin)
        shell.topbar.on_action("export", lambda: pn.state.execute(self.export))
        shell.topbar.on_went(self.went)
        shell.headline.on_click(self._explain_tile)
        shell.tabs.param.watch(lambda event: self._turned(keys[event.new]), "chosen")
        return shell

    # ------------------------------------------------------------------------------------------------------------- showing
    def show(self, s: Snapshot) -> None:
        """A new snapshot: visible page, headline, preset name, and the sentence about a refused change."""
        own = {"page", "axis", "quantity", "measured_regime", "measured_machine", "measured_model"}
        title = self.names[s.choices.preset] if set(s.choices.changed_from_preset()) <= own else ""
        with pn.io.hold():
            self.live.push(s)
            tell(self.shell.headline, tiles=headline.tiles(s))
            link_note = link_gaps(only_here(s.choices.model, s.choices.machine, s.choices.routing), s.pinned is not None)
            tell(self.shell.topbar, link_note=link_note, preset=title)

    def explain(self, title: str, blocks: Any) -> None:
        """Open the side panel."""
        self.shell.explain(title, blocks)

    def _explain_tile(self, key: str) -> None:
        if key in TILE_CELLS:
            self.explain(*explain.cells(self.explorer.snapshot, *TILE_CELLS[key]))

    # ------------------------------------------------------------------------------------------------------------- changes
    def _turned(self, key: str) -> None:
        """Another tab."""
        self.explorer.change(page=key)
        self.sync_address()

    def released(self) -> None:
        """The hand let go: axes follow, the address is written, a refused change is explained."""
        self.live.refit()
        self.sync_address()
        if self.explorer.problem:
            self.notice.param.update(text=self.explorer.problem, tone="bad")
        elif self.notice.tone == "bad":  # mended: back to what this is about
            self._say_question()

    def _say_question(self) -> None:
        self.notice.param.update(text=presets()[self.explorer.choices.preset]["question"], tone="")

    def load(self, choices: Choices) -> None:
        """Another preset or a reset: everything anew, on the page that is shown."""
        self.explorer.load(replace(choices, page=self.explorer.choices.page))
        self.live.refit(force=True)
        self._say_question()
        self.sync_address()

    def reset(self) -> None:
        """As freshly opened on the preset: no files of the user, no messages, no pin, no side panel."""
        self.shell.close_side()
        self.shell.topbar.press("pin", False)
        self.explorer.forget()
        self.load(Choices.of_preset(self.explorer.choices.preset))
        self.notice.param.update(text=WELCOME, tone="")

    def pin(self) -> None:
        """Keep the present state as a ghost, or let it go."""
        on = self.explorer.snapshot.pinned is None
        self.explorer.pin(on)
        self.shell.topbar.press("pin", on)
        self.shell.topbar.say(f"Pinned: {self.explorer.snapshot.title}. Change anything to compare" if on else "Unpinned")

    async def export(self) -> None:
        """Save the report of the present state in the browser."""
        bar = self.shell.topbar
        try:
            text = await exported(self.explorer.snapshot)
        except (RuntimeError, OSError):
            bar.say("The report could not be made: try again, or use `python -m app report`")
            return
        bar.send_file(File("midfill-report.html", text, "text/html;charset=utf-8"))
        bar.say(f"Report saved, {len(text.encode()) / 1e6:.1f} MB")

    def sync_address(self) -> None:
        """Write the state into the address, only when a change is committed: every write is an entry of the history."""
        if self.location.search != self.explorer.choices.query():
            self.location.search = self.explorer.choices.query()

    def went(self, search: str) -> None:
        """Back or Forward in the browser: the page follows the address."""
        self.location.went(search)
        own = self.explorer
        choices, notices = from_query(search, own.models, own.loaded, own.machines)
        own.load(choices)
        self.live.refit(force=True)
        self.shell.show(next(view.name for view in PAGE_VIEWS if view.key == choices.page))
        if notices:
            self.notice.param.update(text=" ".join([*notices[:MOST_NOTICES], *_rest(notices)]), tone="bad")

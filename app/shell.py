"""The page around the pictures: title bar, folding sidebar, headline strip, tabs, cards in two columns, side panel.

No physics and no state: `Shell` is given content and calls back. It uses panel-material-ui's Page, the one template that asks
no outside host, and gives it this project's colours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.util import edit_readonly
from panel.viewable import Viewable, Viewer
from panel_material_ui.template.base import BASE_TEMPLATE

from app.components import Block, CardHead, File, Fold, Headline, Help, Notice, SidePanel, TabBar, TopBar
from app.feed import Feed
from app.live import LiveView
from app.live_pages import LivePages
from app.live_table import LiveTable
from app.quiet import once_loaded, tell
from app.theme import DARK, FONT, HUES, LIGHT, Theme, bokeh_theme, theme_of
from app.view import View

_LOG = logging.getLogger(__name__)
SIDEBAR_WIDTH = 320
SIDE_PANEL_WIDTH = 340
FIRST_CARDS = 4
"""Cards of a page whose pictures are drawn with it: a screen shows two rows at most."""

_GRID = {"display": "flex", "flex-flow": "row wrap", "align-items": "stretch", "gap": "12px", "flex": "none"}
_CARD = {
    "background": "var(--midfill-surface)", "border": "1px solid var(--midfill-rule)", "border-radius": "6px", "padding": "10px 12px",
    "min-width": "0", "height": "auto",  # as high as its neighbour
}  # fmt: skip
_NO_SCROLL_BUTTON = ".scroll-button { display: none }"
"""Panel's button to the end of a column, unseen here, would take 36 px of the last row."""

AREAS = ("header", "sidebar", "main", "contextbar")
"""What the frame of the page is filled with."""
FRAME_MS = 5
"""Until the frame is on its way [ms]."""


def _palette(theme: Theme) -> dict[str, Any]:
    return {
        "palette": {
            "primary": {"main": theme.accent, "contrastText": theme.surface},
            "background": {"default": theme.page, "paper": theme.surface},
            "text": {"primary": theme.text, "secondary": theme.muted},
            "divider": theme.rule,
        },
        "typography": {"fontFamily": FONT, "fontSize": 13},
        "chart_style": "classic",
    }


def _variables(theme: Theme) -> dict[str, str]:
    """CSS variables of one theme, for every component below the page."""
    named = {"page": theme.page, "surface": theme.surface, "text": theme.text, "muted": theme.muted, "rule": theme.rule}
    named |= {"accent": theme.accent, "warn": theme.warn} | {meaning: theme.line(meaning) for meaning in HUES}
    return {f"--midfill-{name}": value for name, value in named.items()}


_SX: dict[str, Any] = {
    "&.mui-light": _variables(LIGHT),
    "&.mui-dark": _variables(DARK),
    "color": "var(--midfill-text)",
    "& .header": {
        "backgroundColor": "var(--midfill-surface)", "backgroundImage": "none", "color": "var(--midfill-text)", "boxShadow": "none",
        "borderBottom": "1px solid var(--midfill-rule)",
    },
    "& .MuiToolbar-root": {"minHeight": "48px !important", "paddingLeft": "16px", "paddingRight": "12px"},
    "& .header .title": {"color": "var(--midfill-text) !important", "fontSize": "18px", "fontWeight": 600},
    "& .header [aria-label$=contextbar]": {"display": "none"},
    "& .main": {"backgroundColor": "var(--midfill-page)"},
    "& .MuiLinearProgress-root": {"display": "none"},  # the template's busy bar is off, and stays in the page without a name
    "& .sidebar, & .contextbar": {"backgroundColor": "var(--midfill-surface)", "backgroundImage": "none"},
}  # fmt: skip


class Card(Viewer):  # type: ignore[misc]  # panel carries no types
    """One picture or table with its title, answer sentence and tools.

    `view` follows the snapshots while the card is in view, or is any Panel object; `csv` and `code` give the texts when they are
    asked for; `controls` stand above it. `span` gives it a row of its own, `weight` its share of a row beside others.
    """

    def __init__(
        self, title: str, view: View[Any] | Viewable, csv: Callable[[], str] | None = None, code: Callable[[], str] | None = None,
        file_stem: str = "midfill", span: bool = False, controls: Viewable | None = None, weight: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self._picture = view if isinstance(view, LiveView) else None
        tools = [*(["csv"] if csv else []), *(["png", "svg"] if self._picture else []), *(["code"] if code else [])]
        self.head = CardHead(title=title, tools=tools, file_stem=file_stem)
        self.code = code
        if csv is not None:
            make = csv
            self.head.on_tool("csv", lambda: self.head.send_file(File(f"{file_stem}.csv", make(), "text/csv;charset=utf-8")))
        if self._picture is not None:
            # A name set while the figure is drawn goes out with it; an id told to the head while it is drawn itself would be lost.
            name = self.head.figure_name = f"picture-{id(self)}"
            self._picture.on_drawn(lambda figure: figure.update(name=name))
            self.head.param.watch(lambda event: once_loaded(self._draw) if event.new else None, "near")
        if isinstance(view, View):
            self.head.param.watch(lambda event: view.see(event.new), "on_screen")
        # Side by side where 390 px each are left, so not on a tablet, sharing the width by weight; a spanning card has a row of its own.
        styles = _CARD | {"flex": "1 1 100%" if span else f"{weight} 1 {370 + 20 * weight}px"}
        body = view.pane if isinstance(view, View) else view
        parts = [self.head, body] if controls is None else [self.head, controls, body]
        self._layout = pn.Column(*parts, styles=styles, sizing_mode="stretch_width", margin=0)

    def wait(self) -> None:
        """Leave the picture undrawn until the browser says that it is less than a screen away."""
        if self._picture is not None:
            self.head.param.update(near=False, on_screen=False)  # so the picture knows too
            self._layout[-1] = pn.Spacer(min_height=self._picture.picture.min_height, sizing_mode="stretch_width", margin=0)

    def _draw(self) -> None:
        if self._picture is not None:
            self._layout[-1] = self._picture.pane

    def say(self, sentence: str, bad: bool = False) -> None:
        """Show the answer sentence; **bold** for the numbers that change."""
        tell(self.head, sentence=sentence, tone="bad" if bad else "")

    def __panel__(self) -> Viewable:
        return self._layout


ShowPanel = Callable[[str, Sequence[Block]], None]
"""Open the side panel with a title and blocks."""


def offer_code(card: Card, show_panel: ShowPanel) -> None:
    """Let a card's Code button show its lines in the side panel."""
    if card.code is not None:
        make, title = card.code, card.head.title
        card.head.on_tool("code", lambda: show_panel(title, [Block(kind="code", text=make())]))


def cards(*content: Any) -> pn.Column:
    """Cards in two columns where there is room, else one below the other; what is below the first screen is drawn after it."""
    for card in content[FIRST_CARDS:]:
        if isinstance(card, Card):
            card.wait()
    return pn.Column(*content, styles=_GRID, stylesheets=[_NO_SCROLL_BUTTON], sizing_mode="stretch_width", margin=0)


def table_card(table: LiveTable[Any], title: str, csv: Callable[[], str] | None = None, file_stem: str = "midfill") -> Card:
    """A table over the full width of the grid, with its CSV."""
    return Card(title, table, csv=csv, file_stem=file_stem, span=True)


def helped(control: Any, text: str) -> pn.Row:
    """A select, a box to tick or a text field with its help beside it, which the keyboard reaches too."""
    mark = Help(label=control.label, text=text, sizing_mode=None, width=20, margin=(0, 0, 0, 6), align="center")
    return pn.Row(control, mark, sizing_mode="stretch_width", margin=0)


def group(title: str, *content: Any, open: bool = False) -> Fold:
    """A folded group of the sidebar."""
    return Fold(title=title, content=list(content), open=open)


class Page:
    """One tab: its name, the question it answers, and how to build its content (called when it is first shown)."""

    def __init__(self, name: str, question: str, build: Callable[[], Viewable]) -> None:
        self.name = name
        self.question = question
        self.build = build
        self.holder = pn.Column(sizing_mode="stretch_width", margin=0, visible=False)
        self._failed = False

        self._built = False

    @property
    def ready(self) -> bool:
        """Whether the content is there; a failed page is built again when it is next shown."""
        return self._built and not self._failed

    def wait(self) -> None:
        """Say that the content is being drawn."""
        self.holder[:] = [Notice(text="Drawing this page …")]
        self.holder.visible = True

    def open(self) -> None:
        """Build the content if it is not there yet, and show it; a failure is said on the page, and tried again next time."""
        if not self.ready:
            self.holder[:] = [self._made()]
            self._built = True
        self.holder.visible = True

    def _made(self) -> Viewable:
        self._failed = False
        try:
            return self.build()
        except Exception:  # whatever it was, the other pages and the session's state live on
            self._failed = True
            _LOG.exception("page %r could not be built", self.name)
            mend = "Your settings are kept: change one or choose another preset, then open this page again."
            return Notice(text=f"**{self.name} could not be drawn.** {mend}", tone="bad")


class _Idle(param.Parameterized):  # type: ignore[misc]  # param carries no types here
    """A busy flag that never changes."""

    busy = param.Boolean(default=False)


class Shell:
    """The whole page of one session.

    `pages` are built when first shown; `live` (LivePages) is told which one is shown, and the theme. Callbacks are registered on
    `topbar`, `headline` and `side`; `explain` opens the panel at the right.
    """

    def __init__(
        self, title: str, sidebar: Sequence[Any], pages: Sequence[Page], live: LivePages[Any], presets: Sequence[str] = (), first: str = "",
        above: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        self.live, self.feed = live, Feed(styles={"display": "none"})
        live.carrier = self.feed.send
        self.pages: Mapping[str, Page] = {page.name: page for page in pages}
        self.topbar = TopBar(presets=list(presets), actions=[dict(action) for action in ACTIONS])
        self.headline = Headline()
        self._drawn = False  # the first page is built with the session, later ones after a sentence that says so
        self.tabs = TabBar(names=list(self.pages), questions=[page.question for page in pages])
        self.side = SidePanel()
        self.side.on_close(self.close_side)
        self.page = self._page(title, sidebar, above)
        self.tabs.param.watch(lambda event: self._open(event.new), "chosen")
        self.page.param.watch(lambda event: live.set_theme(theme_of(event.new)), "dark_theme")
        self.topbar.param.watch(lambda event: self.page.param.update(sidebar_open=not event.new), "narrow")
        self.tabs.chosen = first if first in self.pages else next(iter(self.pages))

    def _page(self, title: str, sidebar: Sequence[Any], above: Sequence[Any]) -> pmui.Page:
        body = pn.Column(
            self.feed, *above, self.headline, self.tabs, *(page.holder for page in self.pages.values()),
            sizing_mode="stretch_width", margin=0, styles={"padding": "12px 16px", "gap": "12px"},
        )  # fmt: skip
        column = pn.Column(*sidebar, sizing_mode="stretch_width", margin=0, styles={"padding": "8px 16px"})
        page = pmui.Page(
            title=title, header=[self.topbar], sidebar=[column], main=[body], contextbar=[self.side], sx=_SX,
            sidebar_width=SIDEBAR_WIDTH, sidebar_variant="persistent", sidebar_resizable=False,
            contextbar_width=SIDE_PANEL_WIDTH, contextbar_variant="persistent", contextbar_open=False, busy_indicator=None,
            theme_toggle=True, theme_config={"light": _palette(LIGHT), "dark": _palette(DARK)},
            template=Path(__file__).parent / "static" / "page.html",
        )  # fmt: skip
        # The template follows Panel's global busy flag: it walks all models twice per slider step (ten times the update itself), and
        # the flag would keep every page ever opened in memory. A reference to something of this session takes its place.
        with edit_readonly(page):
            page.busy = _Idle().param.busy
        return page

    def servable(self) -> None:
        """Make this the page of the session: its frame goes out at once, and is filled while the browser reads its scripts.

        The document's theme tells the template to leave the plots' look alone.
        """
        document = pn.state.curdoc
        if document is None or document.session_context is None:
            self.page.servable()
            return
        document.theme = bokeh_theme()
        document.template_variables["page"] = BASE_TEMPLATE
        content = {area: getattr(self.page, area) for area in AREAS}
        self.page.param.update({area: [] for area in AREAS})
        self.page.servable()
        session = document.session_context.session

        def filled() -> None:
            if session is not None and session.connection_count:
                once_loaded(lambda: self._fill(content))
            else:
                self._fill(content)

        document.add_timeout_callback(filled, FRAME_MS)

    def _fill(self, content: Mapping[str, Sequence[Any]]) -> None:
        try:
            self.page.param.update(content)
        except Exception:  # whatever it was: a page that stays empty would say nothing
            _LOG.exception("the page could not be drawn")
            self.page.main = [Notice(text="**The page could not be drawn.** Open the address without what follows the “?”.", tone="bad")]

    @property
    def theme(self) -> Theme:
        """The present theme, for views made later."""
        return theme_of(self.page.dark_theme)

    def _open(self, name: str) -> None:
        for other in self.pages.values():
            if other.name != name:
                other.holder.visible = False
        document = pn.state.curdoc
        if not self.pages[name].ready and self._drawn and document is not None and document.session_context is not None:
            self.pages[name].wait()
            document.add_timeout_callback(lambda: self._finish(name), 60)  # [ms], so that the sentence is sent before the work begins
        else:
            self._finish(name)

    def _finish(self, name: str) -> None:
        """Build and show a page, unless another one was chosen meanwhile."""
        if self.tabs.chosen == name:
            self.pages[name].open()
            self.live.show(name)
            self._drawn = True

    def show(self, name: str) -> None:
        """Show a page; an unknown name is ignored."""
        if name in self.pages:
            self.tabs.chosen = name

    def explain(self, title: str, blocks: Sequence[Block]) -> None:
        """Open the panel at the right, beside the pictures."""
        self.side.param.update(title=title, blocks=list(blocks), shown=True)
        self.page.contextbar_open = True

    def close_side(self) -> None:
        """Close the panel at the right."""
        self.side.shown = False
        self.page.contextbar_open = False


ACTIONS: Sequence[Mapping[str, Any]] = (
    {"key": "copy", "label": "Copy link", "hint": "Copy the address of exactly this state"},
    {"key": "pin", "label": "Pin", "hint": "Keep the present state as a ghost to compare with", "pressed": False},
    {"key": "export", "label": "Export", "hint": "Save the present state as one HTML file whose sliders work offline"},
    {"key": "reset", "label": "Reset all", "hint": "Back to the preset as freshly opened: your files and the pin go too"},
)

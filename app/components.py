"""The parts of the page that are no pictures: title bar, headline strip, tabs, card heads, table, side panel.

Small components whose browser side is in `app/static`; each takes plain dictionaries and texts, never markup (only **bold** in
sentences), so nothing a user loads can become code. Updating one changes texts in place and creates no Bokeh model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

import param
from panel.custom import Children

from app.quiet import QuietComponent, once_loaded, sheet

_STATIC = Path(__file__).parent / "static"


def esm(name: str) -> str:
    """Browser side of a component: a file of `app/static` after what all share."""
    return "".join((_STATIC / f"{file}.js").read_text(encoding="utf-8") for file in ("common", name))


def css(*names: str) -> list[str]:
    """Look of a component: what all share, and its own; each of its kind in a page carries a copy."""
    return [(_STATIC / f"{file}.css").read_text(encoding="utf-8") for file in ("common", *names)]


class File(NamedTuple):
    """A text file for the browser to save: name, content, media type."""

    name: str
    content: str
    type: str = "text/plain;charset=utf-8"


class BrowserPart(QuietComponent):
    """What all components share: full width, and messages to callbacks."""

    __abstract = True
    _stylesheets: ClassVar[list[str]] = css()

    def __init__(self, **params: Any) -> None:
        params.setdefault("sizing_mode", "stretch_width")
        params.setdefault("margin", 0)
        self._callbacks: dict[str, list[Callable[..., None]]] = {}
        super().__init__(**params)

    def _on(self, key: str, callback: Callable[..., None]) -> None:
        self._callbacks.setdefault(key, []).append(callback)

    def _call(self, key: str, *values: Any) -> None:
        for callback in self._callbacks.get(key, []):
            callback(*values)

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict):
            self._heard(data)

    def _heard(self, data: dict[str, Any]) -> None:
        """A message from the browser; what it says is checked against what was offered."""

    def send_file(self, file: File) -> None:
        """Let the browser save a file."""
        self._send_msg({"file": file.name, "content": file.content, "type": file.type, "say": ""})


class Headline(BrowserPart):
    """The strip of tiles on every page."""

    tiles = sheet("Tile dictionaries, six for one row at 1280 px.")
    _esm = esm("headline")
    _stylesheets = css("headline")

    def on_click(self, callback: Callable[[str], None]) -> None:
        """Call `callback(key)` when a tile is clicked."""
        self._on("clicked", callback)

    def _heard(self, data: dict[str, Any]) -> None:
        if data.get("clicked") in [t["key"] for t in self.tiles]:
            self._call("clicked", data["clicked"])


class TopBar(BrowserPart):
    """Preset and actions, for the title bar. Copying the link happens in the browser: the address holds the state."""

    presets = param.List(item_type=str, doc="Names of the presets.")
    preset = param.String(doc="The chosen preset; empty once anything was changed.")
    own_state = param.String(default="Own settings", doc="What the select shows when the state is no preset.")
    actions = sheet("Dictionaries with key, label, hint and, for switches, pressed.")
    narrow = param.Boolean(doc="Whether the window is too narrow for an open sidebar.")
    link_note = param.String(doc="Said when the link is copied: what it cannot carry; empty where it carries everything.")
    _esm = esm("topbar")
    _stylesheets = css("topbar")

    def on_preset(self, callback: Callable[[str], None]) -> None:
        """Call `callback(name)` when a preset is chosen."""
        self._on("preset", callback)

    def on_action(self, key: str, callback: Callable[[], None]) -> None:
        """Call `callback()` when the action `key` is clicked."""
        self._on(f"action {key}", callback)

    def press(self, key: str, pressed: bool) -> None:
        """Show a switch as on or off."""
        self.actions = [a | {"pressed": pressed} if a["key"] == key else a for a in self.actions]

    def say(self, text: str) -> None:
        """A short sentence in the title bar, gone after four seconds."""
        self._send_msg({"say": text})

    def write_address(self, query: str) -> None:
        """Show a query in the address bar, as a new entry of the history."""
        self._send_msg({"address": query})

    def on_went(self, callback: Callable[[str], None]) -> None:
        """Call `callback(query)` when Back or Forward led to another address."""
        self._on("went", callback)

    def _heard(self, data: dict[str, Any]) -> None:
        if isinstance(data.get("went"), str):
            self._call("went", data["went"])
        elif "narrow" in data:
            narrow = bool(data["narrow"])
            self.narrow = not narrow if narrow == self.narrow else self.narrow  # said again: the first answer did not arrive
            self.narrow = narrow
        elif data.get("preset") in self.presets:
            self._call("preset", data["preset"])
        elif "action" in data:
            self._call(f"action {data['action']}")


class TabBar(BrowserPart):
    """The pages; `chosen` follows the click."""

    names = param.List(item_type=str, doc="Names of the pages.")
    questions = param.List(item_type=str, doc="The question each page answers, shown on hover.")
    chosen = param.String(doc="Name of the visible page.")
    _esm = esm("tabbar")
    _stylesheets = css("tabbar")
    _debounce = 0

    def _process_events(self, events: dict[str, Any]) -> None:
        super()._process_events({k: v for k, v in events.items() if k != "chosen" or v in self.names})


class CardHead(BrowserPart):
    """Title, answer sentence and tools of one picture."""

    title = param.String(doc="What the picture shows.")
    sentence = param.String(doc="The computed answer; **bold** for the numbers that change.")
    tone = param.Selector(default="", objects=["", "bad"], doc="'bad' when the state is infeasible.")
    tools = param.List(item_type=str, doc="Of csv, png, svg, code, fit.")
    figure_name = param.String(doc="Name of the Bokeh figure, for the image.")
    file_stem = param.String(default="midfill", doc="Name of saved files, without ending.")
    near = param.Boolean(default=True, doc="Whether the card was ever less than a screen away; the browser says so.")
    on_screen = param.Boolean(default=True, doc="Whether the card is in view; the browser says so.")
    _esm = esm("cardhead")
    _stylesheets = css("cardhead")

    def on_tool(self, name: str, callback: Callable[[], None]) -> None:
        """Call `callback()` when the tool `name` is clicked; images are saved in the browser."""
        self._on(name, callback)

    def _heard(self, data: dict[str, Any]) -> None:
        if data.get("tool") in self.tools:
            self._call(data["tool"])


class DataTable(BrowserPart):
    """A table whose cells can be asked for their derivation."""

    columns = sheet("Column dictionaries; the first one heads the rows.")
    rows = sheet("Row dictionaries.")
    clickable = param.Boolean(default=True, doc="Whether cells are buttons.")
    _esm = esm("datatable")
    _stylesheets = css("datatable")

    def on_cell(self, callback: Callable[[str, str], None]) -> None:
        """Call `callback(row key, column key)` when a cell is clicked."""
        self._on("cell", callback)

    def _heard(self, data: dict[str, Any]) -> None:
        row, name = data.get("row"), data.get("column")
        if row in [r["key"] for r in self.rows] and name in [c["key"] for c in self.columns]:
            self._call("cell", row, name)


class Block(TypedDict, total=False):
    """One block of the side panel: kind "text", "heading", "formula", "code" (with `text`) or "terms" (with `rows`).

    `full` shows on hover, the same with all digits; a row may have it as a fifth text.
    """

    kind: Literal["text", "heading", "formula", "code", "terms"]
    text: str
    full: str
    rows: Sequence[tuple[str, ...]]


class SidePanel(BrowserPart):
    """The panel at the right: derivations, code, help. `terms` rows are (symbol, value, meaning, source)."""

    shown = param.Boolean(doc="Whether it is open; Escape closes it from wherever the focus is, and gives the focus back.")
    title = param.String(doc="What is explained.")
    blocks = sheet("Block dictionaries, in order.")
    _esm = esm("sidepanel")
    _stylesheets = css("sidepanel")

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when the panel is closed."""
        self._on("close", callback)

    def _heard(self, data: dict[str, Any]) -> None:
        if data.get("close"):
            self._call("close")


class Help(BrowserPart):
    """The question mark beside a control that has none of its own."""

    label = param.String(doc="Name of the control.")
    text = param.String(doc="What it means, from the glossary.")
    _esm = esm("help")
    _stylesheets = css("help")


class Fold(BrowserPart):
    """A group of the sidebar that can be folded away; what is in it is laid out when it is first unfolded."""

    title = param.String(doc="Name of the group.")
    open = param.Boolean(doc="Whether it is unfolded.")
    content = Children(doc="What is in it.")
    _esm = esm("fold")
    _stylesheets = css("fold")
    _render_policy = "manual"  # else new content would replace the title too, and the focus with it

    def __init__(self, content: Sequence[Any], open: bool = False, **params: Any) -> None:
        super().__init__(content=list(content) if open else [], open=open, **params)
        self._waiting = list(content)
        self.param.watch(lambda _: once_loaded(self._lay_out), "open")

    def _lay_out(self) -> None:
        if not self.content:
            self.content = self._waiting


class Notice(BrowserPart):
    """A sentence of its own: first visit, empty, loading, failed."""

    text = param.String(doc="What is the case and what to do; **bold** allowed.")
    tone = param.Selector(default="", objects=["", "bad", "quiet"], doc="'bad' for failures, 'quiet' for facts beside a control.")
    _esm = esm("notice")
    _stylesheets = css("notice")

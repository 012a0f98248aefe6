"""The app in a browser, for the tests of this folder: opened and moved as by hand, read once the page has caught up.

Page, server and address take turns, slowly on a busy machine; until all have had theirs, each tells of another moment. So nothing is
read only once here: `Opened.agreed` takes the state that the address holds and looks again until the page shows just that.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

import numpy as np
from playwright.sync_api import Locator, Page, expect

from app.state import Choices, Snapshot, from_query

Seen = TypeVar("Seen")
WAIT_MS = 60_000
"""How long anything may take; the browser's and `expect`'s own patience too (conftest.py). Only a failing test waits this long."""

TITLES = {
    "regimes": "What does the machine allow each regime?",
    "experts": "How much of the bank wakes up?",
    "pipeline": "What must one stage hold?",
    "energy": "Where do the joules of a token go?",
    "sessions": "How much of it is midfill?",
    "validation": "Predicted against measured",
}
"""A card of each page, by the page's key: where it is seen, the page is built."""
NO_EXPERTS = "has no routed experts"
"""What stands in place of the page Experts for a dense model."""

IDLE = "() => window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].is_idle"
DARK_FIGURES = """() => [...Bokeh.documents[0]._all_models.values()]
  .filter(model => model.type == "Figure").every(figure => figure.background_fill_color != "#FFFFFF")"""
FITS_WIDTH = "() => document.documentElement.scrollWidth <= innerWidth"
SOURCE = """name => {
  for (const model of Bokeh.documents[0]._all_models.values())
    if (model.type == "GlyphRenderer" && model.name == name) {
      const data = model.data_source.data
      return Object.fromEntries(Object.keys(data).map(key => [key, Array.from(data[key])]))
    }
}"""


class Opened:
    """A page of the app, what its console said, and what it asked of other hosts."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.said: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self._note(request.url))

    def _refuse(self, dialog: Any) -> None:
        self.said.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _note(self, url: str) -> None:
        if "://localhost" not in url and not url.startswith(("data:", "blob:")):
            self.foreign.append(url)

    def assert_quiet(self) -> None:
        """The console said nothing, and no other host was asked."""
        assert self.said == []
        assert self.foreign == []

    # ------------------------------------------------------------------------------------------------------------ by hand
    def open(self, query: str = "", width: int = 1280, height: int = 800) -> None:
        """Open the app and wait until the page that the query asks for is built.

        A picture far out of view is brought up to date only when the hand lets go: `height` decides which those are.
        """
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.goto(f"{self.url}?{query}")
        self.built(parse_qs(query).get("page", ["regimes"])[0])

    def built(self, page: str) -> None:
        """Wait until a page, by its key, is there and drawn."""
        title = self.page.get_by_text(TITLES[page], exact=True)
        expect(title.or_(self.page.get_by_text(NO_EXPERTS)).filter(visible=True).first).to_be_visible()
        self.page.wait_for_function(IDLE)

    def turn(self, page: str) -> None:
        """Turn to another tab, by its page's key, and wait until it is built."""
        self.page.get_by_role("tab", name=page.capitalize(), exact=True).click()
        expect(self.page.get_by_role("tab", name=page.capitalize(), exact=True)).to_have_attribute("aria-selected", "true")
        self.built(page)

    def darken(self) -> None:
        """The dark theme, down to the figures. Colours of labels fade in a little later."""
        self.page.locator('button[aria-label*="theme" i]').first.click()
        expect(self.page.locator(".mui-dark").first).to_be_attached()
        self.page.wait_for_function(DARK_FIGURES)

    def slider(self, name: str) -> Locator:
        """The slider whose name begins so."""
        return self.page.get_by_role("slider", name=re.compile("^" + re.escape(name)))

    def press(self, name: str, key: str, times: int = 1) -> None:
        """Keys on a slider. The address follows 300 ms after a key; with slow fingers also in between: see `agreed`."""
        expect(self.slider(name)).to_be_enabled()
        self.slider(name).focus()
        for _ in range(times):
            self.page.keyboard.press(key)

    def choose(self, label: str, option: str) -> None:
        """An option of a select; of several with one name, the one that is not folded away."""
        select = self.page.get_by_role("combobox", name=re.compile("^" + re.escape(label))).filter(visible=True).first
        select.click()
        self.page.get_by_role("menuitem", name=option, exact=True).click()

    # ------------------------------------------------------------------------------------------------------------ looking
    def address(self) -> str:
        """The browser's, which Playwright's own `url` follows a little later."""
        return str(self.page.evaluate("location.href"))

    def choices(self) -> Choices:
        """The choices that the address holds now."""
        choices, notices = from_query(self.address().partition("?")[2])
        assert not notices
        return choices

    def until(self, look: Callable[[], Seen]) -> Seen:
        """What a look at the page gives, once it asserts nothing wrong; else its last complaint is raised."""
        end = time.monotonic() + WAIT_MS / 1000
        while True:
            try:
                return look()
            except AssertionError:
                if time.monotonic() > end:
                    raise
            self.page.wait_for_timeout(100)

    def agreed(self, check: Callable[[Opened, Snapshot], None] | None = None, **chosen: Any) -> Snapshot:
        """The state of the address, once that holds what was chosen and `check`, by looking once, finds it on the page."""
        return self.until(lambda: self._agreed_now(check, chosen))

    def _agreed_now(self, check: Callable[[Opened, Snapshot], None] | None, chosen: dict[str, Any]) -> Snapshot:
        choices = self.choices()
        assert {name: getattr(choices, name) for name in chosen} == chosen
        s = Snapshot(choices, choices.scenario())
        if check is not None:
            check(self, s)
        return s

    def source(self, name: str) -> dict[str, Any]:
        """Columns of the first picture element of that name, numbers as arrays; looked at once."""
        found = self.page.evaluate(SOURCE, name)
        assert found is not None, f"no picture draws {name!r}"
        return {key: values if any(isinstance(v, str) for v in values) else np.array(values, float) for key, values in found.items()}

    def says(self, text: str, exact: bool = False) -> None:
        """The page has a sentence, given with or without its **bold**; `exact`: and nothing around it. Looked at once."""
        plain = text.replace("**", "")
        assert self.page.get_by_text(plain, exact=exact).filter(visible=True).count(), f"the page does not say: {plain}"

    def awaits(self, text: str | re.Pattern[str]) -> None:
        """Wait until the page says something."""
        expect(self.page.get_by_text(text).filter(visible=True).first).to_be_visible()

    def fits_width(self) -> None:
        """Nothing scrolls sideways, once the page had its time to settle in a new width."""
        self.page.wait_for_function(FITS_WIDTH)

"""One module per page: a class with `name`, `key`, `question` and `build()`, made from what a session gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from panel.viewable import Viewable

from app.live_pages import LivePages
from app.shell import ShowPanel
from app.state import Explorer, Snapshot


@dataclass(frozen=True)
class Context:
    """What a session gives a page.

    explorer: choices and snapshot; live: where the page registers its views and listeners, under its name.
    show_panel: opens the side panel; released: to be called when a choice is committed (axes follow, address is written).
    """

    explorer: Explorer
    live: LivePages[Snapshot]
    show_panel: ShowPanel
    released: Callable[[], None]


class PageView(Protocol):
    """A page: its tab, its key in the address, the question it answers, and its content, built when first shown."""

    name: ClassVar[str]
    key: ClassVar[str]
    question: ClassVar[str]

    def __init__(self, context: Context) -> None: ...

    def build(self) -> Viewable:
        """The content of the page."""
        ...

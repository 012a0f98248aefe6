"""The pictures of one session, page by page: only the shown page is updated, and its changes travel together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import panel as pn

from app.live import Carrier, Change, LiveView, by_patch
from app.theme import LIGHT, Theme
from app.view import View

S = TypeVar("S")
V = TypeVar("V", bound=View[Any])


class LivePages(Generic[S]):
    """The views of one session, by page: the shown page is pushed at once, the others when they are shown."""

    def __init__(self, snapshot: S) -> None:
        self._snapshot = snapshot
        self._views: dict[str, list[View[S]]] = {}
        self._listeners: dict[str, list[Callable[[S], None]]] = {}
        self._stale: set[str] = set()
        self._repaint: set[str] = set()
        self.shown: str | None = None
        self.theme = LIGHT
        self.carrier: Carrier = by_patch
        self._waiting: list[Change] | None = None

    def add(self, page: str, view: V) -> V:
        """Register a view on a page; a picture takes the present theme, and its changes travel with those of the others."""
        if isinstance(view, LiveView):
            view.theme, view.carrier = self.theme, self._carry
        self._views.setdefault(page, []).append(view)
        return view

    def listen(self, page: str, callback: Callable[[S], None]) -> None:
        """Call `callback(snapshot)` with every snapshot that `page` shows (its sentences, its table)."""
        self._listeners.setdefault(page, []).append(callback)

    @property
    def views(self) -> list[View[S]]:
        """All views of the session."""
        return [view for views in self._views.values() for view in views]

    def push(self, snapshot: S) -> None:
        """Show a snapshot on the visible page; the hidden ones become stale."""
        self._snapshot = snapshot
        self._stale = {*self._views, *self._listeners} - {self.shown}
        if self.shown is not None:
            self._update(self.shown)

    def show(self, page: str) -> None:
        """Make `page` the visible one, brought up to date if it is stale."""
        self.shown = page
        self._paint()
        if page in self._stale:
            self._update(page)
        self.refit()

    def _update(self, page: str) -> None:
        with self._together():
            for view in self._views.get(page, []):
                (view.push if view.on_screen else view.keep)(self._snapshot)
            for callback in self._listeners.get(page, []):
                callback(self._snapshot)
        self._stale.discard(page)

    def refit(self, force: bool = False) -> None:
        """On release: re-fit the axes of the visible page, and draw what was out of view during the drag."""
        with self._together():
            for view in self._views.get(self.shown or "", []):
                view.settle()
                view.refit(force)

    def set_theme(self, theme: Theme) -> None:
        """Light or dark: the shown page now, the others when they are shown."""
        self.theme = theme
        self._repaint = set(self._views)
        self._paint()

    def _paint(self) -> None:
        if self.shown in self._repaint:
            self._repaint.discard(self.shown)
            for view in self._views[self.shown]:
                view.set_theme(self.theme)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """All changes made inside travel in one message."""
        waiting: list[Change] = []
        self._waiting = waiting
        try:
            with pn.io.hold():
                yield
                self._waiting = None
                self._carry(waiting)
        finally:
            self._waiting = None

    def _carry(self, changes: Sequence[Change]) -> None:
        if self._waiting is not None:
            self._waiting += changes
        elif changes:
            self.carrier(changes)

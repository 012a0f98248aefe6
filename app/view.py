"""What follows the snapshots of a page, as long as it can be seen: a picture (`app.live`) or a table (`app.live_table`)."""

from __future__ import annotations

from typing import Generic, TypeVar

from panel.viewable import Viewable

from app.theme import Theme

S = TypeVar("S")


class View(Generic[S]):
    """Shows a snapshot when it is pushed; out of view it keeps the last one for later."""

    def __init__(self, snapshot: S) -> None:
        self.on_screen = True
        self._snapshot = snapshot

    @property
    def pane(self) -> Viewable:
        """The Panel object to lay out; always the same one."""
        raise NotImplementedError

    def push(self, snapshot: S) -> int:
        """Show another snapshot; how much of it was sent."""
        raise NotImplementedError

    def keep(self, snapshot: S) -> None:
        """Note another snapshot without showing it: while a slider is dragged, out of view."""
        self._snapshot = snapshot

    def settle(self) -> int:
        """Show the snapshot that was kept last."""
        return self.push(self._snapshot)

    def see(self, on_screen: bool) -> None:
        """The browser says whether this is in view; coming into view brings it up to date."""
        self.on_screen = on_screen
        if on_screen:
            self.settle()

    def refit(self, force: bool = False) -> None:
        """Move axes to where the present snapshot belongs, if there are any. Called on release."""

    def set_theme(self, theme: Theme) -> None:
        """Light or dark, for what does not follow the page's style sheet."""

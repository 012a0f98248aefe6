"""The browser's address bar, which holds the state: Panel would write it, but not notice Back and Forward."""

from __future__ import annotations

from collections.abc import Callable


class Address:
    """`search` is the query with its "?"; setting it adds an entry to the browser's history."""

    def __init__(self, search: str = "") -> None:
        self._search = search
        self._write: Callable[[str], None] = lambda _: None

    @property
    def search(self) -> str:
        """The query as the browser shows it."""
        return self._search

    @search.setter
    def search(self, query: str) -> None:
        self._search = query
        self._write(query)

    def written_by(self, write: Callable[[str], None]) -> None:
        """Who tells the browser."""
        self._write = write

    def went(self, search: str) -> None:
        """The browser is there already: Back or Forward."""
        self._search = search

"""A table that follows a slider while it can be seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from app.components import DataTable
from app.quiet import tell
from app.view import View

S = TypeVar("S")


class LiveTable(View[S]):
    """One table on one page: `content(snapshot)` gives its rows, and its columns where they can change."""

    def __init__(self, content: Callable[[S], Mapping[str, Any]], snapshot: S, **params: Any) -> None:
        super().__init__(snapshot)
        self.table = DataTable(**params, **content(snapshot))
        self._content = content

    @property
    def pane(self) -> DataTable:
        """The table, to lay out."""
        return self.table

    def push(self, snapshot: S) -> int:
        """Show the rows of another snapshot; 1 if any text differs."""
        self._snapshot = snapshot
        return int(tell(self.table, **self._content(snapshot)))

"""A table that follows a slider while it can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.cells import Column, Row
from app.components import DataTable
from app.quiet import tell
from app.view import View

S = TypeVar("S")


class LiveTable(View[S]):
    """One table on one page; `columns` is a function too where the columns can change."""

    def __init__(
        self, columns: list[Column] | Callable[[S], list[Column]], rows: Callable[[S], list[Row]], snapshot: S, clickable: bool = False
    ) -> None:
        super().__init__(snapshot)
        self._columns = columns if callable(columns) else lambda _: columns
        self._rows = rows
        self.table = DataTable(columns=self._columns(snapshot), rows=rows(snapshot), clickable=clickable)

    @property
    def pane(self) -> DataTable:
        """The table, to lay out."""
        return self.table

    def push(self, snapshot: S) -> int:
        """Show the rows of another snapshot; 1 if any text differs."""
        self._snapshot = snapshot
        return int(tell(self.table, columns=self._columns(snapshot), rows=self._rows(snapshot)))

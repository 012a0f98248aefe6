"""Pictures that follow a slider: a HoloViews overlay is built once, then only the columns of its Bokeh sources are patched.

A `Picture` is two pure functions: `build(snapshot)` draws the overlay with fixed limits and fixed lengths, and
`columns(snapshot)` gives, for each labelled element of it that changes, the columns that change. The same pair serves the
page (`LiveView`, its changes carried by `app.feed`), a notebook (`LiveView` too, patched over its comm) and the offline report
(`drawn`: a bare Bokeh figure with its sources by name, whose tables are the same columns).

Rules for a Picture: lengths never change (gaps are NaN), every changing element has a unique `label`, and the names of the
columns are those HoloViews gave the Bokeh source. Nothing here creates a Bokeh model on an update.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, GlyphRenderer
from panel.viewable import Viewable

from app.picture import AxisNames, Columns, Limits, Picture, Values, prepared
from app.stencil import stencil
from app.theme import LIGHT, Theme, recolor, spoken_title, tick_formatter
from app.view import View

S = TypeVar("S")


def _same(old: Values, new: Values) -> bool:
    if isinstance(new, list):
        return bool(list(old) == new)
    # Bytes rather than np.array_equal, which takes ten times as long for columns this short; a NaN equals itself.
    return isinstance(old, np.ndarray) and old.astype(np.float32, copy=False).tobytes() == new.tobytes()


REST_MS = 300


class Change(NamedTuple):
    """New values of one column of a source, as `prepared`."""

    source: ColumnDataSource
    column: str
    values: Values


Carrier = Callable[[Sequence[Change]], None]
"""Puts changes into the sources, and tells the browser."""


def by_patch(changes: Sequence[Change]) -> None:
    """Bokeh's own way, one event a column: for a notebook."""
    for source, column, values in changes:
        source.patch({column: [(slice(None), values)]})


class _Mark(NamedTuple):
    """The Bokeh side of one labelled element in one figure: a source, or a model whose properties are set."""

    source: ColumnDataSource | None
    model: Any


def _install(source: ColumnDataSource, label: str, columns: Mapping[str, Values]) -> None:
    """First values of a fresh source: private float32 copies, so that no two sources or snapshots share memory."""
    missing = sorted(set(columns) - set(source.data))
    if missing:
        raise KeyError(f"element {label!r} has no column {missing}; HoloViews named them {sorted(source.data)}")
    fresh = {name: prepared(values) for name, values in columns.items()}
    wrong = [n for n, v in fresh.items() if len(v) != len(source.data[n])]
    if wrong:
        raise ValueError(f"element {label!r}: columns {wrong} have another length than was built")
    source.data = dict(source.data) | fresh


def _changes(source: ColumnDataSource, columns: Mapping[str, Values]) -> Iterator[Change]:
    """The columns that differ. A source whose document was destroyed has no columns and is skipped."""
    for name, values in columns.items():
        old = source.data.get(name)
        if old is None:
            continue
        new = prepared(values)
        if len(old) != len(new):
            raise ValueError(f"column {name!r} changed its length from {len(old)} to {len(new)}: pad it with NaN")
        if not _same(old, new):
            yield Change(source, name, new)


def _scalars(model: Any, values: Mapping[str, Values]) -> int:
    changed = {name: value for name, value in values.items() if getattr(model, name) != value}
    if changed:
        model.update(**changed)
    return len(changed)


class FigurePane(pn.pane.base.Pane):  # type: ignore[misc]  # panel carries no types
    """A LiveView in a layout: a figure of its own for each place where it is shown."""

    @classmethod
    def applies(cls, obj: Any) -> bool:
        """Views only."""
        return isinstance(obj, LiveView)

    def _get_model(self, doc: Any, root: Any = None, parent: Any = None, comm: Any = None) -> Any:
        if root is None:
            return self.get_root(doc, comm)
        view: LiveView[Any] = self.object
        model = view.figure()
        model.update(sizing_mode="stretch_width", width=None, height=None, min_height=view.picture.min_height, margin=0)
        self._models[root.ref["id"]] = (model, parent)
        return model


class LiveView(View[S]):
    """One Picture on one page of one session. Keep a reference to it as long as its pane is shown.

    >>> import holoviews as hv
    >>> hv.extension("bokeh")
    >>> picture = Picture(lambda s: hv.Curve(([1, 2], s), label="line") * hv.Curve([]), lambda s: {"line": {"y": s}})
    >>> view = LiveView(picture, [3.0, 4.0])
    >>> figure = view.figure()
    >>> view.push([5.0, 6.0])
    1
    >>> [source.data["y"].tolist() for source in view.sources("line")]
    [[5.0, 6.0]]
    """

    def __init__(self, picture: Picture[S], snapshot: S, theme: Theme = LIGHT) -> None:
        super().__init__(snapshot)
        self.picture = picture
        self.theme = theme
        self.carrier: Carrier = by_patch
        self._moving = False
        self._marks: dict[str, list[_Mark]] = {}
        self._figures: weakref.WeakSet[Any] = weakref.WeakSet()
        self._fitted: weakref.WeakKeyDictionary[Any, Limits] = weakref.WeakKeyDictionary()
        self._named: AxisNames | None = picture.axes(snapshot) if picture.axes else None
        self._taps: list[Callable[[str, int], None]] = []
        self._drags: dict[str, tuple[Callable[[float], None], Callable[[], None]]] = {}
        self._resting: Any = None
        self._drawn: list[Callable[[Any], None]] = []
        self._pane: FigurePane | None = None
        self._shown: Columns | None = None

    # ------------------------------------------------------------------------------------------------------------- drawing
    @property
    def pane(self) -> Viewable:
        """The Panel object to lay out; always the same one."""
        if self._pane is None:
            self._pane = FigurePane(self, sizing_mode="stretch_width", margin=0)
        return self._pane

    def figure(self) -> Any:
        """A Bokeh figure of the present snapshot, which follows the next ones."""
        drawn = stencil(self.picture, self._snapshot)
        figure, columns = drawn.copy(), self.picture.columns(self._snapshot)
        self._figures.add(figure)
        self._shown = None  # other figures may show an older snapshot
        for model in (*figure.renderers, *figure.center):
            if model.name:
                self._remember(model, model.name, columns.get(model.name, {}))
        if self.theme is not LIGHT:
            recolor(figure, self.theme)
        names = self.picture.axes(self._snapshot) if self.picture.axes else None
        if names is not None and names != drawn.axes:
            _entitle(figure, names)
        if self.picture.limits is not None:
            self._place(figure, self.picture.limits(self._snapshot), force=True)
        for callback in self._drawn:
            callback(figure)
        return figure

    def sources(self, label: str) -> list[ColumnDataSource]:
        """The live sources of one element, one for each place it is shown."""
        return [mark.source for mark in self._marks.get(label, []) if mark.source is not None]

    def _remember(self, model: Any, label: str, values: Mapping[str, Values]) -> None:
        """Note what an element became in a fresh figure, and give it the present values."""
        if isinstance(model, GlyphRenderer):
            mark = _Mark(model.data_source, None)
            _install(model.data_source, label, values)
            model.data_source.selected.on_change("indices", lambda _a, _o, new: self._tapped(label, new))
        else:
            mark = _Mark(None, model)
            _scalars(model, values)
            self._make_draggable(label, model)
        self._marks.setdefault(label, []).append(mark)

    # ------------------------------------------------------------------------------------------------------------ updating
    def push(self, snapshot: S) -> int:
        """Show another snapshot: send what differs; the number of columns (and properties) sent."""
        self._snapshot = snapshot
        if not self._marks:
            return 0
        changes: list[Change] = []
        scalars = 0
        columns = self.picture.columns(snapshot)
        if columns is self._shown and self.picture.axes is None:
            return 0
        self._shown = columns
        with self._batch(), self._by_us():
            self._name_axes(snapshot)
            for label, values in columns.items():
                for mark in self._marks.get(label, []):
                    if mark.source is not None:
                        changes += _changes(mark.source, values)
                    else:
                        scalars += _scalars(mark.model, values)
            self.carrier(changes)
        return len(changes) + scalars

    def _name_axes(self, snapshot: S) -> None:
        """Another quantity on an axis: new title, new ticks, and the limits follow, since the old ones mean nothing now."""
        names = self.picture.axes(snapshot) if self.picture.axes else None
        if names is None or names == self._named:
            return
        self._named = names
        for figure in list(self._figures):
            _entitle(figure, names)
            if self.picture.limits is not None:
                self._place(figure, self.picture.limits(snapshot), force=True)

    def refit(self, force: bool = False) -> None:
        """Move the axes to where the present snapshot belongs; a zoom made by hand stays unless `force`. Call it on release."""
        if self.picture.limits is None:
            return
        limits = self.picture.limits(self._snapshot)
        with self._batch():
            for figure in list(self._figures):
                self._place(figure, limits, force)

    def _place(self, figure: Any, limits: Limits, force: bool) -> None:
        shown = (figure.x_range.start, figure.x_range.end, figure.y_range.start, figure.y_range.end)
        fitted = self._fitted.get(figure)
        zoomed = fitted is not None and None not in shown and not np.allclose(shown, fitted, rtol=1e-6, atol=0)
        x0, x1, y0, y1 = limits
        for axis, start, end in ((figure.x_range, x0, x1), (figure.y_range, y0, y1)):
            axis.update(reset_start=start, reset_end=end)
            if force or not zoomed:
                axis.update(start=start, end=end)
        if force or not zoomed:
            self._fitted[figure] = limits

    def set_theme(self, theme: Theme) -> None:
        """Light or dark, in place."""
        self.theme = theme
        with self._batch():
            for figure in list(self._figures):
                recolor(figure, theme)

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """One message for everything inside; in a notebook, push it afterwards."""
        self._forget_dead()
        document = next((figure.document for figure in self._figures if figure.document is not None), None)
        with pn.io.hold(document):
            yield
        if self._pane is not None and document is not None and document.session_context is None:
            pn.io.push_notebook(self._pane)

    def _forget_dead(self) -> None:
        """Drop marks of renderings whose document is gone, so that a re-render does not double the work for ever."""
        if sum(figure.document is not None for figure in self._figures) == 0:
            return
        for label, marks in self._marks.items():
            alive = [m for m in marks if (m.source if m.source is not None else m.model).document is not None]
            self._marks[label] = alive or marks

    # --------------------------------------------------------------------------------------------------------- interaction
    def on_tap(self, callback: Callable[[str, int], None]) -> None:
        """Call `callback(label, index)` when a point is clicked; its element needs `tools=["tap"]`."""
        self._taps.append(callback)

    def _tapped(self, label: str, indices: list[int]) -> None:
        for callback in self._taps if indices else []:
            callback(label, indices[0])

    def on_drawn(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(figure)` with each Bokeh figure that is drawn."""
        self._drawn.append(callback)

    def on_drag(self, label: str, moved: Callable[[float], None], released: Callable[[], None] = lambda: None) -> None:
        """Let the VLine or HLine `label` be dragged: `moved(location)` at every step, `released()` once it rests.

        Call it before the first drawing.
        """
        self._drags[label] = (moved, released)

    def _make_draggable(self, label: str, span: Any) -> None:
        if label in self._drags:
            span.update(editable=True, hover_line_color=span.line_color)
            span.on_change("location", lambda _a, _o, new: None if self._moving else self._dragged(label, float(new), span.document))

    def _dragged(self, label: str, location: float, document: Any) -> None:
        """Bokeh does not say when a line is let go: it was when it has rested for a moment."""
        moved, released = self._drags[label]
        moved(location)
        if document is None or document.session_context is None:
            released()
            return
        if self._resting is not None:
            document.remove_timeout_callback(self._resting)
        self._resting = document.add_timeout_callback(lambda: self._rested(released), REST_MS)

    def _rested(self, released: Callable[[], None]) -> None:
        self._resting = None
        released()

    @contextmanager
    def _by_us(self) -> Iterator[None]:
        """A line that follows a slider is not being dragged: to answer would show the same snapshot again."""
        self._moving = True
        try:
            yield
        finally:
            self._moving = False


def _entitle(figure: Any, names: AxisNames) -> None:
    for axis, title, unit in ((figure.xaxis, names.x, names.x_unit), (figure.yaxis, names.y, names.y_unit)):
        axis.axis_label = spoken_title(title, unit)
        axis.formatter = tick_formatter(unit)


class Drawn(NamedTuple):
    """A bare Bokeh figure and what follows a slider in it: each labelled element's source, or the mark without one."""

    figure: Any
    sources: dict[str, ColumnDataSource]
    marks: dict[str, Any]


def drawn(picture: Picture[S], snapshot: S, theme: Theme = LIGHT) -> Drawn:
    """Draw a picture without server, session or pane: what the offline report slices its tables into."""
    view = LiveView(picture, snapshot, theme)
    figure = view.figure()
    found = {label: marks[0] for label, marks in view._marks.items() if marks}
    sources = {label: mark.source for label, mark in found.items() if mark.source is not None}
    return Drawn(figure, sources, {label: mark.model for label, mark in found.items() if mark.source is None})

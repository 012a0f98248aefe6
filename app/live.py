"""Pictures that follow a slider: a HoloViews overlay is built once, then only the columns of its Bokeh sources are patched.

A `Picture` is two pure functions: `build(snapshot)` draws the overlay with fixed limits and fixed lengths, and
`columns(snapshot)` gives, for each labelled element of it that changes, the columns that change. The same pair serves the
page (`LiveView`, patched over the websocket), a notebook (`LiveView` too, pushed over its comm) and the offline report
(`drawn`: a bare Bokeh figure with its sources by name, whose tables are the same columns).

Rules for a Picture: lengths never change (gaps are NaN), every changing element has a unique `label`, and the names of the
columns are those HoloViews gave the Bokeh source. Nothing here creates a Bokeh model on an update.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import holoviews as hv
import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, Span

from app.picture import AxisNames, Columns, Limits, Picture, Values
from app.quantities import unit_of
from app.theme import LIGHT, Theme, axis_title, recolor, tick_formatter

S = TypeVar("S")
SHORT = 16
"""Columns up to this long travel as text: an array costs two messages of its own, which is most of a step with many marks."""


def prepared(values: Values) -> Values:
    """A column as it is stored and sent: numbers as a fresh float32 array, text as a fresh list of str."""
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        return [str(value) for value in array.tolist()]
    return np.array(array, dtype=np.float32)


def _same(old: Values, new: Values) -> bool:
    if isinstance(new, list):
        return bool(list(old) == new)
    # Bytes rather than np.array_equal, which takes ten times as long for columns this short; a NaN equals itself.
    return isinstance(old, np.ndarray) and old.astype(np.float32, copy=False).tobytes() == new.tobytes()


class _Mark(NamedTuple):
    """The Bokeh side of one labelled element in one rendering: a source, or a model whose properties are set."""

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


def _patch(source: ColumnDataSource, columns: Mapping[str, Values]) -> int:
    """Send the columns that differ; the number sent. A source whose document was destroyed has no columns and is skipped."""
    changes = {}
    for name, values in columns.items():
        old, new = source.data.get(name), prepared(values)
        if old is None:
            continue
        if len(old) != len(new):
            raise ValueError(f"column {name!r} changed its length from {len(old)} to {len(new)}: pad it with NaN")
        if not _same(old, new):
            changes[name] = [(slice(None), new.tolist() if len(new) <= SHORT and isinstance(new, np.ndarray) else new)]
    if changes:
        source.patch(changes)
    return len(changes)


def _scalars(model: Any, values: Mapping[str, Values]) -> int:
    changed = {name: value for name, value in values.items() if getattr(model, name) != value}
    if changed:
        model.update(**changed)
    return len(changed)


class LiveView(Generic[S]):
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
        self.picture = picture
        self.theme = theme
        self.on_screen = True
        self._snapshot = snapshot
        self._marks: dict[str, list[_Mark]] = {}
        self._figures: weakref.WeakSet[Any] = weakref.WeakSet()
        self._fitted: weakref.WeakKeyDictionary[Any, Limits] = weakref.WeakKeyDictionary()
        self._named: AxisNames | None = picture.axes(snapshot) if picture.axes else None
        self._taps: list[Callable[[str, int], None]] = []
        self._drags: dict[str, Callable[[float], None]] = {}
        self._drawn: list[Callable[[Any], None]] = []
        self._overlay: hv.Overlay | None = None
        self._pane: pn.pane.HoloViews | None = None
        self._problem: Exception | None = None
        self._columns: tuple[S, Columns] | None = None

    # ------------------------------------------------------------------------------------------------------------- drawing
    @property
    def overlay(self) -> hv.Overlay:
        """The overlay with its hooks, built at the first use."""
        if self._overlay is None:
            built = self.picture.build(self._snapshot)
            on_element, on_overlay = _hooks(weakref.ref(self))
            for element in built:
                if element.label:
                    element.opts(hooks=[*_own_hooks(element), on_element])
            self._overlay = built.opts(hooks=[*_own_hooks(built), on_overlay])
        return self._overlay

    @property
    def pane(self) -> pn.pane.HoloViews:
        """The Panel object to lay out; always the same one."""
        if self._pane is None:
            self._pane = pn.pane.HoloViews(
                self.overlay, linked_axes=False, sizing_mode="stretch_width", min_height=self.picture.min_height, margin=0
            )
        return self._pane

    def figure(self) -> Any:
        """A bare Bokeh figure of the present snapshot, without Panel."""
        figure = hv.render(self.overlay, backend="bokeh")
        self._raise_problem()
        return figure

    def _raise_problem(self) -> None:
        """HoloViews turns errors inside hooks into warnings; a picture and its columns that disagree must not pass."""
        if self._problem is not None:
            raise self._problem

    def sources(self, label: str) -> list[ColumnDataSource]:
        """The live sources of one element, one for each place it is shown."""
        return [mark.source for mark in self._marks.get(label, []) if mark.source is not None]

    def _remember(self, plot: Any, label: str) -> None:
        """Element hook: note the source (or the mark itself), and give it the present values."""
        source = plot.handles.get("source")
        line_annotation = source is None or (not source.data and isinstance(plot.handles.get("glyph"), Span))
        mark = _Mark(None, plot.handles["glyph"]) if line_annotation else _Mark(source, None)
        self._marks.setdefault(label, []).append(mark)
        if "glyph_renderer" in plot.handles:
            plot.handles["glyph_renderer"].name = label  # found by name in the browser: tests, report
        values = self._present_columns().get(label, {})
        if mark.source is not None:
            _install(mark.source, label, values)
            mark.source.selected.on_change("indices", lambda _a, _o, new: self._tapped(label, new))
        else:
            _scalars(mark.model, values)
            self._make_draggable(label, mark.model)

    def _present_columns(self) -> Columns:
        """Columns of the present snapshot, worked out once for all elements of a drawing."""
        if self._columns is None or self._columns[0] is not self._snapshot:
            self._columns = (self._snapshot, self.picture.columns(self._snapshot))
        return self._columns[1]

    def _finish(self, plot: Any) -> None:
        """Overlay hook: limits and theme of a fresh figure; forget renderings that are gone."""
        figure = plot.state
        self._figures.add(figure)
        if self.theme is not LIGHT:
            recolor(figure, self.theme)
        if self.picture.limits is not None:
            self._place(figure, self.picture.limits(self._snapshot), force=True)
        for callback in self._drawn:
            callback(figure)

    # ------------------------------------------------------------------------------------------------------------ updating
    def push(self, snapshot: S) -> int:
        """Show another snapshot: patch what differs; the number of columns (and properties) sent."""
        self._snapshot = snapshot
        self._raise_problem()
        if not self._marks:
            return 0
        sent = 0
        with self._batch():
            self._name_axes(snapshot)
            for label, values in self.picture.columns(snapshot).items():
                for mark in self._marks.get(label, []):
                    sent += _patch(mark.source, values) if mark.source is not None else _scalars(mark.model, values)
        return sent

    def keep(self, snapshot: S) -> None:
        """Note another snapshot without drawing it: while a slider is dragged, for a picture scrolled out of view."""
        self._snapshot = snapshot

    def settle(self) -> int:
        """Draw the snapshot that was kept last."""
        return self.push(self._snapshot)

    def see(self, on_screen: bool) -> None:
        """The browser says whether the picture is in view; coming into view brings it up to date."""
        self.on_screen = on_screen
        if on_screen:
            self.settle()

    def _name_axes(self, snapshot: S) -> None:
        """Another quantity on an axis: new title, new ticks, and the limits follow, since the old ones mean nothing now."""
        names = self.picture.axes(snapshot) if self.picture.axes else None
        if names is None or names == self._named:
            return
        self._named = names
        for figure in list(self._figures):
            for axis, title, unit in ((figure.xaxis, names.x, names.x_unit), (figure.yaxis, names.y, names.y_unit)):
                axis.axis_label = axis_title(title, unit) if unit_of(unit).word else title
                axis.formatter = tick_formatter(unit)
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

    def on_drag(self, label: str, callback: Callable[[float], None]) -> None:
        """Let the VLine or HLine `label` be dragged: `callback(location)` at every step. Call it before the first drawing."""
        self._drags[label] = callback

    def _make_draggable(self, label: str, span: Any) -> None:
        callback = self._drags.get(label)
        if callback is not None:
            span.update(editable=True, hover_line_color=span.line_color)
            span.on_change("location", lambda _a, _o, new: callback(float(new)))


def _hooks(reference: weakref.ref[Any]) -> tuple[Callable[[Any, Any], None], Callable[[Any, Any], None]]:
    """(element hook, overlay hook) that do not keep the view alive: HoloViews' option store is global and would leak it."""

    def element_hook(plot: Any, element: Any) -> None:
        view = reference()
        if view is None:
            return
        try:
            view._remember(plot, element.label)
        except (KeyError, ValueError) as problem:
            view._problem = problem

    def overlay_hook(plot: Any, _element: Any) -> None:
        view = reference()
        if view is not None:
            view._finish(plot)

    return element_hook, overlay_hook


def _own_hooks(element: Any) -> list[Any]:
    return list(hv.Store.lookup_options("bokeh", element, "plot").kwargs.get("hooks", []))


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


class LivePages(Generic[S]):
    """The views of one session, by page: the shown page is pushed at once, the others when they are shown."""

    def __init__(self, snapshot: S) -> None:
        self._snapshot = snapshot
        self._views: dict[str, list[LiveView[S]]] = {}
        self._listeners: dict[str, list[Callable[[S], None]]] = {}
        self._stale: set[str] = set()
        self.shown: str | None = None
        self.theme = LIGHT

    def add(self, page: str, view: LiveView[S]) -> LiveView[S]:
        """Register a view on a page; it takes the present theme."""
        view.theme = self.theme
        self._views.setdefault(page, []).append(view)
        return view

    def listen(self, page: str, callback: Callable[[S], None]) -> None:
        """Call `callback(snapshot)` with every snapshot that `page` shows (its sentences, its table)."""
        self._listeners.setdefault(page, []).append(callback)

    @property
    def views(self) -> list[LiveView[S]]:
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
        if page in self._stale:
            self._update(page)
        self.refit()

    def _update(self, page: str) -> None:
        with pn.io.hold():
            for view in self._views.get(page, []):
                (view.push if view.on_screen else view.keep)(self._snapshot)
            for callback in self._listeners.get(page, []):
                callback(self._snapshot)
        self._stale.discard(page)

    def refit(self, force: bool = False) -> None:
        """On release: re-fit the axes of the visible page, and draw what was out of view during the drag."""
        with pn.io.hold():
            for view in self._views.get(self.shown or "", []):
                view.settle()
                view.refit(force)

    def set_theme(self, theme: Theme) -> None:
        """Light or dark, all pages."""
        self.theme = theme
        for view in self.views:
            view.set_theme(theme)

"""HoloViews draws a picture once in a process; each page, notebook cell and report gets a copy of the Bokeh figure it made.

Drawing costs HoloViews about 20 ms an element and most of a first paint, copying a Bokeh figure a tenth of it. A copy is exact,
because a `Picture` may change its columns, limits and axis names only, and `app.live` puts those of the snapshot into each copy.
"""

from __future__ import annotations

import weakref
from typing import Any

import holoviews as hv
from bokeh.core.property.validation import validate
from bokeh.core.serialization import Deserializer, Serializer
from bokeh.models import AllIndices, GlyphRenderer, Span, UnionRenderers
from bokeh.util.serialization import make_id

from app.picture import AxisNames, Picture

_DRAWN: weakref.WeakKeyDictionary[Picture[Any], Stencil] = weakref.WeakKeyDictionary()


class Stencil:
    """One picture as HoloViews drew it: `copy()` gives figures, `axes` is what their axes are called."""

    def __init__(self, picture: Picture[Any], snapshot: Any) -> None:
        self.axes: AxisNames | None = picture.axes(snapshot) if picture.axes else None
        self._figure = Serializer(deferred=False).encode(_drawn(picture.build(snapshot)))

    def copy(self) -> Any:
        """A Bokeh figure of its own, in the light theme; each labelled element is named by its label."""
        with validate(False):  # every value was checked when it was drawn
            return Deserializer().decode(_renamed(self._figure, {}))


def stencil(picture: Picture[Any], snapshot: Any) -> Stencil:
    """The stencil of a picture; `snapshot` is any one it can show, for the first drawing."""
    found = _DRAWN.get(picture)
    if found is None:
        found = _DRAWN[picture] = Stencil(picture, snapshot)
    return found


_LIMITED = {"apply_ranges": False, "normalize": False}
"""A picture says its limits: HoloViews would search every element for them, a fifth of a drawing."""


def _drawn(overlay: hv.Overlay) -> Any:
    for element in overlay:
        named = [_name] if element.label else []
        element.opts(hooks=[*_own_hooks(element), *named], **_LIMITED)
    figure = hv.renderer("bokeh").get_plot(overlay, **_LIMITED).state
    # Fewer models, since Bokeh counts all of them at every message: no looks for what is selected or muted, none of which differs
    # here, and one of each of what has no state.
    rows, policy = AllIndices(), UnionRenderers()
    for renderer in figure.select(GlyphRenderer):
        renderer.update(selection_glyph=None, nonselection_glyph=None, muted_glyph=None)
        renderer.view.filter, renderer.data_source.selection_policy = rows, policy
    return figure


def _own_hooks(element: Any) -> list[Any]:
    return list(hv.Store.lookup_options("bokeh", element, "plot").kwargs.get("hooks", []))


def _name(plot: Any, element: Any) -> None:
    """Let what an element became be found by the element's label: in a copy, in the browser, in a report."""
    glyph = plot.handles.get("glyph")
    plot.handles["glyph_renderer" if not isinstance(glyph, Span) else "glyph"].name = element.label


def _renamed(part: Any, ids: dict[str, str]) -> Any:
    """The figure's parts with fresh ids, since one document may hold several copies."""
    if isinstance(part, list | tuple):
        return [_renamed(item, ids) for item in part]
    if not isinstance(part, dict):
        return part
    fresh = {name: _renamed(value, ids) for name, value in part.items() if name != "id"}
    if "id" in part:
        if part["id"] not in ids:
            ids[part["id"]] = make_id()
        fresh["id"] = ids[part["id"]]
    return fresh

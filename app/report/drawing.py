"""The figures of a report: drawn once by HoloViews, written as one Bokeh document, and what the script finds in them by id.

Importing this module loads Panel and the drawing half of HoloViews, so a report does it while its tables are worked out elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import holoviews as hv
from bokeh.document import Document
from bokeh.resources import Resources
from bokeh.util.serialization import make_globally_unique_css_safe_id, make_globally_unique_id
from markupsafe import Markup

from app.live import Drawn, drawn
from app.picture import Picture
from app.report import contents
from app.report.contents import Figure
from app.state import Snapshot
from app.theme import bokeh_theme, dark_colors

Group = Mapping[str, Drawn]
"""Figures of one state by key."""


def drawings(snapshots: Sequence[Snapshot]) -> list[Group]:
    """The figures of each state."""
    hv.extension("bokeh")
    return [{figure.key: _drawn(figure, s, i) for figure in contents.shown(s)} for i, s in enumerate(snapshots)]


def _drawn(figure: Figure, snapshot: Snapshot, i: int) -> Drawn:
    made = drawn(_lean(figure.picture, contents.empty(snapshot)), snapshot)
    made.figure.update(
        sizing_mode="stretch_width", height=figure.picture.min_height, min_height=None, output_backend="canvas", name=f"{figure.key} {i}"
    )
    return made


@cache
def _lean(picture: Picture[Snapshot], empty: frozenset[str]) -> Picture[Snapshot]:
    """The picture without the elements that stay empty in a report, which cost drawing and painting all the same.

    One for all states, so that the second of them gets a copy of what was drawn for the first.
    """

    def build(s: Snapshot) -> Any:
        whole = picture.build(s)
        return whole.clone([(key, element) for key, element in whole.data.items() if element.label.partition(" ")[0] not in empty])

    def columns(s: Snapshot) -> Any:
        return {label: part for label, part in picture.columns(s).items() if label.partition(" ")[0] not in empty}

    return replace(picture, build=build, columns=columns)


def wiring(made: Drawn) -> dict[str, Any]:
    """What the script finds of a figure by id: sources and marks by element, and each colour in both themes."""
    return {
        "id": made.figure.id,
        "sources": {label: source.id for label, source in made.sources.items()},
        "marks": {label: mark.id for label, mark in made.marks.items()},
        "colors": [[model.id, *rest] for model, *rest in dark_colors(made.figure)],
    }


def plots(groups: Sequence[Group]) -> dict[str, Any]:
    """BokehJS itself and the figures as one document of it; nothing else that other packages registered with Bokeh.

    Callbacks of the live view stay behind in the figures: a file has no Python to call.
    """
    document = Document(theme=bokeh_theme())
    with document.models.freeze():
        for group in groups:
            for made in group.values():
                document.add_root(made.figure)
    name = make_globally_unique_id()
    places = {root.id: make_globally_unique_css_safe_id() for root in document.roots}
    return {
        "library": [Markup(text) for text in Resources(mode="inline", components=["bokeh"]).js_raw],
        "docs": {name: document.to_json(deferred=False)},
        "items": [{"docid": name, "roots": places, "root_ids": list(places)}],
        "places": places,
    }

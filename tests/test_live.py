"""A view shows exactly the snapshot it was given, wherever and whenever it is drawn."""

import gc
import weakref

import holoviews as hv
import numpy as np
import panel as pn
import pytest
from bokeh.document import Document

from app.live import LiveView, Picture, drawn
from app.live_pages import LivePages
from app.theme import DARK, LIGHT, line, shared_options

hv.extension("bokeh")
X = np.geomspace(1.0, 1e6, 50)


def build(snapshot):
    scale = snapshot["scale"]
    overlay = (
        hv.Curve((X, scale * X), "context", "seconds", label="curve").opts(color=line("midfill"))
        * hv.Points(([10.0, 100.0], [scale, scale]), ["context", "seconds"], label="points").opts(color=line("prefill"), size=8)
        * hv.Segments(([1.0], [scale], [10.0], [scale]), ["context", "seconds", "x1", "y1"], label="segments")
        * hv.Labels(([10.0], [scale], [snapshot["text"]]), ["context", "seconds"], "text", label="label")
        * hv.VLine(snapshot["cursor"], label="cursor")
    )
    return overlay.opts(shared_options(logx=True, logy=True, xlim=(1, 1e6), ylim=(1, 1e6)))


def columns(snapshot):
    scale = snapshot["scale"]
    return {
        "curve": {"seconds": scale * X},
        "points": {"seconds": [scale, np.nan]},
        "segments": {"seconds": [scale], "y1": [2 * scale]},
        "label": {"seconds": [scale], "text": [snapshot["text"]]},
        "cursor": {"location": snapshot["cursor"]},
    }


def limits(snapshot):
    return 1.0, 1e6, snapshot["scale"], 1e7 * snapshot["scale"]


PICTURE = Picture(build, columns, limits)
FIRST = {"scale": 1.0, "text": "one", "cursor": 10.0}
SECOND = {"scale": 3.0, "text": "two", "cursor": 20.0}


def assert_shows(view, snapshot):
    for label, values in columns(snapshot).items():
        for source in view.sources(label):
            for name, expected in values.items():
                got = source.data[name]
                if isinstance(expected[0], str):
                    assert list(got) == expected
                else:
                    np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(expected, np.float32))


def rendered(view):
    document = Document()
    document.add_root(view.pane.get_root(document))
    return document


def test_first_drawing_shows_the_snapshot_it_was_made_with():
    view = LiveView(PICTURE, FIRST)
    rendered(view)
    assert_shows(view, FIRST)


def test_update_patches_every_source_to_the_snapshot_and_makes_no_model():
    view = LiveView(PICTURE, FIRST)
    document = rendered(view)
    before = len(document.models)
    assert view.push(SECOND) == 7
    assert_shows(view, SECOND)
    assert len(document.models) == before
    assert view.push(SECOND) == 0


def test_drawing_after_updates_starts_at_the_present_snapshot():
    view = LiveView(PICTURE, FIRST)
    view.push(SECOND)
    rendered(view)
    assert_shows(view, SECOND)


def test_shared_options_reach_the_figure():
    figure = LiveView(PICTURE, FIRST).figure()
    assert (figure.x_range.start, figure.x_range.end) == (1, 1e6)
    assert type(figure.x_scale).__name__ == "LogScale"
    assert figure.toolbar.autohide


def test_two_renderings_of_one_view_are_both_updated():
    view = LiveView(PICTURE, FIRST)
    documents = [rendered(view), rendered(view)]
    view.push(SECOND)
    assert len(view.sources("curve")) == len(documents)
    assert_shows(view, SECOND)


def test_sessions_do_not_see_each_other():
    first, second = LiveView(PICTURE, FIRST), LiveView(PICTURE, FIRST)
    documents = [rendered(first), rendered(second)]
    first.push(SECOND)
    assert_shows(first, SECOND)
    assert_shows(second, FIRST)
    assert documents


def test_sources_share_no_memory_with_the_snapshot():
    shared = np.ones(50)
    picture = Picture(
        lambda s: hv.Curve((X, s), label="a") * hv.Curve((X, s), label="b"), lambda s: {"a": {"y": s}, "b": {"y": 2 * np.asarray(s)}}
    )
    view = LiveView(picture, shared)
    rendered(view)
    view.push(3 * np.ones(50))
    assert shared[0] == 1
    assert view.sources("a")[0].data["y"][0] == 3
    assert view.sources("b")[0].data["y"][0] == 6


def test_view_is_collected_when_its_page_is_gone():
    view = LiveView(PICTURE, FIRST)
    document = Document()
    root = view.pane.get_root(document)
    document.add_root(root)
    view.push(SECOND)
    reference = weakref.ref(view)
    view.pane._cleanup(root)  # what the server does when the browser leaves
    pn.state._views.pop(root.ref["id"], None)
    document.clear()
    del view, document, root
    gc.collect()
    assert reference() is None


def test_unknown_column_is_named():
    picture = Picture(lambda s: hv.Curve((X, X), label="a") * hv.Curve([]), lambda s: {"a": {"joules": X}})
    with pytest.raises(KeyError, match="joules"):
        LiveView(picture, None).figure()


def test_changed_length_is_refused():
    picture = Picture(lambda s: hv.Curve((X, X), label="a") * hv.Curve([]), lambda s: {"a": {"y": s}})
    view = LiveView(picture, X)
    rendered(view)
    with pytest.raises(ValueError, match="NaN"):
        view.push(X[:-1])


def test_axes_move_on_refit_only_and_a_zoom_survives():
    view = LiveView(PICTURE, FIRST)
    document = rendered(view)
    figure = view._figures.pop()
    view._figures.add(figure)
    assert (figure.y_range.start, figure.y_range.end) == (1.0, 1e7)
    view.push(SECOND)
    assert figure.y_range.start == 1.0
    view.refit()
    assert figure.y_range.start == 3.0
    figure.y_range.update(start=100.0, end=200.0)
    view.push(FIRST)
    view.refit()
    assert (figure.y_range.start, figure.y_range.reset_start) == (100.0, 1.0)
    view.refit(force=True)
    assert figure.y_range.start == 1.0
    assert document


def test_theme_changes_in_place_and_lasts_over_a_new_drawing():
    view = LiveView(PICTURE, FIRST)
    document = rendered(view)
    before = len(document.models)
    view.set_theme(DARK)
    assert len(document.models) == before
    figure = view.figure()
    assert figure.background_fill_color == DARK.surface
    view.set_theme(LIGHT)
    assert figure.background_fill_color == LIGHT.surface


def test_bare_figure_and_sources_for_the_report():
    figure, sources, _ = drawn(PICTURE, SECOND, DARK)
    assert set(sources) == {"curve", "points", "segments", "label"}
    np.testing.assert_allclose(sources["curve"].data["seconds"], 3 * X, rtol=1e-6)
    assert figure.background_fill_color == DARK.surface


def test_hidden_pages_are_brought_up_to_date_when_shown():
    pages = LivePages(FIRST)
    shown, hidden = pages.add("a", LiveView(PICTURE, FIRST)), pages.add("b", LiveView(PICTURE, FIRST))
    documents = [rendered(shown), rendered(hidden)]
    heard = []
    pages.listen("b", heard.append)
    pages.show("a")
    pages.push(SECOND)
    assert_shows(shown, SECOND)
    assert_shows(hidden, FIRST)
    pages.show("b")
    assert_shows(hidden, SECOND)
    assert heard == [SECOND]
    assert documents


def test_picture_out_of_view_waits_for_the_release_or_for_being_seen():
    pages = LivePages(FIRST)
    view = pages.add("a", LiveView(PICTURE, FIRST))
    document = rendered(view)
    pages.show("a")
    view.see(False)
    pages.push(SECOND)
    assert_shows(view, FIRST)
    pages.refit()
    assert_shows(view, SECOND)
    pages.push(FIRST)
    view.see(True)
    assert_shows(view, FIRST)
    assert document


def test_clicked_point_is_reported():
    view = LiveView(PICTURE, FIRST)
    rendered(view)
    clicked = []
    view.on_tap(lambda label, index: clicked.append((label, index)))
    view.sources("points")[0].selected.indices = [1]
    assert clicked == [("points", 1)]


def test_cursor_line_reports_where_it_was_dragged():
    view = LiveView(PICTURE, FIRST)
    places = []
    view.on_drag("cursor", places.append)
    rendered(view)
    span = view._marks["cursor"][0].model
    assert span.editable
    span.location = 55.0
    assert places == [55.0]


def test_a_line_that_follows_a_slider_is_not_dragged():
    view, places = LiveView(PICTURE, FIRST), []
    view.on_drag("cursor", places.append)
    rendered(view)
    view.push(SECOND)
    assert view._marks["cursor"][0].model.location == SECOND["cursor"]
    assert places == []


def test_pane_is_laid_out_once():
    view = LiveView(PICTURE, FIRST)
    assert view.pane is view.pane

"""The page around the pictures: tabs, theme, folding, failures, and texts that stay texts."""

import gc
import weakref

import holoviews as hv
import panel as pn
import pytest
from bokeh.document import Document
from panel.util import edit_readonly

from app.cells import Row, column, tile
from app.components import CardHead, DataTable, File, Notice, TopBar
from app.live import LiveView
from app.live_pages import LivePages
from app.picture import Picture
from app.shell import Card, Page, Shell, cards, group
from app.theme import DARK

hv.extension("bokeh")
PICTURE = Picture(lambda s: hv.Curve(([1, 2], s), label="line") * hv.Curve([]), lambda s: {"line": {"y": s}})


class BrokenPane(pn.pane.Str):
    """Cannot be drawn."""

    def _get_model(self, *_args, **_kwargs):
        raise ValueError("broken")


def shell(**builds):
    live = LivePages([1.0, 2.0])

    def build():
        return cards(Card("One", live.add("first", LiveView(PICTURE, [1.0, 2.0])), csv=lambda: "x,y\n"))

    builds = {"first": build, "second": lambda: pn.pane.Str("two")} | builds
    return Shell("Test", [], [Page(name, "Why?", make) for name, make in builds.items()], live, ["a preset"])


def drawn(made):
    document = Document()
    document.add_root(made.page.get_root(document))
    return document


def test_pages_are_built_when_first_shown_and_kept():
    made = shell()
    assert [len(page.holder) for page in made.pages.values()] == [1, 0]
    made.show("second")
    content = made.pages["second"].holder[0]
    made.show("first")
    made.show("second")
    assert made.pages["second"].holder[0] is content
    assert [page.holder.visible for page in made.pages.values()] == [False, True]
    assert made.live.shown == "second"


def test_unknown_page_is_ignored():
    made = shell()
    made.show("third")
    made.tabs._process_events({"chosen": "third"})
    assert made.tabs.chosen == "first"


def test_a_page_that_fails_says_so_and_is_tried_again():
    attempts = []

    def build():
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("broken")
        return pn.pane.Str("works")

    made = shell(second=build)
    made.show("second")
    assert "could not be drawn" in made.pages["second"].holder[0].text
    made.show("first")
    made.show("second")
    assert made.pages["second"].holder[0].object == "works"


def test_theme_toggle_reaches_the_plots_without_new_models():
    made = shell()
    document = drawn(made)
    before = len(document.models)
    made.page.dark_theme = True
    figures = [figure for view in made.live.views for figure in view._figures]
    assert [figure.background_fill_color for figure in figures] == [DARK.surface]
    assert len(document.models) == before


def test_a_slider_step_does_not_walk_the_page():
    made = shell()
    with edit_readonly(pn.state):
        pn.state.busy = True
        assert not made.page.busy  # see Shell._page: following the flag cost ten times the update
        pn.state.busy = False


def test_a_closed_page_is_forgotten():
    made = shell()
    reference = weakref.ref(made.page)
    del made
    gc.collect()
    assert reference() is None


def test_narrow_window_folds_the_sidebar():
    made = shell()
    made.topbar._handle_msg({"narrow": True})
    assert not made.page.sidebar_open
    sent = []
    made.page.param.watch(lambda event: sent.append(event.new), "sidebar_open")
    made.topbar._handle_msg({"narrow": True})  # the browser says it again where the answer was lost while the session was set up
    assert sent == [True, False]
    made.topbar._handle_msg({"narrow": False})
    assert made.page.sidebar_open


def test_side_panel_opens_beside_and_closes():
    made = shell()
    made.explain("Title", [{"kind": "text", "text": "why"}])
    assert made.page.contextbar_open
    made.side._handle_msg({"close": True})
    assert not made.page.contextbar_open


def test_card_knows_its_figure_and_whether_it_is_seen():
    made = shell()
    drawn(made)
    view = made.live.views[0]
    head = next(iter(made.pages["first"].holder.select(CardHead)))
    assert head.figure_name == next(iter(view._figures)).name != ""
    head.on_screen = False
    assert not view.on_screen


def test_pictures_below_the_first_screen_are_drawn_when_they_come_near():
    made = [Card(f"Card {i}", LiveView(PICTURE, [1.0, 2.0])) for i in range(6)]
    grid = cards(*made)
    document = Document()
    document.add_root(grid.get_root(document))
    assert [bool(card._picture._figures) for card in made] == [True] * 4 + [False] * 2
    assert not made[5]._picture.on_screen
    assert made[5].__panel__()[-1].min_height == PICTURE.min_height
    made[5].head.near = True
    assert made[5]._picture._figures
    assert not made[4]._picture._figures
    made[5].head.on_screen = True
    assert made[5]._picture.push([3.0, 4.0]) == 1


def test_a_folded_group_is_laid_out_when_it_is_unfolded():
    inside, shown = pn.pane.Str("inside"), pn.pane.Str("shown")
    folded, unfolded = group("Folded", inside), group("Unfolded", shown, open=True)
    document = Document()
    for fold in (folded, unfolded):
        document.add_root(fold.get_root(document))
    assert (inside._models, len(shown._models)) == ({}, 1)
    folded.open = True
    assert len(inside._models) == 1
    folded.open = False
    assert folded.content == [inside]


def test_a_page_that_cannot_be_drawn_says_so():
    made = shell()
    drawn(made)
    made._fill({"main": [BrokenPane("x")]})
    assert [type(part) for part in made.page.main] == [Notice]
    assert "could not be drawn" in made.page.main[0].text


def test_the_browser_compiles_no_component_and_knows_each_source_once():
    made = shell()
    models = {type(part): part.get_root().bundle for part in (made.topbar, made.headline, made.tabs)}
    assert None not in models.values()
    assert len(set(models.values())) == 3
    assert TopBar().get_root().bundle == models[TopBar]


def test_csv_is_made_when_asked_for():
    asked, sent = [], []
    card = Card("One", LiveView(PICTURE, [1.0, 2.0]), csv=lambda: asked.append(1) or "x,y\n", file_stem="one")
    card.head._send_msg = sent.append
    assert not asked
    card.head._handle_msg({"tool": "csv"})
    assert sent == [{"file": "one.csv", "content": "x,y\n", "type": "text/csv;charset=utf-8", "say": ""}]


@pytest.mark.parametrize("message", [None, [], {}, {"row": "x", "column": "y"}, {"row": "r", "column": []}, {"row": {}, "column": "c"}])
def test_clicks_on_cells_that_are_not_there_are_ignored(message):
    table = DataTable(columns=[column("r", "Row"), column("c", "C")], rows=[Row(key="r", cells=["a", "b"], color="")])
    clicked = []
    table.on_cell(lambda *where: clicked.append(where))
    table._handle_msg(message)
    assert clicked == []
    table._handle_msg({"row": "r", "column": "c"})
    assert clicked == [("r", "c")]


def test_topbar_calls_back_for_offered_presets_only():
    bar, chosen = TopBar(presets=["a"]), []
    bar.on_preset(chosen.append)
    bar._handle_msg({"preset": "b"})
    bar._handle_msg({"preset": "a"})
    assert chosen == ["a"]


def test_tile_splits_number_and_unit():
    made = tile("ttft", "TTFT", 0.393, "s", "bound")
    assert (made["number"], made["unit"], made["kind"]) == ("393", "ms", "bound")


def test_files_are_texts_with_a_type():
    assert File("a.csv", "x").type.startswith("text/plain")

"""What a first visitor would wait for, done before there is one: imports, kernels, and HoloViews' drawing of every page."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import holoviews as hv
from bokeh.document import Document
from bokeh.settings import settings
from tornado.ioloop import IOLoop

import physics
from app.live import LiveView
from app.session import PAGE_VIEWS, Session

BETWEEN_S = 1.0
"""Between two pages: whoever comes meanwhile is served first [s]."""


def set_up() -> None:
    """How this app draws, for the whole process."""
    hv.extension("bokeh")
    hv.renderer("bokeh").webgl = False  # in software WebGL doubles the time of a repaint
    # Panel asks models for attributes they may lack; Bokeh would look for similar names each time, a tenth of a slider step.
    settings.perform_error_diagnostics = False
    # It would also look through every new page for mistakes of layout, a tenth of its time; these pages are always the same.
    settings.perform_document_validation = False


def rehearse(visited: Callable[[], bool]) -> None:
    """Draw the first page now, and the others one by one while nobody has come; who comes draws what is left when it is shown."""
    physics.warm_up()
    set_up()
    pages = _pages()
    next(pages)
    _settle()

    def one_more() -> None:
        if visited():
            return  # what a visitor brought must not stay
        if next(pages, None):
            _settle()
            IOLoop.current().call_later(BETWEEN_S, one_more)

    IOLoop.current().call_later(BETWEEN_S, one_more)


def _settle() -> None:
    """What is here stays: the garbage collector need not look through it again, a tenth of a page and of some slider steps."""
    gc.collect()
    gc.freeze()


def _pages() -> Iterator[str]:
    session, drawn = Session(), 0
    document = Document()
    document.add_root(session.shell.page.get_root(document))
    document.to_json()
    for page in PAGE_VIEWS:
        session.shell.show(page.name)
        for view in session.live.views[drawn:]:
            if isinstance(view, LiveView):
                view.figure()
        drawn = len(session.live.views)
        yield page.name

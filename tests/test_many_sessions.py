"""Visitors share nothing but what never changes, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import holoviews as hv
import panel as pn
import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from bokeh.server.views.ws import WSHandler
from config_fixtures import CASES

from app import app_hooks, tidying
from app.address import Address
from app.session import Session
from app.state import OPENING, Choices
from benchmarks.visitor import Visitor

hv.extension("bokeh")
CONFIG = next(iter(CASES.values())).config


@pytest.fixture(autouse=True)
def _light_afterwards() -> Iterator[None]:
    """Outside a server the dark toggle sets Panel's global theme: put it back for the tests that follow."""
    before, pn.config.theme = pn.config.theme, "default"
    yield
    pn.config.theme = before


def drawn(session: Session) -> Document:
    document = Document()
    document.add_root(session.shell.page.get_root(document))
    return document


def test_what_one_does_another_does_not_see() -> None:
    """Sliders, a model of one's own, own numbers, a pin, the theme and a page: all stay in their session."""
    one, other = Session(Address()), Session(Address())
    documents = drawn(one), drawn(other)
    before, queries = other.explorer.snapshot, (one.location.search, other.location.search)
    one.sidebar.sliders["batch"].read("48")
    one.sidebar.inputs.drop.receive([("config.json", json.dumps(CONFIG).encode())])
    one.sidebar.inputs.form._handle_msg({"key": "memory_bytes", "typed": "200 GB"})
    one.pin()
    one.shell.page.dark_theme = True
    one.shell.show("Pipeline")
    assert one.explorer.choices.model.endswith("(your file)")
    assert one.location.search != queries[0]
    assert other.location.search == queries[1]
    assert other.explorer.snapshot is before
    assert other.explorer.choices == Choices.of_preset(OPENING)
    assert other.explorer.models == {}
    assert not [name for name in other.sidebar.model.options if name.endswith("(your file)")]
    assert other.sidebar.sliders["batch"].value == 64
    assert not other.shell.page.dark_theme
    assert other.live.shown == "Regimes"
    sources = [{id(model) for model in document.select({"type": ColumnDataSource})} for document in documents]
    assert sources[0]
    assert not sources[0] & sources[1]


def test_back_and_forward_lead_the_page_and_write_nothing() -> None:
    session, written = Session(Address("?preset=deepseek-v3-h200")), []
    session.location.written_by(written.append)
    session.sidebar.sliders["batch"].read("24")
    there = session.location.search
    session.shell.show("Energy")
    assert written == [there, there.replace("batch=24", "batch=24&page=energy")]
    session.shell.topbar._handle_msg({"went": there})
    assert (session.explorer.choices.batch, session.explorer.choices.page, session.shell.tabs.chosen) == (24, "regimes", "Regimes")
    session.shell.topbar._handle_msg({"went": ""})
    assert session.explorer.choices.batch == Choices.of_preset(OPENING).batch
    session.shell.topbar._handle_msg({"went": "?batch=many"})
    assert "batch" in session.notice.text
    assert len(written) == 2


def test_a_new_session_starts_from_the_preset_whatever_others_did() -> None:
    one = Session(Address("?batch=48"))
    one.sidebar.inputs.drop.receive([("config.json", json.dumps(CONFIG).encode())])
    fresh = Session(Address())
    assert fresh.explorer.choices == Choices.of_preset(OPENING)
    reread = Session(Address(one.explorer.choices.query()))
    assert reread.explorer.choices.model == Choices().model
    assert "a link cannot carry" in reread.notice.text


def test_a_session_that_nobody_holds_is_freed() -> None:
    session = Session(Address())
    session.sidebar.sliders["batch"].read("48")
    kept = [weakref.ref(part) for part in (session, session.explorer, session.shell, session.live, session.explorer.snapshot)]
    del session
    gc.collect()
    assert [reference() for reference in kept] == [None] * len(kept)


def test_a_message_does_not_wait_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A websocket sends its frames as they are written; a second start of the server changes nothing more."""
    calls: list[Any] = []
    monkeypatch.setattr(WSHandler, "open", lambda _handler: calls.append("opened"))
    app_hooks.send_at_once()
    once = WSHandler.open
    app_hooks.send_at_once()
    assert WSHandler.open is once

    class Handler:
        ws_connection = None

        def set_nodelay(self, value: bool) -> None:
            calls.append(value)

    once(Handler())
    assert calls == [True, "opened"]


@pytest.mark.slow
def test_a_closed_page_frees_its_session() -> None:
    """On a real server, over a real websocket: open two pages, move a slider in each, close them, wait for the server to notice."""
    logging.disable(logging.CRITICAL)  # pytest keeps every log record, and Panel's hold the session
    try:
        asyncio.run(_open_and_close())
    finally:
        logging.disable(logging.NOTSET)


async def _open_and_close() -> None:
    kept: list[weakref.ref[Any]] = []

    def page() -> None:
        session = Session(Address(pn.state.location.search or ""))
        session.shell.servable()
        kept.extend(weakref.ref(part) for part in (session, session.explorer, session.shell))

    server = pn.io.server.get_server(
        {"/app": page}, port=0, start=False, show=False, loop=None, threaded=False,
        unused_session_lifetime_milliseconds=8000, check_unused_sessions_milliseconds=500,
    )  # fmt: skip
    server.start()
    visitors = [Visitor(f"http://localhost:{server.port}/app") for _ in range(2)]
    for visitor in visitors:
        await visitor.open()
    first = await visitors[0].drag("Batch size", 3)
    assert all(seconds > 0 for seconds in (*first, *await visitors[1].drag("Batch size", 3)))
    assert len(kept) == 6
    for visitor in visitors:
        await visitor.close()
    for _ in range(100):
        await asyncio.sleep(0.2)
        gc.collect()
        if not any(reference() for reference in kept):
            break
    left = [reference() for reference in kept]
    server.stop()
    assert left == [None] * 6


def test_reset_leaves_the_page_as_freshly_opened() -> None:
    """Uploaded files, what was said about them, refused text, the pin and the side panel go with Reset all."""
    fresh, session = Session(Address()), Session(Address())
    inputs, sliders = session.sidebar.inputs, session.sidebar.sliders
    for name in ("Experts", "Energy", "Sessions"):
        session.shell.show(name)
    session.shell.show("Regimes")
    inputs.drop.receive([("mine/config.json", json.dumps(CONFIG).encode())])
    assert session.explorer.choices.model.startswith("mine")
    assert inputs.said.text
    assert session.shell.side.shown
    inputs.drop.receive([("config.json", b"{")])
    inputs.form._handle_msg({"key": "memory_bytes", "typed": "much"})
    sliders["batch"].read("many")
    session.pin()
    session.shell.topbar._handle_msg({"action": "reset"})
    assert sliders["batch"].error == inputs.drop.problem == inputs.said.text == inputs.machines_said.text == ""
    assert not any(field["error"] for field in inputs.form.fields)
    assert not session.shell.side.shown
    assert not session.shell.page.contextbar_open
    assert session.shell.topbar.actions == fresh.shell.topbar.actions
    assert session.explorer.snapshot.pinned is None
    assert session.notice.text == fresh.notice.text
    assert session.notice.tone == ""
    assert session.explorer.choices == fresh.explorer.choices
    assert not session.explorer.models
    for name in ("model", "machine"):
        assert getattr(session.sidebar, name).options == getattr(fresh.sidebar, name).options
        assert getattr(session.sidebar, name).value == getattr(fresh.sidebar, name).value
    assert [slider.value for slider in sliders.values()] == [slider.value for slider in fresh.sidebar.sliders.values()]


def test_garbage_is_collected_in_quiet_moments_or_when_many_pages_were_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while messages are sent, not when there is little; on a server that is never quiet when twenty pages lie about."""
    now, due, done = [1000.0], [tidying.DUE], []
    monkeypatch.setattr("gc.get_count", lambda: (0, 0, due[0]))
    monkeypatch.setattr("gc.collect", lambda: done.append(now[0]))
    made = tidying.Tidying(lambda: now[0])
    for second in range(1, 100):
        now[0] = 1000.0 + second
        if second < 60:
            made.note()
        if 10 < second <= 35:
            made.left()
        if second == 80:
            made.left()
        due[0] = tidying.DUE if second < 70 else 0
        made.look()
    assert done == [1030.0, *(1000.0 + second for second in range(61, 70)), 1080.0]

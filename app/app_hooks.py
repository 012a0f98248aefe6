"""Runs once when `panel serve app` starts: nothing compiles in a visitor's first click, and no message waits for another."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bokeh.server.views.ws import WSHandler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a bare clone works without an install

from app.rehearsal import rehearse
from app.tidying import Tidying

_TIDYING = Tidying()


def on_server_loaded(server_context: Any) -> None:
    """Before the first page is asked for."""
    _TIDYING.start()
    send_at_once(_TIDYING.note)
    rehearse(visited=lambda: bool(server_context.sessions))


def on_session_destroyed(session_context: Any) -> None:
    """A page was closed."""
    _TIDYING.left()


def send_at_once(sent: Callable[[], None] = lambda: None) -> None:
    """Let every websocket send what one turn of the event loop wrote as soon as that turn ends, in one system call.

    Bokeh writes a message as three frames and more and leaves TCP to gather them: the second waits for the browser's delayed
    acknowledgement, up to 40 ms of every slider step. `sent` is called at every message.
    """
    opened = WSHandler.open
    if getattr(opened, "at_once", False):
        return

    @functools.wraps(opened)
    def open_at_once(handler: Any) -> None:
        handler.set_nodelay(True)
        if handler.ws_connection is not None:
            _gather(handler.ws_connection.stream, sent)
        opened(handler)

    open_at_once.at_once = True  # type: ignore[attr-defined]
    WSHandler.open = open_at_once


def _gather(stream: Any, sent: Callable[[], None]) -> None:
    """Let a stream write once for all that was handed to it since the loop last turned."""
    send = stream.write
    waiting: list[tuple[bytes, asyncio.Future[None]]] = []

    def flush() -> None:
        parts = [part for part, _ in waiting]
        dones = [done for _, done in waiting]
        waiting.clear()
        try:
            send(b"".join(parts)).add_done_callback(lambda sent: _settle(dones, sent.exception()))
        except Exception as problem:  # whatever closed the stream is told to those who wrote
            _settle(dones, problem)

    def write(data: bytes | memoryview) -> asyncio.Future[None]:
        sent()
        done = asyncio.get_running_loop().create_future()
        done.add_done_callback(asyncio.Future.exception)  # heard, also where nobody waits for it
        if not waiting:
            asyncio.get_running_loop().call_soon(flush)
        waiting.append((bytes(data), done))
        return done

    stream.write = write


def _settle(dones: list[asyncio.Future[None]], problem: BaseException | None) -> None:
    for done in dones:
        if done.cancelled():
            continue
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

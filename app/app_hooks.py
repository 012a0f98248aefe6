"""Runs once when `panel serve app` starts: nothing compiles in a visitor's first click, and no message waits for another."""

from __future__ import annotations

import functools
from typing import Any

from bokeh.server.views.ws import WSHandler

import physics


def on_server_loaded(server_context: Any) -> None:
    """Compile the kernels, or load them from their cache, before the first page is asked for."""
    send_at_once()
    physics.warm_up()


def send_at_once() -> None:
    """Let every websocket send a message as soon as it is written.

    Bokeh writes a message as three frames and leaves TCP to gather them: the second waits for the browser's delayed
    acknowledgement, up to 40 ms of every slider step.
    """
    opened = WSHandler.open
    if getattr(opened, "at_once", False):
        return

    @functools.wraps(opened)
    def open_at_once(handler: Any) -> None:
        handler.set_nodelay(True)
        opened(handler)

    open_at_once.at_once = True  # type: ignore[attr-defined]
    WSHandler.open = open_at_once

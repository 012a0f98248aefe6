"""Runs once when `panel serve app` starts: nothing compiles in a visitor's first click."""

from __future__ import annotations

from typing import Any

import physics


def on_server_loaded(server_context: Any) -> None:
    """Compile the kernels, or load them from their cache, before the first page is asked for."""
    physics.warm_up()

"""Runs once when `panel serve app` starts: nothing compiles in a visitor's first click."""

from __future__ import annotations

import logging
from typing import Any

import physics

_LOG = logging.getLogger("midfill")


def on_server_loaded(server_context: Any) -> None:
    """Compile the kernels, or load them from their cache, before the first page is asked for."""
    physics.warm_up(_LOG.warning)  # a warning, so that it is shown whatever the level: the first start is slower than the others

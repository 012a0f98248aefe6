"""Carries what changed in all pictures of a page to the browser in one message, for one fifth of what an event a column costs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import numpy as np

from app.components import BrowserPart, esm
from app.live import Change


class Feed(BrowserPart):
    """Invisible; lives in the page, so that its browser side is there. Messages may be lost before: sources are always up to date."""

    _esm = esm("feed")

    def send(self, changes: Sequence[Change]) -> None:
        """Put the changes into their sources here, past Bokeh's bookkeeping, and in the browser.

        Numbers go as one text of float32: an array would be two more messages on the socket, dearer than a third more bytes.
        """
        for source, column, values in changes:
            dict.__setitem__(source.data, column, values)
        numbers = [change for change in changes if isinstance(change.values, np.ndarray)]
        message = {
            "where": [(change.source.id, change.column, len(change.values)) for change in numbers],
            "numbers": b64encode(b"".join(change.values.tobytes() for change in numbers)).decode("ascii"),
            "texts": [(change.source.id, change.column, change.values) for change in changes if isinstance(change.values, list)],
        }
        self._send_msg(message)

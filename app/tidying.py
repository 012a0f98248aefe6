"""When Python looks for garbage: in quiet moments, not in the middle of a page or of a drag.

A full collection looks through every open page, 0.1 to 0.5 s during which nobody is served, and Python's own moment for it is when much
is made: while a page is built, or under a moving slider.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from tornado.ioloop import PeriodicCallback

LOOK_S = 1.0
QUIET_S = 2.0
"""After the last message [s]: a hand that rests, or nobody there."""
LEFT = 20
"""So many closed pages may lie about on a server that is never quiet, some 5 MB each."""
DUE = 10
"""Collections of the middle generation after which Python would look through the old one, if it were let."""
NEVER = 1_000_000


class Tidying:
    """`note` tells it of a message, `left` of a closed page; `look` collects when something is due and nobody waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_message, self._left = clock(), 0

    def start(self) -> None:
        """From now on, on the event loop of this thread."""
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)
        PeriodicCallback(self.look, 1e3 * LOOK_S).start()

    def note(self) -> None:
        """A message was sent: somebody is served."""
        self._last_message = self._clock()

    def left(self) -> None:
        """A page was closed: it is garbage from now on, and most of what there is."""
        self._left += 1

    def look(self) -> None:
        """Collect, if it is time."""
        quiet = self._clock() - self._last_message >= QUIET_S
        if self._left >= LEFT or (quiet and (self._left or gc.get_count()[2] >= DUE)):
            gc.collect()
            self._left = 0

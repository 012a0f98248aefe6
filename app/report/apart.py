"""Work in a process of its own, so that a report neither holds up the sessions of a server nor waits for its own drawing.

A process without other threads is forked, which costs nothing; else a fresh Python runs one function of this project, by name.
(multiprocessing would run the caller's main module again, which a notebook or a plain script does not expect.) Arguments and
results cross as pickles.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "app.report.apart")


class Working(Protocol):
    """Something that is being worked out elsewhere."""

    def result(self) -> Any:
        """Wait for it; RuntimeError with its last words where it failed."""
        ...


@contextmanager
def hurried() -> Iterator[None]:
    """For work that makes much and frees little: no search for circular garbage, and freed memory is kept for the next array.

    glibc hands arrays above a threshold back at once, which costs a part of a report half a million page faults. It raises the
    threshold to the largest array that was ever freed. Processes that are forked inside inherit both.
    """
    was = gc.isenabled()
    gc.disable()
    bytearray(16 << 20)
    try:
        yield
    finally:
        if was:
            gc.enable()


def start(work: Callable[..., Any], *arguments: Any) -> Working:
    """Begin `work(*arguments)`, beside this process where there is a core for it."""
    if (os.cpu_count() or 1) < 2:
        return _Later(work, *arguments)
    alone = hasattr(os, "fork") and threading.active_count() == 1
    return _Forked(work, *arguments) if alone else Apart(work, *arguments)


class _Later:
    """Worked out when it is asked for."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._work, self._arguments = work, arguments

    def result(self) -> Any:
        return self._work(*self._arguments)


class _Forked:
    """A copy of this process that ends with its answer."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        reading, writing = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(reading)
            with os.fdopen(writing, "wb") as stream:
                stream.write(_answer(work, arguments))
            os._exit(0)  # nothing of the parent's is flushed or closed twice
        os.close(writing)
        self._stream = os.fdopen(reading, "rb")

    def result(self) -> Any:
        with self._stream as stream:
            reply = stream.read()
        os.waitpid(self._child, 0)
        return answered(reply)


class Apart:
    """A fresh Python that imports this project and answers on its pipe."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment())
        stream: BinaryIO = self._process.stdin  # type: ignore[assignment]  # a pipe was asked for
        stream.write(message(work, *arguments))
        stream.flush()

    def result(self) -> Any:
        return answered(self._process.communicate()[0])


def environment() -> dict[str, str]:
    """This environment, with the project importable."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def message(work: Callable[..., Any], *arguments: Any) -> bytes:
    """What a fresh Python reads on its standard input."""
    return pickle.dumps((work, arguments))


def _answer(work: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps((True, work(*arguments)))
    except Exception:  # whatever it is, it belongs to whoever waits
        return pickle.dumps((False, traceback.format_exc()))


def answered(reply: bytes) -> Any:
    """What such a process gave; RuntimeError with its last words where it failed."""
    done, value = pickle.loads(reply) if reply else (False, "it ended without an answer")
    if not done:
        raise RuntimeError(f"the report's process failed: {value}")
    return value


def main() -> None:
    """Read a function and its arguments, write what it gives."""
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever prints must not end up in the answer
    with hurried():
        work, arguments = pickle.load(sys.stdin.buffer)  # imports what the function needs
        output.write(_answer(work, arguments))


if __name__ == "__main__":
    main()

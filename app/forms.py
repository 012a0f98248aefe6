"""Files and numbers that a user brings: a drop zone that refuses what is too large, and a form of numbers with units.

What comes over the wire is data of unknown origin: sizes are counted while it arrives, and whatever a reader raises becomes a
sentence beside the control.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import param

from app.components import BrowserPart, css, esm

_LOG = logging.getLogger(__name__)
MOST_FILES = 64
MIB = 2**20

ReadFiles = Callable[[Mapping[str, bytes]], None]
"""Takes files by name; raises ValueError with one sentence where they cannot be used."""


class FileDrop(BrowserPart):
    """A button and drop zone for files; `problem` holds the sentence about the last ones that could not be read.

    >>> drop = FileDrop(label="config.json", limit_bytes=100)
    >>> drop.on_files(lambda files: print(files))
    >>> drop.receive([("a.json", b"{}")])
    {'a.json': b'{}'}
    >>> drop.receive([("a.json", bytes(101))])
    >>> drop.problem
    'a.json: 1 MiB, and at most 1 MiB are read: is this the right file?'
    """

    label = param.String(doc="What the button says.")
    hint = param.String(doc="What may be dropped, in a few words.")
    accept = param.String(doc="Endings the file dialog offers, as in HTML.")
    wanted = param.List(item_type=str, doc="Names taken out of a dropped folder.")
    multiple = param.Boolean(doc="Whether several files may be given at once.")
    limit_bytes = param.Integer(default=16 * MIB, doc="Most bytes of all files together.")
    problem = param.String(doc="The sentence about files that could not be used; empty when all is well.")
    _esm = esm("filedrop")
    _stylesheets = css("filedrop")

    def __init__(self, **params: Any) -> None:
        self._coming: list[tuple[str, int, bytearray]] = []
        super().__init__(**params)

    def on_files(self, callback: ReadFiles) -> None:
        """Call `callback(files by name)` when files have arrived; a ValueError it raises is shown."""
        self._on("files", callback)

    def receive(self, files: list[tuple[str, bytes]]) -> None:
        """Take files, as if they had been dropped."""
        self._coming = []
        if sum(len(content) for _, content in files) > self.limit_bytes:
            self.problem = self._too_large([name for name, _ in files], sum(len(content) for _, content in files))
            return
        self._use(dict(files))

    def forget(self) -> None:
        """Take back what was said about the last files."""
        self.problem = ""
        self._send_msg({"done": True})

    def _too_large(self, names: list[str], size: int) -> str:
        shown = ", ".join(name[:40] for name in names[:3])
        most = f"at most {-(-self.limit_bytes // MIB)} MiB are read"
        return f"{shown}: {-(-size // MIB)} MiB, and {most}: is this the right file?"

    def _heard(self, data: dict[str, Any]) -> None:
        if "begin" in data:
            self._begin(data["begin"])
        elif "piece" in data:
            self._append(data.get("file"), data["piece"])
        elif "end" in data and self._coming:
            coming, self._coming = self._coming, []
            if any(len(content) != size for _, size, content in coming):
                self.problem = "The file did not arrive whole: give it again."
            else:
                self._use({name: bytes(content) for name, _, content in coming})
        if not self._coming:
            self._send_msg({"done": True})

    def _begin(self, announced: Any) -> None:
        self._coming = []
        sound = isinstance(announced, list) and 0 < len(announced) <= MOST_FILES
        if not sound or not all(isinstance(pair, list) and len(pair) == 2 and _sized(*pair) for pair in announced):
            self.problem = f"No file, or more than {MOST_FILES}: give the files of one model."
            return
        size = sum(length for _, length in announced)
        if size > self.limit_bytes:
            self.problem = self._too_large([name for name, _ in announced], size)
            return
        self._coming = [(name[:300], length, bytearray()) for name, length in announced]

    def _append(self, number: Any, piece: Any) -> None:
        """Keep a piece, as long as no more arrives than was announced."""
        if type(number) is not int or not 0 <= number < len(self._coming) or not isinstance(piece, str):
            return
        _, size, content = self._coming[number]
        try:
            content += base64.b64decode(piece, validate=True) if len(piece) <= 2 * MIB else b""
        except (binascii.Error, ValueError):
            content.clear()
        if len(content) > size:
            self._coming = []
            self.problem = "More arrived than was announced: give the file again."

    def _use(self, files: Mapping[str, bytes]) -> None:
        try:
            self._call("files", files)
            self.problem = ""
        except (ValueError, KeyError) as problem:
            self.problem = str(problem.args[0] if problem.args else problem)[:600]
        except Exception:  # a reader that breaks must not leave the page waiting, nor end the session
            _LOG.exception("files %r could not be read", list(files)[:8])
            self.problem = "This file could not be read, and nothing was changed: give another one."


def _sized(name: Any, length: Any) -> bool:
    return isinstance(name, str) and type(length) is int and length >= 0


class Field(TypedDict):
    """One number of a form; `own` marks the user's, `placeholder` shows where the field is empty."""

    key: str
    label: str
    text: str
    hint: str
    error: str
    placeholder: str
    own: bool


class NumberForm(BrowserPart):
    """Labelled fields for typed numbers; Python reads them and answers with texts and errors."""

    label = param.String(doc="Name of the group, for screen readers.")
    fields = param.List(doc="Field dictionaries, in order.")
    _esm = esm("numberform")
    _stylesheets = css("numberform")

    def on_typed(self, callback: Callable[[str, str], None]) -> None:
        """Call `callback(key, text)` when a field was changed."""
        self._on("typed", callback)

    def _heard(self, data: dict[str, Any]) -> None:
        key, typed = data.get("key"), data.get("typed")
        if key in [field["key"] for field in self.fields] and isinstance(typed, str):
            self._call("typed", key, typed[:200])

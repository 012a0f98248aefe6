"""Columns of every state as one compressed table the page slices: rows that repeat are stored once, sliders that move nothing left out.

A column of the report is a row of values for each state. It is kept as its different rows, and the number of the row for each
state over only those sliders that change it. The script of the page needs no more than that, and knows no formula.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

_KINDS = {"f4": np.float32, "u1": np.uint8, "u2": np.uint16, "u4": np.uint32}


class Pack:
    """Arrays one behind the other, bytes of equal weight together (they repeat, so they compress)."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._kept: dict[bytes, list[Any]] = {}

    def add(self, values: np.ndarray, kind: str) -> list[Any]:
        """Store an array; what comes back is [kind, offset, length], the same for equal arrays."""
        flat = np.ascontiguousarray(values, _KINDS[kind]).ravel()
        planes = flat.view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()
        known = self._kept.get(kind.encode() + planes)
        if known is None:
            known = self._kept[kind.encode() + planes] = [kind, self._size, int(flat.size)]
            self._chunks.append(planes)
            self._size += len(planes)
        return known

    def ids(self, values: np.ndarray) -> list[Any]:
        """Store whole numbers in the narrowest kind that holds them."""
        top = int(values.max(initial=0))
        return self.add(values, "u1" if top < 2**8 else "u2" if top < 2**16 else "u4")

    def text(self, manifest: Any) -> str:
        """Manifest and arrays, compressed, as text for a script tag: eight digits say how long the manifest is."""
        head = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        return base64.b64encode(gzip.compress(b"%08d" % len(head) + head + b"".join(self._chunks), 6, mtime=0)).decode()


def _numbered(keys: Iterable[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Where each different key appears first, in order of appearance, and the number of each key given one."""
    seen: dict[Hashable, int] = {}
    numbers = np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1)), numbers


def _bytes_of(rows: np.ndarray) -> list[bytes]:
    """Each row as a key."""
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
    return [bytes(row) for row in whole.ravel().tolist()]


def column(pack: Pack, rows: np.ndarray, which: np.ndarray) -> dict[str, Any]:
    """One column of numbers.

    rows: the values of each evaluated state, [state, value]. which: the evaluated state of each place of the grid, with
    length 1 along sliders that cannot matter.
    """
    rows = np.ascontiguousarray(rows, np.float32)
    kept, numbers = _numbered(_bytes_of(rows))
    order, table = _indexed(pack, numbers[which])
    return {"rows": pack.add(rows[kept][order], "f4"), "width": int(rows.shape[1]), **table}


def texts(pack: Pack, rows: Sequence[Sequence[str]], which: np.ndarray) -> dict[str, Any]:
    """One column of texts: a dictionary, and rows of numbers into it; arguments as for `column`."""
    if len(rows[0]) == 1:
        return words(pack, [row[0] for row in rows], which)
    dictionary: dict[str, int] = {}
    codes = np.array([[dictionary.setdefault(text, len(dictionary)) for text in row] for row in rows], np.uint32)
    kept, numbers = _numbered(_bytes_of(codes))
    order, table = _indexed(pack, numbers[which])
    return {"words": list(dictionary), "rows": pack.ids(codes[kept][order]), "width": int(codes.shape[1]), **table}


def words(pack: Pack, column: Sequence[str], which: np.ndarray) -> dict[str, Any]:
    """One text for each state: the dictionary's order is the rows'."""
    firsts, numbers = _numbered(column)
    order, table = _indexed(pack, numbers[which])
    return {"words": [column[firsts[i]] for i in order], "rows": None, "width": 1, **table}


def _indexed(pack: Pack, numbers: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Row numbers over only the sliders that change them; no index where each place has a row of its own, in order.

    Returns the order the rows must be stored in, and sliders, lengths and index.
    """
    over = []
    for slider in range(numbers.ndim):
        first = numbers.take([0], axis=slider)
        if numbers.shape[slider] > 1 and (numbers != first).any():
            over.append(slider)
        else:
            numbers = first
    flat = numbers.ravel()
    _, first, again = np.unique(flat, return_index=True, return_inverse=True)
    order = np.argsort(first)
    firsts, ranks = first[order], np.argsort(order)[again]
    index = None if len(firsts) == flat.size else pack.ids(ranks)
    return flat[firsts], {"over": over, "lengths": [numbers.shape[slider] for slider in over], "index": index}


def sentence(pack: Pack, sentences: Sequence[str], which: np.ndarray) -> dict[str, Any]:
    """A sentence with **bold** parts: its patterns, and each bold part on its own, since patterns and numbers repeat apart."""
    firsts, numbers = _numbered(sentences)
    which = numbers[which]
    different = [sentences[first].split("**") for first in firsts]
    slots = max(len(parts) // 2 for parts in different)
    patterns = ["**".join(part if i % 2 == 0 else "" for i, part in enumerate(parts)) for parts in different]
    bolds = [words(pack, [parts[i] if i < len(parts) else "" for parts in different], which) for i in range(1, 2 * slots, 2)]
    return {"pattern": words(pack, patterns, which), "bold": bolds}

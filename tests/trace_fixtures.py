"""Shared traces beside the project, and small traces for the tests of sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from physics.trace_readers import read_trace
from physics.traces import Trace, from_columns

MEASURED = Path(__file__).resolve().parents[2] / "shared" / "measured"
AGENTIC = MEASURED / "agentic_coding_requests.csv.gz"
MOONCAKE = MEASURED / "mooncake_conversation_trace.jsonl.gz"

_read: dict[Path, Trace] = {}


def shared(path: Path) -> Trace:
    """A trace of ../shared, read once; the test is skipped where it is absent."""
    if not path.exists():
        pytest.skip(f"../shared/measured/{path.name} is not beside the project")
    if path not in _read:
        _read[path] = read_trace(path)
    return _read[path]


def small_trace(rows: list[tuple[int, int, float, float, float, float]], **more: object) -> Trace:
    """(conversation, branch, time, input, cached, output) of each request."""
    columns = np.array(rows, float).T
    names = ("conversation", "branch", "time_s", "input_tokens", "prefix_tokens", "output_tokens")
    integers = {"conversation", "branch"}
    return from_columns("small", {n: c.astype(int) if n in integers else c for n, c in zip(names, columns, strict=True)}, **more)

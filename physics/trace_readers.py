"""Request traces of the user: CSV with a column mapping, or JSON lines with block hashes; read with limits, nothing in them is executed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from physics.readers import MAX_UNPACKED_BYTES, UnreadableFileError, csv_frame, file_bytes, floats, names_shown
from physics.traces import MAX_REQUESTS, MAX_TOKENS, Trace, from_columns

Array = np.ndarray[Any, Any]

BLOCK_TOKENS = 512
"""Tokens per hashed block where the file does not say: Mooncake's traces [token]."""
MAX_BLOCKS = 4_000_000
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation", "conversation_id", "conv", "session", "session_id", "chat_id", "thread_id"),
    "branch": ("branch", "sub", "agent", "agent_id"),
    "turn": ("turn", "idx", "turn_id", "index"),
    "time_s": ("time_s", "time", "t", "timestamp", "arrival_s", "arrival_time", "arrived_at", "timestamp_ms", "time_ms"),
    "input_tokens": ("input_tokens", "input", "input_length", "prompt_tokens", "contexttokens", "context_tokens", "isl"),
    "prefix_tokens": ("prefix_tokens", "cached_tokens", "prefix_hit", "cached_prefix", "cached", "cache_read_input_tokens", "prefix"),
    "new_tokens": ("new_tokens", "new", "appended_tokens", "uncached_tokens"),
    "output_tokens": ("output_tokens", "output", "output_length", "completion_tokens", "generatedtokens", "generated_tokens", "osl"),
}  # fmt: skip
"""What a trace holds, and names (lower case) under which a column of it is recognised."""
WANTED = "time, input_tokens (or new_tokens with cached_tokens), output_tokens, and conversation with cached_tokens where known"


def read_trace(
    source: str | Path | bytes, name: str = "", columns: Mapping[str, str] | None = None, block_tokens: int = BLOCK_TOKENS
) -> Trace:
    """A user's request trace.

    CSV: a row per request with a time and input and output tokens; with conversation and cached_tokens, what is shared is known, without
    cached_tokens it is the context of the turn before, without conversation nothing. JSON lines, as Mooncake publishes them: timestamp in
    milliseconds, input_length, output_length and hash_ids, one hash per block of a context. Either may be packed with gzip.
    Raises UnreadableFileError, a ValueError, whatever is wrong with the file.

    source: path, or the uploaded bytes.
    name: how to call it; by default the file's name.
    columns: meaning -> name of the column in this file, for CSVs with other names; meanings are the keys of COLUMNS.
    block_tokens: tokens per hashed block [token].
    """
    content, label = file_bytes(source, name)
    content = _unpacked(content, label)
    if content.lstrip()[:1] == b"{":
        return _hashed(content, label, block_tokens)
    frame = csv_frame(content, label)
    _named_once(content, label)
    return _table(frame, label, columns or {})


def _named_once(content: bytes, label: str) -> None:
    """Refuse a header that names a column twice: which of them is meant cannot be known."""
    header = content.lstrip().split(b"\n", 1)[0].decode("utf-8-sig", errors="replace")
    names = [name.strip().lower().strip('"') for name in header.split(",")]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise UnreadableFileError(f"{label}: the header names the column {twice[0][:40]!r} twice; keep one of them")


def _unpacked(content: bytes, label: str) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(content, MAX_UNPACKED_BYTES)
    except zlib.error:
        raise UnreadableFileError(f"{label}: not a sound gzip file; pack it again, or give it unpacked") from None
    if stream.unconsumed_tail:
        raise UnreadableFileError(f"{label}: more than {MAX_UNPACKED_BYTES / 2**20:.0f} MiB unpacked; give a part of it")
    if not stream.eof:
        raise UnreadableFileError(f"{label}: the gzip file is cut off; pack it again, or give it unpacked")
    return plain


def _too_many(count: int, what: str, most: int, label: str) -> None:
    if count > most:
        raise UnreadableFileError(f"{label}: {count:,} {what}, and at most {most:,} are read; give a part of it")


# --------------------------------------------------------------------------------------------------------------------- CSV
def _table(frame: pd.DataFrame, label: str, mapping: Mapping[str, str]) -> Trace:
    _too_many(len(frame), "requests", MAX_REQUESTS, label)
    found = _found_columns(frame, label, mapping)
    notes: list[str] = []
    times = _times(frame, found, label)
    inputs, prefixes = _inputs(frame, found, label)
    if "output_tokens" in found:
        outputs = _amounts(frame, found["output_tokens"], label)
    else:
        outputs = np.zeros(len(frame))
        notes.append("No column of output tokens: decode counts nothing.")
    conversation = _codes(frame, found.get("conversation"))
    branch = _codes(frame, found.get("branch"), fill=0)
    relative = "conversation" in found and _restarts(conversation, times)
    order = _order(frame, found, label, conversation, branch, times)
    if relative:
        times = _branch_starts(conversation, branch, times)
        notes.append("Times count from the start of each conversation; when conversations start is an input.")
    if prefixes is None:
        prefixes = _append_only(conversation, branch, order, inputs, outputs)
        notes.append(
            "No column of cached tokens: each turn is taken to reuse the whole context of the turn before."
            if "conversation" in found
            else "Neither conversation nor cached tokens: no request shares anything."
        )
    values = {"conversation": conversation, "branch": branch, "time_s": times, "input_tokens": inputs, "prefix_tokens": prefixes,
              "output_tokens": outputs}  # fmt: skip
    return from_columns(label, {key: value[order] for key, value in values.items()}, relative=relative, notes=tuple(notes))


def _found_columns(frame: pd.DataFrame, label: str, mapping: Mapping[str, str]) -> dict[str, str]:
    """Meaning -> column: as mapped, else the first known name."""
    held = {str(column): column for column in frame.columns}
    found: dict[str, str] = {}
    for meaning, column in mapping.items():
        if meaning not in COLUMNS:
            raise UnreadableFileError(f"{label}: {str(meaning)[:40]!r} is no meaning of a column; they are {', '.join(COLUMNS)}")
        if str(column).strip().lower() not in held:
            raise UnreadableFileError(f"{label}: no column {str(column)[:40]!r}; it has {names_shown(held)}")
        found[meaning] = str(column).strip().lower()
    for meaning, names in COLUMNS.items():
        match = next((name for name in names if name in held), None)
        if match is not None:
            found.setdefault(meaning, match)
    sized = "input_tokens" in found or {"new_tokens", "prefix_tokens"} <= set(found)
    if not sized or ("time_s" not in found and "turn" not in found):
        raise UnreadableFileError(f"{label}: it needs {WANTED}; it has {names_shown(held)}")
    return found


def _numbers(frame: pd.DataFrame, column: str, label: str, low: float, high: float, whole: bool) -> Array:
    values = floats(frame[column])
    with np.errstate(invalid="ignore"):
        sound = (values >= low) & (values <= high) & (np.floor(values) == values if whole else np.isfinite(values))
    bad = np.flatnonzero(~sound)
    if bad.size:
        kind = "whole number" if whole else "number"
        shown = str(frame[column].iloc[bad[0]])[:40]
        raise UnreadableFileError(f"{label}: row {bad[0] + 2}, column {column}: {shown!r} is not a {kind} from {low:,.0f} to {high:,.0f}")
    return values


def _amounts(frame: pd.DataFrame, column: str, label: str) -> Array:
    return _numbers(frame, column, label, 0, MAX_TOKENS, whole=True)


def _inputs(frame: pd.DataFrame, found: Mapping[str, str], label: str) -> tuple[Array, Array | None]:
    """Input and, where known, cached tokens of each row."""
    known = {name: _amounts(frame, found[name], label) for name in ("input_tokens", "prefix_tokens", "new_tokens") if name in found}
    if "input_tokens" not in known:
        known["input_tokens"] = known["prefix_tokens"] + known["new_tokens"]
    inputs, prefixes = known["input_tokens"], known.get("prefix_tokens")
    if prefixes is None and "new_tokens" in known:
        prefixes = inputs - known["new_tokens"]
    bad = np.flatnonzero(inputs < 1) if prefixes is None else np.flatnonzero((inputs < 1) | (prefixes > inputs) | (prefixes < 0))
    if bad.size:
        cached = "" if prefixes is None else f" of which {prefixes[bad[0]]:,.0f} are cached"
        raise UnreadableFileError(
            f"{label}: row {bad[0] + 2}: {inputs[bad[0]]:,.0f} input tokens{cached}; a request has at least one token and "
            "caches no more than it has"
        )
    return inputs, prefixes


def _codes(frame: pd.DataFrame, column: str | None, fill: int | None = None) -> Array:
    """Numbers of the different values of a column; without one, every row for itself or all alike."""
    if column is None:
        return np.arange(len(frame)) if fill is None else np.full(len(frame), fill, np.int64)
    return pd.factorize(frame[column].astype(str))[0].astype(np.int64)


def _times(frame: pd.DataFrame, found: Mapping[str, str], label: str) -> Array:
    """Seconds of each row; clock times are counted from the earliest, and turns without a time are a second apart."""
    if "time_s" not in found:
        return _numbers(frame, found["turn"], label, 0, 1e9, whole=False)
    column = found["time_s"]
    values = frame[column]
    if pd.api.types.is_numeric_dtype(values):
        return _numbers(frame, column, label, -1e15, 1e15, whole=False) / (1000.0 if str(column).endswith("_ms") else 1.0)
    stamps = pd.to_datetime(values, errors="coerce", utc=True, format="mixed")
    bad = np.flatnonzero(stamps.isna().to_numpy())
    if bad.size:
        raise UnreadableFileError(
            f"{label}: row {bad[0] + 2}, column {column}: {str(values.iloc[bad[0]])[:40]!r} is neither seconds nor a date and time"
        )
    return (stamps - stamps.min()).dt.total_seconds().to_numpy(float)


def _restarts(conversation: Array, times: Array) -> bool:
    """Whether times count from each conversation's start: several start at the very same time as the first."""
    first = pd.Series(times).groupby(conversation).min().to_numpy()
    return bool(first.size > 2 and (first == first.min()).mean() > 0.5)


def _branch_starts(conversation: Array, branch: Array, times: Array) -> Array:
    """Times of branches that restart at zero, moved to the time their conversation had reached where the branch begins in the file."""
    moved, first_branch = times.copy(), dict[int, int]()
    reached, starts = dict[int, float](), dict[tuple[int, int], float]()
    for i, (talk, chain, time) in enumerate(zip(conversation.tolist(), branch.tolist(), times.tolist(), strict=True)):
        main = first_branch.setdefault(talk, chain)
        if chain != main:
            moved[i] = time + starts.setdefault((talk, chain), reached.get(talk, 0.0))
        else:
            reached[talk] = max(reached.get(talk, 0.0), time)
    return moved


def _order(frame: pd.DataFrame, found: Mapping[str, str], label: str, conversation: Array, branch: Array, times: Array) -> Array:
    """Rows of a branch in the order of their turns, where the file numbers them; times must agree."""
    if "turn" not in found:
        return np.argsort(times, kind="stable")
    turn = _numbers(frame, found["turn"], label, -1e12, 1e12, whole=False)
    order = np.lexsort((turn, branch, conversation))
    same = (np.diff(conversation[order]) == 0) & (np.diff(branch[order]) == 0)
    back = np.flatnonzero(same & (np.diff(times[order]) < 0))
    if back.size:
        raise UnreadableFileError(f"{label}: row {order[back[0] + 1] + 2}: a later turn has an earlier time than the turn before it")
    return order[np.argsort(times[order], kind="stable")]


def _append_only(conversation: Array, branch: Array, order: Array, inputs: Array, outputs: Array) -> Array:
    """Cached tokens where a turn reuses all of the turn before, input and output."""
    key = conversation * (branch.max() + 1) + branch
    rows = order[np.argsort(key[order], kind="stable")]
    before = np.r_[0.0, (inputs + outputs)[rows][:-1]] * np.r_[0.0, np.diff(key[rows]) == 0]
    prefixes = np.zeros(len(rows))
    prefixes[rows] = np.minimum(before, inputs[rows])
    return prefixes


# -------------------------------------------------------------------------------------------------------------- JSON lines
def _hashed(content: bytes, label: str, block_tokens: int) -> Trace:
    if not 1 <= block_tokens <= 1_048_576 or block_tokens != int(block_tokens):
        raise UnreadableFileError(f"{label}: block_tokens {block_tokens!r} is not a whole number from 1 to 1,048,576")
    _too_many(content.count(b"\n") + content.count(b"\r"), "lines", 2 * MAX_REQUESTS, label)
    lines = [line for line in content.splitlines() if line.strip()]
    _too_many(len(lines), "requests", MAX_REQUESTS, label)
    rows, blocks = [], 0
    for number, line in enumerate(lines, start=1):
        rows.append(_request(line, number, label, int(block_tokens)))
        blocks += len(rows[-1][3])
        _too_many(blocks, "hashed blocks", MAX_BLOCKS, label)
    rows.sort(key=lambda row: row[0])
    strand, parent, start, prefix = _hash_strands(rows, int(block_tokens))
    n, numbers = len(rows), np.array([row[:3] for row in rows], float)
    chains = _chains(strand, parent, n)
    return Trace(
        label, chains, chains, numbers[:, 0] / 1000.0, numbers[:, 1],
        np.minimum(np.array(prefix), numbers[:, 1]), numbers[:, 2], np.array(strand, np.int64), np.array(parent, np.int64),
        np.array(start, float), keeps_output=False, notes=(f"Blocks of {block_tokens} tokens, shared by hash; outputs are not hashed and "
        "are not kept.",),
    )  # fmt: skip


Request = tuple[float, float, float, list[int]]


def _request(line: bytes, number: int, label: str, block_tokens: int) -> Request:
    """(time [ms], input, output, hashes) of one line."""
    try:
        row = json.loads(line)
        values = [row[name] for name in ("timestamp", "input_length", "output_length")]
        hashes = row["hash_ids"]
    except (ValueError, RecursionError):
        raise UnreadableFileError(f"{label}: line {number} is not JSON; a trace has one object per line") from None
    except (KeyError, TypeError):
        wanted = "timestamp, input_length, output_length, hash_ids"
        raise UnreadableFileError(f"{label}: line {number} lacks one of {wanted}") from None
    highs = (1e15, MAX_TOKENS, MAX_TOKENS)
    sound = all(type(v) in (int, float) and 0 <= v <= high for v, high in zip(values, highs, strict=True)) and values[1] >= 1
    sound = sound and isinstance(hashes, list) and all(type(h) in (int, str) for h in hashes)
    if not sound or len(hashes) != -(-int(values[1]) // block_tokens):
        raise UnreadableFileError(
            f"{label}: line {number}: a request has a time, at least one input token, output tokens, "
            f"and one hash per {block_tokens} tokens of input"
        )
    return float(values[0]), float(int(values[1])), float(int(values[2])), hashes


def _hash_strands(rows: list[Request], block_tokens: int) -> tuple[list[int], list[int], list[float], list[float]]:
    """(strand of each request, parent and start of each strand, tokens found of each request): a trie of block hashes."""
    trie: dict[tuple[int, Any], int] = {}
    home: list[int] = []
    end: list[float] = []  # where a block ends: the last one of a request may be shorter than the others
    strand, parent, start, prefix = [], [], [], []
    for _, length, _, hashes in rows:
        node, known = -1, 0
        for block in hashes:
            below = trie.get((node, block))
            if below is None:
                break
            node, known = below, known + 1
        own, found = (home[node], end[node]) if node >= 0 else (-1, 0.0)
        if known < len(hashes) or own < 0:
            parent.append(own)
            start.append(found)
            own = len(parent) - 1
        for place, block in enumerate(hashes[known:], start=known + 1):
            trie[(node, block)] = len(home)
            node = len(home)
            home.append(own)
            end.append(min(float(place * block_tokens), length))
        strand.append(own)
        prefix.append(min(found, length))
    return strand, parent, start, prefix


def _chains(strand: list[int], parent: list[int], n: int) -> Array:
    """Conversation of each request: the newest request that it continues passes its own on, once; others start one."""
    holder: dict[int, int] = {}
    out = np.empty(n, np.int64)
    for i, own in enumerate(strand):
        chain = holder.pop(own, None)
        if chain is None and parent[own] >= 0:
            chain = holder.pop(parent[own], None)
        out[i] = i if chain is None else chain
        holder[own] = int(out[i])
    return np.unique(out, return_inverse=True)[1].astype(np.int64)

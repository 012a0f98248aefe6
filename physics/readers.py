"""Files of the user, read with limits: what is wrong with one is said in a sentence, and nothing in it is ever executed."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from physics.observed import ObservedRouting

Array = np.ndarray[Any, Any]

MAX_FILE_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 256 * 2**20
MAX_CHOICES = 2**25
"""Experts named by a trace: 33.5 million, four times the measured one. More takes minutes and gigabytes."""
MAX_EXPERTS = 16_384
MAX_LAYERS = 4_096
MAX_CELLS = 2**22
"""Layers times experts: 45 times the largest published model. A file of a few lines can ask for more than memory holds."""
MAX_HEADER_BYTES = 65_536


class UnreadableFileError(ValueError):
    """A user's file that is too large, damaged, or not of the kind expected; the message says which and what to do."""


def file_bytes(source: str | Path | bytes, name: str = "") -> tuple[bytes, str]:
    """Content and name of a file or an upload, refused above MAX_FILE_BYTES before it is read.

    source: path, or the uploaded bytes.
    name: how to call it in messages; by default the file's name.
    """
    if isinstance(source, bytes):
        label, size = name or "upload", len(source)
    else:
        path = Path(source)
        label = name or path.name
        try:
            size = path.stat().st_size
        except (OSError, ValueError):
            raise UnreadableFileError(f"{label}: no such file") from None
    if size > MAX_FILE_BYTES:
        raise UnreadableFileError(
            f"{label}: {size / 2**20:,.0f} MiB, and at most {MAX_FILE_BYTES / 2**20:.0f} MiB are read; give a part of it"
        )
    if isinstance(source, bytes):
        return source, label
    try:
        return Path(source).read_bytes(), label
    except OSError as problem:
        raise UnreadableFileError(f"{label}: cannot be read ({problem.strerror or 'no reason given'})") from None


def read_routing(
    source: str | Path | bytes, name: str = "", model: str | None = None, n_experts: int | None = None, top_k: int | None = None
) -> ObservedRouting:
    """A user's measured routing, from counts or from a trace of chosen experts.

    Counts: a CSV with columns layer, expert, assignments, and model where it holds several; other columns are summed over. Trace: an .npz
    with whole numbers `experts` [token, layer, choice] and, for more than one request, `offsets` (first token of each, and the end); or a
    CSV with columns request, token, layer and either expert (a row per choice) or expert_1, expert_2, ... (a row per token and layer).
    Raises UnreadableFileError, a ValueError, whatever is wrong with the file.

    source: path, or the uploaded bytes.
    name: how to call it; by default the file's name.
    model: which model's rows to take.
    n_experts: experts per layer, where the file does not name the last ones [1].
    top_k: experts per token, where the file does not tell [1].
    """
    content, label = file_bytes(source, name)
    if content[:2] == b"PK":
        arrays = npz_arrays(content, label)
        experts = arrays.get("experts", next(iter(arrays.values())) if len(arrays) == 1 else None)
        if experts is None:
            raise UnreadableFileError(f"{label}: no array named experts; it holds {names_shown(sorted(arrays)) or 'none'}")
        return _trace(experts, arrays.get("offsets"), label, n_experts)
    frame = csv_frame(content, label)
    if "model" in frame:
        frame = _of_model(frame, model, label)
    if "assignments" in frame:
        return _counts(frame, label, n_experts, top_k)
    return _csv_trace(frame, label, n_experts)


def npz_arrays(content: bytes, label: str) -> dict[str, Array]:
    """Arrays of whole numbers in an .npz, never unpickled, refused above MAX_UNPACKED_BYTES before they are unpacked.

    content: the file.
    label: its name, for messages.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
        size = sum(member.file_size for member in members)
        if size > MAX_UNPACKED_BYTES or len(members) > 64:
            raise UnreadableFileError(
                f"{label}: {len(members)} arrays of {size / 2**20:,.0f} MiB unpacked, and at most {MAX_UNPACKED_BYTES >> 20} MiB in "
                "64 arrays are read; give a part of it"
            )
        return {m.filename[:-4]: _npy(_unpacked(archive, m), f"{label}, {m.filename}") for m in members}
    except UnreadableFileError:
        raise
    except Exception as problem:  # zipfile and its decompressors raise whatever a damaged byte leads to
        raise UnreadableFileError(f"{label}: not a sound .npz file ({type(problem).__name__})") from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as stream:
        return stream.read(MAX_UNPACKED_BYTES + 1)


def _npy(content: bytes, label: str) -> Array:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise UnreadableFileError(f"{label}: .npy version {version[0]}.{version[1]} is not read; save it with numpy.savez")
    shape, columns_first, dtype = read(stream, max_header_size=10_000)
    if dtype.kind not in "iu":
        raise UnreadableFileError(f"{label}: holds {dtype}, not whole numbers; save expert numbers as integers")
    start, count = stream.tell(), 1
    for length in shape:
        count *= length
    if min(shape, default=1) < 0 or len(shape) > 8 or count * dtype.itemsize != len(content) - start:
        raise UnreadableFileError(
            f"{label}: shape {str(shape)[:60]} does not fit its {len(content) - start:,} bytes; the file is cut off or damaged"
        )
    values: Array = np.frombuffer(content, dtype, offset=start)
    return values.reshape(shape, order="F" if columns_first else "C")


def csv_frame(content: bytes, label: str, as_text: bool = False) -> pd.DataFrame:
    """A CSV with a header as a frame, its column names lower-case.

    content: the file.
    label: its name, for messages.
    as_text: cells stay as they are written, empty ones as empty text.
    """
    if b"\0" in content[:MAX_HEADER_BYTES] or not content[:MAX_HEADER_BYTES].strip():
        raise UnreadableFileError(
            f"{label}: neither a CSV nor an .npz file" if content.strip() else f"{label}: is empty; give a file with rows"
        )
    if len(content.split(b"\n", 1)[0]) > MAX_HEADER_BYTES:
        raise UnreadableFileError(f"{label}: its first line is no header of a CSV")
    try:
        kinds: dict[str, Any] = {"dtype": str, "keep_default_na": False} if as_text else {}
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content), encoding="utf-8-sig", low_memory=False, skipinitialspace=True, **kinds)
    except Exception as problem:  # the parser's own errors, of encodings, and of memory
        raise UnreadableFileError(f"{label}: not a sound CSV ({' '.join(str(problem).split())[:120] or type(problem).__name__})") from None
    frame.columns = pd.Index([str(column).strip().lower() for column in frame.columns])
    if not isinstance(frame.index, pd.RangeIndex) or not frame.columns.is_unique:
        raise UnreadableFileError(f"{label}: its rows do not fit its header, or a column is there twice")
    if frame.empty:
        raise UnreadableFileError(f"{label}: has a header and no rows")
    return frame


def floats(column: pd.Series[Any]) -> Array:
    """A column as numbers, NaN where a cell is none; also where a cell has more digits than a number can.

    column: as read.
    """
    try:
        return pd.to_numeric(column, errors="coerce").to_numpy(float)
    except OverflowError:  # pandas lets an integer of 400 digits through to float()
        return np.array([np.nan if len(str(cell)) > 300 else pd.to_numeric(str(cell), errors="coerce") for cell in column], float)


def names_shown(names: Any) -> str:
    """The first names of a list, each cut, for a message."""
    return ", ".join(str(name)[:24] for name in list(names)[:8]) + (" and more" if len(names) > 8 else "")


def _of_model(frame: pd.DataFrame, model: str | None, label: str) -> pd.DataFrame:
    names = frame["model"].astype(str).str.strip()
    held = sorted(names.unique())
    if model is None and len(held) == 1:
        return frame
    chosen = frame[names.str.casefold() == str(model).strip().casefold()]
    if chosen.empty:
        said = f"no rows of {model}" if model is not None else "rows of several models; say which"
        raise UnreadableFileError(f"{label}: {said}; it holds {names_shown(held)}")
    return chosen


def _whole(frame: pd.DataFrame, column: str, high: float, label: str) -> Array:
    """A column as whole numbers from 0 to `high`; the first row that is none is named."""
    if column not in frame:
        wanted = "layer, expert, assignments (counts) or request, token, layer, expert (a trace)"
        raise UnreadableFileError(f"{label}: no column {column}; it needs {wanted}, and has {names_shown(frame.columns)}")
    values = floats(frame[column])
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((values >= 0) & (values <= high) & (values == np.floor(values))))
    if bad.size:
        found = str(frame[column].iloc[bad[0]])[:40]
        raise UnreadableFileError(f"{label}: row {bad[0] + 2}, column {column}: {found!r} is not a whole number from 0 to {high:,.0f}")
    return values.astype(np.int64)


def _counts(frame: pd.DataFrame, label: str, n_experts: int | None, top_k: int | None) -> ObservedRouting:
    layer, expert = _layers(frame, label), _whole(frame, "expert", MAX_EXPERTS - 1, label)
    amount = _whole(frame, "assignments", 1e15, label)
    counts = np.zeros(_shape(int(layer.max()) + 1, _experts(expert, n_experts, label), label))
    np.add.at(counts, (layer, expert), amount)
    fewest = int((counts > 0).sum(axis=1).min())
    if fewest < max(top_k or 1, 1):
        raise UnreadableFileError(f"{label}: a layer has only {fewest} experts with assignments; a token needs {top_k or 1}")
    return ObservedRouting(label, counts, top_k)


def _layers(frame: pd.DataFrame, label: str) -> Array:
    """Layers numbered 0, 1, ... in their order; all 0 where there is no such column."""
    if "layer" not in frame:
        return np.zeros(len(frame), np.int64)
    found, numbered = np.unique(_whole(frame, "layer", 1e9, label), return_inverse=True)
    if found.size > MAX_LAYERS:
        raise UnreadableFileError(f"{label}: {found.size:,} layers, and at most {MAX_LAYERS:,} are read")
    return numbered


def _experts(expert: Array, n_experts: int | None, label: str) -> int:
    named = int(expert.max()) + 1
    if n_experts is not None and named > n_experts:
        raise UnreadableFileError(f"{label}: names expert {named - 1}, and the model has {n_experts} experts, numbered from 0")
    return named if n_experts is None else int(n_experts)


def _shape(layers: int, experts: int, label: str) -> tuple[int, int]:
    if layers * experts > MAX_CELLS:
        most = f"at most {MAX_CELLS:,} together are read; number experts and layers from 0, without gaps"
        raise UnreadableFileError(f"{label}: {layers:,} layers of {experts:,} experts, and {most}")
    return layers, experts


def _csv_trace(frame: pd.DataFrame, label: str, n_experts: int | None) -> ObservedRouting:
    names = [c for c in frame.columns if str(c).startswith("expert")]
    columns = [_whole(frame, name, MAX_EXPERTS - 1, label) for name in names or ["expert"]]
    request = pd.factorize(frame["request"])[0] if "request" in frame else np.zeros(len(frame), np.int64)
    token, layer = _whole(frame, "token", 1e12, label), _layers(frame, label)
    order = np.lexsort((layer, token, request))
    request, token, layer = request[order], token[order], layer[order]
    chosen = np.stack(columns, axis=1)[order]
    n_layers = int(layer.max()) + 1
    starts = np.flatnonzero(np.r_[True, (np.diff(request) != 0) | (np.diff(token) != 0)])
    k, rest = divmod(len(chosen), len(starts) * n_layers)
    expected = np.tile(np.repeat(np.arange(n_layers), k), len(starts))
    if rest or not np.array_equal(expected, layer):
        raise UnreadableFileError(f"{label}: not every token has the same number of experts in each of the {n_layers} layers")
    experts = chosen.reshape(len(starts), n_layers, k * len(columns))
    offsets = np.r_[np.flatnonzero(np.r_[True, np.diff(request[starts]) != 0]), len(starts)]
    return _trace(experts, offsets, label, n_experts)


def _trace(experts: Array, offsets: Array | None, label: str, n_experts: int | None) -> ObservedRouting:
    chosen = experts[:, None, :] if experts.ndim == 2 else experts
    if chosen.ndim != 3 or not chosen.size:
        raise UnreadableFileError(f"{label}: experts has shape {experts.shape}; it must be (tokens, layers, choices)")
    if chosen.size > MAX_CHOICES:
        raise UnreadableFileError(
            f"{label}: {chosen.size:,} chosen experts, and at most {MAX_CHOICES:,} are read; give a part of the tokens"
        )
    if int(chosen.min()) < 0 or int(chosen.max()) >= MAX_EXPERTS or chosen.shape[1] > MAX_LAYERS:
        raise UnreadableFileError(f"{label}: expert numbers go from {chosen.min()} to {chosen.max()}; allowed are 0 to {MAX_EXPERTS - 1:,}")
    chosen = np.ascontiguousarray(chosen, np.uint16)
    ordered = np.sort(chosen, axis=2)
    twice = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=2)
    if twice.any():
        token, layer = np.unravel_index(int(twice.argmax()), twice.shape)
        raise UnreadableFileError(f"{label}: token {token}, layer {layer} names one expert twice; choices must differ")
    _, experts_held = _shape(chosen.shape[1], _experts(chosen, n_experts, label), label)
    counts = np.stack([np.bincount(chosen[:, layer].ravel(), minlength=experts_held) for layer in range(chosen.shape[1])])
    return ObservedRouting(label, counts.astype(float), int(chosen.shape[2]), chosen, _offsets(offsets, len(chosen), label))


def _offsets(offsets: Array | None, tokens: int, label: str) -> Array:
    if offsets is None:
        return np.array([0, tokens])
    sound = offsets.ndim == 1 and offsets.size >= 2 and int(offsets[0]) == 0 and int(offsets[-1]) == tokens
    if not sound or (offsets[1:] < offsets[:-1]).any():
        raise UnreadableFileError(f"{label}: offsets must rise from 0 to the {tokens:,} tokens, one number per request and the end")
    return offsets.astype(np.int64)

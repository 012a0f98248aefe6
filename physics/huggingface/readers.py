"""JSON files and objects of unknown origin, within limits of size, depth and number; nothing but data comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from physics.layers import UnsupportedModelError

CONFIG_BYTES = 16 * 2**20
INDEX_BYTES = 64 * 2**20  # an index lists every tensor: 15 MB for a model of 384 experts
MAX_DEPTH = 32
MAX_VALUES = 2_000_000
SHOWN = 60
_JSON = (dict, list, tuple, str, int, float, type(None))


def shown(value: Any) -> str:
    """A value as an error sentence may quote it: short, and safe for integers of any length."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (list, tuple, dict)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if not isinstance(value, (str, int, float, bool, type(None))):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def read_object(source: Any, what: str, limit: int = CONFIG_BYTES) -> dict[str, Any]:
    """One JSON object from a path or, checked, from a dict.

    source: path of a file, or an object already parsed. what: its name in error sentences. limit: largest file [B].
    Raises UnsupportedModelError saying what is wrong and how to mend it.
    """
    if isinstance(source, Mapping):
        value: Any = dict(source)
    elif isinstance(source, (str, Path)):
        value = _parsed(_text(source, what, limit), what)
    else:
        raise UnsupportedModelError(f"{what}: {shown(source)} is neither a path nor an object; pass the path of a JSON file or a dict")
    if not isinstance(value, dict):
        raise UnsupportedModelError(f"{what}: holds {shown(value)}, not an object; a config.json starts with {{")
    _check_shape(value, what)
    return value


def object_of_bytes(content: bytes, what: str, limit: int = CONFIG_BYTES) -> dict[str, Any]:
    """One JSON object from the content of an uploaded file, within the same limits.

    content: the file. what: its name in error sentences. limit: largest file [B].
    Raises UnsupportedModelError saying what is wrong and how to mend it.
    """
    if len(content) > limit:
        size = f"{len(content) / 2**20:.0f} MiB is more than the {limit >> 20} MiB that are read"
        raise UnsupportedModelError(f"{what}: {size}; is this the right file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnsupportedModelError(f"{what}: not a text file in UTF-8; give the config.json of a model") from None
    value = _parsed(text, what)
    if not isinstance(value, dict):
        raise UnsupportedModelError(f"{what}: holds {shown(value)}, not an object; a config.json starts with {{")
    _check_shape(value, what)
    return value


def _text(source: str | Path, what: str, limit: int) -> str:
    if isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        raise UnsupportedModelError(f"{what}: this is JSON text, not a path; pass json.loads(text) instead")
    path = Path(source)
    try:
        if not path.is_file():
            raise UnsupportedModelError(
                f"{what}: no file {shown(str(source))}; give the path of a config.json or of the folder that holds it"
            )
        size = path.stat().st_size
        if size > limit:
            raise UnsupportedModelError(
                f"{what}: {size / 2**20:.0f} MiB is more than the {limit >> 20} MiB that are read; is this the right file?"
            )
        return path.read_bytes()[: limit + 1].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnsupportedModelError(f"{what}: not a text file in UTF-8; give the config.json of a model") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UnsupportedModelError):
            raise
        raise UnsupportedModelError(f"{what}: {shown(str(source))} cannot be read ({type(error).__name__}); check the path") from None


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{what}: {error}") from None
    except RecursionError:
        _too_deep(what)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno} ({error.msg})"
        raise UnsupportedModelError(f"{what}: not valid JSON at {place}; mend that line, or download the file again") from None
    except ValueError:
        raise UnsupportedModelError(f"{what}: holds a number of thousands of digits; write it as a number a model can have") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in result if names.count(name) > 1)
        raise UnsupportedModelError(f"{shown(twice)} stands twice in one object; keep one of them")
    return result


def _check_shape(value: dict[str, Any], what: str) -> None:
    """Refuse what is too deep, too large, or not JSON, without recursion."""
    level: list[Any] = [value]
    count = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if not all(isinstance(name, str) for name in item):
                    raise UnsupportedModelError(f"{what}: an object has a name that is not text; names are strings in JSON")
                below.extend(item.values())
            else:
                below.extend(item)
            if len(below) > MAX_VALUES:
                break
        count += len(below)
        if count > MAX_VALUES:
            raise UnsupportedModelError(f"{what}: holds more than {MAX_VALUES:,} values; is this the config of a model?")
        strange = next((item for item in below if not isinstance(item, _JSON)), None)
        if strange is not None:
            raise UnsupportedModelError(f"{what}: holds {shown(strange)}, which JSON has not; use numbers, text, lists and objects")
        level = [item for item in below if isinstance(item, (dict, list, tuple))]
        if not level:
            return
    _too_deep(what)


def _too_deep(what: str) -> NoReturn:
    raise UnsupportedModelError(f"{what}: nested deeper than {MAX_DEPTH} levels; the config of a model is flat")


def located(source: str | Path) -> tuple[Path, Path | None, Path | None]:
    """The config.json meant by a path, and beside it hf_quant_config.json and the safetensors index where they exist.

    source: a file (its neighbours are left alone) or a folder.
    """
    path = Path(source)
    try:
        if not path.is_dir():
            return path, None, None
        quant, index = path / "hf_quant_config.json", path / "model.safetensors.index.json"
        return path / "config.json", quant if quant.is_file() else None, index if index.is_file() else None
    except (OSError, ValueError):
        return path, None, None


def given_name(path: Path) -> str:
    """Name of the model by its place: `Qwen3-8B/config.json`, `Qwen--Qwen3-8B_config.json`, or a hub cache."""
    for part in reversed(path.parts[:-1]):
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    if path.stem.lower() in ("config", "params"):
        return path.parent.name
    return path.stem.removesuffix("_config").rpartition("--")[2]

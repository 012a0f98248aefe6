"""What a model says of itself elsewhere, its name and its safetensors index, against what was recomputed."""

from __future__ import annotations

import math
import re
from typing import Any

from physics.huggingface.readers import INDEX_BYTES, read_object, shown
from physics.layers import UnsupportedModelError
from physics.model import Model

TOLERANCE = 0.05
MAX_PARAMS = 10**15
_SIZE = re.compile(r"(?<![0-9A-Za-z.])(\d{1,4}(?:\.\d{1,3})?)([TBM])(?![0-9A-Za-z])", re.IGNORECASE)
_ACTIVE = re.compile(r"(?<![0-9A-Za-z.])A(\d{1,4}(?:\.\d{1,3})?)([BM])(?![0-9A-Za-z])", re.IGNORECASE)
_EXPERTS = re.compile(r"(?<![0-9A-Za-z])\d{1,4}E(?![0-9A-Za-z])")
_FORMAT = re.compile(r"(?<![0-9A-Za-z])(FP8|NVFP4|MXFP4|FP4|INT4|INT8|AWQ|GPTQ|W4A16|W8A8|W4A4)(?![0-9A-Za-z])", re.IGNORECASE)
_UNIT = {"T": 1e12, "B": 1e9, "M": 1e6}


def sizes_in_name(name: str) -> tuple[float, float]:
    """Total and active parameters a name states, as `235B-A22B`; NaN where it states none [1].

    `17B-16E` states active parameters (Llama-4). `8x7B` states neither.
    """
    words = name[:200]
    total, active = (match and float(match[1]) * _UNIT[match[2].upper()] for match in (_SIZE.search(words), _ACTIVE.search(words)))
    if total and not active and _EXPERTS.search(words):
        return math.nan, total
    return total or math.nan, active or math.nan


def name_notes(name: str, model: Model) -> list[str]:
    """A note for each number in the name that is more than 5 % from the recomputed one."""
    notes = []
    for stated, computed, what in zip(sizes_in_name(name), (model.n_params, model.n_active_params), ("total", "active"), strict=True):
        if stated > 0 and abs(computed / stated - 1) > TOLERANCE:
            notes.append(
                f"The name says {stated / 1e9:g} B {what} parameters; recomputed {computed / 1e9:.4g} B ({computed / stated - 1:+.0%})."
            )
    return notes


def format_notes(name: str) -> list[str]:
    """A note where the name speaks of a number format and no quantisation was given."""
    word = _FORMAT.search(name[:200])
    if word is None:
        return []
    return [f"The name says {word[1].upper()}, but no quantisation is given; pass hf_quant_config.json as quant_config to count its bytes."]


def index_note(index: Any, model: Model) -> str:
    """Bytes and parameters of the safetensors index against the recomputed ones.

    index: path or content of model.safetensors.index.json. Raises UnsupportedModelError where it is none.
    """
    content = read_object(index, "safetensors index", INDEX_BYTES)
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        raise UnsupportedModelError("safetensors index: has no object metadata; give model.safetensors.index.json")
    size, params = (_positive(metadata, name) for name in ("total_size", "total_parameters"))
    if not size and not params:
        raise UnsupportedModelError("safetensors index: metadata has neither total_size nor total_parameters")
    said = []
    if size:
        weight = model.weight_bytes()
        said.append(f"{size / 1e9:.4g} GB, recomputed {weight / 1e9:.4g} GB ({weight / size - 1:+.1%})")
    if params:
        said.append(f"{params / 1e9:.4g} B parameters, recomputed {model.n_params / 1e9:.4g} B ({model.n_params / params - 1:+.1%})")
    return f"Safetensors index: {'; '.join(said)}. Towers, multi-token-prediction layers and norms are in the index only."


def _positive(metadata: dict[str, Any], name: str) -> float:
    value = metadata.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e18:
        raise UnsupportedModelError(f"safetensors index: metadata.{name} {shown(value)} is not a positive number below 1e18")
    return float(value)


def check_plausible(model: Model) -> None:
    """Refuse a model beyond any scale: numbers that cannot all be meant."""
    count = model.n_params
    if not 0 < count <= MAX_PARAMS:
        raise UnsupportedModelError(f"{model.name}: its sizes give {shown(count)} parameters; correct the field that is out of scale")

"""Quantisation methods as published: which number format a linear layer has, by method and module list.

Sources: transformers 5.24 utils/quantization_config.py and quantizers/ (fp8, mxfp4, gptq, awq, bitsandbytes, fbgemm),
compressed-tensors quantization schemes, ModelOpt export (hf_quant_config.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from physics.huggingface.matching import Modules
from physics.huggingface.readers import shown
from physics.layers import UnsupportedModelError

LINEAR_CLASSES = ("attention", "dense", "shared", "routed")
INT4 = {32: "int4_g32", 64: "int4_g64", 128: "int4_g128"}
ALGORITHMS = {
    "FP8": "fp8_tensor",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8_tensor",
    "FP8_PB_WO": "fp8",
    "FP8_PB_REAL": "fp8",
    "MXFP8": "mxfp8",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "INT8": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
    "INT4_AWQ": "int4_g128",
    "W4A16_AWQ": "int4_g128",
    "W4A8_AWQ": "int4_g128",
}
"""ModelOpt's `quant_algo` as weight formats."""

FIELDS_OF_LISTS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude", "llm_int8_skip_modules")


@dataclass(frozen=True)
class Scheme:
    """What one quantisation config says of every module.

    default: format of a linear layer that nothing else names, "" for unquantised. excluded: modules left unquantised.
    overrides: formats of named modules, first match wins. classes: tensor classes the method touches.
    below: what holds where this scheme says nothing. kv_dtype: format of the cache it asks for. notes: what was approximated.
    """

    default: str
    excluded: Modules
    overrides: tuple[tuple[Modules, str], ...] = ()
    classes: tuple[str, ...] = LINEAR_CLASSES
    below: Scheme | None = None
    kv_dtype: str = ""
    notes: tuple[str, ...] = field(default=())

    def format(self, kind: str, paths: tuple[str, ...]) -> str:
        """Format of the module with one of these paths, of one tensor class; "" for unquantised."""
        for modules, name in self.overrides:
            if any(path in modules for path in paths):
                return name
        if kind in self.classes and self.default and not any(path in self.excluded for path in paths):
            return self.default
        return self.below.format(kind, paths) if self.below else ""

    def is_uniform(self) -> bool:
        """Whether no module is named, so that a class has one format."""
        return not self.excluded and not self.overrides and (self.below is None or self.below.is_uniform())


def _refuse(name: str, problem: str) -> NoReturn:
    raise UnsupportedModelError(f"quantization_config.{name}: {problem}")


def _whole(q: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = q.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= 65_536:
        _refuse(name, f"{shown(value)} is not a whole number from -1 to 65,536")
    return value


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        _refuse(name, f"{shown(value)} is not an object")
    return value


def _lists(q: Mapping[str, Any]) -> Modules:
    names: list[object] = []
    for key in FIELDS_OF_LISTS:
        value = q.get(key)
        if value is not None and not isinstance(value, (list, tuple)):
            _refuse(key, f"{shown(value)} is not a list of module names")
        names.extend(value or ())
    return Modules(names, "quantization_config")


def scheme_of(q: Mapping[str, Any], experts_fp4: bool = False) -> Scheme:
    """Scheme of a quantization_config or of the content of hf_quant_config.json.

    experts_fp4: whether the model says its experts are FP4 beside an FP8 method (DeepSeek-V4's `expert_dtype`).
    Raises UnsupportedModelError naming what is not understood.
    """
    if isinstance(q.get("quantization"), dict):
        q = {**q["quantization"], "quant_method": "modelopt"}
    method = str(q.get("quant_method") or ("modelopt" if q.get("quant_algo") else ""))[:60].lower()
    if not method and "config_groups" in q:
        method = "compressed-tensors"
    readers = {
        "fp8": lambda: _fp8(q, experts_fp4),
        "finegrained_fp8": lambda: _fp8(q, experts_fp4),
        "fbgemm_fp8": lambda: Scheme("fp8_tensor", _lists(q)),
        "mxfp4": lambda: Scheme("mxfp4", _lists(q), classes=("routed",)),
        "compressed-tensors": lambda: _compressed(q),
        "modelopt": lambda: _modelopt(q),
        "modelopt_fp4": lambda: _modelopt({"quant_algo": "NVFP4", **q}),
        "modelopt_mixed": lambda: _modelopt(q),
        "gptq": lambda: _integers(q),
        "gptq_marlin": lambda: _integers(q),
        "awq": lambda: _integers(q),
        "awq_marlin": lambda: _integers(q),
        "auto-round": lambda: _integers(q),
        "intel/auto-round": lambda: _integers(q),
        "bitsandbytes": lambda: _bitsandbytes(q),
    }
    if method not in readers:
        _refuse("quant_method", f"{shown(method or None)} is not one of {', '.join(readers)}")
    return readers[method]()


def _fp8(q: Mapping[str, Any], experts_fp4: bool) -> Scheme:
    block = q.get("weight_block_size")
    formats = {None: "fp8_tensor", (128, 128): "fp8", (1, 32): "mxfp8", (32, 1): "mxfp8"}
    key = tuple(block) if isinstance(block, list) and all(type(size) is int for size in block) else block
    if isinstance(key, (dict, list)) or key not in formats:
        _refuse("weight_block_size", f"{shown(block)} is not supported; known are null, [128, 128] and [1, 32]")
    below = Scheme(formats[key], _lists(q))
    if q.get("quantized_layers") or q.get("config_groups"):
        # An FP8 checkpoint whose experts ModelOpt made NVFP4: its ignore list says what ModelOpt left alone, in FP8.
        named = _modelopt({**q, "quant_algo": "MIXED_PRECISION"})
        return Scheme("", named.excluded, named.overrides, below=Scheme(formats[key], Modules((), "")), kv_dtype=named.kv_dtype)
    if experts_fp4:
        return Scheme("mxfp4", below.excluded, classes=("routed",), below=below)
    return below


def _modelopt(q: Mapping[str, Any]) -> Scheme:
    by_format: dict[str, list[object]] = {}
    for name, entry in _object(q.get("quantized_layers"), "quantized_layers").items():
        by_format.setdefault(_algorithm(_object(entry, "quantized_layers").get("quant_algo")), []).append(name)
    named = tuple((Modules(names, "quantization_config.quantized_layers"), made) for made, names in by_format.items())
    algorithm = q.get("quant_algo")
    default = "" if algorithm in (None, "MIXED_PRECISION") else _algorithm(algorithm)
    if not default and not named:
        _refuse("quant_algo", f"{shown(algorithm)} without quantized_layers names no format")
    return Scheme(default, _lists(q), named, kv_dtype=_cache(q))


def _algorithm(name: Any) -> str:
    if not isinstance(name, str) or name.upper() not in ALGORITHMS:
        _refuse("quant_algo", f"{shown(name)} is not one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name.upper()]


def _cache(q: Mapping[str, Any]) -> str:
    asked = q.get("kv_cache_quant_algo") or q.get("kv_cache_scheme")
    if isinstance(asked, dict):
        return "fp8" if asked.get("num_bits") == 8 and asked.get("type") == "float" else ""
    return {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8"}.get(asked, "") if isinstance(asked, str) else ""


def _compressed(q: Mapping[str, Any]) -> Scheme:
    sparsity = _object(q.get("sparsity_config"), "sparsity_config").get("format")
    if sparsity not in (None, "dense") or "24" in str(q.get("format"))[:60]:
        _refuse("sparsity_config", "sparse weights are not supported; give the config of a dense checkpoint")
    default, overrides, notes = "", [], []
    for name, group in _object(q.get("config_groups"), "config_groups").items():
        made, note = _weights(_object(group, name[:60]))
        notes += [note] if note else []
        targets = group.get("targets") or ["Linear"]
        if not isinstance(targets, list):
            _refuse("config_groups", f"targets {shown(targets)} is not a list")
        if "Linear" in targets:
            default = made
        rest = [target for target in targets if target != "Linear"]
        overrides += [(Modules(rest, "quantization_config.config_groups"), made)] if rest else []
    if not default and not overrides:
        _refuse("config_groups", "names no format")
    classes = (*LINEAR_CLASSES, "head")  # a head is a Linear too, unless the ignore list names it
    excluded = _lists(q)
    return Scheme(default, excluded, tuple(overrides), classes, kv_dtype=_cache(q), notes=tuple(dict.fromkeys(notes)))


def _weights(group: Mapping[str, Any]) -> tuple[str, str]:
    """Format of a group's `weights` entry, and a note where it is the nearest of the known ones."""
    weights = _object(group.get("weights"), "weights")
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    strategy, layout = weights.get("strategy"), str(group.get("format") or "")
    if (bits, kind) == (8, "float"):
        return {"block": "fp8", "group": "mxfp8"}.get(str(strategy), "fp8_tensor"), ""
    if (bits, kind) == (4, "float"):
        return ("mxfp4" if size == 32 or "mxfp4" in layout else "nvfp4"), ""
    if (bits, kind) == (8, "int"):
        return "int8", ""
    if (bits, kind) == (4, "int"):
        return _int4(size)
    _refuse("config_groups", f"weights of {shown(bits)} bits and type {shown(kind)} are not supported")


def _int4(size: Any) -> tuple[str, str]:
    if isinstance(size, int) and size in INT4:
        return INT4[size], ""
    if size in (-1, None):
        return "int4_g128", "INT4 with one scale per channel is counted with scales of groups of 128."
    _refuse("group_size", f"{shown(size)} is not one of -1, {', '.join(map(str, INT4))}")


def _integers(q: Mapping[str, Any]) -> Scheme:
    for name in ("dynamic", "extra_config", "modules_in_block_to_quantize"):
        if q.get(name):
            _refuse(name, "formats by module are not supported for this method")
    bits = _whole(q, "bits", q.get("w_bit"))
    made, note = _int4(q.get("group_size", q.get("q_group_size", 128))) if bits == 4 else ("int8" if bits == 8 else "", "")
    if not made:
        _refuse("bits", f"{bits} is not 4 or 8")
    classes = (*LINEAR_CLASSES, "head") if q.get("lm_head") is True else LINEAR_CLASSES
    return Scheme(made, _lists(q), classes=classes, notes=(note,) if note else ())


def _bitsandbytes(q: Mapping[str, Any]) -> Scheme:
    """NF4 keeps an FP32 scale per 64 weights (the bytes of int4_g32), with double quantisation about a byte (int4_g128)."""
    if q.get("load_in_8bit") or q.get("_load_in_8bit"):
        return Scheme("int8", _lists(q))
    if not (q.get("load_in_4bit") or q.get("_load_in_4bit")):
        _refuse("load_in_4bit", "neither 4 nor 8 bits are asked for")
    made = "int4_g128" if q.get("bnb_4bit_use_double_quant") else "int4_g32"
    return Scheme(made, _lists(q), notes=("bitsandbytes 4-bit weights are counted as INT4 with the same bytes for scales.",))

"""Hugging Face `config.json` files as models: what `Model.from_config` does.

Strict: a field that may change a number and is not understood refuses the config, in one sentence that names the field and
the architecture. What is left out of a step (vision tower, multi-token prediction) is said in `Model.notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from physics.huggingface import checks
from physics.huggingface.architectures import ARCHITECTURES
from physics.huggingface.fields import Fields
from physics.huggingface.identity import identify, refuse_other_kinds, text_part
from physics.huggingface.parts import Architecture, Layer
from physics.huggingface.quantization import weight_formats
from physics.huggingface.readers import given_name, located, read_object, shown
from physics.huggingface.schemes import Scheme, scheme_of
from physics.huggingface.vocabulary import MEDIA, MTP_COUNTS, is_off
from physics.layers import LayerGroup, UnsupportedModelError
from physics.model import Model

__all__ = ["model_from_config"]

QUANTISATION = ("quantization_config", "compression_config")
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}


class _Source(NamedTuple):
    """A config as found: the outer object, the text part, the separate quantisation and index, and a name."""

    outer: dict[str, Any]
    text: dict[str, Any]
    quant: Any
    index: Any
    name: str

    @property
    def unquantised(self) -> bool:
        """Whether neither the config nor a separate file speaks of quantisation."""
        parts = (self.text, self.outer)
        return self.quant is None and not any(part.get(name) for part in parts for name in QUANTISATION)


def model_from_config(
    config: str | Path | Mapping[str, Any],
    *,
    name: str | None = None,
    quant_config: str | Path | Mapping[str, Any] | None = None,
    safetensors_index: str | Path | Mapping[str, Any] | None = None,
) -> Model:
    """Model described by a Hugging Face config.

    config: path of a config.json, of a folder that holds one (hf_quant_config.json and the safetensors index beside it are
    read too), or its content.
    name: what the model is called, and what its parameters are compared to; from the path where None.
    quant_config: path or content of a separate hf_quant_config.json.
    safetensors_index: path or content of model.safetensors.index.json, compared in a note.
    Raises UnsupportedModelError, a ValueError: one sentence naming field, value and architecture, or what is wrong with the file.
    """
    source = _source(config, name, quant_config, safetensors_index)
    kind, label = identify(source.outer, source.text)
    architecture = ARCHITECTURES[kind]
    f = Fields(source.text, label, architecture.defaults)
    for field in ("hidden_size", "num_layers" if kind == "longcat_flash" else "num_hidden_layers"):
        if not f.has(field) and not f.has("hybrid_override_pattern") and not f.has("layers_block_type"):
            f.fail(field, "is missing; a language model's config gives it")
    both_ways = f.raw("use_bidirectional_attention")
    if both_ways not in (None, False, "vision"):
        f.fail("use_bidirectional_attention", f"{shown(both_ways)} is not supported; only causal models are read")
    layers = architecture.build(f)
    model = _assembled(f, layers, source, architecture)
    checks.check_plausible(model)
    return model.replace(notes=(*model.notes, *_comparisons(source, model)))


def _source(config: Any, name: Any, quant: Any, index: Any) -> _Source:
    if name is not None and not isinstance(name, str):
        raise UnsupportedModelError(f"name: {shown(name)} is not text")
    found = name or ""
    if isinstance(config, (str, Path)) and str(config).lstrip()[:1] not in ("{", "["):
        config, beside, indexed = located(config)
        quant, index, found = quant or beside, index or indexed, found or given_name(config.absolute())
    outer = read_object(config, "config")
    refuse_other_kinds(outer)
    quant = read_object(quant, "hf_quant_config") if quant is not None else None
    text = text_part(outer)
    return _Source(outer, text, quant, index, _clean(found or _own_name(outer)))


def _own_name(outer: dict[str, Any]) -> str:
    path, classes = outer.get("_name_or_path"), outer.get("architectures")
    if isinstance(path, str) and path.strip("/. "):
        return path.rstrip("/").rpartition("/")[2]
    return str(classes[0]) if isinstance(classes, list) and classes else str(outer.get("model_type", "model"))


def _clean(name: str) -> str:
    return "".join(char for char in name if char.isprintable())[:120].strip() or "model"


def _assembled(f: Fields, layers: list[Layer], source: _Source, architecture: Architecture) -> Model:
    hidden, vocab = f.count("hidden_size"), f.count("vocab_size")
    scheme, base = _scheme(f, source), _dtype(f, source)
    tied = _tied(f, source)
    formats = weight_formats(layers, architecture.names, scheme, base, hidden, vocab)
    max_context = f.optional("max_position_embeddings", 0) or 0
    notes = _notes(f, source, scheme)
    return Model(
        name=source.name,
        hidden=hidden,
        vocab=vocab,
        groups=tuple(LayerGroup(count, *layer) for layer, count in Counter(layers).items()),
        formats=formats,
        tied_embeddings=tied,
        max_context=max_context,
        kv_dtype=(scheme.kv_dtype if scheme else "") or "bf16",
        source=f"config.json of {f.architecture}; defaults of {architecture.source}",
        notes=tuple(notes),
    )


def _dtype(f: Fields, source: _Source) -> str:
    value = f.raw("dtype") or source.outer.get("dtype") or source.outer.get("torch_dtype")
    if value is None:
        f.notes.append("The config gives no dtype; what is not quantised is counted in BF16.")
        return "bf16"
    word = value.removeprefix("torch.") if isinstance(value, str) else value
    if not isinstance(word, str) or word not in DTYPES:
        f.fail("torch_dtype", f"{shown(value)} is not one of {', '.join(DTYPES)}")
    return DTYPES[word]


def _tied(f: Fields, source: _Source) -> bool:
    """The text part decides, then the wrapper, then the class; transformers ties where either of the first two says so."""
    said = [part["tie_word_embeddings"] for part in (source.text, source.outer) if part.get("tie_word_embeddings") is not None]
    if any(not isinstance(value, bool) for value in said):
        f.fail("tie_word_embeddings", "is neither true nor false")
    f.ignore("tie_word_embeddings")
    if len(set(said)) > 1:
        f.notes.append("tie_word_embeddings differs between the config and its text part; taken as tied.")
    return any(said) if said else bool(f.defaults.get("tie_word_embeddings", False))


def _scheme(f: Fields, source: _Source) -> Scheme | None:
    own = next((part[name] for part in (source.text, source.outer) for name in QUANTISATION if part.get(name)), None)
    f.ignore(*QUANTISATION)
    if own is not None and not isinstance(own, dict):
        f.fail("quantization_config", f"{shown(own)} is not an object")
    fp4 = f.word("expert_dtype", ("fp4", "fp8", "bf16")) == "fp4"
    try:
        inner = scheme_of(own, fp4) if own else None
        if source.quant is None:
            return inner
        outer = scheme_of(source.quant)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(f"{error} [{f.architecture}]") from None
    # Where ModelOpt names single layers, the rest is as the config's own method left it.
    mixed = inner if not outer.default and inner and own and own.get("quant_method") == "fp8" else None
    if mixed and own and own.get("quantized_layers"):
        return inner
    return Scheme(outer.default, outer.excluded, outer.overrides, outer.classes, mixed, outer.kv_dtype, outer.notes)


def _notes(f: Fields, source: _Source, scheme: Scheme | None) -> list[str]:
    notes = list(f.notes)
    media = [name for name, value in source.outer.items() if isinstance(value, dict) and MEDIA.search(name) and value]
    if media:
        notes.append(f"Only the language model is counted; ignored: {', '.join(media)}.")
    ahead = [f"{name} {shown(f.data[name])}" for name in MTP_COUNTS if not is_off(f.data.get(name))]
    if ahead:
        notes.append(f"Multi-token-prediction layers are not part of a step; ignored: {', '.join(ahead)}.")
    unknown = f.check_leftovers()
    if unknown:
        notes.append(f"Fields not known, taken to change no number: {', '.join(name[:60] for name in unknown[:20])}.")
    sizes = [f"{name} {value}" for name, value in f.defaulted.items() if isinstance(value, int) and value > 1]
    if sizes:
        notes.append(f"Absent fields took the defaults of their class: {', '.join(sizes)}.")
    if scheme and scheme.kv_dtype:
        notes.append(f"The checkpoint asks for a cache in {scheme.kv_dtype.upper()}; choose it as cache format to count it so.")
    return notes + list(scheme.notes if scheme else ())


def _comparisons(source: _Source, model: Model) -> list[str]:
    notes = checks.name_notes(source.name, model)
    if source.unquantised:
        notes += checks.format_notes(source.name)
    if source.index is not None:
        notes.append(checks.index_note(source.index, model))
    return notes

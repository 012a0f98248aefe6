"""What a JSON object is: a language model's config, its text part inside a wrapper, or something else that is refused."""

from __future__ import annotations

import difflib
import re
from typing import Any

from physics.huggingface.architectures import ARCHITECTURES, SAME_AS
from physics.huggingface.readers import shown
from physics.layers import UnsupportedModelError

TEXT_PARTS = ("text_config", "llm_config", "language_config")
OTHER_KINDS = (
    (("peft_type", "base_model_name_or_path", "lora_alpha"), "the config of an adapter; give the config.json of its base model"),
    (("_class_name", "_diffusers_version"), "the config of a diffusers pipeline; only language models are read"),
    (("weight_map",), "a safetensors index; pass it as safetensors_index, and the config.json as config"),
    (("image_processor_type", "feature_extractor_type", "processor_class"), "the config of a preprocessor; give the model's config.json"),
    (("added_tokens_decoder", "chat_template", "tokenizer_file"), "the config of a tokenizer; give the model's config.json"),
    (("__version__",), "the config of a sentence encoder; give the model's config.json"),
    (("quantization", "producer"), "a hf_quant_config; pass it as quant_config, and the config.json as config"),
)
_HEADLESS = re.compile(r"(Classification|QuestionAnswering|RewardModel|MultipleChoice|ForPreTraining|ForMaskedLM|EmbeddingModel)$")
_CORE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


def refuse_other_kinds(outer: dict[str, Any]) -> None:
    """Refuse, by a sentence that says what it is, an object that is no model's config."""
    if "model_type" in outer or "architectures" in outer:
        return
    for names, what in OTHER_KINDS:
        found = [name for name in names if name in outer]
        if found:
            raise UnsupportedModelError(f"config: {shown(found[0])} makes this {what}")
    raise UnsupportedModelError("config: neither model_type nor architectures is there; give the config.json of a language model")


def text_part(outer: dict[str, Any]) -> dict[str, Any]:
    """The language model's own object: the wrapper's text part, or the whole."""
    for key in ("is_encoder_decoder", "add_cross_attention"):
        if outer.get(key) is True:
            raise UnsupportedModelError(f"{key}: true is not supported; only decoders without cross attention are read [{_label(outer)}]")
    thinker = outer.get("thinker_config")
    if isinstance(thinker, dict):
        return text_part({"model_type": str(outer.get("model_type")), **thinker})
    for name in TEXT_PARTS:
        inner = outer.get(name)
        if inner is None:
            continue
        if not isinstance(inner, dict):
            raise UnsupportedModelError(f"{name}: {shown(inner)} is not an object [{_label(outer)}]")
        for core in _CORE:
            said, meant = outer.get(core), inner.get(core, outer.get(core))
            if said is not None and meant != said:
                raise UnsupportedModelError(f"{core}: {shown(said)} contradicts {name}.{core} {shown(meant)} [{_label(outer)}]")
        return inner
    return outer


def _classes(part: dict[str, Any]) -> list[str]:
    classes = part.get("architectures")
    if classes is None:
        return []
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise UnsupportedModelError(f"architectures: {shown(classes)} is not a list of class names")
    return [name[:80] for name in classes[:3]]


def _label(part: dict[str, Any]) -> str:
    classes = part.get("architectures")
    named = classes[0] if isinstance(classes, list) and classes and isinstance(classes[0], str) else part.get("model_type")
    return str(named)[:80] if isinstance(named, str) else "unknown architecture"


def _family(part: dict[str, Any]) -> str:
    kind = part.get("model_type")
    if kind is None:
        return ""
    if not isinstance(kind, str):
        raise UnsupportedModelError(f"model_type: {shown(kind)} is not text")
    return SAME_AS.get(kind, kind) if SAME_AS.get(kind, kind) in ARCHITECTURES else ""


def _folded(name: str) -> str:
    plain = re.sub(r"(ForCausalLM|ForConditionalGeneration|LMHeadModel|ForVision2Seq)$", "", name)
    return re.sub(r"[^a-z0-9]|text$|textmodel$", "", plain.lower())


_OF_CLASS: dict[str, str] = {}
for _kind, _row in ARCHITECTURES.items():
    for _name in (_kind, _kind.removesuffix("_text"), *_row.classes, *(other for other, same in SAME_AS.items() if same == _kind)):
        _OF_CLASS.setdefault(_folded(_name), _kind)


def identify(outer: dict[str, Any], text: dict[str, Any]) -> tuple[str, str]:
    """Key of ARCHITECTURES, and the name used in errors.

    Raises UnsupportedModelError where the model type is not known, or its class is not one of that type.
    """
    label, wrapped = _label(text if _label(text) != "unknown architecture" else outer), text is not outer
    classes = _classes(text) or ([] if wrapped and text.get("model_type") else _classes(outer))
    for name in classes:
        if _HEADLESS.search(name) or (name.endswith("Model") and not name.endswith("ChatModel")):
            raise UnsupportedModelError(f"architectures: {shown(name)} has no language-model head; give the config of a generating model")
    kinds = [kind for kind in (_OF_CLASS.get(_folded(name)) for name in classes) if kind]
    declared = _family(text) or ("" if text.get("model_type") or not wrapped else _family(outer))
    if classes and not kinds and not wrapped:
        raise UnsupportedModelError(f"architectures: {shown(classes[0])} is not supported{_hint(text)}")
    if not declared and not kinds:
        unknown = text.get("model_type", outer.get("model_type"))
        raise UnsupportedModelError(f"model_type: {shown(unknown)} is not supported{_hint(text)} [{label}]")
    kind = declared or kinds[0]
    if kinds and not any(_alike(other, kind) for other in kinds):
        raise UnsupportedModelError(f"architectures: {shown(classes[0])} is not a class of model_type {shown(text.get('model_type'))}")
    return kind, label


def _alike(one: str, other: str) -> bool:
    """Whether a class of one family may load configs of the other: the same builder, or a wrapper's text part."""
    return one == other or ARCHITECTURES[one].build is ARCHITECTURES[other].build or one.split("_")[0] == other.split("_")[0]


def _hint(part: dict[str, Any]) -> str:
    if part.get("is_encoder_decoder") is True:
        return "; only decoder language models are read"
    given = str(part.get("model_type", "")).lower()[:40]
    close = difflib.get_close_matches(given, sorted(ARCHITECTURES), n=4, cutoff=0.5)
    if close:
        return f"; the closest that are read: {', '.join(close)}"
    return f"; {len(ARCHITECTURES)} model types are read, llama, qwen3_moe, deepseek_v3 and gpt_oss among them"

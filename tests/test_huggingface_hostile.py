"""Configs that are broken, hostile or mutated: a model of finite numbers or one sentence, nothing else, in bounded time."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from pathlib import Path
from typing import Any

import pytest
from config_fixtures import CASES, llama
from config_fixtures_special import SPECIAL
from hypothesis import given, settings
from hypothesis import strategies as st

from physics import Model, UnsupportedModelError
from physics.huggingface.readers import CONFIG_BYTES, MAX_DEPTH
from physics.huggingface.vocabulary import ALIASES

CONFIGS = Path(__file__).resolve().parents[2] / "shared" / "configs"
SHARED = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(CONFIGS.glob("*.json"))]
BASES: list[dict[str, Any]] = [case.config for case in (*CASES.values(), *SPECIAL.values())] + SHARED
GOOD = llama(4096, 4, 32, 11008, 32000)
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2,
    10**9, 2**63, 10**4000, -0.0, 0.5, 3.0, float("nan"), float("inf"), float("-inf"), "", "12", "auto", "∞",
    "<script>alert(1)</script>", "\x00", [], [[]], [1], ["full_attention"], [None] * 61, [0] * 61, [1, 1.5, "x"], {}, {"a": {"b": []}},
    {"quant_method": "fp8"}, "re:(a+)+$", "M*E-", "1,2,x", [10**30], set(), b"x", 1j,
]  # fmt: skip
NAMES = sorted(
    {name for base in BASES for name in base} | {alias for names in ALIASES.values() for alias in names} | {"colour", "num_zorks"}
)


def outcome(config: Any, **options: Any) -> Model | None:
    """The model, None where refused by a sentence; anything else fails the test."""
    try:
        model = Model.from_config(config, **options)
    except ValueError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        assert len(message) < 1500
        return None
    numbers = [model.n_params, model.n_active_params, model.weight_bytes(), model.hidden, model.vocab, model.n_layers]
    assert all(math.isfinite(number) and number > 0 for number in numbers)
    others = [
        model.kv_bytes_per_token(),
        model.state_bytes(),
        model.window_bytes(1e6),
        *model.params_by_class().values(),
        *model.weight_bytes_by_class().values(),
    ]
    assert all(math.isfinite(number) and number >= 0 for number in others)
    return model


def refusal(config: Any, **options: Any) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        Model.from_config(config, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"])
@pytest.mark.parametrize(
    "value",
    [0, -1, True, "4096", 4096.0, float("nan"), float("inf"), 10**9, 10**5000, [4096], {"a": 1}],
    ids=lambda v: str(type(v).__name__),
)
def test_numbers_that_are_none(field: str, value: Any) -> None:
    message = refusal({**GOOD, field: value})
    assert field in message
    assert "whole number" in message


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ("[1, 2]", "not an object"),
        ("3", "not an object"),
        ("null", "not an object"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000, "deeper"),
        ('{"a":' * (MAX_DEPTH + 5) + "1" + "}" * (MAX_DEPTH + 5), "deeper"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "digits"),
        ('{"model_type": "llama", "hidden_size": NaN, "num_hidden_layers": 2}', "hidden_size"),
    ],
    ids=range(10),
)
def test_files_that_are_no_config(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert word in refusal(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path / "missing.json")
    assert "no file" in refusal(tmp_path)
    assert "json.loads" in refusal('{"model_type": "llama"}')
    for path in ("bad\0name.json", "x" * 5000, ""):
        refusal(path)
    binary = tmp_path / "model.safetensors"
    binary.write_bytes(bytes(range(256)) * 10)
    assert "UTF-8" in refusal(binary)
    for value in (3, None, [GOOD], b"{}"):
        assert "neither" in refusal(value)


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as handle:
        handle.truncate(100 * 2**20)
    start = time.process_time()
    assert f"{CONFIG_BYTES >> 20} MiB" in refusal(path)
    assert time.process_time() - start < 0.5


def test_objects_that_are_deep_wide_circular_or_no_json() -> None:
    circle: dict[str, Any] = dict(GOOD)
    circle["x"] = circle
    assert "deeper" in refusal(circle)
    doubled: Any = {}
    for _ in range(25):
        doubled = {"a": doubled, "b": doubled}
    refusal({**GOOD, "x": doubled})
    assert "not text" in refusal({**GOOD, 5: 1})
    assert "values" in refusal({**GOOD, "x": [0] * 2_000_001})


def test_names_are_cut_and_cleaned() -> None:
    model = Model.from_config(GOOD, name="a\x00b\n" + "c" * 500)
    assert model.name == ("ab" + "c" * 500)[:120]
    assert Model.from_config(GOOD, name="<b>x</b>").name == "<b>x</b>"  # escaped where shown
    assert "name" in refusal(GOOD, name=3)


def test_sizes_that_cannot_all_be_meant() -> None:
    assert "parameters" in refusal(
        {**GOOD, "hidden_size": 9_000_000, "intermediate_size": 9_000_000, "num_hidden_layers": 4000, "head_dim": 128}
    )


def mutated(base: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A copy with one to four fields gone, replaced, borrowed from another config, or one of its entries replaced."""
    config = copy.deepcopy(base)
    for _ in range(rng.randint(1, 4)):
        inner = [part for part in config.values() if isinstance(part, dict) and part]
        target = rng.choice([config, config, *inner])
        name = rng.choice(sorted(target)) if target and rng.random() < 0.7 else rng.choice(NAMES)
        value, way = target.get(name), rng.random()
        if way < 0.2:
            target.pop(name, None)
        elif way < 0.4 and isinstance(value, list) and value:
            value[rng.randrange(len(value))] = rng.choice(HOSTILE)
        elif way < 0.6:
            target[name] = rng.choice(BASES).get(name)
        else:
            target[name] = rng.choice([*HOSTILE, rng.randint(-5, 300)])
    return config


@settings(max_examples=300)
@given(base=st.sampled_from(range(len(BASES))), seed=st.integers(0, 2**32))
def test_any_mutation_gives_a_model_or_a_sentence(base: int, seed: int) -> None:
    outcome(mutated(BASES[base], random.Random(seed)))


def test_a_seeded_corpus_of_two_thousand() -> None:
    rng = random.Random(20260401)
    start = time.process_time()
    read = sum(outcome(mutated(rng.choice(BASES), rng)) is not None for _ in range(2000))
    assert 0 < read < 2000
    assert time.process_time() - start < 60


QUANT_WORDS = ("quant_method", "weight_block_size", "config_groups", "ignore", "weights", "targets", "quantized_layers", "quant_algo")
QUANT_WORDS += ("bits", "group_size", "quantization", "exclude_modules", "kv_cache_scheme", "modules_to_not_convert", "type", "num_bits")
METHODS = ("fp8", "modelopt", "compressed-tensors", "gptq", "bitsandbytes", "mxfp4")


@settings(max_examples=100)
@given(
    quant=st.recursive(
        st.sampled_from(HOSTILE), lambda inner: st.dictionaries(st.sampled_from(QUANT_WORDS), inner, max_size=5), max_leaves=12
    )
)
def test_any_quantisation_gives_a_model_or_a_sentence(quant: Any) -> None:
    outcome({**GOOD, "quantization_config": quant})
    outcome(GOOD, quant_config=quant)
    for method in METHODS:
        if isinstance(quant, dict):
            outcome({**GOOD, "quantization_config": {**quant, "quant_method": method}})


METADATA = st.fixed_dictionaries({"total_size": st.sampled_from(HOSTILE), "total_parameters": st.sampled_from(HOSTILE)})


@settings(max_examples=60)
@given(index=st.sampled_from(HOSTILE) | st.fixed_dictionaries({"metadata": st.sampled_from(HOSTILE) | METADATA}))
def test_any_index_gives_a_model_or_a_sentence(index: Any) -> None:
    outcome(GOOD, safetensors_index=index)

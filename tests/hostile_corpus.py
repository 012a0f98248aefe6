"""Hostile inputs, made by rules from one seed: files of every kind, addresses, typed text, messages, and values no control sends.

Each maker gives one case from a random generator. Nothing here is what a program under test produced.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import numpy as np
from config_fixtures import CASES
from config_fixtures_special import SPECIAL

from app.state import Choices
from physics.machine_reader import QUANTITIES

CONFIGS = [case.config for case in (*CASES.values(), *SPECIAL.values())]
NUMBERS = (
    "0", "-0", "-0.0", "-1", "1", "1e308", "1e309", "-1e999", "nan", "NaN", "inf", "-Infinity", "1e-320", "0x10", "1_000", "１２", "٣",
    "9" * 400, "1" + "0" * 5000, "1.5", "1,5", "", " ", "None", "True", "1e", "--1", "+", "1/0", "½", "∞", "1e5e5", "2**64", "\x00", "1\n2",
)  # fmt: skip
WORDS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "javascript:alert(1)", "{{7*7}}", "${7*7}",
    "__import__('os').system('touch pwned')", "'; DROP TABLE models; --", "=cmd|' /C calc'!A0", "../../../../etc/passwd", "file:///etc/passwd",
    "**bold**", "$$\\frac{1}{0}$$", "\u202eevil", "\u0000", "a\nb", "x" * 5000, "😀" * 50, "\ud7ff", "%s%s%n", "CON", "http://localhost:1/",
)  # fmt: skip
MAGIC = (
    b"\x89PNG\r\n\x1a\n",
    b"PK\x03\x04",
    b"\x1f\x8b\x08\x00",
    b"\x7fELF",
    b"%PDF-1.7",
    b"\x80\x04\x95",
    b"\xff\xfe{\x00",
    b"GIF89a",
    b"",
)
JSON_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, -0.0, 10**9, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", *WORDS[:8], [], {}, [None] * 100, {"a": {"b": []}},
)  # fmt: skip


def bytes_of(rng: random.Random) -> bytes:
    """Content of another kind: a picture, an archive, a program, noise."""
    return rng.choice(MAGIC) + rng.randbytes(rng.randrange(300))


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The same cut, doubled, with bytes flipped, or with something in the middle."""
    at = rng.randrange(len(content) + 1)
    way = rng.randrange(5)
    if way == 0:
        return content[:at]
    if way == 1:
        return content + content
    if way == 2:
        return content[:at] + rng.choice((*[word.encode("utf-8") for word in WORDS], rng.randbytes(5))) + content[at:]
    if way == 3:
        return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
    return content.replace(rng.choice((b",", b"\n", b":", b"1")), rng.choice((b";", b"", b"\r", b"\t", b'"')))


# -------------------------------------------------------------------------------------------------------------------- files
def config_files(rng: random.Random) -> dict[str, bytes]:
    """One to three files that pass, or do not, for the config of a model."""
    config = copy.deepcopy(rng.choice(CONFIGS))
    for _ in range(rng.randrange(4)):
        config[rng.choice(sorted(config))] = rng.choice(JSON_VALUES)
    text = json.dumps(config)
    way = rng.randrange(8)
    if way == 0:
        text = text[:-1] + ', "hidden_size": 5, "hidden_size": 6}'
    if way == 1:
        text = '{"a":' * rng.choice((40, 3000)) + text + "}" * rng.choice((40, 3000))
    if way == 2:
        text = json.dumps([config])
    content = damaged(text.encode(), rng) if way == 3 else bytes_of(rng) if way == 4 else text.encode(rng.choice(("utf-8", "utf-8-sig")))
    files = {rng.choice(("config.json", "Model-7B/config.json", f"{rng.choice(WORDS)}.json", "x.bin", "")): content}
    if way == 5:
        files["hf_quant_config.json"] = json.dumps({"quantization": rng.choice(JSON_VALUES)}).encode()
    if way == 6:
        files["model.safetensors.index.json"] = json.dumps({"weight_map": {}, "metadata": {"total_size": rng.choice(JSON_VALUES)}}).encode()
    if way == 7:
        files |= {f"{i}.json": content for i in range(rng.choice((1, 12)))}
    return files


def csv_file(rng: random.Random, columns: tuple[str, ...], rows: int) -> bytes:
    """A table with some cells, names or separators wrong."""
    names = [rng.choice(WORDS) if rng.random() < 0.05 else name for name in columns]
    lines = [",".join(names)]
    for _ in range(rng.randrange(rows)):
        cells = [rng.choice((*NUMBERS, *WORDS[:12])) if rng.random() < 0.15 else str(rng.randrange(8)) for _ in names]
        lines.append(",".join(cells[: rng.choice((len(cells),) * 8 + (1,))]))
    content = rng.choice(("\n",) * 5 + ("\r\n", "\r")).join(lines).encode("utf-8", "surrogatepass")
    return damaged(content, rng) if rng.random() < 0.4 else content


def machine_file(rng: random.Random) -> bytes:
    """A machines.csv with cells wrong."""
    lines = ["machine,quantity,value,unit,status,source,confidence,note"]
    for quantity, known in QUANTITIES.items():
        cells = ["Chip", quantity, rng.choice(("1", "100", "7.5")), known.units[0], "used", "a sheet", "read", ""]
        if rng.random() < 0.1:
            cells[rng.randrange(len(cells))] = rng.choice((*NUMBERS, *WORDS)).replace(",", " ").replace("\n", " ")
        lines.append(",".join(cells))
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    return damaged(content, rng) if rng.random() < 0.4 else content


def array_file(rng: random.Random) -> bytes:
    """An .npz of experts: of wrong kind, shape, range or size, pickled, or damaged."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: np.random.default_rng(rng.randrange(99)).integers(0, 8, (5, 2, 2)),
        lambda: np.full((2, 2, 2), -1),
        lambda: np.array([[[1, 2]]], object),
        lambda: np.array([[np.nan, np.inf]]),
        lambda: np.array(["<script>"]),
        lambda: np.zeros((0, 3, 2), int),
        lambda: np.array(2**63, np.uint64),
        lambda: np.full((1, 1, 2), 2**40),
    )
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{rng.choice(("experts", "experts", "offsets", "../x", "a")): rng.choice(kinds)()})
    content = buffer.getvalue()
    return damaged(content, rng) if rng.random() < 0.5 else content


def jsonl_file(rng: random.Random) -> bytes:
    """A trace of block hashes with values that are none."""
    lines = []
    for i in range(rng.randrange(1, 12)):
        row: dict[str, Any] = {"timestamp": i * 10, "input_length": 600, "output_length": 5, "hash_ids": [1, 2 + i]}
        if rng.random() < 0.3:
            row[rng.choice(sorted(row))] = rng.choice(JSON_VALUES)
        lines.append(json.dumps(row))
    content = "\n".join(lines).encode()
    content = damaged(content, rng) if rng.random() < 0.4 else content
    return gzip.compress(content)[: rng.choice((10**6, 40))] if rng.random() < 0.3 else content


def bomb(size: int, name: str = "experts.npy") -> bytes:
    """An archive of a few kB whose member unpacks to `size` zeros."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w", force_zip64=True) as member:
        for _ in range(size // 2**20):
            member.write(bytes(2**20))
    return buffer.getvalue()


# -------------------------------------------------------------------------------------------------------- addresses, typing
def address(rng: random.Random) -> str:
    """A URL query with fields of any value, twice, unknown, or no query at all."""
    names = [*Choices.__dataclass_fields__, "foo", "__class__", "scenario", rng.choice(WORDS)]
    pairs = [(rng.choice(names), rng.choice((*NUMBERS, *WORDS))) for _ in range(rng.choice((1, 2, 3, 8, 60)))]
    text = "?" + urlencode(pairs, errors="replace")
    return text if rng.random() < 0.8 else text.replace("=", rng.choice(("", "==", "%", "&"))) + rng.choice(("%", "%zz", "&&&", "\x00"))


def typed(rng: random.Random) -> str:
    """What may be typed where a number with a unit is asked for."""
    parts = [
        rng.choice((*NUMBERS, *WORDS, "1", "12")),
        rng.choice(("", " ", "k", "GB", "Gb", "tokens", "TFLOP/s", "e9", "$", "%", "\u00a0", "𝟙")),
    ]
    return "".join(parts if rng.random() < 0.8 else reversed(parts))


def changes(rng: random.Random) -> dict[str, Any]:
    """Choices that no control sends."""
    values = (*JSON_VALUES, *NUMBERS, set(), b"x", 1j, object(), [1], float("-inf"), np.float64("nan"), np.array([1, 2]))
    return {rng.choice([*Choices.__dataclass_fields__]): rng.choice(values) for _ in range(rng.choice((1, 1, 2)))}


def message(rng: random.Random) -> Any:
    """What a browser under somebody else's control may send to a component."""
    keys = (
        "begin",
        "piece",
        "file",
        "end",
        "typed",
        "key",
        "reset",
        "clicked",
        "row",
        "column",
        "preset",
        "action",
        "tool",
        "close",
        "narrow",
    )
    values: tuple[Any, ...] = (*JSON_VALUES, [["a", 3]], [["a", -1]], [["a"]], [[1, 2]], [["a", 10**12]], "AAAA", "!!!!", [["x", True]])
    return (
        rng.choice((None, 3, [], {})) if rng.random() < 0.1 else {rng.choice(keys): rng.choice(values) for _ in range(rng.randrange(1, 4))}
    )

"""Number formats: what one weight or one cache element costs in bytes, and at which peak it computes.

Block-scaled formats carry their scales: FP8 with 128 x 128 blocks and an FP32 scale adds 4/16384 = 2**-12 byte
per weight (DeepSeek-V3), OCP MXFP4 adds one byte per 32 weights, NVFP4 one per 16, INT4-g32 two per 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

_PLAIN_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0 + 2.0**-12,
    "fp8_tensor": 1.0,
    "mxfp8": 1.0 + 1.0 / 32.0,
    "int8": 1.0,
    "mxfp4": 0.5 + 1.0 / 32.0,
    "nvfp4": 0.5 + 1.0 / 16.0,
    "int4_g128": 0.5 + 2.0 / 128.0,
    "int4_g64": 0.5 + 2.0 / 64.0,
    "int4_g32": 0.5 + 2.0 / 32.0,
}

MIXTURE = "mix:"
"""Start of the name of a mixture, as `mix:nvfp4=0.63,bf16=0.37`: parameters of one tensor class in several formats."""


class _WeightBytes(dict[str, float]):
    """Bytes per weight by format; a mixture's are the mean over its parameters."""

    def __missing__(self, name: str) -> float:
        shares = mixture_shares(name)
        return sum(share * self[part] for part, share in shares.items()) / sum(shares.values())


WEIGHT_BYTES: dict[str, float] = _WeightBytes(_PLAIN_BYTES)
"""Bytes per weight [B/parameter] of each weight format, block scales included; a mixture's by its name."""


def mixture(shares: Mapping[str, float]) -> str:
    """Name of a mixture of plain formats, the largest first; the one format's own name where it holds 99.5 % or more.

    shares: parameters of each format, in any unit.
    """
    total = sum(shares.values())
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    if ordered[0][1] >= 0.995 * total:
        return ordered[0][0]
    return MIXTURE + ",".join(f"{name}={share / total:.4f}" for name, share in ordered if share >= 0.00005 * total)


def mixture_shares(name: str) -> dict[str, float]:
    """Share of each format of a mixture's name; KeyError where it is no such name."""
    if not name.startswith(MIXTURE):
        raise KeyError(name)
    parts = (part.partition("=") for part in name.removeprefix(MIXTURE).split(","))
    try:
        shares = {part: float(share) for part, _, share in parts}
    except ValueError:
        raise KeyError(name) from None
    if not all(0 < share <= 1 for share in shares.values()) or any(part not in WEIGHT_BYTES for part in shares):
        raise KeyError(name)
    return shares


CACHE_BYTES: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625}
"""Bytes per cached element [B] of the plain cache formats; `fp8_ds_mla` is a layout of its own (see `model`)."""

LATENT_LAYOUT = "fp8_ds_mla"
"""FlashMLA's cache layout, named as vLLM names it: FP8 latent with scales, rotary part in BF16 (656 B for DeepSeek-V3)."""

KV_DTYPES: tuple[str, ...] = (*CACHE_BYTES, LATENT_LAYOUT)

ALIASES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "fp4": "nvfp4",
    "int4": "int4_g32",
    "int4-g32": "int4_g32",
    "flashmla": LATENT_LAYOUT,
}

# Which peaks serve a weight format, best first. A narrower format widens exactly into the next one, so where a
# machine lacks the narrow unit the work runs at the next wider peak.
COMPUTE_CHAIN: dict[str, tuple[str, ...]] = {
    "fp32": ("fp32", "tf32"),
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8", "bf16", "fp16"),
    "int8": ("int8", "bf16", "fp16"),
    "fp4": ("fp4", "fp8", "bf16", "fp16"),
}

ACTIVATION_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of one activation entering a matrix multiplication that computes in this format [B]."""

OUTPUT_BYTES = 2.0
"""Bytes of one activation leaving a matrix multiplication: BF16 [B]."""


def canonical(dtype: str) -> str:
    """The one spelling of a number format; unknown names come back lower-case and are refused by the caller."""
    name = str(dtype).strip().lower()
    return ALIASES.get(name, name)


def compute_format(weight_dtype: str) -> str:
    """The arithmetic a weight format asks for: 4-bit formats compute in fp4, scaled FP8 in fp8, integers likewise."""
    name = canonical(weight_dtype)
    if name.startswith(MIXTURE):
        name = next(iter(mixture_shares(name)))  # most of the work
    if name in ("mxfp4", "nvfp4", "int4_g32", "int4_g64", "int4_g128"):
        return "fp4"
    if name in ("fp8", "fp8_tensor", "mxfp8"):
        return "fp8"
    return name


def _is_mixture(name: str) -> bool:
    try:
        return bool(mixture_shares(name))
    except KeyError:
        return False


@dataclass(frozen=True)
class WeightFormats:
    """Number format of each tensor class of a checkpoint, as published."""

    attention: str = "bf16"
    dense: str = "bf16"
    shared: str = "bf16"
    routed: str = "bf16"
    router: str = "bf16"
    embedding: str = "bf16"
    head: str = "bf16"

    def __post_init__(self) -> None:
        for field in fields(self):
            name = canonical(getattr(self, field.name))
            if name not in WEIGHT_BYTES and not _is_mixture(name):
                raise ValueError(f"weight format of {field.name}: {getattr(self, field.name)!r} is not one of {', '.join(WEIGHT_BYTES)}")
            object.__setattr__(self, field.name, name)

    @classmethod
    def uniform(cls, dtype: str) -> WeightFormats:
        """Every tensor class in one format."""
        return cls(**{field.name: dtype for field in fields(cls)})

    def replace(self, **changes: str) -> WeightFormats:
        """The same formats with some classes changed."""
        return replace(self, **changes)

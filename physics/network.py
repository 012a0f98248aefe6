"""Bytes between accelerators: expert dispatch and combine, tensor-parallel reductions.

The picture: G accelerators share a stage. Tokens live where their attention runs; each goes to its k experts and back.
Source: design notes section 5 (layouts), and the measured all-to-all of GB200 quoted there for the estimate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from physics._numba import formula


@formula
def dispatch_bytes(tokens: Any, accelerators: Any, top_k: Any, width: Any, bytes_per_element: Any) -> Any:
    """Bytes one accelerator sends to the experts of its tokens, one MoE layer [B].

    (T/G) * k * width * element, nothing subtracted for experts that happen to be local. Combine is the same at the
    output element.
    tokens: tokens T of the group [token].
    accelerators: G that share the layer [1].
    top_k: experts per token k [1].
    width: input width of an expert [element].
    bytes_per_element: bytes of one activation [B].

    >>> dispatch_bytes(64, 16, 8, 7168, 1)
    229376.0
    """
    return tokens / accelerators * top_k * width * bytes_per_element


@formula
def remote_frac(accelerators: Any) -> Any:
    """Share of uniformly spread traffic that leaves the accelerator: (G-1)/G [1].

    accelerators: G [1].

    >>> remote_frac(4.0)
    0.75
    """
    return (accelerators - 1.0) / accelerators


@formula
def remote_domains(accelerators: Any, domain: Any, top_k: Any) -> Any:
    """Other scale-up domains one token's experts lie in, expected [domain].

    With N = G/domain domains: (N-1) * (1 - (1 - 1/N)^k); each needs one copy of the token, forwarded inside. 0 if G fits one.
    accelerators: G [1].
    domain: accelerators of a scale-up domain [1].
    top_k: experts per token k [1].

    >>> float(remote_domains(16.0, 8.0, 1.0))
    0.5
    """
    domains = np.maximum(accelerators / domain, 1.0)
    return (domains - 1.0) * (1.0 - (1.0 - 1.0 / domains) ** top_k)


@formula
def reduce_bytes(tokens: Any, accelerators: Any, hidden: Any, bytes_per_element: Any) -> Any:
    """Bytes one accelerator sends in a tensor-parallel all-reduce [B].

    2 * (G-1)/G * T * hidden * element (ring or any bandwidth-optimal algorithm).
    tokens: T [token].
    accelerators: G [1].
    hidden: width of the residual stream [element].
    bytes_per_element: bytes of one activation [B].

    >>> reduce_bytes(64, 8.0, 8192, 2)
    1835008.0
    """
    return 2.0 * (accelerators - 1.0) / accelerators * tokens * hidden * bytes_per_element


@formula
def all_to_all_s(bytes_per_accelerator: Any, bytes_per_s: Any, start_s: Any, floor_s: Any) -> Any:
    """Estimated time of one all-to-all: max(floor, a + bytes/bandwidth) [s].

    bytes_per_accelerator: bytes sent by one accelerator [B].
    bytes_per_s: effective bandwidth [B/s].
    start_s: start-up time a [s].
    floor_s: measured floor [s].

    >>> float(all_to_all_s(0.0, 786e9, 13.9e-6, 19e-6))
    1.9e-05
    """
    return np.maximum(floor_s, start_s + bytes_per_accelerator / bytes_per_s)

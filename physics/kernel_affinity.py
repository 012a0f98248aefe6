"""Which count of experts a measured MoE kernel's time follows at few tokens: expected distinct, min(kT, E), or all E.

At few tokens a kernel is bound by the weights it reads, so its time should be affine in the experts it touches. R^2 of a straight line
through each series says which count that is. The routing is that of the benchmark (AIConfigurator, collector of MoE layers): "balanced"
deals tokens in turn; "power_law_a" gives experts loads with density x^-a on [1, 0.8 T], or [0.01, 2] where kT <= E.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from physics.coincidence import distinct_experts_mean
from physics.experts import distinct_experts_round_robin, distinct_experts_uniform
from physics.inclusion import water_filling

Array = np.ndarray[Any, Any]

SERIES = ("system", "kernel_source", "moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "distribution")
_POWER_LAW = "power_law_"


def power_law_shares(n_experts: int, exponent: float, lowest: float, highest: float) -> Array:
    """Shares of the load at the quantiles of a density x^-a between two loads, lightest first [1].

    n_experts: E [1].
    exponent: a, not 1 [1].
    lowest: smallest load [1].
    highest: largest load [1].

    >>> power_law_shares(2, 2.0, 1.0, 1.0)
    array([0.5, 0.5])
    """
    rise = 1.0 - exponent
    quantiles = (np.arange(n_experts) + 0.5) / n_experts
    loads = ((highest**rise - lowest**rise) * quantiles + lowest**rise) ** (1.0 / rise)
    return np.asarray(loads / loads.sum(), float)


def benchmark_distinct_experts(distribution: str, n_experts: int, top_k: int, tokens: int) -> float:
    """Expected distinct experts of a benchmark's routing, tokens taken as independent [expert].

    distribution: "balanced" (taken as uniform: the expectation that its rows are tested against) or "power_law_<exponent>".
    n_experts: E [1].
    top_k: k [1].
    tokens: T [token].

    >>> round(benchmark_distinct_experts("balanced", 256, 8, 32), 2)
    163.31
    """
    if not distribution.startswith(_POWER_LAW):
        return float(distinct_experts_uniform(n_experts, top_k, tokens))
    limits = (1.0, 0.8 * tokens) if top_k * tokens > n_experts else (0.01, 2.0)
    shares = power_law_shares(n_experts, float(distribution[len(_POWER_LAW) :]), *limits)
    return float(distinct_experts_mean(water_filling(shares, top_k), tokens))


def kernel_affinity(rows: pd.DataFrame, most_tokens: int = 128) -> pd.DataFrame:
    """R^2 of kernel time as a straight line in each count of experts, one row per series of token counts on one accelerator.

    Columns: those of SERIES, points, r2_expected (distinct experts), r2_round_robin (min(kT, E)), r2_all (E: a constant explains none of
    the variation, so 0), and follows, the count with the largest R^2. Rows under expert parallelism are left out: they time the local part.
    rows: columns of SERIES, moe_ep_size, num_tokens, latency_ms.
    most_tokens: largest batch taken as bound by weights [token].
    """
    chosen = rows[(rows["moe_ep_size"] == 1) & (rows["num_tokens"] <= most_tokens)]
    results = [_fit(key, series) for key, series in chosen.groupby(list(SERIES), sort=True) if series["num_tokens"].nunique() > 3]
    frame = pd.DataFrame(results, columns=[*SERIES, "points", "r2_expected", "r2_round_robin", "r2_all"])
    names = {"r2_expected": "expected", "r2_round_robin": "round_robin", "r2_all": "all"}
    frame["follows"] = frame[list(names)].idxmax(axis=1).map(names) if len(frame) else pd.Series(dtype=str)
    return frame


def _fit(key: Any, series: pd.DataFrame) -> tuple[Any, ...]:
    top_k, n_experts, distribution = key[5], key[6], str(key[8])
    tokens, time = series["num_tokens"].to_numpy(float), series["latency_ms"].to_numpy(float)
    expected = np.array([benchmark_distinct_experts(distribution, n_experts, top_k, int(t)) for t in tokens])
    dealt = distinct_experts_round_robin(n_experts, top_k, tokens)
    return (*key, len(series), r_squared(expected, time), r_squared(dealt, time), r_squared(np.full(tokens.size, float(n_experts)), time))


def r_squared(x: Array, y: Array) -> float:
    """Share of the variance of y that a straight line in x explains; 0 where x is constant, NaN where y is [1].

    x: explaining values [1].
    y: values to explain [1].

    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0, 7.0]))
    1.0
    """
    if np.ptp(x) == 0.0:
        return 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        across, along = x - x.mean(), y - y.mean()
        return float((across @ along) ** 2 / ((across @ across) * (along @ along)))

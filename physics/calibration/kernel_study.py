"""Kernels against their bounds: fits with intervals, and errors on models and machines that were left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from physics.calibration import kernel_rows
from physics.calibration.fit import bootstrap, left_out_errors, log_errors
from physics.calibration.kernel_fits import BY_FORMAT, FORMS, POOLED, KernelFits, Scope, family_of, scopes

READERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "expert_kernels": kernel_rows.expert_rows,
    "wide_ep_expert_kernels": kernel_rows.wide_expert_rows,
    "mla_kernels": kernel_rows.mla_rows,
    "glm52_sparse_kernels": kernel_rows.sparse_rows,
    "kda_kernels": kernel_rows.kda_rows,
}
"""Files of measured kernels, and what reads them as work."""
MOST_DRAWN = 3000
"""Most rows of one bootstrap: every n-th of a larger scope."""
LEFT_OUT = ("model", "machine")


@dataclass(frozen=True)
class KernelStudy:
    """What kernels say.

    rows: work and measurement of every mapped row, with log errors by what was left out (`model_error`, `machine_error`), baselines
        and the estimate nobody cheated for (`estimate_s`: the model left out, or else the machine); NaN where it beats the bound.
    fits: parameters by scope. intervals: of each parameter by scope.
    """

    rows: pd.DataFrame
    fits: KernelFits
    intervals: dict[Scope, dict[str, tuple[float, float]]]


def mapped(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Work of every row that maps, of all files.

    frames: files by name, as they are.
    """
    rows = pd.concat([read(frames[name]) for name, read in READERS.items() if name in frames], ignore_index=True)
    rows = rows.assign(family=rows["machine"].map(family_of), group=rows["machine"] + " " + rows["model"])
    return rows.assign(possible=rows["measured_s"] >= rows["bound_s"])


def study(frames: dict[str, pd.DataFrame], draws: int = 12) -> KernelStudy:
    """Fits, intervals and left-out errors of all kernels.

    frames: files by name. draws: fits of each interval [1].
    """
    rows = mapped(frames)
    sound = rows[rows["possible"]]
    fits = KernelFits.of(sound)
    intervals = {scope: _interval(scope, part, draws) for scope, part in scopes(sound).items()}
    return KernelStudy(_with_errors(rows, sound, fits), fits, intervals)


def _interval(scope: Scope, part: pd.DataFrame, draws: int) -> dict[str, tuple[float, float]]:
    thinned = part.iloc[:: max(1, len(part) // MOST_DRAWN)]
    return bootstrap(FORMS[scope.regime], thinned, "group", draws)


def _with_errors(rows: pd.DataFrame, sound: pd.DataFrame, fits: KernelFits) -> pd.DataFrame:
    names = [f"{left}_{kind}" for left in LEFT_OUT for kind in ("error", "baseline")]
    out = pd.DataFrame(np.nan, index=rows.index, columns=names)
    for (family, regime, weights), part in scopes(sound).items():
        if (weights == "") == (regime in BY_FORMAT):
            continue  # each row is judged once, in its narrowest scope
        left = "machine" if family == POOLED else "model"
        error, baseline = left_out_errors(FORMS[regime], part, left, "group")
        out.loc[part.index, f"{left}_error"], out.loc[part.index, f"{left}_baseline"] = error, baseline
    _transfer(out, sound, fits)
    best = out["model_error"].fillna(out["machine_error"])
    return rows.assign(**{name: out[name] for name in names}, estimate_s=rows["measured_s"] / np.exp(best))


def _transfer(out: pd.DataFrame, sound: pd.DataFrame, fits: KernelFits) -> None:
    """Wide expert parallelism was never fitted: it is predicted by the experts of another stack."""
    wide, experts = sound[sound["regime"] == "wide experts"], sound[sound["regime"] == "experts"]
    if wide.empty or experts.empty:
        return
    usual = np.median(np.log(experts["measured_s"] / experts["bound_s"]))
    for (machine, weights), part in wide.groupby(["machine", "format"]):
        scope = fits.scope(str(machine), "experts", str(weights))
        if scope is not None:
            out.loc[part.index, "model_error"] = log_errors(FORMS["experts"], fits.values[scope], part)
            out.loc[part.index, "model_baseline"] = np.log(part["measured_s"] / part["bound_s"]) - usual

"""Serving runs against their bounds: one set of step parameters for all machines, judged on models and machines left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from physics.calibration.fit import bootstrap, fit, group_weights, log_errors
from physics.calibration.forms import SERVING, without_stack
from physics.calibration.kernel_fits import KernelFits, family_of
from physics.calibration.serving_rows import serving_rows, with_kernels

LEFT_OUT = ("model", "machine", "family")
SPOKEN = ("experts", "MLA decode", "MLA prefill")
"""Kernels that a step is made of."""


@dataclass(frozen=True)
class ServingStudy:
    """What serving runs say.

    rows: TPOT and TTFT of every mapped run, with log errors by what was left out, also where the stack is not known
        (`*_error_any_stack`), baselines and the estimate with the model left out; NaN where it beats the bound.
    values: parameters of `forms.SERVING`. intervals: of each.
    """

    rows: pd.DataFrame
    values: dict[str, float]
    intervals: dict[str, tuple[float, float]]


def study(frame: pd.DataFrame, kernels: pd.DataFrame, fits: KernelFits, draws: int = 12) -> ServingStudy:
    """Fit, intervals and left-out errors of serving runs.

    frame: the file `serving_runs` as it is. kernels: rows of `kernel_study.mapped`. fits: of all kernels.
    draws: fits of the intervals [1].
    """
    rows = serving_rows(frame)
    rows = rows.assign(family=rows["machine"].map(family_of), group=rows["machine"] + " " + rows["model"])
    rows = rows.assign(possible=rows["measured_s"] >= rows["bound_s"])
    sound, all_kernels = rows[rows["possible"]], kernels[kernels["possible"]]
    full = with_kernels(sound, fits)
    out = pd.DataFrame(index=rows.index)
    for left in LEFT_OUT:
        for name, column in _errors(sound, all_kernels, left).items():
            out[name] = column
    rows = rows.join(out).assign(estimate_s=rows["measured_s"] / np.exp(out["model_error"]))
    return ServingStudy(rows, fit(SERVING, full, group_weights(full["group"])), bootstrap(SERVING, full, "group", draws))


def _errors(sound: pd.DataFrame, kernels: pd.DataFrame, left: str) -> dict[str, pd.Series]:
    """Errors of each row when its model, machine or machine family was seen neither in serving runs nor in kernels."""
    names = [f"{left}_error", f"{left}_error_any_stack", f"{left}_baseline"]
    out = {name: pd.Series(np.nan, index=sound.index) for name in names}
    for key in sorted(sound[left].unique()):
        lookup = KernelFits.of(kernels_without(kernels, left, key), SPOKEN)
        seen = with_kernels(sound[sound[left] != key], lookup)
        unseen = with_kernels(sound[sound[left] == key], lookup)
        values = fit(SERVING, seen, group_weights(seen["group"]))
        out[names[0]][unseen.index] = log_errors(SERVING, values, unseen)
        out[names[1]][unseen.index] = log_errors(SERVING, without_stack(values), unseen)
        for regime, part in unseen.groupby("regime"):
            usual = seen[seen["regime"] == regime]
            constant = np.median(np.log(usual["measured_s"] / usual["bound_s"]))
            out[names[2]][part.index] = np.log(part["measured_s"] / part["bound_s"]) - constant
    return out


def kernels_without(kernels: pd.DataFrame, left: str, key: str) -> pd.DataFrame:
    """Kernel rows that know nothing of a model or machine. The MLA modules are DeepSeek-V3's, whatever their heads.

    kernels: rows. left: of LEFT_OUT. key: which one is left out.
    """
    column = kernels["model"].where(~kernels["regime"].str.startswith("MLA"), "DeepSeek-V3") if left == "model" else kernels[left]
    return kernels[column != key]

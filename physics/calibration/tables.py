"""What calibration leaves in `data/`: fitted values with intervals, errors on left-out data, findings, coverage, a sample of points.

The measured files themselves stay where they are; every table says which of their rows it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from physics.calibration.forms import SERVING
from physics.calibration.kernel_fits import FORMS, POOLED, Scope, scopes
from physics.calibration.kernel_study import KernelStudy
from physics.calibration.serving_rows import reasons as reasons_of_runs
from physics.calibration.serving_study import LEFT_OUT, ServingStudy

SOURCE = "aiconfigurator-measured"
MOST_POINTS = 1900
DIGITS = 4

GOALS = {"experts": 0.20, "MLA decode": 0.15, "midfill attention": 0.25, "TPOT": 0.25, "TTFT": 0.30, "TTFT, stack unknown": 0.30}
"""Median |log ratio| on left-out data that was asked for."""
TOGETHER = {"midfill attention": ("sparse attention midfill", "indexer midfill")}
"""Regimes that are also judged together."""


def rounded(value: float) -> float:
    """A number with the digits the tables keep [as it is]."""
    return float(f"{value:.{DIGITS}g}")


# ---------------------------------------------------------------- fitted values


def efficiencies(kernels: KernelStudy, serving: ServingStudy, date: str) -> pd.DataFrame:
    """One row per fitted parameter: family, regime, format, value, interval, and the rows it rests on.

    kernels, serving: what was found. date: of the fit, ISO.
    """
    sound = scopes(kernels.rows[kernels.rows["possible"]])
    rows = [row for scope, values in kernels.fits.values.items() for row in _fitted(scope, values, kernels.intervals[scope], sound[scope])]
    steps = serving.rows[serving.rows["possible"]]
    form = Scope(POOLED, "serving", "")
    rows += list(_fitted(form, serving.values, serving.intervals, steps)) + list(_spreads(steps))
    return pd.DataFrame(rows).assign(source=SOURCE, confidence="derived", date=date)


def _fitted(scope: Scope, values: Any, intervals: Any, part: pd.DataFrame) -> Iterator[dict[str, Any]]:
    form = FORMS.get(scope.regime, SERVING)
    for parameter in form.parameters:
        low, high = intervals[parameter.name]
        yield _row(scope, parameter.name, parameter.unit, values[parameter.name], low, high, part)


def _row(scope: Scope, name: str, unit: str, value: float, low: float, high: float, part: pd.DataFrame) -> dict[str, Any]:
    files = "; ".join(f"{name} ({len(rows)} rows)" for name, rows in part.groupby("dataset"))
    return {
        "family": scope.family, "regime": scope.regime, "format": scope.format, "parameter": name, "value": rounded(value), "unit": unit,
        "low": rounded(min(low, value)), "high": rounded(max(high, value)), "groups": part["group"].nunique(), "source_rows": files,
    }  # fmt: skip


def _spreads(steps: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Where four of five left-out measurements lay, as a ratio to their estimate: of a model and of a family left out."""
    for regime, part in steps.groupby("regime"):
        for family, column in (("measured families", "model_error_any_stack"), (POOLED, "family_error_any_stack")):
            error = part[column].dropna()
            for name, share in (("ratio_low", 0.1), ("ratio_high", 0.9)):
                value = float(np.exp(error.quantile(share)))
                yield _row(Scope(family, str(regime), ""), name, "1", value, value, value, part.loc[error.index])


# ---------------------------------------------------------------- errors, findings, coverage


def errors(kernels: KernelStudy, serving: ServingStudy) -> pd.DataFrame:
    """Median and 90th percentile of |log(measured / estimate)| on left-out data, by regime and machine, beside the baseline's.

    kernels, serving: what was found.
    """
    rows: list[dict[str, Any]] = []
    for regime, part in _judged(kernels, serving):
        for left in [name for name in LEFT_OUT if f"{name}_error" in part]:
            rows += _error_rows(regime, left, part)
    return pd.DataFrame(rows)


def _judged(kernels: KernelStudy, serving: ServingStudy) -> Iterable[tuple[str, pd.DataFrame]]:
    for regime, part in kernels.rows.groupby("regime"):
        yield str(regime), part
    for regime, members in TOGETHER.items():
        yield regime, kernels.rows[kernels.rows["regime"].isin(members)]
    for regime, part in serving.rows.groupby("regime"):
        yield str(regime), part
    late = serving.rows[serving.rows["regime"] == "TTFT"]
    renamed = {f"{left}_error_any_stack": f"{left}_error" for left in LEFT_OUT}
    yield "TTFT, stack unknown", late.drop(columns=list(renamed.values())).rename(columns=renamed)


def _error_rows(regime: str, left: str, part: pd.DataFrame) -> list[dict[str, Any]]:
    error = part[f"{left}_error"].abs()
    found = []
    for machine in ("all", *sorted(part["machine"].unique())):
        here = error.notna() if machine == "all" else error.notna() & (part["machine"] == machine)
        if not here.any():
            continue
        size, usual = error[here], part.loc[here, f"{left}_baseline"].abs()
        numbers = (size.median(), size.quantile(0.9), usual.median(), usual.quantile(0.9))
        names = ("median", "p90", "baseline_median", "baseline_p90")
        found.append(
            {"regime": regime, "left_out": left, "machine": machine, "rows": int(here.sum()), "groups": part.loc[here, left].nunique()}
            | {name: rounded(float(number)) for name, number in zip(names, numbers, strict=True)}
            | {"goal": GOALS.get(regime, np.nan)}
        )
    return found


def reason(row: Any) -> str:
    """What may explain a row that is faster than its bound.

    row: of a study's rows.
    """
    reasons = {
        "experts": "fewer experts awake: ties decide",
        "wide experts": "fewer experts awake than taken",
        "MLA decode": "FP8 scores, though labelled BF16",
        "KDA decode": "state partly cached on the chip",
        "TPOT": "drafts, or a wrong label",
        "TTFT": "a wrong label",
    }
    return reasons.get(row.regime, "entries chosen twice, read once")


def findings(kernels: KernelStudy, serving: ServingStudy) -> pd.DataFrame:
    """Rows faster than their bound; no fit has seen them.

    kernels, serving: what was found.
    """
    columns = ["dataset", "regime", "machine", "model", "format", "label", "measured_s", "bound_s"]
    both = pd.concat([study.rows[~study.rows["possible"]] for study in (kernels, serving)], ignore_index=True)
    listed = both[columns].assign(
        ratio=(both["measured_s"] / both["bound_s"]).map(rounded), reason=[reason(row) for row in both.itertuples()]
    )
    listed = listed.assign(**{name: listed[name].map(rounded) for name in ("measured_s", "bound_s")})
    return listed.sort_values(["dataset", "machine", "ratio", "model", "format", "label"], ignore_index=True)


def coverage(frames: dict[str, pd.DataFrame], kernels: KernelStudy, serving: ServingStudy) -> pd.DataFrame:
    """What became of the rows of each file: fitted, shown with a bound only, faster than the bound, or not mapped and why.

    frames: files as they are. kernels, serving: what was found.
    """
    rows: list[tuple[str, str, int]] = []
    both = pd.concat([kernels.rows, serving.rows[~serving.rows["is_ttft"]]], ignore_index=True)
    for name, frame in frames.items():
        mine = both[both["dataset"] == name]
        fast = ~mine["possible"]
        fitted = mine["regime"].isin([*FORMS, "TPOT"]) & ~fast
        rows += [(name, "fitted", int(fitted.sum())), (name, "faster than the bound", int(fast.sum()))]
        rows += [(name, "bound and transfer only", int((~fitted & ~fast).sum()))]
        rows += [(name, f"not mapped: {why}", count) for why, count in _unmapped(name, frame)]
    return pd.DataFrame(rows, columns=["file", "outcome", "rows"]).query("rows > 0").reset_index(drop=True)


def _unmapped(name: str, frame: pd.DataFrame) -> list[tuple[str, int]]:
    if name == "serving_runs":
        return [(str(why), int(count)) for why, count in reasons_of_runs(frame).value_counts().sort_index().items() if why]
    if name == "glm52_sparse_kernels":
        top = frame[frame["op_name"] == "glm5_topk_module"]
        zero = int((top["latency_ms"] == 0).sum())
        return [("selection of the top k, zero seconds recorded", zero), ("selection of the top k", len(top) - zero)]
    if name == "kda_kernels":
        convolution = frame["kernel_source"].str.startswith("causal_conv1d")
        verify = ~convolution & (frame["phase"] == "verify")
        return [("convolution alone", int(convolution.sum())), ("verification of drafts", int(verify.sum()))]
    if name == "wide_ep_expert_kernels":
        return [
            ("load of the rank not told by the tokens that reach it", int((frame["rank0_num_tokens"] > 0.95 * frame["num_tokens"]).sum()))
        ]
    return []


# ---------------------------------------------------------------- points


def points(kernels: KernelStudy, serving: ServingStudy) -> pd.DataFrame:
    """A sample of the rows for pictures: evenly spread over the measured times of every regime and machine.

    kernels, serving: what was found; `estimate_s` is that of a fit which has not seen the row's model, or else its machine.
    """
    columns = ["regime", "machine", "model", "format", "label", "measured_s", "bound_s", "estimate_s"]
    both = pd.concat([kernels.rows, serving.rows], ignore_index=True)
    both = both.sort_values(["measured_s", "label", "model", "format"], ignore_index=True)
    parts = [part for _, part in both.groupby(["regime", "machine"])]
    room = MOST_POINTS // len(parts)
    chosen = pd.concat([part.iloc[np.unique(np.linspace(0, len(part) - 1, min(room, len(part))).astype(int))] for part in parts])
    kept = chosen[columns].assign(**{name: chosen[name].map(rounded) for name in ("measured_s", "bound_s", "estimate_s")})
    return kept.sort_values(["regime", "machine", "measured_s", "label", "model", "format"], ignore_index=True)

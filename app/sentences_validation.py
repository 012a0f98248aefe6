"""The answers of the Validation page in words."""

from __future__ import annotations

from app import validation
from app.quantities import DASH
from app.sentences import bold, first_share, listed
from app.state import Snapshot
from physics.calibrated import ALL


def scatter(s: Snapshot) -> str:
    """What is shown, and how far the estimates are from the measurements."""
    table = validation.points(s).dropna(subset=["measured_s"])
    if table.empty:
        return "Nothing was measured for this choice: set a filter back to all."
    ratio = (table["measured_s"] / table["estimate_s"]).dropna()
    shown = f"{bold(f'{len(table):,}')} measurements{_where(s)}"
    if ratio.empty:
        return f"The picture shows {shown}. No estimate is fitted to them, so only their bound is drawn."
    near = first_share(float(((ratio > 1 / 1.35) & (ratio < 1.35)).mean()))
    return (
        f"{near} of the {shown} drawn here lie within a third of their estimate (dashed lines), which was fitted without their model. "
        "They are a sample of all rows."
    )


def _where(s: Snapshot) -> str:
    chosen = [value for value in (s.choices.measured_regime, s.choices.measured_machine, s.choices.measured_model) if value != ALL]
    return f" of {', '.join(chosen)}" if chosen else ""


def errors(_s: Snapshot) -> str:
    """Which goals are met on models and machines that were left out."""
    table = validation.frame("calibration_errors")
    judged = table[(table["machine"] == "all") & table["goal"].notna() & table["left_out"].isin(["model", "machine"])]
    judged = judged[judged["regime"] != "TTFT, stack unknown"]
    met = [name for name, part in judged.groupby("regime", sort=False) if (part["median"] <= part["goal"]).all()]
    part_met = [name for name, part in judged.groupby("regime", sort=False) if name not in met and (part["median"] <= part["goal"]).any()]
    missed = [name for name, _ in judged.groupby("regime", sort=False) if name not in met and name not in part_met]
    family = table[(table["machine"] == "all") & (table["left_out"] == "family") & table["regime"].isin(met)]
    apart = [str(name) for name in family.loc[family["median"] > family["goal"], "regime"]]
    met = ["TTFT where the stack is known" if name == "TTFT" else str(name) for name in met]
    words = [f"The goals (upright bars) are met for {bold(listed([str(name) for name in met]))}."]
    words += (
        [f"For {bold(listed([str(name) for name in part_met]))} they are met on a new model, not on a new machine."] if part_met else []
    )
    words += [f"A machine of a new family misses the one for {bold(listed(apart))}."] if apart else []
    words += [f"They are missed for {bold(listed([str(name) for name in missed]))}."] if missed else []
    marks = "Circles: fitted without the model; diamonds: without the machine; hollow: one constant ratio per regime instead of a fit."
    return f"{' '.join(words)} {marks}"


def findings(s: Snapshot) -> str:
    """How many rows no machine of this data sheet could have made."""
    table, count = validation.findings(s), len(validation.frame("calibration_findings"))
    if table.empty:
        return f"None of the {bold(f'{count:,}')} impossible rows is of this choice."
    few = f"the {EACH} fastest of each regime are listed, all are in the CSV"
    return f"{bold(f'{len(table):,}')} measured rows are faster than the data sheet allows; {few}. No fit has seen them."


EACH, SHOWN = 4, 20
"""Rows of the table of findings: of each regime, and in all."""


def fitted(s: Snapshot) -> str:
    """What the fitted values rest on."""
    return f"For {bold(s.scenario.machine.name)}: {validation.basis(s)} Intervals: fits to models and machines drawn anew."


def published(s: Snapshot) -> str:
    """How many published results lie inside the interval of their estimate."""
    table = validation.results(s)
    if table.empty:
        return "No published result is of this choice."
    inside = ((table["measured_s"] >= table["estimate_low_s"]) & (table["measured_s"] <= table["estimate_high_s"])).sum()
    held = f"{bold(str(inside))} of {bold(str(len(table)))} lie inside the estimate's interval, which is made for four of five."
    return f"{held} Nothing here was fitted."


def coverage(_s: Snapshot) -> str:
    """How many measured rows were used."""
    table = validation.frame("calibration_coverage")
    fitted_rows, total = int(table.loc[table["outcome"] == "fitted", "rows"].sum()), int(table["rows"].sum())
    return f"{bold(f'{fitted_rows:,}')} of {bold(f'{total:,}')} measured rows went into the fits." if total else DASH

"""Measurements against bounds: what real kernels and servers reach, how well that predicts what was left out, and what cannot be.

`calibrate` takes the measured files as frames and gives the tables of `data/`; `python -m app calibrate` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from physics.calibration import kernel_study, serving_study, tables

FILES = (*kernel_study.READERS, "serving_runs")
"""Measured files, without their ending."""


def calibrate(frames: Mapping[str, pd.DataFrame], date: str, draws: int = 12) -> dict[str, pd.DataFrame]:
    """Tables of `data/` by file name, from all measured files.

    frames: files of FILES by name, as they are. date: of the fit, ISO. draws: fits of each interval [1].
    Raises ValueError naming a file that is missing.
    """
    missing = [name for name in FILES if name not in frames]
    if missing:
        raise ValueError(f"calibration: {missing[0]} is missing; it needs {', '.join(FILES)}")
    given = {name: frames[name] for name in FILES}
    kernels = kernel_study.study(given, draws)
    serving = serving_study.study(given["serving_runs"], kernels.rows, kernels.fits, draws)
    return {
        "efficiencies": tables.efficiencies(kernels, serving, date),
        "calibration_errors": tables.errors(kernels, serving),
        "calibration_findings": tables.findings(kernels, serving),
        "calibration_coverage": tables.coverage(given, kernels, serving),
        "calibration_points": tables.points(kernels, serving),
    }

"""`python -m app calibrate`: fit efficiencies to measured kernels and serving runs, and write the tables of `data/`.

Run again on the same files it writes the same bytes: the date stays as long as the numbers do.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

import pandas as pd

from physics.calibration import FILES, calibrate
from physics.catalog import DATA

MEASURED = DATA.parent.parent / "shared" / "measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: where the measured files lie, where tables go, and the date they carry."""
    parser.add_argument("--measured", type=Path, default=MEASURED, help="folder of the measured files, default ../shared/measured")
    parser.add_argument("--output", type=Path, default=DATA, help="folder the tables are written to, default data/")
    parser.add_argument("--date", type=datetime.date.fromisoformat, help="date of the fitted values; default the one they have, or today")


def _read(folder: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(folder / f"{name}.csv.gz") for name in FILES}


def _text(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False, lineterminator="\n"))


def _dated(table: pd.DataFrame, path: Path, date: datetime.date | None) -> pd.DataFrame:
    """The table with the date asked for, else the date of the file where its numbers are the same, else today's."""
    if date is not None or not path.exists():
        return table.assign(date=str(date or datetime.date.today()))
    before = pd.read_csv(path, keep_default_na=False)
    kept = table.assign(date=before["date"].iloc[0] if len(before) else "")
    return kept if _text(kept) == path.read_text(encoding="utf-8") else table.assign(date=str(datetime.date.today()))


def run(arguments: argparse.Namespace) -> int:
    """Read, fit, write; 0 unless a file is missing."""
    missing = [name for name in FILES if not (arguments.measured / f"{name}.csv.gz").is_file()]
    if missing:
        print(f"{arguments.measured} has no {missing[0]}.csv.gz: give the folder of the measured files with --measured.", file=sys.stderr)
        return 2
    start = time.monotonic()
    for name, table in calibrate(_read(arguments.measured), date="").items():
        path = arguments.output / f"{name}.csv"
        dated = _dated(table, path, arguments.date) if "date" in table else table
        changed = not path.exists() or path.read_text(encoding="utf-8") != _text(dated)
        path.write_text(_text(dated), encoding="utf-8", newline="")
        print(f"{path.name}: {len(table)} rows{'' if changed else ', as before'}")
    print(f"fitted in {time.monotonic() - start:.0f} s")
    return 0

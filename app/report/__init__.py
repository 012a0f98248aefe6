"""One offline HTML file that still answers: `python -m app report`, the Export button, and `write` for notebooks and scripts.

All states its four sliders can reach are computed before it is written, by the functions the app draws with; the script in the
file only looks them up. Heavy modules are imported when a report is made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.state import Snapshot

MOST_STATES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--preset", action="append", default=[], metavar="NAME", help="a preset by name; the opening one where nothing is said"
    )
    parser.add_argument(
        "--state", action="append", default=[], metavar="QUERY", help="a state as the app's address holds it, '?preset=…&batch=8'"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("midfill.html"), metavar="FILE", help="where to write (default: %(default)s)"
    )
    parser.epilog = f"Several --preset or --state stand side by side, {MOST_STATES} at most."


def run(arguments: argparse.Namespace) -> int:
    """Write the report; 2 with one sentence where the state or the file cannot be used."""
    from app.report.apart import hurried

    start = time.monotonic()
    try:
        _check_writable(arguments.output)
        with hurried():
            _write_asked(arguments)
    except (ValueError, KeyError) as problem:
        print(f"report: {problem.args[0]}", file=sys.stderr)
        return 2
    size = arguments.output.stat().st_size / 1e6
    print(f"{arguments.output}: {size:.2f} MB in {time.monotonic() - start:.1f} s")
    return 0


def _write_asked(arguments: argparse.Namespace) -> None:
    """Write the report of a command line. A link with a bad field opens with the rest of it; a file nobody asked for is not written."""
    from app.report.page import opened

    snapshots, notices = opened(arguments.preset, arguments.state)
    if notices:
        faults = "; ".join(notice.rpartition("; ")[0].removeprefix("The link's ") for notice in notices)
        raise ValueError(f"--state: {faults}; nothing was written: mend or leave out what is wrong")
    write(arguments.output, *snapshots, command=command(arguments))


def _check_writable(path: Path) -> None:
    """Say at once what would otherwise be found out after all is computed."""
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"{folder} is no folder to write in"
        raise ValueError(f"{path} cannot be written ({why}); name another file with -o")


def command(arguments: argparse.Namespace) -> str:
    """The command line that was given, as a shell reads it."""
    words = [word for preset in arguments.preset for word in ("--preset", preset)]
    words += [word for state in arguments.state for word in ("--state", state)]
    return shlex.join(["python", "-m", "app", "report", *words, "-o", str(arguments.output)])


def write(path: str | Path, *snapshots: Snapshot, notices: Sequence[str] = (), command: str = "") -> Path:
    """Write one report of one or more snapshots side by side, for example `explorer.snapshot`.

    notices: sentences to show at its top. command: the shell line that made it; empty: the one that would.
    Raises ValueError for no snapshot, or more than MOST_STATES.
    """
    from app.report.page import html

    target = Path(path)
    target.write_text(html(snapshots, notices, command), encoding="utf-8")
    return target

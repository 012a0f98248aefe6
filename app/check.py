"""`python -m app check`: what continuous integration runs, step by step, with one exit code.

Every step runs even if an earlier one failed. Unit tests share the cores. Browser and notebook tests run apart, one by one
and last: they keep an event loop running, measure times, and start processes of their own.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("panel", "numba", "pytest", "hypothesis", "playwright", "pytest_playwright", "xdist", "nbclient", "ruff", "mypy", "importlinter")
PARALLEL = ("-n", "logical", "--maxprocesses", "4", "--dist", "worksteal")
"""At most four: each process has imports, memory and module fixtures of its own."""
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


class Step(NamedTuple):
    """One tool of the check and the arguments Python runs it with."""

    name: str
    arguments: tuple[str, ...]
    fast: bool = True


STEPS = (
    Step("lint", ("-m", "ruff", "check", ".")),
    Step("format", ("-m", "ruff", "format", "--check", ".")),
    Step("types", ("-m", "mypy")),
    Step("imports", ("-c", LINT_IMPORTS)),
    Step("tests", ("-m", "pytest", *PARALLEL, "-m", "not browser and not notebook")),
    Step("browser", ("-m", "pytest", "-m", "browser or notebook"), fast=False),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command: everything, everything fast, or named steps."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--fast", action="store_true", help="without browser and notebook tests")
    choice.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], metavar="STEP", help="%(choices)s")


def missing_packages() -> list[str]:
    """Import names of what the check needs and this Python does not have."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def chosen_steps(fast: bool, only: list[str] | None) -> Iterator[Step]:
    """Steps to run, in order."""
    for step in STEPS:
        if step.name in only if only else step.fast or not fast:
            yield step


def passes(step: Step) -> bool:
    """Run one step in the project root, its output going straight to the terminal."""
    print(f"\n== {step.name}: python {' '.join(step.arguments)}", flush=True)
    start = time.monotonic()
    ended = subprocess.run([sys.executable, *step.arguments], cwd=ROOT, check=False).returncode
    if ended or not step.arguments[1].startswith("pytest"):  # pytest says its own time, and its summary stays the last line
        print(f"{'passed' if not ended else 'FAILED'} in {time.monotonic() - start:.1f} s", flush=True)
    return ended == 0


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen steps, name those that failed, and give 0 only if none did."""
    if not (ROOT / "tests").is_dir():
        print(f"`check` tests a clone of the repository, and {ROOT} is not one: run it there.", file=sys.stderr)
        return 2
    if missing := missing_packages():
        print(
            f"{sys.executable} lacks {', '.join(missing)}: use the project's .venv, "
            "or install with `python -m pip install -c .ci/constraints.txt -e '.[test]'`.",
            file=sys.stderr,
        )
        return 2
    failed = [step.name for step in chosen_steps(arguments.fast, arguments.only) if not passes(step)]
    if failed:
        print(f"\nFAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0

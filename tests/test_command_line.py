"""`python -m app`: the right steps, one clear sentence when something is missing, one exit code."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from app import __main__ as command_line
from app import check


def arguments(*words: str) -> argparse.Namespace:
    return command_line.build_parser("check").parse_args(["check", *words])


def names(*words: str) -> list[str]:
    chosen = arguments(*words)
    return [step.name for step in check.chosen_steps(chosen.fast, chosen.only)]


def test_everything_runs_by_default() -> None:
    assert names() == ["lint", "format", "types", "imports", "tests", "browser"]


def test_fast_leaves_out_what_is_slow_and_nothing_else() -> None:
    assert names("--fast") == ["lint", "format", "types", "imports", "tests"]


def test_named_steps_run_alone_in_their_order() -> None:
    assert names("--only", "types", "lint") == ["lint", "types"]


def test_marks_of_the_two_test_steps_leave_no_test_out() -> None:
    marks = {step.name: step.arguments[-1] for step in check.STEPS}
    assert marks["tests"] == "not browser and not notebook"
    assert marks["browser"] == "browser or notebook"


def test_one_failure_fails_the_run_and_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    steps = (check.Step("good", ("-c", "pass")), check.Step("bad", ("-c", "raise SystemExit(3)")), check.Step("after", ("-c", "pass")))
    monkeypatch.setattr(check, "STEPS", steps)
    assert check.run(argparse.Namespace(fast=False, only=None)) == 1
    said = capsys.readouterr()
    assert said.err.strip() == "FAILED: bad"
    assert "== after" in said.out


def test_missing_test_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "NEEDED", ("pytest", "no_such_package"))
    assert check.run(arguments()) == 2
    said = capsys.readouterr().err
    assert "lacks no_such_package: use the project's .venv, or install with" in said
    assert said.count("\n") == 1


def test_other_python_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 14, 0, "final", 0))
    assert command_line.main(["check"]) == 2
    assert capsys.readouterr().err.startswith("Midfill needs Python 3.11 to 3.13; this is ")


def test_unknown_command_lists_the_known_ones() -> None:
    ended = subprocess.run([sys.executable, "-m", "app", "chekc"], cwd=check.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "check" in ended.stderr.replace("chekc", "")


@pytest.mark.parametrize("name", sorted(command_line.COMMANDS))
def test_every_command_has_help_and_is_imported_alone(name: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "app", name, "--help"], cwd=check.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert command_line.COMMANDS[name] in " ".join(ended.stdout.split())

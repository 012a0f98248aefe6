"""The house is built as drawn: arrows between modules, the fixed top level, small files, nothing of one machine in the text."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = {"pyproject.toml", "README.md", "app", "physics", "notebooks", "data", "tests"}
TOP_LEVEL |= {".ci", "benchmarks", "CHANGELOG.md", "LICENSE", ".gitignore"}
MAX_LINES = 420
TEXT = {".py", ".md", ".toml", ".csv", ".json", ".txt", ".ipynb", ".css", ".js", ".html", ".svg", ".yaml", ".yml", ""}

MAY_TOUCH_FILES = {"_numba", "catalog", "readers", "huggingface"}
FILE_CALLS = {
    "open",
    "read_text",
    "write_text",
    "read_bytes",
    "write_bytes",
    "read_csv",
    "read_json",
    "to_csv",
    "loadtxt",
    "savetxt",
    "mkdir",
}
NO_PANEL = ("state.py", "picture.py", "plots.py", "plots/*.py")

# Spelled in parts, so that this file passes its own test.
HOSTS = ("pypi" + ".org", "files.python" + "hosted", "registry." + "npmjs", "deb." + "debian", "archive." + "ubuntu", "proxy." + "golang")
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root|home|Users|opt|tmp/bash)(?:/[\w.-]+)+")


def tracked_files() -> list[Path]:
    """Files under version control (all files, in an unpacked archive), as paths from the root."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return [Path(line) for line in listing.stdout.splitlines() if (ROOT / line).exists()]
    return [p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file() and ".venv" not in p.parts and "__pycache__" not in p.parts]


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_import_contracts() -> None:
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_logo=True) == 0, "run `lint-imports` to see the broken arrow"


def test_top_level_holds_only_what_belongs_there() -> None:
    assert {path.parts[0] for path in tracked_files()} <= TOP_LEVEL


@pytest.mark.parametrize("folder", ["app", "physics", "tests", "benchmarks"])
def test_files_stay_readable(folder: str) -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in python_files(folder)}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}


def test_no_registry_and_no_path_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        if path.suffix in TEXT:
            text = (ROOT / path).read_text(encoding="utf-8")
            found += [f"{path}: {host}" for host in HOSTS if host in text]
            found += [f"{path}: {match}" for match in MACHINE_PATH.findall(text)]
    assert not found


def _calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@pytest.mark.parametrize("path", python_files("physics"), ids=lambda path: path.stem)
def test_physics_prints_nothing_and_reads_files_only_where_it_may(path: Path) -> None:
    called = set(_calls(path))
    assert "print" not in called
    if path.stem not in MAY_TOUCH_FILES:
        assert not called & FILE_CALLS


@pytest.mark.parametrize("pattern", NO_PANEL)
def test_state_and_plots_import_no_panel(pattern: str) -> None:
    for path in (ROOT / "app").glob(pattern):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        imported = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not [line for line in imported if re.search(r"\bpanel", line)], path.name


def test_physics_asserts_nothing_at_run_time() -> None:
    """Input is refused with a ValueError that names it; an assert vanishes under `python -O`."""
    found = [p.name for p in python_files("physics") for node in ast.walk(ast.parse(p.read_text("utf-8"))) if isinstance(node, ast.Assert)]
    assert not found


def test_ci_script_can_be_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


def test_constraints_pin_every_dependency_once() -> None:
    lines = [line for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert all("==" in line for line in lines)
    assert len(set(names)) == len(names)
    assert {"panel", "bokeh", "holoviews", "numpy", "pandas", "numba", "param", "pytest", "playwright", "ruff", "mypy"} <= set(names)

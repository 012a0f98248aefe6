"""Where compiled kernels are kept: read-only installs, homes that are none, and the sentence that says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from physics import _numba

ROOT = Path(__file__).parents[1]
# Two small kernels are compiled, not all of them.
PROGRAM = "import physics; from physics import _numba; physics.replicated_placement([0.5, 0.5], 2, 3); print(_numba.cache_folder())"


@pytest.fixture
def no_folder(tmp_path: Path) -> str:
    """A path that nobody can make a folder of, not even root: it lies in a file."""
    (tmp_path / "file").write_text("")
    return str(tmp_path / "file" / "cache")


def test_a_read_only_install_keeps_its_kernels_elsewhere(tmp_path: Path, no_folder: str) -> None:
    """Copied package, nothing writable in it, neither home nor NUMBA_CACHE_DIR are folders: the temporary folder holds the kernels."""
    install, scratch = tmp_path / "install", tmp_path / "scratch"
    scratch.mkdir()
    for name in ("physics", "data"):
        shutil.copytree(ROOT / name, install / name, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(install.rglob("*"))
    for path in (install, *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    environment = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "NUMBA_DISABLE_JIT")}
    environment |= {"HOME": no_folder, "NUMBA_CACHE_DIR": no_folder, "TMPDIR": str(scratch), "PYTHONPATH": str(install)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=install, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip().startswith(str(scratch))
    assert {path.name.split("-")[0] for path in scratch.rglob("*.nbi")} == {"stragglers._packed", "stragglers._replicas"}
    assert sorted(install.rglob("*")) == before


def test_without_any_folder_kernels_are_not_kept(monkeypatch: pytest.MonkeyPatch, no_folder: str) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, no_folder)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: no_folder)
    with pytest.warns(UserWarning, match="compile anew in every process"):
        assert _numba.cache_folder() is None


def test_a_temporary_folder_that_somebody_else_made_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_folder: str) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, no_folder)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    assert str(_numba.cache_folder()).startswith(str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    (tmp_path / "midfill-12345").mkdir()  # ours, not the other user's
    with pytest.warns(UserWarning, match="no writable folder"):
        assert _numba.cache_folder() is None


def test_the_first_start_says_that_it_compiles_and_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_numba, "_CACHE_FOLDER", str(tmp_path))
    assert str(tmp_path) in _numba.compiling_note()
    (tmp_path / "physics_0").mkdir()
    (tmp_path / "physics_0" / "kernels.evaluate-310.py311.nbi").write_bytes(b"")
    assert _numba.compiling_note() == ""
    monkeypatch.setattr(_numba, "_CACHE_FOLDER", None)
    assert "every process" in _numba.compiling_note()
